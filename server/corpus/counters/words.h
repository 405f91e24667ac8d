/* words.h - integers of a counter in a checkpoint: base64 of int64, little-endian. A number of JSON takes
 * twice the bytes and ten times the memory. */
#pragma once

#include "engine/statistics/blocks.h"
#include "server/corpus/counters/counter.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns n words as a JSON string; NULL if memory is short. */
json_t *hs__words_save(const int64_t *words, size_t n);
/* Reads n words. Returns false if the value is no string of that many. */
bool hs__words_load(const json_t *saved, int64_t *ret_words, size_t n);

/* The same as a list of numbers, of the counters that are older: least is the least number. */
json_t *hs__numbers_save(const int64_t *numbers, size_t n);
bool hs__numbers_load(const json_t *list, int64_t least, int64_t *ret_numbers, size_t n);

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

/* ---- sums: counts of a counter that are words and no more ---- */

typedef struct hs__sums_size {
    size_t words, block_words; /* the latter of a block; 0: no blocks */
    size_t n_blocks;           /* 0: HS_BLOCKS_MAX */
} hs__sums_size;

struct hs__sums_kind {
    /* A checkpoint has a member with the words. With blocks it is an object of `shift`, `blocks` and the
     * words, which have the name `beside` there. */
    const char *member, *beside;
    const char *what; /* for messages, a plural */
    hs__sums_size (*size)(size_t n_outer, size_t n_layers, size_t n_heads);
};

typedef struct hs__sums {
    const hs__sums_kind *kind;
    size_t n_outer, n_layers, n_heads; /* n_outer: of thresholds, or what the counter chooses */
    size_t n_words;
    hs_blocks *blocks; /* or NULL */
    int64_t words[];
} hs__sums;

hs__sums *hs__sums_create(const hs__sums_kind *kind, size_t n_outer, size_t n_layers, size_t n_heads,
                          hs_error *err);
/* Creates zeros of the same shape. */
hs__sums *hs__sums_create_like(const hs__sums *sums, hs_error *err);
void hs__sums_destroy(void *sums); /* NULL is fine */
/* Adds what they take once, in a worker and in a checkpoint. */
void hs__sums_measure(const hs__sums_kind *kind, size_t n_outer, size_t n_layers, size_t n_heads,
                      hs__counter_size *size);
/* Moves the sums of a worker. */
void hs__sums_move(hs__sums *to, hs__sums *from);
/* Reads the sums of a checkpoint. *ret_sums stays if it has none: those of earlier versions lack them. */
hs_status hs__sums_load(const hs__sums_kind *kind, size_t n_outer, const hs__corpus_results *results,
                        const json_t *checkpoint, void **ret_sums, hs_error *err);

/* Functions of a counter with `sums` whose sums follow from the statistics' thresholds, layers and heads. */
hs_status hs__sums_begin(hs__counting *counting, bool anew, hs_error *err);
hs_status hs__sums_gather(hs__counting *counting, void *state, hs_error *err); /* state: sums; never fails */
bool hs__sums_match(const hs__counting *counting);
/* And of each with sums. If one of two shards lacks them, the whole does, too. */
hs_status hs__sums_save(const hs__corpus_results *results, void *counts, json_t *checkpoint, hs_error *err);
hs_status hs__sums_merge(hs__corpus_results *results, void **counts, const hs__corpus_results *from,
                         void **from_counts, const char *from_dir, hs_error *err);
