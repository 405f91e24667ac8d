/* interventions.h - the field interventions of a request (api/fields.c), for whoever has it without one. */
#pragma once

#include "engine/plan.h"

typedef struct hs_interventions hs_interventions;

/* A JSON list as /analyze takes it. HS_INVALID says what is wrong, two that contradict each other included;
 * HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_interventions_parse(const char *text, const hs_shape *shape,
                                             hs_interventions **ret_interventions, hs_error *err);
void hs_interventions_destroy(hs_interventions *interventions); /* NULL is fine */

/* NULL is none. */
const hs_intervention *hs_interventions_list(const hs_interventions *interventions, size_t *ret_n);
