/* field_values.h - checks of a field's JSON value, and the words of refusals. */
#pragma once

#include "api/problem.h"

#include <jansson.h>

/* Returns true if the value is an integer from low to high. */
bool hs__is_integer(const json_t *value, double low, double high);

/* Reads integers from low to high as ascending unique numbers, counted from low. ret has high - low + 1
 * elements. Refuses with 422, or 500 without memory. */
int hs__numbers_read(hs__problem *problem, const char *pointer, const json_t *value, long low, long high,
                     size_t *ret, size_t *ret_n);

/* Reads 1 to n_most token ids below vocab_size. The caller frees *ret_ids, also after a failure. */
int hs__ids_read(hs__problem *problem, const char *pointer, const json_t *value, size_t n_most,
                 size_t vocab_size, int32_t **ret_ids, size_t *ret_n);

/* Refuses with 422: "threshold is 2; it must be a number in (0, 1]". */
int hs__refuse_value(hs__problem *problem, const char *pointer, const json_t *value, const char *must);
/* Refuses element i of a list in the same way. */
int hs__refuse_element(hs__problem *problem, const char *pointer, const json_t *value, size_t i,
                       const char *must);
