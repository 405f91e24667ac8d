/* gguf_tokenizer.c - makes tokenizer.json out of the vocabulary of a GGUF file. There are two kinds:
 *
 *     gpt2   byte-level BPE; tokenizer.ggml.pre names the way in which texts are cut before. Files do not
 * hold the expression, so there is a table of names, and others are refused llama  BPE of sentencepiece,
 * whose merges follow from the pieces and their scores
 *
 * Both are read as transformers 5 reads them. The models' own files and llama.cpp agree on two other facts,
 * which count here: whether words of the vocabulary count before merges, and whether a text begins with a
 * token. */
#include "model/base/utf8.h"
#include "model/files/gguf.h"
#include "model/files/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK            "\u2581"
#define TOKEN_BYTES_MAX 1024
#define TOKENS_MAX      4000000
#define ELSEWHERE                                                                                            \
    "put the model's own tokenizer.json beside the file, or name its folder: --model FILE.gguf --tokenizer " \
    "DIR"

/* Types of tokens. */
enum { CONTROL = 3, USER_DEFINED = 4, UNUSED = 5 };

/* ---- how texts are cut ---- */

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define OTHERS       "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3       CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" OTHERS
#define QWEN2        CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" OTHERS
#define UPPER        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(ending, numbers)                                                                               \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" ending "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" ending \
    "|" numbers "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define TEKKEN CASED("", "\\p{N}")
#define O200K  CASED(CONTRACTIONS "?", "\\p{N}{1,3}")

/* A value of tokenizer.ggml.pre. */
static const struct {
    const char *name, *expression; /* NULL: that of GPT-2 */
    bool digits;                   /* each is a word */
    bool composes;                 /* texts are normalized (NFC) */
    bool begins;                   /* a text begins with a token if add_bos_token does not say; words of the
                                    * vocabulary count before merges */
} cuts[] = {
    {.name = "gpt-2"},
    {.name = "phi-2"},
    {.name = "smollm", .digits = true},
    {.name = "starcoder", .digits = true},
    {.name = "refact", .digits = true},
    {.name = "llama-bpe", .expression = LLAMA3, .begins = true},
    {.name = "llama3", .expression = LLAMA3, .begins = true},
    {.name = "llama-v3", .expression = LLAMA3, .begins = true},
    {.name = "dbrx", .expression = LLAMA3},
    {.name = "smaug-bpe", .expression = LLAMA3},
    {.name = "qwen2", .expression = QWEN2, .composes = true},
    {.name = "deepseek-r1-qwen", .expression = QWEN2},
    {.name = "tekken", .expression = TEKKEN, .begins = true},
    {.name = "gpt-4o", .expression = O200K},
};
#define N_CUTS (sizeof cuts / sizeof *cuts)

/* ---- the vocabulary ---- */

/* Tokens with a purpose: their keys, and those of tokenizer_config.json. */
enum { BOS, EOS, UNK, PAD, N_PURPOSES };
static const char *const purposes[N_PURPOSES][2] = {[BOS] = {"bos_token_id", "bos_token"},
                                                    [EOS] = {"eos_token_id", "eos_token"},
                                                    [UNK] = {"unknown_token_id", "unk_token"},
                                                    [PAD] = {"padding_token_id", "pad_token"}};

/* A tokenizer that is being made. */
typedef struct maker {
    const hs__gguf *file;
    const hs__gguf_value *types, *scores; /* NULL: none */
    hs_bytes *texts;                      /* [n] */
    size_t n;
    bool is_sentencepiece, is_gemma;
    int64_t purposes[N_PURPOSES]; /* ids, in the order of the names; -1: none */
    json_t *vocab, *merges, *added, *json, *config;
    hs_error *err;
} maker;

static const hs__gguf_value *value_of(const maker *m, const char *name)
{
    char key[128];
    snprintf(key, sizeof key, "tokenizer.ggml.%s", name);
    return hs__gguf_value_of(m->file, key);
}

static int64_t type_of(const maker *m, size_t i)
{
    int64_t type = 1;
    return m->types && hs__gguf_integer(m->types, i, &type) ? type : 1;
}

static double score_of(const maker *m, size_t i)
{
    double score = 0;
    return m->scores && hs__gguf_number(m->scores, i, &score) ? score : 0;
}

/* Finds a list that must be as long as that of tokens, or absent. */
static hs_status find_list(const maker *m, const char *name, const hs__gguf_value **ret)
{
    double unused;
    *ret = value_of(m, name);
    if (*ret && (!(*ret)->is_array || (*ret)->n != m->n || !hs__gguf_number(*ret, 0, &unused)))
        return hs_fail(m->err, HS_BAD_MODEL,
                       "GGUF: tokenizer.ggml.%s must be a number for each of %zu tokens", name, m->n);
    return HS_OK;
}

static hs_status check_token(const maker *m, size_t i)
{
    const hs_bytes *text = &m->texts[i];
    if (text->size > TOKEN_BYTES_MAX || memchr(text->data, '\0', text->size) ||
        hs_utf8_valid(text->data, text->size) < text->size)
        return hs_fail(m->err, HS_BAD_MODEL, "GGUF: token %zu is not a text of at most %d bytes in UTF-8", i,
                       TOKEN_BYTES_MAX);
    return HS_OK;
}

/* Returns a token as a text that ends with NUL; it is valid until the next one is. */
static const char *token_text(const hs_bytes *text, char buffer[TOKEN_BYTES_MAX + 1])
{
    memcpy(buffer, text->data, text->size);
    buffer[text->size] = '\0';
    return buffer;
}

/* Writes a token of spaces with marks in their place, as Gemma's merges have it. Returns its length, or 0. */
static size_t mark_spaces(const hs_bytes *text, char buffer[TOKEN_BYTES_MAX + 1])
{
    const char *bytes = text->data;
    for (size_t i = 0; i < text->size; i++)
        if (bytes[i] != ' ' || 3 * text->size > TOKEN_BYTES_MAX)
            return 0;
    for (size_t i = 0; i < text->size; i++)
        memcpy(buffer + 3 * i, MARK, 3);
    buffer[3 * text->size] = '\0';
    return 3 * text->size;
}

/* Adds a token to the vocabulary. Those without a text, and those that fill the table of words up, are in no
 * text. */
static hs_status put_token(maker *m, size_t i)
{
    char buffer[TOKEN_BYTES_MAX + 1];
    const hs_status st = check_token(m, i);
    if (st || m->texts[i].size == 0 || (!m->is_sentencepiece && type_of(m, i) == UNUSED))
        return st;
    if (!m->is_gemma || !mark_spaces(&m->texts[i], buffer))
        (void)token_text(&m->texts[i], buffer);
    if (json_object_get(m->vocab, buffer))
        return hs_fail(m->err, HS_BAD_MODEL, "GGUF: token %zu, '%.64s', is there twice", i, buffer);
    (void)json_object_set_new(m->vocab, buffer, json_integer((json_int_t)i));
    return HS_OK;
}

static hs_status read_tokens(maker *m)
{
    const hs__gguf_value *tokens = value_of(m, "tokens");
    if (!tokens || !tokens->is_array || tokens->type != HS__GGUF_TEXT || tokens->n < 1 ||
        tokens->n > TOKENS_MAX)
        return hs_fail(m->err, HS_BAD_MODEL,
                       "GGUF: tokenizer.ggml.tokens must be a list of texts; " ELSEWHERE);
    m->n = tokens->n;
    m->texts = calloc(m->n, sizeof *m->texts);
    if (!m->texts)
        return hs_fail(m->err, HS_NO_MEMORY, "GGUF: out of memory");
    hs_status st = find_list(m, "token_type", &m->types);
    if (!st)
        st = find_list(m, "scores", &m->scores);
    const unsigned char *cursor = NULL;
    for (size_t i = 0; i < m->n && !st; i++) {
        m->texts[i] = hs__gguf_text_next(tokens, &cursor);
        st = put_token(m, i);
    }
    return st;
}

/* ---- added tokens ---- */

/* Finds the tokens with a purpose. Ids out of range are none, as in transformers. */
static void find_purposes(maker *m)
{
    for (size_t k = 0; k < N_PURPOSES; k++) {
        int64_t id = -1;
        const bool is_there = hs__gguf_integer(value_of(m, purposes[k][0]), 0, &id) && id >= 0 &&
                              (uint64_t)id < m->n && m->texts[id].size > 0;
        m->purposes[k] = is_there ? id : -1;
    }
}

static json_t *text_of(const maker *m, int64_t id)
{
    return json_stringn(m->texts[id].data, m->texts[id].size);
}

/* Lists the tokens that are found in a text before it is cut. Those with a purpose are special, as are those
 * that control. Gemma's tokens of spaces are not among them: merges make them. */
static void list_added(maker *m)
{
    char unused[TOKEN_BYTES_MAX + 1];
    find_purposes(m);
    for (size_t i = 0; i < m->n; i++) {
        const int64_t type = type_of(m, i);
        const bool has_marks = m->is_gemma && mark_spaces(&m->texts[i], unused) > 0;
        bool special = type == CONTROL;
        for (size_t k = 0; k < N_PURPOSES; k++)
            special |= m->purposes[k] == (int64_t)i;
        if (m->texts[i].size > 0 && (special || (type == USER_DEFINED && !has_marks)))
            (void)json_array_append_new(m->added, json_pack("{s:I, s:o, s:b, s:b}", "id", (json_int_t)i,
                                                            "content", text_of(m, (int64_t)i), "special",
                                                            special, "normalized", 0));
    }
    for (size_t k = 0; k < N_PURPOSES; k++)
        if (m->purposes[k] >= 0)
            (void)json_object_set_new(m->config, purposes[k][1], text_of(m, m->purposes[k]));
}

/* Reads a flag of the tokenizer. */
static hs_status read_flag(const maker *m, const char *name, bool *value)
{
    const hs__gguf_value *flag = value_of(m, name);
    int64_t number = 0;
    if (flag && (flag->is_array || !hs__gguf_integer(flag, 0, &number) || number < 0 || number > 1))
        return hs_fail(m->err, HS_BAD_MODEL, "GGUF: tokenizer.ggml.%s must be true or false", name);
    if (flag)
        *value = number;
    return HS_OK;
}

/* Appends a token to a template, or with id -1 nothing. */
static void put_special(const maker *m, json_t *list, int64_t id, int type)
{
    if (id >= 0)
        (void)json_array_append_new(
            list, json_pack("{s:{s:o, s:i}}", "SpecialToken", "id", text_of(m, id), "type_id", type));
}

static void put_text(json_t *list, const char *name, int type)
{
    (void)json_array_append_new(list, json_pack("{s:{s:s, s:i}}", "Sequence", "id", name, "type_id", type));
}

/* Makes the template: tokens before and behind each text. */
static hs_status put_template(maker *m, bool begins)
{
    bool ends = false;
    hs_status st = read_flag(m, "add_bos_token", &begins);
    if (!st)
        st = read_flag(m, "add_eos_token", &ends);
    const int64_t first = begins ? m->purposes[BOS] : -1, last = ends ? m->purposes[EOS] : -1;
    json_t *single = json_array(), *pair = json_array(), *special = json_object();
    for (int i = 0; i < 3; i++) {
        json_t *list = i == 0 ? single : pair;
        put_special(m, list, first, i == 2);
        put_text(list, i == 2 ? "B" : "A", i == 2);
        put_special(m, list, last, i == 2);
    }
    for (int i = 0; i < 2; i++) {
        const int64_t id = i ? last : first;
        char buffer[TOKEN_BYTES_MAX + 1];
        if (id >= 0)
            (void)json_object_set_new(special, token_text(&m->texts[id], buffer),
                                      json_pack("{s:o, s:[I], s:[o]}", "id", text_of(m, id), "ids",
                                                (json_int_t)id, "tokens", text_of(m, id)));
    }
    (void)json_object_set_new(m->json, "post_processor",
                              json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single",
                                        single, "pair", pair, "special_tokens", special));
    return st;
}

/* ---- gpt2 ---- */

/* Copies the merges, which are two tokens with a space between them. */
static hs_status copy_merges(maker *m, const hs__gguf_value *merges)
{
    const unsigned char *cursor = NULL;
    if (!merges->is_array || merges->type != HS__GGUF_TEXT)
        return hs_fail(m->err, HS_BAD_MODEL, "GGUF: tokenizer.ggml.merges must be a list of texts");
    for (size_t i = 0; i < merges->n; i++) {
        const hs_bytes text = hs__gguf_text_next(merges, &cursor);
        if (text.size > 2 * TOKEN_BYTES_MAX || hs_utf8_valid(text.data, text.size) < text.size)
            return hs_fail(m->err, HS_BAD_MODEL, "GGUF: merge %zu is not a text in UTF-8", i);
        (void)json_array_append_new(m->merges, json_stringn(text.data, text.size));
    }
    return HS_OK;
}

static json_t *cut_of(size_t i)
{
    if (cuts[i].expression)
        return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, {s:s, s:b, s:b, s:b}]}", "type", "Sequence",
                         "pretokenizers", "type", "Split", "pattern", "Regex", cuts[i].expression, "behavior",
                         "Isolated", "invert", 0, "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets",
                         1, "use_regex", 0);
    json_t *bytes = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                              "trim_offsets", 1, "use_regex", 1);
    return cuts[i].digits ? json_pack("{s:s, s:[{s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type",
                                      "Digits", "individual_digits", 1, bytes)
                          : bytes;
}

static hs_status describe_bytes(maker *m)
{
    const hs__gguf_value *pre = value_of(m, "pre"), *merges = value_of(m, "merges");
    const bool is_text = pre && !pre->is_array && pre->type == HS__GGUF_TEXT && pre->data.size < 64;
    size_t i = 0;
    while (i < N_CUTS && !hs__gguf_is(pre, cuts[i].name))
        i++;
    if (i == N_CUTS)
        return hs_fail(
            m->err, HS_BAD_MODEL,
            "GGUF: tokenizer.ggml.pre is \"%.*s\", a way to cut texts that is not supported; " ELSEWHERE,
            is_text ? (int)pre->data.size : 0, is_text ? (const char *)pre->data.data : "");
    if (!merges)
        return hs_fail(m->err, HS_BAD_MODEL, "GGUF: tokenizer.ggml.merges is missing; " ELSEWHERE);
    const hs_status st = copy_merges(m, merges);
    if (st)
        return st;
    m->json = json_pack("{s:{s:s, s:O, s:O, s:b}, s:o, s:o, s:O}", "model", "type", "BPE", "vocab", m->vocab,
                        "merges", m->merges, "ignore_merges", cuts[i].begins, "normalizer",
                        cuts[i].composes ? json_pack("{s:s}", "type", "NFC") : json_null(), "pre_tokenizer",
                        cut_of(i), "added_tokens", m->added);
    return put_template(m, cuts[i].begins);
}

/* ---- llama ---- */

/* Two tokens that make a third one. */
typedef struct pair {
    double score;             /* of the third one */
    size_t piece;             /* its number */
    uint32_t n_left, n_right; /* characters of the parts */
    uint32_t cut;             /* bytes of the first part */
} pair;

typedef struct pairs {
    pair *items;
    size_t n, n_max;
} pairs;

/* Sorts the best score first, then the longer first part, then the longer second one, as transformers does.
 */
static int compare_pairs(const void *left, const void *right)
{
    const pair *a = left, *b = right;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    if (a->n_left != b->n_left)
        return a->n_left > b->n_left ? -1 : 1;
    if (a->n_right != b->n_right)
        return a->n_right > b->n_right ? -1 : 1;
    return (a->piece > b->piece) - (a->piece < b->piece);
}

static bool append_pair(pairs *list, pair item)
{
    if (list->n == list->n_max) {
        const size_t n_max = list->n_max ? 2 * list->n_max : 4096;
        pair *items = realloc(list->items, n_max * sizeof *items);
        if (!items)
            return false;
        list->items = items;
        list->n_max = n_max;
    }
    list->items[list->n++] = item;
    return true;
}

/* Writes the text of piece i as the vocabulary has it. Returns its length. */
static size_t piece_text(const maker *m, size_t i, char buffer[TOKEN_BYTES_MAX + 1])
{
    const size_t n = m->is_gemma ? mark_spaces(&m->texts[i], buffer) : 0;
    return n ? n : strlen(token_text(&m->texts[i], buffer));
}

/* Lists the pairs of tokens that make piece i. Returns false if memory is short. */
static bool list_pairs(const maker *m, size_t i, pairs *list)
{
    char text[TOKEN_BYTES_MAX + 1], left[TOKEN_BYTES_MAX + 1];
    const size_t n = piece_text(m, i, text), n_characters = hs_utf8_count(text, n);
    uint32_t n_left = 0;
    bool ok = true;
    for (size_t cut = 0; cut < n && ok; cut++) {
        if (cut > 0 && !hs_utf8_continues((unsigned char)text[cut])) {
            n_left++;
            left[cut] = '\0';
            if (json_object_get(m->vocab, left) && json_object_get(m->vocab, text + cut))
                ok = append_pair(list, (pair){.score = m->is_gemma ? -(double)i : score_of(m, i),
                                              .piece = i,
                                              .n_left = n_left,
                                              .n_right = (uint32_t)n_characters - n_left,
                                              .cut = (uint32_t)cut});
        }
        left[cut] = text[cut];
    }
    return ok;
}

/* Makes the merges that the pieces imply. */
static hs_status imply_merges(maker *m)
{
    pairs list = {0};
    bool ok = true;
    for (size_t i = 0; i < m->n && ok; i++)
        ok = list_pairs(m, i, &list);
    if (ok && list.n)
        qsort(list.items, list.n, sizeof *list.items, compare_pairs);
    for (size_t i = 0; i < list.n && ok; i++) {
        char text[TOKEN_BYTES_MAX + 1];
        const size_t n = piece_text(m, list.items[i].piece, text), cut = list.items[i].cut;
        ok = !json_array_append_new(m->merges, json_pack("[s%, s%]", text, cut, text + cut, n - cut));
    }
    free(list.items);
    return ok ? HS_OK : hs_fail(m->err, HS_NO_MEMORY, "GGUF: out of memory");
}

/* Makes the normalizer and the pre-tokenizer, which stand for spaces. */
static void put_spaces(maker *m, bool prefixes)
{
    const bool is_phi3 = hs__gguf_is(hs__gguf_value_of(m->file, "general.architecture"), "phi3");
    json_t *spaces =
        json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", " ", "content", MARK);
    json_t *normalizer = NULL, *marks = NULL;
    if (m->is_gemma)
        normalizer = json_incref(spaces);
    else if (is_phi3 && prefixes)
        normalizer = json_pack("{s:s, s:[{s:s, s:s}, O]}", "type", "Sequence", "normalizers", "type",
                               "Prepend", "prepend", MARK, spaces);
    else
        marks = json_pack("{s:s, s:s, s:s, s:b}", "type", "Metaspace", "replacement", MARK, "prepend_scheme",
                          prefixes ? "first" : "never", "split", 0);
    json_decref(spaces);
    (void)json_object_set_new(m->json, "normalizer", normalizer ? normalizer : json_null());
    (void)json_object_set_new(m->json, "pre_tokenizer", marks ? marks : json_null());
}

static hs_status describe_pieces(maker *m)
{
    const hs__gguf_value *merges = value_of(m, "merges");
    const int64_t unknown = m->is_gemma ? m->purposes[UNK] : -1;
    bool prefixes = !m->is_gemma;
    if (!merges && !m->scores)
        return hs_fail(m->err, HS_BAD_MODEL, "GGUF: tokenizer.ggml.scores is missing; " ELSEWHERE);
    hs_status st = merges ? copy_merges(m, merges) : imply_merges(m);
    if (!st)
        st = read_flag(m, "add_space_prefix", &prefixes);
    if (st)
        return st;
    m->json = json_pack("{s:{s:s, s:O, s:O, s:b, s:b, s:o}, s:O}", "model", "type", "BPE", "vocab", m->vocab,
                        "merges", m->merges, "fuse_unk", 1, "byte_fallback", 1, "unk_token",
                        unknown >= 0 ? text_of(m, unknown) : json_null(), "added_tokens", m->added);
    put_spaces(m, prefixes);
    return put_template(m, true);
}

/* ---- all of it ---- */

/* Refuses what would change tokens, and is not of these kinds. */
static hs_status check_options(const maker *m)
{
    static const char *const names[] = {"remove_extra_whitespaces", "add_sep_token"};
    bool is_set = false;
    hs_status st = HS_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && !st; i++) {
        st = read_flag(m, names[i], &is_set);
        if (!st && is_set)
            st = hs_fail(m->err, HS_BAD_MODEL, "GGUF: tokenizer.ggml.%s is not supported; " ELSEWHERE,
                         names[i]);
    }
    if (!st && value_of(m, "precompiled_charsmap"))
        st = hs_fail(m->err, HS_BAD_MODEL,
                     "GGUF: tokenizer.ggml.precompiled_charsmap is not supported; " ELSEWHERE);
    return st;
}

static hs_status describe(maker *m)
{
    const hs__gguf_value *kind = value_of(m, "model");
    const bool is_text = kind && !kind->is_array && kind->type == HS__GGUF_TEXT && kind->data.size < 64;
    m->is_sentencepiece = hs__gguf_is(kind, "llama");
    if (!m->is_sentencepiece && !hs__gguf_is(kind, "gpt2"))
        return hs_fail(m->err, HS_BAD_MODEL,
                       "GGUF: tokenizer.ggml.model is \"%.*s\"; \"gpt2\" and \"llama\" are read; " ELSEWHERE,
                       is_text ? (int)kind->data.size : 0, is_text ? (const char *)kind->data.data : "");
    const hs__gguf_value *name = hs__gguf_value_of(m->file, "general.architecture");
    m->is_gemma = m->is_sentencepiece &&
                  (hs__gguf_is(name, "gemma") || hs__gguf_is(name, "gemma2") || hs__gguf_is(name, "gemma3"));
    hs_status st = check_options(m);
    if (!st)
        st = read_tokens(m);
    if (!st)
        list_added(m);
    if (!st)
        st = m->is_sentencepiece ? describe_pieces(m) : describe_bytes(m);
    return st;
}

hs_status hs__gguf_tokenizer(const hs__gguf *file, hs_bytes *ret_json, hs_bytes *ret_config, hs_error *err)
{
    const size_t refusals = hs_json_refusals();
    maker m = {.file = file,
               .vocab = json_object(),
               .merges = json_array(),
               .added = json_array(),
               .config = json_object(),
               .err = err};
    hs_status st = describe(&m);
    if (!st && hs_json_refusals() != refusals)
        st = hs_fail(err, HS_NO_MEMORY, "GGUF: out of memory");
    char *json = st ? NULL : hs_json_text(m.json, JSON_COMPACT);
    char *config = json ? hs_json_text(m.config, JSON_COMPACT) : NULL;
    if (!st && !config)
        st = hs_fail(err, HS_NO_MEMORY, "GGUF: out of memory");
    json_decref(m.vocab), json_decref(m.merges), json_decref(m.added), json_decref(m.json),
        json_decref(m.config);
    free(m.texts);
    if (st) {
        free(json);
        free(config);
        return st;
    }
    *ret_json = hs_bytes_of(json);
    *ret_config = hs_bytes_of(config);
    return HS_OK;
}
