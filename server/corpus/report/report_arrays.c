/* report_arrays.c - the arrays of a report: their description in report.json, and report.npz. */
#include "server/corpus/report/report_arrays.h"

#include "api/formats/arrays.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/report.h"

#include <string.h>

/* ---- their description ----
 *
 * One table: axes, unit and meaning of the arrays of the statistics, as
 * docs/reference/arrays.md has them. Counters describe their own. */

#define HEADS  "threshold layer head"
#define BINS   "threshold layer head bin_of_20"
#define PARTS  "part threshold layer head"
#define MAP    "layer head query_position key_position"
#define LAYERS "layer token_position token_position"
#define HEAD   "layer head"
#define FOCUS  "layer rank"

static const hs__described_array rows[] = {
    {"thresholds", "threshold", "similarity", "similarity thresholds, ascending"},
    {"layers", "layer", "layer", "the model's numbers of the layers"},
    {"texts", "", "texts", "texts counted, without empty ones"},
    {"tokens", "", "tokens", "tokens of all texts"},
    {"all_pairs", "", "pairs", "pairs i < j of all texts"},
    {"all_repeated", "", "pairs", "of all pairs, those of the same token"},
    {"all_same_sentence", "", "pairs", "of all pairs, those in one sentence"},
    {"all_repeated_same_sentence", "", "pairs", "of all pairs, those of the same token in one sentence"},
    {"all_distance", "distance", "pairs", "all pairs by distance j - i in tokens, from 0"},
    {"high", HEADS, "pairs", "pairs of high similarity"},
    {"repeated", HEADS, "pairs", "of high pairs, those of the same token"},
    {"same_sentence", HEADS, "pairs", "of high pairs, those in one sentence"},
    {"repeated_same_sentence", HEADS, "pairs", "of high pairs, those of the same token in one sentence"},
    {"repeated_hist", BINS, "texts", "texts by the share of their high pairs of the same token"},
    {"repeated_same_sentence_hist", BINS, "texts",
     "texts by the share of their high pairs of the same token in one sentence"},
    {"same_sentence_hist", BINS, "texts", "texts by the share of their high pairs in one sentence"},
    {"focal_hist", BINS, "texts", "texts by the share of their high pairs with the focal token"},
    {"texts_with_high", HEADS, "texts", "texts with a high pair"},
    {"distance", HEADS " distance", "pairs", "high pairs by distance j - i in tokens, from 0"},
    {"location", "layer head earlier_position later_position", "pairs",
     "high pairs by position, at the main threshold"},
    {"focal_share_sum", HEADS, "share of pairs",
     "share with the focal token, summed over texts with a high pair"},
    {"unique_focal", "threshold layer focal_tokens", "texts",
     "texts by the number of different focal tokens among a layer's heads, from 0"},
    {"attention_sum", MAP, "attention", "attention, summed over texts"},
    {"attention_sum_no_columns", MAP, "attention",
     "attention without each text's high-attention columns, summed"},
    {"attention_sum_no_columns_no_diagonal", MAP, "attention",
     "attention without high-attention columns and diagonal, summed"},
    {"reached", "position", "texts", "texts with more tokens than the position's number"},
    {"similarity_sum", LAYERS, "similarity", "similarity, summed over heads and texts"},
    {"normalized_sum", LAYERS, "normalised similarity", "normalised similarity, summed over heads and texts"},
    {"first_similarity", LAYERS, "similarity", "similarity of the first text, summed over heads"},
    {"normalized_hist", "layer head bin_of_101", "pairs",
     "all pairs by normalised similarity; bin 0 is below 0"},
    {"column_hist", "layer head bin_of_100", "tokens",
     "tokens by the attention that they get, as a share of the text's most"},
    {"signal_hist", "layer head bin_of_101", "pairs",
     "signal pairs by normalised similarity; bin 0 is below 0"},
    {"noise_hist", "layer head bin_of_101", "pairs",
     "noise pairs by normalised similarity; bin 0 is below 0"},
    {"signal_moments", "layer head moment", "mixed",
     "signal pairs, the sum of their normalised similarity and of its square"},
    {"noise_moments", "layer head moment", "mixed",
     "noise pairs, the sum of their normalised similarity and of its square"},
    {"focus_ids", FOCUS, "vocabulary id",
     "tokens that got high attention most often; -1 where there are no more"},
    {"focus_counts", FOCUS, "times", "how often, over heads and texts"},
    {"attention_mass", "layer head role", "attention",
     "attention on the first token, separators, sentence ends, commas, the rest, summed over queries and "
     "texts"},
    {"segmentation", "layer count", "boundaries", "boundaries at sentence ends, boundaries, sentence ends"},
    {"part_high", PARTS, "pairs", "high of one part of the corpus"},
    {"part_repeated", PARTS, "pairs", "repeated of one part"},
    {"part_same_sentence", PARTS, "pairs", "same_sentence of one part"},
    {"part_distance_sum", PARTS, "tokens", "distances of high pairs of one part, summed"},
    {"part_texts_with_high", PARTS, "texts", "texts_with_high of one part"},
    {"part_focal_share_sum", PARTS, "share of pairs", "focal_share_sum of one part"},
    {"sentences", "", "sentences", "sentences of all texts"},
    {"focal_ids", FOCUS, "vocabulary id", "tokens that were focal most often; -1 where there are no more"},
    {"focal_counts", FOCUS, "times", "how often, over heads and texts"},
    {"profiles_self", HEAD, "share of attention", "attention on the token itself, mean over texts"},
    {"profiles_previous", HEAD, "share of attention", "attention on the previous token, mean over texts"},
    {"profiles_next", HEAD, "share of attention", "attention on the next token, mean over texts"},
    {"profiles_first", HEAD, "share of attention", "attention on the first token, mean over texts"},
    {"profiles_separator", HEAD, "share of attention", "attention on separators, mean over texts"},
    {"profiles_punctuation", HEAD, "share of attention",
     "attention on sentence ends and commas, mean over texts"},
    {"profiles_same_token", HEAD, "share of attention",
     "attention on other tokens of the same id, mean over texts"},
    {"profiles_same_sentence", HEAD, "share of attention",
     "attention on tokens of the same sentence without special tokens, mean over texts"},
    {"profiles_entropy", HEAD, "nats", "entropy of attention, mean over tokens and texts"},
    {"profiles_entropy_first", HEAD, "nats", "entropy of the first token's attention, mean over texts"},
    {"profiles_confidence", HEAD, "share of attention",
     "highest attention of a token, mean over tokens and texts"},
    {"profiles_mean_distance", HEAD, "tokens", "distance of attention, mean over texts"},
    {"profiles_offsets", "layer head offset", "share of attention",
     "attention on the token -8 to 8 away, mean over texts"},
    {"profiles_label", HEAD, "label", "0 position, 1 special, 2 broad, 3 other"},
    {"even_same_sentence_sum", "", "share of attention",
     "what evenly spread attention would put on tokens of the same sentence, summed over texts"},
    {"head_distances", "layer_and_head layer_and_head", "distance",
     "distance of heads: 1 - CKA, or Jensen-Shannon"},
};

static json_t *axes_json(const char *axes)
{
    json_t *list = json_array();
    while (*axes) {
        const size_t n = strcspn(axes, " ");
        json_array_append_new(list, json_stringn(axes, n));
        axes += n + (axes[n] == ' ');
    }
    return list;
}

static void row_add(json_t *object, const hs__described_array *row)
{
    json_object_set_new(
        object, row->name,
        json_pack("{so ss ss}", "axes", axes_json(row->axes), "unit", row->unit, "meaning", row->meaning));
}

/* Adds the row of this name, if the list has it. */
static void name_add(json_t *object, const hs__described_array *list, size_t n, const char *name)
{
    for (size_t k = 0; k < n; k++)
        if (strcmp(list[k].name, name) == 0)
            row_add(object, &list[k]);
}

json_t *hs__report_arrays_json(const hs__corpus_results *results)
{
    hs_corpus_array arrays[HS_CORPUS_ARRAYS_MAX];
    const size_t n = hs_corpus_arrays(results->stats, arrays);
    json_t *object = json_object();
    for (size_t i = 0; i < n; i++) {
        name_add(object, rows, sizeof rows / sizeof *rows, arrays[i].name);
        for (size_t c = 0; c < hs__n_counters; c++)
            name_add(object, hs__counters[c]->arrays, hs__counters[c]->n_arrays, arrays[i].name);
    }
    for (size_t c = 0; c < hs__n_counters; c++)
        for (size_t k = 0; results->counts[c] && k < hs__counters[c]->n_arrays; k++)
            row_add(object, &hs__counters[c]->arrays[k]);
    return object;
}

/* ---- report.npz ----
 *
 * Report.npz: arrays of any size, written as they are read. */

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
            counter->read(counts, array, first, n, chunk);
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
    const size_t n = counter->list && counts ? counter->list(counts, arrays) : 0;
    for (size_t i = 0; i < n; i++)
        array_write(npz, results, counter, counts, &arrays[i]);
    if (counter->write)
        counter->write(results, counts, npz);
}

hs_status hs__corpus_npz_write(FILE *file, const hs__corpus_results *results, const char *provenance,
                               hs_error *err)
{
    hs_corpus_array arrays[HS_CORPUS_ARRAYS_MAX];
    const size_t n = hs_corpus_arrays(results->stats, arrays);
    hs_npz npz = {.file = file};
    for (size_t i = 0; i < n; i++)
        array_write(&npz, results, NULL, NULL, &arrays[i]);
    for (size_t c = 0; c < hs__n_counters; c++)
        counter_write(&npz, results, c);
    hs_npz_text(&npz, "provenance", provenance);
    return hs_npz_finish(&npz, err);
}
