/* test_syntax.c - counts of syntax.h: which words heads point to, against plain loops over maps of words. */
#include "engine/statistics/syntax.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2, HEADS = 3, TOKENS = 14, WORDS = 8, SENTENCES = 24, RELATIONS = 3 };

static const char *const names[RELATIONS] = {"nsubj", "punct", "obj"};

static uint32_t random_next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static hs_syntax *syntax_make(void)
{
    hs_syntax *s = NULL;
    ck_assert_int_eq(hs_syntax_create(LAYERS, HEADS, &s, NULL), HS_OK);
    return s;
}

static size_t relation_add(hs_syntax *s, const char *name)
{
    size_t at = SIZE_MAX;
    ck_assert_int_eq(hs_syntax_relation_add(s, name, strlen(name), &at, NULL), HS_OK);
    return at;
}

/* ---- relations ---- */

START_TEST(relations_are_found_by_name)
{
    hs_syntax *s = syntax_make();
    char name[] = "punct:and the bytes after it, which are not read";
    size_t at = 9;
    ck_assert_uint_eq(relation_add(s, "nsubj"), 0);
    ck_assert_int_eq(hs_syntax_relation_add(s, name, 9, &at, NULL), HS_OK);
    ck_assert_uint_eq(at, 1);
    ck_assert_uint_eq(relation_add(s, "punctual"), 2);
    ck_assert_uint_eq(relation_add(s, "punct"), 3);
    ck_assert_uint_eq(relation_add(s, "nsubj"), 0);
    ck_assert_uint_eq(hs_syntax_relations(s), 4);
    ck_assert_str_eq(hs_syntax_relation_at(s, 1)->name, "punct:and");
    for (size_t r = 0; r < 4; r++)
        ck_assert_int_eq(hs_syntax_is_punctuation(hs_syntax_relation_at(s, r)), r % 2);
    ck_assert_uint_eq(hs_syntax_layers(s), LAYERS);
    ck_assert_uint_eq(hs_syntax_heads(s), HEADS);
    hs_syntax_destroy(s);
}
END_TEST

/* Their number is bounded; the last one keeps its counts. */
START_TEST(too_many_relations_are_refused)
{
    hs_syntax *s = syntax_make();
    hs_error err = {0};
    char name[24];
    size_t at = 0;
    for (int r = 0; r < HS_SYNTAX_RELATIONS_MAX; r++) {
        snprintf(name, sizeof name, "relation%d", r);
        ck_assert_uint_eq(relation_add(s, name), (size_t)r);
        hs_syntax_relation_at(s, (size_t)r)->right[2 * LAYERS * HEADS * HS_SYNTAX_KINDS - 1] = (uint64_t)r;
    }
    ck_assert_int_eq(hs_syntax_relation_add(s, "more", 4, &at, &err), HS_TOO_LARGE);
    ck_assert_uint_eq(relation_add(s, "relation255"), 255);
    for (size_t r = 0; r < HS_SYNTAX_RELATIONS_MAX; r++)
        ck_assert_uint_eq(hs_syntax_relation_at(s, r)->right[2 * LAYERS * HEADS * HS_SYNTAX_KINDS - 1], r);
    ck_assert_uint_eq(hs_syntax_bytes_max(LAYERS, HEADS) - hs_syntax_bytes_max(1, 1),
                      HS_SYNTAX_RELATIONS_MAX * 2 * (LAYERS * HEADS - 1) * HS_SYNTAX_KINDS *
                          sizeof(uint64_t));
    ck_assert_uint_gt(hs_syntax_bytes_max(0, 0), HS_SYNTAX_RELATIONS_MAX * sizeof(hs_syntax_relation));
    hs_syntax_destroy(s);
}
END_TEST

/* ---- sentences ---- */

/* Twenty words of one token each; word 0 is the head, or the dependent, of a word this far away. */
START_TEST(offsets_are_counted_within_their_reach)
{
    enum { N = 20 };
    int32_t words[N], heads[N];
    uint16_t relations[N] = {0};
    hs_syntax *s = syntax_make();
    relation_add(s, "obj");
    for (int32_t i = 0; i < N; i++) {
        words[i] = i;
        heads[i] = -1;
    }
    heads[0] = 17;  /* too far */
    heads[1] = 17;  /* +16 */
    heads[17] = 1;  /* -16 */
    heads[18] = 1;  /* too far */
    heads[19] = 19; /* its own head */
    const hs_syntax_text text = {
        .n_tokens = N, .n_words = N, .words = words, .heads = heads, .relations = relations};
    hs_syntax_text odd = text;
    odd.is_odd = true;
    hs_syntax_text_add(s, &text);
    hs_syntax_text_add(s, &odd);
    odd.n_tokens = 1; /* one word has tokens: no pair */
    hs_syntax_text_add(s, &odd);
    const hs_syntax_relation *r = hs_syntax_relation_at(s, 0);
    ck_assert_uint_eq(hs_syntax_sentences_of(s)->read, 3);
    ck_assert_uint_eq(r->count, 8);
    ck_assert_uint_eq(r->odd_count, 4);
    for (size_t k = 0; k < HS_SYNTAX_OFFSETS; k++) {
        const bool is_end = k == 0 || k == HS_SYNTAX_OFFSETS - 1;
        ck_assert_uint_eq(r->offsets[k], is_end ? 2 : 0);
        ck_assert_uint_eq(r->odd_offsets[k], is_end);
    }
    hs_syntax_destroy(s);
}
END_TEST

/* A sentence with tokens of no word, words of several tokens and words without a token. */
typedef struct sentence {
    int32_t words[TOKENS], heads[WORDS];
    uint16_t relations[WORDS];
    float attention[TOKENS * TOKENS], similarity[TOKENS * TOKENS];
    hs_syntax_text text;
} sentence;

static void sentence_make(sentence *x, uint32_t number, uint32_t *seed)
{
    const size_t T = 4 + number % (TOKENS - 3);
    int32_t word = -2;
    for (size_t i = 0; i < T; i++) {
        const uint32_t kind = random_next(seed) % 8;
        if (kind < 5 || i == 0 || x->words[i - 1] < 0)
            word += 1 + (kind == 0); /* a word may have no token */
        x->words[i] = i == 0 || kind == 7 || word >= WORDS ? -1 : word;
    }
    for (size_t w = 0; w < WORDS; w++) {
        x->heads[w] = (int32_t)(random_next(seed) % (WORDS + 1)) - 1;
        x->relations[w] = (uint16_t)(random_next(seed) % RELATIONS);
    }
    for (size_t i = 0; i < T; i++)
        for (size_t j = 0; j < T; j++) {
            x->attention[i * T + j] = (float)(random_next(seed) % 5) / 8;
            x->similarity[i * T + j] = i < j ? (float)(random_next(seed) % 9) / 4 - 1.5F : 1e6F * (float)j;
        }
    x->text = (hs_syntax_text){.is_odd = number % 3 == 0,
                               .n_tokens = T,
                               .n_words = WORDS,
                               .words = x->words,
                               .heads = x->heads,
                               .relations = x->relations};
}

/* Counts of plain loops. */
typedef struct naive {
    uint64_t count[RELATIONS][2], offsets[RELATIONS][2][HS_SYNTAX_OFFSETS];
    uint64_t right[RELATIONS][2][LAYERS][HEADS][HS_SYNTAX_KINDS];
} naive;

static size_t tokens_of(const sentence *x, int32_t word)
{
    size_t n = 0;
    for (size_t i = 0; i < x->text.n_tokens; i++)
        n += x->words[i] == word;
    return n;
}

/* Returns the word that a word points to in the map of words; -1: none. */
static int32_t naive_best(const sentence *x, int32_t from, bool similarity)
{
    const size_t T = x->text.n_tokens;
    int32_t best = -1;
    double most = 0;
    for (int32_t to = 0; to < WORDS; to++) {
        double sum = 0;
        for (size_t i = 0; i < T; i++)
            for (size_t j = 0; j < T; j++)
                if (x->words[i] == from && x->words[j] == to && to != from)
                    sum += !similarity ? (double)x->attention[i * T + j]
                                       : (double)x->similarity[i < j ? i * T + j : j * T + i];
        const double n = (double)(tokens_of(x, from) * (similarity ? tokens_of(x, to) : 1));
        if (to != from && tokens_of(x, to) > 0 && (best < 0 || sum / n > most)) {
            best = to;
            most = sum / n;
        }
    }
    return best;
}

/* Adds to sums of all sentences, or of odd ones. */
static void naive_add(const sentence *x, size_t half, size_t l, size_t h, naive *sums, size_t ret_right[2],
                      size_t *ret_pairs)
{
    ret_right[0] = ret_right[1] = *ret_pairs = 0;
    for (int32_t w = 0; w < WORDS; w++) {
        const int32_t head = x->heads[w];
        const size_t r = x->relations[w];
        if (head < 0 || head == w || tokens_of(x, w) == 0 || tokens_of(x, head) == 0)
            continue;
        if (l == 0 && h == 0) {
            sums->count[r][half]++;
            sums->offsets[r][half][head - w + HS_SYNTAX_REACH]++;
        }
        *ret_pairs += r != 1;
        for (size_t k = 0; k < 2; k++) {
            ret_right[k] += r != 1 && naive_best(x, w, k) == head;
            sums->right[r][half][l][h][2 * k] += naive_best(x, w, k) == head;
            sums->right[r][half][l][h][2 * k + 1] += naive_best(x, head, k) == w;
        }
    }
}

static void assert_counts(const hs_syntax *s, const naive *sums)
{
    for (size_t r = 0; r < RELATIONS; r++) {
        const hs_syntax_relation *relation = hs_syntax_relation_at(s, r);
        ck_assert_str_eq(relation->name, names[r]);
        ck_assert_uint_eq(relation->count, sums->count[r][0]);
        ck_assert_uint_eq(relation->odd_count, sums->count[r][1]);
        ck_assert_mem_eq(relation->offsets, sums->offsets[r][0], sizeof relation->offsets);
        ck_assert_mem_eq(relation->odd_offsets, sums->offsets[r][1], sizeof relation->odd_offsets);
        ck_assert_mem_eq(relation->right, sums->right[r], sizeof sums->right[r]);
    }
}

/* One state counts all sentences. Two others, with relations in other orders, count half of them each and are
 * merged. */
START_TEST(heads_are_counted_as_by_plain_loops)
{
    hs_syntax *all = syntax_make(), *parts[] = {syntax_make(), syntax_make()};
    static naive sums;
    uint32_t seed = 5;
    size_t n_all = 0;
    for (size_t r = 0; r < RELATIONS; r++) {
        relation_add(all, names[r]);
        relation_add(parts[0], names[r]);
        relation_add(parts[1], names[RELATIONS - 1 - r]);
    }
    for (uint32_t number = 0; number < SENTENCES; number++) {
        sentence x = {0};
        sentence_make(&x, number, &seed);
        hs_syntax_text_add(all, &x.text);
        for (size_t l = 0; l < LAYERS; l++)
            for (size_t h = 0; h < HEADS; h++) {
                size_t n_pairs, naive_pairs, right[2], naive_right[2];
                x.attention[TOKENS / 2] += (float)(l * HEADS + h) / 4;
                x.similarity[3] += (float)h - (float)l;
                for (size_t half = 0; half < 1U + x.text.is_odd; half++)
                    naive_add(&x, half, l, h, &sums, naive_right, &naive_pairs);
                const hs_observed_head head = {.attention = x.attention, .similarity = x.similarity};
                n_pairs = hs_syntax_head_add(all, &x.text, l, h, &head, right);
                ck_assert_uint_eq(n_pairs, naive_pairs);
                ck_assert_mem_eq(right, naive_right, sizeof right);
                for (size_t w = 0; w < WORDS && number % 2; w++)
                    x.relations[w] = (uint16_t)(RELATIONS - 1 - x.relations[w]);
                if (l + h == 0)
                    hs_syntax_text_add(parts[number % 2], &x.text);
                hs_syntax_head_add(parts[number % 2], &x.text, l, h, &head, right);
                for (size_t w = 0; w < WORDS && number % 2; w++)
                    x.relations[w] = (uint16_t)(RELATIONS - 1 - x.relations[w]);
                n_all += n_pairs;
            }
    }
    ck_assert_uint_gt(n_all, 100);
    assert_counts(all, &sums);
    hs_syntax_sentences_of(parts[1])->unread = 3;
    hs_syntax_sentences_of(parts[0])->unread = 4;
    hs_syntax_relation *obj = hs_syntax_relation_at(parts[1], 0);
    obj->offsets[0] = obj->odd_offsets[HS_SYNTAX_OFFSETS - 1] = 5; /* farther than these sentences are long */
    sums.offsets[2][0][0] = sums.offsets[2][1][HS_SYNTAX_OFFSETS - 1] = 5;
    ck_assert_int_eq(hs_syntax_merge(parts[0], parts[1], NULL), HS_OK);
    assert_counts(parts[0], &sums);
    ck_assert_uint_eq(hs_syntax_sentences_of(parts[0])->read, SENTENCES);
    ck_assert_uint_eq(hs_syntax_sentences_of(parts[0])->unread, 7);
    hs_syntax_destroy(all);
    hs_syntax_destroy(parts[0]);
    hs_syntax_destroy(parts[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("syntax");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, relations_are_found_by_name);
    tcase_add_test(tc, too_many_relations_are_refused);
    tcase_add_test(tc, offsets_are_counted_within_their_reach);
    tcase_add_test(tc, heads_are_counted_as_by_plain_loops);
    suite_add_tcase(suite, tc);
    return tests_run(suite);
}
