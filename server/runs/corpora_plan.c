/* corpora_plan.c - what a run asks for, as a job, with what that takes; made when it is accepted and again
 * when its turn comes. */
#include "server/runs/corpora_internal.h"

hs_status hs__run_plan_make(const hs_corpora *c, const hs__run_row *row, hs__run_plan *ret,
                            hs__setting *ret_wrong, hs_error *err)
{
    const size_t model = hs__catalog_find(c->options, row->model);
    if (model == SIZE_MAX)
        return hs_fail(err, HS_NOT_FOUND, "the model '%.100s' is not served any more", row->model);
    ret->job = (hs__corpus_job){
        .model = c->catalog->models[model], .engine = c->catalog->engines[model], .model_name = row->model};
    const char *texts[HS__SETTINGS];
    hs_error why = {0};
    json_t *given = json_loads(row->settings, 0, NULL);
    for (int k = 0; k < HS__SETTINGS; k++)
        texts[k] = json_string_value(json_object_get(given, hs__setting_name((hs__setting)k)));
    const hs_status st = hs__corpus_settings_read(texts, ret->job.model, &ret->job.settings, ret_wrong, &why);
    json_decref(given);
    if (st)
        return hs_fail(err, st, "%s %s", hs__setting_name(*ret_wrong), why.text);
    *ret_wrong = HS__SETTINGS;
    return hs__corpus_needs_measure(&ret->job, &ret->needs, err);
}

uint64_t hs__corpora_memory(const hs_corpora *c)
{
    const uint64_t free_bytes = hs__corpus_memory_free(), cache = c->options->api.cache_bytes_max;
    return free_bytes > cache ? free_bytes - cache : 0;
}
