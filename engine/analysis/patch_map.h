/* patch_map.h - patches the hidden state at each layer and position in turn (Meng et al. 2022).
 *
 *     map[s][t] = part of the other text's target that the clean text reaches with row t of state s replaced
 *
 * State 0 is the embeddings and state l + 1 is after layer l, as EVERY_STATE of engine/taps.h has them. A
 * variant starts at its state, so layers below are not computed: all T positions of L + 1 states cost
 * T (L + 1) / 2 passes. Variants of a state share passes, as many as the workspace holds. */
#pragma once

#include "engine/analysis/target.h"

typedef struct hs_patch_map_options {
    /* The clean text: its capture keeps EVERY_STATE, its interventions apply to all variants. start is not
     * read. */
    const hs_sequence *clean;
    const hs_capture *other; /* of another text with as many tokens; keeps EVERY_STATE */
    hs_target target;        /* not NONE */
} hs_patch_map_options;

/* Returns the bytes that a call allocates beside the workspace, which holds one text of the maximum
 * length. other and the capture of clean are not read. */
size_t hs_patch_map_bytes(const hs_engine *engine, const hs_patch_map_options *options);

/* Computes the map, ret_map [L + 1][T]: hs_recovered of each variant. Fails with HS_NO_MEMORY, and with
 * HS_CANCELLED soon after control says so. */
HS_MUST_USE hs_status hs_patch_map_compute(const hs_engine *engine, hs_workspace *ws,
                                           const hs_patch_map_options *options, const hs_run_control *control,
                                           float *ret_map, hs_error *err);
