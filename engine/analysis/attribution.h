/* attribution.h - what a target rests on, from gradients (engine/gradients.h): tokens, heads, states.
 *
 * With x_t the word row of token t (engine/gradients.h) and x'_t its baseline:
 *
 *     GRADIENT             |dy/dx_t|, the length
 *     GRADIENT_X_INPUT     <x_t, dy/dx_t>
 *     INTEGRATED           <x_t - x'_t, mean of dy/dx_t on the way from x' to x> (Sundararajan et al. 2017),
 *                          by Gauss-Legendre quadrature as Captum does
 *     relevance            R = (I + A_L) ... (I + A_1), A_l = mean over heads of max(0, A * dy/dA)
 *     logit attribution    <u, w> of what a part writes into the state, w, where u is dy/dx of the state x
 *                          behind the last layer with the deviations of norms held fixed */
#pragma once

#include "engine/analysis/effects.h"
#include "engine/gradients.h"

/* Computes the target's value y and its gradient with respect to the last states: ret_last [n_tokens][H]. The
 * value has the bits of hs_target_values but for VECTOR, whose first text is this one: 0, and so is its
 * gradient. ret_value and ret_last may be NULL. Fails with HS_UNSUPPORTED if the checkpoint lacks the head,
 * and with HS_INVALID if the target is NONE or names a position behind the text. It may fail with
 * HS_NO_MEMORY, and with HS_CANCELLED between rows of logits. */
HS_MUST_USE hs_status hs_tape_target(const hs_tape *tape, const hs_target *target,
                                     const hs_run_control *control, double *ret_value, float *ret_last,
                                     hs_error *err);

/* Returns the most bytes that hs_tape_target allocates for any target of a text of n_tokens tokens. */
size_t hs_tape_target_bytes(const hs_engine *engine, size_t n_tokens, size_t n_threads);

typedef enum hs_attribution_kind {
    HS_ATTRIBUTE_GRADIENT,
    HS_ATTRIBUTE_GRADIENT_X_INPUT,
    HS_ATTRIBUTE_INTEGRATED
} hs_attribution_kind;

/* A text and the target that is read of it, or of a decoder that reads its last states. */
typedef struct hs_differentiated {
    const hs_engine *engine;
    hs_workspace *ws;
    const hs_sequence *text;
    /* A decoder whose text's memory is the first text's last states: `memory` of its sequence is not read. */
    const hs_engine *decoder; /* NULL: none; the target is read of the first text */
    hs_workspace *decoder_ws;
    const hs_sequence *decoder_text;
    hs_target target;
    /* NULL, or finds the target after the forward passes, when the sequences' captures are filled. Only
     * hs_differentiate calls it; what it fails with ends the call. */
    hs_status (*find)(void *context, hs_target *ret_target, hs_error *err);
    void *context;
} hs_differentiated;

#define HS_DECODER_SELECTIONS_MAX 7

/* Returns the most bytes that hs_differentiate or hs_attribution_compute allocates for these texts and any
 * target, with n_threads. */
size_t hs_differentiated_bytes(const hs_differentiated *of, size_t n_threads);

/* Computes y and all gradients that the selections ask for: n of the first text, and up to
 * HS_DECODER_SELECTIONS_MAX of the decoder's. Captures of the sequences that are not NULL are filled. Both
 * engines were prepared (hs_gradients_prepare). ret_value may be NULL. Fails as hs_tape_record,
 * hs_tape_target and hs_tape_differentiate. */
HS_MUST_USE hs_status hs_differentiate(const hs_differentiated *of, const hs_gradients *to, size_t n,
                                       const hs_gradients *decoder_to, size_t n_decoder,
                                       const hs_run_control *control, double *ret_value, hs_error *err);

/* Computes the attributions of tokens from their word rows and gradients, both [n_tokens][width]:
 * GRADIENT or GRADIENT_X_INPUT. INTEGRATED is the latter with x - x' for rows and mean gradients. */
void hs_attribution_read(hs_attribution_kind kind, const float *words, const float *gradients,
                         size_t n_tokens, size_t width, float *ret_tokens);

#define HS_ATTRIBUTION_STEPS_MAX 1000

typedef struct hs_attribution_options {
    hs_attribution_kind kind;
    bool of_decoder;     /* attribute to the tokens of the decoder's text, not to the first one's */
    size_t n_steps;      /* of INTEGRATED: 1 .. HS_ATTRIBUTION_STEPS_MAX */
    int32_t baseline_id; /* of INTEGRATED: x' is this token's row, with the model's factor; -1: 0 */
    const uint8_t *kept; /* [T] of INTEGRATED: tokens whose row stays as it is; NULL: none */
    void (*progress)(void *context, size_t n_done); /* of n_steps; may be NULL */
    void *context;
} hs_attribution_options;

typedef struct hs_attribution {
    double value;    /* y of the text */
    double baseline; /* of INTEGRATED: y of the baseline */
    double gap;      /* of INTEGRATED: sum of attributions - (value - baseline) */
} hs_attribution;

/* Computes the attribution of each token: ret_tokens [T]. Fails as hs_differentiate. */
HS_MUST_USE hs_status hs_attribution_compute(const hs_differentiated *of,
                                             const hs_attribution_options *options,
                                             const hs_run_control *control, float *ret_tokens,
                                             hs_attribution *ret, hs_error *err);

/* Computes the relevance of a text's tokens, ret_text [T][T]: row i is of token i's last state. With a
 * decoder the target's gradients reach both texts, and the relevance is theirs (Chefer et al. 2021, arXiv
 * 2103.15679, eq. 5 to 10): ret_decoder [Tt][Tt] of the decoder's own tokens, ret_cross [Tt][T] of the first
 * text's:
 *
 *     own heads    R_tt += A R_tt, R_ts += A R_ts
 *     cross heads  R_ts += N(R_tt)' A N(R_ss), with N(R) = I + rows of R - I divided by their sums
 *
 * Rows that are 0 stay 0. Arrays may be NULL. Fails as hs_differentiate. */
HS_MUST_USE hs_status hs_relevance_compute(const hs_differentiated *of, const hs_run_control *control,
                                           float *ret_text, float *ret_decoder, float *ret_cross,
                                           double *ret_value, hs_error *err);

/* Returns the bytes that hs_relevance_compute allocates beside hs_differentiated_bytes. */
size_t hs_relevance_bytes(const hs_differentiated *of);

/* ---- logits ---- */

/* The heads and layers whose parts are written one by one. */
typedef struct hs_logit_selection {
    const uint16_t *layers, *heads; /* ascending, 0-based, unique */
    size_t n_layers, n_heads;
    bool cross;              /* the heads are a decoder's cross heads */
    float *ret_heads;        /* [n_layers][n_heads] */
    float *ret_feed_forward; /* [n_layers], with the bias of the last weight */
} hs_logit_selection;

/* A target as the sum of what each part of the model adds to it. */
typedef struct hs_logit_attribution {
    float value;     /* y, of tokens before the cap of logits if the model has one */
    float embedding; /* of words, positions and types, behind their norm */
    float bias;      /* of the output weights of all heads, of norms, and of the head behind the layers */
    float other;     /* of heads and feed-forward parts that are not selected, and of patched states */
    float sum;       /* of all parts: those selected, embedding, bias and other */
    float rest;      /* value - sum: what rounding loses */
} hs_logit_attribution;

/* Returns why the target is no such sum, or NULL: it is one. The words follow a colon. */
const char *hs_logit_attribution_refusal(const hs_architecture *architecture, const hs_target *target);

/* Computes the target of a recorded pass, as hs_tape_target does, and the sum. ws is as for hs_tape_record.
 * Fails with HS_UNSUPPORTED if hs_logit_attribution_refusal says so, and as hs_tape_target. */
HS_MUST_USE hs_status hs_tape_logits(hs_tape *tape, hs_workspace *ws, const hs_target *target,
                                     const hs_logit_selection *of, const hs_run_control *control,
                                     hs_logit_attribution *ret, double *ret_target, hs_error *err);

/* Records the passes and computes the sum. With a decoder the parts are the decoder's. The target was found,
 * or is named. Fails as hs_tape_record and hs_tape_logits. */
HS_MUST_USE hs_status hs_logit_attribution_compute(const hs_differentiated *of,
                                                   const hs_logit_selection *selection,
                                                   const hs_run_control *control, hs_logit_attribution *ret,
                                                   double *ret_target, hs_error *err);

/* Returns the bytes that hs_tape_logits allocates for a text of n_tokens tokens, beside
 * hs_tape_target_bytes. */
size_t hs_logit_attribution_bytes(const hs_engine *engine, size_t n_tokens);

/* ---- estimates ---- */

/* Estimates each effect's target_change (engine/analysis/effects.h) to first order: sum over tokens of
 * <O' - O, dy/dO>, with O' what the options' kind makes of O. It reads the options' baseline's capture,
 * other, kind, factor, layers and heads. ret_changes [n_layers][n_heads]. The baseline's
 * capture keeps HEAD_OUTPUT of all layers and heads, and so does `other` with PATCH. outputs
 * [n_layers][n_heads][T][d] are dy/dO of the options' layers and heads. Any thread may call it. */
void hs_effects_estimate(const hs_effects_options *options, const float *outputs, float *ret_changes);

/* Estimates a patch map (engine/analysis/effects.h) to first order: <h' - h, dy/dh> of each state and
 * position, divided by other_value - value as hs_effect.recovered is. It reads the options' two captures.
 * states [L + 1][T][H] are dy/dh of all layers. ret_map [L + 1][T]. */
void hs_patch_map_estimate(const hs_patch_map_options *options, const float *states, double value,
                           double other_value, float *ret_map);
