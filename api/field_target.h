/* field_target.h - the field target: the number that effects and changes follow
 * (engine/analysis/predictions.h).
 */
#pragma once

#include "api/answer.h"

/* Reads {"class": ...}, {"token": ...}, {"tokens": [a, b]}, {"span": [a, b]}, {"loss": true} or {"embedding":
 * true}, with "position" where it applies, into analysis->target. */
int hs__target_read(const hs__served_model *model, const json_t *value, hs__analysis_request *analysis,
                    hs__problem *problem);

/* Refuses positions beyond the text's tokens, and a loss of a text of one token. */
int hs__target_check(const hs__analysis_request *analysis, size_t n_tokens, hs__problem *problem);

/* Returns true if the request has a target: the one that it names, or the predicted class of a text. */
bool hs__target_exists(const hs__analysis_request *analysis, const hs_architecture *architecture);

/* Finds the answer's target; kind NONE if there is none. states [T][H] are the baseline's last ones, which
 * the predicted class is read from; NULL: any class stands for it. */
HS_MUST_USE hs_status hs__target_find(const hs__answer *answer, const float *states, hs_target *ret_target,
                                      hs_error *err);
