/* corpora_plan.c - what a run asks for, as a job, with what that takes; made when it is accepted and again
 * when its turn comes. */
#include "server/runs/corpora_internal.h"

hs_status hs__run_plan_make(const hs_corpora *c, const hs__run_row *row, hs__run_plan *ret, hs_error *err)
{
    const size_t model = hs__catalog_find(c->options, row->model);
    if (model == SIZE_MAX)
        return hs_fail(err, HS_NOT_FOUND, "the model '%.100s' is not served any more", row->model);
    ret->job = (hs__corpus_job){.model = c->catalog->models[model],
                                .engine = c->catalog->engines[model],
                                .model_name = row->model,
                                .lines = row->lines,
                                .max_tokens = row->max_tokens,
                                .thresholds = ret->thresholds,
                                .layers = ret->layers};
    hs_status st = hs__corpus_thresholds_parse(row->thresholds, ret->thresholds, &ret->job.n_thresholds, err);
    if (!st)
        st = hs__corpus_layers_parse(row->layers, hs_model_shape(ret->job.model)->n_layers, ret->layers,
                                     &ret->job.n_layers, err);
    return st ? st : hs__corpus_needs_measure(&ret->job, &ret->needs, err);
}

uint64_t hs__corpora_memory(const hs_corpora *c)
{
    const uint64_t free_bytes = hs__corpus_memory_free(), cache = c->options->api.cache_bytes_max;
    return free_bytes > cache ? free_bytes - cache : 0;
}
