/* outputs.h - the table of outputs, one row each, and what they are computed from.
 *
 * The choice of taps, the bound on an answer's size, all three writers and the tests use this table. There
 * are two kinds of rows:
 *
 * - Arrays have axes. They are the array of a tap, or `part` finds or computes the block of one layer and
 *   head. They are written as nested lists, or as one array of the requested dtype.
 * - Structures are more than an array (pairs, segments, ...). Their hs__structure computes them, and the
 *   columns of its table say what is written.
 *
 * Adding an output is a name in request.h, and its row and functions in a file of api/outputs;
 * docs/explanation/tour.md shows how. */
#pragma once

#include "api/formats/arrays.h"
#include "api/outputs/output_table.h"
#include "api/request/encode.h"
#include "api/request/request.h"
#include "engine/analysis/analysis.h"
#include "engine/analysis/effects.h"
#include "model/base/memory.h"

/* ==== one answer ==== */

/* One sequence's captures and results, as outputs and writers read them.
 *
 * A capture may have more layers and heads than requested: it may come from the cache, or segments need every
 * head. l and h below count the requested layers and heads; layer_at and head_at are their places in the
 * capture. Zeroed memory is an empty answer. Members are borrowed from the job unless marked as owned. */

/* Outputs that run passes of their own (output_passes.c, output_gradients.c), in the order in which they run.
 */
enum {
    HS__OWN_EFFECTS,
    HS__OWN_HEAD_SCORES,
    HS__OWN_PATCH_MAP,
    HS__OWN_VALUE_ZEROING,
    HS__OWN_CROSS_ROLLOUT,
    HS__OWN_GRADIENTS,
    HS__OWN_COUNT
};

typedef struct hs__answer {
    const hs__served_model *model;
    const hs_request *request;
    const hs__analysis_request *analysis;
    const hs__text_read *text;  /* T below is the number of its rows, K that of its keys */
    const uint8_t *masked;      /* [T] or NULL */
    const hs_capture *capture;  /* NULL when the outputs need none */
    const hs_capture *baseline; /* of the pass without interventions; NULL if there are none */

    const hs_capture *other; /* of the text that effects_of patches from; NULL if there is none */
    hs__outputs again;       /* outputs whose maps are computed again, one after the other */

    const hs_capture *memory; /* of the text whose last states a decoder reads; NULL if it reads none */

    const void *own[HS__OWN_COUNT]; /* results of own passes; NULL if not requested */

    uint16_t layer_at[HS_LAYERS_MAX], head_at[HS_HEADS_MAX];
    uint16_t baseline_layer_at[HS_LAYERS_MAX], baseline_head_at[HS_HEADS_MAX];
    char *scratch;                    /* owned: for parts of array outputs, by slot; see below */
    size_t n_slots;                   /* threads that may work on the answer at once */
    void *results[HS__OUTPUTS_COUNT]; /* owned: results of structures by output; see outputs.h */
} hs__answer;

/* Finds the requested layers and heads in the captures and allocates scratch. HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__answer_init(hs__answer *answer, hs_error *err);

/* Returns the pooling of sentence vectors: the requested one or the checkpoint's, from the first token that
 * counts on. */
hs_pooling hs__answer_pooling(const hs__answer *answer);

/* Finds the answer's target; kind NONE if there is none. states [T][H] are the baseline's last ones, which
 * the predicted class is read from; NULL: any class stands for it. */
HS_MUST_USE hs_status hs__target_find(const hs__answer *answer, const float *states, hs_target *ret_target,
                                      hs_error *err);

/* Returns the tap that holds similarities in the requested space. */
hs_tap hs__answer_similarity(const hs__answer *answer);

/* Returns the captured array of the requested layer l and head h. */
const float *hs__answer_at(const hs__answer *answer, hs_tap tap, size_t l, size_t h);

/* Finds S of the capture's head h of layer l (positions in the capture): kept, or computed in `into` [T][T].
 * Read only what is above its diagonal. HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__answer_similarity_map(const hs__answer *answer, size_t l, size_t h, float *into,
                                                const float **ret_map, hs_error *err);
/* Finds rows [first, first + n) of its A: kept, or computed in `into` [n][K], on the answer's threads. */
HS_MUST_USE hs_status hs__answer_attention_rows(const hs__answer *answer, size_t l, size_t h, size_t first,
                                                size_t n, float *into, const float **ret_rows, hs_error *err);

/* Returns the floats of a part in scratch, rounded up to cache lines: max(T, K)^2, or max(T, K) * d. */
static inline size_t hs__answer_part_floats(const hs__answer *a)
{
    const size_t T = a->text->rows.n_tokens, K = a->text->keys->n_tokens, n = T > K ? T : K;
    const size_t d = a->model->shape->head_width, line = HS_LINE_BYTES / sizeof(float);
    return (n * (n > d ? n : d) + line - 1) / line * line;
}

/* Returns a slot's scratch: two parts, then the scratch of hs_effective_attention. */
float *hs__answer_scratch(const hs__answer *answer, size_t slot);
/* Returns the vocabulary's string of token i of a side of the text. */
const char *hs__answer_token(const hs__answer *answer, const hs_encoding *side, size_t i);
/* Returns the string of token i of the rows, with its length. */
hs_bytes hs__answer_token_bytes(const hs__answer *answer, size_t i);

/* Where the answer's window begins and ends, [from, to). `tokens` counts the text's tokens without those
 * around it. `chars` are code points of the text, or of the second one of a pair; -1 for words. */
typedef struct hs__window_place {
    int32_t tokens[2], chars[2];
} hs__window_place;

/* Finds the place of the window. The request must name one. */
hs__window_place hs__answer_window(const hs__answer *answer);

/* Returns true if a text of the answer was cut. */
bool hs__answer_truncated(const hs__answer *answer);
/* Returns the stack that the answer is about, or NULL if the model has only one. */
const char *hs__answer_stack(const hs__answer *answer);

/* Returns the part [start, end) of a text, in code points. */
hs_text hs__text_part(const hs_text *text, size_t start, size_t end);

bool hs__answer_cancelled(const hs__answer *answer);

/* Returns how many threads should share the work on n_numbers: 1 for few numbers, else n_slots. */
size_t hs__answer_threads(const hs__answer *answer, size_t n_numbers);
/* Shares tasks among threads as hs_runtime_share does. */
void hs__answer_share(const hs__answer *answer, size_t n_threads, size_t n_tasks,
                      void (*task)(void *context, size_t i, size_t slot), void *context);

/* ==== the table ==== */

/* Range of an output's values; dtype u1 holds [0, 1] only. */
typedef enum hs__output_range {
    HS__RANGE_ANY,
    HS__RANGE_UNIT,
    HS__RANGE_UNIT_IF_NORMALIZED
} hs__output_range;

/* The measures that determine an answer's size. Their products cannot overflow: shapes are within HS_..._MAX,
 * T within HS_POSITIONS_MAX. */
typedef struct hs__measures {
    const hs__analysis_request *analysis;
    const hs_architecture *architecture;
    const hs_shape *shape;
    const hs__text_read *text;
    size_t n_tokens, n_keys;
    size_t n_source;  /* tokens of the text that a decoder reads; 0: none */
    size_t n_heads;   /* heads of all requested layers */
    size_t n_threads; /* of the request */
    bool again;       /* the output computes its maps again */
    size_t number;    /* longest JSON number and its comma */
    size_t token;     /* longest JSON token of the text and its comma */
    size_t entry;     /* the same of the vocabulary */
} hs__measures;

/* The functions that compute a structure, and what of it is answered. `result` is the one that compute
 * returned, or that of the output's own passes. */
typedef struct hs__structure {
    hs_status (*compute)(const hs__answer *answer, void **ret_result,
                         hs_error *err); /* NULL: own passes do, or add_head */
    /* Instead of compute, if each head is read alone: a pass may then show its maps and keep none. begin does
     * not read the capture. add_head gets the maps of head l * n_heads + h; threads may call it for different
     * heads. end comes after the last head; it may be NULL. A structure with compute as well computes maps
     * that are kept by that. */
    hs_status (*begin)(const hs__answer *answer, void **ret_result, hs_error *err);
    hs_status (*add_head)(const hs__answer *answer, void *result, size_t at, const hs_observed_head *maps,
                          hs_error *err);
    hs_status (*end)(const hs__answer *answer, void *result, hs_error *err);
    bool reads_lengths; /* add_head reads the lengths of outputs; those of kept maps are of HEAD_OUTPUT */
    /* For an array made of each head's maps. Returns the part of head l * n_heads + h. */
    const float *(*part)(const void *result, size_t at);
    void (*destroy)(void *result); /* NULL: the job owns the result */
    const hs__table *table;        /* what of the result is answered; NULL: an array made by these */
    /* Total number of items, answered under this name, if the answer may have only some of them; or NULL. */
    const char *total_name;
    uint64_t (*total)(const void *result);
} hs__structure;

/* Passes that an output runs by itself: after the capture and before the other outputs, with the worker's
 * workspace. The job owns their result. */
typedef struct hs__own_passes {
    unsigned kind;      /* HS__OWN_... */
    const char *result; /* its name in messages */
    size_t (*result_bytes)(const hs__answer *answer);
    /* Returns an upper bound of the memory that run takes. Does not read the capture. */
    size_t (*bytes_max)(const hs__answer *answer);
    hs_status (*run)(const hs__answer *answer, hs_workspace *ws, const hs_run_control *control,
                     void *ret_result, hs_error *err);
    /* Returns what a structure of that number reads of the result; NULL: all of it. */
    const void *(*find)(const void *result, unsigned output);
} hs__own_passes;

/* TransformerLens's name of the states after a block; those before the first one have another. */
#define HS__HOOK_STATES "hook_resid_post"

/* An output may do without maps that do not fit. The pass then keeps queries, keys and head outputs, and the
 * output computes one map after the other again. */
typedef enum hs__again {
    HS__AGAIN_NEVER,  /* it needs its taps */
    HS__AGAIN_SQUARE, /* unless it needs the attention of cross heads */
    HS__AGAIN
} hs__again;

typedef struct hs__output {
    unsigned number; /* HS__OUTPUT_..., of a row whose maker has a part: the index of its result */
    unsigned taps;   /* what the pass must keep */

    /* Arrays. The first axis is LAYER, STATE, DEPTH or TOKEN; the second may be HEAD, which `reduce` applies
     * to. An output that is the array of one tap has no part. Otherwise part returns the block of the other
     * axes at l and h (0 without HEAD). Threads may call it with different `into`, which hold
     * hs__answer_part_floats and then the scratch of hs_effective_attention. The block is valid until `into`
     * is used again. */
    hs_axis axes[HS_AXES_MAX + 1];
    const float *(*part)(const hs__answer *answer, size_t l, size_t h, float *into);
    hs__output_range range;
    const char *hook; /* "attn.hook_pattern": TransformerLens's name within a block; or NULL */

    const hs__structure *structure; /* NULL: an array */
    const hs__structure *maker;     /* of an array: computes it before any part is read; or NULL */

    /* Returns an upper bound of the memory that computing takes beside the taps, results included, and of the
     * maps that it computes again. Own passes have a bound of their own. NULL: little. */
    size_t (*bytes)(const hs__measures *measures);
    hs__again again;
    bool every_head;           /* needs all heads of a layer */
    bool every_layer;          /* needs all layers */
    bool unchanged_only;       /* not computed with interventions */
    bool long_after;           /* even of a short text it takes as long as many passes */
    const char *not_cross;     /* why it is not computed for cross heads; NULL: it is */
    const char *not_decoder;   /* the same for a decoder that reads an encoder, and for its cross heads */
    const hs__own_passes *own; /* NULL: it runs no passes of its own */
    const hs__own_passes *own_of_cross; /* the same, for cross heads only */
    unsigned (*choose_taps)(const hs__analysis_request
                                *analysis); /* returns the taps of this request in place of taps; or NULL */
} hs__output;

/* Returns row i; NULL past the last. */
const hs__output *hs__output_at(size_t i);

/* ---- sets ---- */

/* The needs of a request's outputs. */
typedef struct hs__needs {
    unsigned taps;                /* what they read of the pass */
    bool every_head, every_layer; /* one of them needs all heads of a layer, or all layers */
    unsigned own;                 /* their own passes, as bits by HS__OWN_... */
    hs__outputs observing;        /* those that read each head alone, so that a pass can show them its maps */
    hs__outputs repeating;        /* those that can compute their maps again */
    bool long_after;              /* one of them takes long after the pass */
} hs__needs;

/* Returns the needs of these outputs of the request. Those of `again` compute maps again. */
hs__needs hs__outputs_needs(const hs__analysis_request *analysis, hs__outputs outputs, hs__outputs again);
/* Returns an upper bound of the memory that they take beside taps and own passes. */
size_t hs__outputs_bytes(const hs__measures *measures, hs__outputs outputs, hs__outputs again);
/* Lists those of the outputs that read maps, as far as ret has memory. */
const char *hs__outputs_of_maps(hs__outputs outputs, char *ret, size_t n_ret);
/* The own passes by HS__OWN_... */
extern const hs__own_passes *const hs__own_passes_by_kind[HS__OWN_COUNT];

/* Refuses with 422 if dtype is u1 and a requested array may leave [0, 1]. */
int hs__outputs_check_dtype(const hs__analysis_request *analysis, hs__problem *problem);

/* Refuses with 422 interventions beside an output that is not computed with them. */
int hs__outputs_check_interventions(const hs__analysis_request *analysis, hs__problem *problem);

/* Refuses with 422 what is not computed for the request's stack. */
int hs__outputs_check_stack(const hs__analysis_request *analysis, hs__problem *problem);

/* Begins the results of outputs that observe a pass. ret_results is [HS__OUTPUTS_COUNT], all NULL. The caller
 * destroys the results, on failure too. */
HS_MUST_USE hs_status hs__outputs_begin(const hs__answer *answer, hs__outputs outputs, void **ret_results,
                                        hs_error *err);
/* Adds the maps of the requested head l * n_heads + h to each result that was begun. Any thread. */
HS_MUST_USE hs_status hs__outputs_add_head(const hs__answer *answer, void *const *results, size_t at,
                                           const hs_observed_head *maps, hs_error *err);
/* Destroys results and sets them to NULL. */
void hs__results_destroy(void **results);

/* Computes the structures; the answer's results are those that observed the pass. Fails with HS_CANCELLED if
 * the request was cancelled. */
HS_MUST_USE hs_status hs__outputs_compute(hs__answer *answer, hs_error *err);
/* Releases what the answer owns. */
void hs__outputs_finish(hs__answer *answer);

/* ---- array outputs ---- */

/* Writes the lengths of the answered axes; returns their number. */
size_t hs__output_lengths(const hs__output *output, const hs__analysis_request *analysis,
                          const hs_shape *shape, const hs__text_read *text, size_t ret_lengths[HS_AXES_MAX]);
/* The same for an answer. */
size_t hs__answer_lengths(const hs__output *output, const hs__answer *answer,
                          size_t ret_lengths[HS_AXES_MAX]);
/* Returns the number of axes that l and h index: 2 with a HEAD axis, else 1. */
size_t hs__output_n_walked(const hs__output *output);
/* Returns the block at l and h, reduced as requested. Valid until the slot's next call. */
const float *hs__output_part(const hs__output *output, const hs__answer *answer, size_t l, size_t h,
                             size_t slot);
