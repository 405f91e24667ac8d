/* older_byte_pairs.c - reads vocab.json and merges.txt, for classes of tokenizers whose pipeline these files
 * do not say. */
#include "model/tokenizer/tokenizer_internal.h"

#include <stdio.h>

static hs_status no_memory(hs_error *err)
{
    return hs_fail(err, HS_NO_MEMORY, "out of memory");
}

/* Reads merges.txt: one merge per line, "a b". The first line may hold the version. */
static hs_status read_merges(const hs_bytes *file, json_t **ret_merges, hs_error *err)
{
    static const char version[] = "#version";
    const char *at = file->data;
    const char *end = at + file->size;
    json_t *merges = *ret_merges = json_array();
    bool ok = merges != NULL;
    for (size_t line = 1; ok && at < end; line++) {
        const char *stop = hs__line_end(at, end);
        const size_t n = (size_t)(stop - at);
        const bool is_version = n >= sizeof version - 1 && memcmp(at, version, sizeof version - 1) == 0;
        char where[64];
        snprintf(where, sizeof where, "merges.txt, line %zu", line);
        const hs_status st = hs__token_check(at, n, where, err);
        if (st)
            return st;
        if (n && !is_version)
            ok = !json_array_append_new(merges, json_stringn(at, n));
        at = hs__line_next(stop, end);
    }
    return ok ? HS_OK : no_memory(err);
}

/* The expression of Qwen2Tokenizer in transformers. */
#define QWEN2                                                                                                \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"      \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Returns the normalizer and pre-tokenizer of a kind, or NULL if memory is short. space: a text begins with a
 * space, which Qwen2's class alone puts into a list. */
static json_t *pipeline_of(hs__byte_pairs kind, bool space)
{
    switch (kind) {
    case HS__QWEN2_BYTE_PAIRS:
        return json_pack("{s:{s:s}, s:{s:s, s:[{s:s, s:{s:s}, s:s}, {s:s, s:b, s:b}]}}", "normalizer", "type",
                         "NFC", "pre_tokenizer", "type", "Sequence", "pretokenizers", "type", "Split",
                         "pattern", "Regex", QWEN2, "behavior", "Isolated", "type", "ByteLevel",
                         "add_prefix_space", space, "use_regex", 0);
    case HS__WORD_PAIRS:
        return json_pack("{s:{s:s}, s:{s:s}}", "normalizer", "type", "BertNormalizer", "pre_tokenizer",
                         "type", "BertPreTokenizer");
    case HS__NFC_BYTE_PAIRS:
        return json_pack("{s:{s:s}, s:{s:s, s:b}}", "normalizer", "type", "NFC", "pre_tokenizer", "type",
                         "ByteLevel", "add_prefix_space", space);
    case HS__BYTE_PAIRS:
        break;
    }
    return json_pack("{s:n, s:{s:s, s:b}}", "normalizer", "pre_tokenizer", "type", "ByteLevel",
                     "add_prefix_space", space);
}

/* Adds the model. It takes the references to vocab and merges. */
static bool put_model(json_t *json, hs__byte_pairs kind, const char *unknown, json_t *vocab, json_t *merges)
{
    json_t *model = json_pack("{s:s, s:o, s:o}", "type", "BPE", "vocab", vocab, "merges", merges);
    if (model && kind == HS__WORD_PAIRS &&
        (json_object_set_new(model, "unk_token", json_string(unknown)) ||
         json_object_set_new(model, "end_of_word_suffix", json_string("</w>")))) {
        json_decref(model);
        return false;
    }
    return !json_object_set_new(json, "model", model);
}

hs_status hs__byte_pairs_read(hs__byte_pairs kind, const char *unknown, const hs_tokenizer_files *files,
                              hs__description *d, hs_error *err)
{
    json_t *vocab = NULL;
    json_t *merges = NULL;
    bool space = false;
    d->vocab_file = "vocab.json";
    d->keeps_normalizer = kind == HS__WORD_PAIRS;
    hs_status st = hs__option_bool(d->config, HS__TOKENIZER_CONFIG, "add_prefix_space", &space, err);
    if (!st)
        st = hs__special_name(d, "unk_token", unknown, &unknown, err);
    if (!st)
        st = hs__json_parse(&files->vocab_json, "vocab.json", &vocab, err);
    if (!st)
        st = read_merges(&files->merges_txt, &merges, err);
    if (!st) {
        d->json = pipeline_of(kind, space);
        st = d->json && put_model(d->json, kind, unknown, json_incref(vocab), json_incref(merges))
                 ? HS_OK
                 : no_memory(err);
    }
    json_decref(vocab);
    json_decref(merges);
    return st;
}
