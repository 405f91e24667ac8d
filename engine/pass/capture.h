/* capture.h - what one forward pass keeps of one text: the heads.
 *
 * Only the selected layers and heads are kept, in one 64-byte-aligned block, dense in the text's own T:
 *
 *     attentions    [l][h][T][T]   softmax(Q K' / sqrt(d)), rows are queries
 *     similarities  [l][h][T][T]   O O' with its diagonal 0
 *     head_outputs  [l][h][T][d]   O = A V
 *     columns       [l][h][T]      sum over rows of A, kept whenever attentions are
 *     hidden_states [s][T][H]      s: embeddings (0), then after each selected layer in order; so that
 *                                  n_states = 1 + n_layers
 *
 * l and h count the selected layers and heads in the order of `layers` and `heads`. */
#pragma once

#include "model/model.h"

enum {
    HS_KEEP_ATTENTIONS = 1,
    HS_KEEP_SIMILARITIES = 2,
    HS_KEEP_HEAD_OUTPUTS = 4,
    HS_KEEP_HIDDEN_STATES = 8,
};

typedef struct hs_selection {
    const uint16_t *layers; /* ascending, 0-based, unique */
    size_t n_layers;
    const uint16_t *heads; /* ascending, 0-based, unique */
    size_t n_heads;
    unsigned keep; /* HS_KEEP_... or-ed */
} hs_selection;

typedef struct hs_capture {
    size_t n_tokens, n_layers, n_heads, head_width, hidden;
    unsigned keep;
    const uint16_t *layers, *heads;                                            /* own copies */
    float *attentions, *similarities, *head_outputs, *columns, *hidden_states; /* NULL when not kept */
    size_t bytes;                                                              /* of the whole block */
} hs_capture;

/* Size of the block such a capture takes. Cannot overflow for shapes within HS_..._MAX. */
size_t hs_capture_bytes(const hs_shape *shape, const hs_selection *selection, size_t n_tokens);

/* Arrays are not initialised: a pass fills them all. */
HS_MUST_USE hs_status hs_capture_create(const hs_shape *shape, const hs_selection *selection, size_t n_tokens,
                                        hs_capture **ret_capture, hs_error *err);
void hs_capture_destroy(hs_capture *capture); /* NULL is fine */

/* The map of captured layer l, head h (positions in the selection, not layer numbers). */
float *hs_capture_attention(const hs_capture *capture, size_t l, size_t h);
float *hs_capture_similarity(const hs_capture *capture, size_t l, size_t h);
float *hs_capture_head_output(const hs_capture *capture, size_t l, size_t h);
float *hs_capture_columns(const hs_capture *capture, size_t l, size_t h);
