/* sums.h - declared arrays: a row says once what is counted, and the sums follow from it.
 *
 * A row names an array, its axes, its unit, its meaning and its kind. Storage, sizes, saving, merging,
 * report.npz, report.json and the description of the array are made from the rows: code only adds.
 *
 *     static const hs_array_row rows[] = {
 *         {"far_pairs", {HS_AXIS_LAYER, HS_AXIS_HEAD}, "pairs", "far pairs"}};
 *     static const hs_sums_kind kind = {
 *         .member = "far", .what = "the far pairs", .rows = rows, .n_rows = 1};
 *     sums = hs_sums_create(&kind, lengths, &err);
 *     hs_sums_at(sums, 0)[map] += n;     a count has one word, a real number two: hs_real_add
 *     hs_sums_add(sums, other);
 *     hs_sums_read(sums, &array, 0, array.n_elements, buffer);
 *
 * Sums are integers, so the order of additions changes nothing. They serve one thread at a time. */
#pragma once

#include "engine/statistics/blocks.h"
#include "model/base/status.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- rows ---- */

/* The lengths of a run that axes have. Their values are in a list by these numbers; an owner may have more.
 */
typedef enum hs_length { HS_LENGTH_OWN, HS_THRESHOLDS, HS_LAYERS, HS_HEADS, HS_LABELS, HS_LENGTHS } hs_length;

typedef struct hs_array_axis {
    const char *name; /* in report.json */
    size_t length;    /* without `of` */
    int of;           /* a hs_length, or a number of the owner's list; 0: none */
} hs_array_axis;

#define HS_AXIS_THRESHOLD                                                                                    \
    {                                                                                                        \
        "threshold", 0, HS_THRESHOLDS                                                                        \
    }
#define HS_AXIS_LAYER                                                                                        \
    {                                                                                                        \
        "layer", 0, HS_LAYERS                                                                                \
    }
#define HS_AXIS_HEAD                                                                                         \
    {                                                                                                        \
        "head", 0, HS_HEADS                                                                                  \
    }
#define HS_AXIS_LABEL                                                                                        \
    {                                                                                                        \
        "label", 0, HS_LABELS                                                                                \
    }
#define HS_AXIS_BLOCK                                                                                        \
    {                                                                                                        \
        "block", HS_BLOCKS_MAX, 0                                                                            \
    }

/* An element's words: an integer; a real number as an integer and a fraction in units of 2^-31 or 2^-37; or
 * one as an integer in units of 2^-28 or 2^-36. */
typedef enum hs_sum_kind { HS_COUNT, HS_REAL, HS_REAL_37, HS_UNITS_28, HS_UNITS_36 } hs_sum_kind;

/* Where the words are: once, or in each block of neighbouring texts. An array of the latter shows each block,
 * which is its first axis, or the sum of all. HS_MADE: there are no words, the owner makes the elements. */
typedef enum hs_sum_place { HS_ONCE, HS_EACH_BLOCK, HS_ALL_BLOCKS, HS_MADE } hs_sum_place;

#define HS_CORPUS_AXES_MAX 4

typedef struct hs_array_row {
    const char *name;                       /* NULL: the sums are not shown */
    hs_array_axis axes[HS_CORPUS_AXES_MAX]; /* in the order of the shape, up to one without a name */
    const char *unit, *meaning;
    hs_sum_kind kind;
    hs_sum_place place;
    bool npz_only; /* whatever its size: a map of [window][window] */
    int only;      /* a length: where it is 0, the array has no elements; 0: always there */
} hs_array_row;

/* An array of a run. */
typedef struct hs_corpus_array {
    const hs_array_row *row;
    const char *name; /* "attention_sum"; static */
    bool is_float;    /* elements are double, else int64_t */
    size_t n_axes;    /* 0: a scalar */
    size_t axes[HS_CORPUS_AXES_MAX];
    size_t n_elements;
    size_t field; /* number of its row */
} hs_corpus_array;

/* Returns the array of a row in a run with these lengths. */
hs_corpus_array hs_array_of(const hs_array_row *rows, size_t k, const size_t *lengths);
/* Returns the words of a row: all of them, or those of one block. */
size_t hs_row_words(const hs_array_row *rows, size_t k, const size_t *lengths);

/* Continues a digest with the names, kinds, places and fixed lengths of rows. */
uint64_t hs_rows_digest(uint64_t digest, const hs_array_row *rows, size_t n);

/* ---- real numbers in two words ---- */

#define HS_REAL_BITS 31
#define HS_REAL_MAX  0x1p36 /* larger numbers, which no sane model gives, are left out */

static inline void hs_real_add(int64_t words[2], double value)
{
    if (!(fabs(value) < HS_REAL_MAX))
        return;
    const double whole = floor(value);
    words[0] += (int64_t)whole;
    words[1] += (int64_t)nearbyint((value - whole) * 0x1p31);
}

static inline double hs_real_at(const int64_t words[2])
{
    return (double)words[0] + (double)words[1] * 0x1p-31;
}

/* ---- sums ---- */

typedef struct hs_sums_kind {
    const char *member; /* its name in a checkpoint */
    const char *what;   /* for messages, a plural */
    const hs_array_row *rows;
    size_t n_rows;
    size_t n_blocks; /* of rows in blocks, a power of 2; 0: HS_BLOCKS_MAX */
    bool hidden;     /* no array is shown, whatever the names */
} hs_sums_kind;

/* One block of memory, but for `blocks`. Two sums with equal kinds and lengths have the same words. */
typedef struct hs_sums {
    const hs_sums_kind *kind;   /* borrowed, static */
    size_t lengths[HS_LENGTHS]; /* of the run */
    hs_blocks *blocks; /* owned; NULL: no row is in blocks. Their shift may differ between equal sums. */
    size_t n_words;    /* of rows that are there once */
    size_t *firsts;    /* [kind->n_rows]: first word of each row, in words or in a block */
    int64_t *words;    /* [n_words]; behind firsts */
} hs_sums;

/* Creates zeros. NULL if memory is short. */
hs_sums *hs_sums_create(const hs_sums_kind *kind, const size_t lengths[HS_LENGTHS], hs_error *err);
void hs_sums_destroy(hs_sums *sums); /* NULL is fine */

/* The size of sums: bytes of memory, and words that a checkpoint saves. */
typedef struct hs_sums_size {
    size_t bytes, words;
} hs_sums_size;
hs_sums_size hs_sums_measure(const hs_sums_kind *kind, const size_t lengths[HS_LENGTHS]);

/* Returns the first word of a row that is there once. */
static inline int64_t *hs_sums_at(const hs_sums *sums, size_t row)
{
    return sums->words + sums->firsts[row];
}

/* Returns the first word of a row in block b. */
static inline int64_t *hs_sums_in_block(const hs_sums *sums, size_t row, size_t b)
{
    assert(sums->blocks);
    return sums->blocks->words + b * sums->blocks->n_words + sums->firsts[row];
}

/* Adds the sums of `from`, which has the same kind and lengths. Sums of a damaged file may wrap around. */
void hs_sums_add(hs_sums *sums, const hs_sums *from);
/* Adds the sums of `from` and empties it. */
void hs_sums_move(hs_sums *sums, hs_sums *from);

/* Writes elements [first, first + n) of an array that is not HS_MADE, in row-major order, to ret: int64_t or
 * double. */
void hs_sums_read(const hs_sums *sums, const hs_corpus_array *array, size_t first, size_t n, void *ret);
/* Reads elements [first, first + n) of a row's words: int64_t or double. */
void hs_words_read(const int64_t *words, hs_sum_kind kind, size_t first, size_t n, void *ret);
/* Returns a real number of kind `kind` at its first word. */
double hs_sum_real(hs_sum_kind kind, const int64_t *words);

/* Returns the number of maps: layers x heads. */
static inline size_t hs_sums_maps(const hs_sums *sums)
{
    return sums->lengths[HS_LAYERS] * sums->lengths[HS_HEADS];
}

/* Draws the sum of numbers [first, first + n) of a row that is in blocks. */
void hs_sums_draw(const hs_sums *sums, const hs_bootstrap *bootstrap, size_t row, size_t first, size_t n,
                  hs_draws ret);
