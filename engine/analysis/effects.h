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

#include "engine/analysis/target.h"

/* Taps that the baseline's capture must keep, of all layers and heads. With `residual`,
 * RESIDUAL_SIMILARITY replaces SIMILARITY. */
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

typedef struct hs_effects_options {
    /* The baseline, with a filled capture. Its interventions apply to all variants. start is not read. */
    const hs_sequence *baseline;
    hs_intervention_kind kind; /* ZERO, SCALE, MEAN or PATCH */
    float factor;              /* of SCALE */
    /* For PATCH: another text with as many tokens. Keeps HEAD_OUTPUT and EVERY_STATE of all layers and heads.
     */
    const hs_capture *other;
    /* Heads to change; ascending, 0-based, unique. */
    const uint16_t *layers, *heads;
    size_t n_layers, n_heads;
    const size_t
        *positions; /* positions to predict, below T; none if the checkpoint has no head for masked tokens */
    size_t n_positions;
    hs_target target;
    bool residual;   /* S is RESIDUAL_SIMILARITY of taps.h */
    int32_t mask_id; /* id of the mask token, which is not scored; -1: every token is scored */
    /* Called with the number of heads done of n_layers * n_heads; may be NULL. */
    void (*progress)(void *context, size_t n_done);
    void *context;
} hs_effects_options;

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
