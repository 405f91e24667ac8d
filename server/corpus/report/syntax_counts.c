/* syntax_counts.c - saves, loads and shows the counts of relations. */
#include "server/corpus/report/syntax_counts.h"

#include <stdlib.h>
#include <string.h>

static size_t n_right(const hs_syntax *syntax)
{
    return hs_syntax_layers(syntax) * hs_syntax_heads(syntax) * HS_SYNTAX_KINDS;
}

/* ---- checkpoint ---- */

static json_t *numbers_save(const uint64_t *numbers, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer((json_int_t)numbers[i]));
    return list;
}

json_t *hs__syntax_save(const hs_syntax *syntax)
{
    if (!syntax)
        return NULL;
    const hs_syntax_sentences *sentences = hs_syntax_sentences_of(syntax);
    json_t *relations = json_object();
    for (size_t r = 0; r < hs_syntax_relations(syntax); r++) {
        const hs_syntax_relation *relation = hs_syntax_relation_at(syntax, r);
        json_object_set_new(relations, relation->name,
                            json_pack("{sI so so}", "count", (json_int_t)relation->count, "offsets",
                                      numbers_save(relation->offsets, HS_SYNTAX_OFFSETS), "right",
                                      numbers_save(relation->right, n_right(syntax))));
    }
    return json_pack("{sI sI so}", "read", (json_int_t)sentences->read, "unread",
                     (json_int_t)sentences->unread, "relations", relations);
}

static bool numbers_load(const json_t *list, uint64_t *ret, size_t n)
{
    bool sound = json_array_size(list) == n;
    for (size_t i = 0; sound && i < n; i++) {
        const json_t *number = json_array_get(list, i);
        sound = json_is_integer(number) && json_integer_value(number) >= 0;
        ret[i] = (uint64_t)json_integer_value(number);
    }
    return sound;
}

static hs_status relation_load(hs_syntax *syntax, const char *name, const json_t *saved, hs_error *err)
{
    size_t at = 0;
    const hs_status st = hs_syntax_relation_add(syntax, name, strlen(name), &at, err);
    if (st)
        return st;
    hs_syntax_relation *relation = hs_syntax_relation_at(syntax, at);
    const json_int_t count = json_integer_value(json_object_get(saved, "count"));
    relation->count = count > 0 ? (uint64_t)count : 0;
    if (count < 0 || !numbers_load(json_object_get(saved, "offsets"), relation->offsets, HS_SYNTAX_OFFSETS) ||
        !numbers_load(json_object_get(saved, "right"), relation->right, n_right(syntax)))
        return hs_fail(err, HS_INVALID, "the counts of the relation %.40s are damaged", name);
    return HS_OK;
}

hs_status hs__syntax_load(const json_t *saved, const hs_corpus_options *o, hs_syntax **ret, hs_error *err)
{
    const char *name;
    json_t *relation;
    hs_syntax *syntax = NULL;
    json_int_t n_read = 0, n_unread = 0;
    json_t *relations;
    if (!saved)
        return HS_OK;
    if (json_unpack((json_t *)saved, "{sI sI so}", "read", &n_read, "unread", &n_unread, "relations",
                    &relations) ||
        n_read < 0 || n_unread < 0 || !json_is_object(relations))
        return hs_fail(err, HS_INVALID, "the counts of relations are damaged");
    hs_status st = hs_syntax_create(o->n_layers, o->n_heads, &syntax, err);
    if (st)
        return st;
    *hs_syntax_sentences_of(syntax) = (hs_syntax_sentences){(uint64_t)n_read, (uint64_t)n_unread};
    json_object_foreach(relations, name, relation)
    {
        if (!st)
            st = relation_load(syntax, name, relation, err);
    }
    if (st)
        hs_syntax_destroy(syntax);
    else
        *ret = syntax;
    return st;
}

/* ---- rows ---- */

static int relation_compare(const void *a, const void *b)
{
    const hs_syntax_relation *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count) : strcmp(x->name, y->name);
}

static bool is_punctuation(const hs_syntax_relation *relation)
{
    return strcmp(relation->name, "punct") == 0 || strncmp(relation->name, "punct:", 6) == 0;
}

static void relation_sum(const hs_syntax_relation *relation, size_t n, hs_syntax_relation *sum)
{
    sum->count += relation->count;
    for (size_t k = 0; k < HS_SYNTAX_OFFSETS; k++)
        sum->offsets[k] += relation->offsets[k];
    for (size_t k = 0; k < n; k++)
        sum->right[k] += relation->right[k];
}

hs_status hs__syntax_rows_make(const hs_syntax *syntax, hs__syntax_rows *ret, hs_error *err)
{
    const size_t n = hs_syntax_relations(syntax);
    *ret = (hs__syntax_rows){.syntax = syntax, .n = n + 1};
    ret->relations = calloc(n + 1, sizeof *ret->relations);
    if (ret->relations)
        ret->relations->right = calloc(n_right(syntax), sizeof *ret->relations->right);
    if (!ret->relations || !ret->relations->right)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the table of relations");
    strcpy(ret->relations->name, "all");
    for (size_t r = 0; r < n; r++) {
        ret->relations[r + 1] = *hs_syntax_relation_at(syntax, r);
        if (!is_punctuation(&ret->relations[r + 1]))
            relation_sum(&ret->relations[r + 1], n_right(syntax), ret->relations);
    }
    qsort(ret->relations + 1, n, sizeof *ret->relations, relation_compare);
    return HS_OK;
}

void hs__syntax_rows_finish(hs__syntax_rows *rows)
{
    if (rows->relations)
        free(rows->relations->right);
    free(rows->relations);
    *rows = (hs__syntax_rows){0};
}

/* Returns the index of the fixed offset that is right most often; of equals, the nearest to 0. */
static size_t offset_best(const hs_syntax_relation *relation)
{
    size_t best = HS_SYNTAX_REACH;
    for (size_t away = 1; away <= HS_SYNTAX_REACH; away++)
        for (size_t side = 0; side < 2; side++) {
            const size_t at = side ? HS_SYNTAX_REACH + away : HS_SYNTAX_REACH - away;
            if (relation->offsets[at] > relation->offsets[best])
                best = at;
        }
    return best;
}

/* ---- report.json ---- */

/* Returns the head that is right most often: {"layer", "head", "right"}. */
static json_t *best_json(const hs_syntax_relation *relation, size_t kind, const hs_corpus_options *o)
{
    size_t best = 0;
    for (size_t i = 1; i < o->n_layers * o->n_heads; i++)
        if (relation->right[i * HS_SYNTAX_KINDS + kind] > relation->right[best * HS_SYNTAX_KINDS + kind])
            best = i;
    return json_pack("{si sI sI}", "layer", o->layers[best / o->n_heads], "head",
                     (json_int_t)(best % o->n_heads), "right",
                     (json_int_t)relation->right[best * HS_SYNTAX_KINDS + kind]);
}

static json_t *row_json(const hs_syntax_relation *relation, const hs_corpus_options *o)
{
    static const char *const kinds[] = {"attention_to_head", "attention_to_dependent", "similarity_to_head",
                                        "similarity_to_dependent"};
    const size_t offset = offset_best(relation);
    json_t *row = json_pack("{ss sI sI sI}", "relation", relation->name, "count", (json_int_t)relation->count,
                            "offset", (json_int_t)offset - HS_SYNTAX_REACH, "offset_right",
                            (json_int_t)relation->offsets[offset]);
    for (size_t k = 0; k < HS_SYNTAX_KINDS; k++)
        json_object_set_new(row, kinds[k], best_json(relation, k, o));
    return row;
}

json_t *hs__syntax_json(const hs__syntax_rows *rows, const hs_corpus_options *o)
{
    const hs_syntax_sentences *sentences = hs_syntax_sentences_of(rows->syntax);
    json_t *list = json_array();
    for (size_t r = 0; r < rows->n; r++)
        json_array_append_new(list, row_json(&rows->relations[r], o));
    return json_pack("{sI sI so}", "sentences", (json_int_t)sentences->read, "unread_sentences",
                     (json_int_t)sentences->unread, "relations", list);
}

/* ---- report.npz ---- */

/* Fills [l][h][rel][2] of attention (first 0) or similarity (first 2). */
static void right_fill(const hs__syntax_rows *rows, size_t first, int64_t *to)
{
    const size_t n_maps = hs_syntax_layers(rows->syntax) * hs_syntax_heads(rows->syntax);
    for (size_t i = 0; i < n_maps; i++)
        for (size_t r = 0; r < rows->n; r++)
            for (size_t k = 0; k < 2; k++)
                *to++ = (int64_t)rows->relations[r].right[i * HS_SYNTAX_KINDS + first + k];
}

/* The second direction is the first one mirrored: from the head, its dependent is at the negative offset. */
static void offsets_fill(const hs__syntax_rows *rows, int64_t *offset, int64_t *right)
{
    for (size_t r = 0; r < rows->n; r++) {
        const size_t best = offset_best(&rows->relations[r]);
        offset[2 * r] = (int64_t)best - HS_SYNTAX_REACH;
        offset[2 * r + 1] = -offset[2 * r];
        right[2 * r] = right[2 * r + 1] = (int64_t)rows->relations[r].offsets[best];
    }
}

static void arrays_fill(const hs__syntax_rows *rows, hs_arrays *arrays)
{
    const size_t n = rows->n, shape[] = {hs_syntax_layers(rows->syntax), hs_syntax_heads(rows->syntax), n, 2};
    hs_bytes *names = calloc(n, sizeof *names);
    int64_t *count = hs_arrays_add(arrays, "syntax_count", HS_ELEMENT_I8, 1, n, 0);
    int64_t *right = hs_arrays_add_block(arrays, "syntax_right", HS_ELEMENT_I8, 4, shape);
    int64_t *similar = hs_arrays_add_block(arrays, "syntax_similarity_right", HS_ELEMENT_I8, 4, shape);
    int64_t *offset_right = hs_arrays_add(arrays, "syntax_offset_right", HS_ELEMENT_I8, 2, n, 2);
    int64_t *offset = hs_arrays_add(arrays, "syntax_offset", HS_ELEMENT_I8, 2, n, 2);
    arrays->failed |= !names;
    for (size_t r = 0; r < n && !arrays->failed; r++) {
        names[r] = (hs_bytes){rows->relations[r].name, strlen(rows->relations[r].name)};
        count[r] = (int64_t)rows->relations[r].count;
    }
    if (!arrays->failed) {
        hs_arrays_add_texts(arrays, "syntax_relations", names, n, false);
        right_fill(rows, HS_SYNTAX_ATTENTION_TO_HEAD, right);
        right_fill(rows, HS_SYNTAX_SIMILARITY_TO_HEAD, similar);
        offsets_fill(rows, offset, offset_right);
    }
    free(names);
}

bool hs__syntax_arrays_write(const hs__syntax_rows *rows, hs_npz *npz)
{
    hs_arrays *arrays = calloc(1, sizeof *arrays);
    if (!arrays)
        return false;
    arrays_fill(rows, arrays);
    const bool sound = !arrays->failed;
    for (size_t i = 0; sound && i < arrays->n; i++)
        hs_npz_array(npz, &arrays->items[i]);
    hs_arrays_finish(arrays);
    free(arrays);
    return sound;
}
