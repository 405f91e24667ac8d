/* words.h - integers of a counter in a checkpoint: base64 of int64, little-endian. A number of JSON takes
 * twice the bytes and ten times the memory. */
#pragma once

#include "engine/statistics/sums.h"

#include <jansson.h>

/* Returns n words as a JSON string; NULL if memory is short. */
json_t *hs__words_save(const int64_t *words, size_t n);
/* Reads n words. Returns false if the value is no string of that many. */
bool hs__words_load(const json_t *saved, int64_t *ret_words, size_t n);

/* Returns sums as {"words"}, with blocks also "shift" and "blocks"; NULL if memory is short. */
json_t *hs__sums_save(const hs_sums *sums);
/* Reads them into zeros of the same kind and lengths. Returns false if they are damaged. */
bool hs__sums_load(hs_sums *sums, const json_t *saved);
