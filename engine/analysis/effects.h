/* effects.h - what each head does for the pass: it is switched off, alone, and what comes after it is
 * compared.
 *
 *     effect of head h of layer l = pass with O[l][h] := 0 beside the pass without
 *
 * Below layer l nothing changes, and in it only what is made of its heads' outputs; so a variant begins
 * behind the heads of layer l, with the baseline's state and outputs (hs_start of engine/plan.h). All n heads
 * of L layers cost n L (L + 1/2) / 2 layers instead of n L L. Variants of a layer go through the pass side by
 * side, as many as the workspace holds. */
#pragma once

#include "engine/engine.h"

/* What the baseline's capture must keep, of all layers and heads; RESIDUAL_SIMILARITY in place of SIMILARITY
 * where that is compared. */
#define HS_EFFECTS_TAPS (HS_KEEP(HEAD_OUTPUT) | HS_KEEP(SIMILARITY) | HS_KEEP(EVERY_STATE))

/* Baseline h, S, p; with the head switched off h', S', p'. NAN where there is nothing to compare. */
typedef struct hs_effect {
    /* |h' - h| / |h| of the last state, mean over tokens */
    float hidden_change;
    /* |S' - S| / |S|, Frobenius, mean over the heads of later layers that are not off; 0 in the last layer */
    float similarity_change;
    /* sum p ln(p / p'), nats, mean over positions */
    float prediction_kl;
    /* ln p' - ln p of the token that is there, mean over positions with one */
    float logprob_change;
} hs_effect;

typedef struct hs_effects_wanted {
    /* The baseline: its capture is filled, its interventions stay. start is not read. */
    const hs_sequence *baseline;
    /* Which to switch off; ascending, 0-based, unique. */
    const uint16_t *layers, *heads;
    size_t n_layers, n_heads;
    const size_t *positions; /* where to predict, below T; none where the checkpoint has no head for it */
    size_t n_positions;
    bool residual;   /* S is RESIDUAL_SIMILARITY of engine/taps.h */
    int32_t mask_id; /* stands for no token; -1: every token is one */
    /* Told how many of the n_layers * n_heads are done; NULL: nobody asks. */
    void (*progress)(void *context, size_t n_done);
    void *context;
} hs_effects_wanted;

/* What a call takes beside the workspace, which holds one longest text, and last states of a pass. */
size_t hs_effects_bytes(const hs_engine *engine, const hs_effects_wanted *wanted, size_t n_threads);

/* ret [n_layers][n_heads]. HS_CANCELLED soon after control says so. */
HS_MUST_USE hs_status hs_effects_compute(const hs_engine *engine, hs_workspace *ws,
                                         const hs_effects_wanted *wanted, const hs_run_control *control,
                                         hs_effect *ret_effects, hs_error *err);
