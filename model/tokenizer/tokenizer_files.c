/* tokenizer_files.c - reads the description of a tokenizer from untrusted files.
 *
 * As in HuggingFace, tokenizer.json has the vocabulary and the pipeline if it is present. Older files are
 * converted to the same form, so parts are created in one way only. Options in tokenizer_config.json override
 * both: do_lower_case, strip_accents and tokenize_chinese_chars of BERT, add_prefix_space and trim_offsets of
 * byte-level BPE. */
#include "model/base/read_number.h"
#include "model/tokenizer/tokenizer_internal.h"

#include <stdio.h>
#include <stdlib.h>

#define FILE_BYTES_MAX (64u << 20)

/* ---- tokenizer_config.json ---- */

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names && strcmp(name, *names) != 0)
        names++;
    return *names != NULL;
}

/* Checks the class. Options of tokenizer_config.json count for BERT's classes, and for a file without a
 * class. Other classes take their pipeline from tokenizer.json, as transformers does for unknown names. Its
 * classes that are written in Python do not read that file. */
static hs_status check_class(hs__description *d, hs_error *err)
{
    static const char *const bert[] = {"BertTokenizer",       "DistilBertTokenizer", "ElectraTokenizer",
                                       "MobileBertTokenizer", "LayoutLMTokenizer",   NULL};
    const char *class = NULL;
    char name[64];
    const hs_status st = hs__option_text(d->config, HS__TOKENIZER_CONFIG, "tokenizer_class", &class, err);
    if (st || !class)
        return st;
    snprintf(name, sizeof name, "%s", class);
    if (hs_ends_with(name, "Fast"))
        name[strlen(name) - strlen("Fast")] = '\0';
    d->keeps_normalizer = !is_one_of(name, bert);
    return hs__python_class_refuse(class, err);
}

/* Overrides an option of a part if the config has it. */
static hs_status override(const hs__description *d, const char *stage, const char *type, const char *key,
                          const char *config_key, hs_error *err)
{
    json_t *part = json_object_get(d->json, stage);
    const char *name = json_string_value(json_object_get(part, "type"));
    bool value = false;
    const hs_status st = hs__option_bool(d->config, HS__TOKENIZER_CONFIG, config_key, &value, err);
    if (st || !json_is_boolean(json_object_get(d->config, config_key)) || !name || strcmp(name, type) != 0)
        return st;
    if (json_object_set_new(part, key, json_boolean(value)))
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    return HS_OK;
}

static hs_status override_bert(const hs__description *d, hs_error *err)
{
    static const char stage[] = "normalizer";
    static const char type[] = "BertNormalizer";
    hs_status st = override(d, stage, type, "lowercase", "do_lower_case", err);
    /* strip_accents follows do_lower_case unless it is set */
    if (!st && json_is_boolean(json_object_get(d->config, "do_lower_case")))
        json_object_del(json_object_get(d->json, stage), "strip_accents");
    if (!st)
        st = override(d, stage, type, "strip_accents", "strip_accents", err);
    return st ? st : override(d, stage, type, "handle_chinese_chars", "tokenize_chinese_chars", err);
}

static hs_status override_byte_level(const hs__description *d, hs_error *err)
{
    static const char prefix[] = "add_prefix_space";
    static const char trim[] = "trim_offsets";
    hs_status st = override(d, "pre_tokenizer", "ByteLevel", prefix, prefix, err);
    if (!st)
        st = override(d, "post_processor", "RobertaProcessing", prefix, prefix, err);
    return st ? st : override(d, "post_processor", "RobertaProcessing", trim, trim, err);
}

/* Applies the config to the pipeline. */
static hs_status apply_config(hs__description *d, hs_error *err)
{
    hs_status st = d->keeps_normalizer ? HS_OK : override_bert(d, err);
    if (!st)
        st = override_byte_level(d, err);
    if (!st)
        st = hs__languages_configure(d, err);
    if (!st)
        st = hs__special_name(d, "pad_token", d->names.pad, &d->pad, err);
    return st ? st : hs__special_name(d, "mask_token", d->names.mask, &d->mask, err);
}

/* ---- added tokens ----
 *
 * Collects the added tokens of a checkpoint. Up to four files name them: tokenizer.json,
 * added_tokens_decoder of tokenizer_config.json or the older added_tokens.json, and the special tokens of
 * tokenizer_config.json or the older special_tokens_map.json. As in HuggingFace, each file adds the tokens
 * that no earlier file has. */

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
    token.normalized = token.normalized && !d->in_python;
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
        st = hs__token_id_read(number, HS__TOKENIZER_JSON ": added_tokens", content_of(token),
                               d->vocab_size + HS__BEYOND_MAX, &id, err);
        hs__added_token added = read_flags(token, id);
        added.unsearched = d->older && json_is_true(json_object_get(token, "unsearched"));
        if (!st)
            st = put(d, content_of(token), added, err);
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
        int64_t id = 0;
        if (!st && hs_integer_read(key, NULL, 0, (int64_t)(d->vocab_size + HS__BEYOND_MAX - 1), &id))
            st = hs_fail(err, HS_BAD_MODEL,
                         HS__TOKENIZER_CONFIG ": added_tokens_decoder: '%.64s' is not an id from 0 to %zu",
                         key, d->vocab_size + HS__BEYOND_MAX - 1);
        if (!st)
            st = put(d, content_of(token), read_flags(token, (int32_t)id), err);
        if (st)
            return st;
    }
    return st;
}

/* ---- special tokens ---- */

/* ---- special tokens without a purpose of their own ----
 *
 * transformers 5 takes them from these keys:
 *
 *     extra_special_tokens            a list, or an object of names and tokens
 *     any other key ending in _token  a token
 *     model_specific_special_tokens   an object, unless one of those above names a token
 *     additional_special_tokens       a list, unless the first one is there */

static bool has_purpose(const char *key)
{
    for (size_t i = 0; i < N_SPECIAL; i++)
        if (strcmp(key, special_keys[i]) == 0)
            return true;
    return false;
}

/* Returns the text of a token: a string, or an object with "content". NULL for anything else. */
static const char *text_of(const json_t *token)
{
    return json_is_object(token) ? content_of(token) : json_string_value(token);
}

/* Appends the tokens of a list, or the members of an object. Returns false if memory is short. */
static bool append_tokens(json_t *list, json_t *tokens)
{
    bool ok = true;
    const char *name;
    json_t *token;
    for (size_t i = 0; ok && i < json_array_size(tokens); i++)
        ok = !json_array_append(list, json_array_get(tokens, i));
    json_object_foreach(tokens, name, token) ok = ok && !json_array_append(list, token);
    return ok;
}

/* Refuses a list of tokens with an item that is none. */
static hs_status check_tokens(const char *key, const json_t *tokens, hs_error *err)
{
    const size_t n = json_array_size(tokens);
    bool sound = !tokens || json_is_null(tokens) || json_is_array(tokens) || json_is_object(tokens);
    for (size_t i = 0; i < n; i++)
        sound &= text_of(json_array_get(tokens, i)) != NULL;
    const char *name;
    json_t *token;
    json_object_foreach((json_t *)tokens, name, token) sound &= text_of(token) != NULL;
    return sound ? HS_OK
                 : hs_fail(err, HS_BAD_MODEL,
                           HS__TOKENIZER_CONFIG
                           ": %s must be a list of tokens, or an object of names and tokens",
                           key);
}

/* Appends the tokens of a key. Fails with HS_BAD_MODEL if its value is neither list nor object. */
static hs_status add_tokens(hs__description *d, const char *key, hs_error *err)
{
    json_t *tokens = json_object_get(d->config, key);
    const hs_status st = check_tokens(key, tokens, err);
    return st || append_tokens(d->more, tokens) ? st : hs_fail(err, HS_NO_MEMORY, "out of memory");
}

static hs_status list_more(hs__description *d, hs_error *err)
{
    static const char newer[] = "extra_special_tokens";
    const char *key;
    json_t *value;
    const json_t *extra = json_object_get(d->config, newer);
    bool ok = (d->more = json_array());
    json_object_foreach(d->config, key, value)
    {
        if (hs_ends_with(key, "_token") && !has_purpose(key) && text_of(value))
            ok = ok && !json_array_append(d->more, value);
    }
    hs_status st = ok ? HS_OK : hs_fail(err, HS_NO_MEMORY, "out of memory");
    if (!st && json_array_size(d->more) == 0 && json_object_size(extra) == 0)
        st = add_tokens(d, "model_specific_special_tokens", err);
    if (!st)
        st = add_tokens(d, newer, err);
    if (!st && json_array_size(extra) == 0 && json_object_size(extra) == 0)
        st = add_tokens(d, "additional_special_tokens", err);
    return st;
}

static const char *more_name(const hs__description *d, size_t i)
{
    return text_of(json_array_get(d->more, i));
}

static size_t count_more(const hs__description *d)
{
    return json_array_size(d->more);
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
    for (size_t i = 0; !st && i < count_more(d); i++)
        st = put_special(d, more_name(d, i), json_array_get(d->more, i), false, false, err);
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
        if (!st && (id < 0 || id >= (json_int_t)d->vocab_size + HS__BEYOND_MAX))
            st = hs_fail(err, HS_BAD_MODEL, "added_tokens.json: '%.64s' must have an id from 0 to %zu", text,
                         d->vocab_size + HS__BEYOND_MAX - 1);
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

/* Fills added. If several files name a token, the first one counts. */
static hs_status read_added(hs__description *d, hs_error *err)
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

/* ---- the documents ---- */

static hs_status check_sizes(const hs_tokenizer_files *files, hs_error *err)
{
    const struct {
        const hs_bytes *bytes;
        const char *name;
    } list[] = {{&files->tokenizer_json, HS__TOKENIZER_JSON},
                {&files->tokenizer_config, HS__TOKENIZER_CONFIG},
                {&files->vocab_txt, "vocab.txt"},
                {&files->vocab_json, "vocab.json"},
                {&files->merges_txt, "merges.txt"},
                {&files->sentencepiece, "the sentencepiece model"},
                {&files->tokenizer_model, "tokenizer.model"},
                {&files->source_sentencepiece, "source.spm"},
                {&files->target_sentencepiece, "target.spm"},
                {&files->added_tokens, "added_tokens.json"},
                {&files->special_tokens_map, "special_tokens_map.json"}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i].bytes->size > FILE_BYTES_MAX)
            return hs_fail(err, HS_BAD_MODEL, "%s has %zu bytes, more than %u", list[i].name,
                           list[i].bytes->size, FILE_BYTES_MAX);
    return HS_OK;
}

/* Merges special_tokens_map.json over the config, unless the config lists the added tokens completely, as
 * HuggingFace writes it today. */
static hs_status read_special_map(const hs_tokenizer_files *files, hs__description *d, hs_error *err)
{
    json_t *map = NULL;
    if (!files->special_tokens_map.data || json_object_get(d->config, "added_tokens_decoder"))
        return HS_OK;
    hs_status st = hs__json_parse_reals(&files->special_tokens_map, "special_tokens_map.json", &map, err);
    if (!st && json_object_update(d->config, map))
        st = hs_fail(err, HS_NO_MEMORY, "out of memory");
    json_decref(map);
    return st;
}

static hs_status read_documents(const hs_tokenizer_files *files, hs__description *d, hs_error *err)
{
    hs_status st = check_sizes(files, err);
    if (!st && files->tokenizer_config.data)
        st = hs__json_parse_reals(&files->tokenizer_config, HS__TOKENIZER_CONFIG, &d->config, err);
    else if (!st && !(d->config = json_object()))
        st = hs_fail(err, HS_NO_MEMORY, "out of memory");
    if (!st && files->added_tokens.data)
        st = hs__json_parse(&files->added_tokens, "added_tokens.json", &d->added_json, err);
    return st ? st : read_special_map(files, d, err);
}

/* Returns true for classes that do not read tokenizer.json, because transformers has them in Python:
 * BertJapaneseTokenizer, and MarianTokenizer or its files if no class is named. */
static bool is_older(const hs_tokenizer_files *files, const hs__description *d)
{
    static const char *const names[] = {"MarianTokenizer", HS__JAPANESE};
    const char *class = json_string_value(json_object_get(d->config, "tokenizer_class"));
    bool is = !class && files->source_sentencepiece.data && files->target_sentencepiece.data;
    for (size_t i = 0; class && i < sizeof names / sizeof *names; i++)
        is |= strncmp(class, names[i], strlen(names[i])) == 0;
    return is;
}

/* Refuses fix_mistral_regex where transformers obeys it: in folders of Mistral's models that version 4 of
 * transformers saved. It then replaces the expression of tokenizer.json. */
static hs_status refuse_other_expression(const hs_tokenizer_files *files, const hs__description *d,
                                         hs_error *err)
{
    static const char key[] = "fix_mistral_regex";
    static const char *const types[] = {"mistral", "mistral3", "voxtral", "ministral", "pixtral", NULL};
    enum { LARGE_VOCABULARY = 100000 };
    bool is_set = false;
    json_t *config = NULL;
    hs_status st = hs__option_bool(d->config, HS__TOKENIZER_CONFIG, key, &is_set, err);
    if (st || !is_set || !files->config.data || d->vocab_size <= LARGE_VOCABULARY)
        return st;
    st = hs__json_parse(&files->config, "config.json", &config, err);
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const char *version = json_string_value(json_object_get(config, "transformers_version"));
    if (!st && type && is_one_of(type, types) && (!version || atoi(version) < 5))
        st = hs_fail(err, HS_BAD_MODEL,
                     HS__TOKENIZER_CONFIG
                     ": %s is not supported: it replaces a part of " HS__TOKENIZER_JSON
                     ". Save the tokenizer again with transformers 5, and take out the key",
                     key);
    json_decref(config);
    return st;
}

/* Reads the description. The caller finishes *ret, even after an error. */
static hs_status description_read(const hs_tokenizer_files *files, size_t vocab_size, hs__description *ret,
                                  hs_error *err)
{
    *ret = (hs__description){.vocab_file = HS__TOKENIZER_JSON, .vocab_size = vocab_size};
    hs_status st = read_documents(files, ret, err);
    const bool complete = !st && files->tokenizer_json.data && !is_older(files, ret);
    if (!st && complete)
        st = hs__json_parse(&files->tokenizer_json, HS__TOKENIZER_JSON, &ret->json, err);
    else if (!st)
        st = hs__older_files_read(files, ret, err);
    if (!st && complete)
        st = check_class(ret, err);
    if (!st)
        st = refuse_other_expression(files, ret, err);
    if (!st)
        st = apply_config(ret, err);
    if (!st)
        st = list_more(ret, err);
    return st ? st : read_added(ret, err);
}

static void description_finish(hs__description *d)
{
    free(d->entries.items);
    free(d->added.items);
    json_decref(d->json);
    json_decref(d->config);
    json_decref(d->added_json);
    json_decref(d->added_by);
    json_decref(d->more);
}

/* ---- create ---- */

hs_status hs__tokenizer_create(const hs_tokenizer_files *files, size_t vocab_size,
                               hs_tokenizer **ret_tokenizer, hs_error *err)
{
    hs__description description;
    hs_tokenizer *tokenizer = NULL;
    hs_status st = description_read(files, vocab_size, &description, err);
    if (st)
        goto out;
    tokenizer = calloc(1, sizeof *tokenizer);
    st = tokenizer ? hs__tokenizer_build(&description, tokenizer, err)
                   : hs_fail(err, HS_NO_MEMORY, "out of memory");
    if (st)
        goto out;
    *ret_tokenizer = tokenizer;
    tokenizer = NULL;
out:
    hs__tokenizer_destroy(tokenizer);
    description_finish(&description);
    return st;
}
