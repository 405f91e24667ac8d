/* long_range.c - how far high pairs reach in long texts, by head and layer, and how many join the same token.
 *
 * A share is that of the pairs which are farther apart than 128, 512 and 2,048 tokens, and all pairs have
 * one, too. The statistics have high pairs and all pairs by distance; those of the same token are counted
 * here. Shorter texts have no such pairs, no counts, and no section. Runs of earlier versions lack the
 * counts; one of them that is resumed goes on without. */
#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/counters/words.h"
#include "server/corpus/report/html.h"
#include "server/corpus/report/report_value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MEMBER "long_range"

static const int distances[] = {128, 512, 2048};
enum { N_DISTANCES = sizeof distances / sizeof *distances };

/* Repeated pairs beyond each distance: of all pairs, then of E of each head [l][h]. */
typedef hs__sums sums;

static hs__sums_size size_of(size_t n_thresholds, size_t n_layers, size_t n_heads)
{
    (void)n_thresholds;
    return (hs__sums_size){.words = N_DISTANCES * (1 + n_layers * n_heads)};
}

static const hs__sums_kind kind_of_sums = {
    .member = MEMBER, .what = "the far pairs of the same token", .size = size_of};

/* Pairs: all, those farther apart than each distance, and of these the repeated ones. */
typedef struct reach {
    double all, beyond[N_DISTANCES], repeated[N_DISTANCES];
} reach;

static bool reaches_far(size_t max_tokens)
{
    return max_tokens > (size_t)distances[0] + 1;
}

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    const uint64_t rows = hs__corpus_maps(job) + job->settings.fields.n_layers;
    (void)options;
    if (!reaches_far(job->settings.fields.max_tokens))
        return;
    hs__sums_measure(&kind_of_sums, job->settings.n_thresholds, job->settings.fields.n_layers,
                     hs_engine_shape(job->engine)->n_heads, size);
    size->elements += (rows + 1) * N_DISTANCES;
    size->listed += (rows + 2) * (3 * N_DISTANCES + 3);
    size->report += rows * 2048;
    size->report_text += rows * 512;
}

/* ---- a run ---- */

static hs_status begin(hs__counting *counting, bool anew, hs_error *err)
{
    return reaches_far(counting->statistics->tokens_max) ? hs__sums_begin(counting, anew, err) : HS_OK;
}

static hs_status worker_create(hs__counting *counting, void *const *states, void **ret, hs_error *err)
{
    (void)states;
    if (!*counting->counts)
        return HS_OK;
    *ret = hs__sums_create_like(*counting->counts, err);
    return *ret ? HS_OK : HS_NO_MEMORY;
}

static void head(void *state, hs__text *text, hs__text_head *head)
{
    sums *s = state;
    int64_t all[N_DISTANCES], high[N_DISTANCES];
    const size_t t = hs_corpus_stats_options(head->statistics).threshold_main;
    hs_corpus_batch_far_repeats(head->statistics, text->place, t, distances, N_DISTANCES, all, high);
    if (head->map == 0)
        hs__words_add(s->words, all, N_DISTANCES);
    hs__words_add(s->words + (1 + head->map) * N_DISTANCES, high, N_DISTANCES);
}

static hs_status load(const hs__corpus_results *results, const json_t *checkpoint, void **ret, hs_error *err)
{
    const size_t n_thresholds = hs_corpus_stats_options(results->stats).n_thresholds;
    return hs__sums_load(&kind_of_sums, n_thresholds, results, checkpoint, ret, err);
}

/* ---- arrays ---- */

static const hs__described_array arrays[] = {
    {"all_far_repeated", "distance", "pairs",
     "pairs of the same token that are more than 128, 512 and 2,048 tokens apart"},
    {"far_repeated", "layer head distance", "pairs", "of them, high pairs at the main threshold"},
};

static size_t list(const void *counts, hs_corpus_array *ret)
{
    const sums *s = counts;
    ret[0] = (hs_corpus_array){
        .name = arrays[0].name, .n_axes = 1, .axes = {N_DISTANCES}, .n_elements = N_DISTANCES};
    ret[1] = (hs_corpus_array){.name = arrays[1].name,
                               .n_axes = 3,
                               .axes = {s->n_layers, s->n_heads, N_DISTANCES},
                               .n_elements = s->n_layers * s->n_heads * N_DISTANCES,
                               .field = 1};
    return HS__N(arrays);
}

static void read(const void *counts, const hs_corpus_array *array, size_t first, size_t n, void *ret)
{
    const sums *s = counts;
    memcpy(ret, s->words + array->field * N_DISTANCES + first, n * sizeof *s->words);
}

/* ---- report.json ---- */

/* Adds the pairs of list number `list` of an array [..][n_tokens] by distance. counts is scratch. */
static void reach_add(const hs_corpus_stats *stats, const hs_corpus_array *array, size_t list,
                      size_t n_tokens, int64_t *counts, reach *to)
{
    hs_corpus_array_read(stats, array, list * n_tokens, n_tokens, counts);
    for (size_t d = 0; d < n_tokens; d++) {
        to->all += (double)counts[d];
        for (size_t k = 0; k < N_DISTANCES; k++)
            to->beyond[k] += d > (size_t)distances[k] ? (double)counts[d] : 0;
    }
}

/* Returns the first n numbers of pairs as shares of all; null without pairs. */
static json_t *shares_json(double all, const double *pairs, size_t n)
{
    json_t *list = json_array();
    for (size_t k = 0; k < n; k++)
        json_array_append_new(list, hs__report_number(all > 0 ? pairs[k] / all : NAN));
    return list;
}

/* Appends a row of a layer or head; counts: or NULL. */
static void row_append(json_t *rows, json_t *row, const sums *counts, const reach *r, size_t n,
                       double distance)
{
    json_object_set_new(row, "shares", shares_json(r->all, r->beyond, n));
    if (counts)
        json_object_set_new(row, "repeated", shares_json(r->all, r->repeated, n));
    json_object_set_new(row, "attention_distance", hs__report_number(distance));
    json_array_append_new(rows, row);
}

/* Adds the repeated pairs of list number `list` of the counts, which may be NULL. */
static void repeated_add(const sums *counts, size_t list, reach *to)
{
    for (size_t k = 0; counts && k < N_DISTANCES; k++)
        to->repeated[k] += (double)counts->words[list * N_DISTANCES + k];
}

/* The source of the rows. */
typedef struct source {
    const hs_corpus_stats *stats;
    hs_corpus_options options;
    hs_corpus_array all, pairs;
    const sums *counts; /* or NULL */
    size_t n;           /* distances that texts have pairs beyond */
    int64_t *scratch;   /* [tokens_max] */
} source;

/* Adds the rows of a layer and its heads. */
static void layer_add(const source *from, size_t l, json_t *layers, json_t *heads)
{
    const hs_corpus_options *o = &from->options;
    reach whole = {0};
    double attended = 0;
    for (size_t h = 0; h < o->n_heads; h++) {
        reach r = {0};
        const size_t map = l * o->n_heads + h, list = o->threshold_main * o->n_layers * o->n_heads + map;
        const double distance = (double)hs_corpus_profile_read(from->stats, l, h).mean_distance;
        reach_add(from->stats, &from->pairs, list, o->tokens_max, from->scratch, &r);
        repeated_add(from->counts, 1 + map, &r);
        row_append(heads, json_pack("{s:i,s:i}", "layer", (int)o->layers[l], "head", (int)h), from->counts,
                   &r, from->n, distance);
        whole.all += r.all;
        for (size_t k = 0; k < N_DISTANCES; k++) {
            whole.beyond[k] += r.beyond[k];
            whole.repeated[k] += r.repeated[k];
        }
        attended += distance / (double)o->n_heads;
    }
    row_append(layers, json_pack("{s:i}", "layer", (int)o->layers[l]), from->counts, &whole, from->n,
               attended);
}

static void report(const hs__corpus_results *results, void *counts, json_t *to)
{
    source from = {.stats = results->stats,
                   .options = hs_corpus_stats_options(results->stats),
                   .counts = counts,
                   .scratch = NULL};
    reach chance = {0};
    size_t n = 0;
    from.scratch = hs_json_memory(from.options.tokens_max, sizeof *from.scratch);
    if (!from.scratch || !hs_corpus_array_find(from.stats, "all_distance", &from.all) ||
        !hs_corpus_array_find(from.stats, "distance", &from.pairs)) {
        free(from.scratch);
        return;
    }
    reach_add(from.stats, &from.all, 0, from.options.tokens_max, from.scratch, &chance);
    repeated_add(counts, 0, &chance);
    while (n < N_DISTANCES && chance.beyond[n] > 0)
        n++;
    from.n = n;
    if (n > 0) {
        json_t *layers = json_array(), *heads = json_array(), *beyond = json_array();
        for (size_t k = 0; k < n; k++)
            json_array_append_new(beyond, json_integer(distances[k]));
        for (size_t l = 0; l < from.options.n_layers; l++)
            layer_add(&from, l, layers, heads);
        json_t *made = json_pack("{s:o,s:o,s:o,s:o}", "distances", beyond, "chance",
                                 shares_json(chance.all, chance.beyond, n), "layers", layers, "heads", heads);
        if (counts)
            json_object_set_new(made, "chance_repeated", shares_json(chance.all, chance.repeated, n));
        json_object_set_new(to, MEMBER, made);
    }
    free(from.scratch);
}

/* ---- the page ---- */

/* A table: the member of rows that it shows, that of chance, and the title of the best head. */
typedef struct table {
    const char *member, *chance, *best;
} table;

static double share_of(const json_t *row, const char *member, size_t k)
{
    const json_t *share = json_array_get(json_object_get(row, member), k);
    return json_is_number(share) ? json_number_value(share) : NAN;
}

/* Returns the layer's head with the largest share; NULL: none has high pairs. */
static const json_t *best_of(const json_t *heads, json_int_t layer, const char *member, size_t k)
{
    const json_t *best = NULL;
    for (size_t i = 0; i < json_array_size(heads); i++) {
        const json_t *head = json_array_get(heads, i);
        if (json_integer_value(json_object_get(head, "layer")) == layer && share_of(head, member, k) >= 0 &&
            (!best || share_of(head, member, k) > share_of(best, member, k)))
            best = head;
    }
    return best;
}

static void row_write(const json_t *reaches, const table *t, const json_t *row, FILE *out)
{
    const json_t *heads = json_object_get(reaches, "heads"), *chance = json_object_get(reaches, t->chance);
    const json_int_t layer = json_integer_value(json_object_get(row, "layer"));
    fprintf(out, "<tr><td>%lld</td>", (long long)layer);
    hs__cell_write(out, json_number_value(json_object_get(row, "attention_distance")), "%.1f");
    for (size_t k = 0; k < json_array_size(chance); k++) {
        const double share = share_of(row, t->member, k),
                     by_chance = json_number_value(json_array_get(chance, k));
        const json_t *head = best_of(heads, layer, t->member, k);
        hs__cell_write(out, 100 * share, "%.2f");
        hs__cell_write(out, by_chance > 0 ? share / by_chance : NAN, "%.2f");
        fputs("<td>", out);
        if (head) {
            hs__head_write(out, layer, json_integer_value(json_object_get(head, "head")));
            fprintf(out, " %.2f", 100 * share_of(head, t->member, k));
        } else
            fputs("–", out);
        fputs("</td>", out);
    }
    fputs("</tr>\n", out);
}

static void table_write(const json_t *reaches, const table *t, FILE *out)
{
    const json_t *beyond = json_object_get(reaches, "distances"), *rows = json_object_get(reaches, "layers");
    hs__column columns[2 + 3 * N_DISTANCES] = {{"Layer", NULL, NULL}, {"Attention, tokens", NULL, NULL}};
    char titles[N_DISTANCES][32];
    size_t n = 2;
    for (size_t k = 0; k < json_array_size(beyond) && k < N_DISTANCES; k++) {
        snprintf(titles[k], sizeof titles[k], "Beyond %lld, %%",
                 (long long)json_integer_value(json_array_get(beyond, k)));
        columns[n++].title = titles[k];
        columns[n++].title = "× chance";
        columns[n++].title = t->best;
    }
    hs__table_begin(out, columns, n);
    for (size_t l = 0; l < json_array_size(rows); l++)
        row_write(reaches, t, json_array_get(rows, l), out);
    hs__table_end(out);
}

static void page(const hs__drawing *d, hs__indices at, FILE *out)
{
    static const table far = {"shares", "chance", "farthest head, %"};
    static const table repeated = {"repeated", "chance_repeated", "head with most, %"};
    const json_t *reaches = json_object_get(d->report, MEMBER);
    (void)at;
    if (!reaches)
        return;
    fputs(
        "<section id=\"" MEMBER "\" aria-label=\"Long range\"><h2>Long range</h2><p class=\"muted\">How many "
        "of a layer's high pairs, at the main threshold, are farther apart than so many tokens, in percent; "
        "how many times as many as of all pairs of the same texts; and the head with the largest share. "
        "Attention: the mean distance, in tokens, between a query and what it attends to.</p>",
        out);
    table_write(reaches, &far, out);
    if (json_object_get(reaches, repeated.chance)) {
        fputs("<h3>Repeated tokens across a text</h3><p class=\"muted\">The same of high pairs that join the "
              "same token, as a share of all high pairs.</p>",
              out);
        table_write(reaches, &repeated, out);
    }
    fputs("</section>\n", out);
}

const hs__counter hs__counter_long_range = {
    .name = "long range",
    .sums = &kind_of_sums,
    .measure = measure,
    .begin = begin,
    .matches = hs__sums_match,
    .worker_create = worker_create,
    .worker_destroy = hs__sums_destroy,
    .head = head,
    .gather = hs__sums_gather,
    .save = hs__sums_save,
    .load = load,
    .merge = hs__sums_merge,
    .destroy = hs__sums_destroy,
    .arrays = arrays,
    .n_arrays = HS__N(arrays),
    .list = list,
    .read = read,
    .report = report,
    .section = MEMBER,
    .title = "Long range",
    .page = page,
};
