/* long_range.c - how far high pairs reach in long texts, by head and layer.
 *
 * A share is that of the pairs which are farther apart than 128, 512 and 2,048 tokens, and all pairs have
 * one, too. Nothing is counted here: the statistics have high pairs and all pairs by distance. Shorter texts
 * have no such pairs, and no section. */
#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/html.h"
#include "server/corpus/report/report_value.h"

#include <math.h>
#include <stdlib.h>

#define MEMBER "long_range"

static const int distances[] = {128, 512, 2048};
enum { N_DISTANCES = sizeof distances / sizeof *distances };

/* Pairs: all, and those farther apart than each distance. */
typedef struct reach {
    double all, beyond[N_DISTANCES];
} reach;

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    const uint64_t rows = hs__corpus_maps(job) + job->settings.fields.n_layers;
    (void)options;
    if (job->settings.fields.max_tokens <= (size_t)distances[0] + 1)
        return;
    size->listed += (rows + 2) * (N_DISTANCES + 3);
    size->report += rows * 1024;
    size->report_text += rows * 256;
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

/* Returns the first n shares; null without pairs. */
static json_t *shares_json(const reach *r, size_t n)
{
    json_t *list = json_array();
    for (size_t k = 0; k < n; k++)
        json_array_append_new(list, hs__report_number(r->all > 0 ? r->beyond[k] / r->all : NAN));
    return list;
}

/* Adds the rows of a layer and its heads. */
static void layer_add(const hs_corpus_stats *stats, const hs_corpus_options *o, const hs_corpus_array *pairs,
                      size_t l, size_t n, int64_t *counts, json_t *layers, json_t *heads)
{
    reach whole = {0};
    double attended = 0;
    for (size_t h = 0; h < o->n_heads; h++) {
        reach r = {0};
        const size_t list = (o->threshold_main * o->n_layers + l) * o->n_heads + h;
        const double distance = (double)hs_corpus_profile_read(stats, l, h).mean_distance;
        reach_add(stats, pairs, list, o->tokens_max, counts, &r);
        json_array_append_new(heads, json_pack("{s:i,s:i,s:o,s:o}", "layer", (int)o->layers[l], "head",
                                               (int)h, "shares", shares_json(&r, n), "attention_distance",
                                               hs__report_number(distance)));
        whole.all += r.all;
        for (size_t k = 0; k < N_DISTANCES; k++)
            whole.beyond[k] += r.beyond[k];
        attended += distance / (double)o->n_heads;
    }
    json_array_append_new(layers, json_pack("{s:i,s:o,s:o}", "layer", (int)o->layers[l], "shares",
                                            shares_json(&whole, n), "attention_distance",
                                            hs__report_number(attended)));
}

static void report(const hs__corpus_results *results, void *data, json_t *to)
{
    const hs_corpus_stats *stats = results->stats;
    const hs_corpus_options o = hs_corpus_stats_options(stats);
    hs_corpus_array all, pairs;
    reach chance = {0};
    size_t n = 0;
    (void)data;
    int64_t *counts = hs_json_memory(o.tokens_max, sizeof *counts);
    if (!counts || !hs_corpus_array_find(stats, "all_distance", &all) ||
        !hs_corpus_array_find(stats, "distance", &pairs)) {
        free(counts);
        return;
    }
    reach_add(stats, &all, 0, o.tokens_max, counts, &chance);
    while (n < N_DISTANCES && chance.beyond[n] > 0)
        n++;
    if (n > 0) {
        json_t *layers = json_array(), *heads = json_array(), *beyond = json_array();
        for (size_t k = 0; k < n; k++)
            json_array_append_new(beyond, json_integer(distances[k]));
        for (size_t l = 0; l < o.n_layers; l++)
            layer_add(stats, &o, &pairs, l, n, counts, layers, heads);
        json_object_set_new(to, MEMBER,
                            json_pack("{s:o,s:o,s:o,s:o}", "distances", beyond, "chance",
                                      shares_json(&chance, n), "layers", layers, "heads", heads));
    }
    free(counts);
}

/* ---- the page ---- */

static double share_of(const json_t *row, size_t k)
{
    const json_t *share = json_array_get(json_object_get(row, "shares"), k);
    return json_is_number(share) ? json_number_value(share) : NAN;
}

/* Returns the layer's head with the largest share beyond a distance; NULL: none has high pairs. */
static const json_t *farthest(const json_t *heads, json_int_t layer, size_t k)
{
    const json_t *best = NULL;
    for (size_t i = 0; i < json_array_size(heads); i++) {
        const json_t *head = json_array_get(heads, i);
        if (json_integer_value(json_object_get(head, "layer")) == layer && share_of(head, k) >= 0 &&
            (!best || share_of(head, k) > share_of(best, k)))
            best = head;
    }
    return best;
}

static void row_write(const json_t *reaches, const json_t *row, FILE *out)
{
    const json_t *heads = json_object_get(reaches, "heads"), *chance = json_object_get(reaches, "chance");
    const json_int_t layer = json_integer_value(json_object_get(row, "layer"));
    fprintf(out, "<tr><td>%lld</td>", (long long)layer);
    hs__cell_write(out, json_number_value(json_object_get(row, "attention_distance")), "%.1f");
    for (size_t k = 0; k < json_array_size(chance); k++) {
        const double share = share_of(row, k);
        const json_t *head = farthest(heads, layer, k);
        hs__cell_write(out, 100 * share, "%.2f");
        hs__cell_write(out, share / json_number_value(json_array_get(chance, k)), "%.2f");
        fputs("<td>", out);
        if (head) {
            hs__head_write(out, layer, json_integer_value(json_object_get(head, "head")));
            fprintf(out, " %.2f", 100 * share_of(head, k));
        } else
            fputs("–", out);
        fputs("</td>", out);
    }
    fputs("</tr>\n", out);
}

static void page(const hs__drawing *d, hs__indices at, FILE *out)
{
    const json_t *reaches = json_object_get(d->report, MEMBER);
    const json_t *beyond = json_object_get(reaches, "distances"), *rows = json_object_get(reaches, "layers");
    (void)at;
    if (!reaches)
        return;
    fputs(
        "<section id=\"" MEMBER "\" aria-label=\"Long range\"><h2>Long range</h2><p class=\"muted\">How many "
        "of a layer's high pairs, at the main threshold, are farther apart than so many tokens, in percent; "
        "how many times as many as of all pairs of the same texts; and the head with the largest share. "
        "Attention: the mean distance, in tokens, between a query and what it attends to.</p>",
        out);
    hs__column columns[2 + 3 * N_DISTANCES] = {{"Layer", NULL, NULL}, {"Attention, tokens", NULL, NULL}};
    char titles[N_DISTANCES][32];
    size_t n = 2;
    for (size_t k = 0; k < json_array_size(beyond) && k < N_DISTANCES; k++) {
        snprintf(titles[k], sizeof titles[k], "Beyond %lld, %%",
                 (long long)json_integer_value(json_array_get(beyond, k)));
        columns[n++].title = titles[k];
        columns[n++].title = "× chance";
        columns[n++].title = "farthest head, %";
    }
    hs__table_begin(out, columns, n);
    for (size_t l = 0; l < json_array_size(rows); l++)
        row_write(reaches, json_array_get(rows, l), out);
    hs__table_end(out);
    fputs("</section>\n", out);
}

const hs__counter hs__counter_long_range = {
    .name = MEMBER,
    .measure = measure,
    .report = report,
    .section = MEMBER,
    .title = "Long range",
    .page = page,
};
