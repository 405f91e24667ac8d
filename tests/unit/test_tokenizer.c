/* test_tokenizer.c - what the tokenizer reads and refuses, and its behaviour on hostile text.
 * test_tokenizer_oracle.c compares it with HuggingFace's. */
#include "model/tokenizer/tokenizer_internal.h"
#include "tests/unit/chaos.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ids: 0 [PAD] 1 [UNK] 2 [CLS] 3 [SEP] 4 [MASK] 5 a ... */
#define SPECIAL "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"
static const char plain_vocab[] =
    SPECIAL "a\nb\n##b\n##c\nnaive\nna\n##ive\n!\n中\n[\nmask\n]\nNa\n##\303\257ve\n";

static hs_bytes bytes_of(const char *text)
{
    return text ? (hs_bytes){text, strlen(text)} : (hs_bytes){NULL, 0};
}

static hs_status create(const char *vocab, const char *json, const char *config, size_t vocab_size,
                        hs_tokenizer **ret, hs_error *err)
{
    const hs_tokenizer_files list = {
        .vocab_txt = bytes_of(vocab), .tokenizer_json = bytes_of(json), .tokenizer_config = bytes_of(config)};
    return hs__tokenizer_create(&list, vocab_size, ret, err);
}

static hs_tokenizer *must_create(const char *vocab, const char *json, const char *config)
{
    hs_tokenizer *tokenizer = NULL;
    hs_error err = {0};
    const hs_status st = create(vocab, json, config, 100, &tokenizer, &err);
    ck_assert_msg(st == HS_OK, "%s", err.text);
    return tokenizer;
}

/* "[CLS] na.w0.t0[0,2] ##ive.w0.t0[2,5] [SEP]": specials that were added are bare. */
static void encode(const hs_tokenizer *tokenizer, const char *text, const char *pair,
                   hs_encode_options options, char ret[1024])
{
    const hs_text texts[] = {{text, strlen(text)}, {pair, pair ? strlen(pair) : 0}};
    hs_encoding encoding = {0};
    hs_error err = {0};
    const hs_status st =
        hs_tokenizer_encode(tokenizer, &texts[0], pair ? &texts[1] : NULL, &options, &encoding, &err);
    ck_assert_msg(st == HS_OK, "%s", err.text);
    ck_assert_uint_le(encoding.n_tokens, options.tokens_max);
    size_t used = 0;
    ret[0] = '\0';
    for (size_t i = 0; i < encoding.n_tokens; i++) {
        const char *token = hs_tokenizer_token(tokenizer, encoding.ids[i]);
        const char *space = i ? " " : "";
        int n;
        if (encoding.special[i]) {
            ck_assert_int_eq(encoding.word_ids[i], -1);
            ck_assert_uint_eq(encoding.starts[i] + encoding.ends[i], 0);
            n = snprintf(ret + used, 1024 - used, "%s%s", space, token);
        } else {
            n = snprintf(ret + used, 1024 - used, "%s%s.w%d.t%d[%u,%u]", space, token, encoding.word_ids[i],
                         encoding.types[i], encoding.starts[i], encoding.ends[i]);
        }
        ck_assert(n > 0);
        used += (size_t)n;
        ck_assert_uint_lt(used, 1024);
    }
    if (encoding.truncated)
        snprintf(ret + used, 1024 - used, " ...");
    hs_encoding_finish(&encoding);
    hs_encoding_finish(&encoding);
}

/* ---- encode ---- */

static const struct {
    const char *text, *pair;
    hs_encode_options options;
    const char *expected;
} encodings[] = {
    {"", NULL, {2, false, 0}, "[CLS] [SEP]"},
    {"", "", {3, false, 0}, "[CLS] [SEP] [SEP]"},
    {"naïve", NULL, {9, false, 0}, "[CLS] naive.w0.t0[0,5] [SEP]"},
    {"x naïve", NULL, {9, false, 0}, "[CLS] [UNK].w0.t0[0,1] naive.w1.t0[2,7] [SEP]"},
    {"A!bc", NULL, {9, false, 0}, "[CLS] a.w0.t0[0,1] !.w1.t0[1,2] b.w2.t0[2,3] ##c.w2.t0[3,4] [SEP]"},
    {"a中b", NULL, {9, false, 0}, "[CLS] a.w0.t0[0,1] 中.w1.t0[1,2] b.w2.t0[2,3] [SEP]"},
    {"a\xc2\xad"
     "b c",
     NULL,
     {9, false, 0},
     "[CLS] a.w0.t0[0,1] ##b.w0.t0[2,3] [UNK].w1.t0[4,5] [SEP]"},
    /* Specials in the text are tokens, but not special ones, unless text is only text. */
    {"a[MASK]b", NULL, {9, false, 0}, "[CLS] a.w0.t0[0,1] [MASK].w1.t0[1,7] b.w2.t0[7,8] [SEP]"},
    {"[MASK]", NULL, {9, true, 0}, "[CLS] [.w0.t0[0,1] mask.w1.t0[1,5] ].w2.t0[5,6] [SEP]"},
    {"[mask]", NULL, {9, false, 0}, "[CLS] [.w0.t0[0,1] mask.w1.t0[1,5] ].w2.t0[5,6] [SEP]"},
    /* Truncation, of pairs longest first. */
    {"a b a", NULL, {5, false, 0}, "[CLS] a.w0.t0[0,1] b.w1.t0[2,3] a.w2.t0[4,5] [SEP]"},
    {"a b a b", NULL, {5, false, 0}, "[CLS] a.w0.t0[0,1] b.w1.t0[2,3] a.w2.t0[4,5] [SEP] ..."},
    {"a", NULL, {2, false, 0}, "[CLS] [SEP] ..."},
    {"abb", NULL, {4, false, 0}, "[CLS] a.w0.t0[0,1] ##b.w0.t0[1,2] [SEP] ..."},
    {"a", "a b a b", {6, false, 0}, "[CLS] a.w0.t0[0,1] [SEP] a.w0.t1[0,1] b.w1.t1[2,3] [SEP] ..."},
    {"a b a b", "a", {6, false, 0}, "[CLS] a.w0.t0[0,1] b.w1.t0[2,3] [SEP] a.w0.t1[0,1] [SEP] ..."},
    {"a b a b", "a b a", {6, false, 0}, "[CLS] a.w0.t0[0,1] b.w1.t0[2,3] [SEP] a.w0.t1[0,1] [SEP] ..."},
    {"a b a", "a b a", {6, false, 0}, "[CLS] a.w0.t0[0,1] [SEP] a.w0.t1[0,1] b.w1.t1[2,3] [SEP] ..."},
    {"a b", "a b", {3, false, 0}, "[CLS] [SEP] [SEP] ..."},
    /* Both are cut: the longer one gets the odd token, the second one if they are as long. */
    {"a b a b a", "a b a b", {6, false, 0}, "[CLS] a.w0.t0[0,1] b.w1.t0[2,3] [SEP] a.w0.t1[0,1] [SEP] ..."},
    {"a b a b a b a b a b a b", "a b a b a", {4, false, 0}, "[CLS] a.w0.t0[0,1] [SEP] [SEP] ..."},
    {"a b a b", "a b a b a", {6, false, 0}, "[CLS] a.w0.t0[0,1] [SEP] a.w0.t1[0,1] b.w1.t1[2,3] [SEP] ..."},
    {"a b a b", "a b a b", {6, false, 0}, "[CLS] a.w0.t0[0,1] [SEP] a.w0.t1[0,1] b.w1.t1[2,3] [SEP] ..."},
    {"a", "b", {SIZE_MAX, false, 0}, "[CLS] a.w0.t0[0,1] [SEP] b.w0.t1[0,1] [SEP]"},
};

START_TEST(encodes)
{
    hs_tokenizer *tokenizer = must_create(plain_vocab, NULL, NULL);
    char got[1024];
    encode(tokenizer, encodings[_i].text, encodings[_i].pair, encodings[_i].options, got);
    ck_assert_str_eq(got, encodings[_i].expected);
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

/* The beginning of a text is cut off, as HuggingFace's tokenizers do with truncation_side left. */
static const struct {
    const char *text, *pair;
    hs_encode_options options;
    const char *expected;
} left[] = {
    {"a b a", NULL, {5, false, 0}, "[CLS] a.w0.t0[0,1] b.w1.t0[2,3] a.w2.t0[4,5] [SEP]"},
    {"b b a b", NULL, {5, false, 0}, "[CLS] b.w1.t0[2,3] a.w2.t0[4,5] b.w3.t0[6,7] [SEP] ..."},
    {"a a a a a b b a b",
     NULL,
     {5, false, 0},
     "[CLS] b.w6.t0[12,13] a.w7.t0[14,15] b.w8.t0[16,17] [SEP] ..."},
    {"a", NULL, {2, false, 0}, "[CLS] [SEP] ..."},
    {"a abb", NULL, {4, false, 0}, "[CLS] ##b.w1.t0[3,4] ##b.w1.t0[4,5] [SEP] ..."},
    {"a[MASK]b", NULL, {4, false, 0}, "[CLS] [MASK].w1.t0[1,7] b.w2.t0[7,8] [SEP] ..."},
    {"a", "a b b a", {6, false, 0}, "[CLS] a.w0.t0[0,1] [SEP] b.w2.t1[4,5] a.w3.t1[6,7] [SEP] ..."},
    {"a b b a", "a b a b a", {6, false, 0}, "[CLS] a.w3.t0[6,7] [SEP] b.w3.t1[6,7] a.w4.t1[8,9] [SEP] ..."},
};

START_TEST(cuts_the_beginning_off)
{
    hs_tokenizer *tokenizer = must_create(plain_vocab, NULL, "{\"truncation_side\":\"left\"}");
    char got[1024];
    ck_assert(hs_tokenizer_cuts_left(tokenizer));
    encode(tokenizer, left[_i].text, left[_i].pair, left[_i].options, got);
    ck_assert_str_eq(got, left[_i].expected);
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

START_TEST(words_lose_their_beginning)
{
    hs_tokenizer *tokenizer = must_create(plain_vocab, NULL, "{\"truncation_side\":\"left\"}");
    const hs_text words[] = {{"a", 1}, {"abb", 3}, {"b", 1}};
    const hs_encode_options options = {.tokens_max = 4};
    hs_encoding encoding = {0};
    ck_assert_int_eq(hs_tokenizer_encode_words(tokenizer, words, 3, &options, &encoding, NULL), HS_OK);
    ck_assert(encoding.truncated && encoding.n_tokens == 4);
    ck_assert_str_eq(hs_tokenizer_token(tokenizer, encoding.ids[1]), "##b");
    ck_assert_str_eq(hs_tokenizer_token(tokenizer, encoding.ids[2]), "b");
    ck_assert(encoding.word_ids[1] == 1 && encoding.word_ids[2] == 2);
    hs_encoding_finish(&encoding);
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

START_TEST(only_two_sides_can_be_cut)
{
    hs_tokenizer *tokenizer = NULL;
    hs_error err = {0};
    ck_assert_int_eq(create(plain_vocab, NULL, "{\"truncation_side\":\"middle\"}", 100, &tokenizer, &err),
                     HS_BAD_MODEL);
    ck_assert_ptr_nonnull(strstr(err.text, "truncation_side must be \"left\" or \"right\", not \"middle\""));
    ck_assert_ptr_null(tokenizer);
}
END_TEST

/* A token, and how people see it in a field of so many bytes. */
static const struct {
    const char *kind, *token, *expected;
    size_t n_bytes;
} readables[] = {
    {NULL, "a b", "a b", 20},
    {"WordPiece", "##\u2581b", "##\u2581b", 20},
    {"Unigram", "\u2581a\u2581", "\u2423a\u2423", 20},
    {"Unigram", "a b\n\x7f", "a\u2423b\u240a\u2421", 20},
    {"byte-level BPE", "\u0120a\u010a\u0121", "\u2423a\u240a\u2421", 20}, /* a space, a, LF, DEL */
    {"byte-level BPE", "\u00e2\u0123", "\u27e8E2\u27e9\u27e881\u27e9", 40},
    {"byte-level BPE", "\u00c3\u00a9\u0143", "\u00e9\u27e8AD\u27e9", 20},
    {"byte-level BPE", "<a b>", "<a\u2423b>", 20},  /* an added token, */
    {"byte-level BPE", "<\u4e2d>", "<\u4e2d>", 20}, /* which is text already */
    {"byte-level BPE", "<\u0144>", "<\u0144>", 20},
    {"Unigram", "abc", "ab", 3},
    {"Unigram", "a\u2581b", "a", 4}, /* nothing follows what did not fit */
};

START_TEST(tokens_are_readable)
{
    char text[40];
    hs_token_readable(readables[_i].kind, readables[_i].token, text, readables[_i].n_bytes);
    ck_assert_str_eq(text, readables[_i].expected);
}
END_TEST

START_TEST(texts_and_limits_that_cannot_be_are_refused)
{
    hs_tokenizer *tokenizer = must_create(plain_vocab, NULL, NULL);
    const hs_text large = {"", (size_t)INT32_MAX + 1}, word = {"a", 1};
    const hs_encode_options options = {.tokens_max = 20}, few = {.tokens_max = 1};
    hs_encoding encoding = {0};
    hs_error err = {0};
    ck_assert_int_eq(hs_tokenizer_encode(tokenizer, &large, NULL, &options, &encoding, &err), HS_TOO_LARGE);
    ck_assert_msg(strstr(err.text, "has 2147483648 bytes, more than 2147483647"), "%s", err.text);
    err = (hs_error){0};
    ck_assert_int_eq(hs_tokenizer_encode_words(tokenizer, &word, 1, &few, &encoding, &err), HS_INVALID);
    ck_assert_msg(strstr(err.text, "max_tokens is 1; this model's special tokens alone take 2"), "%s",
                  err.text);
    ck_assert_ptr_null(encoding.ids);
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

/* Words of 100 characters are looked up, of 101 not; characters are counted after normalisation. */
START_TEST(long_words_are_unknown)
{
    hs_tokenizer *tokenizer = must_create(plain_vocab, NULL, NULL);
    char text[256];
    char got[1024];
    const hs_encode_options options = {.tokens_max = 4};
    memset(text, 'b', sizeof text);
    text[0] = 'a';
    text[100] = '\0';
    encode(tokenizer, text, NULL, options, got);
    ck_assert_str_eq(got, "[CLS] a.w0.t0[0,1] ##b.w0.t0[1,2] [SEP] ...");
    snprintf(text + 100, sizeof text - 100, "\xcc\x81"); /* an accent, which vanishes */
    encode(tokenizer, text, NULL, options, got);
    ck_assert_str_eq(got, "[CLS] a.w0.t0[0,1] ##b.w0.t0[1,2] [SEP] ...");
    snprintf(text + 100, sizeof text - 100,
             "\xcc\x81"
             "b");
    encode(tokenizer, text, NULL, options, got);
    ck_assert_str_eq(got, "[CLS] [UNK].w0.t0[0,102] [SEP]");
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

static const struct {
    const char *bytes;
    size_t n_bytes, bad;
} invalid_utf8[] = {
    {"\x80", 1, 0},
    {"ab\xff", 3, 2},
    {"abcdefghij\xc3", 11, 10},
    {"\xc0\xaf", 2, 0},         /* overlong */
    {"\xe0\x80\xaf", 3, 0},     /* overlong */
    {"\xf0\x80\x80\xaf", 4, 0}, /* overlong */
    {"a\xed\xa0\x80", 4, 1},    /* a surrogate */
    {"\xf4\x90\x80\x80", 4, 0}, /* beyond U+10FFFF */
    {"\xf5\x80\x80\x80", 4, 0},
    {"\xe4\xb8", 2, 0},
    {"\xe4\xb8z", 3, 0},
    {"\xe4\xb8\xad\xf0\x9f\x98", 6, 3},
};

START_TEST(invalid_utf8_is_refused_with_its_byte)
{
    hs_tokenizer *tokenizer = must_create(plain_vocab, NULL, NULL);
    const hs_text good = {"a", 1};
    /* Exactly as long as it is, so that reading further is seen. */
    char *copy = malloc(invalid_utf8[_i].n_bytes);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, invalid_utf8[_i].bytes, invalid_utf8[_i].n_bytes);
    const hs_text bad = {copy, invalid_utf8[_i].n_bytes};
    const hs_encode_options options = {.tokens_max = 5};
    hs_encoding encoding = {0};
    char where[32];
    snprintf(where, sizeof where, "at byte %zu", invalid_utf8[_i].bad);
    hs_error err = {0};
    ck_assert_int_eq(hs_tokenizer_encode(tokenizer, &bad, NULL, &options, &encoding, &err), HS_BAD_REQUEST);
    ck_assert_msg(strstr(err.text, where) != NULL, "%s", err.text);
    err = (hs_error){0};
    ck_assert_int_eq(hs_tokenizer_encode(tokenizer, &good, &bad, &options, &encoding, &err), HS_BAD_REQUEST);
    ck_assert_msg(strstr(err.text, "second") && strstr(err.text, where), "%s", err.text);
    ck_assert_ptr_null(encoding.ids);
    free(copy);
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

START_TEST(special_tokens_need_space)
{
    hs_tokenizer *tokenizer = must_create(plain_vocab, NULL, NULL);
    const hs_text text = {"a", 1};
    hs_encoding encoding = {0};
    hs_encode_options options = {.tokens_max = 1};
    ck_assert_int_eq(hs_tokenizer_encode(tokenizer, &text, NULL, &options, &encoding, NULL), HS_INVALID);
    options.tokens_max = 2;
    ck_assert_int_eq(hs_tokenizer_encode(tokenizer, &text, &text, &options, &encoding, NULL), HS_INVALID);
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

START_TEST(nul_is_a_character_that_vanishes)
{
    hs_tokenizer *tokenizer = must_create(plain_vocab, NULL, NULL);
    const hs_text text = {"a\0b", 3};
    const hs_encode_options options = {.tokens_max = 9};
    hs_encoding encoding = {0};
    ck_assert_int_eq(hs_tokenizer_encode(tokenizer, &text, NULL, &options, &encoding, NULL), HS_OK);
    ck_assert_uint_eq(encoding.n_tokens, 4);
    ck_assert_str_eq(hs_tokenizer_token(tokenizer, encoding.ids[2]), "##b");
    ck_assert_uint_eq(encoding.starts[2], 2);
    hs_encoding_finish(&encoding);
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

/* ---- look up ---- */

START_TEST(looks_up_tokens)
{
    hs_tokenizer *tokenizer = must_create(plain_vocab, NULL, NULL);
    ck_assert_uint_eq(hs_tokenizer_vocab_size(tokenizer), 100);
    ck_assert_int_eq(hs_tokenizer_id(tokenizer, "##ive", 5), 11);
    ck_assert_int_eq(hs_tokenizer_id(tokenizer, "##iv", 4), -1);
    ck_assert_int_eq(hs_tokenizer_id(tokenizer, "", 0), -1);
    ck_assert_str_eq(hs_tokenizer_token(tokenizer, 11), "##ive");
    ck_assert_str_eq(hs_tokenizer_token(tokenizer, -1), "[UNK]");
    ck_assert_str_eq(hs_tokenizer_token(tokenizer, 50), "[UNK]"); /* a hole */
    ck_assert_str_eq(hs_tokenizer_token(tokenizer, 100), "[UNK]");
    const hs_special_ids *ids = hs_tokenizer_special_ids(tokenizer);
    ck_assert(ids->pad == 0 && ids->unk == 1 && ids->cls == 2 && ids->sep == 3 && ids->mask == 4);
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

/* By the special token or the text, with the mark of a space or without; not by what stands in a word. */
START_TEST(texts_determine_roles)
{
    static const struct {
        const char *token;
        hs_role role;
    } roles[] = {
        {"[PAD]", HS_ROLE_OTHER},
        {"[CLS]", HS_ROLE_FIRST},
        {"[SEP]", HS_ROLE_SEPARATOR},
        {".", HS_ROLE_SENTENCE_END},
        {"\u0120.", HS_ROLE_SENTENCE_END},
        {"\u2581?", HS_ROLE_SENTENCE_END},
        {" !", HS_ROLE_SENTENCE_END},
        {"?!", HS_ROLE_SENTENCE_END},
        {".\"", HS_ROLE_SENTENCE_END},
        {"!')", HS_ROLE_SENTENCE_END},
        {",", HS_ROLE_COMMA},
        {"\u0120,", HS_ROLE_COMMA},
        {",,", HS_ROLE_OTHER},
        {"##.", HS_ROLE_OTHER},
        {"a.", HS_ROLE_OTHER},
        {".com", HS_ROLE_OTHER},
        {"\"", HS_ROLE_OTHER},
        {"\u0120", HS_ROLE_OTHER},
    };
    char vocab[256] = "[UNK]\n";
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        strcat(vocab, roles[i].token);
        strcat(vocab, "\n");
    }
    hs_tokenizer *tokenizer = must_create(vocab, NULL, NULL);
    for (int32_t i = 0; i < (int32_t)(sizeof roles / sizeof *roles); i++)
        ck_assert_msg(hs_tokenizer_role(tokenizer, i + 1) == roles[i].role, "%s", roles[i].token);
    ck_assert_int_eq(hs_tokenizer_role(tokenizer, -1), HS_ROLE_OTHER);
    ck_assert_int_eq(hs_tokenizer_role(tokenizer, 99), HS_ROLE_OTHER);
    const hs_text text = {"[SEP]? x.", 9};
    const hs_encode_options options = {.tokens_max = 9};
    static const uint8_t expected[] = {HS_ROLE_FIRST, HS_ROLE_SEPARATOR,    HS_ROLE_OTHER,
                                       HS_ROLE_OTHER, HS_ROLE_SENTENCE_END, HS_ROLE_SEPARATOR};
    hs_encoding encoding = {0};
    ck_assert_int_eq(hs_tokenizer_encode(tokenizer, &text, NULL, &options, &encoding, NULL), HS_OK);
    ck_assert_uint_eq(encoding.n_tokens, sizeof expected);
    ck_assert_mem_eq(encoding.roles, expected, sizeof expected);
    hs_encoding_finish(&encoding);
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

/* ---- vocab.txt and tokenizer_config.json ---- */

static const struct {
    const char *vocab, *config, *text, *expected;
} files[] = {
    {"[UNK]\r\n[CLS]\r\n[SEP]\r\na", NULL, "a [MASK]",
     "[CLS] a.w0.t0[0,1] [MASK].w1.t0[2,8] [SEP]"}, /* it gets the next id */
    {"[UNK]\r[CLS]\r[SEP]\ra\r", NULL, "a", "[CLS] a.w0.t0[0,1] [SEP]"},
    {SPECIAL "\n\na\n\n", NULL, "a", "[CLS] a.w0.t0[0,1] [SEP]"},
    {plain_vocab, "{}", "Naïve", "[CLS] naive.w0.t0[0,5] [SEP]"},
    {plain_vocab, "{\"tokenizer_class\":\"ElectraTokenizer\"}", "Naïve", "[CLS] naive.w0.t0[0,5] [SEP]"},
    {plain_vocab, "{\"do_lower_case\":false}", "Naïve", "[CLS] Na.w0.t0[0,2] ##ïve.w0.t0[2,5] [SEP]"},
    {plain_vocab, "{\"do_lower_case\":true,\"strip_accents\":false}", "Naïve",
     "[CLS] na.w0.t0[0,2] ##ïve.w0.t0[2,5] [SEP]"},
    {plain_vocab, "{\"do_lower_case\":false,\"strip_accents\":true}", "Naïve",
     "[CLS] Na.w0.t0[0,2] ##ive.w0.t0[2,5] [SEP]"},
    {plain_vocab, "{\"tokenize_chinese_chars\":false}", "a中", "[CLS] [UNK].w0.t0[0,2] [SEP]"},
    {plain_vocab,
     "{\"cls_token\":\"a\",\"sep_token\":{\"content\":\"b\"},\"unk_token\":\"!\",\"mask_token\":\"none\","
     "\"tokenizer_class\":\"BertTokenizer\",\"never_split\":null,\"model_max_length\":"
     "1000000000000000019884624838656}",
     "x a", "a !.w0.t0[0,1] a.w1.t0[2,3] b"},
    {plain_vocab, "{\"additional_special_tokens\":[\"na\",\"absent\"]}", "naive",
     "[CLS] na.w0.t0[0,2] [UNK].w1.t0[2,5] [SEP]"},
    /* transformers 5 has more keys for them, of which the newer one counts before the older one */
    {plain_vocab, "{\"extra_special_tokens\":[\"na\"],\"additional_special_tokens\":[\"!\"]}", "naive!",
     "[CLS] na.w0.t0[0,2] [UNK].w1.t0[2,5] !.w2.t0[5,6] [SEP]"},
    {plain_vocab, "{\"extra_special_tokens\":[{\"content\":\"na\",\"rstrip\":true}]}", "na a",
     "[CLS] na.w0.t0[0,3] a.w1.t0[3,4] [SEP]"},
    {plain_vocab, "{\"extra_special_tokens\":{\"user_token\":\"@u\"}}", "a@ua",
     "[CLS] a.w0.t0[0,1] @u.w1.t0[1,3] a.w2.t0[3,4] [SEP]"},
    {plain_vocab, "{\"extra_special_tokens\":[],\"additional_special_tokens\":[\"@u\"]}", "a@ua",
     "[CLS] a.w0.t0[0,1] @u.w1.t0[1,3] a.w2.t0[3,4] [SEP]"},
    {plain_vocab, "{\"user_token\":\"@u\",\"model_specific_special_tokens\":{\"x\":\"a\"}}", "a@ua",
     "[CLS] a.w0.t0[0,1] @u.w1.t0[1,3] a.w2.t0[3,4] [SEP]"},
    {plain_vocab, "{\"model_specific_special_tokens\":{\"user_token\":\"@u\"}}", "a@ua",
     "[CLS] a.w0.t0[0,1] @u.w1.t0[1,3] a.w2.t0[3,4] [SEP]"},
    {plain_vocab, "{\"split_special_tokens\":true}", "[MASK]",
     "[CLS] [.w0.t0[0,1] mask.w1.t0[1,5] ].w2.t0[5,6] [SEP]"},
    {plain_vocab,
     "{\"added_tokens_decoder\":{\"4\":{\"content\":\"[MASK]\",\"special\":true},"
     "\"30\":{\"content\":\"<E>\",\"normalized\":true}}}",
     "<e>[MASK]", "[CLS] <E>.w0.t0[0,3] [MASK].w1.t0[3,9] [SEP]"},
};

START_TEST(reads_vocab_txt_and_config)
{
    hs_tokenizer *tokenizer = must_create(files[_i].vocab, NULL, files[_i].config);
    char got[1024];
    encode(tokenizer, files[_i].text, NULL, (hs_encode_options){.tokens_max = 20}, got);
    ck_assert_str_eq(got, files[_i].expected);
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

static const struct {
    const char *vocab, *config, *message;
} refused_files[] = {
    {NULL, NULL, "BertTokenizer needs tokenizer.json or vocab.txt"},
    {"", NULL, "vocab.txt: the vocabulary has no token '[CLS]'"},
    {"[CLS]\n[SEP]\n", NULL, "'[UNK]'"},
    {SPECIAL "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\nx\n", NULL, "vocab_size, 20"},
    {SPECIAL "a\xff\n", NULL, "vocab.txt, line 6: a token is not valid UTF-8"},
    {SPECIAL, "[]", "tokenizer_config.json: not a JSON object"},
    {SPECIAL, "{", "tokenizer_config.json: not valid JSON"},
    {SPECIAL, "{\"do_lower_case\":1}", "tokenizer_config.json: 'do_lower_case' must be true or false"},
    {SPECIAL, "{\"strip_accents\":\"yes\"}", "'strip_accents'"},
    {SPECIAL, "{\"tokenize_chinese_chars\":[]}", "'tokenize_chinese_chars'"},
    {SPECIAL, "{\"mask_token\":3}", "'mask_token' must be a string"},
    {SPECIAL, "{\"cls_token\":\"absent\"}", "no token 'absent'"},
    {SPECIAL, "{\"extra_special_tokens\":\"x\"}",
     "extra_special_tokens must be a list of tokens, or an object of names and tokens"},
    {SPECIAL, "{\"extra_special_tokens\":[1]}", "extra_special_tokens must be a list of tokens"},
    {SPECIAL, "{\"additional_special_tokens\":{\"x\":[]}}", "additional_special_tokens must be"},
    {SPECIAL, "{\"model_specific_special_tokens\":3}", "model_specific_special_tokens must be"},
    {SPECIAL, "{\"split_special_tokens\":1}", "'split_special_tokens' must be true or false"},
    {SPECIAL, "{\"add_bos_token\":false}", "add_bos_token is not supported for this tokenizer_class"},
    {SPECIAL, "{\"add_eos_token\":true}", "add_eos_token is not supported for this tokenizer_class"},
    {"<cls>\n<eos>\n<unk>\n<pad>\n<mask>\n",
     "{\"tokenizer_class\":\"EsmTokenizer\",\"split_special_tokens\":true}",
     "split_special_tokens is not supported for this tokenizer_class"},
    {SPECIAL, "{\"tokenizer_class\":\"TapasTokenizer\"}", "'TapasTokenizer' is not supported"},
    {SPECIAL, "{\"tokenizer_class\":\"BertJapaneseTokenizer\",\"word_tokenizer_type\":\"x\"}",
     "word_tokenizer_type 'x' is not supported; supported: basic, mecab"},
    {SPECIAL, "{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}", "is not supported"},
    {SPECIAL, "{\"added_tokens_decoder\":{\"x\":{\"content\":\"y\"}}}", "'x' is not an id"},
    {SPECIAL, "{\"added_tokens_decoder\":{\"1044\":{\"content\":\"y\"}}}",
     "'1044' is not an id from 0 to 1043"},
    {SPECIAL, "{\"added_tokens_decoder\":{\"-1\":{\"content\":\"y\"}}}", "'-1' is not an id"},
    {SPECIAL, "{\"added_tokens_decoder\":{\"3\":{\"content\":\"y\"}}}", "same id, 3"},
    {SPECIAL, "{\"added_tokens_decoder\":{\"9\":{\"content\":\"[SEP]\"}}}", "has id 9, but the vocabulary"},
    {SPECIAL, "{\"added_tokens_decoder\":{\"9\":{\"content\":\"\"}}}", "no 'content'"},
    {SPECIAL, "{\"added_tokens_decoder\":{\"9\":{\"content\":\"\\u0301\",\"normalized\":true}}}",
     "normalising leaves nothing of"},
};

START_TEST(refuses_what_is_not_bert)
{
    hs_tokenizer *tokenizer = NULL;
    hs_error err = {0};
    ck_assert_int_eq(create(refused_files[_i].vocab, NULL, refused_files[_i].config, 20, &tokenizer, &err),
                     HS_BAD_MODEL);
    ck_assert_msg(strstr(err.text, refused_files[_i].message) != NULL, "%s", err.text);
    ck_assert_ptr_null(tokenizer);
}
END_TEST

START_TEST(refuses_nul_and_endless_lines)
{
    static char vocab[2000] = SPECIAL "a\0b";
    hs_tokenizer *tokenizer = NULL;
    hs_error err = {0};
    hs_tokenizer_files list = {.vocab_txt = {vocab, sizeof SPECIAL + 2}};
    ck_assert_int_eq(hs__tokenizer_create(&list, 20, &tokenizer, &err), HS_BAD_MODEL);
    ck_assert_msg(strstr(err.text, "line 6: a token contains NUL") != NULL, "%s", err.text);
    memset(vocab + sizeof SPECIAL - 1, 'x', sizeof vocab - sizeof SPECIAL);
    list.vocab_txt.size = sizeof vocab;
    err = (hs_error){0};
    ck_assert_int_eq(hs__tokenizer_create(&list, 20, &tokenizer, &err), HS_BAD_MODEL);
    ck_assert_msg(strstr(err.text, "more than 1024") != NULL, "%s", err.text);
}
END_TEST

/* ---- parts of tokenizer.json ---- */

#define VOCAB_JSON           "\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,\"a\":3,\"@@b\":4,\"A\":5,\"b\":6"
#define MODEL(more)          "\"model\":{\"type\":\"WordPiece\",\"vocab\":{" VOCAB_JSON "}" more "},"
#define NORMALIZER           "\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":true},"
#define PRE                  "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
#define BERT_POST            "{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",2],\"cls\":[\"[CLS]\",1]}"
#define SPLIT(options)       "\"pre_tokenizer\":{\"type\":\"Split\"," options "},"
#define POST                 "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",2],\"cls\":[\"[CLS]\",1]}"
#define STEP(kind, id, type) "{\"" kind "\":{\"id\":\"" id "\",\"type_id\":" type "}}"
#define TEMPLATE(last_type)                                                                                     \
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[" STEP("SpecialToken", "A", "0") "," STEP( \
        "Sequence", "A",                                                                                        \
        "0") "," STEP("SpecialToken", "[SEP]",                                                                  \
                      "0") "],\"pair\":[" STEP("SpecialToken", "A",                                             \
                                               "0") "," STEP("Sequence", "A",                                   \
                                                             "0") "," STEP("SpecialToken", "[SEP]",             \
                                                                           "0") "," STEP("Sequence", "B",       \
                                                                                         "1") "," STEP("Spe"    \
                                                                                                       "cia"    \
                                                                                                       "lTo"    \
                                                                                                       "ke"     \
                                                                                                       "n",     \
                                                                                                       "[SE"    \
                                                                                                       "P]",    \
                                                                                                       last_type) "]}"
#define ADDED(list) ",\"added_tokens\":[" list "]"
#define ROBERTA_POST(more)                                                                                   \
    "{\"type\":\"RobertaProcessing\",\"sep\":[\"[SEP]\",2],\"cls\":[\"[CLS]\",1]" more "}"
#define SINGLE(steps)                                                                                        \
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[" steps                                 \
    "],\"pair\":[" STEP("Sequence", "A", "0") "," STEP("Sequence", "B", "1") "]}"
#define TWO   STEP("SpecialToken", "[SEP]", "0") "," STEP("SpecialToken", "[SEP]", "0")
#define EIGHT TWO "," TWO "," TWO "," TWO
#define FOUR  "{\"type\":\"NFC\"},{\"type\":\"NFD\"},{\"type\":\"NFC\"},{\"type\":\"NFD\"}"
#define REPLACE(pattern, content)                                                                            \
    "\"normalizer\":{\"type\":\"Replace\",\"pattern\":" pattern ",\"content\":" content "},"
#define METASPACE(options) "\"pre_tokenizer\":{\"type\":\"Metaspace\"," options "},"
#define PRECOMPILED(charsmap)                                                                                \
    "\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":" charsmap "},"
#define UNIGRAM(vocab, unk) "\"model\":{\"type\":\"Unigram\",\"vocab\":" vocab ",\"unk_id\":" unk "},"
#define SEVEN_PIECES(letter)                                                                                 \
    "[\"" letter "1\",0],[\"" letter "2\",0],[\"" letter "3\",0],[\"" letter "4\",0],[\"" letter             \
    "5\",0],[\"" letter "6\",0],[\"" letter "7\",0]"

/* ---- older folders: test_tokenizer_oracle.c reads those that are whole ---- */

static const struct {
    hs_tokenizer_files files;
    const char *message;
} refused_folders[] = {
#define FILE_OF(text)                                                                                        \
    {                                                                                                        \
        text, sizeof(text) - 1                                                                               \
    }
    {{.config = FILE_OF("{\"model_type\":\"roberta\"}")},
     "RobertaTokenizer needs tokenizer.json or vocab.json"},
    {{.config = FILE_OF("{\"model_type\":\"roberta\"}"), .vocab_json = FILE_OF("{\"<s>\":0}")},
     "RobertaTokenizer needs tokenizer.json or merges.txt"},
    {{.config = FILE_OF("{\"model_type\":\"roberta\"}"),
      .vocab_json = FILE_OF("{\"<s>\":0,\"</s>\":1}"),
      .merges_txt = FILE_OF("#version: 0.2\na b\n")},
     "number 0, 'a b' and 'b'"},
    {{.config = FILE_OF("{\"model_type\":\"xlm-roberta\"}")},
     "XLMRobertaTokenizer needs tokenizer.json or a sentencepiece model"},
    {{.config = FILE_OF("{\"model_type\":\"albert\"}"), .sentencepiece = FILE_OF("\x0a\x7f")},
     "is truncated or malformed"},
    {{.config = FILE_OF("{\"model_type\":\"albert\"}"),
      .sentencepiece = FILE_OF("\x0a\x03\x0a\x01"
                               "a\x12\x02\x18\x02")},
     "model_type 2; supported: 1, Unigram"},
#define PIECE "\x0a\x03\x0a\x01!"
#define SEVEN PIECE PIECE PIECE PIECE PIECE PIECE PIECE
    {{.config = FILE_OF("{\"model_type\":\"albert\"}"), .sentencepiece = FILE_OF(SEVEN SEVEN SEVEN)},
     "has 21 pieces, more than config.json's vocab_size, 20"},
    {{.config = FILE_OF("{\"model_type\":\"camembert\"}"),
      .sentencepiece = FILE_OF(PIECE PIECE PIECE PIECE "\x0a\x08\x0a\x01T\x15\xff\xff\xff\xff")},
     "'T' has a score that is not finite"},
    {{.tokenizer_config = FILE_OF("{\"tokenizer_class\":\"DebertaV2Tokenizer\",\"split_by_punct\":true}"),
      .sentencepiece = FILE_OF("\x0a\x03\x0a\x01"
                               "a")},
     "split_by_punct is not supported"},
    {{.tokenizer_config = FILE_OF("{\"tokenizer_class\":\"T5Tokenizer\",\"extra_ids\":-1}"),
      .sentencepiece = FILE_OF(PIECE PIECE PIECE)},
     "extra_ids must be an integer from 0 to 10000"},
    {{.tokenizer_config = FILE_OF("{\"tokenizer_class\":\"T5TokenizerFast\",\"extra_ids\":1.5}"),
      .sentencepiece = FILE_OF(PIECE PIECE PIECE)},
     "extra_ids must be an integer from 0 to 10000"},
    {{.config = FILE_OF("{\"model_type\":\"marian\"}")},
     "MarianTokenizer needs source.spm, target.spm and vocab.json; the folder has no source.spm"},
    {{.config = FILE_OF("{\"model_type\":\"marian\"}"),
      .source_sentencepiece = FILE_OF(PIECE),
      .vocab_json = FILE_OF("{\"<unk>\":0}")},
     "the folder has no target.spm"},
    {{.tokenizer_config = FILE_OF("{\"tokenizer_class\":\"MarianTokenizer\"}"),
      .tokenizer_json = FILE_OF("{}"),
      .source_sentencepiece = FILE_OF(PIECE),
      .target_sentencepiece = FILE_OF(PIECE)},
     "the folder has no vocab.json"},
#define MARIAN_FOLDER(pieces, ids)                                                                           \
    {                                                                                                        \
        .config = FILE_OF("{\"model_type\":\"marian\"}"), .source_sentencepiece = FILE_OF(pieces),           \
        .target_sentencepiece = FILE_OF(pieces), .vocab_json = FILE_OF(ids)                                  \
    }
#define MARK_PIECE "\x0a\x05\x0a\x03\u2581"
    {MARIAN_FOLDER(PIECE, "{\"<unk>\":0}"), "the sentencepiece model has no piece '\u2581'"},
    {MARIAN_FOLDER(MARK_PIECE "\x1a\x03\x12\x01!", "{\"<unk>\":0}"),
     "the normalizer's precompiled_charsmap is truncated or malformed"},
    {MARIAN_FOLDER(MARK_PIECE, "{\"<unk>\":20}"), "vocab.json: the id of '<unk>' must be below"},
    {MARIAN_FOLDER(MARK_PIECE, "{\"<unk>\":0,\"a\":0}"), "vocab.json has id 0 twice"},
    {MARIAN_FOLDER(MARK_PIECE, "{\"</s>\":0}"), "vocab.json: the vocabulary has no token '<unk>'"},
    {{.config = FILE_OF("{\"model_type\":\"m2m_100\"}"), .vocab_json = FILE_OF("{\"<unk>\":0}")},
     "M2M100Tokenizer needs vocab.json and sentencepiece.bpe.model; the folder has no sentencepiece"},
#define M2M100_FOLDER(codes, pieces)                                                                         \
    {                                                                                                        \
        .tokenizer_config =                                                                                  \
            FILE_OF("{\"tokenizer_class\":\"M2M100Tokenizer\",\"language_codes\":\"" codes "\"}"),           \
        .sentencepiece = FILE_OF(pieces), .vocab_json = FILE_OF("{\"<unk>\":0,\"</s>\":1}")                  \
    }
#define IS_BPE "\x12\x02\x18\x02"
    {M2M100_FOLDER("m2m", MARK_PIECE), "language_codes is 'm2m'; supported: m2m100, wmt21"},
    {M2M100_FOLDER("wmt21", MARK_PIECE "\x0a\x06\x0a\x04\u2581!" IS_BPE),
     "the sentencepiece model: no piece is the character '!' of '\u2581!'"},
    {M2M100_FOLDER("wmt21", MARK_PIECE "\x12\x02\x18\x03"),
     "model_type 3; supported: 1, Unigram, and 2, BPE"},
    {M2M100_FOLDER("m2m100", MARK_PIECE), "vocab.json: the id of '__"},
    {{.config = FILE_OF("{\"model_type\":\"modernbert\"}"), .vocab_txt = FILE_OF(SPECIAL)},
     "a model of type 'modernbert' needs tokenizer.json; the folder has none. To make tokenizer.json, run "
     "(with"},
    {{.config = FILE_OF("{\"model_type\":\"bert\",\"tokenizer_class\":\"XLNetTokenizer\"}"),
      .vocab_txt = FILE_OF(SPECIAL)},
     "tokenizer_class 'XLNetTokenizer' is not supported without tokenizer.json"},
    {{.config = FILE_OF("{\"model_type\":\"bert\",\"tokenizer_class\":\"BertJapaneseTokenizer\"}"),
      .tokenizer_json = FILE_OF("{}")},
     "tokenizer.json: model.type is 'none'"},
    {{.tokenizer_config = FILE_OF("{\"tokenizer_class\":\"BertJapaneseTokenizer\"}"),
      .tokenizer_json = FILE_OF("{}")},
     "BertJapaneseTokenizer needs vocab.txt; the folder has none"},
    {{.config = FILE_OF("{\"model_type\":\"biogpt\"}"), .vocab_json = FILE_OF("{\"</s>\":0}")},
     "'BioGptTokenizer' is not supported: transformers has it in Python"},
    {{.vocab_txt = FILE_OF(SPECIAL), .added_tokens = FILE_OF("{\"<ent>\":1044}")},
     "'<ent>' must have an id from 0 to 1043"},
    {{.vocab_txt = FILE_OF(SPECIAL), .added_tokens = FILE_OF("{\"[SEP]\":9}")},
     "has id 9, but the vocabulary"},
    {{.vocab_txt = FILE_OF(SPECIAL), .special_tokens_map = FILE_OF("[]")},
     "special_tokens_map.json: not a JSON object"},
    {{.vocab_txt = {"", (size_t)1 << 31}}, "vocab.txt has 2147483648 bytes, more than"},
    {{.config = FILE_OF("{\"model_type\":\"esm\"}"), .vocab_txt = FILE_OF("a\xff")},
     "vocab.txt, line 1: a token is not valid UTF-8"},
    {{.config = FILE_OF("{\"model_type\":\"roberta\"}"),
      .vocab_json = FILE_OF("{\"<s>\":0,\"</s>\":1}"),
      .merges_txt = FILE_OF("#version: 0.2\na \xff\n")},
     "merges.txt, line 2: a token is not valid UTF-8"},
    {{.tokenizer_config = FILE_OF("{\"tokenizer_class\":\"ByT5Tokenizer\"}"),
      .tokenizer_json = FILE_OF("{}")},
     "tokenizer_class 'ByT5Tokenizer' is not supported: transformers has it in Python"},
    {{.tokenizer_json = FILE_OF("{" MODEL("") PRECOMPILED("\"!\"") PRE POST "}")},
     "the normalizer's precompiled_charsmap is not base64"},
    {{.tokenizer_json = FILE_OF("{" MODEL("") PRECOMPILED("\"BAAAAAAAAAD/\"") PRE POST "}")},
     "the normalizer's precompiled_charsmap has text that is not UTF-8"},
#define ALBERT_CONFIG(config)                                                                                \
    .tokenizer_config = FILE_OF("{\"tokenizer_class\":\"AlbertTokenizer\"," config "}")
    {{ALBERT_CONFIG("\"do_lower_case\":1"), .sentencepiece = FILE_OF(PIECE PIECE PIECE)},
     "'do_lower_case' must be true or false"},
    {{ALBERT_CONFIG("\"add_prefix_space\":1"), .sentencepiece = FILE_OF(PIECE PIECE PIECE)},
     "'add_prefix_space' must be true or false"},
    {{ALBERT_CONFIG("\"cls_token\":3"), .sentencepiece = FILE_OF(PIECE PIECE PIECE)},
     "'cls_token' must be a string"},
    {{ALBERT_CONFIG("\"x\":1"), .sentencepiece = FILE_OF(PIECE "\x12\x03\xc0\x02\x01")},
     "unk_id is not the number of a piece"},
    /* what is unknown is skipped: a field of 8 bytes */
    {{ALBERT_CONFIG("\"x\":1"), .sentencepiece = FILE_OF(PIECE "\x79\1\2\3\4\5\6\7\x8\x12\x02\x18\x02")},
     "model_type 2; supported: 1, Unigram"},
#define MALFORMED(bytes)                                                                                     \
    {                                                                                                        \
        {ALBERT_CONFIG("\"x\":1"), .sentencepiece = FILE_OF(PIECE bytes)}, "is truncated or malformed"       \
    }
    MALFORMED("\x80"),                                                  /* half a key */
    MALFORMED("\x78\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),      /* a number of 11 bytes */
    MALFORMED("\x0a"),                                                  /* bytes without a length */
    MALFORMED("\x79\1\2"),                                              /* 2 of 8 bytes */
    MALFORMED("\x0b"),                                                  /* a group, which has no length */
    MALFORMED("\x0a\x01\x0a"),                                          /* the same in a piece, */
    MALFORMED("\x12\x01\x18"),                                          /* in the trainer's options, */
    MALFORMED("\x1a\x01\x12"),                                          /* and in the normalizer's */
    {MARIAN_FOLDER(MARK_PIECE "\x12\x03\xc0\x01\x01", "{\"<unk>\":0}"), /* spaces stand behind words */
     "treats white space or unknown characters in a way that is not supported"},
    {MARIAN_FOLDER(MARK_PIECE "\x1a\x02\x18\x00", "{\"<unk>\":0}"), /* no space before a text */
     "treats white space or unknown characters in a way that is not supported"},
    {MARIAN_FOLDER(MARK_PIECE "\x0a\x05\x0a\x01!\x18\x04", "{\"<unk>\":0}"),
     "the piece '!' is not supported: it is not of the normal kind, or crosses words"},
    {MARIAN_FOLDER(MARK_PIECE "\x0a\x08\x0a\x01T\x15\xff\xff\xff\xff", "{\"<unk>\":0}"),
     "'T' has a score that is not finite"},
#define MARIAN_CONFIG(config)                                                                                \
    {                                                                                                        \
        .tokenizer_config = FILE_OF("{\"tokenizer_class\":\"MarianTokenizer\"," config "}"),                 \
        .source_sentencepiece = FILE_OF(MARK_PIECE), .target_sentencepiece = FILE_OF(MARK_PIECE),            \
        .vocab_json = FILE_OF("{\"<unk>\":0}")                                                               \
    }
    {MARIAN_CONFIG("\"sp_model_kwargs\":{\"enable_sampling\":true}"), "sp_model_kwargs is not supported"},
    {MARIAN_CONFIG("\"separate_vocabs\":true"), "separate_vocabs is not supported"},
};

START_TEST(refuses_older_folders_by_name)
{
    hs_tokenizer *tokenizer = NULL;
    hs_error err = {0};
    ck_assert_int_eq(hs__tokenizer_create(&refused_folders[_i].files, 20, &tokenizer, &err), HS_BAD_MODEL);
    ck_assert_msg(strstr(err.text, refused_folders[_i].message) != NULL, "%s", err.text);
    ck_assert_ptr_null(tokenizer);
}
END_TEST

/* Classes of byte pairs and letters whose files do not say their pipeline or template. */
static const struct {
    hs_tokenizer_files files;
    const char *text, *pair, *expected;
} older_folders[] = {
#define PAIRS(config, more)                                                                                  \
    {                                                                                                        \
        .tokenizer_config = FILE_OF("{" config "}"),                                                         \
        .vocab_json = FILE_OF("{\"<|endoftext|>\":0,\"a\":1,\"b\":2,\"\u0120\":3,\"ab\":4,\"\u00c3\":5,"     \
                              "\"\u00a9\":6,\"1\":7,\"11\":8" more "}"),                                     \
        .merges_txt = FILE_OF("#version: 0.2\na b\n1 1\n")                                                   \
    }
    {PAIRS("\"tokenizer_class\":\"GPT2Tokenizer\"", ""), "ab <|endoftext|>11", NULL,
     "ab.w0.t0[0,2] \u0120.w1.t0[2,3] <|endoftext|>.w2.t0[3,16] 11.w3.t0[16,18]"},
    {PAIRS("\"tokenizer_class\":\"GPT2TokenizerFast\",\"add_bos_token\":true", ""), "a", "b",
     "<|endoftext|> a.w0.t0[0,1] <|endoftext|> b.w0.t1[0,1]"},
    {PAIRS("\"tokenizer_class\":\"CodeGenTokenizer\",\"add_eos_token\":true,\"add_prefix_space\":true", ""),
     "a", NULL, "\u0120.w0.t0[0,1] a.w0.t0[0,1] <|endoftext|>"},
    /* Qwen's class composes characters, and cuts numbers into digits */
    {PAIRS("\"tokenizer_class\":\"Qwen2Tokenizer\",\"add_bos_token\":true", ""), "11e\u0301", NULL,
     "1.w0.t0[0,1] 1.w1.t0[1,2] \u00c3.w2.t0[2,3] \u00a9.w2.t0[2,3]"},
    {PAIRS("\"tokenizer_class\":\"GPTNeoXTokenizer\"", ""), "11e\u0301", NULL,
     "11.w0.t0[0,2] \u00c3.w1.t0[2,3] \u00a9.w1.t0[2,3]"},
    {{.config = FILE_OF("{\"model_type\":\"openai-gpt\"}"),
      .tokenizer_config = FILE_OF("{\"do_lower_case\":false}"),
      .vocab_json = FILE_OF("{\"<unk>\":0,\"a\":1,\"b</w>\":2,\"ab</w>\":3,\".</w>\":4}"),
      .merges_txt = FILE_OF("a b</w>\n")},
     "AB. ac",
     NULL,
     "ab</w>.w0.t0[0,2] .</w>.w1.t0[2,3] a.w2.t0[4,5] <unk>.w2.t0[5,6]"},
#define CODONS(config)                                                                                       \
    {                                                                                                        \
        .tokenizer_config = FILE_OF("{\"tokenizer_class\":\"EsmTokenizer\"" config "}"),                     \
        .vocab_txt = FILE_OF("<unk>\n<pad>\n<mask>\n<cls>\n<eos>\nACG\nT\n")                                 \
    }
    {CODONS(""), "ACGT", NULL, "<cls> ACG.w0.t0[0,3] T.w1.t0[3,4] <eos>"},
    {CODONS(",\"eos_token\":null"), "ACGT", NULL, "<cls> ACG.w0.t0[0,3] T.w1.t0[3,4]"},
};

START_TEST(reads_older_folders)
{
    hs_tokenizer *tokenizer = NULL;
    hs_error err = {0};
    char got[1024];
    const hs_status st = hs__tokenizer_create(&older_folders[_i].files, 20, &tokenizer, &err);
    ck_assert_msg(st == HS_OK, "%s", err.text);
    encode(tokenizer, older_folders[_i].text, older_folders[_i].pair, (hs_encode_options){.tokens_max = 20},
           got);
    ck_assert_str_eq(got, older_folders[_i].expected);
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

/* The key counts for folders of Mistral's that version 4 saved, in which it changes tokens. */
START_TEST(refuses_another_expression)
{
    static const struct {
        const char *config;
        hs_status status;
    } cases[] = {{"{\"model_type\":\"mistral\",\"transformers_version\":\"4.57.1\"}", HS_BAD_MODEL},
                 {"{\"model_type\":\"mistral\",\"transformers_version\":\"5.0.0\"}", HS_OK},
                 {"{\"model_type\":\"llama\"}", HS_OK}};
    static const char set[] = "{\"tokenizer_class\":\"BertTokenizer\",\"fix_mistral_regex\":true}";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hs_tokenizer *tokenizer = NULL;
        hs_error err = {0};
        const hs_tokenizer_files list = {.config = {cases[i].config, strlen(cases[i].config)},
                                         .tokenizer_config = FILE_OF(set),
                                         .vocab_txt = FILE_OF(SPECIAL)};
        ck_assert_int_eq(hs__tokenizer_create(&list, 131072, &tokenizer, &err), cases[i].status);
        ck_assert(!err.status || strstr(err.text, "fix_mistral_regex is not supported"));
        hs__tokenizer_destroy(tokenizer);
    }
}
END_TEST

/* "<ent>" is one token, not "<", "ent", ">"; a special token without entry comes behind it. */
START_TEST(added_tokens_json_is_honoured)
{
    static const char vocab[] = SPECIAL "a\nent\n<\n>\n";
    const hs_tokenizer_files list = {.vocab_txt = FILE_OF(vocab),
                                     .added_tokens = FILE_OF("{\"<ent>\":9}"),
                                     .special_tokens_map =
                                         FILE_OF("{\"additional_special_tokens\":[\"[NEW]\"]}")};
    hs_tokenizer *tokenizer = NULL;
    char got[1024];
    ck_assert_int_eq(hs__tokenizer_create(&list, 20, &tokenizer, NULL), HS_OK);
    encode(tokenizer, "a <ENT>[NEW]", NULL, (hs_encode_options){.tokens_max = 20}, got);
    ck_assert_str_eq(got, "[CLS] a.w0.t0[0,1] <ent>.w1.t0[2,7] [NEW].w2.t0[7,12] [SEP]");
    ck_assert_int_eq(hs_tokenizer_id(tokenizer, "[NEW]", 5), 10);
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

/* ---- tokenizer.json ---- */

static const struct {
    const char *json, *config, *text, *expected;
} json_files[] = {
    {"{" MODEL(",\"continuing_subword_prefix\":\"@@\"") NORMALIZER PRE POST "}", NULL, "Ab",
     "[CLS] a.w0.t0[0,1] @@b.w0.t0[1,2] [SEP]"},
    {"{" MODEL("") NORMALIZER PRE POST "}", NULL, "Ab", "[CLS] [UNK].w0.t0[0,2] [SEP]"},
    {"{" MODEL("") NORMALIZER PRE POST "}", "{\"do_lower_case\":false}", "A a",
     "[CLS] A.w0.t0[0,1] a.w1.t0[2,3] [SEP]"},
    {"{" MODEL("") NORMALIZER PRE TEMPLATE("1") "}",
     "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"do_lower_case\":false}", "A",
     "A a.w0.t0[0,1] [SEP]"},
    {"{" MODEL("") NORMALIZER PRE TEMPLATE("1") "}",
     "{\"tokenizer_class\":\"LayoutLMTokenizerFast\",\"do_lower_case\":false}", "A a",
     "A A.w0.t0[0,1] a.w1.t0[2,3] [SEP]"},
    {"{" MODEL("") NORMALIZER PRE TEMPLATE("1") "}",
     "{\"tokenizer_class\":\"Qwen3Tokenizer\",\"do_lower_case\":false}", "A", "A a.w0.t0[0,1] [SEP]"},
    {"{" MODEL(",\"max_input_chars_per_word\":1") NORMALIZER PRE POST "}", NULL, "a ab",
     "[CLS] a.w0.t0[0,1] [UNK].w1.t0[2,4] [SEP]"},
    {"{\"model\":{\"max_input_chars_per_word\":100,\"unk_token\":\"b\",\"vocab\":{" VOCAB_JSON "}},"
     "\"truncation\":{\"max_length\":3,\"direction\":\"Right\"},\"padding\":{},\"decoder\":null," NORMALIZER
         PRE POST "}",
     NULL, "a x a a", "[CLS] a.w0.t0[0,1] b.w1.t0[2,3] a.w2.t0[4,5] a.w3.t0[6,7] [SEP]"},
    {"{" MODEL("") NORMALIZER PRE POST ADDED(
         "{\"id\":9,\"content\":\"a "
         "b\",\"special\":false},{\"id\":2,\"content\":\"[SEP]\",\"special\":true}") "}",
     NULL, "a b a[SEP]", "[CLS] a b.w0.t0[0,3] a.w1.t0[4,5] [SEP].w2.t0[5,10] [SEP]"},
    {"{" MODEL("") NORMALIZER PRE SINGLE(STEP("Sequence", "A", "0") "," EIGHT) "}", NULL, "a",
     "a.w0.t0[0,1] [SEP] [SEP] [SEP] [SEP] [SEP] [SEP] [SEP] [SEP]"},
};

START_TEST(reads_tokenizer_json)
{
    /* vocab.txt is there, too, and does not count. */
    hs_tokenizer *tokenizer = must_create("x\n", json_files[_i].json, json_files[_i].config);
    char got[1024];
    encode(tokenizer, json_files[_i].text, NULL, (hs_encode_options){.tokens_max = 20}, got);
    ck_assert_str_eq(got, json_files[_i].expected);
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

/* tokenizer_config.json counts before tokenizer.json. */
START_TEST(tokenizer_json_says_which_end_is_cut)
{
    static const char json[] =
        "{" MODEL("") NORMALIZER PRE POST ",\"truncation\":{\"max_length\":3,\"direction\":\"Left\"}}";
    hs_tokenizer *left_one = must_create("x\n", json, NULL),
                 *right_one = must_create("x\n", json, "{\"truncation_side\":\"right\"}");
    ck_assert(hs_tokenizer_cuts_left(left_one) && !hs_tokenizer_cuts_left(right_one));
    hs__tokenizer_destroy(left_one);
    hs__tokenizer_destroy(right_one);
}
END_TEST

START_TEST(a_token_beyond_the_embedding_is_refused_in_a_text)
{
    static const char config[] =
        "{\"added_tokens_decoder\":{\"1043\":{\"content\":\"<ent>\"}},\"mask_token\":\"<ent>\"}";
    hs_tokenizer *tokenizer = must_create(SPECIAL "a\n", NULL, config);
    const hs_text text = {"a <ent>", 7};
    const hs_encode_options options = {.tokens_max = 20}, few = {.tokens_max = 3};
    hs_encoding encoding = {0};
    hs_error err = {0};
    ck_assert_int_eq(hs_tokenizer_encode(tokenizer, &text, NULL, &options, &encoding, &err), HS_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text,
                                 "the token '<ent>' with id 1043, for which the model has no embedding: "
                                 "it has 100 rows"));
    ck_assert_ptr_null(encoding.ids);
    ck_assert_int_eq(hs_tokenizer_encode(tokenizer, &text, NULL, &few, &encoding, NULL), HS_OK); /* cut off */
    ck_assert_uint_eq(encoding.n_tokens, 3);
    hs_encoding_finish(&encoding);
    ck_assert_int_eq(hs_tokenizer_id(tokenizer, "<ent>", 5), -1);
    ck_assert_int_eq(hs_tokenizer_special_ids(tokenizer)->mask, -1);
    ck_assert(!hs_tokenizer_is_ordinary(tokenizer, 1043));
    ck_assert_uint_eq(hs_tokenizer_vocab_size(tokenizer), 100);
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

#define BPE(options, merges)                                                                                 \
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"[CLS]\":1,\"[SEP]\":2,\"a\":3,\"b\":4}" options               \
    ",\"merges\":[" merges "]}," NORMALIZER PRE POST "}"

static const struct {
    const char *json, *message;
} refused_json[] = {
    {"{}", "model.type is 'none'"},
    {"{\"model\":{\"type\":\"Words\"}}", "model.type is 'Words'"},
    {"{\"model\":{\"type\":\"BPE\"}}", "model.merges must be an array"},
    {BPE(",\"dropout\":0.1", ""), "model.dropout"},
    {BPE(",\"end_of_word_suffix\":\"</w>\",\"byte_fallback\":true", ""), "model.end_of_word_suffix '</w>'"},
    {BPE("", "\"a\""), "number 0 must be two tokens"},
    {BPE("", "\"a b c\""), "number 0 must be two tokens"},
    {BPE("", "[\"a\"]"), "number 0 must be two tokens"},
    {BPE("", "[\"a\",\"b\"]"), "what they make is not in the vocabulary"},
    {"{\"model\":{\"type\":\"WordPiece\"}}", "model.vocab must be an object"},
    {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":\"x\"}}}",
     "model.vocab: the id of 'a' must be below config.json's vocab_size, 20"},
    {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":20}}}", "the id of 'a'"},
    {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":1,\"b\":1}}}", "id 1 twice"},
    {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":1,\"a\":2}}}", "duplicate"},
    {"{" MODEL(",\"max_input_chars_per_word\":257") "\"x\":1}", "max_input_chars_per_word"},
    {"{" MODEL(",\"unk_token\":1") "\"x\":1}", "unk_token"},
    {"{" MODEL("") PRE POST "}", "normalizer is 'none'"},
    {"{" MODEL("") "\"normalizer\":{\"type\":\"Reverse\"}," PRE POST "}", "normalizer is 'Reverse'"},
    {"{" MODEL("") "\"normalizer\":{\"type\":\"Prepend\"}," PRE POST "}",
     "Prepend: 'prepend' must be a string"},
    {"{" MODEL("") NORMALIZER SPLIT("\"pattern\":{\"String\":\"a\"}") POST "}",
     "Split has the behavior 'none'"},
    {"{" MODEL("") NORMALIZER SPLIT("\"behavior\":\"Merged\"") POST "}", "Split has the behavior 'Merged'"},
    {"{" MODEL("") NORMALIZER SPLIT("\"behavior\":\"Removed\"") POST "}", "Split: 'pattern' must be"},
    {"{" MODEL("") NORMALIZER SPLIT("\"behavior\":\"Removed\",\"pattern\":{\"String\":\"\"}") POST "}",
     "String has 0 bytes"},
    {"{" MODEL("") NORMALIZER SPLIT("\"behavior\":\"Removed\",\"pattern\":{\"Regex\":\"(a*)*b\"}") POST "}",
     "the regular expression '(a*)*b'"},
    {"{" MODEL("") NORMALIZER SPLIT("\"behavior\":\"Removed\",\"invert\":1,\"pattern\":{\"String\":\"a\"}")
         POST "}",
     "invert"},
    {"{" MODEL("") NORMALIZER "\"pre_tokenizer\":{\"type\":\"Digits\",\"individual_digits\":1}," POST "}",
     "individual_digits"},
    {"{" MODEL("") "\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":2}," PRE POST "}", "lowercase"},
    {"{" MODEL("") NORMALIZER "\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}," POST "}", "pre_tokenizer"},
    {"{" MODEL("") NORMALIZER PRE
     "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",2],\"cls\":[\"[CLS]\",3]}}",
     "post_processor: the special token '[CLS]' must stand for its own id, 1"},
    {"{" MODEL("") NORMALIZER PRE
     "\"post_processor\":{\"type\":\"RobertaProcessing\",\"sep\":[\"[SEP]\",1],\"cls\":[\"[CLS]\",1]}}",
     "post_processor: the special token '[SEP]' must stand for its own id, 2"},
    {"{" MODEL("") NORMALIZER PRE "\"post_processor\":{\"type\":\"BertProcessing\"}}", "needs 'cls'"},
    {"{" MODEL("") NORMALIZER PRE TEMPLATE("2") "}", "post_processor: a template must"},
    {"{" MODEL("") NORMALIZER PRE "\"post_processor\":{\"type\":\"TemplateProcessing\"}}",
     "post_processor: a template must"},
    {"{" MODEL("") NORMALIZER PRE POST ",\"added_tokens\":{}}", "added_tokens must be an array"},
    {"{" MODEL("") NORMALIZER PRE POST ADDED("7") "}", "added_tokens: the id of ''"},
    {"{" MODEL("") NORMALIZER PRE POST ADDED("{\"id\":7}") "}", "no 'content'"},
    {"{" MODEL("") NORMALIZER PRE POST ADDED("{\"id\":7,\"content\":\"a\"}") "}", "'a' has id 7"},
    {"{" MODEL("") NORMALIZER PRE POST ADDED("{\"id\":3,\"content\":\"z\"}") "}", "same id, 3"},
    {"{" MODEL("") NORMALIZER PRE "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[" BERT_POST
                                  "," BERT_POST "]}}",
     "only the last part may add special tokens; here part 1 of 2 is 'BertProcessing'"},
    {"{" MODEL("") NORMALIZER PRE "\"post_processor\":{\"type\":\"Sequence\"}}", "without 'processors'"},
    {"{" MODEL("") NORMALIZER PRE
     "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"}," ROBERTA_POST(
         "") "]}}",
     "post_processor trims offsets twice"},
    {"{" MODEL("") NORMALIZER PRE "\"post_processor\":" ROBERTA_POST(",\"trim_offsets\":1") "}",
     "'trim_offsets' must be true or false"},
    {"{" MODEL("") NORMALIZER PRE
     "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[X]\",30],\"cls\":[\"[CLS]\",1]}" ADDED(
         "{\"id\":30,\"content\":\"[X]\"}") "}",
     "post_processor adds a token with id 30, but config.json's vocab_size is 20"},
    {"{" MODEL("") NORMALIZER PRE SINGLE("{}") "}", "post_processor: a template must"},
    {"{" MODEL("") NORMALIZER PRE SINGLE(STEP("Sequence", "C", "0")) "}", "post_processor: a template must"},
    {"{" MODEL("") NORMALIZER PRE SINGLE(STEP("Sequence", "B", "0")) "}", "post_processor: a template must"},
    {"{" MODEL("") NORMALIZER PRE SINGLE(STEP("Sequence", "A", "0") "," EIGHT "," EIGHT) "}",
     "post_processor: a template must"},
    {"{" MODEL("") "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" FOUR "," FOUR "," FOUR "," FOUR
                   ",{\"type\":\"NFC\"}]}," PRE POST "}",
     "normalizer has more than 16 parts"},
    {"{" MODEL("") "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":1}," PRE POST "}",
     "'prepend' must be a string"},
    {"{" MODEL("") REPLACE("{\"String\":\"a\"}", "1") PRE POST "}",
     "Replace: 'content' must be a string of less than"},
    {"{" MODEL("") REPLACE("{}", "\"b\"") PRE POST "}", "Replace: 'pattern' must be a string of less than"},
    {"{" MODEL("") REPLACE("{\"String\":\"\"}", "\"b\"") PRE POST "}", "Replace: 'pattern' is empty"},
    {"{" MODEL("") REPLACE("{\"Regex\":\"a+\"}", "\"b\"") PRE POST "}",
     "Replace has the regular expression 'a+'"},
    {"{" MODEL("") NORMALIZER METASPACE("\"add_prefix_space\":1") POST "}",
     "'add_prefix_space' must be true or false"},
    {"{" MODEL("") NORMALIZER METASPACE("\"prepend_scheme\":\"last\"") POST "}",
     "Metaspace has prepend_scheme 'last'; supported: never, first, always"},
    {"{" MODEL("") NORMALIZER METASPACE("\"replacement\":1") POST "}", "'replacement' must be a string"},
    {"{" MODEL("") NORMALIZER METASPACE("\"replacement\":\"\"") POST "}",
     "replacement must be one character"},
    {"{" MODEL("") NORMALIZER METASPACE("\"replacement\":\"__\"") POST "}",
     "replacement must be one character"},
    {BPE(",\"continuing_subword_prefix\":1", ""), "'continuing_subword_prefix' must be a string"},
    {BPE(",\"continuing_subword_prefix\":\"##\"", ""), "model.continuing_subword_prefix '##'"},
    {"{" UNIGRAM("{}", "0") "\"x\":1}", "model.vocab must be an array of pieces and scores"},
    {"{" UNIGRAM("[[\"a\",0]]", "1") "\"x\":1}", "model.unk_id must be the number of a piece"},
    {"{" UNIGRAM("[[\"a\",0]]", "null") "\"x\":1}", "model.unk_id must be the number of a piece"},
    {"{" UNIGRAM("[[\"a\",0],[\"b\"]]", "0") "\"x\":1}", "model.vocab[1] is not a piece with a score"},
    {"{" UNIGRAM("[[\"a\",0],[1,0]]", "0") "\"x\":1}", "model.vocab[1] is not a piece with a score"},
    {"{" UNIGRAM("[" SEVEN_PIECES("a") "," SEVEN_PIECES("b") "," SEVEN_PIECES("c") "]", "0") "\"x\":1}",
     "model.vocab has 21 pieces, more than config.json's vocab_size, 20"},
    {"{" MODEL("") PRECOMPILED("1") PRE POST "}", "Precompiled needs 'precompiled_charsmap'"},
};

START_TEST(refuses_other_pipelines)
{
    hs_tokenizer *tokenizer = NULL;
    hs_error err = {0};
    ck_assert_int_eq(create(NULL, refused_json[_i].json, NULL, 20, &tokenizer, &err), HS_BAD_MODEL);
    ck_assert_msg(strstr(err.text, refused_json[_i].message) && strstr(err.text, "tokenizer.json"), "%s",
                  err.text);
    ck_assert_ptr_null(tokenizer);
}
END_TEST

/* ---- hostile ---- */

/* A megabyte of each takes milliseconds; what takes quadratic time would take minutes. */
static const struct {
    const char *unit;
    double seconds_max;
} hostile[] = {
    {"b", 5},
    {"ab", 5},
    {"[", 5},
    {"[MASK", 5},
    {"[MASK]", 5},
    {"\xcc\x81", 5},                 /* accents */
    {"\xe3\x80\xae", 5},             /* combining characters that stay */
    {"\xe3\x80\xae\xcc\x81", 5},     /* mixed with accents */
    {"a\xcc\x81\xe3\x80\xae", 5},    /* behind letters */
    {"\xe2\x80\x8b", 5},             /* dropped */
    {"\xe2\x80\x8b\xe3\x80\xae", 5}, /* dropped among combining characters */
    {"\xe4\xb8\xad", 5},
    {" ", 5},
    {"!", 5},
};

START_TEST(hostile_texts_take_linear_time)
{
    /* With a token to find in the normalised text, too. */
    hs_tokenizer *tokenizer = must_create(
        plain_vocab, NULL,
        _i % 2 ? "{}" : "{\"added_tokens_decoder\":{\"30\":{\"content\":\"bbbx\",\"normalized\":true}}}");
    const char *unit = hostile[_i / 2].unit;
    const size_t n_unit = strlen(unit);
    const size_t n_bytes = ((size_t)1 << 20) / n_unit * n_unit;
    char *bytes = malloc(n_bytes);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < n_bytes; i++)
        bytes[i] = unit[i % n_unit];
    const hs_text text = {bytes, n_bytes};
    const hs_encode_options options = {.tokens_max = SIZE_MAX};
    hs_encoding encoding = {0};
    struct timespec start;
    struct timespec end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    ck_assert_int_eq(hs_tokenizer_encode(tokenizer, &text, &text, &options, &encoding, NULL), HS_OK);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    const double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
    ck_assert_msg(seconds < hostile[_i / 2].seconds_max, "%g s for '%s'", seconds, unit);
    ck_assert(!encoding.truncated);
    hs_encoding_finish(&encoding);
    free(bytes);
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

/* Checks the ids of a text of given length. */
static void assert_ids(const hs_tokenizer *tokenizer, const hs_text *text, size_t n, const int32_t *ids)
{
    const hs_encode_options options = {.tokens_max = SIZE_MAX};
    hs_encoding encoding = {0};
    ck_assert_int_eq(hs_tokenizer_encode(tokenizer, text, NULL, &options, &encoding, NULL), HS_OK);
    ck_assert_uint_eq(encoding.n_tokens, n);
    ck_assert_mem_eq(encoding.ids, ids, n * sizeof *ids);
    hs_encoding_finish(&encoding);
}

/* EsmTokenizer's separators become spaces, but added tokens are found before. transformers gives these ids.
 */
START_TEST(added_tokens_of_esm_are_found_in_the_given_text)
{
    hs_tokenizer *tokenizer = must_create("<cls>\n<pad>\n<eos>\n<unk>\nA\nB\n<mask>\n", NULL,
                                          "{\"tokenizer_class\":\"EsmTokenizer\",\"added_tokens_decoder\":"
                                          "{\"7\":{\"content\":\"A\\u001cB\",\"normalized\":true}}}");
    static const char bytes[] = "A\x1c"
                                "B A\x1c B A B";
    const hs_text text = {bytes, sizeof bytes - 1};
    const int32_t ids[] = {0, 7, 4, 5, 4, 5, 2};
    assert_ids(tokenizer, &text, 7, ids);
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

/* PEGASUS' normalizer, as transformers 5 saves it, names line ends by an expression. */
START_TEST(line_ends_become_spaces_and_spaces_one)
{
    static const char json[] =
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["
        "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\n\"},\"content\":\" \"},"
        "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" \"}]},"
        "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":\"always\"},"
        "\"post_processor\":null,\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],"
        "[\"\u2581\",-1],[\"x\",-1]]}}";
    hs_tokenizer *tokenizer = must_create(NULL, json, NULL);
    const hs_text text = {"x\n x\n\nx", 7};
    const int32_t ids[] = {1, 2, 1, 2, 1, 2};
    assert_ids(tokenizer, &text, 6, ids);
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

/* The table's only unit leads to itself, so each number of bytes 1 would be a key. */
START_TEST(a_table_that_leads_in_a_circle_has_short_keys)
{
    static const char json[] =
        "{\"normalizer\":{\"type\":\"SentencePiece\",\"precompiled_charsmap\":\"CAAAAAAAAAABBQAAeAA=\"},"
        "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":\"never\"},"
        "\"post_processor\":null,\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],"
        "[\"\u2581\",-1],[\"x\",-1]]}}";
    hs_tokenizer *tokenizer = must_create(NULL, json, NULL);
    char bytes[130];
    memset(bytes, 1, sizeof bytes);
    const hs_text text = {bytes, sizeof bytes};
    const int32_t ids[] = {1, 2, 2, 2}; /* of 64, 64 and 2 bytes */
    assert_ids(tokenizer, &text, 4, ids);
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

/* Three parts that make thirty letters of one would make 27,000 of it. */
START_TEST(what_grows_without_end_is_refused)
{
#define GROWS                                                                                                \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"b\"},\"content\":\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\"}"
#define GROWING "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" GROWS "," GROWS "," GROWS "]},"
    hs_tokenizer *tokenizer = must_create(NULL, "{" MODEL("") GROWING PRE POST "}", NULL);
    const hs_encode_options options = {.tokens_max = 20};
    hs_encoding encoding = {0};
    hs_error err = {0};
    const hs_text plain = {"a", 1}, growing = {"b", 1};
    ck_assert_int_eq(hs_tokenizer_encode(tokenizer, &plain, NULL, &options, &encoding, &err), HS_OK);
    hs_encoding_finish(&encoding);
    ck_assert_int_eq(hs_tokenizer_encode(tokenizer, &growing, NULL, &options, &encoding, &err), HS_TOO_LARGE);
    ck_assert_msg(strstr(err.text, "times as long") != NULL, "%s", err.text);
    hs_encoding_finish(&encoding);
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

/* A ByteLevel part makes two bytes of each that is not ASCII: sixteen parts would make 65,536. */
START_TEST(what_is_rewritten_without_end_is_refused)
{
    enum { N = 4000 };
    char bytes[N];
    memset(bytes, 'a', sizeof bytes);
#define BYTES    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"
#define BYTES_4  BYTES "," BYTES "," BYTES "," BYTES
#define BYTES_16 BYTES_4 "," BYTES_4 "," BYTES_4 "," BYTES_4
    hs_tokenizer *tokenizer = must_create(
        NULL,
        "{" MODEL(
            "") "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" BYTES_16
                "]}," POST "}",
        NULL);
    const hs_encode_options options = {.tokens_max = 20};
    hs_encoding encoding = {0};
    const hs_text plain = {bytes, N}, words[2] = {{"a", 1}, {"\xc3\xa9", 2}};
    ck_assert_int_eq(hs_tokenizer_encode(tokenizer, &plain, NULL, &options, &encoding, NULL), HS_OK);
    hs_encoding_finish(&encoding);
    for (size_t i = 0; i < N; i += 2)
        memcpy(bytes + i, "\xc3\xa9", 2);
    for (size_t n = 2; n <= N; n = n == 2 ? N : N + 1) {
        const hs_text growing = {bytes, n};
        hs_error err = {0};
        ck_assert_int_eq(hs_tokenizer_encode(tokenizer, &growing, NULL, &options, &encoding, &err),
                         HS_TOO_LARGE);
        ck_assert_msg(strstr(err.text, "times as long") != NULL, "%s", err.text);
    }
    ck_assert_int_eq(hs_tokenizer_encode_words(tokenizer, words, 2, &options, &encoding, NULL), HS_TOO_LARGE);
    hs__tokenizer_destroy(tokenizer);
}
END_TEST

static const char chaos_json[] =
    "{" MODEL("") NORMALIZER PRE POST ADDED("{\"id\":9,\"content\":\"x y\",\"normalized\":true},"
                                            "{\"id\":2,\"content\":\"[SEP]\",\"special\":true}") "}";

/* vocab.txt, tokenizer.json, characters of BERT's words, and words of MeCab where it is installed. */
START_TEST(survives_every_refused_allocation)
{
#define JAPANESE "\"tokenizer_class\":\"BertJapaneseTokenizer\","
    static const char *const configs[] = {
        "{}", "{}", "{" JAPANESE "\"subword_tokenizer_type\":\"character\"}",
        "{" JAPANESE "\"word_tokenizer_type\":\"mecab\",\"do_lower_case\":true}"};
    static const char unit[] = "b\xe3\x80\xae"
                               "a x ";
    char text[500 * (sizeof unit - 1)];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = unit[i % (sizeof unit - 1)];
    const hs_text texts[] = {{text, sizeof text}, {text, 100 * (sizeof unit - 1)}};
    const hs_encode_options options = {.tokens_max = 1000};
    const size_t live = chaos_live();
    bool refused = true;
    for (size_t nth = 0; refused; nth++) {
        ck_assert_uint_lt(nth, 1000);
        hs_tokenizer *tokenizer = NULL;
        hs_encoding encoding = {0};
        chaos_refuse(nth);
        hs_error err = {0};
        hs_status st = create(plain_vocab, _i == 1 ? chaos_json : NULL, configs[_i], 100, &tokenizer, &err);
        if (!st)
            st = hs_tokenizer_encode(tokenizer, &texts[0], &texts[1], &options, &encoding, NULL);
        refused = chaos_stop();
        const bool absent = _i == 3 && st == HS_UNSUPPORTED;
        ck_assert_msg(absent || st == (refused ? HS_NO_MEMORY : HS_OK), "allocation %zu: %s", nth, err.text);
        hs_encoding_finish(&encoding);
        hs__tokenizer_destroy(tokenizer);
        ck_assert_uint_eq(chaos_live(), live);
    }
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

int main(void)
{
    Suite *suite = suite_create("tokenizer");
    TCase *encoding = tcase_create("encoding");
    tcase_add_loop_test(encoding, encodes, 0, COUNT(encodings));
    tcase_add_loop_test(encoding, cuts_the_beginning_off, 0, COUNT(left));
    tcase_add_test(encoding, words_lose_their_beginning);
    tcase_add_test(encoding, only_two_sides_can_be_cut);
    tcase_add_test(encoding, long_words_are_unknown);
    tcase_add_loop_test(encoding, tokens_are_readable, 0, COUNT(readables));
    tcase_add_test(encoding, texts_and_limits_that_cannot_be_are_refused);
    tcase_add_loop_test(encoding, invalid_utf8_is_refused_with_its_byte, 0, COUNT(invalid_utf8));
    tcase_add_test(encoding, special_tokens_need_space);
    tcase_add_test(encoding, nul_is_a_character_that_vanishes);
    tcase_add_test(encoding, looks_up_tokens);
    tcase_add_test(encoding, texts_determine_roles);
    suite_add_tcase(suite, encoding);
    TCase *reading = tcase_create("files");
    tcase_add_loop_test(reading, reads_vocab_txt_and_config, 0, COUNT(files));
    tcase_add_loop_test(reading, refuses_what_is_not_bert, 0, COUNT(refused_files));
    tcase_add_test(reading, refuses_nul_and_endless_lines);
    tcase_add_loop_test(reading, refuses_older_folders_by_name, 0, COUNT(refused_folders));
    tcase_add_loop_test(reading, reads_older_folders, 0, COUNT(older_folders));
    tcase_add_test(reading, refuses_another_expression);
    tcase_add_test(reading, added_tokens_json_is_honoured);
    tcase_add_loop_test(reading, reads_tokenizer_json, 0, COUNT(json_files));
    tcase_add_test(reading, tokenizer_json_says_which_end_is_cut);
    tcase_add_test(reading, a_token_beyond_the_embedding_is_refused_in_a_text);
    tcase_add_loop_test(reading, refuses_other_pipelines, 0, COUNT(refused_json));
    suite_add_tcase(suite, reading);
    TCase *hostility = tcase_create("hostile");
    tcase_add_loop_test(hostility, hostile_texts_take_linear_time, 0, 2 * COUNT(hostile));
    tcase_add_test(hostility, line_ends_become_spaces_and_spaces_one);
    tcase_add_test(hostility, a_table_that_leads_in_a_circle_has_short_keys);
    tcase_add_test(hostility, added_tokens_of_esm_are_found_in_the_given_text);
    tcase_add_test(hostility, what_grows_without_end_is_refused);
    tcase_add_test(hostility, what_is_rewritten_without_end_is_refused);
    tcase_add_loop_test(hostility, survives_every_refused_allocation, 0, 4);
    suite_add_tcase(suite, hostility);
    return tests_run(suite);
}
