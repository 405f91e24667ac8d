/* fields.h - reads a request's fields by one table of kinds, ranges and defaults. hs_field_at (api.h) returns
 * its rows. */
#pragma once

#include "api/analysis_request.h"

/* Sets *ret_analysis to the model's defaults. */
void hs__fields_default(const hs__served_model *model, hs__analysis_request *ret_analysis);

/* Reads every field of the body except `model`, in the table's order, over the defaults. */
int hs__fields_read(const hs__served_model *model, json_t *body, hs__analysis_request *ret_analysis,
                    hs__problem *problem);

/* Refuses the value at a pointer with 422 if the checkpoint has no masked-language-model head. */
int hs__predictor_check(const hs__served_model *model, const char *pointer, hs__problem *problem);
