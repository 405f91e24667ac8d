/* plan.h - a plan: one value that says what a pass computes.
 *
 *     plan = architecture + sequences (ids, types, interventions, capture) + observer + last layer
 *
 * hs_plan_make checks everything, so that a pass checks only that the plan fits its workspace. A plan
 * borrows all that it points to until the pass is over. */
#pragma once

#include "engine/capture.h"

#include <stdbool.h>

/* Changes to a head. With A its attention and O = A V its output, they apply in this order:
 *
 *     UNIFORM    A := 1 / n for each of the n keys that a query may see
 *     IDENTITY   A := 1 on the diagonal, 0 elsewhere
 *     PATCH      O := O of another pass, at chosen positions
 *     MEAN       O := its mean over the text's tokens
 *     ZERO       O := 0
 *     SCALE      O := factor O
 *
 * PATCH_STATE changes no head: it replaces the hidden state at chosen positions by that of another pass.
 * If several patches name a place, the last one in the list counts.
 *
 * Everything computed from A, O and the state follows, in this layer and above. SCORES are kept as the
 * softmax would have read them. */
typedef enum hs_intervention_kind {
    HS_INTERVENE_ZERO,
    HS_INTERVENE_SCALE,
    HS_INTERVENE_MEAN,
    HS_INTERVENE_UNIFORM,
    HS_INTERVENE_IDENTITY,
    HS_INTERVENE_PATCH,
    HS_INTERVENE_PATCH_STATE,
} hs_intervention_kind;

/* One change, in some heads of some layers. If several interventions name a head, all of them apply, in
 * the order above. */
typedef struct hs_intervention {
    const uint16_t *layers; /* ascending, 0-based, unique; of PATCH_STATE: states, 0 the embeddings and l + 1
                               the state after layer l */
    size_t n_layers;
    const uint16_t *heads; /* ascending, 0-based, unique; not read for PATCH_STATE */
    size_t n_heads;
    hs_intervention_kind kind;
    float factor; /* of SCALE, finite; 1 changes no bit */
    /* For PATCH and PATCH_STATE: another sequence with as many tokens, which a pass has computed. Its capture
     * keeps HEAD_OUTPUT of these layers and heads, or HIDDEN_STATE of these states. */
    const struct hs_sequence *from;
    const size_t *positions; /* ascending, unique; none: all */
    size_t n_positions;
} hs_intervention;

/* Returns true for PATCH and PATCH_STATE. */
bool hs_intervention_is_patch(const hs_intervention *intervention);

/* Returns the first layer that a list of interventions changes in a model of n_layers layers. Returns 0 if
 * there are none. A patched last state counts as a change of the last layer. */
size_t hs_interventions_first_layer(const hs_intervention *interventions, size_t n_interventions,
                                    size_t n_layers);

/* Checks a sequence's list of interventions as hs_plan_make does. Fails with HS_INVALID. */
HS_MUST_USE hs_status hs_interventions_check(const hs_shape *shape, const hs_intervention *interventions,
                                             size_t n_interventions, hs_error *err);

/* Start of a sequence whose lower layers another pass has computed, for the same tokens and the same
 * interventions in these layers. */
typedef struct hs_start {
    size_t layer;       /* the first layer to compute */
    const float *state; /* [T][H]: the state that enters the layer */
    bool patched;       /* the interventions' patches of this state do not apply: it stays as it is */
    /* [n_heads][T][d]: O of that layer with interventions applied, or NULL. If given, the pass does not
     * compute these heads. If head_off is a valid head, head_new replaces its output. */
    const float *head_outputs;
    size_t head_off;
    const float *head_new; /* [T][d]; NULL: zeros */
} hs_start;

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
} hs_sequence;

/* The maps of one head of one sequence of T tokens. */
typedef struct hs_observed_head {
    const float *attention;  /* [T][T] */
    const float *similarity; /* [T][T], above the diagonal; the rest only if it is kept */
    const float *columns;    /* [T]: sum over rows of attention */
} hs_observed_head;

/* A callback that sees every computed head of the captures' selections, kept or not, while its maps are in
 * the nearest cache. One thread shows layer after layer, in each layer the heads in order, and of each head
 * the sequences in order. Several threads show the heads of a layer in any order. */
typedef struct hs_observer {
    /* [n_threads][T][T], T of the longest sequence: memory for maps that are not kept. NULL: such maps
     * are not computed. */
    float *attention, *similarity;
    float *columns; /* [n_threads][T] */
    /* l and h are positions in the capture. `head` and its maps are valid during the call. */
    void (*show)(void *context, size_t sequence, size_t l, size_t h, const hs_observed_head *head);
    void *context;
    size_t n_threads; /* threads that may call show at once; 0 or 1: only the caller's, which then runs the
                         whole pass */
    bool residual;    /* similarity is RESIDUAL_SIMILARITY of taps.h */
} hs_observer;

typedef struct hs_plan {
    const hs_architecture *architecture;
    const hs_sequence *sequences;
    size_t n_sequences;
    const hs_observer *observer; /* or NULL */
    size_t n_tokens;             /* sum over all sequences */
    size_t first_layer;          /* the layer in which all sequences start */
    bool starts_behind_heads;    /* the heads of that layer are given */
    size_t n_layers;             /* layers to compute: up to the last one that a capture selects */
    bool heads_only;             /* of the last layer, compute nothing after its heads */
} hs_plan;

/* Checks the request and finds how deep the pass must go. Fails with HS_INVALID or HS_TOO_LARGE and names
 * the fault:
 * - an id or a type that the model lacks, or a wrong length
 * - a capture for another text or model
 * - an intervention in a missing layer or head, or two that contradict each other
 * - a patch from a text of another length, or whose capture lacks what it takes
 * - sequences that start in different layers */
HS_MUST_USE hs_status hs_plan_make(const hs_architecture *architecture, const hs_sequence *sequences,
                                   size_t n_sequences, const hs_observer *observer, hs_plan *ret_plan,
                                   hs_error *err);
