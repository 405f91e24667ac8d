/* field_values.h - checks of a field's JSON value, and the words of refusals. */
#pragma once

#include "api/problem.h"

#include <jansson.h>

/* Returns true if the value is an integer from low to high. */
bool hs__is_integer(const json_t *value, double low, double high);

/* Refuses with 422: "threshold is 2; it must be a number in (0, 1]". */
int hs__refuse_value(hs__problem *problem, const char *pointer, const json_t *value, const char *must);
