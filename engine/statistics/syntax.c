/* syntax.c - finds the word that each word points to, and compares it with the treebank. */
#include "engine/statistics/syntax.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hs_syntax {
    size_t n_layers, n_heads;
    hs_syntax_relation *relations; /* [capacity] */
    size_t n_relations, capacity;
    hs_syntax_sentences sentences;
    double sums[HS_SYNTAX_WORDS_MAX];        /* of the row of words at hand */
    int32_t best[2][HS_SYNTAX_WORDS_MAX];    /* the word that each word points to, by attention, similarity */
    int32_t n_of_words[HS_SYNTAX_WORDS_MAX]; /* tokens of each word */
};

/* ---- lifetime ---- */

/* Returns the number of counts of all sentences, or of odd ones. */
static size_t n_right(const hs_syntax *s)
{
    return s->n_layers * s->n_heads * HS_SYNTAX_KINDS;
}

size_t hs_syntax_bytes_max(size_t n_layers, size_t n_heads)
{
    return sizeof(hs_syntax) +
           HS_SYNTAX_RELATIONS_MAX *
               (sizeof(hs_syntax_relation) + 2 * n_layers * n_heads * HS_SYNTAX_KINDS * sizeof(uint64_t));
}

hs_status hs_syntax_create(size_t n_layers, size_t n_heads, hs_syntax **ret, hs_error *err)
{
    hs_syntax *s = calloc(1, sizeof *s);
    if (!s)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the counts of relations");
    s->n_layers = n_layers;
    s->n_heads = n_heads;
    *ret = s;
    return HS_OK;
}

void hs_syntax_destroy(hs_syntax *s)
{
    for (size_t r = 0; s && r < s->n_relations; r++)
        free(s->relations[r].right);
    if (s)
        free(s->relations);
    free(s);
}

/* ---- relations ---- */

static hs_status capacity_grow(hs_syntax *s, hs_error *err)
{
    const size_t capacity = s->capacity ? 2 * s->capacity : 16;
    hs_syntax_relation *relations = realloc(s->relations, capacity * sizeof *relations);
    if (!relations)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a relation");
    s->relations = relations;
    s->capacity = capacity;
    return HS_OK;
}

hs_status hs_syntax_relation_add(hs_syntax *s, const char *name, size_t n_bytes, size_t *ret, hs_error *err)
{
    hs_syntax_relation relation = {.count = 0};
    snprintf(relation.name, sizeof relation.name, "%.*s", (int)(n_bytes < 64 ? n_bytes : 64), name);
    for (size_t r = 0; r < s->n_relations; r++)
        if (strcmp(s->relations[r].name, relation.name) == 0) {
            *ret = r;
            return HS_OK;
        }
    if (s->n_relations == HS_SYNTAX_RELATIONS_MAX)
        return hs_fail(
            err, HS_TOO_LARGE,
            "the treebank has more than %d relations; column 8 must name the relation of each word",
            HS_SYNTAX_RELATIONS_MAX);
    const hs_status st = s->n_relations == s->capacity ? capacity_grow(s, err) : HS_OK;
    if (st)
        return st;
    relation.right = calloc(2 * n_right(s), sizeof *relation.right);
    if (!relation.right)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a relation");
    *ret = s->n_relations;
    s->relations[s->n_relations++] = relation;
    return HS_OK;
}

bool hs_syntax_is_punctuation(const hs_syntax_relation *relation)
{
    return strcmp(relation->name, "punct") == 0 || strncmp(relation->name, "punct:", 6) == 0;
}

hs_syntax_sentences *hs_syntax_sentences_of(const hs_syntax *s)
{
    return (hs_syntax_sentences *)&s->sentences;
}

size_t hs_syntax_layers(const hs_syntax *s)
{
    return s->n_layers;
}

size_t hs_syntax_heads(const hs_syntax *s)
{
    return s->n_heads;
}

size_t hs_syntax_relations(const hs_syntax *s)
{
    return s->n_relations;
}

hs_syntax_relation *hs_syntax_relation_at(const hs_syntax *s, size_t relation)
{
    return &s->relations[relation];
}

/* ---- counting ---- */

/* Counts the tokens of each word. Returns false if fewer than two words have any. */
static bool words_measure(hs_syntax *s, const hs_syntax_text *text)
{
    size_t n = 0;
    memset(s->n_of_words, 0, text->n_words * sizeof *s->n_of_words);
    for (size_t i = 0; i < text->n_tokens; i++)
        if (text->words[i] >= 0)
            n += s->n_of_words[text->words[i]]++ == 0;
    return n > 1;
}

/* Returns true if the word and its head count. words_measure has been called. */
static bool pair_counts(const hs_syntax *s, const hs_syntax_text *text, size_t word)
{
    const int32_t head = text->heads[word];
    return head >= 0 && head != (int32_t)word && s->n_of_words[word] > 0 && s->n_of_words[head] > 0;
}

void hs_syntax_text_add(hs_syntax *s, const hs_syntax_text *text)
{
    s->sentences.read++;
    if (!words_measure(s, text))
        return;
    for (size_t w = 0; w < text->n_words; w++) {
        if (!pair_counts(s, text, w))
            continue;
        const ptrdiff_t offset = (ptrdiff_t)text->heads[w] - (ptrdiff_t)w;
        hs_syntax_relation *relation = &s->relations[text->relations[w]];
        relation->count++;
        relation->odd_count += text->is_odd;
        if (offset < -HS_SYNTAX_REACH || offset > HS_SYNTAX_REACH)
            continue;
        relation->offsets[offset + HS_SYNTAX_REACH]++;
        relation->odd_offsets[offset + HS_SYNTAX_REACH] += text->is_odd;
    }
}

/* Adds the row of token i to the sums of words. Similarities are read above the diagonal. */
static void row_add(hs_syntax *s, const hs_syntax_text *text, const float *map, bool upper, size_t i)
{
    const size_t T = text->n_tokens;
    for (size_t j = 0; j < T; j++)
        if (text->words[j] >= 0)
            s->sums[text->words[j]] += (double)(upper && j < i ? map[j * T + i] : map[i * T + j]);
}

/* Returns the other word with the highest sum; the first one of equals, -1 if there is none. */
static int32_t best_find(const hs_syntax *s, const hs_syntax_text *text, int32_t word, bool mean)
{
    int32_t best = -1;
    double most = 0;
    for (int32_t w = 0; w < (int32_t)text->n_words; w++) {
        if (w == word || s->n_of_words[w] == 0)
            continue;
        const double value = mean ? s->sums[w] / s->n_of_words[w] : s->sums[w];
        if (best < 0 || value > most) {
            best = w;
            most = value;
        }
    }
    return best;
}

/* Finds the word that each word points to. Dividing by the word's own tokens changes no maximum. */
static void map_read(hs_syntax *s, const hs_syntax_text *text, const float *map, bool similarity,
                     int32_t *ret_best)
{
    for (size_t i = 0, end; i < text->n_tokens; i = end) {
        const int32_t word = text->words[i];
        end = i + 1;
        if (word < 0)
            continue;
        memset(s->sums, 0, text->n_words * sizeof *s->sums);
        row_add(s, text, map, similarity, i);
        for (; end < text->n_tokens && text->words[end] == word; end++)
            row_add(s, text, map, similarity, end);
        ret_best[word] = best_find(s, text, word, similarity);
    }
}

size_t hs_syntax_head_add(hs_syntax *s, const hs_syntax_text *text, size_t l, size_t h,
                          const hs_observed_head *head, size_t ret_right[2])
{
    size_t n_pairs = 0;
    ret_right[0] = ret_right[1] = 0;
    if (!words_measure(s, text))
        return 0;
    map_read(s, text, head->attention, false, s->best[0]);
    map_read(s, text, head->similarity, true, s->best[1]);
    for (size_t w = 0; w < text->n_words; w++) {
        if (!pair_counts(s, text, w))
            continue;
        const int32_t governor = text->heads[w];
        const hs_syntax_relation *relation = &s->relations[text->relations[w]];
        uint64_t *right = relation->right + (l * s->n_heads + h) * HS_SYNTAX_KINDS, *odd = right + n_right(s);
        const bool listed = !hs_syntax_is_punctuation(relation);
        n_pairs += listed;
        for (size_t k = 0; k < 2; k++) {
            ret_right[k] += listed && s->best[k][w] == governor;
            const bool to_head = s->best[k][w] == governor, to_dependent = s->best[k][governor] == (int32_t)w;
            right[2 * k] += to_head;
            right[2 * k + 1] += to_dependent;
            odd[2 * k] += text->is_odd && to_head;
            odd[2 * k + 1] += text->is_odd && to_dependent;
        }
    }
    return n_pairs;
}

hs_status hs_syntax_merge(hs_syntax *s, const hs_syntax *from, hs_error *err)
{
    const size_t n = 2 * n_right(s);
    s->sentences.read += from->sentences.read;
    s->sentences.unread += from->sentences.unread;
    for (size_t r = 0; r < from->n_relations; r++) {
        size_t at = 0;
        const hs_syntax_relation *other = &from->relations[r];
        const hs_status st = hs_syntax_relation_add(s, other->name, strlen(other->name), &at, err);
        if (st)
            return st;
        hs_syntax_relation *mine = &s->relations[at];
        mine->count += other->count;
        mine->odd_count += other->odd_count;
        for (size_t k = 0; k < HS_SYNTAX_OFFSETS; k++) {
            mine->offsets[k] += other->offsets[k];
            mine->odd_offsets[k] += other->odd_offsets[k];
        }
        for (size_t k = 0; k < n; k++)
            mine->right[k] += other->right[k];
    }
    return HS_OK;
}
