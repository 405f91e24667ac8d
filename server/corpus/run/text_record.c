/* text_record.c - reads the figures and the strongest pairs of a head's maps. */
#include "server/corpus/run/text_record.h"

#include "engine/analysis/analysis.h"
#include "model/base/utf8.h"
#include "server/corpus/search/strongest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

hs__text_record *hs__text_records_create(const hs__text_index_options *o, size_t n)
{
    const size_t n_maps = o->n_layers * o->n_heads;
    hs__text_record *records = calloc(n, sizeof *records);
    bool ok = records != NULL;
    for (size_t k = 0; ok && k < n; k++) {
        records[k].figures =
            o->n_examples ? calloc(n_maps * HS__TOP_FIGURES, sizeof *records[k].figures) : NULL;
        records[k].maps = o->n_texts ? calloc(n_maps, sizeof *records[k].maps) : NULL;
        ok = (!o->n_examples || records[k].figures) && (!o->n_texts || records[k].maps);
    }
    if (ok)
        return records;
    hs__text_records_destroy(records, n);
    return NULL;
}

void hs__text_records_destroy(hs__text_record *records, size_t n)
{
    for (size_t k = 0; records && k < n; k++) {
        free(records[k].figures);
        free(records[k].maps);
    }
    free(records);
}

size_t hs__text_records_bytes(const hs__text_index_options *o, size_t n)
{
    const size_t n_maps = o->n_layers * o->n_heads;
    return n * n_maps *
           ((o->n_examples ? HS__TOP_FIGURES * sizeof(float) : 0) +
            (o->n_texts ? sizeof(hs__index_maps) : 0));
}

/* ---- figures ---- */

/* Returns the mean attention `offset` tokens away, over the rows that have such a token. */
static float offset_mean(const float *attention, size_t n, ptrdiff_t offset)
{
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const ptrdiff_t j = (ptrdiff_t)i + offset;
        if (j < 0 || j >= (ptrdiff_t)n)
            continue;
        sum += (double)attention[i * n + (size_t)j];
        count++;
    }
    return count ? (float)(sum / (double)count) : NAN;
}

static void figures_take(const hs__recorded_head *head, float *to)
{
    const hs_corpus_observation *o = head->observation;
    const float *attention = head->maps->attention;
    const size_t n = head->n_tokens;
    to[HS__TOP_REPEATED] = o->repeated_share;
    to[HS__TOP_SAME_SENTENCE] = o->same_sentence_share;
    to[HS__TOP_DISTANCE] = o->mean_distance;
    to[HS__TOP_FOCAL] = o->focal_share;
    to[HS__TOP_HIGH] = (float)o->high_pairs;
    to[HS__TOP_SEPARATOR] = o->separator_attention;
    to[HS__TOP_SELF] = offset_mean(attention, n, 0);
    to[HS__TOP_PREVIOUS] = offset_mean(attention, n, -1);
    to[HS__TOP_NEXT] = offset_mean(attention, n, 1);
    to[HS__TOP_FIRST] = n ? head->maps->columns[0] / (float)n : NAN;
    for (int k = 0; k < 2; k++)
        to[HS__TOP_SYNTAX_ATTENTION + k] = head->n_pairs ? (float)head->right[k] / (float)head->n_pairs : NAN;
}

/* ---- pairs ---- */

static uint8_t pairs_take(const hs__recorded_head *head, bool similarity, hs__index_pair *to)
{
    const size_t n = head->n_tokens;
    const float *map = similarity ? head->maps->similarity : head->maps->attention;
    const float most = similarity ? hs_similarity_max(map, n, NULL) : 1;
    hs__strong_pair pairs[HS__INDEX_PAIRS_MAX];
    if (!(most > 0 && most < INFINITY))
        return 0;
    const size_t n_found =
        hs__strongest_partners(map, n, head->special, similarity, HS__INDEX_PAIRS_MAX, pairs);
    for (size_t k = 0; k < n_found; k++)
        to[k] = (hs__index_pair){(uint16_t)(head->first + pairs[k].i), (uint16_t)(head->first + pairs[k].j),
                                 pairs[k].value / most};
    return (uint8_t)n_found;
}

void hs__text_record_head(const hs__text_record *record, const hs__recorded_head *head)
{
    if (record->figures)
        figures_take(head, record->figures + head->map * HS__TOP_FIGURES);
    if (!head->searched)
        return;
    hs__index_maps *maps = &record->maps[head->map];
    for (int of = 0; of < 2; of++)
        maps->n[of] = pairs_take(head, of == 1, maps->pairs[of]);
}

/* ---- labels ---- */

static void label_copy(const char *from, size_t n, char *to, size_t n_to)
{
    n = n < n_to ? n : hs_utf8_whole(from, n_to - 1);
    if (n > 0 && hs_utf8_valid(from, n) == n && !memchr(from, 0, n))
        memcpy(to, from, n);
}

hs__token_label *hs__token_labels_make(const hs__sentence *sentence, const int32_t *words, size_t n_tokens)
{
    hs__token_label *labels = calloc(n_tokens + 1, sizeof *labels);
    for (size_t i = 0; labels && i < n_tokens; i++) {
        if (words[i] < 0)
            continue;
        const hs__sentence_word *word = &sentence->words[words[i]];
        label_copy(word->pos, word->n_pos, labels[i].pos, sizeof labels[i].pos);
        label_copy(word->relation, word->n_relation, labels[i].relation, sizeof labels[i].relation);
    }
    return labels;
}
