/* output_attributions.c - ALTI and value zeroing: attributions without gradients. */
#include "api/output_maps.h"
#include "api/output_structures.h"
#include "engine/analysis/flows.h"

#include <stdlib.h>
#include <string.h>

/* Computes all layers up to the last requested one, and keeps the requested ones. now and before are [T][T].
 */
static hs_status layers_compute(hs__answer *a, float *map, float *now, float *before, hs_error *err)
{
    const hs__analysis_request *analysis = a->analysis;
    const size_t n = a->capture->n_tokens * a->capture->n_tokens;
    hs_status st = HS_OK;
    for (size_t number = 0, l = 0; l < analysis->n_layers && !st && !hs__answer_cancelled(a); number++) {
        st = hs_contributions_compute(hs_model_architecture(a->model->model), a->capture, number, map, err);
        if (st)
            break;
        hs_flow_step(map, number > 0 ? before : NULL, a->capture->n_tokens, now);
        memcpy(before, now, n * sizeof *now);
        if (analysis->layers[l] != number)
            continue;
        memcpy(a->contributions + l * n, map, n * sizeof *map);
        memcpy(a->alti + l++ * n, now, n * sizeof *now);
    }
    return st;
}

hs_status hs__prepare_contributions(hs__answer *a, hs_error *err)
{
    const size_t n = a->capture->n_tokens * a->capture->n_tokens;
    if (a->contributions)
        return HS_OK; /* contributions and alti are computed together */
    float *scratch = malloc(3 * n * sizeof *scratch);
    a->contributions = malloc(a->analysis->n_layers * n * sizeof *a->contributions);
    a->alti = malloc(a->analysis->n_layers * n * sizeof *a->alti);
    const hs_status st = scratch && a->contributions && a->alti
                             ? layers_compute(a, scratch, scratch + n, scratch + 2 * n, err)
                             : hs_fail(err, HS_NO_MEMORY, "no memory for contributions");
    free(scratch);
    return st;
}

const float *hs__part_contributions(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)h;
    (void)into;
    return a->contributions + l * a->capture->n_tokens * a->capture->n_tokens;
}

const float *hs__part_alti(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)h;
    (void)into;
    return a->alti + l * a->capture->n_tokens * a->capture->n_tokens;
}

/* ---- value zeroing ---- */

static size_t result_bytes(const hs__answer *a)
{
    return a->analysis->n_layers * a->encoding->n_tokens * a->encoding->n_tokens * sizeof(float);
}

static size_t bytes_max(const hs__answer *a)
{
    return result_bytes(a) + hs_value_zeroing_bytes(a->model->engine, a->encoding->n_tokens);
}

static hs_status run(const hs__answer *a, hs_workspace *ws, const hs_run_control *control, void *ret_result,
                     hs_error *err)
{
    const hs_sequence text = hs__answer_sequence(a);
    return hs_value_zeroing_compute(a->model->engine, ws, &text, a->analysis->layers, a->analysis->n_layers,
                                    control, ret_result, err);
}

const hs__own_passes hs__own_value_zeroing = {
    .kind = HS__OWN_VALUE_ZEROING,
    .result = "value zeroing",
    .result_bytes = result_bytes,
    .bytes_max = bytes_max,
    .run = run,
};

const float *hs__part_value_zeroing(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)h;
    (void)into;
    return (const float *)a->own[HS__OWN_VALUE_ZEROING] + l * a->encoding->n_tokens * a->encoding->n_tokens;
}
