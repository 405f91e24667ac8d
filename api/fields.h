/* fields.h - the fields of a request, from one table: how each is read, what it may be, what it is by
 * default. The table itself is walked through hs_field_at of api.h. */
#pragma once

#include "api/analysis_request.h"

/* Puts the defaults of the model into *ret_wanted. */
void hs__fields_default(const hs__served_model *model, hs__analysis_request *ret_wanted);

/* Reads every field of the body but model, in the table's order, on top of the defaults. */
int hs__fields_read(const hs__served_model *model, json_t *body, hs__analysis_request *ret_wanted,
                    hs__problem *problem);

/* 422: "threshold must be a number in (0, 1]; it is 2". */
int hs__refuse_value(hs__problem *problem, const char *pointer, const json_t *value, const char *must);
