/* capture.h - what one forward pass keeps of one text: the tapped arrays of the selected layers and heads
 * (engine/taps.h), in one 64-byte-aligned block, dense in the text's own T. */
#pragma once

#include "engine/runtime.h"
#include "engine/taps.h"
#include "model/recipe.h"

typedef struct hs_selection {
    const uint16_t *layers; /* ascending, 0-based, unique */
    size_t n_layers;
    const uint16_t *heads; /* ascending, 0-based, unique */
    size_t n_heads;
    unsigned taps; /* HS_KEEP(...) or-ed */
} hs_selection;

typedef struct hs_capture {
    hs_runtime *runtime; /* whose memory and cores serve it, or NULL */
    size_t n_tokens, n_layers, n_heads, head_width, hidden;
    size_t depth; /* layers of the model */
    unsigned taps;
    const uint16_t *layers, *heads; /* own copies, in the selection's order */
    float *arrays[HS_N_TAPS];       /* NULL when not kept */
    size_t bytes;                   /* of the whole block */
} hs_capture;

/* Size of the block such a capture takes. Cannot overflow for shapes within HS_..._MAX. */
size_t hs_capture_bytes(const hs_shape *shape, const hs_selection *selection, size_t n_tokens);

/* Arrays are not initialised: a pass fills them all. The block comes from the runtime's pool and goes back
 * there, or from the heap where runtime is NULL. */
HS_MUST_USE hs_status hs_capture_create(hs_runtime *runtime, const hs_shape *shape,
                                        const hs_selection *selection, size_t n_tokens,
                                        hs_capture **ret_capture, hs_error *err);
void hs_capture_destroy(hs_capture *capture); /* NULL is fine */

/* Copies what `to` keeps of layers below n_layers, and of the states that enter them, from a capture of a
 * text of as many tokens that keeps all of that too. */
void hs_capture_copy_below(const hs_capture *from, hs_capture *to, size_t n_layers);

/* Length of an axis in this capture. */
size_t hs_capture_length(const hs_capture *capture, hs_axis axis);

/* The part of a tap that belongs to captured layer l and head h: positions in the selection, not the model's
 * numbers. For HIDDEN_STATE l counts states and h is 0. */
float *hs_capture_at(const hs_capture *capture, hs_tap tap, size_t l, size_t h);
