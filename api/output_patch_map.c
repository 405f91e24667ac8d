/* output_patch_map.c - the map of patched hidden states. hs__patch_map_run computes it after the passes of
 * both texts, with the worker's workspace. */
#include "api/field_target.h"
#include "api/output_maps.h"
#include "api/output_structures.h"
#include "engine/analysis/patch_map.h"

size_t hs__patch_map_bytes(const hs__answer *a)
{
    const hs_sequence clean = {.n_tokens = a->encoding->n_tokens};
    hs_patch_map_options options = {.clean = &clean};
    hs_error unused;
    if (hs__target_find(a, NULL, &options.target, &unused))
        return SIZE_MAX;
    return (a->model->shape->n_layers + 1) * clean.n_tokens * sizeof(float) +
           hs_patch_map_bytes(a->model->engine, &options);
}

hs_status hs__patch_map_run(const hs__answer *a, hs_workspace *ws, const hs_run_control *control,
                            float *ret_map, hs_error *err)
{
    const hs__analysis_request *analysis = a->analysis;
    const hs_sequence clean = {.ids = a->encoding->ids,
                               .types = a->model->shape->n_types ? a->encoding->types : NULL,
                               .n_tokens = a->encoding->n_tokens,
                               .capture = (hs_capture *)a->capture,
                               .interventions = analysis->interventions,
                               .n_interventions = analysis->n_interventions};
    hs_patch_map_options options = {.clean = &clean, .other = a->other};
    const float *last = hs_capture_at(a->capture, HS_TAP_EVERY_STATE, a->model->shape->n_layers, 0);
    const hs_status st = hs__target_find(a, last, &options.target, err);
    return st ? st : hs_patch_map_compute(a->model->engine, ws, &options, control, ret_map, err);
}

const float *hs__part_patch_map(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)h;
    (void)into;
    return a->patch_map + l * a->encoding->n_tokens;
}
