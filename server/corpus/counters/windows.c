/* windows.c - the settings of windows, and how many texts and windows a run has counted.
 *
 * A text longer than max_tokens becomes several windows (hs_windows_plan), each a text of the statistics. */
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/html.h"

#include <stdlib.h>

#define MEMBER "windows"

/* ---- settings ---- */

static hs_status read_windows(const char *text, const hs_model *model, hs__corpus_settings *settings,
                              void *options, hs_error *err)
{
    static const hs_field flag = {.kind = HS_FIELD_FLAG};
    hs_error why = {0};
    (void)model, (void)options;
    json_t *value = hs_field_json(&flag, text, &why);
    settings->windows = json_is_true(value);
    json_decref(value);
    return value ? HS_OK : hs_fail(err, HS_INVALID, "true or false");
}

static const hs__setting_row settings[] = {
    {.field = {"windows", HS_FIELD_FLAG, NULL, "cut longer texts into windows of max_tokens, not off"},
     .part = HS__SETTINGS_OF_INPUT,
     .read = read_windows},
    {.field = {"stride", HS_FIELD_INTEGER, "N", "tokens that neighbouring windows share (0)"},
     .part = HS__SETTINGS_OF_INPUT},
};

static void identify(const void *options, const hs__corpus_settings *all, json_t *identity)
{
    (void)options;
    if (!all->windows)
        return;
    json_object_set_new(identity, "windows", json_true());
    json_object_set_new(identity, "stride", json_integer((json_int_t)all->fields.stride));
}

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    (void)options;
    if (job->settings.windows)
        size->worker += HS_WINDOWS_BYTES;
}

/* ---- counts ---- */

typedef struct counts {
    uint64_t texts, windows, cut; /* cut: texts with more than one window */
} counts;

static counts *counts_create(hs_error *err)
{
    counts *made = calloc(1, sizeof *made);
    if (!made)
        hs_fail(err, HS_NO_MEMORY, "no memory to begin");
    return made;
}

static void counts_add(counts *to, const counts *from)
{
    to->texts += from->texts;
    to->windows += from->windows;
    to->cut += from->cut;
}

uint64_t hs__texts_counted(const hs__corpus_results *results)
{
    const counts *c = results->counts[HS__NUMBER_OF_windows];
    return c ? c->texts : hs_corpus_stats_texts(results->stats);
}

static bool is_active(const hs__corpus_results *results)
{
    return json_is_true(json_object_get(results->identity, MEMBER));
}

static hs_status begin(hs__counting *counting, bool anew, hs_error *err)
{
    if (!anew || !counting->job->settings.windows)
        return HS_OK;
    *counting->counts = counts_create(err);
    return *counting->counts ? HS_OK : HS_NO_MEMORY;
}

static bool matches(const hs__counting *counting)
{
    return !counting->job->settings.windows || *counting->counts;
}

static hs_status worker_create(hs__counting *counting, void *const *states, void **ret, hs_error *err)
{
    (void)states;
    if (!counting->job->settings.windows)
        return HS_OK;
    *ret = counts_create(err);
    return *ret ? HS_OK : HS_NO_MEMORY;
}

static hs_status start(void *state, hs__text *t, hs_error *err)
{
    (void)err;
    counts_add(state, &(counts){t->window == 0, 1, t->window == 1});
    return HS_OK;
}

static hs_status gather(hs__counting *counting, void *state, hs_error *err)
{
    counts *from = state;
    (void)err;
    counts_add(*counting->counts, from);
    *from = (counts){0};
    return HS_OK;
}

/* ---- checkpoint and report ---- */

static json_t *counts_json(const counts *c)
{
    return json_pack("{sI sI sI}", "texts", (json_int_t)c->texts, "windows", (json_int_t)c->windows, "cut",
                     (json_int_t)c->cut);
}

static hs_status save(const hs__corpus_results *results, void *data, json_t *checkpoint, hs_error *err)
{
    (void)results;
    return data && json_object_set_new(checkpoint, MEMBER, counts_json(data))
               ? hs_fail(err, HS_NO_MEMORY, "no memory to save the run")
               : HS_OK;
}

static hs_status load(const hs__corpus_results *results, const json_t *checkpoint, void **ret, hs_error *err)
{
    json_int_t texts = 0, windows = 0, cut = 0;
    if (!is_active(results))
        return HS_OK;
    if (json_unpack(json_object_get(checkpoint, MEMBER), "{sI sI sI}", "texts", &texts, "windows", &windows,
                    "cut", &cut) ||
        cut < 0 || texts < cut || windows < texts ||
        (uint64_t)windows != hs_corpus_stats_texts(results->stats))
        return hs_fail(err, HS_INVALID, "the saved numbers of windows are damaged");
    counts *loaded = counts_create(err);
    if (loaded)
        *loaded = (counts){(uint64_t)texts, (uint64_t)windows, (uint64_t)cut};
    *ret = loaded;
    return loaded ? HS_OK : HS_NO_MEMORY;
}

static hs_status merge(hs__corpus_results *results, void **data, const hs__corpus_results *from,
                       void **from_data, const char *from_dir, hs_error *err)
{
    (void)results, (void)from, (void)from_dir, (void)err;
    if (*data && *from_data)
        counts_add(*data, *from_data);
    return HS_OK;
}

static void report(const hs__corpus_results *results, void *data, json_t *to)
{
    (void)results;
    if (data)
        json_object_set_new(to, MEMBER, counts_json(data));
}

static void header(const json_t *report, FILE *out)
{
    const json_t *windows = json_object_get(report, MEMBER);
    if (!windows)
        return;
    fputs("<dt>Windows</dt><dd>", out);
    hs__count_write(out, (uint64_t)json_integer_value(json_object_get(windows, "windows")));
    fputs(" of ", out);
    hs__count_write(out, (uint64_t)json_integer_value(json_object_get(windows, "texts")));
    fputs(" texts, each a text of the figures</dd>", out);
}

const hs__counter hs__counter_windows = {
    .name = "windows",
    .settings = settings,
    .n_settings = sizeof settings / sizeof *settings,
    .identify = identify,
    .measure = measure,
    .begin = begin,
    .matches = matches,
    .worker_create = worker_create,
    .worker_destroy = free,
    .start = start,
    .gather = gather,
    .save = save,
    .load = load,
    .merge = merge,
    .destroy = free,
    .report = report,
    .header = header,
};
