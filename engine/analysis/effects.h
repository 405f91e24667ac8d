/* effects.h - effects of heads (ablation and activation patching): each head is changed alone, and the pass
 * is compared with the baseline.
 *
 *     effect of head h of layer l = pass with another O[l][h] compared with the pass without
 *
 * The changed head's O becomes 0, factor O, the mean of O over the text's tokens, or O of another text
 * (patching).
 *
 * Layers below l do not change, and in layer l only the outputs of heads do. So a variant starts after
 * the heads of layer l, with the baseline's state and outputs (hs_start of engine/plan.h). All n heads of
 * L layers cost n L (L + 1/2) / 2 layers instead of n L L. Variants of a layer share passes, as many as
 * the workspace holds. */
#pragma once

#include "engine/analysis/predictions.h"
#include "engine/engine.h"

#include <math.h>

#define HS__VARIANTS_MAX 32 /* of a pass */
/* The caller sets the members before `captures`; before each pass, the starts of its variants. */
typedef struct hs__variants {
    const hs_engine *engine;
    hs_workspace *ws;
    const hs_sequence *text; /* its interventions apply to all variants */
    size_t capacity;         /* variants of a pass */
    hs_start starts[HS__VARIANTS_MAX];
    hs_capture *captures[HS__VARIANTS_MAX]; /* owned */
} hs__variants;

/* Returns how many of n_most variants of n_tokens fit into a pass of tokens_max tokens, at least 1. */
size_t hs__variants_capacity(size_t n_tokens, size_t tokens_max, size_t n_most);

/* Creates all captures anew. Fails with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__variants_select(hs__variants *variants, const hs_selection *selection,
                                          hs_error *err);

/* Runs the first n variants from their starts. observer may be NULL. Fails as hs_engine_run. */
HS_MUST_USE hs_status hs__variants_run(hs__variants *variants, size_t n, const hs_observer *observer,
                                       const hs_run_control *control, hs_error *err);

/* Destroys the captures. */
void hs__variants_finish(hs__variants *variants);

/* ---- effects ---- */

/* Taps that the baseline's capture must keep, of all layers and heads; of cross heads CROSS_STATE, too. The
 * tap of the options' `similarity` replaces SIMILARITY, which is not read if only heads of the last layer are
 * changed. */
#define HS_EFFECTS_TAPS (HS_KEEP(HEAD_OUTPUT) | HS_KEEP(SIMILARITY) | HS_KEEP(EVERY_STATE))

/* The effect of one head. h, S and p are of the baseline, h', S' and p' with the head changed. NAN
 * if there is nothing to compare. */
typedef struct hs_effect {
    /* |h' - h| / |h| of the last state, mean over tokens */
    float hidden_change;
    /* |S' - S| / |S|, Frobenius, mean over the heads of later layers that are not off; 0 in the last layer */
    float similarity_change;
    /* sum p ln(p / p'), nats, mean over positions */
    float prediction_kl;
    /* ln p' - ln p of the token that is there, or follows if the model predicts that; mean over positions
     * with one */
    float logprob_change;
    float target_change; /* the target with the head changed, minus the baseline's */
    float class_kl;      /* of the probabilities of all classes, nats; see hs_target_values */
    float recovered;     /* with PATCH: target_change / (the other text's target - the baseline's) */
} hs_effect;

/* A decoder that reads the last states of a text whose heads or states are changed. Predictions and the
 * target are then the decoder's, of its text ids [n_tokens]. */
typedef struct hs_effects_reader {
    const hs_engine *engine; /* NULL: there is none */
    const int32_t *ids;
    size_t n_tokens;
} hs_effects_reader;

typedef struct hs_effects_options {
    /* The baseline, with a filled capture. Its interventions apply to all variants. start is not read. If
     * the capture is of cross heads, these are the heads that are changed and compared. */
    const hs_sequence *baseline;
    hs_intervention_kind kind; /* ZERO, SCALE, MEAN or PATCH */
    float factor;              /* of SCALE */
    /* For PATCH: another text with as many tokens. Keeps HEAD_OUTPUT and EVERY_STATE of all layers and heads,
     * cross heads like the baseline's. */
    const hs_capture *other;
    /* Heads to change; ascending, 0-based, unique. */
    const uint16_t *layers, *heads;
    size_t n_layers, n_heads;
    hs_effects_reader reader;
    /* Positions to predict, of the reader's text if there is one; none if the checkpoint has no head for
     * tokens. */
    const size_t *positions;
    size_t n_positions;
    hs_target target;
    hs_similarity similarity; /* which S is compared */
    /* The baseline keeps no similarities: they are computed again from its outputs, once for every
     * comparison.
     */
    bool again;
    int32_t mask_id; /* id of the mask token, which is not scored; -1: every token is scored */
    /* Called with the number of heads done of n_layers * n_heads; may be NULL. */
    void (*progress)(void *context, size_t n_done);
    void *context;
} hs_effects_options;

/* Returns the part of the way from a clean text's target to another text's that a patch goes: 0 none, 1 all.
 * NAN if the two texts have the same target. */
static inline float hs_recovered(double clean, double patched, double other)
{
    return other == clean ? NAN : (float)((patched - clean) / (other - clean));
}

/* Adds the sums of (changed - baseline)^2 and of baseline^2 over n numbers to sums. */
void hs_change_add(const float *changed, const float *baseline, size_t n, double sums[2]);

/* Returns |changed - baseline| / |baseline|; NAN if both are 0. */
double hs_relative_change(const float *changed, const float *baseline, size_t n);

/* Returns the bytes that a call allocates beside the workspace, which holds one text of the maximum
 * length. */
size_t hs_effects_bytes(const hs_engine *engine, const hs_effects_options *options, size_t n_threads);

/* Computes the effects, ret_effects [n_layers][n_heads]. Fails with HS_NO_MEMORY, and with HS_CANCELLED
 * soon after control says so. */
HS_MUST_USE hs_status hs_effects_compute(const hs_engine *engine, hs_workspace *ws,
                                         const hs_effects_options *options, const hs_run_control *control,
                                         hs_effect *ret_effects, hs_error *err);

/* ---- patches the hidden state at each layer and position in turn (Meng et al. 2022).
 *
 *     map[s][t] = part of the other text's target that the clean text reaches with row t of state s replaced
 *
 * State 0 is the embeddings and state l + 1 is after layer l, as EVERY_STATE of engine/plan.h has them. A
 * variant starts at its state, so layers below are not computed: all T positions of L + 1 states cost
 * T (L + 1) / 2 passes. Variants of a state share passes, as many as the workspace holds. */

typedef struct hs_patch_map_options {
    /* The clean text: its capture keeps EVERY_STATE, its interventions apply to all variants. start is not
     * read. */
    const hs_sequence *clean;
    const hs_capture *other; /* of another text with as many tokens; keeps EVERY_STATE */
    hs_target target;        /* not NONE; with a reader its */
    hs_effects_reader reader;
} hs_patch_map_options;

/* Returns the bytes that a call allocates beside the workspace, which holds one text of the maximum
 * length. other and the capture of clean are not read. */
size_t hs_patch_map_bytes(const hs_engine *engine, const hs_patch_map_options *options);

/* Computes the map, ret_map [L + 1][T], as hs_effect.recovered. Fails with HS_NO_MEMORY, and with
 * HS_CANCELLED soon after control says so. */
HS_MUST_USE hs_status hs_patch_map_compute(const hs_engine *engine, hs_workspace *ws,
                                           const hs_patch_map_options *options, const hs_run_control *control,
                                           float *ret_map, hs_error *err);

/* ---- scores of heads on random sequences of tokens that are repeated once (Olsson et al. 2022,
 * arXiv 2209.11895).
 *
 *     text       = before r r after, with r [length] different ids drawn at random
 *     previous   = mean over i > 0 of A[i, i - 1]
 *     duplicate  = mean over the tokens i of the second r of A[i, i - length]: the same token
 *     induction  = the same mean of A[i, i - length + 1]: the token after the same token
 *
 * The scores are means over texts. A head that attends evenly to n tokens has 1 / n. */

typedef struct hs_head_score {
    float previous, duplicate, induction;
} hs_head_score;

typedef struct hs_head_scores_options {
    const int32_t *before, *after; /* special tokens around the text */
    size_t n_before, n_after;
    const int32_t *choices; /* ids to draw from, unique */
    size_t n_choices;       /* at least length */
    size_t length;          /* of r, at least 2; the whole text fits the model and the workspace */
    size_t n_texts;         /* at least 1 */
    uint64_t seed;          /* the first texts do not depend on n_texts */
    const hs_intervention *interventions;
    size_t n_interventions;
    const uint16_t *layers, *heads; /* ascending, 0-based, unique */
    size_t n_layers, n_heads;
} hs_head_scores_options;

/* Returns the bytes that a call allocates beside the workspace. */
size_t hs_head_scores_bytes(const hs_engine *engine, const hs_head_scores_options *options, size_t n_threads);

/* Computes the scores, ret_scores [n_layers][n_heads]. Fails with HS_NO_MEMORY, and with HS_CANCELLED soon
 * after control says so. */
HS_MUST_USE hs_status hs_head_scores_compute(const hs_engine *engine, hs_workspace *ws,
                                             const hs_head_scores_options *options,
                                             const hs_run_control *control, hs_head_score *ret_scores,
                                             hs_error *err);
