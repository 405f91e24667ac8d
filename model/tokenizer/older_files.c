/* older_files.c - reads folders without tokenizer.json. A vocabulary and the class of the tokenizer become
 * the tokenizer.json that HuggingFace's transformers 5 saves for them. Where its version 5 has lost a part of
 * a class, the part is that of version 4: ALBERT's penalties, the table of characters of DeBERTa-v2, the
 * space before the masks of RoBERTa and DeBERTa, MPNet's types, the one separator and the types of DeBERTa's
 * pairs. */
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
#define GPT2_NAMES                                                                                           \
    {                                                                                                        \
        "<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL, NULL, false                                 \
    }
#define TYPES 14

/* The kinds of classes with a sentencepiece model. XLM-RoBERTa, CamemBERT and mBART are FAIRSEQ. T5 is like
 * them and has sentinels behind its pieces. PEGASUS has tokens of its training before them. The words of
 * PEGASUS and MBART50 are not split at white space other than the table's. */
typedef enum sentencepiece_kind { FAIRSEQ, ALBERT, DEBERTA, T5, PEGASUS, MBART50 } sentencepiece_kind;

/* The languages of mBART, and those that mBART-50 has behind them, in the order of their ids. */
#define MBART_LANGUAGES                                                                                      \
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV "       \
    "my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"
#define MBART50_LANGUAGES                                                                                    \
    MBART_LANGUAGES " af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL "  \
                    "ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"

typedef struct old_class {
    const char *name;         /* tokenizer_class, without "Fast" at its end */
    const char *types[TYPES]; /* model_type values in config.json that imply the class */
    hs__special_names names;
    /* Fills the description's json except the post-processor, and entries unless the json has them. */
    hs_status (*read)(const struct old_class *class, const hs_tokenizer_files *files, hs__description *d,
                      hs_error *err);
    const char *end_key;  /* key of the special token that ends a text; NULL: sep_token */
    bool pairs_apart;     /* two of them separate the texts of a pair */
    bool one_type;        /* token types are all 0 */
    bool pairs_joined;    /* nothing separates the texts of a pair */
    bool may_lack_end;    /* a null for end_key means that nothing ends a text */
    bool in_python;       /* transformers has it in Python: added tokens are found in the given text */
    bool trims_offsets;   /* tokens leave out the white space around them, as trim_offsets says */
    bool bare;            /* texts alone, unless add_bos_token and add_eos_token put tokens around them */
    hs__byte_pairs pairs; /* for classes with merges.txt */
    hs__piece_pairs piece_pairs; /* for classes with tokenizer.model */
    /* For classes with a sentencepiece model: */
    sentencepiece_kind kind;
    const char *before[6]; /* replace the model's first n_skipped pieces; NULL after the last. If set, the
                            * mask comes after the pieces and id 3 is unknown */
    size_t n_skipped;
    const char *languages; /* whose tokens stand between the pieces and the mask; or NULL */
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

static hs_status read_lines(const hs_bytes *file, hs__description *d, hs_error *err)
{
    hs__entries *entries = &d->entries;
    const char *at = file->data;
    const char *end = at + file->size;
    entries->items = calloc(d->vocab_size, sizeof *entries->items);
    if (!entries->items)
        return no_memory(err);
    for (size_t line = 1; at < end; line++) {
        const char *stop = hs__line_end(at, end);
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
        at = hs__line_next(stop, end);
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

/* Reads vocab.txt of BertJapanese, beside which a tokenizer.json would not count. */
static hs_status read_japanese(const old_class *class, const hs_tokenizer_files *files, hs__description *d,
                               hs_error *err)
{
    const char *unknown = NULL;
    if (!files->vocab_txt.data)
        return hs_fail(err, HS_BAD_MODEL, "%s needs vocab.txt; the folder has none. " HS__TOKENIZER_ELSEWHERE,
                       class->name);
    const hs_status st = read_vocab_txt(class, files, d, &unknown, err);
    return st ? st : hs__japanese_read(unknown, d, err);
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

static hs_status read_byte_pairs(const old_class *class, const hs_tokenizer_files *files, hs__description *d,
                                 hs_error *err)
{
    hs_status st = need(&files->vocab_json, "vocab.json", class, err);
    if (!st)
        st = need(&files->merges_txt, "merges.txt", class, err);
    return st ? st : hs__byte_pairs_read(class->pairs, class->names.unk, files, d, err);
}

/* ---- tokenizer.model ---- */

/* Returns true if transformers 5 has another class for a model type than LlamaTokenizer, whatever
 * tokenizer_config.json says: one that follows the file. */
static hs_status find_plain(const hs_tokenizer_files *files, bool *ret_is_plain, hs_error *err)
{
    static const char *const types[] = {"mistral", "ministral", "phi3", "granite", "stablelm",
                                        "olmo2",   "olmo3",     "glm",  "glm4"};
    json_t *config = NULL;
    const hs_status st =
        files->config.data ? hs__json_parse(&files->config, "config.json", &config, err) : HS_OK;
    const char *type = json_string_value(json_object_get(config, "model_type"));
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        *ret_is_plain |= strcmp(type, types[i]) == 0;
    json_decref(config);
    return st;
}

static hs_status read_piece_pairs(const old_class *class, const hs_tokenizer_files *files, hs__description *d,
                                  hs_error *err)
{
    bool plain = class->piece_pairs == HS__PLAIN_PIECES;
    const hs_status st = class->piece_pairs == HS__LLAMA_PIECES ? find_plain(files, &plain, err) : HS_OK;
    return st ? st
              : hs__piece_pairs_read(plain ? HS__PLAIN_PIECES : class->piece_pairs, class->names.unk, files,
                                     d, err);
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

enum { PEGASUS_OFFSET = 103 }; /* by how much its pieces follow those of the model */

/* Puts the tokens of PEGASUS's training before the pieces. */
static void put_pegasus(pieces *p)
{
    static const char *const first[] = {"<pad>", "</s>", "<mask_1>", "<mask_2>"};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        put_piece(p, first[i], strlen(first[i]), 0, true, true);
    for (unsigned i = 2; i < PEGASUS_OFFSET; i++) {
        char text[16];
        const int n_bytes = snprintf(text, sizeof text, "<unk_%u>", i);
        put_piece(p, text, (size_t)n_bytes, -100, true, true);
    }
}

/* Puts the tokens of languages behind the pieces. */
static void put_languages(pieces *p, const char *codes)
{
    for (const char *at = codes; *at;) {
        const size_t n = strcspn(at, " ");
        put_piece(p, at, n, 0, true, true);
        at += n + (at[n] == ' ');
    }
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
    if (class->kind == PEGASUS)
        put_pegasus(p);
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
    if (class->languages)
        put_languages(p, class->languages);
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
    if (class->kind == PEGASUS && !charsmap->size)
        ok = ok && append(list, replace("String", "\n", " "));
    if (class->kind == DEBERTA || class->kind == PEGASUS || class->kind == MBART50)
        ok = ok && append(list, replace("Regex", " {2,}", " "));
    return ok ? HS_OK : no_memory(err);
}

/* Splits at white space, except for DeBERTa and its like, and puts a mark before each word. add_prefix_space
 * may turn the marks off for FAIRSEQ, ALBERT and DEBERTA. */
static hs_status put_pre_tokenizers(const old_class *class, const hs__description *d, json_t *list,
                                    hs_error *err)
{
    const bool own_spaces = class->kind == PEGASUS || class->kind == MBART50;
    const bool splits = class->kind != DEBERTA && !own_spaces;
    const char *without = splits ? "never" : "first";
    bool prefix = true;
    hs_status st = HS_OK;
    if (class->kind != T5 && !own_spaces)
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
    const size_t unknown = class->before[0]         ? 3
                           : class->kind == PEGASUS ? model->unknown + PEGASUS_OFFSET
                                                    : model->unknown;
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

/* Refuses other tokens of PEGASUS's training than those of the published models. */
static hs_status read_pegasus(const old_class *class, const hs_tokenizer_files *files, hs__description *d,
                              hs_error *err)
{
    static const char *const keys[][2] = {{"mask_token", "<mask_2>"}, {"mask_token_sent", "<mask_1>"}};
    const json_t *offset = json_object_get(d->config, "offset");
    const char *mask = NULL;
    hs_status st = HS_OK;
    if (offset && json_number_value(offset) != PEGASUS_OFFSET)
        st = hs_fail(err, HS_BAD_MODEL, HS__TOKENIZER_CONFIG ": offset must be %d", PEGASUS_OFFSET);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !st; i++) {
        st = hs__special_name(d, keys[i][0], keys[i][1], &mask, err);
        if (!st && strcmp(mask, keys[i][1]) != 0)
            st = hs_fail(err, HS_BAD_MODEL, HS__TOKENIZER_CONFIG ": %s must be '%s'", keys[i][0], keys[i][1]);
    }
    return st ? st : read_sentencepiece(class, files, d, err);
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

static json_t *special_step(const char *id, int type)
{
    return step("SpecialToken", id, type);
}

/* Takes both forms of a template, which are NULL or lack steps if memory was short. */
static json_t *forms_pack(bool ok, json_t *single, json_t *pair)
{
    json_t *made = json_pack("{s:s, s:o, s:o}", "type", "TemplateProcessing", "single", single, "pair", pair);
    if (ok)
        return made;
    json_decref(made);
    return NULL;
}

/* Returns the template [CLS] A [SEP], [CLS] A [SEP] B [SEP]. cls and sep may be NULL: there is none. */
static json_t *template_of(const old_class *class, const char *cls, const char *sep)
{
    const int type = !class->one_type;
    json_t *single = cls ? json_pack("[o]", special_step(cls, 0)) : json_array();
    bool ok = append(single, step("Sequence", "A", 0));
    json_t *pair = json_deep_copy(single);
    if (sep && !class->pairs_joined)
        ok = ok && append(pair, special_step(sep, 0));
    if (class->pairs_apart)
        ok = ok && append(pair, special_step(sep, 0));
    ok = ok && append(pair, step("Sequence", "B", type));
    if (sep)
        ok = ok && append(single, special_step(sep, 0)) && append(pair, special_step(sep, type));
    return forms_pack(ok, single, pair);
}

/* Returns the template bos A eos, bos A eos bos B eos. Either may be NULL. */
static json_t *bare_template_of(const char *bos, const char *eos)
{
    json_t *const forms[2] = {json_array(), json_array()};
    bool ok = true;
    for (int k = 0; k < 2; k++)
        for (int text = 0; text <= k; text++) {
            ok = ok && (!bos || append(forms[k], special_step(bos, text)));
            ok = ok && append(forms[k], step("Sequence", text ? "B" : "A", text));
            ok = ok && (!eos || append(forms[k], special_step(eos, text)));
        }
    return forms_pack(ok, forms[0], forms[1]);
}

/* Finds the token that a text begins or ends with. An ESM without eos_token ends none: its key is null. */
static hs_status find_end(const old_class *class, const hs__description *d, const char **ret_sep,
                          hs_error *err)
{
    const char *key = class->end_key ? class->end_key : "sep_token";
    if (class->may_lack_end && json_is_null(json_object_get(d->config, key)))
        return HS_OK;
    return hs__special_name(d, key, class->names.sep, ret_sep, err);
}

/* Puts bos_token before the texts and eos_token behind them, if the options say so. */
static hs_status put_bare(const old_class *class, hs__description *d, hs_error *err)
{
    static const char *const keys[2][2] = {{"add_bos_token", "bos_token"}, {"add_eos_token", "eos_token"}};
    const char *const otherwise[2] = {class->names.cls, class->names.sep};
    const char *tokens[2] = {NULL, NULL};
    for (size_t i = 0; i < 2; i++) {
        bool is_added = false;
        hs_status st = hs__option_bool(d->config, HS__TOKENIZER_CONFIG, keys[i][0], &is_added, err);
        if (!st && is_added)
            st = hs__special_name(d, keys[i][1], otherwise[i], &tokens[i], err);
        if (st)
            return st;
    }
    json_t *post = tokens[0] || tokens[1] ? bare_template_of(tokens[0], tokens[1]) : json_null();
    return json_object_set_new(d->json, "post_processor", post) ? no_memory(err) : HS_OK;
}

/* Refuses options by which transformers 5 replaces the template of these classes. */
static hs_status refuse_ends(const hs__description *d, hs_error *err)
{
    static const char *const keys[] = {"add_bos_token", "add_eos_token"};
    for (size_t i = 0; i < 2 && !d->in_python; i++)
        if (json_object_get(d->config, keys[i]))
            return hs_fail(err, HS_BAD_MODEL,
                           HS__TOKENIZER_CONFIG
                           ": %s is not supported for this tokenizer_class without " HS__TOKENIZER_JSON
                           "; take the key out",
                           keys[i]);
    return HS_OK;
}

static hs_status put_post_processor(const old_class *class, hs__description *d, hs_error *err)
{
    const char *cls = NULL;
    const char *sep = NULL;
    if (class->bare)
        return put_bare(class, d, err);
    hs_status st = refuse_ends(d, err);
    if (!st)
        st = hs__special_name(d, "cls_token", class->names.cls, &cls, err);
    if (!st)
        st = find_end(class, d, &sep, err);
    if (st)
        return st;
    json_t *post = class->trims_offsets ? json_pack("{s:s, s:[s], s:[s], s:b}", "type", "RobertaProcessing",
                                                    "cls", cls, "sep", sep, "add_prefix_space", 0)
                                        : template_of(class, cls, sep);
    return json_object_set_new(d->json, "post_processor", post) ? no_memory(err) : HS_OK;
}

/* ---- classes ---- */

static const old_class classes[] = {
    {"BertTokenizer", {"bert", "nomic_bert"}, BERT_NAMES, .read = read_word_pieces},
    {HS__JAPANESE, {NULL}, BERT_NAMES, .read = read_japanese, .in_python = true},
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
     .read = read_byte_pairs,
     .trims_offsets = true},
    {"BartTokenizer", {"bart"}, FAIRSEQ_NAMES, .read = read_byte_pairs, .trims_offsets = true},
    {"DebertaTokenizer",
     {"deberta"},
     {"[CLS]", "[SEP]", "[UNK]", "[PAD]", "[MASK]", true},
     .read = read_byte_pairs},
    {"GPT2Tokenizer",
     {"gpt2", "gpt_neo", "gptj", "opt", "phi", "starcoder2"},
     GPT2_NAMES,
     .read = read_byte_pairs,
     .bare = true},
    {"CodeGenTokenizer", {NULL}, GPT2_NAMES, .read = read_byte_pairs, .bare = true},
    {"GPTNeoXTokenizer",
     {"gpt_neox"},
     {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>", "<|padding|>", NULL, false},
     .read = read_byte_pairs,
     .bare = true,
     .pairs = HS__NFC_BYTE_PAIRS},
    {"Qwen2Tokenizer",
     {"qwen2", "qwen3"},
     {NULL, "<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL, false},
     .read = read_byte_pairs,
     .bare = true,
     .pairs = HS__QWEN2_BYTE_PAIRS},
    {"OpenAIGPTTokenizer",
     {"openai-gpt"},
     {NULL, NULL, "<unk>", NULL, NULL, false},
     .read = read_byte_pairs,
     .bare = true,
     .pairs = HS__WORD_PAIRS},
    {"LlamaTokenizer",
     {NULL},
     {"<s>", "</s>", "<unk>", NULL, NULL, false},
     .read = read_piece_pairs,
     .bare = true,
     .piece_pairs = HS__LLAMA_PIECES},
    {"TokenizersBackend",
     {"llama", "smollm3", "helium", "seed_oss", "mistral", "ministral", "phi3", "granite", "stablelm",
      "olmo2", "olmo3", "glm", "glm4"},
     {"<s>", "</s>", "<unk>", NULL, NULL, false},
     .read = read_piece_pairs,
     .bare = true,
     .piece_pairs = HS__PLAIN_PIECES},
    {"GemmaTokenizer",
     {"gemma", "gemma2", "gemma3_text", "gemma3"},
     {"<bos>", "<eos>", "<unk>", "<pad>", "<mask>", false},
     .read = read_piece_pairs,
     .bare = true,
     .piece_pairs = HS__GEMMA_PIECES},
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
    {"MBartTokenizer",
     {"mbart"},
     FAIRSEQ_NAMES,
     .read = read_sentencepiece,
     .one_type = true,
     .pairs_joined = true,
     .kind = FAIRSEQ,
     .before = {"<s>", "<pad>", "</s>", "<unk>"},
     .n_skipped = 3,
     .languages = MBART_LANGUAGES},
    {"MBart50Tokenizer",
     {NULL},
     FAIRSEQ_NAMES,
     .read = read_sentencepiece,
     .one_type = true,
     .pairs_joined = true,
     .kind = MBART50,
     .before = {"<s>", "<pad>", "</s>", "<unk>"},
     .n_skipped = 3,
     .languages = MBART50_LANGUAGES},
    {"PegasusTokenizer",
     {"pegasus"},
     {NULL, "</s>", "<unk>", "<pad>", "<mask_2>", false},
     .read = read_pegasus,
     .end_key = "eos_token",
     .one_type = true,
     .pairs_joined = true,
     .kind = PEGASUS,
     .n_skipped = 2},
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
     .may_lack_end = true,
     .one_type = true,
     .in_python = true},
};
#define N_CLASSES (sizeof classes / sizeof *classes)

/* Returns true if the name is that of the class, with or without "Fast" at its end. */
static bool is_named(const char *class, const char *name)
{
    const size_t n = strlen(class);
    return strncmp(class, name, n) == 0 && (!name[n] || strcmp(name + n, "Fast") == 0);
}

static bool is_implied(const old_class *class, const char *type)
{
    for (size_t i = 0; i < TYPES && class->types[i]; i++)
        if (strcmp(class->types[i], type) == 0)
            return true;
    return false;
}

hs_status hs__python_class_refuse(const char *class, hs_error *err)
{
    static const char *const python[] = {"BertTokenizerLegacy",
                                         "BertweetTokenizer",
                                         "BartphoTokenizer",
                                         "BertGenerationTokenizer",
                                         "BioGptTokenizer",
                                         "ByT5Tokenizer",
                                         "CanineTokenizer",
                                         "CpmAntTokenizer",
                                         "CTRLTokenizer",
                                         "EsmTokenizer",
                                         "FlaubertTokenizer",
                                         "GPTNeoXJapaneseTokenizer",
                                         "GPTSw3Tokenizer",
                                         "PhobertTokenizer",
                                         "ProphetNetTokenizer",
                                         "RoCBertTokenizer",
                                         "TapasTokenizer",
                                         "XLMTokenizer",
                                         NULL};
    size_t i = 0;
    while (python[i] && !is_named(python[i], class))
        i++;
    if (!python[i])
        return HS_OK;
    return hs_fail(
        err, HS_BAD_MODEL,
        HS__TOKENIZER_CONFIG
        ": tokenizer_class '%.64s' is not supported: transformers has it in Python, and its tokens may "
        "be others than those of " HS__TOKENIZER_JSON ". With --tokenizer DIR, a folder of another "
        "tokenizer with the same ids, the model opens, and --input-ids takes the ids that Python found",
        class);
}

/* Finds the class by its name, else by the model's type, else returns BERT's. */
static hs_status find_class(const char *name, const char *type, const old_class **ret_class, hs_error *err)
{
    for (size_t i = 0; i < N_CLASSES; i++) {
        *ret_class = &classes[i];
        if (name ? is_named((*ret_class)->name, name) : !type || is_implied(*ret_class, type))
            return HS_OK;
    }
    if (name && hs__python_class_refuse(name, err))
        return HS_BAD_MODEL;
    if (!name && strcmp(type, "biogpt") == 0)
        return hs__python_class_refuse("BioGptTokenizer", err);
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

/* Returns the type that implies a class: of two joined models that of the encoder, BERT's if it has none. */
static const char *type_of_model(const json_t *config)
{
    const json_t *encoder = json_object_get(config, "encoder");
    const char *type = json_string_value(json_object_get(config, "model_type"));
    if (!type || strcmp(type, "encoder-decoder") != 0)
        return type;
    type = json_string_value(json_object_get(encoder, "model_type"));
    return type ? type : "bert";
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
        st = find_class(name, type_of_model(config), ret_class, err);
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
