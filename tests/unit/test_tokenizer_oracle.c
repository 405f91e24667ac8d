/* test_tokenizer_oracle.c - the tokenizer against HuggingFace's own, case by case.
 * tests/reference/tokenizer_fixtures.mjs and the scripts that use oracle_file.py write and describe the
 * files. */
#include "model/model.h"
#include "model/tokenizer/tokenizer_internal.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX (256u << 20)
#define TOKENIZERS_MAX 64

typedef struct cursor {
    const unsigned char *at, *end;
} cursor;

typedef struct test_case {
    hs_text text, pair;
    size_t tokens_max;
    bool split, has_pair;
} test_case;

typedef struct expected {
    uint32_t n;
    bool truncated;
    const unsigned char *ids, *words, *starts, *lengths, *types, *special;
} expected;

static const unsigned char *take(cursor *c, size_t n_bytes)
{
    ck_assert_uint_ge((size_t)(c->end - c->at), n_bytes);
    c->at += n_bytes;
    return c->at - n_bytes;
}

static uint32_t u32_at(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t take_u32(cursor *c)
{
    return u32_at(take(c, 4));
}

static hs_text take_text(cursor *c)
{
    const uint32_t n_bytes = take_u32(c);
    return (hs_text){(const char *)take(c, n_bytes), n_bytes};
}

static test_case take_case(cursor *c)
{
    test_case one = {.tokens_max = take_u32(c)};
    one.split = *take(c, 1);
    one.has_pair = *take(c, 1);
    one.text = take_text(c);
    one.pair = take_text(c);
    return one;
}

static expected take_expected(cursor *c)
{
    expected e = {.n = take_u32(c)};
    e.truncated = *take(c, 1);
    e.ids = take(c, 4 * (size_t)e.n);
    e.words = take(c, 4 * (size_t)e.n);
    e.starts = take(c, 4 * (size_t)e.n);
    e.lengths = take(c, 4 * (size_t)e.n);
    e.types = take(c, e.n);
    e.special = take(c, e.n);
    return e;
}

/* The added tokens of a tokenizer as tokenizer.json has them. */
static json_t *take_added(cursor *c)
{
    json_t *list = json_array();
    const uint32_t n = take_u32(c);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t id = take_u32(c);
        const bool special = *take(c, 1);
        const bool normalized = *take(c, 1);
        const hs_text text = take_text(c);
        json_array_append_new(list, json_pack("{s:i, s:b, s:b, s:s%}", "id", (int)id, "special", special,
                                              "normalized", normalized, "content", text.bytes, text.n_bytes));
    }
    return list;
}

static unsigned char *read_fixtures(const char *command, size_t *ret_size)
{
    FILE *pipe = popen(command, "r"); // NOLINT(bugprone-command-processor)
    ck_assert_ptr_nonnull(pipe);
    unsigned char *file = malloc(FILE_BYTES_MAX);
    ck_assert_ptr_nonnull(file);
    *ret_size = fread(file, 1, FILE_BYTES_MAX, pipe);
    ck_assert_int_eq(pclose(pipe), 0);
    return file;
}

static hs_tokenizer *create_from(const hs_tokenizer_files *files)
{
    hs_tokenizer *tokenizer = NULL;
    hs_error err = {0};
    const hs_status st = hs__tokenizer_create(files, HS_VOCAB_MAX, &tokenizer, &err);
    ck_assert_msg(!st, "%s", err.text);
    return tokenizer;
}

static hs_tokenizer *create_from_json(const char *json, size_t n_bytes)
{
    return create_from(&(hs_tokenizer_files){.tokenizer_json = {json, n_bytes}});
}

/* Takes `added`. */
static hs_tokenizer *create(const hs_text *vocab, const unsigned char options[4], json_t *added)
{
    json_t *json = json_object();
    json_t *tokens = json_object();
    const char *at = vocab->bytes;
    for (int id = 0; at < vocab->bytes + vocab->n_bytes; id++) {
        const char *stop = memchr(at, '\n', (size_t)(vocab->bytes + vocab->n_bytes - at));
        json_object_setn_new(tokens, at, (size_t)(stop - at), json_integer(id));
        at = stop + 1;
    }
    json_object_update_new(
        json, json_pack("{s:o, s:{s:s, s:o}, s:{s:s, s:b, s:b, s:b, s:b}, s:{s:s}, s:{s:s, s:[s], s:[s]}}",
                        "added_tokens", added, "model", "type", "WordPiece", "vocab", tokens, "normalizer",
                        "type", "BertNormalizer", "clean_text", options[0], "handle_chinese_chars",
                        options[1], "strip_accents", options[2], "lowercase", options[3], "pre_tokenizer",
                        "type", "BertPreTokenizer", "post_processor", "type", "BertProcessing", "cls",
                        "[CLS]", "sep", "[SEP]"));
    char *text = json_dumps(json, 0);
    json_decref(json);
    ck_assert_ptr_nonnull(text);
    hs_tokenizer *tokenizer = create_from_json(text, strlen(text));
    free(text);
    return tokenizer;
}

/* The index of the first token that differs, or -1. */
static long first_difference(const hs_encoding *got, const expected *want)
{
    uint32_t start = 0;
    for (size_t i = 0; i < want->n || i < got->n_tokens; i++) {
        if (i >= want->n || i >= got->n_tokens)
            return (long)i;
        start += u32_at(want->starts + 4 * i);
        if (got->ids[i] != (int32_t)u32_at(want->ids + 4 * i) ||
            got->word_ids[i] != (int32_t)u32_at(want->words + 4 * i) - 1 || got->starts[i] != start ||
            got->ends[i] != start + u32_at(want->lengths + 4 * i) || got->types[i] != want->types[i] ||
            got->special[i] != want->special[i])
            return (long)i;
    }
    return got->truncated == want->truncated ? -1 : (long)got->n_tokens;
}

/* Returns the tokens of a text that are not special. */
static size_t n_tokens_of(const hs_tokenizer *tokenizer, const test_case *one, const hs_text *text)
{
    const hs_encode_options options = {.tokens_max = SIZE_MAX, .split_special_tokens = one->split};
    hs_encoding all = {0};
    size_t n = 0;
    ck_assert_int_eq(hs_tokenizer_encode(tokenizer, text, NULL, &options, &all, NULL), HS_OK);
    for (size_t i = 0; i < all.n_tokens; i++)
        n += !all.special[i];
    hs_encoding_finish(&all);
    return n;
}

/* Returns true for pairs that version 0.23.2, which made most files, cuts differently from those before and
 * after it. Both texts are longer than what is kept of the two, an odd number. That version does not read
 * them to their ends. */
static bool is_cut_otherwise(const hs_tokenizer *tokenizer, const test_case *one, const expected *want)
{
    size_t n_kept = 0;
    for (size_t i = 0; i < want->n; i++)
        n_kept += !want->special[i];
    if (!one->has_pair || !want->truncated || n_kept % 2 == 0)
        return false;
    const size_t n = n_tokens_of(tokenizer, one, &one->text),
                 n_pair = n_tokens_of(tokenizer, one, &one->pair);
    return n > n_kept && n_pair > n_kept;
}

static void check_case(const hs_tokenizer *tokenizer, uint32_t index, uint32_t which, const test_case *one,
                       const expected *want)
{
    const hs_encode_options options = {.tokens_max = one->tokens_max, .split_special_tokens = one->split};
    hs_encoding got = {0};
    hs_error err = {0};
    const hs_status st =
        hs_tokenizer_encode(tokenizer, &one->text, one->has_pair ? &one->pair : NULL, &options, &got, &err);
    ck_assert_msg(!st, "tokenizer %u, case %u: %s", index, which, err.text);
    const long at = first_difference(&got, want);
    if (at >= 0 && !is_cut_otherwise(tokenizer, one, want)) {
        const size_t i = (size_t)at;
        const bool both = i < want->n && i < got.n_tokens;
        ck_abort_msg(
            "tokenizer %u, case %u, token %ld: '%s' %d w%d [%u..%u] truncated %d, not '%s' truncated %d, "
            "in: %.*s | %.*s",
            index, which, at, both ? hs_tokenizer_token(tokenizer, got.ids[i]) : "", both ? got.ids[i] : -1,
            both ? got.word_ids[i] : -1, both ? got.starts[i] : 0, both ? got.ends[i] : 0, got.truncated,
            both ? hs_tokenizer_token(tokenizer, (int32_t)u32_at(want->ids + 4 * i)) : "", want->truncated,
            (int)one->text.n_bytes, one->text.bytes, (int)one->pair.n_bytes, one->pair.bytes);
    }
    hs_encoding_finish(&got);
}

/* The rest of the file; the tokenizers are destroyed. */
static void check_cases(cursor *c, hs_tokenizer **tokenizers, uint32_t n_tokenizers)
{
    const uint32_t n_cases = take_u32(c);
    ck_assert_uint_gt(n_cases, 1000);
    test_case *cases = calloc(n_cases, sizeof *cases);
    ck_assert_ptr_nonnull(cases);
    for (uint32_t i = 0; i < n_cases; i++)
        cases[i] = take_case(c);
    for (uint32_t i = 0; i < n_tokenizers; i++) {
        for (uint32_t k = 0; k < n_cases; k++) {
            const expected want = take_expected(c);
            check_case(tokenizers[i], i, k, &cases[k], &want);
        }
        hs__tokenizer_destroy(tokenizers[i]);
    }
    ck_assert_ptr_eq(c->at, c->end);
    free(cases);
}

START_TEST(every_case_of_the_oracle)
{
    size_t size;
    unsigned char *file = read_fixtures("xz -dc tests/unit/tokenizer_oracle.xz", &size);
    cursor c = {file, file + size};
    hs_text vocabularies[16];
    const uint32_t n_vocabularies = take_u32(&c);
    ck_assert_uint_le(n_vocabularies, 16);
    for (uint32_t i = 0; i < n_vocabularies; i++)
        vocabularies[i] = take_text(&c);
    const uint32_t n_tokenizers = take_u32(&c);
    ck_assert_uint_le(n_tokenizers, TOKENIZERS_MAX);
    hs_tokenizer *tokenizers[TOKENIZERS_MAX];
    for (uint32_t i = 0; i < n_tokenizers; i++) {
        const uint32_t vocabulary = take_u32(&c);
        ck_assert_uint_lt(vocabulary, n_vocabularies);
        const unsigned char *options = take(&c, 4);
        tokenizers[i] = create(&vocabularies[vocabulary], options, take_added(&c));
    }
    check_cases(&c, tokenizers, n_tokenizers);
    free(file);
}
END_TEST

/* The cases of one tokenizer, which is destroyed. */
static void check_section(cursor *c, uint32_t index, hs_tokenizer *tokenizer)
{
    const uint32_t n_cases = take_u32(c);
    ck_assert_uint_gt(n_cases, 100);
    for (uint32_t k = 0; k < n_cases; k++) {
        const test_case one = take_case(c);
        const expected want = take_expected(c);
        check_case(tokenizer, index, k, &one, &want);
    }
    hs__tokenizer_destroy(tokenizer);
}

/* A file of whole tokenizers, each with its cases. */
static void check_tokenizers(const char *command)
{
    size_t size;
    unsigned char *file = read_fixtures(command, &size);
    cursor c = {file, file + size};
    const uint32_t n_tokenizers = take_u32(&c);
    ck_assert_uint_gt(n_tokenizers, 0);
    for (uint32_t i = 0; i < n_tokenizers; i++) {
        const hs_text json = take_text(&c);
        check_section(&c, i, create_from_json(json.bytes, json.n_bytes));
    }
    ck_assert_ptr_eq(c.at, c.end);
    free(file);
}

START_TEST(every_case_of_byte_pairs)
{
    check_tokenizers("xz -dc tests/unit/tokenizer_bpe_oracle.xz");
}
END_TEST

/* tokenizer_causal_fixtures.py */
START_TEST(every_case_of_causal_models)
{
    check_tokenizers("xz -dc tests/unit/tokenizer_causal_oracle.xz");
}
END_TEST

static hs_tokenizer *take_folder(cursor *c)
{
    hs_tokenizer_files files = {0};
    const struct {
        const char *name;
        hs_bytes *bytes;
    } list[] = {{"tokenizer.json", &files.tokenizer_json},
                {"tokenizer_config.json", &files.tokenizer_config},
                {"config.json", &files.config},
                {"vocab.txt", &files.vocab_txt},
                {"vocab.json", &files.vocab_json},
                {"merges.txt", &files.merges_txt},
                {"sentencepiece.bpe.model", &files.sentencepiece},
                {"spiece.model", &files.sentencepiece},
                {"spm.model", &files.sentencepiece},
                {"added_tokens.json", &files.added_tokens},
                {"special_tokens_map.json", &files.special_tokens_map}};
    const uint32_t n_files = take_u32(c);
    for (uint32_t i = 0; i < n_files; i++) {
        const hs_text name = take_text(c);
        const hs_text content = take_text(c);
        for (size_t k = 0; k < sizeof list / sizeof *list; k++)
            if (strlen(list[k].name) == name.n_bytes && memcmp(list[k].name, name.bytes, name.n_bytes) == 0)
                *list[k].bytes = (hs_bytes){content.bytes, content.n_bytes};
    }
    return create_from(&files);
}

/* tokenizer_folders_fixtures.py */
START_TEST(every_case_of_folders)
{
    size_t size;
    unsigned char *file = read_fixtures("xz -dc tests/unit/tokenizer_folders_oracle.xz", &size);
    cursor c = {file, file + size};
    const uint32_t n_folders = take_u32(&c);
    ck_assert_uint_gt(n_folders, 20);
    for (uint32_t i = 0; i < n_folders; i++) {
        hs_tokenizer *tokenizer = take_folder(&c);
        check_section(&c, i, tokenizer);
    }
    ck_assert_ptr_eq(c.at, c.end);
    free(file);
}
END_TEST

/* unigram_fixtures.py */
START_TEST(every_case_of_unigram)
{
    size_t size;
    unsigned char *file = read_fixtures("xz -dc tests/unit/unigram_oracle.xz", &size);
    cursor c = {file, file + size};
    const uint32_t n_tokenizers = take_u32(&c);
    ck_assert_uint_le(n_tokenizers, TOKENIZERS_MAX);
    hs_tokenizer *tokenizers[TOKENIZERS_MAX];
    for (uint32_t i = 0; i < n_tokenizers; i++) {
        const hs_text json = take_text(&c);
        tokenizers[i] = create_from_json(json.bytes, json.n_bytes);
    }
    check_cases(&c, tokenizers, n_tokenizers);
    free(file);
}
END_TEST

/* Checks the ids of a case, and that offsets are in order. */
static void check_ids(const hs_tokenizer *tokenizer, uint32_t which, cursor *c)
{
    const hs_text text = take_text(c);
    const uint32_t n = take_u32(c);
    const unsigned char *want = take(c, 4 * (size_t)n);
    const hs_encode_options options = {.tokens_max = SIZE_MAX};
    hs_encoding got = {0};
    ck_assert_int_eq(hs_tokenizer_encode(tokenizer, &text, NULL, &options, &got, NULL), HS_OK);
    ck_assert_msg(got.n_tokens == n, "case %u: %zu tokens, not %u", which, got.n_tokens, n);
    for (size_t i = 0; i < n; i++) {
        ck_assert_msg(got.ids[i] == (int32_t)u32_at(want + 4 * i), "case %u, token %zu: %d, not %u", which, i,
                      got.ids[i], u32_at(want + 4 * i));
        ck_assert(got.starts[i] <= got.ends[i]);
        ck_assert(i == 0 || got.special[i] || got.starts[i] >= got.starts[i - 1]);
    }
    hs_encoding_finish(&got);
}

/* Returns a tokenizer_config.json that names the tokens of all languages, as published folders of M2M100 do.
 * Only then they are found in texts. */
static hs_bytes config_of_languages(void)
{
    static const char codes[] =
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he "
        "hi "
        "hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns "
        "oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh "
        "zu ";
    static char text[2048] = "{\"additional_special_tokens\":[";
    size_t n = strlen("{\"additional_special_tokens\":[");
    for (const char *at = codes; *at; at += strcspn(at, " ") + 1)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\"__%.*s__\"", at == codes ? "" : ",",
                              (int)strcspn(at, " "), at);
    n += (size_t)snprintf(text + n, sizeof text - n, "]}");
    ck_assert_uint_lt(n, sizeof text);
    return (hs_bytes){text, n};
}

/* tokenizer_marian_fixtures.py */
START_TEST(every_case_of_sentencepiece_ids)
{
    size_t size;
    unsigned char *file = read_fixtures("xz -dc tests/unit/tokenizer_marian_oracle.xz", &size);
    const hs_bytes languages = config_of_languages();
    cursor c = {file, file + size};
    for (uint32_t n_tokenizers = take_u32(&c); n_tokenizers > 0; n_tokenizers--) {
        const hs_text type = take_text(&c), vocab = take_text(&c), model = take_text(&c);
        char config[64];
        const int n =
            snprintf(config, sizeof config, "{\"model_type\":\"%.*s\"}", (int)type.n_bytes, type.bytes);
        const hs_bytes pieces = {model.bytes, model.n_bytes};
        const bool is_marian = type.bytes[1] == 'a';
        hs_tokenizer *tokenizer =
            create_from(&(hs_tokenizer_files){.config = {config, (size_t)n},
                                              .tokenizer_config = is_marian ? (hs_bytes){0} : languages,
                                              .vocab_json = {vocab.bytes, vocab.n_bytes},
                                              .source_sentencepiece = is_marian ? pieces : (hs_bytes){0},
                                              .target_sentencepiece = is_marian ? pieces : (hs_bytes){0},
                                              .sentencepiece = is_marian ? (hs_bytes){0} : pieces});
        const uint32_t n_cases = take_u32(&c);
        for (uint32_t k = 0; k < n_cases; k++)
            check_ids(tokenizer, k, &c);
        hs__tokenizer_destroy(tokenizer);
    }
    ck_assert_ptr_eq(c.at, c.end);
    free(file);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokenizer_oracle");
    TCase *oracle = tcase_create("oracle");
    tcase_add_test(oracle, every_case_of_the_oracle);
    tcase_add_test(oracle, every_case_of_byte_pairs);
    tcase_add_test(oracle, every_case_of_causal_models);
    tcase_add_test(oracle, every_case_of_unigram);
    tcase_add_test(oracle, every_case_of_folders);
    tcase_add_test(oracle, every_case_of_sentencepiece_ids);
    suite_add_tcase(suite, oracle);
    return tests_run(suite);
}
