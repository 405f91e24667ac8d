/* plan.h - everything that is asked of a model, in one value, made before anything is computed:
 *
 *     plan = recipe + sequences (ids, types, interventions, what to capture) + observer + how deep to go
 *
 * A plan is checked when it is made: a pass over a plan has nothing left to refuse but its size. It borrows
 * all that it points to, until the pass is over. */
#pragma once

#include "engine/capture.h"

#include <stdbool.h>

/* What can be changed in a head. With A its attention and O = A V its output, in this order:
 *
 *     UNIFORM    A := 1 / n for each of the n keys that a query may see
 *     IDENTITY   A := 1 on the diagonal, 0 elsewhere
 *     MEAN       O := its mean over the text's tokens
 *     ZERO       O := 0
 *     SCALE      O := factor O
 *
 * Everything computed from them follows, in this layer and above; scores stay those that the softmax would
 * have read. */
typedef enum hs_intervention_kind {
    HS_INTERVENE_ZERO,
    HS_INTERVENE_SCALE,
    HS_INTERVENE_MEAN,
    HS_INTERVENE_UNIFORM,
    HS_INTERVENE_IDENTITY,
} hs_intervention_kind;

/* In which heads of which layers. Several that meet in one head all apply, in whatever order they are listed.
 */
typedef struct hs_intervention {
    const uint16_t *layers; /* ascending, 0-based, unique */
    size_t n_layers;
    const uint16_t *heads; /* ascending, 0-based, unique */
    size_t n_heads;
    hs_intervention_kind kind;
    float factor; /* of SCALE, finite; 1 changes no bit */
} hs_intervention;

/* HS_INVALID where a list cannot be carried out, as hs_plan_make would say of a sequence. */
HS_MUST_USE hs_status hs_interventions_check(const hs_shape *shape, const hs_intervention *interventions,
                                             size_t n_interventions, hs_error *err);

/* Where a sequence begins whose lower layers another pass has computed, of the same tokens and the same
 * interventions in these layers. */
typedef struct hs_start {
    size_t layer;       /* the first one to compute */
    const float *state; /* [T][H], entering it: behind the layer before, or the embeddings */
    /* [n_heads][T][d]: O of that layer, interventions applied, where its heads are not to be computed again;
     * or NULL. Then that of head_off counts as 0, where it is a head's number. */
    const float *head_outputs;
    size_t head_off;
} hs_start;

/* One text of a pass. */
typedef struct hs_sequence {
    const int32_t *ids;   /* [n_tokens], each in [0, vocab_size) */
    const uint8_t *types; /* [n_tokens], or NULL: all 0 */
    size_t n_tokens;      /* 1 .. n_positions */
    hs_capture *capture;  /* filled by the pass; made for this shape and n_tokens */
    const hs_intervention *interventions;
    size_t n_interventions;
    const hs_start *start; /* NULL: the embeddings. Of its capture a pass fills what it computes. */
} hs_sequence;

/* Maps of one head of one sequence of T tokens. */
typedef struct hs_observed_head {
    const float *attention;  /* [T][T] */
    const float *similarity; /* [T][T], above the diagonal; the rest is only there if it is kept */
    const float *columns;    /* [T]: sum over rows of attention */
} hs_observed_head;

/* Is shown every head that the sequences' captures list and that is computed, whether they keep it or not,
 * while its maps are in the nearest cache. Layer after layer: each head of it, of each sequence, in these
 * orders where one thread shows. */
typedef struct hs_observer {
    /* [n_threads][T][T], T of the longest sequence: where maps that are not kept are made; NULL: they are
     * not. */
    float *attention, *similarity;
    float *columns; /* [n_threads][T] */
    /* l and h are positions in the capture. What head points to is valid during the call. */
    void (*show)(void *context, size_t sequence, size_t l, size_t h, const hs_observed_head *head);
    void *context;
    size_t n_threads; /* that may show at once; 0 or 1: only the caller's, which then does the whole pass */
    bool residual;    /* similarity is RESIDUAL_SIMILARITY of engine/taps.h */
} hs_observer;

typedef struct hs_plan {
    const hs_recipe *recipe;
    const hs_sequence *sequences;
    size_t n_sequences;
    const hs_observer *observer; /* or NULL */
    size_t n_tokens;             /* of all sequences */
    size_t first_layer;          /* where all sequences start */
    bool starts_behind_heads;    /* of that layer, which are given */
    size_t n_layers; /* up to where to compute: nothing past the last one that any capture lists */
    bool heads_only; /* of the last one of them nothing behind its heads is wanted */
} hs_plan;

/* Checks what is asked and finds how deep the pass must go. Fails with HS_INVALID or HS_TOO_LARGE, naming
 * what is wrong: an id or a type that the model lacks, a length, a capture that was made for another text or
 * model, an intervention in a layer or a head that is not there, or two that contradict each other, sequences
 * that start in different layers. */
HS_MUST_USE hs_status hs_plan_make(const hs_recipe *recipe, const hs_sequence *sequences, size_t n_sequences,
                                   const hs_observer *observer, hs_plan *ret_plan, hs_error *err);
