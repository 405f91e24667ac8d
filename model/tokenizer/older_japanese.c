/* older_japanese.c - makes the pipeline of BertJapaneseTokenizer from tokenizer_config.json:
 *
 *     word_tokenizer_type     MeCab's words, or BERT's ("basic")
 *     subword_tokenizer_type  their pieces: WordPiece or characters
 *
 * Every key that changes tokens is obeyed or refused. */
#include "model/tokenizer/tokenizer_internal.h"

#define KWARGS "mecab_kwargs"

typedef struct japanese {
    const char *words, *pieces;
    bool cuts_words, cuts_pieces, lowercase;
    bool normalizes;        /* NFKC before MeCab */
    const char *dictionary; /* NULL: that of MeCab's own settings */
} japanese;

/* Reads a flag, where null means no, as in Python. */
static hs_status read_flag(const json_t *object, const char *key, bool *ret, hs_error *err)
{
    if (json_is_null(json_object_get(object, key)))
        *ret = false;
    return hs__option_bool(object, HS__TOKENIZER_CONFIG, key, ret, err);
}

/* Reads mecab_kwargs. An option of MeCab could name any file of this machine. Without mecab_dic the
 * dictionary is ipadic: that of transformers before version 5, with which such models were trained. */
static hs_status read_mecab(const json_t *config, japanese *ret, hs_error *err)
{
    const json_t *options = json_object_get(config, KWARGS);
    const char *given = json_string_value(json_object_get(options, "mecab_option"));
    const char *key;
    json_t *value;
    if (options && !json_is_null(options) && !json_is_object(options))
        return hs_fail(err, HS_BAD_MODEL, HS__TOKENIZER_CONFIG ": " KWARGS " must be an object");
    json_object_foreach((json_t *)options, key, value)
    {
        if (strcmp(key, "normalize_text") != 0 && strcmp(key, "mecab_dic") != 0 &&
            strcmp(key, "mecab_option") != 0)
            return hs_fail(
                err, HS_BAD_MODEL,
                HS__TOKENIZER_CONFIG ": " KWARGS " has '%.64s'; supported: mecab_dic, normalize_text", key);
    }
    if ((given && *given) || json_is_true(json_object_get(options, "mecab_option")))
        return hs_fail(err, HS_BAD_MODEL,
                       HS__TOKENIZER_CONFIG
                       ": " KWARGS
                       ".mecab_option is not supported, because a model must not name files of this "
                       "machine. Take the key out, set mecab_dic to null, and name the dictionary in "
                       "/etc/mecabrc (dicdir)");
    ret->dictionary = json_is_null(json_object_get(options, "mecab_dic")) ? NULL : "ipadic";
    hs_status st = hs__option_text(options, HS__TOKENIZER_CONFIG, "mecab_dic", &ret->dictionary, err);
    return st ? st : read_flag(options, "normalize_text", &ret->normalizes, err);
}

static bool is_one_of(const char *value, const char *first, const char *second)
{
    return strcmp(value, first) == 0 || strcmp(value, second) == 0;
}

/* Refuses other kinds, and words that must not be split where that has an effect. */
static hs_status check(const json_t *config, const japanese *j, hs_error *err)
{
    const char *instead = "With --tokenizer DIR, a folder that holds vocab.txt alone, the model opens, and "
                          "--input-ids takes the ids that Python found";
    const bool splits = j->cuts_words && (j->lowercase || strcmp(j->words, "basic") == 0);
    if (j->cuts_words && !is_one_of(j->words, "basic", "mecab"))
        return hs_fail(err, HS_BAD_MODEL,
                       HS__TOKENIZER_CONFIG
                       ": word_tokenizer_type '%.64s' is not supported; supported: basic, mecab. %s",
                       j->words, instead);
    if (j->cuts_pieces && !is_one_of(j->pieces, "wordpiece", "character"))
        return hs_fail(
            err, HS_BAD_MODEL,
            HS__TOKENIZER_CONFIG
            ": subword_tokenizer_type '%.64s' is not supported; supported: wordpiece, character. %s",
            j->pieces, instead);
    if (splits && json_array_size(json_object_get(config, "never_split")))
        return hs_fail(err, HS_BAD_MODEL,
                       HS__TOKENIZER_CONFIG
                       ": never_split is not supported for this tokenizer_class; take the key out");
    return HS_OK;
}

static hs_status read_options(const json_t *config, japanese *ret, hs_error *err)
{
    static const char file[] = HS__TOKENIZER_CONFIG;
    *ret = (japanese){
        .words = "basic", .pieces = "wordpiece", .cuts_words = true, .cuts_pieces = true, .normalizes = true};
    hs_status st = hs__option_text(config, file, "word_tokenizer_type", &ret->words, err);
    if (!st)
        st = hs__option_text(config, file, "subword_tokenizer_type", &ret->pieces, err);
    if (!st)
        st = read_flag(config, "do_word_tokenize", &ret->cuts_words, err);
    if (!st)
        st = read_flag(config, "do_subword_tokenize", &ret->cuts_pieces, err);
    if (!st)
        st = read_flag(config, "do_lower_case", &ret->lowercase, err);
    if (!st)
        st = check(config, ret, err);
    return st || !ret->cuts_words || strcmp(ret->words, "mecab") != 0 ? st : read_mecab(config, ret, err);
}

/* Appends an item and takes its reference. Returns false if memory is short; item may then be NULL. */
static bool append(json_t *list, json_t *item)
{
    return !json_array_append_new(list, item);
}

static bool append_named(json_t *list, const char *type)
{
    return append(list, json_pack("{s:s}", "type", type));
}

/* Appends NFC or NFKC. The class has no offsets in transformers: a composed character stands for all its
 * parts. */
static bool append_form(json_t *list, const char *form)
{
    return append(list, json_pack("{s:s, s:b}", "type", form, "covers", 1));
}

static bool append_for_words(json_t *list, const char *normalizer)
{
    return append(
        list, json_pack("{s:s, s:s, s:b}", "type", "WordNormalizer", "normalizer", normalizer, "covers", 1));
}

/* Appends what Python's NFKC makes of U+32FF, the era since 2019, which the tables here do not have. */
static bool append_era(json_t *list)
{
    return append(list, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", "\u32ff",
                                  "content", "\u4ee4\u548c"));
}

/* BERT's words. transformers composes characters (NFC) before it strips accents, which decomposes them. */
static bool append_basic(const japanese *j, json_t *normalizers, json_t *splitters)
{
    return append(normalizers,
                  json_pack("{s:s, s:b, s:b, s:b}", "type", "BertNormalizer", "handle_chinese_chars", 0,
                            "lowercase", j->lowercase, "strip_accents", j->lowercase)) &&
           (j->lowercase || append_form(normalizers, "NFC")) && append_named(splitters, "BertPreTokenizer");
}

static bool append_mecab(const japanese *j, json_t *normalizers, json_t *splitters)
{
    return (!j->normalizes || (append_era(normalizers) && append_form(normalizers, "NFKC"))) &&
           append(splitters, json_pack("{s:s, s:s?}", "type", "MeCab", "dictionary", j->dictionary)) &&
           (!j->lowercase || append_for_words(splitters, "Lowercase"));
}

hs_status hs__japanese_read(const char *unknown, hs__description *d, hs_error *err)
{
    japanese j;
    const hs_status st = read_options(d->config, &j, err);
    if (st)
        return st;
    const bool characters = j.cuts_pieces && strcmp(j.pieces, "character") == 0;
    json_t *normalizers = json_array();
    json_t *splitters = json_array();
    bool ok = true;
    if (j.cuts_words)
        ok = strcmp(j.words, "mecab") == 0 ? append_mecab(&j, normalizers, splitters)
                                           : append_basic(&j, normalizers, splitters);
    if (characters)
        ok = ok && append_era(normalizers) && append_for_words(splitters, "NFKC");
    else if (j.cuts_pieces)
        ok = ok && append_named(splitters, "PythonWhitespace");
    const char *model = !j.cuts_pieces ? "WordLevel" : characters ? "Character" : "WordPiece";
    d->json = json_pack("{s:{s:s, s:o}, s:{s:s, s:o}, s:{s:s, s:s}}", "normalizer", "type", "Sequence",
                        "normalizers", normalizers, "pre_tokenizer", "type", "Sequence", "pretokenizers",
                        splitters, "model", "type", model, "unk_token", unknown);
    return ok && d->json ? HS_OK : hs_fail(err, HS_NO_MEMORY, "out of memory");
}
