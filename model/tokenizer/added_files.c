/* added_files.c - collects the added tokens of a checkpoint. Up to four files name them: tokenizer.json,
 * added_tokens_decoder of tokenizer_config.json or the older added_tokens.json, and the special tokens of
 * tokenizer_config.json or the older special_tokens_map.json. As in HuggingFace, each file adds the tokens
 * that no earlier file has. */
#include "model/tokenizer/part_options.h"
#include "model/tokenizer/tokenizer_internal.h"

#include <stdlib.h>

/* The keys of special tokens in a config. Tokens without id get one in this order. */
static const char *const special_keys[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                           "pad_token", "cls_token", "mask_token"};
#define N_SPECIAL (sizeof special_keys / sizeof *special_keys)

static const char *default_name(const hs__special_names *names, size_t i)
{
    const char *const defaults[N_SPECIAL] = {NULL,       NULL,       names->unk, names->sep,
                                             names->pad, names->cls, names->mask};
    return defaults[i];
}

/* ---- the list ---- */

/* Reserves capacity for n_more added tokens. */
static hs_status reserve(hs__added_list *list, size_t n_more, hs_error *err)
{
    hs__added_token *items = realloc(list->items, (list->n + n_more + 1) * sizeof *items);
    if (!items)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    list->items = items;
    return HS_OK;
}

/* Appends the token unless another file has it. The same file may repeat it. */
static hs_status put(hs__description *d, const char *text, hs__added_token token, hs_error *err)
{
    hs__added_list *list = &d->added;
    if (!text || !text[0])
        return hs_fail(err, HS_BAD_MODEL, "%s: an added token has no 'content'", d->reading);
    const hs_status st = hs__token_check(text, strlen(text), d->reading, err);
    const char *before = json_string_value(json_object_get(d->added_by, text));
    if (st || (before && strcmp(before, d->reading) != 0))
        return st;
    if (json_object_set_new(d->added_by, text, json_string(d->reading)))
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    token.entry.text = text;
    token.file = d->reading;
    token.entry.n_bytes = (uint32_t)strlen(text);
    list->items[list->n++] = token;
    return HS_OK;
}

/* {"content": "[PAD]", "special": true, ...} */
static hs__added_token read_flags(const json_t *token, int32_t id)
{
    return (hs__added_token){
        .entry.id = id,
        .special = json_is_true(json_object_get(token, "special")),
        .normalized = json_is_true(json_object_get(token, "normalized")),
        .single_word = json_is_true(json_object_get(token, "single_word")),
        .lstrip = json_is_true(json_object_get(token, "lstrip")),
        .rstrip = json_is_true(json_object_get(token, "rstrip")),
    };
}

static const char *content_of(const json_t *token)
{
    return json_string_value(json_object_get(token, "content"));
}

/* ---- tokenizer.json and its equivalents: [{"id": 0, "content": "[PAD]", ...}] ---- */

static hs_status read_list(hs__description *d, hs_error *err)
{
    const json_t *list = json_object_get(d->json, "added_tokens");
    if (list && !json_is_array(list))
        return hs_fail(err, HS_BAD_MODEL, HS__TOKENIZER_JSON ": added_tokens must be an array");
    d->reading = HS__TOKENIZER_JSON;
    hs_status st = reserve(&d->added, json_array_size(list), err);
    for (size_t i = 0; !st && i < json_array_size(list); i++) {
        const json_t *token = json_array_get(list, i);
        const json_t *number = json_object_get(token, "id");
        int32_t id = 0;
        st = hs__token_id_read(number, "added_tokens", content_of(token), d->vocab_size, &id, err);
        if (!st)
            st = put(d, content_of(token), read_flags(token, id), err);
    }
    return st;
}

/* ---- tokenizer_config.json: {"added_tokens_decoder": {"0": {"content": "[PAD]", ...}}} ---- */

static hs_status read_decoder(hs__description *d, hs_error *err)
{
    json_t *decoder = json_object_get(d->config, "added_tokens_decoder");
    d->reading = HS__TOKENIZER_CONFIG;
    hs_status st = reserve(&d->added, json_object_size(decoder), err);
    const char *key;
    json_t *token;
    json_object_foreach(decoder, key, token)
    {
        char *end = NULL;
        const long long id = strtoll(key, &end, 10);
        if (!st && (end == key || *end || id < 0 || (size_t)id >= d->vocab_size))
            st = hs_fail(err, HS_BAD_MODEL,
                         HS__TOKENIZER_CONFIG ": added_tokens_decoder: '%.64s' is not an id from 0 to %zu",
                         key, d->vocab_size - 1);
        if (!st)
            st = put(d, content_of(token), read_flags(token, (int32_t)id), err);
        if (st)
            return st;
    }
    return st;
}

/* ---- special tokens ---- */

hs_status hs__special_name(const hs__description *d, const char *key, const char *otherwise,
                           const char **ret_text, hs_error *err)
{
    *ret_text = otherwise;
    return hs__option_text(d->config, HS__TOKENIZER_CONFIG, key, ret_text, err);
}

/* Returns the text of additional special token i, a string or an object; NULL for anything else. */
static const char *more_name(const hs__description *d, size_t i)
{
    const json_t *token = json_array_get(json_object_get(d->config, "additional_special_tokens"), i);
    return json_is_object(token) ? content_of(token) : json_string_value(token);
}

static size_t count_more(const hs__description *d)
{
    return json_array_size(json_object_get(d->config, "additional_special_tokens"));
}

/* Lists all special tokens of the files as keys. Returns NULL if memory is short. */
static json_t *list_special(const hs__description *d)
{
    json_t *names = json_object();
    bool ok = true;
    for (size_t i = 0; ok && i < N_SPECIAL + count_more(d); i++) {
        const char *name = i < N_SPECIAL ? default_name(&d->names, i) : more_name(d, i - N_SPECIAL);
        if (i < N_SPECIAL && hs__special_name(d, special_keys[i], name, &name, NULL))
            continue;
        ok = !name || !json_object_set_new(names, name, json_true());
    }
    if (ok)
        return names;
    json_decref(names);
    return NULL;
}

/* Appends a special token that no file has yet. Those at the ends of texts and the unknown token must be in
 * the vocabulary. The others get an id after it. */
static hs_status put_special(hs__description *d, const char *text, const json_t *named, bool must_be_there,
                             bool lstrip, hs_error *err)
{
    if (!text || !text[0] || json_object_get(d->added_by, text))
        return HS_OK;
    hs__added_token token = {.entry.id = -1, .lstrip = lstrip};
    if (json_is_object(named))
        token = read_flags(named, -1);
    token.special = true;
    token.must_be_there = must_be_there;
    return put(d, text, token, err);
}

static hs_status read_special(hs__description *d, hs_error *err)
{
    d->reading = HS__TOKENIZER_CONFIG;
    hs_status st = reserve(&d->added, N_SPECIAL + count_more(d), err);
    for (size_t i = 0; !st && i < N_SPECIAL; i++) {
        const char *key = special_keys[i];
        const bool is_mask = strcmp(key, "mask_token") == 0;
        const char *text = NULL;
        st = hs__special_name(d, key, default_name(&d->names, i), &text, err);
        if (!st)
            st = put_special(d, text, json_object_get(d->config, key),
                             !is_mask && strcmp(key, "pad_token") != 0, is_mask && d->names.mask_lstrip, err);
    }
    const json_t *more = json_object_get(d->config, "additional_special_tokens");
    for (size_t i = 0; !st && i < count_more(d); i++)
        st = put_special(d, more_name(d, i), json_array_get(more, i), false, false, err);
    return st;
}

/* ---- added_tokens.json: {"<ent>": 30522}; searched in normalised text unless special ---- */

static hs_status put_added_json(hs__description *d, const json_t *special_names, hs_error *err)
{
    d->reading = "added_tokens.json";
    hs_status st = reserve(&d->added, json_object_size(d->added_json), err);
    const char *text;
    json_t *number;
    json_object_foreach(d->added_json, text, number)
    {
        const json_int_t id = json_is_integer(number) ? json_integer_value(number) : -1;
        if (!st && (id < 0 || id >= (json_int_t)d->vocab_size))
            st = hs_fail(err, HS_BAD_MODEL, "added_tokens.json: '%.64s' must have an id from 0 to %zu", text,
                         d->vocab_size - 1);
        const bool special = json_object_get(special_names, text);
        const hs__added_token token = {.entry.id = (int32_t)id, .special = special, .normalized = !special};
        if (!st)
            st = put(d, text, token, err);
        if (st)
            return st;
    }
    return st;
}

static hs_status read_added_json(hs__description *d, hs_error *err)
{
    json_t *special_names = list_special(d);
    if (!special_names)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    const hs_status st = put_added_json(d, special_names, err);
    json_decref(special_names);
    return st;
}

hs_status hs__added_files_read(hs__description *d, hs_error *err)
{
    d->added_by = json_object();
    if (!d->added_by)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    hs_status st = d->older ? HS_OK : read_list(d, err);
    if (!st && json_object_get(d->config, "added_tokens_decoder"))
        st = read_decoder(d, err);
    else if (!st)
        st = read_added_json(d, err);
    if (!st)
        st = read_special(d, err);
    /* An older vocabulary comes last, because it says least about how its tokens are found. */
    return st || !d->older ? st : read_list(d, err);
}
