/* report.c - builds the JSON of a report, which the page embeds too, and writes the three files. */
#include "server/corpus/report/report.h"

#include "api/formats/arrays.h"
#include "model/files/json.h"
#include "server/base/atomic_files.h"
#include "server/base/version.h"
#include "server/corpus/corpus.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/report_value.h"
#include "server/corpus/run/settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the arrays' description ---- */

static void description_add(json_t *object, const hs_array_row *row)
{
    json_t *axes = json_array();
    for (size_t i = 0; i < HS_CORPUS_AXES_MAX && row->axes[i].name; i++)
        json_array_append_new(axes, json_string(row->axes[i].name));
    json_object_set_new(object, row->name,
                        json_pack("{so ss ss}", "axes", axes, "unit", row->unit, "meaning", row->meaning));
}

/* Adds the descriptions of a counter's arrays. */
static void rows_add(json_t *object, const hs_array_row *list, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (list[k].name)
            description_add(object, &list[k]);
}

/* Returns {name: {axes, unit, meaning}} of all arrays of a report; axes are in the order of a shape. NULL if
 * memory is short. */
static json_t *report_arrays_json(const hs__corpus_results *results)
{
    hs_corpus_array arrays[HS_CORPUS_ARRAYS_MAX];
    const size_t n = hs_corpus_arrays(results->stats, arrays);
    json_t *object = json_object();
    for (size_t i = 0; i < n; i++)
        description_add(object, arrays[i].row);
    for (size_t c = 0; c < HS__N_COUNTERS; c++) {
        const hs__counter *counter = hs__counters[c];
        if (results->counts[c] && counter->sums)
            rows_add(object, counter->sums->rows, counter->sums->n_rows);
        if (results->counts[c])
            rows_add(object, counter->arrays, counter->n_arrays);
    }
    return object;
}

/* ---- report.npz ----
 *
 * Arrays of any size, written as they are read. */

#define CHUNK ((size_t)8192) /* elements */

/* Elements are double or int64_t: eight bytes. counter: whose array it is; NULL: of the statistics. */
static void array_write(hs_npz *npz, const hs__corpus_results *results, const hs__counter *counter,
                        const void *counts, const hs_corpus_array *array)
{
    hs_npz_begin(npz, array->name, array->is_float ? "<f8" : "<i8", array->n_axes, array->axes,
                 8 * (uint64_t)array->n_elements);
    for (size_t first = 0, n; first < array->n_elements; first += n) {
        n = array->n_elements - first < CHUNK ? array->n_elements - first : CHUNK;
        void *chunk = hs_npz_reserve(npz, 8 * n);
        if (!chunk)
            return;
        if (counter)
            hs__counter_array_read(counter, counts, array, first, n, chunk);
        else
            hs_corpus_array_read(results->stats, array, first, n, chunk);
        hs_npz_add(npz, 8 * n);
    }
}

static void counter_write(hs_npz *npz, const hs__corpus_results *results, size_t c)
{
    const hs__counter *counter = hs__counters[c];
    void *counts = results->counts[c];
    hs_corpus_array arrays[HS__COUNTER_ARRAYS_MAX];
    const size_t n = hs__counter_arrays(counter, counts, arrays);
    for (size_t i = 0; i < n; i++)
        array_write(npz, results, counter, counts, &arrays[i]);
    if (counter->write)
        counter->write(results, counts, npz);
}

/* Writes report.npz. provenance: JSON text for the array of that name. */
static hs_status corpus_npz_write(FILE *file, const hs__corpus_results *results, const char *provenance,
                                  hs_error *err)
{
    hs_corpus_array arrays[HS_CORPUS_ARRAYS_MAX];
    const size_t n = hs_corpus_arrays(results->stats, arrays);
    hs_npz npz = {.file = file};
    for (size_t i = 0; i < n; i++)
        array_write(&npz, results, NULL, NULL, &arrays[i]);
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        counter_write(&npz, results, c);
    hs_npz_text(&npz, "provenance", provenance);
    return hs_npz_finish(&npz, err);
}

/* ---- the arrays in report.json ---- */

/* Larger ones, and those whose row says so, are in report.npz only. */
#define JSON_ELEMENTS_MAX ((size_t)1 << 18)

/* values are [n_elements] of the axes from `axis` on, and *at moves along them. */
static json_t *nested(const hs_corpus_array *array, size_t axis, const void *values, size_t *at)
{
    if (axis >= array->n_axes || axis >= HS_CORPUS_AXES_MAX) {
        const size_t k = (*at)++;
        return array->is_float ? hs__report_number(((const double *)values)[k])
                               : json_integer(((const int64_t *)values)[k]);
    }
    json_t *list = json_array();
    for (size_t i = 0; i < array->axes[axis]; i++)
        json_array_append_new(list, nested(array, axis + 1, values, at));
    return list;
}

bool hs__report_lists(const hs_corpus_array *array)
{
    return array->n_elements <= JSON_ELEMENTS_MAX && !array->row->npz_only;
}

/* Adds an array of the statistics, or of a counter if there is one. buffer: [JSON_ELEMENTS_MAX]. */
static void array_add(json_t *report, const hs__corpus_results *results, const hs__counter *counter,
                      const void *counts, const hs_corpus_array *array, void *buffer)
{
    size_t at = 0;
    if (!hs__report_lists(array))
        return;
    if (counter)
        hs__counter_array_read(counter, counts, array, 0, array->n_elements, buffer);
    else
        hs_corpus_array_read(results->stats, array, 0, array->n_elements, buffer);
    json_object_set_new(report, array->name, nested(array, 0, buffer, &at));
}

static bool arrays_add(json_t *report, const hs__corpus_results *results)
{
    hs_corpus_array arrays[HS_CORPUS_ARRAYS_MAX];
    double *values = malloc(JSON_ELEMENTS_MAX * sizeof *values); /* or int64_t */
    size_t n = hs_corpus_arrays(results->stats, arrays);
    for (size_t i = 0; values && i < n; i++)
        array_add(report, results, NULL, NULL, &arrays[i], values);
    for (size_t c = 0; c < HS__N_COUNTERS; c++) {
        const hs__counter *counter = hs__counters[c];
        n = hs__counter_arrays(counter, results->counts[c], arrays);
        for (size_t i = 0; values && i < n; i++)
            array_add(report, results, counter, results->counts[c], &arrays[i], values);
    }
    json_object_set_new(report, "arrays", report_arrays_json(results));
    free(values);
    return values != NULL;
}

/* ---- derived figures ---- */

static json_t *figure(hs_corpus_figure f)
{
    return json_pack("{so so}", "value", hs__report_number(f.value), "spread", hs__report_number(f.spread));
}

static json_t *head_json(const hs_corpus_stats *stats, size_t t, size_t l, size_t h)
{
    const hs_corpus_head f = hs_corpus_head_read(stats, t, l, h);
    return json_pack(
        "{sI sI sI so so so so so so so so so so so}", "high", (json_int_t)f.high, "high_ordinary",
        (json_int_t)f.high_ordinary, "texts_with_high", (json_int_t)f.texts_with_high, "repeated_share",
        figure(f.repeated_share), "same_sentence_share", figure(f.same_sentence_share), "mean_distance",
        figure(f.mean_distance), "focal_share", figure(f.focal_share), "repeated_same_sentence_share",
        hs__report_number(f.repeated_same_sentence_share), "median_distance",
        hs__report_number(f.median_distance), "repeated_lift", hs__report_number(f.repeated_lift),
        "same_sentence_lift", hs__report_number(f.same_sentence_lift), "repeated_same_sentence_lift",
        hs__report_number(f.repeated_same_sentence_lift), "dprime", hs__report_number(f.dprime), "auc",
        hs__report_number(f.auc));
}

static json_t *layer_json(const hs_corpus_stats *stats, size_t t, size_t l)
{
    const hs_corpus_layer f = hs_corpus_layer_read(stats, t, l);
    const struct {
        const char *name;
        double value;
    } figures[] = {
        {"repeated_share", f.repeated_share},
        {"same_sentence_share", f.same_sentence_share},
        {"repeated_same_sentence_share", f.repeated_same_sentence_share},
        {"mean_distance", f.mean_distance},
        {"median_distance", f.median_distance},
        {"unique_focal", f.unique_focal},
        {"precision", f.precision},
        {"recall", f.recall},
        {"f1", f.f1},
        {"mass_cls", f.mass_cls},
        {"mass_sep", f.mass_sep},
        {"mass_end", f.mass_end},
        {"mass_comma", f.mass_comma},
        {"mass_rest", f.mass_rest},
        {"attention_first", f.on_first},
        {"attention_self", f.on_self},
        {"attention_previous", f.on_previous},
        {"attention_next", f.on_next},
    };
    json_t *layer = json_pack("{sI}", "high", (json_int_t)f.high);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        json_object_set_new(layer, figures[i].name, hs__report_number(figures[i].value));
    return layer;
}

/* head_figures [t][l][h] and layer_figures [t][l]. */
static void figures_add(json_t *report, const hs_corpus_stats *stats)
{
    const hs_corpus_options o = hs_corpus_stats_options(stats);
    json_t *heads = json_array(), *layers = json_array();
    for (size_t t = 0; t < o.n_thresholds; t++) {
        json_t *heads_t = json_array(), *layers_t = json_array();
        for (size_t l = 0; l < o.n_layers; l++) {
            json_t *heads_l = json_array();
            for (size_t h = 0; h < o.n_heads; h++)
                json_array_append_new(heads_l, head_json(stats, t, l, h));
            json_array_append_new(heads_t, heads_l);
            json_array_append_new(layers_t, layer_json(stats, t, l));
        }
        json_array_append_new(heads, heads_t);
        json_array_append_new(layers, layers_t);
    }
    json_object_set_new(report, "head_figures", heads);
    json_object_set_new(report, "layer_figures", layers);
}

static json_t *chance_json(const hs_corpus_stats *stats)
{
    const hs_corpus_chance c = hs_corpus_chance_read(stats);
    return json_pack("{so so so so so}", "repeated_share", hs__report_number(c.repeated),
                     "same_sentence_share", hs__report_number(c.same_sentence),
                     "repeated_same_sentence_share", hs__report_number(c.repeated_same_sentence),
                     "mean_distance", hs__report_number(c.mean_distance), "median_distance",
                     hs__report_number(c.median_distance));
}

/* ---- provenance and the complete report ---- */

/* Options that a run's identity has only if they are not the default, and their defaults as JSON. Then follow
 * the settings with a default_json. */
static const struct {
    const char *name, *default_json;
} optional[] = {
    {"special_tokens", "\"keep\""}, {"split_special_tokens", "false"},
    {"sentence_ends", "null"},      {"field", "null"},
    {"prompt_name", "null"},        {"prompt", "null"},
    {"source_language", "null"},    {"target_language", "null"},
    {"target_start", "null"},       {"similarity_space", "\"head\""},
    {"center", "\"none\""},         {"head_distances", "null"},
};

/* Sets to[name] to from[key], null if that is missing. */
static void member_copy(json_t *to, const char *name, const json_t *from, const char *key)
{
    json_t *value = json_object_get(from, key);
    json_object_set_new(to, name, value ? json_incref(value) : json_null());
}

/* Adds an option of the identity, or its default. */
static void option_add(json_t *options, const json_t *identity, const char *name, const char *default_json)
{
    json_t *given = json_object_get(identity, name);
    json_object_set_new(options, name,
                        given ? json_incref(given) : json_loads(default_json, JSON_DECODE_ANY, NULL));
}

static json_t *options_json(const json_t *identity, const hs_corpus_options *o)
{
    json_t *options = json_object();
    member_copy(options, "max_tokens", identity, "max_tokens");
    member_copy(options, "thresholds", identity, "thresholds");
    json_object_set_new(options, "threshold",
                        json_real(hs__report_decimal(o->thresholds[o->threshold_main])));
    json_object_set_new(options, "attention_threshold",
                        json_real(hs__report_decimal(o->attention_threshold)));
    json_object_set_new(options, "parts", json_integer((json_int_t)o->n_parts));
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
        option_add(options, identity, optional[i].name, optional[i].default_json);
    for (size_t k = 0; k < hs__settings_count(); k++)
        if (hs__setting_default_json(k))
            option_add(options, identity, hs__setting_field(k)->name, hs__setting_default_json(k));
    return options;
}

static json_t *model_json(const hs__corpus_results *results)
{
    json_t *model = json_object();
    member_copy(model, "name", results->names, "model");
    member_copy(model, "sha256", results->identity, "model_sha256");
    member_copy(model, "layers", results->identity, "model_layers");
    member_copy(model, "backend", results->identity, "backend");
    member_copy(model, "precision", results->identity, "precision");
    member_copy(model, "tokenizer", results->names, "tokenizer");
    member_copy(model, "causal", results->names, "causal");
    member_copy(model, "trained_for", results->names, "trained_for");
    member_copy(model, "training", results->names, "training");
    return model;
}

static json_t *input_json(const hs__corpus_results *results)
{
    json_t *input = json_object();
    member_copy(input, "files", results->names, "inputs");
    member_copy(input, "formats", results->names, "formats");
    json_object_set_new(input, "sha256", json_string(results->position.sha256));
    json_object_set_new(input, "bytes", json_integer((json_int_t)results->position.n_bytes));
    json_object_set_new(input, "lines", json_integer((json_int_t)results->position.n_lines));
    json_object_set_new(input, "complete", json_boolean(results->done));
    return input;
}

static json_t *shards_json(const hs__corpus_results *results)
{
    json_t *shards = json_object();
    member_copy(shards, "n", results->identity, "n_shards");
    json_object_set(shards, "included", results->shards);
    return shards;
}

/* Returns where the results come from: versions, model, options and input. */
static json_t *provenance_json(const hs__corpus_results *results, const hs_corpus_options *o)
{
    json_t *provenance = json_object();
    json_object_set_new(provenance, "headscope", json_string(HS_VERSION));
    if (*hs_version_commit)
        json_object_set_new(provenance, "commit", json_string(hs_version_commit));
    json_object_set_new(provenance, "model", model_json(results));
    json_object_set_new(provenance, "options", options_json(results->identity, o));
    json_object_set_new(provenance, "input", input_json(results));
    json_object_set_new(provenance, "shards", shards_json(results));
    json_object_set_new(provenance, "date", json_string(results->date));
    json_object_set_new(provenance, "seconds", json_real(results->seconds));
    return provenance;
}

json_t *hs__corpus_report_json(hs__corpus_results *results)
{
    const hs_corpus_options o = hs_corpus_stats_options(results->stats);
    const size_t refusals = hs_json_refusals();
    json_t *report = json_pack("{so}", "provenance", provenance_json(results, &o));
    if (!report || !arrays_add(report, results)) {
        json_decref(report);
        return NULL;
    }
    json_object_set_new(report, "threshold_main", json_integer((json_int_t)o.threshold_main));
    json_object_set_new(report, "heads", json_integer((json_int_t)o.n_heads));
    json_object_set_new(report, "chance", chance_json(results->stats));
    json_object_set_new(report, "findings", hs__corpus_findings(results));
    json_t *tokens = json_object_get(results->names, "tokens");
    json_object_set_new(report, "focus_tokens", tokens ? json_incref(tokens) : json_object());
    figures_add(report, results->stats);
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        if (hs__counters[c]->report)
            hs__counters[c]->report(results, results->counts[c], report);
    json_object_set_new(report, "empty_texts",
                        json_integer((json_int_t)results->position.n_blank + (json_int_t)results->n_empty));
    json_object_set_new(report, "bad_lines",
                        hs__bad_lines_save(results->bad, json_object_get(results->names, "inputs")));
    return hs_json_whole(report, refusals);
}

typedef struct writing {
    const hs__corpus_results *results;
    const json_t *report;
} writing;

static hs_status json_write(FILE *file, void *data, hs_error *err)
{
    const writing *w = data;
    const hs_status st = hs_json_write(w->report, file, 12, err);
    if (!st)
        putc('\n', file); /* hs__file_replace checks the stream for errors */
    return st;
}

static hs_status npz_write(FILE *file, void *data, hs_error *err)
{
    const writing *w = data;
    char *text =
        hs_json_text(json_object_get(w->report, "provenance"), JSON_COMPACT | JSON_REAL_PRECISION(12));
    const hs_status st = text ? corpus_npz_write(file, w->results, text, err)
                              : hs_fail(err, HS_NO_MEMORY, "no memory for the report");
    free(text);
    return st;
}

static hs_status html_write(FILE *file, void *data, hs_error *err)
{
    const writing *w = data;
    return hs__corpus_html_write(file, w->results->stats, w->report, err);
}

hs_status hs__corpus_report_write(hs__corpus_results *results, const char *dir, const atomic_int *stop,
                                  hs_error *err)
{
    writing w = {results, hs__corpus_report_json(results)};
    if (!w.report)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the report");
    hs_status st = hs__file_replace(dir, HS__REPORT_NPZ, stop, npz_write, &w, err);
    if (!st)
        st = hs__file_replace(dir, HS__REPORT_HTML, stop, html_write, &w, err);
    if (!st)
        st = hs__file_replace(dir, HS__REPORT_JSON, stop, json_write, &w, err);
    json_decref((json_t *)w.report);
    return st;
}
