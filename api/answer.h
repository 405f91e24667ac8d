/* answer.h - what one request's maps show, in the form that every writer reads.
 *
 * The captured maps may be more than what was asked for (from the cache, or because segments need every
 * head): l and h below count the request's own layers and heads, and layer_at, head_at say where those lie in
 * the capture. Zeroed memory is an empty answer; all but what is named here as owned is borrowed from the
 * job. */
#pragma once

#include "api/ask.h"
#include "api/formats/bytes.h"
#include "engine/analysis/analysis.h"

/* Regions of one head; one block, owned through `high`. */
typedef struct hs__regions {
    float *means; /* [n_runs][n_runs]; start of the block */
    hs_span *runs;
    uint16_t *high;
    size_t n_runs, n_high;
} hs__regions;

typedef struct hs__segments {
    hs_segment *items; /* owned */
    size_t n;
} hs__segments;

typedef struct hs__answer {
    const hs__served_model *model;
    const hs_request *request;
    const hs__ask *ask;
    const hs_encoding *encoding;
    const int32_t *sentences;  /* [T] */
    const uint8_t *masked;     /* [T] or NULL */
    const hs_capture *capture; /* NULL when the outputs need none */

    /* Owned, made by hs__answer_analyze; NULL for what was not asked for. */
    uint16_t layer_at[HS_LAYERS_MAX], head_at[HS_HEADS_MAX];
    hs_pair *pairs;
    size_t n_pairs;
    uint64_t pairs_total;
    hs__regions *regions;       /* [l][h] */
    hs__segments *segments;     /* [l] */
    hs_head_summary *summaries; /* [l][h] */
    float *scratch;             /* two maps, for hs__answer_map */
} hs__answer;

/* Heads of the maps written: 1 when they are reduced. */
size_t hs__answer_map_heads(const hs__ask *ask);

/* Upper bound of the answer's size, from the request and its number of tokens alone: known before anything is
 * computed. */
size_t hs__answer_bytes_max(const hs__ask *ask, hs__format format, const hs__served_model *model,
                            const hs_encoding *encoding, size_t body_bytes);

/* Computes what the outputs ask for. HS_CANCELLED when the request was. */
HS_MUST_USE hs_status hs__answer_analyze(hs__answer *answer, hs_error *err);

/* The map of one of HS__ATTENTIONS, HS__SIMILARITIES ([T][T]) or HS__HEAD_OUTPUTS ([T][d]), normalised and
 * reduced as asked; valid until the next call. h is 0 when reduced. */
const float *hs__answer_map(const hs__answer *answer, unsigned output, size_t l, size_t h);

/* Rows of captured hidden states: s = 0 the embeddings, then one for each layer asked for. */
const float *hs__answer_hidden_state(const hs__answer *answer, size_t s);

bool hs__answer_cancelled(const hs__answer *answer);

/* Where a segment lies in the text and in its pair: code points, and the bytes for them. */
typedef struct hs__slice {
    bool present;
    uint32_t start, end;
    const char *bytes;
    size_t n_bytes;
} hs__slice;
void hs__answer_slices(const hs__answer *answer, const hs_segment *segment, hs__slice ret_slices[2]);

void hs__answer_finish(hs__answer *answer);

/* ---- writers ---- */

/* The members of the token fields, from "model" to "word_ids", without the closing brace. */
void hs__json_write_tokens(hs__bytes *bytes, const hs__answer *answer);
void hs__json_write(hs__bytes *bytes, const hs__answer *answer);
