/* plan.h - a plan: one value that says what a pass computes.
 *
 *     plan = architecture + sequences (ids, types, interventions, capture) + observer + last layer
 *
 * hs_plan_make checks everything, so that a pass checks only that the plan fits its workspace. A plan
 * borrows all that it points to until the pass is over. */
#pragma once

#include "engine/runtime.h"
#include "model/architecture.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns true if the items are ascending, unique and below limit. */
static inline bool hs__list_is_sound(const uint16_t *items, size_t n_items, size_t limit)
{
    for (size_t i = 0; i < n_items; i++)
        if (items[i] >= limit || (i > 0 && items[i] <= items[i - 1]))
            return false;
    return true;
}

/* Returns the position of item, or -1. */
static inline ptrdiff_t hs__list_find(const uint16_t *items, size_t n_items, size_t item)
{
    for (size_t i = 0; i < n_items && items[i] <= item; i++)
        if (items[i] == item)
            return (ptrdiff_t)i;
    return -1;
}

/* ---- the taps of a pass: its hook points, whose activations a capture can keep.
 *
 * A tap is a named point of the forward pass; TransformerLens calls it a hook point. Its array has these
 * axes:
 *
 *     QUERY          [l][h][T][d]   as they meet in the scores: turned by their positions where a model does
 *     KEY            [l][h][K][d]   likewise
 *     VALUE          [l][h][K][d]
 *     VALUE_NORMS    [l][h][K]      of v W_O, what the head would write into the hidden state of each token
 *     SCORES         [l][h][T][K]   what the softmax reads: scaled, with biases; -inf where a key is hidden
 *     SCORES_C2C     [l][h][T][K]   q k' of them, scaled alike; -inf as in SCORES
 *     SCORES_C2P     [l][h][T][K]   q Kr' of them (hs_relative); 0 where a model has no such addend
 *     SCORES_P2C     [l][h][T][K]   Qr k' of them; 0 as in SCORES_C2P
 *     ATTENTION      [l][h][T][K]   A = softmax of them; rows are queries
 *     COLUMNS        [l][h][K]      sum over rows of A; kept whenever ATTENTION is
 *     HEAD_OUTPUT    [l][h][T][d]   O = A V
 *     SIMILARITY     [l][h][T][T]   S = O O', its diagonal 0
 *     RESIDUAL_SIMILARITY  the same of O W_O, what the head writes into the state
 *     CENTERED_SIMILARITY  S of Oc = O - m, with m the mean of O over the text's tokens
 *     CENTERED_RESIDUAL_SIMILARITY  the same of Oc W_O
 *     HIDDEN_STATE   [s][T][H]      s: the embeddings (0), then after each selected layer in order
 *     LAST_STATE     [T][H]         after the model's last layer, whichever are selected
 *     EVERY_STATE    [L + 1][T][H]  the embeddings (0), then after each of the model's layers
 *     CROSS_STATE    [L][T][H]      of a decoder: enters the cross heads of each of the model's layers
 *
 * K is T, or for cross heads the number of the memory's tokens.
 *
 * States after the model's last layer are behind the final norm, where there is one. l and h count selected
 * layers and heads. A set of taps is an unsigned of bits, HS_KEEP(SCORES) | ... */

typedef enum hs_tap {
    HS_TAP_QUERY,
    HS_TAP_KEY,
    HS_TAP_VALUE,
    HS_TAP_VALUE_NORMS,
    HS_TAP_SCORES,
    HS_TAP_SCORES_C2C,
    HS_TAP_SCORES_C2P,
    HS_TAP_SCORES_P2C,
    HS_TAP_ATTENTION,
    HS_TAP_COLUMNS,
    HS_TAP_HEAD_OUTPUT,
    HS_TAP_SIMILARITY,
    HS_TAP_RESIDUAL_SIMILARITY,
    HS_TAP_CENTERED_SIMILARITY,
    HS_TAP_CENTERED_RESIDUAL_SIMILARITY,
    HS_TAP_HIDDEN_STATE,
    HS_TAP_LAST_STATE,
    HS_TAP_EVERY_STATE,
    HS_TAP_CROSS_STATE,
    HS_N_TAPS
} hs_tap;

#define HS_KEEP(tap) (1U << HS_TAP_##tap)

/* Chooses what S is of: O W_O with `residual`, Oc with `centered`. Each has a tap. */
typedef struct hs_similarity {
    bool residual, centered;
} hs_similarity;

static inline hs_tap hs_similarity_tap(hs_similarity kind)
{
    if (kind.residual)
        return kind.centered ? HS_TAP_CENTERED_RESIDUAL_SIMILARITY : HS_TAP_RESIDUAL_SIMILARITY;
    return kind.centered ? HS_TAP_CENTERED_SIMILARITY : HS_TAP_SIMILARITY;
}

/* KV_HEAD and the last seven are only of answers: captures keep keys and values once for each head that reads
 * them. STATE is one longer than the selected layers. MODEL_LAYER counts all layers of the model, and DEPTH
 * is one longer. BLOCK and KEY_BLOCK count blocks of tokens and of keys, WORD and KEY_WORD the
 * words that they are. ROW, COLUMN and KEY_COLUMN are a range of tokens, of tokens and of keys. */
typedef enum hs_axis {
    HS_AXIS_NONE,
    HS_AXIS_LAYER,
    HS_AXIS_STATE,
    HS_AXIS_MODEL_LAYER,
    HS_AXIS_DEPTH,
    HS_AXIS_HEAD,
    HS_AXIS_KV_HEAD,
    HS_AXIS_TOKEN,
    HS_AXIS_KEY,
    HS_AXIS_HEAD_WIDTH,
    HS_AXIS_HIDDEN,
    HS_AXIS_BLOCK,
    HS_AXIS_KEY_BLOCK,
    HS_AXIS_WORD,
    HS_AXIS_KEY_WORD,
    HS_AXIS_ROW,
    HS_AXIS_COLUMN,
    HS_AXIS_KEY_COLUMN
} hs_axis;

#define HS_AXES_MAX 4
/* The axes of a tap's array; HS_AXIS_NONE after the last. */
const hs_axis *hs_tap_axes(hs_tap tap);

/* ---- the activations that a pass keeps of one text: the arrays of selected taps,
 * layers and heads.
 *
 * All arrays lie in one block, aligned to 64 bytes, and their axes are as long as the text (no padding). */

typedef struct hs_selection {
    const uint16_t *layers; /* ascending, 0-based, unique */
    size_t n_layers;
    const uint16_t *heads; /* ascending, 0-based, unique */
    size_t n_heads;
    unsigned taps;   /* HS_KEEP(...) or-ed */
    size_t n_memory; /* tokens of the memory, to select a decoder's cross heads; 0: heads that attend to the
                      * text itself */
} hs_selection;

/* 0, 1, 2, ...: the numbers of all layers, and of all heads. */
extern const uint16_t hs_all_numbers[HS_LAYERS_MAX];

/* Selects all layers and heads, except cross heads. */
hs_selection hs_select_all(const hs_shape *shape, unsigned taps);

typedef struct hs_capture {
    hs_runtime *runtime; /* lends memory and cores; may be NULL */
    size_t n_tokens, n_layers, n_heads, head_width, hidden;
    size_t n_keys;     /* K: n_tokens, or with `cross` the memory's tokens */
    bool cross;        /* of cross heads */
    size_t depth;      /* layers of the model */
    size_t n_unpadded; /* tokens up to the last one that is not the task head's padding_id, 1 if all are; set
                        * by a pass */
    unsigned taps;
    const uint16_t *layers, *heads; /* the capture's copies, in the selection's order */
    float *arrays[HS_N_TAPS];       /* NULL when not kept */
    size_t bytes;                   /* of the whole block */
} hs_capture;

/* Returns the size in bytes of a capture's block. Does not overflow for shapes within HS_..._MAX. */
size_t hs_capture_bytes(const hs_shape *shape, const hs_selection *selection, size_t n_tokens);

/* Creates a capture. Its arrays are not initialised: a pass fills them. The block comes from the
 * runtime's pool and returns there, or from the heap if runtime is NULL. Fails with HS_NO_MEMORY. The
 * caller destroys *ret_capture. */
HS_MUST_USE hs_status hs_capture_create(hs_runtime *runtime, const hs_shape *shape,
                                        const hs_selection *selection, size_t n_tokens,
                                        hs_capture **ret_capture, hs_error *err);

void hs_capture_destroy(hs_capture *capture); /* NULL is fine */
/* Copies the arrays of layers below n_layers, and the states that enter them, from one capture to
 * another. Both are of texts with the same number of tokens, and `from` keeps all that `to` keeps of
 * these layers. */
void hs_capture_copy_below(const hs_capture *from, hs_capture *to, size_t n_layers);

/* Returns the length of an axis in this capture. */
size_t hs_capture_length(const hs_capture *capture, hs_axis axis);

/* Returns the part of a tap's array that belongs to layer l and head h. These are positions in the
 * selection, not numbers of the model. For HIDDEN_STATE l counts states and h is 0. */
float *hs_capture_at(const hs_capture *capture, hs_tap tap, size_t l, size_t h);

/* Returns a state [T][H]: 0 the embeddings, l + 1 after layer l. The capture keeps HIDDEN_STATE of it. */
const float *hs_capture_state(const hs_capture *capture, size_t state);

/* Returns the state [T][H] that enters the capture's heads in a layer of the model. The capture keeps
 * EVERY_STATE, or of cross heads CROSS_STATE. */
const float *hs_capture_input(const hs_capture *capture, size_t layer);

/* ---- plan ---- */

/* Changes to a head. With A its attention and O = A V its output, they apply in this order:
 *
 *     CUT        A := 0 beyond `distance` tokens, the rest of a row divided by its sum
 *     UNIFORM    A := 1 / n for each of the n keys that a query may see
 *     IDENTITY   A := 1 on the diagonal, 0 elsewhere
 *     PATCH      O := O of another pass, at chosen positions
 *     MEAN       O := its mean over the text's tokens
 *     ZERO       O := 0
 *     SCALE      O := factor O
 *
 * Cross heads have no IDENTITY and no CUT; neither have models with relative positions (DeBERTa) a CUT. If
 * several patches name a place, the last one in the list counts.
 *
 * Two kinds change no head but the hidden state x at chosen positions, in the order of the list:
 *
 *     ADD            x := x + factor vector
 *     PATCH_STATE    x := x of another pass
 *
 * Everything computed from A, O and the state follows, in this layer and above. SCORES are kept as the
 * softmax would have read them. */
typedef enum hs_intervention_kind {
    HS_INTERVENE_ZERO,
    HS_INTERVENE_SCALE,
    HS_INTERVENE_MEAN,
    HS_INTERVENE_UNIFORM,
    HS_INTERVENE_IDENTITY,
    HS_INTERVENE_CUT,
    HS_INTERVENE_PATCH,
    HS_INTERVENE_ADD,
    HS_INTERVENE_PATCH_STATE,
} hs_intervention_kind;

/* One change, in some heads of some layers or in some states. If several interventions name a head, all of
 * them apply, in the order above. */
typedef struct hs_intervention {
    const uint16_t *layers; /* ascending, 0-based, unique; of a state: 0 the embeddings and l + 1 the state
                               after layer l */
    size_t n_layers;
    const uint16_t *heads; /* ascending, 0-based, unique; not read for a state */
    size_t n_heads;
    hs_intervention_kind kind;
    float factor; /* of SCALE and ADD, finite; of SCALE 1 and of ADD 0 change no bit */
    /* For PATCH and PATCH_STATE: another sequence with as many tokens, which a pass has computed. Its capture
     * keeps HEAD_OUTPUT of these layers and heads, or HIDDEN_STATE of these states. */
    const struct hs_sequence *from;
    const size_t *positions; /* of patches and ADD: ascending, unique; none: all */
    size_t n_positions;
    bool cross; /* the heads are a decoder's cross heads; not read for a state */
    /* For ADD: [H], the same in all of these states, or [n_layers][H], of each. Finite, times factor too. */
    const float *vector;
    size_t n_vector; /* H or n_layers H */
    size_t distance; /* of CUT: 1 or more; the shortest of a head counts */
} hs_intervention;

/* Returns true for PATCH and PATCH_STATE. */
bool hs_intervention_is_patch(const hs_intervention *intervention);
/* Returns true for ADD and PATCH_STATE, whose layers are numbers of states. */
bool hs_intervention_is_of_state(const hs_intervention *intervention);

/* Returns the first layer that a list of interventions changes in a model of n_layers layers. Returns 0 if
 * there are none. A changed last state counts as a change of the last layer. */
size_t hs_interventions_first_layer(const hs_intervention *interventions, size_t n_interventions,
                                    size_t n_layers);

/* Checks a sequence's list of interventions as hs_plan_make does, without the sources of patches and without
 * vectors. Fails with HS_INVALID. */
HS_MUST_USE hs_status hs_interventions_check(const hs_architecture *architecture,
                                             const hs_intervention *interventions, size_t n_interventions,
                                             hs_error *err);

/* Start of a sequence whose lower layers another pass has computed, for the same tokens and the same
 * interventions in these layers. */
typedef struct hs_start {
    size_t layer;       /* the first layer to compute */
    const float *state; /* [T][H]: the state that enters the layer */
    bool unchanged;     /* the interventions in this state have not been applied: the pass does that first */
    /* [n_heads][T][d]: O of that layer with interventions applied, or NULL. If given, the pass does not
     * compute these heads. If head_off is a valid head, head_new replaces its output. */
    const float *head_outputs;
    /* [T][H]: what these heads add to the state, as hs_engine_write computes it, or NULL. If given,
     * head_outputs is not read. */
    const float *written;
    bool cross; /* they are a decoder's cross heads, and `state` is the one that enters these */
    size_t head_off;
    const float *head_new; /* [T][d]; NULL: zeros */
} hs_start;

/* The keys and values of a text's first tokens in all blocks. A pass over the tokens behind them reads them,
 * and adds those of its own tokens. So a token costs the rows of one token (the cache of keys and values of
 * generation). Those of a decoder's memory are computed by the first pass. Not valid any more if a pass
 * fails. */
typedef struct hs_past {
    size_t n_tokens; /* computed so far; 0 starts again */
    size_t n_placed; /* those of them that count as positions */
    size_t n_tokens_max, n_memory;
    size_t step;  /* floats between rows: 2B, keys and values */
    float *rows;  /* of block after block: [n_tokens_max], or of cross heads [n_memory] */
    bool crosses; /* blocks alternate, as in the architecture */
} hs_past;

/* Returns the size in bytes of an hs_past. */
size_t hs_past_bytes(const hs_architecture *architecture, size_t n_tokens_max, size_t n_memory);
/* Creates it for up to n_tokens_max tokens, and a decoder's memory of n_memory ones (else 0). Fails with
 * HS_NO_MEMORY. The caller destroys *ret_past. */
HS_MUST_USE hs_status hs_past_create(const hs_architecture *architecture, size_t n_tokens_max,
                                     size_t n_memory, hs_past **ret_past, hs_error *err);
void hs_past_destroy(hs_past *past); /* NULL is fine */

/* One text of a pass. */
typedef struct hs_sequence {
    const int32_t *ids;   /* [n_tokens], each in [0, vocab_size) */
    const uint8_t *types; /* [n_tokens], or NULL: all 0 */
    size_t n_tokens;      /* 1 .. n_positions */
    hs_capture *capture;  /* filled by the pass; created for this shape and n_tokens */
    const hs_intervention *interventions;
    size_t n_interventions;
    const hs_start *start; /* NULL: start at the embeddings. Otherwise a pass fills only what it computes of
                              the capture. */
    const float *memory;   /* [n_memory][H]: the states that a decoder's cross heads read; NULL for others */
    size_t n_memory;       /* 1 .. n_positions; neighbours with one memory share its keys and values */
    hs_past *past; /* of a causal model, alone in its pass: the tokens are those behind it, and the capture
                      keeps their LAST_STATE only. Else NULL */
    const float *words; /* [n_tokens][E]: replace the rows of the word embedding, with the model's factor;
                           NULL: those of the ids */
} hs_sequence;

/* The maps of one head of one sequence of T tokens and K keys. */
typedef struct hs_observed_head {
    const float *attention;  /* [T][K] */
    const float *similarity; /* [T][T], above the diagonal; the rest only if it is kept */
    const float *columns;    /* [K]: sum over rows of attention */
    const float *lengths;    /* [T]: of the outputs that S is of, the root of S_ii before it is set to 0; NULL
                              * if the observer has no memory for them */
} hs_observed_head;

/* A callback that sees every computed head of the captures' selections, kept or not, while its maps are in
 * the nearest cache. One thread shows layer after layer, in each layer the heads in order, and of each head
 * the sequences in order. Several threads show the heads of a layer in any order. */
typedef struct hs_observer {
    /* [n_threads][T][K] and [n_threads][T][T], with the largest T and K of the sequences: memory for maps
     * that are not kept. NULL: such maps are not computed. */
    float *attention, *similarity;
    float *columns; /* [n_threads][K] */
    float *lengths; /* [n_threads][T]; NULL: not computed */
    /* l and h are positions in the capture. `head` and its maps are valid during the call. */
    void (*show)(void *context, size_t sequence, size_t l, size_t h, const hs_observed_head *head);
    void *context;
    size_t n_threads; /* threads that may call show at once; 0 or 1: only the caller's. The pass may have more
                         threads between observed heads */
    hs_similarity kind; /* of similarity */
} hs_observer;

typedef struct hs_plan {
    const hs_architecture *architecture;
    const hs_sequence *sequences;
    size_t n_sequences;
    const hs_observer *observer; /* or NULL */
    size_t n_tokens;             /* sum over all sequences */
    size_t n_memory;             /* the same, with a memory that neighbours share counted once */
    size_t first_block;          /* of the architecture's layers[]: where all sequences start */
    bool starts_behind_heads;    /* the heads of that block are given */
    bool starts_behind_output;   /* with them, the product that follows */
    hs_past *past;               /* of the sequence, or NULL */
    size_t n_blocks;             /* blocks to compute: up to the last one that a capture selects */
    bool heads_only;             /* of the last block, compute nothing after its heads */
} hs_plan;

/* Checks the request and finds how deep the pass must go. Fails with HS_INVALID or HS_TOO_LARGE and names
 * the fault:
 * - an id or a type that the model lacks, or a wrong length
 * - a capture for another text or model
 * - an intervention in a missing layer or head, or two that contradict each other
 * - a patch from a text of another length, or whose capture lacks what it takes
 * - an addition without a vector of the model's hidden size
 * - sequences that start in different layers
 * - a decoder without memory, or a memory without decoder */
HS_MUST_USE hs_status hs_plan_make(const hs_architecture *architecture, const hs_sequence *sequences,
                                   size_t n_sequences, const hs_observer *observer, hs_plan *ret_plan,
                                   hs_error *err);
