/* output_patch_map.c - the map of patched hidden states, computed after the passes of both texts. */
#include "api/output_maps.h"
#include "api/output_structures.h"
#include "engine/analysis/effects.h"

static size_t result_bytes(const hs__answer *a)
{
    return (a->model->shape->n_layers + 1) * a->encoding->n_tokens * sizeof(float);
}

static size_t bytes_max(const hs__answer *a)
{
    const hs_sequence clean = {.n_tokens = a->encoding->n_tokens};
    hs_patch_map_options options = {.clean = &clean};
    hs_error unused;
    if (hs__target_find(a, NULL, &options.target, &unused))
        return SIZE_MAX;
    return result_bytes(a) + hs_patch_map_bytes(a->model->engine, &options);
}

static hs_status run(const hs__answer *a, hs_workspace *ws, const hs_run_control *control, void *ret_result,
                     hs_error *err)
{
    const hs_sequence clean = hs__answer_sequence(a);
    hs_patch_map_options options = {.clean = &clean, .other = a->other};
    const float *last = hs_capture_at(a->capture, HS_TAP_EVERY_STATE, a->model->shape->n_layers, 0);
    const hs_status st = hs__target_find(a, last, &options.target, err);
    return st ? st : hs_patch_map_compute(a->model->engine, ws, &options, control, ret_result, err);
}

const hs__own_passes hs__own_patch_map = {
    .kind = HS__OWN_PATCH_MAP,
    .result = "a patch map",
    .result_bytes = result_bytes,
    .bytes_max = bytes_max,
    .run = run,
};

const float *hs__part_patch_map(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)h;
    (void)into;
    return (const float *)a->own[HS__OWN_PATCH_MAP] + l * a->encoding->n_tokens;
}
