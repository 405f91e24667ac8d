/* words.h - integers of a counter in a checkpoint: base64 of int64, little-endian. A number of JSON takes
 * twice the bytes and ten times the memory. */
#pragma once

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns n words as a JSON string; NULL if memory is short. */
json_t *hs__words_save(const int64_t *words, size_t n);
/* Reads n words. Returns false if the value is no string of that many. */
bool hs__words_load(const json_t *saved, int64_t *ret_words, size_t n);

/* Adds n words to others. Sums that a damaged checkpoint holds may wrap around. */
static inline void hs__words_add(int64_t *words, const int64_t *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        words[i] = (int64_t)((uint64_t)words[i] + (uint64_t)from[i]);
}

/* ---- real numbers in two words: an integer and a fraction in units of 2^-31 ---- */

#define HS__REAL_BITS 31
#define HS__REAL_MAX  0x1p36 /* larger numbers, which no sane model gives, are left out */

static inline void hs__real_add(int64_t words[2], double value)
{
    if (!(fabs(value) < HS__REAL_MAX))
        return;
    const double whole = floor(value);
    words[0] += (int64_t)whole;
    words[1] += (int64_t)nearbyint((value - whole) * 0x1p31);
}

static inline double hs__real_at(const int64_t words[2])
{
    return (double)words[0] + (double)words[1] * 0x1p-31;
}
