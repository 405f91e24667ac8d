/* run_plan.c - turns a run's row into a job and measures what it needs, when the run is accepted and again
 * when it starts. */
#include "model/files/json.h"
#include "server/runs/runs_internal.h"

hs_status hs__run_plan_make(const hs_runs *c, const hs__run_row *row, hs__run_plan *ret, size_t *ret_wrong,
                            hs_error *err)
{
    ret->api = c->api;
    ret->served = hs_api_model_use(c->api, row->model);
    if (!ret->served)
        return hs_fail(
            err, HS_NOT_FOUND,
            "this server no longer serves the model '%.100s'; start it with that model, or delete the run",
            row->model);
    ret->job = (hs__corpus_job){.model = hs_served_weights(ret->served), .model_name = row->model};
    const char *texts[HS__SETTINGS_MAX];
    hs_error why = {0};
    json_t *given;
    if (hs_json_load(row->settings, strlen(row->settings), 0, &given, NULL) == HS_NO_MEMORY)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the settings"); /* not a run with the defaults */
    for (size_t k = 0; k < hs__settings_count(); k++)
        texts[k] = json_string_value(json_object_get(given, hs__setting_field(k)->name));
    const size_t bins = hs__setting_find("map_bins");
    if (!texts[bins])
        texts[bins] = HS__MAP_BINS_BEFORE;
    const hs_status st = hs__corpus_settings_read(texts, ret->job.model, &ret->job.settings, ret_wrong, &why);
    json_decref(given);
    if (st)
        return hs_fail(err, st, "%s%s", hs__setting_field(*ret_wrong)->name, why.text);
    *ret_wrong = SIZE_MAX;
    hs__corpus_stack_choose(&ret->job, hs_served_engine(ret->served), hs_served_decoder(ret->served));
    return hs__requirements_measure(&ret->job, &ret->needs, err);
}

void hs__run_plan_finish(hs__run_plan *plan)
{
    hs__corpus_settings_finish(&plan->job.settings);
    hs_api_model_release(plan->api, plan->served);
    plan->served = NULL;
}

hs__run_memory hs__runs_memory(const hs_runs *c)
{
    hs__run_memory memory = hs__corpus_memory_free();
    memory.kept += c->options->api.cache_bytes_max;
    return memory;
}
