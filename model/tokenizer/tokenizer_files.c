/* tokenizer_files.c - vocab.txt, tokenizer.json and tokenizer_config.json, parsed as hostile.
 *
 * Like HuggingFace's BertTokenizerFast: tokenizer.json, when there is one, has the vocabulary and the
 * pipeline; the three options that a BERT's tokenizer_config.json may name (do_lower_case, strip_accents,
 * tokenize_chinese_chars) override it. A vocab.txt means a tokenizer.json of BERT's parts, which is made up
 * here, so that there is one way from files to parts. */
#include "model/files/json.h"
#include "model/tokenizer/part_options.h"
#include "model/tokenizer/tokenizer_internal.h"

#include <stdio.h>
#include <stdlib.h>

#define FILE_BYTES_MAX (64u << 20)
#define JSON_NAME      "tokenizer.json"
#define CONFIG_NAME    "tokenizer_config.json"

/* ---- added tokens ---- */

/* Room for n_more added tokens. */
static hs_status reserve_added(hs__added_list *list, size_t n_more, hs_error *err)
{
    hs__added_token *items = realloc(list->items, (list->n + n_more + 1) * sizeof *items);
    if (!items)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    list->items = items;
    return HS_OK;
}

/* {"content": "[PAD]", "special": true, ...} */
static hs_status add_token(hs__added_list *list, const json_t *token, int32_t id, hs_error *err)
{
    const char *text = json_string_value(json_object_get(token, "content"));
    if (!text || !text[0])
        return hs_fail(err, HS_BAD_MODEL, "%s: an added token has no 'content'", list->file);
    const hs_status st = hs__token_check(text, strlen(text), list->file, err);
    if (st)
        return st;
    list->items[list->n++] = (hs__added_token){
        .entry = {text, (uint32_t)strlen(text), id},
        .special = json_is_true(json_object_get(token, "special")),
        .normalized = json_is_true(json_object_get(token, "normalized")),
        .single_word = json_is_true(json_object_get(token, "single_word")),
        .lstrip = json_is_true(json_object_get(token, "lstrip")),
        .rstrip = json_is_true(json_object_get(token, "rstrip")),
    };
    return HS_OK;
}

/* tokenizer.json: [{"id": 0, "content": "[PAD]", ...}] */
static hs_status read_added_tokens(hs__tokenizer_files *files, hs_error *err)
{
    const json_t *list = json_object_get(files->json, "added_tokens");
    if (list && !json_is_array(list))
        return hs_fail(err, HS_BAD_MODEL, JSON_NAME ": added_tokens must be an array");
    files->added.file = JSON_NAME;
    hs_status st = reserve_added(&files->added, json_array_size(list), err);
    for (size_t i = 0; !st && i < json_array_size(list); i++) {
        const json_t *token = json_array_get(list, i);
        int32_t id = 0;
        const char *text = json_string_value(json_object_get(token, "content"));
        st = hs__token_id_read(json_object_get(token, "id"), "added_tokens", text, files->vocab_size, &id,
                               err);
        if (!st)
            st = add_token(&files->added, token, id, err);
    }
    return st;
}

/* tokenizer_config.json: {"0": {"content": "[PAD]", ...}} */
static hs_status read_added_decoder(hs__tokenizer_files *files, hs_error *err)
{
    json_t *decoder = json_object_get(files->config, "added_tokens_decoder");
    hs_status st = reserve_added(&files->added, json_object_size(decoder), err);
    const char *key;
    json_t *token;
    json_object_foreach(decoder, key, token)
    {
        char *end = NULL;
        const long long id = strtoll(key, &end, 10);
        if (!st && (end == key || *end || id < 0 || (size_t)id >= files->vocab_size))
            st = hs_fail(err, HS_BAD_MODEL,
                         CONFIG_NAME ": added_tokens_decoder: '%.64s' is not an id from 0 to %zu", key,
                         files->vocab_size - 1);
        if (!st)
            st = add_token(&files->added, token, (int32_t)id, err);
        if (st)
            return st;
    }
    return st;
}

static void add_special(hs__added_list *list, const char *text)
{
    if (text && text[0] && strlen(text) <= HS__TOKEN_BYTES_MAX)
        list->items[list->n++] =
            (hs__added_token){.entry = {text, (uint32_t)strlen(text), -1}, .special = true};
}

/* ---- tokenizer_config.json ---- */

/* Of the known classes, those behind BERT's are whatever tokenizer.json says, and only that (*ret_generic).
 */
static hs_status check_class(const hs__tokenizer_files *files, bool has_json, bool *ret_generic,
                             hs_error *err)
{
    static const char *const known[] = {
        "BertTokenizer",      "BertTokenizerFast",      "DistilBertTokenizer",     "DistilBertTokenizerFast",
        "ElectraTokenizer",   "ElectraTokenizerFast",   "PreTrainedTokenizerFast", "TokenizersBackend",
        "RobertaTokenizer",   "RobertaTokenizerFast",   "XLMRobertaTokenizer",     "XLMRobertaTokenizerFast",
        "CamembertTokenizer", "CamembertTokenizerFast", "AlbertTokenizer",         "AlbertTokenizerFast",
        "DebertaV2Tokenizer", "DebertaV2TokenizerFast", "MPNetTokenizer",          "MPNetTokenizerFast"};
    const size_t n_bert = 6;
    const char *class = NULL;
    *ret_generic = false;
    const hs_status st = hs__option_text(files->config, CONFIG_NAME, "tokenizer_class", &class, err);
    if (st || !class)
        return st;
    for (size_t i = 0; i < (has_json ? sizeof known / sizeof *known : n_bert); i++) {
        *ret_generic = i >= n_bert;
        if (strcmp(class, known[i]) == 0)
            return HS_OK;
    }
    return hs_fail(err, HS_BAD_MODEL, CONFIG_NAME ": tokenizer_class '%.64s' is not supported", class);
}

/* A member of the normalizer's object, so that the normalizer reads it as its own; not if it is absent. */
static hs_status override(json_t *normalizer, const char *key, const json_t *config, const char *config_key,
                          hs_error *err)
{
    bool value = false;
    const hs_status st = hs__option_bool(config, CONFIG_NAME, config_key, &value, err);
    const json_t *given = json_object_get(config, config_key);
    if (st || !json_is_boolean(given) || !json_is_object(normalizer))
        return st;
    if (json_object_set_new(normalizer, key, json_boolean(value)))
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    return HS_OK;
}

static hs_status override_normalizer(const hs__tokenizer_files *files, hs_error *err)
{
    json_t *normalizer = json_object_get(files->json, "normalizer");
    hs_status st = override(normalizer, "lowercase", files->config, "do_lower_case", err);
    /* Accents follow the case unless they are named. */
    if (!st && json_is_boolean(json_object_get(files->config, "do_lower_case")))
        json_object_del(normalizer, "strip_accents");
    if (!st)
        st = override(normalizer, "strip_accents", files->config, "strip_accents", err);
    if (!st)
        st = override(normalizer, "handle_chinese_chars", files->config, "tokenize_chinese_chars", err);
    return st;
}

static hs_status read_config(hs__tokenizer_files *files, bool has_json, hs_error *err)
{
    bool generic;
    hs_status st = check_class(files, has_json, &generic, err);
    if (!st && !generic)
        st = override_normalizer(files, err);
    if (!st)
        st = hs__option_text(files->config, CONFIG_NAME, "pad_token", &files->pad, err);
    return st ? st : hs__option_text(files->config, CONFIG_NAME, "mask_token", &files->mask, err);
}

/* ---- vocab.txt ---- */

/* The end of the line at `at`: LF, CR or CRLF, as Python's text files have them. */
static const char *line_end(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    const char *stop = newline ? newline : end;
    const char *carriage = memchr(at, '\r', (size_t)(stop - at));
    return carriage ? carriage : stop;
}

static hs_status read_lines(const hs_bytes *file, hs__tokenizer_files *files, hs_error *err)
{
    hs__entries *entries = &files->entries;
    const char *at = file->data;
    const char *end = at + file->size;
    entries->items = calloc(files->vocab_size, sizeof *entries->items);
    if (!entries->items)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    for (size_t line = 1; at < end; line++) {
        const char *stop = line_end(at, end);
        char where[64];
        snprintf(where, sizeof where, "vocab.txt, line %zu", line);
        const hs_status st = hs__token_check(at, (size_t)(stop - at), where, err);
        if (st)
            return st;
        if (entries->n < files->vocab_size)
            entries->items[entries->n++] = (hs__entry){at, (uint32_t)(stop - at), (int32_t)(line - 1)};
        else if (stop > at)
            return hs_fail(err, HS_BAD_MODEL, "vocab.txt: more tokens than config.json's vocab_size, %zu",
                           files->vocab_size);
        at = stop < end && *stop == '\r' && stop + 1 < end && stop[1] == '\n' ? stop + 2 : stop + 1;
    }
    return HS_OK;
}

/* The special tokens of a BERT's tokenizer_config.json, or their usual names. */
static hs_status read_names(const json_t *config, const char *ret_names[3], hs_error *err)
{
    static const char *const keys[] = {"cls_token", "sep_token", "unk_token"};
    static const char *const usual[] = {"[CLS]", "[SEP]", "[UNK]"};
    hs_status st = HS_OK;
    for (size_t i = 0; !st && i < 3; i++) {
        ret_names[i] = usual[i];
        st = hs__option_text(config, CONFIG_NAME, keys[i], &ret_names[i], err);
    }
    return st;
}

/* Without tokenizer.json the special tokens are added tokens, those that the vocabulary has. */
static hs_status add_special_tokens(hs__tokenizer_files *files, const char *const names[3], hs_error *err)
{
    files->added.file = CONFIG_NAME;
    hs_status st = read_added_decoder(files, err);
    const json_t *more = json_object_get(files->config, "additional_special_tokens");
    if (!st)
        st = reserve_added(&files->added, 5 + json_array_size(more), err);
    if (st)
        return st;
    const char *const texts[] = {names[0], names[1], files->pad ? files->pad : "[PAD]", names[2],
                                 files->mask ? files->mask : "[MASK]"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        add_special(&files->added, texts[i]);
    for (size_t i = 0; i < json_array_size(more); i++)
        add_special(&files->added, json_string_value(json_array_get(more, i)));
    return HS_OK;
}

static hs_status read_vocab_txt(const hs_bytes *vocab, hs__tokenizer_files *files, hs_error *err)
{
    const char *names[3];
    hs_status st = read_lines(vocab, files, err);
    if (!st)
        st = read_names(files->config, names, err);
    if (st)
        return st;
    files->vocab_file = "vocab.txt";
    files->json = json_pack("{s:{s:s}, s:{s:s}, s:{s:s, s:s}, s:{s:s, s:[s, i], s:[s, i]}}", "normalizer",
                            "type", "BertNormalizer", "pre_tokenizer", "type", "BertPreTokenizer", "model",
                            "type", "WordPiece", "unk_token", names[2], "post_processor", "type",
                            "BertProcessing", "cls", names[0], 0, "sep", names[1], 0);
    if (!files->json)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    st = read_config(files, false, err);
    return st ? st : add_special_tokens(files, names, err);
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
        if (files[i].bytes->size > FILE_BYTES_MAX)
            return hs_fail(err, HS_BAD_MODEL, "%s has %zu bytes, more than %u", files[i].name,
                           files[i].bytes->size, FILE_BYTES_MAX);
    if (!vocab->data && !tokenizer_json->data)
        return hs_fail(err, HS_BAD_MODEL, "there is neither vocab.txt nor " JSON_NAME);
    return HS_OK;
}

hs_status hs__tokenizer_files_read(const hs_bytes *vocab, const hs_bytes *tokenizer_json,
                                   const hs_bytes *tokenizer_config, size_t vocab_size,
                                   hs__tokenizer_files *ret_files, hs_error *err)
{
    *ret_files = (hs__tokenizer_files){.vocab_file = JSON_NAME, .vocab_size = vocab_size};
    hs_status st = check_sizes(vocab, tokenizer_json, tokenizer_config, err);
    if (!st && tokenizer_config->data)
        st = hs__json_parse(tokenizer_config, CONFIG_NAME, &ret_files->config, err);
    if (!st && !tokenizer_json->data)
        return read_vocab_txt(vocab, ret_files, err);
    if (!st)
        st = hs__json_parse(tokenizer_json, JSON_NAME, &ret_files->json, err);
    if (!st)
        st = read_config(ret_files, true, err);
    return st ? st : read_added_tokens(ret_files, err);
}

void hs__tokenizer_files_finish(hs__tokenizer_files *files)
{
    free(files->entries.items);
    free(files->added.items);
    json_decref(files->json);
    json_decref(files->config);
}
