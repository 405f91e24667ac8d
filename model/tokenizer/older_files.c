/* older_files.c - reads folders without tokenizer.json. A vocabulary and the class of the tokenizer become
 * the tokenizer.json that HuggingFace's transformers 5 saves for them. Where its version 5 has lost a part of
 * a class, the part is that of version 4: ALBERT's penalties, DeBERTa's table of characters, the space before
 * RoBERTa's mask, MPNet's types. */
#include "model/tokenizer/tokenizer_internal.h"

#include "model/tokenizer/unicode.h"

#include <assert.h>
#include <math.h>
#include <nettle/base64.h>
#include <stdio.h>
#include <stdlib.h>

#define MARK "\u2581"

#define BERT_NAMES                                                                                           \
    {                                                                                                        \
        "[CLS]", "[SEP]", "[UNK]", "[PAD]", "[MASK]", false                                                  \
    }
#define FAIRSEQ_NAMES                                                                                        \
    {                                                                                                        \
        "<s>", "</s>", "<unk>", "<pad>", "<mask>", true                                                      \
    }
#define TYPES 3

/* The kinds of classes with a sentencepiece model. XLM-RoBERTa and CamemBERT are FAIRSEQ. T5 is like them and
 * has sentinels behind its pieces. */
typedef enum sentencepiece_kind { FAIRSEQ, ALBERT, DEBERTA, T5 } sentencepiece_kind;

typedef struct old_class {
    const char *name;         /* tokenizer_class, without "Fast" at its end */
    const char *types[TYPES]; /* model_type values in config.json that imply the class */
    hs__special_names names;
    /* Fills the description's json except the post-processor, and entries unless the json has them. */
    hs_status (*read)(const struct old_class *class, const hs_tokenizer_files *files, hs__description *d,
                      hs_error *err);
    const char *end_key; /* key of the special token that ends a text; NULL: sep_token */
    bool pairs_apart;    /* two of them separate the texts of a pair */
    bool one_type;       /* token types are all 0 */
    bool pairs_joined;   /* nothing separates the texts of a pair */
    bool in_python;      /* transformers has it in Python: added tokens are found in the given text */
    /* For classes with a sentencepiece model: */
    sentencepiece_kind kind;
    const char *before[6]; /* replace the model's first n_skipped pieces; NULL after the last. If set, the
                            * mask comes after the pieces and id 3 is unknown */
    size_t n_skipped;
} old_class;

static hs_status no_memory(hs_error *err)
{
    return hs_fail(err, HS_NO_MEMORY, "out of memory");
}

/* Appends an item and takes its reference. Returns false if memory is short; either argument may then be
 * NULL. */
static bool append(json_t *list, json_t *item)
{
    return !json_array_append_new(list, item);
}

static hs_status need(const hs_bytes *file, const char *name, const old_class *class, hs_error *err)
{
    if (file->data)
        return HS_OK;
    return hs_fail(err, HS_BAD_MODEL,
                   "%s needs " HS__TOKENIZER_JSON " or %s; the folder has neither. " HS__TOKENIZER_ELSEWHERE,
                   class->name, name);
}

static json_t *replace(const char *kind, const char *pattern, const char *content)
{
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", kind, pattern, "content", content);
}

/* ---- vocab.txt ---- */

/* Returns the end of the line at `at`: LF, CR or CRLF, as in Python's text files. */
static const char *line_end(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    const char *stop = newline ? newline : end;
    const char *carriage = memchr(at, '\r', (size_t)(stop - at));
    return carriage ? carriage : stop;
}

static const char *next_line(const char *stop, const char *end)
{
    return stop < end && *stop == '\r' && stop + 1 < end && stop[1] == '\n' ? stop + 2 : stop + 1;
}

static hs_status read_lines(const hs_bytes *file, hs__description *d, hs_error *err)
{
    hs__entries *entries = &d->entries;
    const char *at = file->data;
    const char *end = at + file->size;
    entries->items = calloc(d->vocab_size, sizeof *entries->items);
    if (!entries->items)
        return no_memory(err);
    for (size_t line = 1; at < end; line++) {
        const char *stop = line_end(at, end);
        char where[64];
        snprintf(where, sizeof where, "vocab.txt, line %zu", line);
        const hs_status st = hs__token_check(at, (size_t)(stop - at), where, err);
        if (st)
            return st;
        if (entries->n < d->vocab_size)
            entries->items[entries->n++] = (hs__token_entry){at, (uint32_t)(stop - at), (int32_t)(line - 1)};
        else if (stop > at)
            return hs_fail(err, HS_BAD_MODEL, "vocab.txt: more tokens than config.json's vocab_size, %zu",
                           d->vocab_size);
        at = next_line(stop, end);
    }
    return HS_OK;
}

/* Reads the entries, and the name of the unknown token. */
static hs_status read_vocab_txt(const old_class *class, const hs_tokenizer_files *files, hs__description *d,
                                const char **ret_unknown, hs_error *err)
{
    hs_status st = need(&files->vocab_txt, "vocab.txt", class, err);
    d->vocab_file = "vocab.txt";
    if (!st)
        st = read_lines(&files->vocab_txt, d, err);
    return st ? st : hs__special_name(d, "unk_token", class->names.unk, ret_unknown, err);
}

/* Reads vocab.txt of BERT, DistilBERT, ELECTRA and MPNet. */
static hs_status read_word_pieces(const old_class *class, const hs_tokenizer_files *files, hs__description *d,
                                  hs_error *err)
{
    const char *unknown = NULL;
    const hs_status st = read_vocab_txt(class, files, d, &unknown, err);
    if (st)
        return st;
    d->json =
        json_pack("{s:{s:s}, s:{s:s}, s:{s:s, s:s}}", "normalizer", "type", "BertNormalizer", "pre_tokenizer",
                  "type", "BertPreTokenizer", "model", "type", "WordPiece", "unk_token", unknown);
    return d->json ? HS_OK : no_memory(err);
}

/* Lists every entry as an added token. */
static json_t *list_added(const hs__entries *entries)
{
    json_t *added = json_array();
    bool ok = true;
    for (size_t i = 0; ok && i < entries->n; i++) {
        const hs__token_entry *entry = &entries->items[i];
        if (entry->n_bytes)
            ok = append(added, json_pack("{s:i, s:s%}", "id", entry->id, "content", entry->text,
                                         (size_t)entry->n_bytes));
    }
    if (ok)
        return added;
    json_decref(added);
    return NULL;
}

/* Reads vocab.txt of ESM. Every entry is an added token, found anywhere in the text. The rest is split at
 * Python's white space, which includes U+001C to U+001F, and is unknown. */
static hs_status read_letters(const old_class *class, const hs_tokenizer_files *files, hs__description *d,
                              hs_error *err)
{
    static const char *const separators[] = {"\x1c", "\x1d", "\x1e", "\x1f"};
    const char *unknown = NULL;
    const hs_status st = read_vocab_txt(class, files, d, &unknown, err);
    if (st)
        return st;
    json_t *spaces = json_array();
    bool ok = true;
    for (size_t i = 0; i < sizeof separators / sizeof *separators; i++)
        ok &= append(spaces, replace("String", separators[i], " "));
    d->json = json_pack("{s:{s:s, s:o}, s:{s:s}, s:{s:s, s:s}, s:o}", "normalizer", "type", "Sequence",
                        "normalizers", spaces, "pre_tokenizer", "type", "WhitespaceSplit", "model", "type",
                        "WordLevel", "unk_token", unknown, "added_tokens", list_added(&d->entries));
    return ok && d->json ? HS_OK : no_memory(err);
}

/* ---- vocab.json, merges.txt ---- */

/* Reads merges.txt: one merge per line, "a b". The first line may hold the version. */
static hs_status read_merges(const hs_bytes *file, json_t **ret_merges, hs_error *err)
{
    static const char version[] = "#version";
    const char *at = file->data;
    const char *end = at + file->size;
    json_t *merges = *ret_merges = json_array();
    bool ok = merges != NULL;
    for (size_t line = 1; ok && at < end; line++) {
        const char *stop = line_end(at, end);
        const size_t n = (size_t)(stop - at);
        const bool is_version = n >= sizeof version - 1 && memcmp(at, version, sizeof version - 1) == 0;
        char where[64];
        snprintf(where, sizeof where, "merges.txt, line %zu", line);
        const hs_status st = hs__token_check(at, n, where, err);
        if (st)
            return st;
        if (n && !is_version)
            ok = append(merges, json_stringn(at, n));
        at = next_line(stop, end);
    }
    return ok ? HS_OK : no_memory(err);
}

static hs_status read_byte_pairs(const old_class *class, const hs_tokenizer_files *files, hs__description *d,
                                 hs_error *err)
{
    json_t *vocab = NULL;
    json_t *merges = NULL;
    hs_status st = need(&files->vocab_json, "vocab.json", class, err);
    if (!st)
        st = need(&files->merges_txt, "merges.txt", class, err);
    if (!st)
        st = hs__json_parse(&files->vocab_json, "vocab.json", &vocab, err);
    if (!st)
        st = read_merges(&files->merges_txt, &merges, err);
    if (!st) {
        d->json = json_pack("{s:n, s:{s:s, s:b}, s:{s:s, s:O, s:O}}", "normalizer", "pre_tokenizer", "type",
                            "ByteLevel", "add_prefix_space", 0, "model", "type", "BPE", "vocab", vocab,
                            "merges", merges);
        st = d->json ? HS_OK : no_memory(err);
    }
    d->vocab_file = "vocab.json";
    json_decref(vocab);
    json_decref(merges);
    return st;
}

/* ---- sentencepiece ---- */

/* The pieces of a model, after those that the class puts first. */
typedef struct pieces {
    json_t *vocab, *added; /* the future model.vocab and added_tokens */
    bool ok;
} pieces;

static void put_piece(pieces *p, const char *text, size_t n_bytes, double score, bool added, bool special)
{
    const json_int_t id = (json_int_t)json_array_size(p->vocab);
    p->ok = p->ok && append(p->vocab, json_pack("[s%, f]", text, n_bytes, score));
    if (added)
        p->ok = p->ok && append(p->added, json_pack("{s:I, s:s%, s:b}", "id", id, "content", text, n_bytes,
                                                    "special", special));
}

/* Puts the class's tokens before the pieces, as fairseq numbers them. CamemBERT repeats some of them as
 * unused (NOTUSED). */
static void put_before(pieces *p, const old_class *class)
{
    for (size_t i = 0; class->before[i]; i++)
        put_piece(p, class->before[i], strlen(class->before[i]), i == 4 ? -100 : 0, false, false);
}

/* Returns true for pieces like "1,", which ALBERT's tokenizer always splits. */
static bool is_number_comma(const hs__sentencepiece *piece)
{
    if (piece->n_bytes < 2 || piece->text[piece->n_bytes - 1] != ',')
        return false;
    size_t at = piece->n_bytes - 1;
    do
        at--;
    while (at > 0 && hs_utf8_continues((unsigned char)piece->text[at]));
    const unsigned char *start = (const unsigned char *)piece->text + at;
    return hs__unicode_kind(hs_utf8_next(&start)) & HS__NUMBER;
}

/* Puts T5's sentinels behind the pieces: <extra_id_99> to <extra_id_0>, or as many as extra_ids says. */
static hs_status put_sentinels(const hs__description *d, pieces *p, hs_error *err)
{
    enum { DEFAULT = 100, MOST = 10000 };
    const json_t *value =
        json_object_get(d->config, "extra_ids"); /* integers of this file are read as reals */
    const bool absent = !value || json_is_null(value);
    const double n = absent ? DEFAULT : json_number_value(value);
    if ((!absent && !json_is_number(value)) || !(n >= 0 && n <= MOST) || n != floor(n))
        return hs_fail(err, HS_BAD_MODEL, HS__TOKENIZER_CONFIG ": extra_ids must be an integer from 0 to %d",
                       MOST);
    for (unsigned i = (unsigned)n; i > 0; i--) {
        char text[40];
        const int n_bytes = snprintf(text, sizeof text, "<extra_id_%u>", i - 1);
        put_piece(p, text, (size_t)n_bytes, 0, true, true);
    }
    return HS_OK;
}

static hs_status put_pieces(const old_class *class, const hs__sentencepiece_model *model, pieces *p,
                            hs_error *err)
{
    put_before(p, class);
    for (size_t i = class->n_skipped; i < model->n_pieces; i++) {
        const hs__sentencepiece *piece = &model->pieces[i];
        assert(piece);
        const hs_status st = hs__sentencepiece_check(piece, err);
        if (st)
            return st;
        const bool special = piece->type == HS__PIECE_CONTROL;
        const double penalty = class->kind == ALBERT && is_number_comma(piece) ? 100 : 0;
        put_piece(p, piece->text, piece->n_bytes, (double)piece->score - penalty,
                  special || piece->type == HS__PIECE_USER_DEFINED, special);
    }
    if (class->before[0])
        put_piece(p, class->names.mask, strlen(class->names.mask), 0, false, true);
    return p->ok ? HS_OK : no_memory(err);
}

static bool put_named(json_t *list, const char *type)
{
    return append(list, json_pack("{s:s}", "type", type));
}

/* Appends the model's table of characters, if it has one. */
static bool put_precompiled(json_t *list, const hs_bytes *charsmap)
{
    const size_t n = BASE64_ENCODE_RAW_LENGTH(charsmap->size);
    char *base64 = malloc(n + 1);
    if (!base64)
        return false;
    base64_encode_raw(base64, charsmap->size, charsmap->data);
    const bool ok = !charsmap->size || append(list, json_pack("{s:s, s:s%}", "type", "Precompiled",
                                                              "precompiled_charsmap", base64, n));
    free(base64);
    return ok;
}

static bool put_albert(json_t *list, bool keeps_accents)
{
    bool ok = append(list, replace("String", "``", "\"")) && append(list, replace("String", "''", "\""));
    if (!keeps_accents)
        ok = ok && put_named(list, "NFKD") && put_named(list, "StripAccents");
    return ok;
}

static hs_status put_normalizers(const old_class *class, const hs__description *d, const hs_bytes *charsmap,
                                 json_t *list, hs_error *err)
{
    bool lower = class->kind == ALBERT;
    bool accents = false;
    hs_status st = hs__option_bool(d->config, HS__TOKENIZER_CONFIG, "do_lower_case", &lower, err);
    if (!st)
        st = hs__option_bool(d->config, HS__TOKENIZER_CONFIG, "keep_accents", &accents, err);
    if (st)
        return st;
    bool ok = class->kind != ALBERT || put_albert(list, accents);
    if (lower && (class->kind == ALBERT || class->kind == DEBERTA))
        ok = ok && put_named(list, "Lowercase");
    if (class->kind == DEBERTA)
        ok = ok && put_named(list, "Strip");
    ok = ok && put_precompiled(list, charsmap);
    if (class->kind == DEBERTA)
        ok = ok && append(list, replace("Regex", " {2,}", " "));
    return ok ? HS_OK : no_memory(err);
}

/* Splits at white space, except for DeBERTa, and puts a mark before each word. Unless the class is T5,
 * add_prefix_space may turn the marks off. */
static hs_status put_pre_tokenizers(const old_class *class, const hs__description *d, json_t *list,
                                    hs_error *err)
{
    const bool splits = class->kind != DEBERTA;
    const char *without = splits ? "never" : "first";
    bool prefix = true;
    hs_status st = HS_OK;
    if (class->kind != T5)
        st = hs__option_bool(d->config, HS__TOKENIZER_CONFIG, "add_prefix_space", &prefix, err);
    if (st)
        return st;
    const bool ok = (!splits || put_named(list, "WhitespaceSplit")) &&
                    append(list, json_pack("{s:s, s:s, s:s}", "type", "Metaspace", "replacement", MARK,
                                           "prepend_scheme", prefix ? "always" : without));
    return ok ? HS_OK : no_memory(err);
}

static hs_status describe(const old_class *class, const hs__sentencepiece_model *model, hs__description *d,
                          hs_error *err)
{
    pieces p = {json_array(), json_array(), true};
    json_t *normalizers = json_array();
    json_t *splitters = json_array();
    const size_t unknown = class->before[0] ? 3 : model->unknown;
    hs_status st = put_pieces(class, model, &p, err);
    if (!st && class->kind == T5)
        st = put_sentinels(d, &p, err);
    if (!st)
        st = put_normalizers(class, d, &model->charsmap, normalizers, err);
    if (!st)
        st = put_pre_tokenizers(class, d, splitters, err);
    d->json = json_pack("{s:{s:s, s:o}, s:{s:s, s:o}, s:{s:s, s:I, s:o}, s:o}", "normalizer", "type",
                        "Sequence", "normalizers", normalizers, "pre_tokenizer", "type", "Sequence",
                        "pretokenizers", splitters, "model", "type", "Unigram", "unk_id", (json_int_t)unknown,
                        "vocab", p.vocab, "added_tokens", p.added);
    return st || d->json ? st : no_memory(err);
}

static hs_status read_sentencepiece(const old_class *class, const hs_tokenizer_files *files,
                                    hs__description *d, hs_error *err)
{
    bool by_punctuation = false;
    hs__sentencepiece_model model = {0};
    hs_status st = need(&files->sentencepiece, "a sentencepiece model", class, err);
    if (!st)
        st = hs__option_bool(d->config, HS__TOKENIZER_CONFIG, "split_by_punct", &by_punctuation, err);
    if (!st && by_punctuation)
        st = hs_fail(err, HS_BAD_MODEL, HS__TOKENIZER_CONFIG ": split_by_punct is not supported");
    if (!st)
        st = hs__sentencepiece_parse(&files->sentencepiece, d->vocab_size, false, &model, err);
    if (!st)
        st = describe(class, &model, d, err);
    d->vocab_file = "the sentencepiece model";
    hs__sentencepiece_finish(&model);
    return st;
}

/* ---- a sentencepiece model and vocab.json ---- */

static hs_status read_marian(const old_class *class, const hs_tokenizer_files *files, hs__description *d,
                             hs_error *err)
{
    (void)class;
    return hs__marian_read(files, d, err);
}

static hs_status read_m2m100(const old_class *class, const hs_tokenizer_files *files, hs__description *d,
                             hs_error *err)
{
    (void)class;
    return hs__m2m100_read(files, d, err);
}

/* ---- template ---- */

static json_t *step(const char *kind, const char *id, int type)
{
    return json_pack("{s:{s:s, s:i}}", kind, "id", id, "type_id", type);
}

/* Returns the template [CLS] A [SEP], [CLS] A [SEP] B [SEP]. cls may be NULL: there is none. */
static json_t *template_of(const old_class *class, const char *cls, const char *sep)
{
    const int type = !class->one_type;
    json_t *single = cls ? json_pack("[o]", step("SpecialToken", cls, 0)) : json_array();
    const bool began =
        append(single, step("Sequence", "A", 0)) && append(single, step("SpecialToken", sep, 0));
    json_t *pair = json_deep_copy(single);
    bool ok = began && (!class->pairs_apart || append(pair, step("SpecialToken", sep, 0)));
    if (class->pairs_joined)
        ok = ok && !json_array_remove(pair, json_array_size(pair) - 1);
    ok = ok && append(pair, step("Sequence", "B", type)) && append(pair, step("SpecialToken", sep, type));
    json_t *made = json_pack("{s:s, s:o, s:o}", "type", "TemplateProcessing", "single", single, "pair", pair);
    if (ok)
        return made;
    json_decref(made);
    return NULL;
}

static hs_status put_post_processor(const old_class *class, hs__description *d, hs_error *err)
{
    const char *cls = NULL;
    const char *sep = NULL;
    hs_status st = hs__special_name(d, "cls_token", class->names.cls, &cls, err);
    if (!st)
        st = hs__special_name(d, class->end_key ? class->end_key : "sep_token", class->names.sep, &sep, err);
    if (st)
        return st;
    json_t *post = class->read == read_byte_pairs
                       ? json_pack("{s:s, s:[s], s:[s], s:b}", "type", "RobertaProcessing", "cls", cls, "sep",
                                   sep, "add_prefix_space", 0)
                       : template_of(class, cls, sep);
    return json_object_set_new(d->json, "post_processor", post) ? no_memory(err) : HS_OK;
}

/* ---- classes ---- */

static const old_class classes[] = {
    {"BertTokenizer", {"bert", "nomic_bert"}, BERT_NAMES, .read = read_word_pieces},
    {"DistilBertTokenizer", {"distilbert"}, BERT_NAMES, .read = read_word_pieces},
    {"ElectraTokenizer", {"electra"}, BERT_NAMES, .read = read_word_pieces},
    {"MPNetTokenizer",
     {"mpnet"},
     {"<s>", "</s>", "[UNK]", "<pad>", "<mask>", true},
     .read = read_word_pieces,
     .pairs_apart = true},
    {"RobertaTokenizer",
     {"roberta", "roberta-prelayernorm", "data2vec-text"},
     FAIRSEQ_NAMES,
     .read = read_byte_pairs},
    {"XLMRobertaTokenizer",
     {"xlm-roberta"},
     {"<s>", "</s>", "<unk>", "<pad>", "<mask>", false},
     .read = read_sentencepiece,
     .pairs_apart = true,
     .one_type = true,
     .kind = FAIRSEQ,
     .before = {"<s>", "<pad>", "</s>", "<unk>"},
     .n_skipped = 3},
    {"CamembertTokenizer",
     {"camembert"},
     FAIRSEQ_NAMES,
     .read = read_sentencepiece,
     .pairs_apart = true,
     .one_type = true,
     .kind = FAIRSEQ,
     .before = {"<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"},
     .n_skipped = 1},
    {"AlbertTokenizer",
     {"albert"},
     {"[CLS]", "[SEP]", "<unk>", "<pad>", "[MASK]", false},
     .read = read_sentencepiece,
     .kind = ALBERT},
    {"T5Tokenizer",
     {"t5", "mt5"},
     {NULL, "</s>", "<unk>", "<pad>", NULL, false},
     .read = read_sentencepiece,
     .end_key = "eos_token",
     .one_type = true,
     .kind = T5},
    {"MarianTokenizer",
     {"marian"},
     {NULL, "</s>", "<unk>", "<pad>", NULL, false},
     .read = read_marian,
     .end_key = "eos_token",
     .one_type = true,
     .pairs_joined = true,
     .in_python = true},
    {"M2M100Tokenizer",
     {"m2m_100"},
     {NULL, "</s>", "<unk>", "<pad>", NULL, false},
     .read = read_m2m100,
     .end_key = "eos_token",
     .one_type = true,
     .pairs_joined = true,
     .in_python = true},
    {"DebertaV2Tokenizer", {"deberta-v2"}, BERT_NAMES, .read = read_sentencepiece, .kind = DEBERTA},
    {"EsmTokenizer",
     {"esm"},
     {"<cls>", "<eos>", "<unk>", "<pad>", "<mask>", false},
     .read = read_letters,
     .end_key = "eos_token",
     .one_type = true,
     .in_python = true},
};
#define N_CLASSES (sizeof classes / sizeof *classes)

/* Returns true if the name is the class's, with or without "Fast" at its end. */
static bool is_named(const old_class *class, const char *name)
{
    const size_t n = strlen(class->name);
    return strncmp(class->name, name, n) == 0 && (!name[n] || strcmp(name + n, "Fast") == 0);
}

static bool is_implied(const old_class *class, const char *type)
{
    for (size_t i = 0; i < TYPES && class->types[i]; i++)
        if (strcmp(class->types[i], type) == 0)
            return true;
    return false;
}

/* Finds the class by its name, else by the model's type, else returns BERT's. */
static hs_status find_class(const char *name, const char *type, const old_class **ret_class, hs_error *err)
{
    for (size_t i = 0; i < N_CLASSES; i++) {
        *ret_class = &classes[i];
        if (name ? is_named(*ret_class, name) : !type || is_implied(*ret_class, type))
            return HS_OK;
    }
    if (!name)
        return hs_fail(err, HS_BAD_MODEL,
                       "a model of type '%.64s' needs " HS__TOKENIZER_JSON
                       "; the folder has none. " HS__TOKENIZER_SAVE ". " HS__TOKENIZER_ELSEWHERE,
                       type);
    return hs_fail(err, HS_BAD_MODEL,
                   HS__TOKENIZER_CONFIG
                   ": tokenizer_class '%.64s' is not supported without " HS__TOKENIZER_JSON
                   ". " HS__TOKENIZER_SAVE ". " HS__TOKENIZER_ELSEWHERE,
                   name);
}

/* Finds the class that config.json names, or that its model type implies. */
static hs_status find_class_of_model(const hs_bytes *file, const old_class **ret_class, hs_error *err)
{
    const char *name = NULL;
    json_t *config = NULL;
    hs_status st = hs__json_parse(file, "config.json", &config, err);
    if (!st)
        st = hs__option_text(config, "config.json", "tokenizer_class", &name, err);
    if (!st)
        st = find_class(name, json_string_value(json_object_get(config, "model_type")), ret_class, err);
    json_decref(config);
    return st;
}

hs_status hs__older_files_read(const hs_tokenizer_files *files, hs__description *d, hs_error *err)
{
    const char *name = NULL;
    const old_class *class = NULL;
    d->older = true;
    hs_status st = hs__option_text(d->config, HS__TOKENIZER_CONFIG, "tokenizer_class", &name, err);
    if (!st && !name && files->config.data)
        st = find_class_of_model(&files->config, &class, err);
    else if (!st)
        st = find_class(name, NULL, &class, err);
    if (st)
        return st;
    if (!name && json_object_set_new(d->config, "tokenizer_class", json_string(class->name)))
        return no_memory(err);
    d->names = class->names;
    d->in_python = class->in_python;
    st = class->read(class, files, d, err);
    return st ? st : put_post_processor(class, d, err);
}
