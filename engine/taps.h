/* taps.h - the taps of a pass: its hook points, whose activations a capture can keep.
 *
 * A tap is a named point of the forward pass; TransformerLens calls it a hook point. Its array has these
 * axes:
 *
 *     QUERY, KEY     [l][h][T][d]   as they meet in the scores: turned by their positions where a model does
 *     VALUE          [l][h][T][d]
 *     VALUE_NORMS    [l][h][T]      of v W_O, what the head would write into the hidden state of each token
 *     SCORES         [l][h][T][T]   what the softmax reads: scaled, with biases; -inf where a key is hidden
 *     SCORES_C2C     [l][h][T][T]   q k' of them, scaled alike; -inf as in SCORES
 *     SCORES_C2P     [l][h][T][T]   q Kr' of them (hs_relative); 0 where a model has no such addend
 *     SCORES_P2C     [l][h][T][T]   Qr k' of them; 0 as in SCORES_C2P
 *     ATTENTION      [l][h][T][T]   A = softmax of them; rows are queries
 *     COLUMNS        [l][h][T]      sum over rows of A; kept whenever ATTENTION is
 *     HEAD_OUTPUT    [l][h][T][d]   O = A V
 *     SIMILARITY     [l][h][T][T]   S = O O', its diagonal 0
 *     RESIDUAL_SIMILARITY  the same of O W_O, what the head writes into the state
 *     HIDDEN_STATE   [s][T][H]      s: the embeddings (0), then after each selected layer in order
 *     LAST_STATE     [T][H]         after the model's last layer, whichever are selected
 *     EVERY_STATE    [L + 1][T][H]  the embeddings (0), then after each of the model's layers
 *
 * States after the model's last layer are behind the final norm, where there is one. l and h count selected
 * layers and heads. A set of taps is an unsigned of bits, HS_KEEP(SCORES) | ... */
#pragma once

#include <stddef.h>

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
    HS_TAP_HIDDEN_STATE,
    HS_TAP_LAST_STATE,
    HS_TAP_EVERY_STATE,
    HS_N_TAPS
} hs_tap;

#define HS_KEEP(tap) (1U << HS_TAP_##tap)

/* KV_HEAD is only of answers: captures keep keys and values once for each head that reads them. STATE is one
 * longer than the selected layers, DEPTH one longer than the model's layers. */
typedef enum hs_axis {
    HS_AXIS_NONE,
    HS_AXIS_LAYER,
    HS_AXIS_STATE,
    HS_AXIS_DEPTH,
    HS_AXIS_HEAD,
    HS_AXIS_KV_HEAD,
    HS_AXIS_TOKEN,
    HS_AXIS_HEAD_WIDTH,
    HS_AXIS_HIDDEN
} hs_axis;

#define HS_AXES_MAX 4

/* The axes of a tap's array; HS_AXIS_NONE after the last. */
const hs_axis *hs_tap_axes(hs_tap tap);
