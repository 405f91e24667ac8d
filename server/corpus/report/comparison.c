/* comparison.c - takes figures out of reports, and lines up what the runs have in common. */
#include "server/corpus/report/comparison.h"

#include "api/formats/csv.h"
#include "model/architecture.h"
#include "model/files/json.h"
#include "server/base/system_errors.h"
#include "server/base/version.h"
#include "server/corpus/report/report_value.h"
#include "server/corpus/report/results.h"
#include "server/corpus/report/training_curves.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Paths of layers and heads begin with the member of report.json. "T", "L" and "H" are the indices of
 * threshold, layer and head. */
#define LAYER(name)   "layer_figures.T.L." name
#define HEAD(name)    "head_figures.T.L.H." name
#define PROFILE(name) "profiles_" name ".L.H"

const hs__compared_figure hs__compared_figures[] = {
    {"repeated_share", "High pairs of the same token", "share", LAYER("repeated_share"),
     HEAD("repeated_share.value")},
    {"same_sentence_share", "High pairs within one sentence", "share", LAYER("same_sentence_share"),
     HEAD("same_sentence_share.value")},
    {"repeated_same_sentence_share", "High pairs of the same token within one sentence", "share",
     LAYER("repeated_same_sentence_share"), HEAD("repeated_same_sentence_share")},
    {"repeated_lift_same_distance", "High pairs of the same token, times chance at the same distance", "lift",
     LAYER("repeated_lift_same_distance"), HEAD("repeated_lift_same_distance")},
    {"same_sentence_lift_same_distance", "High pairs within one sentence, times chance at the same distance",
     "lift", LAYER("same_sentence_lift_same_distance"), HEAD("same_sentence_lift_same_distance")},
    {"mean_distance", "Mean distance of high pairs", "tokens", LAYER("mean_distance"),
     HEAD("mean_distance.value")},
    {"median_distance", "Median distance of high pairs", "tokens", LAYER("median_distance"),
     HEAD("median_distance")},
    {"focal_share", "High pairs with the focal token", "share", NULL, HEAD("focal_share.value")},
    {"unique_focal", "Different focal tokens among a layer's heads", "tokens", LAYER("unique_focal"), NULL},
    {"snr", "Signal-to-noise ratio", "ratio", NULL, HEAD("snr")},
    {"snr_identity", "Signal-to-noise ratio of the same token", "ratio", NULL, HEAD("snr_identity")},
    {"snr_sentence", "Signal-to-noise ratio of the same sentence", "ratio", NULL, HEAD("snr_sentence")},
    {"dprime", "Distance of signal from noise, d'", "standard deviations", NULL, HEAD("dprime")},
    {"auc", "Chance that a signal pair is more similar than a noise pair", "share", NULL, HEAD("auc")},
    {"precision", "Attention boundaries that are sentence ends", "share", LAYER("precision"), NULL},
    {"recall", "Sentence ends that are attention boundaries", "share", LAYER("recall"), NULL},
    {"f1", "F1 of attention boundaries against sentence ends", "share", LAYER("f1"), NULL},
    {"attention_first", "Attention on the first token", "share", LAYER("attention_first"), PROFILE("first")},
    {"attention_self", "Attention on the token itself", "share", LAYER("attention_self"), PROFILE("self")},
    {"attention_previous", "Attention on the previous token", "share", LAYER("attention_previous"),
     PROFILE("previous")},
    {"attention_next", "Attention on the next token", "share", LAYER("attention_next"), PROFILE("next")},
    {"attention_separator", "Attention on separators", "share", NULL, PROFILE("separator")},
    {"attention_punctuation", "Attention on sentence ends and commas", "share", NULL, PROFILE("punctuation")},
    {"attention_same_token", "Attention on other tokens of the same id", "share", NULL,
     PROFILE("same_token")},
    {"attention_same_sentence", "Attention within the sentence", "share", NULL, PROFILE("same_sentence")},
    {"attention_entropy", "Entropy of attention", "nats", NULL, PROFILE("entropy")},
    {"attention_distance", "Mean distance of attention", "tokens", NULL, PROFILE("mean_distance")},
};

const size_t hs__n_compared_figures = sizeof hs__compared_figures / sizeof *hs__compared_figures;

const hs__compared_figure hs__compared_totals[] = {
    {"texts", "Texts", "texts", "texts", NULL},
    {"tokens", "Tokens", "tokens", "tokens", NULL},
    {"masked_accuracy", "Masked tokens found", "share", "masked.accuracy", NULL},
    {"masked_loss", "Loss of masked tokens", "nats", "masked.loss", NULL},
    {"label_accuracy", "Labels found", "share", "labels.accuracy", NULL},
    {"label_loss", "Loss of labels", "nats", "labels.loss", NULL},
    {"chance_repeated_share", "Pairs of the same token, by chance", "share", "chance.repeated_share", NULL},
    {"chance_same_sentence_share", "Pairs within one sentence, by chance", "share",
     "chance.same_sentence_share", NULL},
    {"chance_mean_distance", "Mean distance of pairs, by chance", "tokens", "chance.mean_distance", NULL},
};

const size_t hs__n_compared_totals = sizeof hs__compared_totals / sizeof *hs__compared_totals;

enum {
    N_FIGURES = sizeof hs__compared_figures / sizeof *hs__compared_figures,
    N_TOTALS = sizeof hs__compared_totals / sizeof *hs__compared_totals,
    RELATIONS_MAX = 64
};

/* Members of report.json that a comparison has for each run, by their paths. */
enum { NOISE_TERMS, PRUNING, CUT_ATTENTION, N_MEMBERS };
static const struct {
    const char *name, *path;
} members[N_MEMBERS] = {
    [NOISE_TERMS] = {"signal_noise_terms", "signal_noise.terms"},
    [PRUNING] = {"pruning", "pruning"},
    [CUT_ATTENTION] = {"cut_attention", "cut_attention"},
};

typedef struct compared_run {
    char *name;
    json_t *provenance, *findings, *relations; /* owned; all but the first may be NULL */
    json_t *members[N_MEMBERS];                /* owned */
    size_t n_layers, n_heads;
    uint16_t layers[HS_LAYERS_MAX]; /* the model's numbers, ascending */
    double totals[N_TOTALS];
    double *of_layers; /* [figure][layer]; NAN: the report has none */
    double *of_heads;  /* [figure][layer][head] */
    double *intervals; /* [figure][layer]: low and high end of of_layers; NAN: none */
} compared_run;

/* A head's figure in two runs, and its ranks. */
typedef struct ranked {
    double value[2], rank[2];
} ranked;

struct hs__comparison {
    compared_run runs[HS__COMPARED_RUNS_MAX];
    size_t n, n_heads; /* of all runs */
    double threshold;  /* NAN until the first run chooses its main one */
};

static void run_finish(compared_run *run)
{
    free(run->name);
    json_decref(run->provenance);
    json_decref(run->findings);
    json_decref(run->relations);
    for (size_t k = 0; k < N_MEMBERS; k++)
        json_decref(run->members[k]);
    free(run->of_layers);
    free(run->of_heads);
    free(run->intervals);
}

hs__comparison *hs__comparison_create(double threshold)
{
    hs__comparison *comparison = calloc(1, sizeof *comparison);
    if (comparison)
        comparison->threshold = threshold;
    return comparison;
}

void hs__comparison_destroy(hs__comparison *comparison)
{
    for (size_t r = 0; comparison && r < comparison->n; r++)
        run_finish(&comparison->runs[r]);
    free(comparison);
}

/* ---- one report ---- */

static bool layers_read(compared_run *run, const json_t *layers)
{
    run->n_layers = json_array_size(layers);
    bool ok = run->n_layers >= 1 && run->n_layers <= HS_LAYERS_MAX;
    for (size_t l = 0; ok && l < run->n_layers; l++) {
        const json_t *number = json_array_get(layers, l);
        const json_int_t value = json_integer_value(number);
        ok = json_is_integer(number) && value >= (l ? run->layers[l - 1] + 1 : 0) && value < UINT16_MAX;
        run->layers[l] = ok ? (uint16_t)value : 0;
    }
    return ok;
}

/* Reads shape and provenance. False: the JSON is no report of a run. */
static bool run_begin(compared_run *run, const json_t *report)
{
    const json_int_t n_heads = json_integer_value(json_object_get(report, "heads"));
    const hs__indices none = {0};
    if (!layers_read(run, json_object_get(report, "layers")) || n_heads < 1 || n_heads > HS_HEADS_MAX ||
        !json_is_string(hs__report_value(report, "provenance.model.name", none)) ||
        !json_is_string(hs__report_value(report, "provenance.input.sha256", none)) ||
        !json_is_object(hs__report_value(report, "provenance.options", none)) ||
        !json_is_array(json_object_get(report, "head_figures")))
        return false;
    run->n_heads = (size_t)n_heads;
    run->provenance = json_incref(json_object_get(report, "provenance"));
    json_t *options = json_object_get(run->provenance, "options");
    if (!json_object_get(options, "center")) /* reports of earlier versions lack it, and stack */
        json_object_set_new(options, "center", json_string("none"));
    if (!json_object_get(options, "stack"))
        json_object_set_new(options, "stack", json_string("encoder"));
    run->findings = json_incref(json_object_get(report, "findings"));
    run->relations = json_incref((json_t *)hs__report_value(report, "syntax.relations", none));
    for (size_t k = 0; k < N_MEMBERS; k++)
        run->members[k] = json_incref((json_t *)hs__report_value(report, members[k].path, none));
    return true;
}

/* Finds the index of the threshold. */
static hs_status threshold_find(hs__comparison *c, const char *name, const json_t *report, size_t *ret_t,
                                hs_error *err)
{
    const json_t *options = json_object_get(json_object_get(report, "provenance"), "options");
    const json_t *thresholds = json_object_get(options, "thresholds");
    const double threshold =
        isnan(c->threshold) ? json_number_value(json_object_get(options, "threshold")) : c->threshold;
    for (size_t t = 0; t < json_array_size(thresholds); t++)
        if (fabs(json_number_value(json_array_get(thresholds, t)) - threshold) < 1e-6) {
            *ret_t = t;
            c->threshold = threshold;
            return HS_OK;
        }
    char *listed = hs_json_text(thresholds, JSON_COMPACT | JSON_REAL_PRECISION(6));
    const hs_status st = thresholds && !listed
                             ? hs_fail(err, HS_NO_MEMORY, "no memory to compare runs")
                             : hs_fail(err, HS_INVALID,
                                       "the run '%.200s' has no threshold %g, at which runs are shown; it "
                                       "has %.100s. Run it again with --thresholds",
                                       name, threshold, listed ? listed : "none");
    free(listed);
    return st;
}

/* A layer's figure is the report's own, or the mean of its heads if all have it. */
static void layer_read(compared_run *run, const json_t *report, size_t f, hs__indices at)
{
    const hs__compared_figure *figure = &hs__compared_figures[f];
    const double *heads = run->of_heads + (f * run->n_layers + at.l) * run->n_heads;
    double value = hs__report_number_at(report, figure->of_layer, at);
    if (!figure->of_layer) {
        value = 0;
        for (size_t h = 0; h < run->n_heads; h++)
            value += heads[h];
        value /= (double)run->n_heads;
    }
    run->of_layers[f * run->n_layers + at.l] = value;
}

static void interval_read(compared_run *run, const json_t *report, size_t f, hs__indices at)
{
    static const char *const ends[] = {"low", "high"};
    double *interval = run->intervals + 2 * (f * run->n_layers + at.l);
    for (size_t k = 0; k < 2; k++) {
        char path[96];
        snprintf(path, sizeof path, LAYER("intervals.%s.%s"), hs__compared_figures[f].name, ends[k]);
        interval[k] = hs__report_number_at(report, path, at);
    }
}

static hs_status figures_read(compared_run *run, const json_t *report, size_t t, hs_error *err)
{
    run->of_layers = calloc(N_FIGURES * run->n_layers, sizeof *run->of_layers);
    run->of_heads = calloc(N_FIGURES * run->n_layers * run->n_heads, sizeof *run->of_heads);
    run->intervals = calloc(N_FIGURES * run->n_layers, 2 * sizeof *run->intervals);
    if (!run->of_layers || !run->of_heads || !run->intervals)
        return hs_fail(err, HS_NO_MEMORY, "no memory to compare runs");
    for (size_t k = 0; k < N_TOTALS; k++)
        run->totals[k] = hs__report_number_at(report, hs__compared_totals[k].of_layer, (hs__indices){0});
    for (size_t f = 0; f < N_FIGURES; f++)
        for (size_t l = 0; l < run->n_layers; l++) {
            double *heads = run->of_heads + (f * run->n_layers + l) * run->n_heads;
            for (size_t h = 0; h < run->n_heads; h++)
                heads[h] =
                    hs__report_number_at(report, hs__compared_figures[f].of_head, (hs__indices){t, l, h});
            layer_read(run, report, f, (hs__indices){t, l, 0});
            interval_read(run, report, f, (hs__indices){t, l, 0});
        }
    return HS_OK;
}

static hs_status run_read(hs__comparison *c, compared_run *run, const char *name, const json_t *report,
                          hs_error *err)
{
    size_t t = 0;
    if (!run_begin(run, report))
        return hs_fail(err, HS_INVALID,
                       "the report of '%.200s' is damaged: it is no report.json of a corpus run", name);
    if (c->n_heads + run->n_layers * run->n_heads > HS__COMPARED_HEADS_MAX)
        return hs_fail(err, HS_TOO_LARGE, "the runs have over %zu heads together: compare fewer at a time",
                       HS__COMPARED_HEADS_MAX);
    run->name = strdup(name);
    const hs_status st = threshold_find(c, name, report, &t, err);
    if (st)
        return st;
    return run->name ? figures_read(run, report, t, err)
                     : hs_fail(err, HS_NO_MEMORY, "no memory to compare runs");
}

hs_status hs__comparison_add(hs__comparison *c, const char *name, const char *bytes, size_t n_bytes,
                             hs_error *err)
{
    json_error_t why;
    compared_run run = {0};
    if (c->n == HS__COMPARED_RUNS_MAX)
        return hs_fail(err, HS_TOO_LARGE, "at most %d runs can be compared", HS__COMPARED_RUNS_MAX);
    json_t *report;
    if (hs_json_load(bytes, n_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &report, &why) == HS_NO_MEMORY)
        return hs_fail(err, HS_NO_MEMORY, "no memory to compare runs");
    const hs_status st =
        report ? run_read(c, &run, name, report, err)
               : hs_fail(err, HS_INVALID, "the report of '%.200s' is damaged: %s", name, why.text);
    json_decref(report);
    if (st) {
        run_finish(&run);
        return st;
    }
    c->n_heads += run.n_layers * run.n_heads;
    c->runs[c->n++] = run;
    return HS_OK;
}

hs_status hs__comparison_add_file(hs__comparison *c, const char *name, int fd, hs_error *err)
{
    struct stat file;
    size_t n = 0;
    if (fstat(fd, &file) || !S_ISREG(file.st_mode))
        return hs_fail(err, HS_IO, "cannot read the report of '%.200s'", name);
    if ((uint64_t)file.st_size > HS__COMPARED_BYTES_MAX)
        return hs_fail(err, HS_TOO_LARGE,
                       "the report of '%.200s' has %lld bytes; at most %llu can be compared", name,
                       (long long)file.st_size, (unsigned long long)HS__COMPARED_BYTES_MAX);
    const size_t n_bytes = (size_t)file.st_size;
    char *bytes = malloc(n_bytes + 1);
    ssize_t now = 1;
    while (bytes && n < n_bytes && now > 0) {
        now = pread(fd, bytes + n, n_bytes - n, (off_t)n);
        n += now > 0 ? (size_t)now : 0;
    }
    const hs_status st = !bytes ? hs_fail(err, HS_NO_MEMORY, "no memory to compare runs")
                         : now < 0
                             ? hs_fail(err, hs__errno_status(errno), "cannot read the report of '%.200s': %s",
                                       name, hs__errno_text(errno))
                             : hs__comparison_add(c, name, bytes, n, err);
    free(bytes);
    return st;
}

size_t hs__comparison_bytes(const hs__comparison *c)
{
    enum { VALUE_BYTES = sizeof(double) + 64, RUN_BYTES = 65536 }; /* beside it, a number of the JSON */
    size_t n_layers = 0;
    for (size_t r = 0; r < c->n; r++)
        n_layers += c->runs[r].n_layers;
    return sizeof *c + c->n * RUN_BYTES + N_FIGURES * (4 * n_layers + c->n_heads) * VALUE_BYTES +
           N_FIGURES * HS__CORRELATED_RUNS_MAX * HS__CORRELATED_RUNS_MAX * VALUE_BYTES +
           c->n_heads * sizeof(ranked);
}

/* ---- runs of one training ---- */

static void places_find(const hs__comparison *c, hs__curve_place ret[HS__COMPARED_RUNS_MAX])
{
    const json_t *provenances[HS__COMPARED_RUNS_MAX];
    for (size_t r = 0; r < c->n; r++)
        provenances[r] = c->runs[r].provenance;
    hs__curve_places_find(provenances, c->n, ret);
}

void hs__comparison_sort(hs__comparison *c)
{
    hs__curve_place places[HS__COMPARED_RUNS_MAX];
    places_find(c, places);
    for (size_t r = 1; r < c->n; r++) {
        const compared_run run = c->runs[r];
        const hs__curve_place place = places[r];
        size_t at = r;
        for (; at > 0 && hs__curve_places_compare(&places[at - 1], &place) > 0; at--) {
            c->runs[at] = c->runs[at - 1];
            places[at] = places[at - 1];
        }
        c->runs[at] = run;
        places[at] = place;
    }
}

/* ---- what the runs have in common ---- */

/* Indices into each run's layers of those that all runs have. */
typedef struct common {
    size_t n_layers, n_heads; /* n_heads: 0 if the runs differ */
    uint16_t layers[HS_LAYERS_MAX];
} common;

/* Returns the index of a layer, or SIZE_MAX. */
static size_t layer_find(const compared_run *run, uint16_t layer)
{
    for (size_t l = 0; l < run->n_layers; l++)
        if (run->layers[l] == layer)
            return l;
    return SIZE_MAX;
}

static common common_of(const hs__comparison *c)
{
    common found = {.n_heads = c->n ? c->runs[0].n_heads : 0};
    for (size_t l = 0; c->n && l < c->runs[0].n_layers; l++) {
        bool all = true;
        for (size_t r = 1; r < c->n; r++)
            all &= layer_find(&c->runs[r], c->runs[0].layers[l]) != SIZE_MAX;
        if (all)
            found.layers[found.n_layers++] = c->runs[0].layers[l];
    }
    for (size_t r = 1; r < c->n; r++)
        if (c->runs[r].n_heads != found.n_heads)
            found.n_heads = 0;
    return found;
}

static const char *model_of(const compared_run *run)
{
    return json_string_value(hs__report_value(run->provenance, "model.name", (hs__indices){0}));
}

/* Returns true if every run has a model name of its own. */
static bool models_differ(const hs__comparison *c)
{
    for (size_t r = 0; r < c->n; r++)
        for (size_t q = 0; q < r; q++)
            if (strcmp(model_of(&c->runs[r]), model_of(&c->runs[q])) == 0)
                return false;
    return true;
}

static bool run_is_complete(const compared_run *run)
{
    const hs__indices none = {0};
    const json_t *shards = hs__report_value(run->provenance, "shards.included", none);
    const json_t *n = hs__report_value(run->provenance, "shards.n", none);
    return json_is_true(hs__report_value(run->provenance, "input.complete", none)) &&
           (json_int_t)json_array_size(shards) == json_integer_value(n);
}

/* Returns how many layers a run's model has; 0 if the report lacks that. */
static size_t model_layers(const compared_run *run)
{
    const json_t *number = hs__report_value(run->provenance, "model.layers", (hs__indices){0});
    const json_int_t n = json_integer_value(number);
    return n > run->layers[run->n_layers - 1] && n <= UINT16_MAX ? (size_t)n : 0;
}

/* Returns true if the models have different numbers of layers, and all reports say how many. */
static bool depths_differ(const hs__comparison *c)
{
    const size_t n_first = model_layers(&c->runs[0]);
    bool differ = false, known = n_first > 0;
    for (size_t r = 1; r < c->n; r++) {
        differ |= model_layers(&c->runs[r]) != n_first;
        known &= model_layers(&c->runs[r]) > 0;
    }
    return differ && known;
}

/* ---- warnings ---- */

static void warn(json_t *warnings, const char *format, ...) HS_PRINTF(2, 3);

static void warn(json_t *warnings, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    json_array_append_new(warnings, json_string(text));
}

/* Warns if a member of the provenance differs between the first run and another. A text for which there is no
 * memory counts as a refusal: hs__comparison_json fails then. */
static void difference_warn(json_t *warnings, const hs__comparison *c, const char *path, const char *what)
{
    const json_t *first = hs__report_value(c->runs[0].provenance, path, (hs__indices){0});
    for (size_t r = 1; r < c->n; r++) {
        const json_t *other = hs__report_value(c->runs[r].provenance, path, (hs__indices){0});
        if (json_equal(first, other) || (!first && !other))
            continue;
        char *a = hs_json_text(first, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        char *b = hs_json_text(other, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        warn(warnings, "%s differs: %.80s in run 0, %.80s in run %zu.", what, a ? a : "none", b ? b : "none",
             r);
        free(a);
        free(b);
        return;
    }
}

static void options_warn(json_t *warnings, const hs__comparison *c)
{
    const char *name;
    json_t *value;
    char path[96];
    json_object_foreach(json_object_get(c->runs[0].provenance, "options"), name, value)
    {
        if (strcmp(name, "thresholds") == 0 || strcmp(name, "threshold") == 0 || strlen(name) > 60)
            continue;
        snprintf(path, sizeof path, "options.%s", name);
        difference_warn(warnings, c, path, name);
    }
    difference_warn(warnings, c, "model.precision", "precision");
    difference_warn(warnings, c, "model.tokenizer", "tokenizer");
}

/* Warns of runs that curves leave out, because another one has the same step and seed. */
static void repeats_warn(json_t *warnings, const hs__comparison *c)
{
    hs__curve_place places[HS__COMPARED_RUNS_MAX];
    places_find(c, places);
    for (size_t r = 0; r < c->n; r++)
        if (places[r].repeats < c->n)
            warn(warnings, "Runs %zu and %zu have the same step and seed; curves show run %zu.",
                 places[r].repeats, r, places[r].repeats);
}

static json_t *warnings_json(const hs__comparison *c, const common *shared)
{
    json_t *warnings = json_array();
    const json_t *texts = hs__report_value(c->runs[0].provenance, "input.sha256", (hs__indices){0});
    bool same_texts = true, same_layers = true;
    for (size_t r = 0; r < c->n; r++) {
        same_texts &=
            json_equal(texts, hs__report_value(c->runs[r].provenance, "input.sha256", (hs__indices){0})) == 1;
        same_layers &= c->runs[r].n_layers == shared->n_layers;
        if (!run_is_complete(&c->runs[r]))
            warn(warnings, "Run %zu has not read all of its input.", r);
    }
    if (!same_texts)
        warn(warnings, "The runs read different texts, so figures differ for that reason too.");
    options_warn(warnings, c);
    repeats_warn(warnings, c);
    if (depths_differ(c))
        warn(warnings, "The models have different numbers of layers; %zu layers have the same number in all.",
             shared->n_layers);
    else if (!shared->n_layers)
        warn(warnings, "The runs have no layer in common, so layers and heads are not compared.");
    else if (!same_layers)
        warn(warnings, "The runs have different layers; %zu are common to all and shown.", shared->n_layers);
    if (!shared->n_heads)
        warn(warnings, "The models have different numbers of heads, so single heads are not compared.");
    return warnings;
}

/* ---- the JSON ---- */

static json_t *runs_json(const hs__comparison *c)
{
    json_t *runs = json_array();
    const bool by_model = models_differ(c);
    for (size_t r = 0; r < c->n; r++) {
        const compared_run *run = &c->runs[r];
        json_array_append_new(runs, json_pack("{ss sO}", "name", by_model ? model_of(run) : run->name,
                                              "provenance", run->provenance));
    }
    return runs;
}

static json_t *totals_json(const hs__comparison *c)
{
    json_t *totals = json_object();
    for (size_t k = 0; k < N_TOTALS; k++) {
        json_t *values = json_array();
        bool known = false;
        for (size_t r = 0; r < c->n; r++) {
            known |= isfinite(c->runs[r].totals[k]);
            json_array_append_new(values, hs__report_number(c->runs[r].totals[k]));
        }
        if (known)
            json_object_set(totals, hs__compared_totals[k].name, values);
        json_decref(values);
    }
    return totals;
}

static bool has_value(const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isfinite(values[i]))
            return true;
    return false;
}

/* Returns true if a run has a value of the figure: those over cross heads lack some. */
static bool is_known(const hs__comparison *c, size_t f)
{
    for (size_t r = 0; r < c->n; r++) {
        const compared_run *run = &c->runs[r];
        const size_t L = run->n_layers, n = L * run->n_heads;
        if (has_value(run->of_layers + f * L, L) || has_value(run->of_heads + f * n, n))
            return true;
    }
    return false;
}

/* Returns [{name, title, unit}] of the figures that a run has. */
static json_t *titles_json(const hs__comparison *c)
{
    json_t *titles = json_array();
    for (size_t f = 0; f < N_FIGURES; f++)
        if (is_known(c, f))
            json_array_append_new(titles, json_pack("{ss ss ss}", "name", hs__compared_figures[f].name,
                                                    "title", hs__compared_figures[f].title, "unit",
                                                    hs__compared_figures[f].unit));
    return titles;
}

/* Returns n numbers as a list. */
static json_t *numbers_json(const double *values, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, hs__report_number(values[i]));
    return list;
}

/* Returns {figure: [run][layer]}, or with_heads {figure: [run][layer][head]}. */
static json_t *figures_json(const hs__comparison *c, const common *shared, bool with_heads)
{
    json_t *figures = json_object();
    for (size_t f = 0; f < N_FIGURES; f++) {
        json_t *of_runs = json_array();
        for (size_t r = 0; r < c->n; r++) {
            const compared_run *run = &c->runs[r];
            json_t *of_layers = json_array();
            for (size_t k = 0; k < shared->n_layers; k++) {
                const size_t at = f * run->n_layers + layer_find(run, shared->layers[k]);
                json_array_append_new(
                    of_layers, with_heads ? numbers_json(run->of_heads + at * run->n_heads, run->n_heads)
                                          : hs__report_number(run->of_layers[at]));
            }
            json_array_append_new(of_runs, of_layers);
        }
        if ((with_heads && !hs__compared_figures[f].of_head) || !is_known(c, f))
            json_decref(of_runs);
        else
            json_object_set_new(figures, hs__compared_figures[f].name, of_runs);
    }
    return figures;
}

/* Adds the figures of all layers that each run has, by relative depth: 0 for the model's first layer, 1 for
 * its last one. */
static void depths_add(const hs__comparison *c, json_t *to)
{
    json_t *depths = json_array(), *figures = json_object();
    for (size_t r = 0; r < c->n; r++) {
        const compared_run *run = &c->runs[r];
        const size_t n = model_layers(run);
        json_t *of_run = json_array();
        for (size_t l = 0; l < run->n_layers; l++)
            json_array_append_new(of_run, json_real(n > 1 ? (double)run->layers[l] / (double)(n - 1) : 0));
        json_array_append_new(depths, of_run);
    }
    for (size_t f = 0; f < N_FIGURES; f++) {
        json_t *of_runs = is_known(c, f) ? json_array() : NULL;
        for (size_t r = 0; of_runs && r < c->n; r++)
            json_array_append_new(
                of_runs, numbers_json(c->runs[r].of_layers + f * c->runs[r].n_layers, c->runs[r].n_layers));
        if (of_runs)
            json_object_set_new(figures, hs__compared_figures[f].name, of_runs);
    }
    json_object_set_new(to, "depths", depths);
    json_object_set_new(to, "depth_figures", figures);
}

/* Returns {figure: [run][layer]} of [low, high], or null; of figures that a run has intervals of. */
static json_t *intervals_json(const hs__comparison *c, const common *shared)
{
    json_t *figures = json_object();
    for (size_t f = 0; f < N_FIGURES; f++) {
        json_t *of_runs = json_array();
        bool known = false;
        for (size_t r = 0; r < c->n; r++) {
            const compared_run *run = &c->runs[r];
            json_t *of_layers = json_array();
            for (size_t k = 0; k < shared->n_layers; k++) {
                const double *interval =
                    run->intervals + 2 * (f * run->n_layers + layer_find(run, shared->layers[k]));
                const bool has = isfinite(interval[0]) && isfinite(interval[1]);
                known |= has;
                json_array_append_new(of_layers, has ? numbers_json(interval, 2) : json_null());
            }
            json_array_append_new(of_runs, of_layers);
        }
        if (known)
            json_object_set(figures, hs__compared_figures[f].name, of_runs);
        json_decref(of_runs);
    }
    return figures;
}

/* ---- agreement of runs about heads ---- */

static int first_compare(const void *a, const void *b)
{
    const double x = ((const ranked *)a)->value[0], y = ((const ranked *)b)->value[0];
    return (x > y) - (x < y);
}

static int second_compare(const void *a, const void *b)
{
    const double x = ((const ranked *)a)->value[1], y = ((const ranked *)b)->value[1];
    return (x > y) - (x < y);
}

/* Ranks n heads by their values in one run. Equal values have the mean of their ranks. */
static void ranks_find(ranked *heads, size_t n, size_t run)
{
    qsort(heads, n, sizeof *heads, run ? second_compare : first_compare);
    for (size_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && heads[end].value[run] == heads[first].value[run];)
            end++;
        for (size_t i = first; i < end; i++)
            heads[i].rank[run] = (double)(first + end - 1) / 2;
    }
}

/* Returns Spearman's correlation of n heads in two runs; NAN if either has one value only. Reorders them. */
static double rank_correlation(ranked *heads, size_t n)
{
    double both = 0, squares[2] = {0};
    const double mean = ((double)n - 1) / 2;
    ranks_find(heads, n, 0);
    ranks_find(heads, n, 1);
    for (size_t i = 0; i < n; i++) {
        const double x = heads[i].rank[0] - mean, y = heads[i].rank[1] - mean;
        both += x * y;
        squares[0] += x * x;
        squares[1] += y * y;
    }
    return squares[0] > 0 && squares[1] > 0 ? both / sqrt(squares[0] * squares[1]) : (double)NAN;
}

/* Fills the heads of the common layers in which both runs have the figure. Returns their number. */
static size_t heads_pair(const hs__comparison *c, const common *shared, size_t f, const size_t runs[2],
                         ranked *ret_heads)
{
    size_t n = 0;
    for (size_t k = 0; k < shared->n_layers; k++)
        for (size_t h = 0; h < shared->n_heads; h++) {
            for (size_t i = 0; i < 2; i++) {
                const compared_run *run = &c->runs[runs[i]];
                const size_t layer = f * run->n_layers + layer_find(run, shared->layers[k]);
                ret_heads[n].value[i] = run->of_heads[layer * run->n_heads + h];
            }
            n += isfinite(ret_heads[n].value[0]) && isfinite(ret_heads[n].value[1]);
        }
    return n;
}

/* Returns {figure: [run][run]}, the rank correlation over all heads of the common layers; NULL if memory is
 * short. */
static json_t *correlations_json(const hs__comparison *c, const common *shared)
{
    ranked *heads = malloc((shared->n_layers * shared->n_heads + 1) * sizeof *heads);
    json_t *figures = heads ? json_object() : NULL;
    for (size_t f = 0; figures && f < N_FIGURES; f++) {
        if (!hs__compared_figures[f].of_head || !is_known(c, f))
            continue;
        json_t *rows = json_array();
        for (size_t r = 0; r < c->n; r++) {
            double row[HS__CORRELATED_RUNS_MAX];
            for (size_t q = 0; q < c->n; q++)
                row[q] = rank_correlation(heads, heads_pair(c, shared, f, (const size_t[]){r, q}, heads));
            json_array_append_new(rows, numbers_json(row, c->n));
        }
        json_object_set_new(figures, hs__compared_figures[f].name, rows);
    }
    free(heads);
    return figures;
}

/* ---- findings and syntax ---- */

/* Returns [{claim, holds: [run], verdict: [run], measured: [run], evidence: [run]}], in the order of the
 * first run. Reports of earlier versions have no verdicts and no evidence. */
static json_t *findings_json(const hs__comparison *c)
{
    json_t *findings = json_array();
    for (size_t k = 0; k < json_array_size(c->runs[0].findings) && k < 64; k++) {
        json_t *claim = json_object_get(json_array_get(c->runs[0].findings, k), "claim");
        json_t *holds = json_array(), *verdicts = json_array(), *measured = json_array(),
               *evidence = json_array();
        for (size_t r = 0; r < c->n; r++) {
            const json_t *other = json_array_get(c->runs[r].findings, k);
            const bool same = claim && json_equal(json_object_get(other, "claim"), claim);
            json_t *held = same ? json_object_get(other, "holds") : NULL;
            json_t *verdict = same ? json_object_get(other, "verdict") : NULL;
            json_t *words = same ? json_object_get(other, "measured") : NULL;
            json_t *figures = same ? json_object_get(other, "evidence") : NULL;
            json_array_append_new(holds, json_is_boolean(held) ? json_incref(held) : json_null());
            json_array_append_new(verdicts, json_is_string(verdict) ? json_incref(verdict) : json_null());
            json_array_append_new(measured, json_is_string(words) ? json_incref(words) : json_null());
            json_array_append_new(evidence, json_is_object(figures) ? json_incref(figures) : json_null());
        }
        json_array_append_new(findings,
                              json_pack("{sO? so so so so}", "claim", claim, "holds", holds, "verdict",
                                        verdicts, "measured", measured, "evidence", evidence));
    }
    return findings;
}

/* Returns how often the best head of a run is right about a relation, in sentences in which it was not
 * chosen. NAN if the run lacks the relation, or did not divide the sentences, as runs of earlier versions. */
static double relation_right(const compared_run *run, const json_t *name, const char *kind)
{
    for (size_t k = 0; k < json_array_size(run->relations); k++) {
        const json_t *row = json_array_get(run->relations, k), *held = json_object_get(row, "held_out");
        const double count = json_number_value(json_object_get(held, "count"));
        if (json_equal(json_object_get(row, "relation"), name) && count > 0)
            return json_number_value(json_object_get(json_object_get(held, kind), "right")) / count;
    }
    return NAN;
}

/* Returns [{relation, attention_to_head: [run], attention_to_dependent: [run]}] of the first run's relations;
 * NULL if it has none. */
static json_t *syntax_json(const hs__comparison *c)
{
    static const char *const kinds[] = {"attention_to_head", "attention_to_dependent"};
    const json_t *relations = c->runs[0].relations;
    json_t *list = json_is_array(relations) ? json_array() : NULL;
    for (size_t k = 0; list && k < json_array_size(relations) && k < RELATIONS_MAX; k++) {
        json_t *name = json_object_get(json_array_get(relations, k), "relation"), *row;
        if (!json_is_string(name))
            continue;
        row = json_pack("{sO}", "relation", name);
        for (size_t kind = 0; kind < 2; kind++) {
            double right[HS__COMPARED_RUNS_MAX];
            for (size_t r = 0; r < c->n; r++)
                right[r] = relation_right(&c->runs[r], name, kinds[kind]);
            json_object_set_new(row, kinds[kind], numbers_json(right, c->n));
        }
        json_array_append_new(list, row);
    }
    return list;
}

/* Adds the members that a run has, as [run]; null for the others. */
static void members_add(const hs__comparison *c, json_t *to)
{
    for (size_t k = 0; k < N_MEMBERS; k++) {
        json_t *of_runs = json_array();
        bool known = false;
        for (size_t r = 0; r < c->n; r++) {
            json_t *member = c->runs[r].members[k];
            known |= member != NULL;
            json_array_append_new(of_runs, member ? json_incref(member) : json_null());
        }
        if (known)
            json_object_set(to, members[k].name, of_runs);
        json_decref(of_runs);
    }
}

/* Adds the curves of trainings, if there are any. */
static void training_add(const hs__comparison *c, json_t *to)
{
    hs__curve_place places[HS__COMPARED_RUNS_MAX];
    places_find(c, places);
    json_t *curves = hs__curves_json(to, places);
    if (json_array_size(curves))
        json_object_set(to, "training", curves);
    json_decref(curves);
}

json_t *hs__comparison_json(const hs__comparison *c)
{
    const size_t refusals = hs_json_refusals();
    const common shared = common_of(c);
    if (!c->n)
        return NULL;
    json_t *layers = json_array();
    for (size_t k = 0; k < shared.n_layers; k++)
        json_array_append_new(layers, json_integer(shared.layers[k]));
    json_t *json = json_pack("{ss so so sf so so so so so so}", "headscope", HS_VERSION, "runs", runs_json(c),
                             "warnings", warnings_json(c, &shared), "threshold", c->threshold, "layers",
                             layers, "figures", titles_json(c), "run_figures", totals_json(c),
                             "layer_figures", figures_json(c, &shared, false), "layer_intervals",
                             intervals_json(c, &shared), "findings", findings_json(c));
    if (!json)
        return NULL;
    json_object_set_new(json, "heads",
                        shared.n_heads ? json_integer((json_int_t)shared.n_heads) : json_null());
    if (shared.n_heads)
        json_object_set_new(json, "head_figures", figures_json(c, &shared, true));
    if (shared.n_heads && c->n > 1 && c->n <= HS__CORRELATED_RUNS_MAX) {
        json_t *correlations = correlations_json(c, &shared);
        if (!correlations || json_object_set_new(json, "rank_correlations", correlations)) {
            json_decref(json);
            return NULL;
        }
    }
    if (depths_differ(c))
        depths_add(c, json);
    members_add(c, json);
    json_t *syntax = syntax_json(c);
    if (syntax)
        json_object_set_new(json, "syntax", syntax);
    training_add(c, json);
    return hs_json_whole(json, refusals);
}

/* ---- comparison csv ----
 *
 * A comparison as rows of run, name, figure, layer, head, value. Names of runs are free
 * text: a spreadsheet must not take them for formulas. */

/* Where a value belongs: the run's number and name as a field of CSV, the figure. */
typedef struct row {
    size_t run;
    const char *name, *figure;
} row;

/* Writes a row. layer, head: as text, "" if the value is of more. A missing value is empty. */
static void row_write(FILE *file, const row *of, const char *layer, const char *head, const json_t *value)
{
    fprintf(file, "%zu,%s,%s,%s,%s,", of->run, of->name, of->figure, layer, head);
    if (json_is_number(value))
        fprintf(file, "%.12g", json_number_value(value));
    putc('\n', file);
}

static void layers_write(FILE *file, const json_t *comparison, const row *of, const json_t *values,
                         bool with_heads)
{
    const json_t *layers = json_object_get(comparison, "layers");
    for (size_t l = 0; l < json_array_size(values); l++) {
        const json_t *value = json_array_get(values, l);
        char layer[24], head[24];
        snprintf(layer, sizeof layer, "%lld", (long long)json_integer_value(json_array_get(layers, l)));
        if (!with_heads)
            row_write(file, of, layer, "", value);
        for (size_t h = 0; with_heads && h < json_array_size(value); h++) {
            snprintf(head, sizeof head, "%zu", h);
            row_write(file, of, layer, head, json_array_get(value, h));
        }
    }
}

static void figures_write(FILE *file, const json_t *comparison, char *const *names, const char *member)
{
    const char *figure;
    json_t *of_runs;
    json_object_foreach(json_object_get(comparison, member), figure, of_runs)
    {
        for (size_t r = 0; r < json_array_size(of_runs); r++) {
            const row of = {r, names[r], figure};
            const json_t *values = json_array_get(of_runs, r);
            if (json_is_array(values))
                layers_write(file, comparison, &of, values, strcmp(member, "head_figures") == 0);
            else
                row_write(file, &of, "", "", values);
        }
    }
}

/* Returns the name of a run as a field of CSV (malloc'ed); NULL if memory is short. */
static char *name_field(const json_t *run)
{
    const json_t *name = json_object_get(run, "name");
    const size_t n = json_string_length(name);
    char *field = malloc(HS_CSV_FIELD_MAX(n) + 1);
    if (field)
        *hs_csv_field(field, json_string_value(name), n, true) = '\0';
    return field;
}

hs_status hs__comparison_csv_write(FILE *file, const json_t *comparison, hs_error *err)
{
    const json_t *runs = json_object_get(comparison, "runs");
    const size_t n = json_array_size(runs);
    char *names[HS__COMPARED_RUNS_MAX] = {NULL};
    bool failed = n > HS__COMPARED_RUNS_MAX;
    for (size_t r = 0; r < n && !failed; r++) {
        names[r] = name_field(json_array_get(runs, r));
        failed = !names[r];
    }
    if (!failed) {
        fputs("run,name,figure,layer,head,value\n", file);
        figures_write(file, comparison, names, "run_figures");
        figures_write(file, comparison, names, "layer_figures");
        figures_write(file, comparison, names, "head_figures");
    }
    for (size_t r = 0; r < HS__COMPARED_RUNS_MAX; r++)
        free(names[r]);
    return failed ? hs_fail(err, HS_NO_MEMORY, "no memory for the comparison") : HS_OK;
}
