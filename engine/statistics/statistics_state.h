/* statistics_state.h - the inside of hs_corpus_stats, shared by the files statistics*.c.
 *
 * A state is one block: a header that holds the options, then the words of each declared array
 * (statistics_arrays.c), int64. Counts are integers. Real numbers are in fixed point:
 * - an attention in units of 2^-28: it is at most 1 and has a relative rounding error of 2^-24 already
 * - a focal token's fraction in units of 2^-36
 * - all others as an integer and a fraction in units of 2^-37
 * Merging adds the words of two states. Saving writes the block. */
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

/* The rows of the table of arrays: those of the report in its order, then those that nothing shows. A row
 * that is HS_MADE has no words: it is made of others. */
typedef enum hs__field {
    HS__F_THRESHOLDS,
    HS__F_LAYERS,
    HS__F_MAP_STEP,
    HS__F_TEXTS,
    HS__F_TOKENS,
    HS__F_ALL_PAIRS,
    HS__F_ALL_REPEATED,
    HS__F_ALL_SAME_SENTENCE,
    HS__F_ALL_BOTH,
    HS__F_ALL_ORDINARY,
    HS__F_ALL_DISTANCE,
    HS__F_HIGH,
    HS__F_HIGH_ORDINARY,
    HS__F_REPEATED,
    HS__F_SAME_SENTENCE,
    HS__F_BOTH,
    HS__F_REPEATED_HIST,
    HS__F_BOTH_HIST,
    HS__F_SAME_SENTENCE_HIST,
    HS__F_FOCAL_HIST,
    HS__F_TEXTS_WITH_HIGH,
    HS__F_DISTANCE,
    HS__F_LOCATION,
    HS__F_FOCAL_SHARE_SUM,
    HS__F_UNIQUE_FOCAL,
    HS__F_ATTENTION,
    HS__F_NO_COLUMNS,
    HS__F_NO_COLUMNS_NO_DIAGONAL,
    HS__F_REACHED,
    HS__F_SIMILARITY_SUM,
    HS__F_NORMALIZED_SUM,
    HS__F_FIRST_SIMILARITY_SUM,
    HS__F_NORMALIZED_HIST,
    HS__F_COLUMN_HIST,
    HS__F_SIGNAL_HIST,
    HS__F_NOISE_HIST,
    HS__F_SPECIAL_HIST,
    HS__F_SIGNAL_MOMENTS,
    HS__F_NOISE_MOMENTS,
    HS__F_FOCUS_IDS,
    HS__F_FOCUS_COUNTS,
    HS__F_MASS,
    HS__F_SEGMENTATION,
    HS__F_PART_HIGH,
    HS__F_PART_HIGH_ORDINARY,
    HS__F_PART_REPEATED,
    HS__F_PART_SAME_SENTENCE,
    HS__F_PART_DISTANCE_SUM,
    HS__F_PART_TEXTS_WITH_HIGH,
    HS__F_PART_FOCAL_SHARE_SUM,
    HS__F_SENTENCES,
    HS__F_FOCAL_IDS,
    HS__F_FOCAL_COUNTS,
    HS__F_PROFILES_SELF, /* and those after it, in the order of HS__PROFILE_... */
    HS__F_PROFILES_OFFSETS = HS__F_PROFILES_SELF + HS__PROFILE_OFFSETS,
    HS__F_PROFILES_LABEL,
    HS__F_EVEN_SAME_SENTENCE,
    HS__F_HEAD_DISTANCES,
    HS__F_MASKED_TOKENS,
    HS__F_MASKED_RIGHT,
    HS__F_MASKED_LOSS,
    HS__F_ATTENDED,
    HS__F_PART_BOTH,
    HS__F_HIGH_COLUMNS,
    HS__F_DIAGONAL,
    HS__F_SIMILARITY,
    HS__F_NORMALIZED,
    HS__F_FIRST_SIMILARITY,
    HS__F_FIRST_TOKENS,
    HS__F_FOCUS,
    HS__F_FOCAL,
    HS__F_PROFILES,
    HS__F_DISTANCES,
    HS__N_FIELDS
} hs__field;

/* Lengths that the axes have beside hs_length. The last ones are 1 or 0: they say which arrays are there. */
enum {
    HS__PARTS = HS_LENGTHS,
    HS__POSITIONS,
    HS__VOCABULARY,
    HS__FOCAL_NUMBERS, /* 0 to heads */
    HS__CELLS,         /* of a map's edge: sums over map_step positions */
    HS__DISTANCE_HEADS,
    HS__WITH_OWN_TEXT, /* heads attend to their own text, */
    HS__WITH_CROSSES,  /* or to another one */
    HS__WITH_MASKED,
    HS__WITH_STEPS, /* a cell is more than a position */
    HS__STATS_LENGTHS
};

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
    size_t lengths[HS__STATS_LENGTHS];
    int64_t *fields[HS__N_FIELDS]; /* in the block, each on a cache line of its own; NULL: it has no words */
    hs__stats_scratch *scratch;    /* of add; NULL: the state was loaded, and nothing was added yet */
};

/* HS_INVALID when an option is out of range. */
HS_MUST_USE hs_status hs__stats_header_make(const hs_corpus_options *options, hs__stats_header *ret_header,
                                            hs_error *err);
extern const hs_array_row hs__stats_rows[HS__N_FIELDS];
void hs__stats_lengths(const hs__stats_header *header, size_t ret_lengths[HS__STATS_LENGTHS]);

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
