/* statistics_state.h - the inside of hs_corpus_stats, shared by the files statistics*.c.
 *
 * A state is one block: a header that holds the options, then fields of int64. Counts are integers. Real
 * numbers are in fixed point:
 * - an attention in units of 2^-28: it is at most 1 and has a relative rounding error of 2^-24 already
 * - a focal token's fraction in units of 2^-36
 * - all others as an integer and a fraction in units of 2^-37
 * Merging adds the fields of two states. Saving writes the block. */
#pragma once

#include "engine/statistics/statistics.h"

#define HS__ATTENTION_BITS 28
#define HS__ATTENTION_UNIT 0x1p-28
#define HS__SHARE_UNIT     0x1p-36
#define HS__FRACTION_UNIT  0x1p-37
#define HS__FIXED_MAX      0x1p36 /* numbers beyond it, which no sane model gives, are left out */

/* Bins of N: [0] below 0, then HS_CORPUS_BINS on [0, 1]. */
enum { HS__N_BINS = 1 + HS_CORPUS_BINS };

/* The figures of a text that PROFILES sums: those of hs_head_profile in this order, then its offsets. */
enum {
    HS__PROFILE_SELF,
    HS__PROFILE_PREVIOUS,
    HS__PROFILE_NEXT,
    HS__PROFILE_FIRST,
    HS__PROFILE_SEPARATOR,
    HS__PROFILE_PUNCTUATION,
    HS__PROFILE_SAME_TOKEN,
    HS__PROFILE_SAME_SENTENCE, /* no figure of hs_head_profile */
    HS__PROFILE_ENTROPY,
    HS__PROFILE_ENTROPY_FIRST,
    HS__PROFILE_CONFIDENCE,
    HS__PROFILE_MEAN_DISTANCE,
    HS__PROFILE_OFFSETS,
    HS__PROFILE_N = HS__PROFILE_OFFSETS + 2 * HS_PROFILE_REACH + 1
};

/* Name and axes of each field. The letters of axes:
 *     p  parts                 t  thresholds            l  layers
 *     h  heads                 w  positions             v  vocabulary
 *     u  0 .. heads            s  bins of a fraction    n  bins of N
 *     c  bins of c             m  roles                 q  figures of a profile
 *     d  heads of all layers; 0 without distances of heads
 *     b  cells of positions: sums of map_step x map_step of them
 *     x  cells, or 0 where each is one position
 *     y  1, or 0 where each cell is one position
 *     e  figures of masked tokens; 0 without them: tokens, right ones, loss as integer and fraction
 *     2  integer and fraction
 *     z  the same, or 0 where attention is over another text
 *     k  0, or there the cells of a map's edge
 *     3  three figures */
#define HS__STATS_FIELDS(X)                                                                                  \
    X(TEXTS, "")                                                                                             \
    X(TOKENS, "")                                                                                            \
    X(ALL_PAIRS, "")                                                                                         \
    X(ALL_REPEATED, "")                                                                                      \
    X(ALL_SAME_SENTENCE, "")                                                                                 \
    X(ALL_BOTH, "")                                                                                          \
    X(ALL_DISTANCE, "w")                                                                                     \
    X(REACHED, "w")                                                                                          \
    X(HIGH, "ptlh")                                                                                          \
    X(REPEATED, "ptlh")                                                                                      \
    X(SAME_SENTENCE, "ptlh")                                                                                 \
    X(BOTH, "ptlh")                                                                                          \
    X(DISTANCE_SUM, "ptlh")                                                                                  \
    X(TEXTS_WITH_HIGH, "ptlh")                                                                               \
    X(FOCAL_SHARE_SUM, "ptlh")                                                                               \
    X(REPEATED_HIST, "tlhs")                                                                                 \
    X(SAME_SENTENCE_HIST, "tlhs")                                                                            \
    X(BOTH_HIST, "tlhs")                                                                                     \
    X(FOCAL_HIST, "tlhs")                                                                                    \
    X(DISTANCE, "tlhw")                                                                                      \
    X(UNIQUE_FOCAL, "tlu")                                                                                   \
    X(LOCATION, "lhbb")         /* i < j */                                                                  \
    X(ATTENTION, "lhbb")        /* sum of A */                                                               \
    X(HIGH_COLUMNS, "lhbb")     /* sum of A in the columns of H */                                           \
    X(SIMILARITY, "l2bb")       /* i < j */                                                                  \
    X(NORMALIZED, "l2bb")       /* i < j */                                                                  \
    X(FIRST_SIMILARITY, "l2bb") /* of text number 0 alone */                                                 \
    X(SIGNAL_HIST, "lhn")                                                                                    \
    X(NOISE_HIST, "lhn")                                                                                     \
    X(SIGNAL_MOMENTS, "lh32")                                                                                \
    X(NOISE_MOMENTS, "lh32")                                                                                 \
    X(COLUMN_HIST, "lhc")                                                                                    \
    X(MASS, "lhm2")                                                                                          \
    X(FOCUS, "lv")                                                                                           \
    X(SEGMENTATION, "l3")                                                                                    \
    X(SENTENCES, "")                                                                                         \
    X(FOCAL, "lv")             /* of texts and heads, at the main threshold */                               \
    X(EVEN_SAME_SENTENCE, "z") /* of attention, where it is spread evenly */                                 \
    X(PROFILES, "lhq2")                                                                                      \
    X(DISTANCES, "dd2") /* HSIC or JS, on and above the diagonal */                                          \
    X(MASKED, "e")                                                                                           \
    X(DIAGONAL, "lhx") /* of A - HIGH_COLUMNS */                                                             \
    X(FIRST_TOKENS, "y")                                                                                     \
    X(ATTENDED, "kk") /* positions that texts reach, by cell */

typedef enum hs__field {
#define X(name, axes) HS__F_##name,
    HS__STATS_FIELDS(X)
#undef X
        HS__N_FIELDS
} hs__field;

typedef struct hs__stats_header {
    uint64_t magic, version;
    uint64_t n_words;  /* int64 that follow the header */
    uint64_t checksum; /* of everything after this word */
    uint64_t n_layers, n_heads, tokens_max, vocab_size, n_thresholds, threshold_main, n_parts;
    uint64_t distances;       /* hs_corpus_distance */
    uint32_t masked, crosses; /* 1: masked tokens are predicted; 1: attention is over another text */
    uint32_t map_step;        /* positions of a cell's edge; 0: one */
    float attention_threshold;
    float thresholds[HS_CORPUS_THRESHOLDS_MAX];
    uint16_t layers[HS_LAYERS_MAX];
} hs__stats_header;

typedef struct hs__stats_scratch hs__stats_scratch;

struct hs_corpus_stats {
    void *block;
    hs__stats_header *header; /* in the block; the fields follow */
    int64_t *fields[HS__N_FIELDS];
    hs__stats_scratch *scratch; /* of add; NULL: the state was loaded, and nothing was added yet */
};

/* HS_INVALID when an option is out of range. */
HS_MUST_USE hs_status hs__stats_header_make(const hs_corpus_options *options, hs__stats_header *ret_header,
                                            hs_error *err);
/* Length of an axis. */
size_t hs__stats_axis(const hs__stats_header *header, char axis);
/* Number of words of a field. */
size_t hs__stats_field_words(const hs__stats_header *header, hs__field field);

size_t hs__stats_scratch_bytes(const hs__stats_header *header);
/* NULL when memory is short. */
hs__stats_scratch *hs__stats_scratch_create(const hs__stats_header *header);
void hs__stats_scratch_destroy(hs__stats_scratch *scratch);

static inline size_t hs__stats_step(const hs__stats_header *header)
{
    return header->map_step ? header->map_step : 1;
}

/* Cells of a map's edge. */
static inline size_t hs__stats_cells(const hs__stats_header *header)
{
    return (header->tokens_max + hs__stats_step(header) - 1) / hs__stats_step(header);
}

/* Heads of all layers, where their distances are counted; else 0. */
static inline size_t hs__stats_distance_heads(const hs__stats_header *header)
{
    return header->distances ? header->n_layers * header->n_heads : 0;
}

/* Index of (l, h) in fields whose axes begin so. */
static inline size_t hs__stats_index(const hs_corpus_stats *stats, size_t l, size_t h)
{
    return l * stats->header->n_heads + h;
}

/* Index of (t, l, h). */
static inline size_t hs__stats_cell(const hs_corpus_stats *stats, size_t t, size_t l, size_t h)
{
    return t * stats->header->n_layers * stats->header->n_heads + hs__stats_index(stats, l, h);
}
