/* windows.c - the settings of windows, and how many texts and windows a run has counted.
 *
 * A text longer than max_tokens becomes several windows (hs_windows_plan), each a text of the statistics. */
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/html.h"

#define MEMBER "windows"

/* ---- settings ---- */

static hs_status read_windows(const char *text, const hs_model *model, hs__corpus_settings *settings,
                              void *options, hs_error *err)
{
    (void)model, (void)options;
    return hs__flag_read(text, &settings->windows, err);
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
    (void)job, (void)options;
    size->worker += HS_WINDOWS_BYTES;
}

/* ---- counts ---- */

enum { TEXTS, WINDOWS, CUT }; /* cut: texts with more than one window */

static const hs_array_row rows[] = {
    [TEXTS] = {.unit = "texts", .meaning = "texts"},
    [WINDOWS] = {.unit = "windows", .meaning = "their windows"},
    [CUT] = {.unit = "texts", .meaning = "texts with more than one window"},
};

static const hs_sums_kind kind = {
    .member = MEMBER, .what = "the saved numbers of windows", .rows = rows, .n_rows = HS__N(rows)};

static bool is_active(const json_t *identity)
{
    return json_object_get(identity, MEMBER);
}

static bool is_sound(const hs__corpus_results *results, const hs_sums *counts)
{
    const int64_t *n = counts->words;
    return n[CUT] >= 0 && n[TEXTS] >= n[CUT] && n[WINDOWS] >= n[TEXTS] &&
           (uint64_t)n[WINDOWS] == hs_corpus_stats_texts(results->stats);
}

uint64_t hs__texts_counted(const hs__corpus_results *results)
{
    const hs_sums *counts = results->counts[HS__NUMBER_OF_windows];
    return counts ? (uint64_t)*hs_sums_at(counts, TEXTS) : hs_corpus_stats_texts(results->stats);
}

static hs_status start(void *state, hs__text *t, hs_error *err)
{
    const hs__tally *tally = state;
    (void)err;
    *hs_sums_at(tally->sums, TEXTS) += t->window == 0;
    *hs_sums_at(tally->sums, WINDOWS) += 1;
    *hs_sums_at(tally->sums, CUT) += t->window == 1;
    return HS_OK;
}

/* ---- report ---- */

static void report(const hs__corpus_results *results, void *data, json_t *to)
{
    const hs_sums *counts = data;
    (void)results;
    if (counts)
        json_object_set_new(to, MEMBER,
                            json_pack("{sI sI sI}", "texts", (json_int_t)*hs_sums_at(counts, TEXTS),
                                      "windows", (json_int_t)*hs_sums_at(counts, WINDOWS), "cut",
                                      (json_int_t)*hs_sums_at(counts, CUT)));
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
    .n_settings = HS__N(settings),
    .identify = identify,
    .is_active = is_active,
    .sums = &kind,
    .is_sound = is_sound,
    .measure = measure,
    .start = start,
    .report = report,
    .header = header,
};
