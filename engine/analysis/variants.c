/* variants.c - captures and passes of variants. */
#include "engine/analysis/variants.h"

#include "engine/analysis/analysis_maps.h"

size_t hs__variants_capacity(size_t n_tokens, size_t tokens_max, size_t n_most)
{
    return hs__min(hs__min(hs__max(tokens_max / n_tokens, 1), n_most), HS__VARIANTS_MAX);
}

hs_status hs__variants_select(hs__variants *v, const hs_selection *selection, hs_error *err)
{
    hs_status st = HS_OK;
    hs__variants_finish(v);
    for (size_t i = 0; i < v->capacity && !st; i++)
        st = hs_capture_create(hs_engine_runtime(v->engine), hs_engine_shape(v->engine), selection,
                               v->text->n_tokens, &v->captures[i], err);
    return st;
}

hs_status hs__variants_run(hs__variants *v, size_t n, const hs_observer *observer,
                           const hs_run_control *control, hs_error *err)
{
    hs_sequence sequences[HS__VARIANTS_MAX];
    for (size_t i = 0; i < n; i++) {
        sequences[i] = *v->text;
        sequences[i].capture = v->captures[i];
        sequences[i].start = &v->starts[i];
    }
    return hs_engine_compute(v->engine, v->ws, sequences, n, observer, control, err);
}

void hs__variants_finish(hs__variants *v)
{
    for (size_t i = 0; i < v->capacity; i++) {
        hs_capture_destroy(v->captures[i]);
        v->captures[i] = NULL;
    }
}
