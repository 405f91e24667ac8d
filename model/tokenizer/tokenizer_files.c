/* tokenizer_files.c - vocab.txt, tokenizer.json and tokenizer_config.json, parsed as hostile.
 *
 * Like HuggingFace's BertTokenizerFast: tokenizer.json, when there is one, has the vocabulary and the
 * pipeline; the three options that a BERT's tokenizer_config.json may name (do_lower_case, strip_accents,
 * tokenize_chinese_chars) override it. Whatever would make another pipeline than BERT's is refused. */
#include "model/files/json.h"
#include "model/tokenizer/tokenizer_internal.h"
#include "model/utf8.h"

#include <stdlib.h>
#include <string.h>

#define JSON_NAME   "tokenizer.json"
#define CONFIG_NAME "tokenizer_config.json"

/* ---- JSON ---- */

/* A boolean member; absent or null leaves *value alone. */
static hs_status read_bool(const json_t *object, const char *file, const char *key, bool *value,
                           bool *ret_set, hs_error *err)
{
    const json_t *member = json_object_get(object, key);
    *ret_set = json_is_boolean(member);
    if (!member || json_is_null(member))
        return HS_OK;
    if (!json_is_boolean(member))
        return hs_fail(err, HS_BAD_MODEL, "%s: '%s' must be true or false", file, key);
    *value = json_is_true(member);
    return HS_OK;
}

/* A string member, or the "content" of an object; absent or null leaves *value alone. */
static hs_status read_text(const json_t *object, const char *file, const char *key, const char **value,
                           hs_error *err)
{
    const json_t *member = json_object_get(object, key);
    if (json_is_object(member))
        member = json_object_get(member, "content");
    if (!member || json_is_null(member))
        return HS_OK;
    if (!json_is_string(member))
        return hs_fail(err, HS_BAD_MODEL, "%s: '%s' must be a string", file, key);
    *value = json_string_value(member);
    return HS_OK;
}

/* The member must be an object whose "type" is the one given. */
static hs_status expect_type(const json_t *object, const char *key, const char *type, hs_error *err)
{
    const char *actual = json_string_value(json_object_get(json_object_get(object, key), "type"));
    if (!actual || strcmp(actual, type) != 0)
        return hs_fail(err, HS_BAD_MODEL, JSON_NAME ": %s is '%.64s'; only %s is supported", key,
                       actual ? actual : "none", type);
    return HS_OK;
}

/* ---- the vocabulary ---- */

static hs_status check_token(const char *text, size_t n_bytes, const char *where, hs_error *err)
{
    if (n_bytes > HS__TOKEN_BYTES_MAX)
        return hs_fail(err, HS_BAD_MODEL, "%s: a token of %zu bytes, more than %d", where, n_bytes,
                       HS__TOKEN_BYTES_MAX);
    if (memchr(text, '\0', n_bytes))
        return hs_fail(err, HS_BAD_MODEL, "%s: a token contains NUL", where);
    if (hs_utf8_valid(text, n_bytes) < n_bytes)
        return hs_fail(err, HS_BAD_MODEL, "%s: a token is not valid UTF-8", where);
    return HS_OK;
}

/* The end of the line at `at`: LF, CR or CRLF, as Python's text files have them. */
static const char *line_end(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    const char *stop = newline ? newline : end;
    const char *carriage = memchr(at, '\r', (size_t)(stop - at));
    return carriage ? carriage : stop;
}

static hs_status read_vocab_txt(const hs_bytes *file, hs__tokenizer_spec *spec, hs_error *err)
{
    const char *at = file->data;
    const char *end = at + file->size;
    spec->vocab = calloc(spec->vocab_size, sizeof *spec->vocab);
    if (!spec->vocab)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    for (size_t line = 1; at < end; line++) {
        const char *stop = line_end(at, end);
        char where[64];
        snprintf(where, sizeof where, "vocab.txt, line %zu", line);
        const hs_status st = check_token(at, (size_t)(stop - at), where, err);
        if (st)
            return st;
        if (spec->n_vocab < spec->vocab_size)
            spec->vocab[spec->n_vocab++] = (hs__token){at, (uint32_t)(stop - at), (int32_t)(line - 1)};
        else if (stop > at)
            return hs_fail(err, HS_BAD_MODEL, "vocab.txt: more tokens than config.json's vocab_size, %zu",
                           spec->vocab_size);
        at = stop < end && *stop == '\r' && stop + 1 < end && stop[1] == '\n' ? stop + 2 : stop + 1;
    }
    return HS_OK;
}

/* Reads an id below vocab_size; key and text say whose it is. */
static hs_status read_id(const json_t *json, const char *key, const char *text, size_t vocab_size,
                         int32_t *ret_id, hs_error *err)
{
    const json_int_t id = json_is_integer(json) ? json_integer_value(json) : -1;
    if (id < 0 || (json_int_t)vocab_size <= id)
        return hs_fail(err, HS_BAD_MODEL,
                       JSON_NAME ": %s: the id of '%.64s' must be below config.json's vocab_size, %zu", key,
                       text ? text : "", vocab_size);
    *ret_id = (int32_t)id;
    return HS_OK;
}

static hs_status read_vocab_json(json_t *vocab, hs__tokenizer_spec *spec, hs_error *err)
{
    if (!json_is_object(vocab))
        return hs_fail(err, HS_BAD_MODEL, JSON_NAME ": model.vocab must be an object");
    spec->vocab = calloc(json_object_size(vocab) + 1, sizeof *spec->vocab);
    bool *taken = calloc(spec->vocab_size, sizeof *taken);
    hs_status st = HS_OK;
    if (!spec->vocab || !taken) {
        st = hs_fail(err, HS_NO_MEMORY, "out of memory");
        goto out;
    }
    const char *key;
    json_t *value;
    json_object_foreach(vocab, key, value)
    {
        int32_t id = 0;
        st = read_id(value, "model.vocab", key, spec->vocab_size, &id, err);
        if (!st)
            st = check_token(key, strlen(key), JSON_NAME, err);
        if (!st && taken[id])
            st = hs_fail(err, HS_BAD_MODEL, JSON_NAME ": model.vocab has id %d twice", id);
        if (st)
            goto out;
        taken[id] = true;
        spec->vocab[spec->n_vocab++] = (hs__token){key, (uint32_t)strlen(key), id};
    }
out:
    free(taken);
    return st;
}

/* ---- added tokens ---- */

/* Room for n_more added tokens. */
static hs_status reserve_added(hs__tokenizer_spec *spec, size_t n_more, hs_error *err)
{
    hs__added_token *added = realloc(spec->added, (spec->n_added + n_more + 1) * sizeof *added);
    if (!added)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    spec->added = added;
    return HS_OK;
}

/* {"content": "[PAD]", "special": true, ...} */
static hs_status add_token(hs__tokenizer_spec *spec, const char *file, const json_t *entry, int32_t id,
                           hs_error *err)
{
    const char *text = json_string_value(json_object_get(entry, "content"));
    if (!text || !text[0])
        return hs_fail(err, HS_BAD_MODEL, "%s: an added token has no 'content'", file);
    static const char *const unsupported[] = {"single_word", "lstrip", "rstrip"};
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        if (json_is_true(json_object_get(entry, unsupported[i])))
            return hs_fail(err, HS_BAD_MODEL, "%s: the added token '%.64s' has '%s', which is not supported",
                           file, text, unsupported[i]);
    const hs_status st = check_token(text, strlen(text), file, err);
    if (st)
        return st;
    spec->added[spec->n_added++] = (hs__added_token){
        .token = {text, (uint32_t)strlen(text), id},
        .special = json_is_true(json_object_get(entry, "special")),
        .normalized = json_is_true(json_object_get(entry, "normalized")),
    };
    return HS_OK;
}

/* tokenizer.json: [{"id": 0, "content": "[PAD]", ...}] */
static hs_status read_added_tokens(hs__tokenizer_spec *spec, hs_error *err)
{
    const json_t *list = json_object_get(spec->json, "added_tokens");
    if (list && !json_is_array(list))
        return hs_fail(err, HS_BAD_MODEL, JSON_NAME ": added_tokens must be an array");
    hs_status st = reserve_added(spec, json_array_size(list), err);
    for (size_t i = 0; !st && i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        int32_t id = 0;
        const char *text = json_string_value(json_object_get(entry, "content"));
        st = read_id(json_object_get(entry, "id"), "added_tokens", text, spec->vocab_size, &id, err);
        if (!st)
            st = add_token(spec, JSON_NAME, entry, id, err);
    }
    return st;
}

/* tokenizer_config.json: {"0": {"content": "[PAD]", ...}} */
static hs_status read_added_decoder(hs__tokenizer_spec *spec, hs_error *err)
{
    json_t *decoder = json_object_get(spec->config, "added_tokens_decoder");
    hs_status st = reserve_added(spec, json_object_size(decoder), err);
    const char *key;
    json_t *entry;
    json_object_foreach(decoder, key, entry)
    {
        char *end = NULL;
        const long long id = strtoll(key, &end, 10);
        if (!st && (end == key || *end || id < 0 || (size_t)id >= spec->vocab_size))
            st = hs_fail(err, HS_BAD_MODEL,
                         CONFIG_NAME ": added_tokens_decoder: '%.64s' is not an id from 0 to %zu", key,
                         spec->vocab_size - 1);
        if (!st)
            st = add_token(spec, CONFIG_NAME, entry, (int32_t)id, err);
        if (st)
            return st;
    }
    return st;
}

static void add_special(hs__tokenizer_spec *spec, const char *text)
{
    if (text && text[0] && strlen(text) <= HS__TOKEN_BYTES_MAX)
        spec->added[spec->n_added++] =
            (hs__added_token){.token = {text, (uint32_t)strlen(text), -1}, .special = true};
}

/* Without tokenizer.json the special tokens are added tokens, those that the vocabulary has. */
static hs_status add_special_tokens(hs__tokenizer_spec *spec, hs_error *err)
{
    hs_status st = read_added_decoder(spec, err);
    const json_t *more = json_object_get(spec->config, "additional_special_tokens");
    if (!st)
        st = reserve_added(spec, 5 + json_array_size(more), err);
    if (st)
        return st;
    const char *const texts[] = {spec->cls, spec->sep, spec->pad, spec->unk, spec->mask};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        add_special(spec, texts[i]);
    for (size_t i = 0; i < json_array_size(more); i++)
        add_special(spec, json_string_value(json_array_get(more, i)));
    return HS_OK;
}

/* ---- tokenizer.json ---- */

static hs_status read_model(hs__tokenizer_spec *spec, hs_error *err)
{
    const json_t *model = json_object_get(spec->json, "model");
    const char *type = json_string_value(json_object_get(model, "type"));
    /* Old files have no type; then this key tells WordPiece from the others. */
    if (type ? strcmp(type, "WordPiece") != 0 : !json_object_get(model, "max_input_chars_per_word"))
        return hs_fail(err, HS_BAD_MODEL, JSON_NAME ": model.type is '%.64s'; only WordPiece is supported",
                       type ? type : "none");
    const json_t *word_max = json_object_get(model, "max_input_chars_per_word");
    if (word_max) {
        const json_int_t value = json_is_integer(word_max) ? json_integer_value(word_max) : 0;
        if (value < 1 || value > HS__WORD_CHARS_MAX)
            return hs_fail(err, HS_BAD_MODEL, JSON_NAME ": model.max_input_chars_per_word must be 1 to %d",
                           HS__WORD_CHARS_MAX);
        spec->word_chars_max = (size_t)value;
    }
    hs_status st = read_text(model, JSON_NAME, "unk_token", &spec->unk, err);
    if (!st)
        st = read_text(model, JSON_NAME, "continuing_subword_prefix", &spec->prefix, err);
    return st ? st : read_vocab_json(json_object_get(model, "vocab"), spec, err);
}

static hs_status read_normalizer(hs__tokenizer_spec *spec, hs_error *err)
{
    const json_t *normalizer = json_object_get(spec->json, "normalizer");
    bool set;
    bool strip_set = false;
    hs_status st = expect_type(spec->json, "normalizer", "BertNormalizer", err);
    if (!st)
        st = read_bool(normalizer, JSON_NAME, "clean_text", &spec->clean_text, &set, err);
    if (!st)
        st = read_bool(normalizer, JSON_NAME, "handle_chinese_chars", &spec->split_ideographs, &set, err);
    if (!st)
        st = read_bool(normalizer, JSON_NAME, "lowercase", &spec->lowercase, &set, err);
    if (!st)
        st = read_bool(normalizer, JSON_NAME, "strip_accents", &spec->strip_accents, &strip_set, err);
    if (!st && !strip_set)
        spec->strip_accents = spec->lowercase;
    return st;
}

/* One step of a template: {"SpecialToken": {"id": "[CLS]", "type_id": 0}} or {"Sequence": {"id": "A", ...}}.
 * With *text NULL, any special token will do and is told; otherwise it must be this one. */
static bool step_is(const json_t *step, const char *kind, const char **text, json_int_t type)
{
    const json_t *body = json_object_get(step, kind);
    const char *id = json_string_value(json_object_get(body, "id"));
    const json_t *type_id = json_object_get(body, "type_id");
    if (!id || !json_is_integer(type_id) || json_integer_value(type_id) != type)
        return false;
    if (!*text)
        *text = id;
    return strcmp(*text, id) == 0;
}

static hs_status read_template(const json_t *processor, hs__tokenizer_spec *spec, hs_error *err)
{
    const json_t *single = json_object_get(processor, "single");
    const json_t *pair = json_object_get(processor, "pair");
    const char *cls = NULL;
    const char *sep = NULL;
    const char *first = "A";
    const char *second = "B";
    const bool known = json_array_size(single) == 3 && json_array_size(pair) == 5 &&
                       step_is(json_array_get(single, 0), "SpecialToken", &cls, 0) &&
                       step_is(json_array_get(single, 1), "Sequence", &first, 0) &&
                       step_is(json_array_get(single, 2), "SpecialToken", &sep, 0) &&
                       step_is(json_array_get(pair, 0), "SpecialToken", &cls, 0) &&
                       step_is(json_array_get(pair, 1), "Sequence", &first, 0) &&
                       step_is(json_array_get(pair, 2), "SpecialToken", &sep, 0) &&
                       step_is(json_array_get(pair, 3), "Sequence", &second, 1) &&
                       step_is(json_array_get(pair, 4), "SpecialToken", &sep, 1);
    if (!known)
        return hs_fail(err, HS_BAD_MODEL,
                       JSON_NAME
                       ": post_processor: only '[CLS] A [SEP]' and '[CLS] A [SEP] B [SEP]' with types "
                       "0 0 0 and 0 0 0 1 1 are supported");
    spec->cls = cls;
    spec->sep = sep;
    return HS_OK;
}

static hs_status read_post_processor(hs__tokenizer_spec *spec, hs_error *err)
{
    const json_t *processor = json_object_get(spec->json, "post_processor");
    const char *type = json_string_value(json_object_get(processor, "type"));
    if (type && strcmp(type, "TemplateProcessing") == 0)
        return read_template(processor, spec, err);
    hs_status st = expect_type(spec->json, "post_processor", "BertProcessing", err);
    if (st)
        return st;
    /* "cls": ["[CLS]", 101] */
    const char *cls = json_string_value(json_array_get(json_object_get(processor, "cls"), 0));
    const char *sep = json_string_value(json_array_get(json_object_get(processor, "sep"), 0));
    if (!cls || !sep)
        return hs_fail(err, HS_BAD_MODEL, JSON_NAME ": post_processor needs 'cls' and 'sep'");
    spec->cls = cls;
    spec->sep = sep;
    return HS_OK;
}

static hs_status read_json(hs__tokenizer_spec *spec, hs_error *err)
{
    hs_status st = read_model(spec, err);
    if (!st)
        st = read_normalizer(spec, err);
    if (!st)
        st = expect_type(spec->json, "pre_tokenizer", "BertPreTokenizer", err);
    if (!st)
        st = read_post_processor(spec, err);
    return st ? st : read_added_tokens(spec, err);
}

/* ---- tokenizer_config.json ---- */

/* Of the known classes, the last two are whatever tokenizer.json says, and only that (*ret_generic). */
static hs_status check_class(const hs__tokenizer_spec *spec, bool *ret_generic, hs_error *err)
{
    static const char *const known[] = {"BertTokenizer",           "BertTokenizerFast",
                                        "DistilBertTokenizer",     "DistilBertTokenizerFast",
                                        "PreTrainedTokenizerFast", "TokenizersBackend"};
    const size_t n_bert = 4;
    const char *class = NULL;
    *ret_generic = false;
    const hs_status st = read_text(spec->config, CONFIG_NAME, "tokenizer_class", &class, err);
    if (st || !class)
        return st;
    for (size_t i = 0; i < (spec->json ? sizeof known / sizeof *known : n_bert); i++) {
        *ret_generic = i >= n_bert;
        if (strcmp(class, known[i]) == 0)
            return HS_OK;
    }
    return hs_fail(err, HS_BAD_MODEL, CONFIG_NAME ": tokenizer_class '%.64s' is not supported", class);
}

static hs_status read_options(hs__tokenizer_spec *spec, hs_error *err)
{
    bool set;
    hs_status st = read_bool(spec->config, CONFIG_NAME, "do_lower_case", &spec->lowercase, &set, err);
    if (!st && set)
        spec->strip_accents = spec->lowercase;
    if (!st)
        st = read_bool(spec->config, CONFIG_NAME, "strip_accents", &spec->strip_accents, &set, err);
    if (!st)
        st = read_bool(spec->config, CONFIG_NAME, "tokenize_chinese_chars", &spec->split_ideographs, &set,
                       err);
    return st;
}

static hs_status read_config(hs__tokenizer_spec *spec, hs_error *err)
{
    const struct {
        const char *key;
        const char **text;
    } names[] = {
        {"pad_token", &spec->pad},
        {"mask_token", &spec->mask},
        /* tokenizer.json has its own of these. */
        {"cls_token", &spec->cls},
        {"sep_token", &spec->sep},
        {"unk_token", &spec->unk},
    };
    bool generic;
    hs_status st = check_class(spec, &generic, err);
    if (!st && !generic)
        st = read_options(spec, err);
    for (size_t i = 0; !st && i < (spec->json ? 2 : 5); i++)
        st = read_text(spec->config, CONFIG_NAME, names[i].key, names[i].text, err);
    return st;
}

/* ---- all of it ---- */

static hs_status check_sizes(const hs_bytes *vocab, const hs_bytes *tokenizer_json,
                             const hs_bytes *tokenizer_config, hs_error *err)
{
    const struct {
        const hs_bytes *bytes;
        const char *name;
    } files[] = {{vocab, "vocab.txt"}, {tokenizer_json, JSON_NAME}, {tokenizer_config, CONFIG_NAME}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i].bytes->size > HS__TOKENIZER_BYTES_MAX)
            return hs_fail(err, HS_BAD_MODEL, "%s has %zu bytes, more than %u", files[i].name,
                           files[i].bytes->size, HS__TOKENIZER_BYTES_MAX);
    if (!vocab->data && !tokenizer_json->data)
        return hs_fail(err, HS_BAD_MODEL, "there is neither vocab.txt nor " JSON_NAME);
    return HS_OK;
}

hs_status hs__tokenizer_spec_read(const hs_bytes *vocab, const hs_bytes *tokenizer_json,
                                  const hs_bytes *tokenizer_config, size_t vocab_size,
                                  hs__tokenizer_spec *ret_spec, hs_error *err)
{
    *ret_spec = (hs__tokenizer_spec){
        .vocab_size = vocab_size,
        .prefix = "##",
        .cls = "[CLS]",
        .sep = "[SEP]",
        .pad = "[PAD]",
        .unk = "[UNK]",
        .mask = "[MASK]",
        .word_chars_max = 100,
        .clean_text = true,
        .split_ideographs = true,
        .strip_accents = true,
        .lowercase = true,
    };
    hs_status st = check_sizes(vocab, tokenizer_json, tokenizer_config, err);
    if (!st && tokenizer_json->data)
        st = hs__json_parse(tokenizer_json, JSON_NAME, &ret_spec->json, err);
    if (!st && tokenizer_config->data)
        st = hs__json_parse(tokenizer_config, CONFIG_NAME, &ret_spec->config, err);
    if (!st)
        st = ret_spec->json ? read_json(ret_spec, err) : read_vocab_txt(vocab, ret_spec, err);
    if (!st && ret_spec->config)
        st = read_config(ret_spec, err);
    if (!st && !ret_spec->json)
        st = add_special_tokens(ret_spec, err);
    return st;
}

void hs__tokenizer_spec_finish(hs__tokenizer_spec *spec)
{
    free(spec->vocab);
    free(spec->added);
    json_decref(spec->json);
    json_decref(spec->config);
}
