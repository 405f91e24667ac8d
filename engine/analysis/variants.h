/* variants.h - passes over variants of one text, which begin at an inner layer. */
#pragma once

#include "engine/engine.h"

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
