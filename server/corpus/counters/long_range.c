/* long_range.c - how far high pairs reach in long texts, by head and layer, and how many join the same token.
 *
 * A share is that of the pairs which are farther apart than 128, 512 and 2,048 tokens, and all pairs have
 * one, too. The statistics have high pairs and all pairs by distance; those of the same token are counted
 * here. Runs of shorter texts have no such pairs, no counts, and no section. */
#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/html.h"
#include "server/corpus/report/report_value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MEMBER "long_range"

static const int distances[] = {128, 512, 2048};
enum { N_DISTANCES = sizeof distances / sizeof *distances };

enum { ALL, HIGH };

static const hs_array_row rows[] = {
    [ALL] = {"all_far_repeated",
             {{"distance", N_DISTANCES}},
             "pairs",
             "pairs of the same token that are more than 128, 512 and 2,048 tokens apart"},
    [HIGH] = {"far_repeated",
              {HS_AXIS_LAYER, HS_AXIS_HEAD, {"distance", N_DISTANCES}},
              "pairs",
              "of them, high pairs at the main threshold"},
};

static const hs_sums_kind kind = {
    .member = MEMBER, .what = "the far pairs of the same token", .rows = rows, .n_rows = HS__N(rows)};

/* Pairs: all, those farther apart than each distance, and of these the repeated ones. */
typedef struct reach {
    double all, beyond[N_DISTANCES], repeated[N_DISTANCES];
} reach;

static bool is_active(const json_t *identity)
{
    return json_integer_value(json_object_get(identity, "max_tokens")) > distances[0] + 1;
}

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    const uint64_t rows_shown = hs__corpus_maps(job) + job->settings.fields.n_layers;
    (void)options;
    size->listed += (rows_shown + 2) * (2 * N_DISTANCES + 3);
    size->report += rows_shown * 2048;
    size->report_text += rows_shown * 512;
}

static void head(void *state, hs__text *text, hs__text_head *head)
{
    const hs__tally *tally = state;
    int64_t all[N_DISTANCES], high[N_DISTANCES];
    const size_t t = hs_corpus_stats_options(head->statistics).threshold_main;
    hs_corpus_batch_far_repeats(head->statistics, text->place, t, distances, N_DISTANCES, all, high);
    for (size_t k = 0; k < N_DISTANCES; k++) {
        hs_sums_at(tally->sums, ALL)[k] += head->map == 0 ? all[k] : 0;
        hs_sums_at(tally->sums, HIGH)[head->map * N_DISTANCES + k] += high[k];
    }
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

/* Appends a row of a layer or head. */
static void row_append(json_t *rows_shown, json_t *row, const reach *r, size_t n, double distance)
{
    json_object_set_new(row, "shares", shares_json(r->all, r->beyond, n));
    json_object_set_new(row, "repeated", shares_json(r->all, r->repeated, n));
    json_object_set_new(row, "attention_distance", hs__report_number(distance));
    json_array_append_new(rows_shown, row);
}

static void repeated_add(const int64_t *pairs, reach *to)
{
    for (size_t k = 0; k < N_DISTANCES; k++)
        to->repeated[k] += (double)pairs[k];
}

/* The source of the rows. */
typedef struct source {
    const hs_corpus_stats *stats;
    hs_corpus_options options;
    hs_corpus_array all, pairs;
    const hs_sums *counts;
    size_t n;         /* distances that texts have pairs beyond */
    int64_t *scratch; /* [tokens_max] */
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
        repeated_add(hs_sums_at(from->counts, HIGH) + map * N_DISTANCES, &r);
        row_append(heads, json_pack("{s:i,s:i}", "layer", (int)o->layers[l], "head", (int)h), &r, from->n,
                   distance);
        whole.all += r.all;
        for (size_t k = 0; k < N_DISTANCES; k++) {
            whole.beyond[k] += r.beyond[k];
            whole.repeated[k] += r.repeated[k];
        }
        attended += distance / (double)o->n_heads;
    }
    row_append(layers, json_pack("{s:i}", "layer", (int)o->layers[l]), &whole, from->n, attended);
}

static void report(const hs__corpus_results *results, void *counts, json_t *to)
{
    source from = {.stats = results->stats,
                   .options = hs_corpus_stats_options(results->stats),
                   .counts = counts,
                   .scratch = NULL};
    reach chance = {0};
    size_t n = 0;
    if (!counts)
        return;
    from.scratch = hs_json_memory(from.options.tokens_max, sizeof *from.scratch);
    if (!from.scratch || !hs_corpus_array_find(from.stats, "all_distance", &from.all) ||
        !hs_corpus_array_find(from.stats, "distance", &from.pairs)) {
        free(from.scratch);
        return;
    }
    reach_add(from.stats, &from.all, 0, from.options.tokens_max, from.scratch, &chance);
    repeated_add(hs_sums_at(counts, ALL), &chance);
    while (n < N_DISTANCES && chance.beyond[n] > 0)
        n++;
    from.n = n;
    if (n > 0) {
        json_t *layers = json_array(), *heads = json_array(), *beyond = json_array();
        for (size_t k = 0; k < n; k++)
            json_array_append_new(beyond, json_integer(distances[k]));
        for (size_t l = 0; l < from.options.n_layers; l++)
            layer_add(&from, l, layers, heads);
        json_object_set_new(to, MEMBER,
                            json_pack("{s:o,s:o,s:o,s:o,s:o}", "distances", beyond, "chance",
                                      shares_json(chance.all, chance.beyond, n), "layers", layers, "heads",
                                      heads, "chance_repeated", shares_json(chance.all, chance.repeated, n)));
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
    const json_t *beyond = json_object_get(reaches, "distances"),
                 *layers = json_object_get(reaches, "layers");
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
    for (size_t l = 0; l < json_array_size(layers); l++)
        row_write(reaches, t, json_array_get(layers, l), out);
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
    .is_active = is_active,
    .sums = &kind,
    .measure = measure,
    .head = head,
    .report = report,
    .section = MEMBER,
    .title = "Long range",
    .page = page,
};
