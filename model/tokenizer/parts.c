/* parts.c - the table of parts, and lists of parts. An unknown type of part is refused by name. */
#include "model/tokenizer/parts.h"

#include <stdio.h>
#include <stdlib.h>

/* clang-format off */
static const hs__part_type *const types[] = {
    &hs__bert_normalizer,
    &hs__bert_pre_tokenizer,
    &hs__byte_level_pre_tokenizer,
    &hs__wordpiece,
    &hs__bpe,
    &hs__bert_processing,
    &hs__roberta_processing,
    &hs__template_processing,
    &hs__byte_level_post_processor,
    &hs__lowercase,
    &hs__nfc,
    &hs__nfd,
    &hs__nfkc,
    &hs__nfkd,
    &hs__nmt,
    &hs__precompiled,
    &hs__prepend,
    &hs__replace,
    &hs__strip,
    &hs__strip_accents,
    &hs__digits,
    &hs__metaspace,
    &hs__split_pre_tokenizer,
    &hs__whitespace_split,
    &hs__unigram,
    &hs__word_level,
    NULL,
};
/* clang-format on */

/* The keys of a stage in tokenizer.json, and of the parts of its Sequence. */
static const struct {
    const char *key, *list;
    bool optional; /* null means no part */
} stages[] = {{"normalizer", "normalizers", true},
              {"pre_tokenizer", "pretokenizers", true},
              {"model.type", NULL, false},
              {"post_processor", "processors", true}};

/* ---- create ---- */

static bool is_of(const hs__part_type *type, const json_t *options, const char *name)
{
    return name ? strcmp(type->name, name) == 0 : type->recognize && type->recognize(options);
}

static hs_status refuse(hs__stage stage, const char *name, hs_error *err)
{
    char supported[256] = "";
    size_t used = 0;
    for (size_t i = 0; types[i] && used < sizeof supported; i++)
        if (types[i]->stage == stage)
            used += (size_t)snprintf(supported + used, sizeof supported - used, "%s%s", used ? ", " : "",
                                     types[i]->name);
    return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: %s is '%.64s'; supported: %s", stages[stage].key,
                   name ? name : "none", supported);
}

static hs_status part_append(hs__stage stage, const json_t *options, hs__parts *parts, hs_error *err)
{
    const char *name = json_string_value(json_object_get(options, "type"));
    if (parts->n == HS__STAGE_PARTS_MAX)
        return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: %s has more than %d parts", stages[stage].key,
                       HS__STAGE_PARTS_MAX);
    for (size_t i = 0; types[i]; i++) {
        if (types[i]->stage != stage || !is_of(types[i], options, name))
            continue;
        hs__part *part = parts->items[parts->n] = calloc(1, types[i]->size);
        if (!part)
            return hs_fail(err, HS_NO_MEMORY, "out of memory");
        parts->n++;
        part->type = types[i];
        return part->type->configure ? part->type->configure(part, options, err) : HS_OK;
    }
    return refuse(stage, name, err);
}

hs_status hs__parts_create(hs__stage stage, const json_t *options, hs__parts *ret_parts, hs_error *err)
{
    const char *name = json_string_value(json_object_get(options, "type"));
    if (stages[stage].optional && json_is_null(options))
        return HS_OK;
    if (!stages[stage].list || !name || strcmp(name, "Sequence") != 0)
        return part_append(stage, options, ret_parts, err);
    const json_t *list = json_object_get(options, stages[stage].list);
    if (!json_is_array(list))
        return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: %s is a Sequence without '%s'", stages[stage].key,
                       stages[stage].list);
    hs_status st = HS_OK;
    for (size_t i = 0; !st && i < json_array_size(list); i++)
        st = part_append(stage, json_array_get(list, i), ret_parts, err);
    return st;
}

void hs__parts_finish(hs__parts *parts)
{
    for (size_t i = 0; i < parts->n; i++) {
        if (parts->items[i]->type->finish)
            parts->items[i]->type->finish(parts->items[i]);
        free(parts->items[i]);
    }
    parts->n = 0;
}

void hs__split_finish(hs__split *split)
{
    free(split->words.items);
    free(split->uncut.items);
    hs__aligned_text_finish(&split->rewritten[0]);
    hs__aligned_text_finish(&split->rewritten[1]);
}

/* ---- normalize ---- */

/* Runs one part. Its output is at most n_more_max bytes long. The buffer may have more capacity from an
 * earlier text, so the length is checked at the end too: the same text always has the same result. */
static bool part_normalize(const hs__part *part, const hs__text_view *from, size_t n_more_max,
                           hs__aligned_text *to)
{
    to->bytes_max = to->n_bytes + n_more_max;
    const bool ok = part->type->normalize(part, from, to) && hs__aligned_text_fits(to);
    to->bytes_max = 0;
    return ok;
}

bool hs__parts_normalize(const hs__parts *parts, const hs__text_view *view, hs__aligned_text scratch[2],
                         hs__aligned_text *ret_text)
{
    if (parts->n == 0)
        return hs__aligned_text_reserve(ret_text, view->n_bytes) &&
               hs__text_view_map(view, hs__aligned_text_put, ret_text);
    const size_t n_more_max = hs__aligned_text_limit(view->n_bytes);
    hs__text_view from = *view;
    bool ok = true;
    for (size_t i = 0; ok && i + 1 < parts->n; i++) {
        hs__aligned_text *to = &scratch[i % 2];
        to->n_bytes = 0;
        ok = part_normalize(parts->items[i], &from, n_more_max, to);
        from = (hs__text_view){.bytes = to->bytes, .n_bytes = to->n_bytes, .sources = to->sources};
    }
    return ok && part_normalize(parts->items[parts->n - 1], &from, n_more_max, ret_text);
}

/* ---- split ---- */

static bool part_split(const hs__part *part, hs__split *split)
{
    const hs__aligned_text *from = split->text;
    hs__aligned_text *to = &split->rewritten[from == &split->rewritten[0]];
    const hs__spans uncut = split->words;
    split->words = split->uncut;
    split->uncut = uncut;
    split->words.n = 0;
    to->n_bytes = 0;
    bool ok = true;
    for (size_t i = 0; i < uncut.n && ok; i++)
        ok = part->type->split(part, from, uncut.items[i], to, &split->words);
    if (part->type->rewrites)
        split->text = to;
    return ok && hs__aligned_text_fits(to);
}

bool hs__parts_split(const hs__parts *parts, hs__split *split)
{
    bool ok = true;
    for (size_t i = 0; ok && i < parts->n; i++)
        ok = part_split(parts->items[i], split);
    return ok;
}
