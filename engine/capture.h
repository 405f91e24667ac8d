/* capture.h - the activations that a pass keeps of one text: the arrays of selected taps (engine/taps.h),
 * layers and heads.
 *
 * All arrays lie in one block, aligned to 64 bytes, and their axes are as long as the text (no padding). */
#pragma once

#include "engine/runtime.h"
#include "engine/taps.h"
#include "model/architecture.h"

typedef struct hs_selection {
    const uint16_t *layers; /* ascending, 0-based, unique */
    size_t n_layers;
    const uint16_t *heads; /* ascending, 0-based, unique */
    size_t n_heads;
    unsigned taps; /* HS_KEEP(...) or-ed */
} hs_selection;

/* 0, 1, 2, ...: the numbers of all layers, and of all heads. */
extern const uint16_t hs_all_numbers[HS_LAYERS_MAX];

/* Selects all layers and heads. */
hs_selection hs_select_all(const hs_shape *shape, unsigned taps);

typedef struct hs_capture {
    hs_runtime *runtime; /* lends memory and cores; may be NULL */
    size_t n_tokens, n_layers, n_heads, head_width, hidden;
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
