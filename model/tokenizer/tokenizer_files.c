/* tokenizer_files.c - reads the description of a tokenizer from untrusted files.
 *
 * As in HuggingFace, tokenizer.json has the vocabulary and the pipeline if it is present. Older files are
 * converted to the same form, so parts are created in one way only. Options in tokenizer_config.json override
 * both: do_lower_case, strip_accents and tokenize_chinese_chars of BERT, add_prefix_space and trim_offsets of
 * byte-level BPE. */
#include "model/files/json.h"
#include "model/tokenizer/part_options.h"
#include "model/tokenizer/tokenizer_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
static hs_status check_class(const hs__description *d, bool *ret_generic, hs_error *err)
{
    static const char *const bert[] = {"BertTokenizer",       "DistilBertTokenizer", "ElectraTokenizer",
                                       "MobileBertTokenizer", "LayoutLMTokenizer",   NULL};
    static const char *const python[] = {
        "BertJapaneseTokenizer",    "BertTokenizerLegacy", "BertweetTokenizer", "BartphoTokenizer",
        "BertGenerationTokenizer",  "BioGptTokenizer",     "ByT5Tokenizer",     "CanineTokenizer",
        "CpmAntTokenizer",          "CTRLTokenizer",       "EsmTokenizer",      "FlaubertTokenizer",
        "GPTNeoXJapaneseTokenizer", "GPTSw3Tokenizer",     "PhobertTokenizer",  "ProphetNetTokenizer",
        "RoCBertTokenizer",         "TapasTokenizer",      "XLMTokenizer",      NULL};
    const char *class = NULL;
    char name[64];
    *ret_generic = false;
    const hs_status st = hs__option_text(d->config, HS__TOKENIZER_CONFIG, "tokenizer_class", &class, err);
    if (st || !class)
        return st;
    snprintf(name, sizeof name, "%s", class);
    if (hs_ends_with(name, "Fast"))
        name[strlen(name) - strlen("Fast")] = '\0';
    *ret_generic = !is_one_of(name, bert);
    if (!is_one_of(name, python))
        return HS_OK;
    return hs_fail(err, HS_BAD_MODEL,
                   HS__TOKENIZER_CONFIG
                   ": tokenizer_class '%s' is not supported: transformers has it in Python, "
                   "and its tokens may be others than those of " HS__TOKENIZER_JSON,
                   class);
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

/* Applies the config to the pipeline. generic: the class takes its BERT normalizer from tokenizer.json
 * unchanged. */
static hs_status apply_config(hs__description *d, bool generic, hs_error *err)
{
    hs_status st = generic ? HS_OK : override_bert(d, err);
    if (!st)
        st = override_byte_level(d, err);
    if (!st)
        st = hs__special_name(d, "pad_token", d->names.pad, &d->pad, err);
    return st ? st : hs__special_name(d, "mask_token", d->names.mask, &d->mask, err);
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

hs_status hs__description_read(const hs_tokenizer_files *files, size_t vocab_size, hs__description *ret,
                               hs_error *err)
{
    *ret = (hs__description){.vocab_file = HS__TOKENIZER_JSON, .vocab_size = vocab_size};
    bool generic = false;
    hs_status st = read_documents(files, ret, err);
    if (!st && files->tokenizer_json.data)
        st = hs__json_parse(&files->tokenizer_json, HS__TOKENIZER_JSON, &ret->json, err);
    else if (!st)
        st = hs__older_files_read(files, ret, err);
    if (!st && files->tokenizer_json.data)
        st = check_class(ret, &generic, err);
    if (!st)
        st = apply_config(ret, generic, err);
    return st ? st : hs__added_files_read(ret, err);
}

void hs__description_finish(hs__description *d)
{
    free(d->entries.items);
    free(d->added.items);
    json_decref(d->json);
    json_decref(d->config);
    json_decref(d->added_json);
    json_decref(d->added_by);
}
