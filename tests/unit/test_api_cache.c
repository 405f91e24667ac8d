/* test_api_cache.c - the head cache: hits, evictions, the bytes it reports, and its use by requests. */
#include "api/internal.h"
#include "tests/unit/api_fixture.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <pthread.h>
#include <string.h>

static const hs_shape shape = {.n_layers = 4, .n_heads = 4, .hidden = 8, .head_width = 2, .n_positions = 64};
static const uint16_t numbers[] = {0, 1, 2, 3};

#define ATT HS_KEEP(ATTENTION)
#define SIM HS_KEEP(SIMILARITY)

/* The first n_layers layers and n_heads heads. */
static hs_selection first(size_t n_layers, size_t n_heads, unsigned keep)
{
    return (hs_selection){numbers, n_layers, numbers, n_heads, keep, 0};
}

static hs_capture *capture_of(hs_selection selection, size_t n_tokens)
{
    hs_capture *capture = NULL;
    ck_assert_int_eq(hs_capture_create(NULL, &shape, &selection, n_tokens, &capture, NULL), HS_OK);
    return capture;
}

/* A text of two tokens distinguished by its number. */
typedef struct text {
    int32_t ids[2];
    uint8_t types[2];
} text;

static hs__heads_key key_of(const text *t)
{
    return (hs__heads_key){.ids = t->ids, .types = t->types, .n_tokens = 2};
}

static void add(hs__head_cache *cache, int number, hs_selection selection)
{
    const text t = {{2, number}, {0, 0}};
    const hs__heads_key key = key_of(&t);
    hs__heads *heads = hs__head_cache_add(cache, &key, capture_of(selection, 2), 1.0);
    ck_assert_ptr_nonnull(heads);
    hs__heads_release(cache, heads);
}

static bool holds(hs__head_cache *cache, int number, hs_selection selection)
{
    const text t = {{2, number}, {0, 0}};
    const hs__heads_key key = key_of(&t);
    hs__heads *heads = hs__head_cache_find(cache, &key, &selection);
    hs__heads_release(cache, heads);
    return heads != NULL;
}

static hs_cache_stats stats_of(hs__head_cache *cache)
{
    hs_cache_stats stats;
    hs__head_cache_stats(cache, &stats);
    return stats;
}

START_TEST(cache_finds_what_covers_the_selection)
{
    hs__head_cache *cache = hs__head_cache_create(1 << 20);
    const uint16_t odd[] = {1, 3};
    add(cache, 1, (hs_selection){odd, 2, numbers, 4, ATT | SIM, 0});
    ck_assert(holds(cache, 1, (hs_selection){odd, 2, numbers, 4, ATT | SIM, 0}));
    ck_assert(holds(cache, 1, (hs_selection){odd + 1, 1, odd, 2, SIM, 0}));
    ck_assert(!holds(cache, 1, (hs_selection){numbers, 1, numbers, 4, SIM, 0})); /* layer 0 */
    ck_assert(!holds(cache, 1, (hs_selection){numbers, 4, numbers, 4, SIM, 0}));
    ck_assert(!holds(cache, 1, (hs_selection){odd, 2, numbers, 4, SIM | HS_KEEP(HEAD_OUTPUT), 0}));
    ck_assert(!holds(cache, 2, (hs_selection){odd, 2, numbers, 4, SIM, 0})); /* another text */
    const hs_cache_stats stats = stats_of(cache);
    ck_assert_uint_eq(stats.hits, 2);
    ck_assert_uint_eq(stats.misses, 4);
    hs__head_cache_destroy(cache);
}
END_TEST

START_TEST(cache_tells_models_types_and_lengths_apart)
{
    hs__head_cache *cache = hs__head_cache_create(1 << 20);
    const int32_t ids[] = {2, 7, 3};
    const uint8_t types[] = {0, 0, 0}, other_types[] = {0, 1, 0};
    const hs_selection selection = first(1, 1, ATT);
    const hs__heads_key key = {.ids = ids, .types = types, .n_tokens = 3};
    hs__heads_release(cache, hs__head_cache_add(cache, &key, capture_of(selection, 3), 0));
    const hs__heads_key others[] = {{.model = 1, .ids = ids, .types = types, .n_tokens = 3},
                                    {.ids = ids, .types = other_types, .n_tokens = 3},
                                    {.ids = ids, .types = types, .n_tokens = 2}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ck_assert_ptr_null(hs__head_cache_find(cache, &others[i], &selection));
    hs__heads *heads = hs__head_cache_find(cache, &key, &selection);
    ck_assert_ptr_nonnull(heads);
    hs__heads_release(cache, heads);
    hs__head_cache_destroy(cache);
}
END_TEST

START_TEST(cache_tells_interventions_apart)
{
    hs__head_cache *cache = hs__head_cache_create(1 << 20);
    const int32_t ids[] = {2, 7, 3};
    const uint8_t types[] = {0, 0, 0}, other_types[] = {0, 1, 1};
    const hs_selection selection = first(1, 1, ATT);
    static const int32_t others[2][3] = {{2, 8, 3}, {2, 9, 3}};
    static const size_t positions[] = {0, 2};
    static const float vector[] = {1, 2, 3, 4, 5};
    const hs_encoding read[] = {
        {.n_tokens = 3, .ids = (int32_t *)others[0], .types = (uint8_t *)types},
        {.n_tokens = 3, .ids = (int32_t *)others[1], .types = (uint8_t *)types},
        {.n_tokens = 2, .ids = (int32_t *)others[1], .types = (uint8_t *)types},
        {.n_tokens = 3, .ids = (int32_t *)others[1], .types = (uint8_t *)other_types},
    };
    hs__text_read texts[4] = {{.rows = read[0]}, {.rows = read[1]}, {.rows = read[2]}, {.rows = read[3]}};
    const struct {
        hs_intervention list[1];
        hs__change change;
    } changes[] = {
        {{{numbers, 1, numbers, 1, HS_INTERVENE_SCALE, 0.5f, NULL, NULL, 0, false, NULL, 0, 0}}, {0}},
        {{{numbers, 1, numbers, 1, HS_INTERVENE_SCALE, 2, NULL, NULL, 0, false, NULL, 0, 0}}, {0}},
        {{{numbers, 1, numbers, 1, HS_INTERVENE_ZERO, 0.5f, NULL, NULL, 0, false, NULL, 0, 0}}, {0}},
        {{{numbers, 1, numbers, 1, HS_INTERVENE_CUT, 0, NULL, NULL, 0, false, NULL, 0, 2}}, {0}},
        {{{numbers, 1, numbers, 1, HS_INTERVENE_CUT, 0, NULL, NULL, 0, false, NULL, 0, 3}}, {0}},
        {{{numbers, 1, numbers, 2, HS_INTERVENE_SCALE, 0.5f, NULL, NULL, 0, false, NULL, 0, 0}}, {0}},
        {{{numbers, 2, numbers, 1, HS_INTERVENE_SCALE, 0.5f, NULL, NULL, 0, false, NULL, 0, 0}}, {0}},
        {{{numbers + 1, 1, numbers, 1, HS_INTERVENE_SCALE, 0.5f, NULL, NULL, 0, false, NULL, 0, 0}}, {0}},
        {{{numbers, 1, numbers, 1, HS_INTERVENE_SCALE, 2, NULL, NULL, 0, true, NULL, 0, 0}}, {0}},
        {{{numbers, 1, numbers, 1, HS_INTERVENE_PATCH, 0, NULL, NULL, 0, false, NULL, 0, 0}},
         {.n_sources = 1}},
        {{{numbers, 1, numbers, 1, HS_INTERVENE_PATCH, 0, NULL, NULL, 0, false, NULL, 0, 0}},
         {.sources = {1}, .n_sources = 1}},
        {{{numbers, 1, numbers, 1, HS_INTERVENE_PATCH, 0, NULL, NULL, 0, false, NULL, 0, 0}},
         {.sources = {3}, .n_sources = 1}},
        {{{numbers, 1, numbers, 1, HS_INTERVENE_PATCH, 0, NULL, positions, 1, false, NULL, 0, 0}},
         {.n_sources = 1}},
        {{{numbers, 1, numbers, 1, HS_INTERVENE_PATCH, 0, NULL, positions + 1, 1, false, NULL, 0, 0}},
         {.n_sources = 1}},
        {{{numbers, 1, numbers, 1, HS_INTERVENE_PATCH, 0, NULL, positions, 2, false, NULL, 0, 0}},
         {.n_sources = 1}},
        {{{numbers, 1, numbers, 1, HS_INTERVENE_PATCH_STATE, 0, NULL, NULL, 0, false, NULL, 0, 0}},
         {.n_sources = 1}},
        {{{numbers, 1, NULL, 0, HS_INTERVENE_ADD, 1, NULL, NULL, 0, false, vector, 4, 0}}, {0}},
        {{{numbers, 1, NULL, 0, HS_INTERVENE_ADD, 1, NULL, NULL, 0, false, vector + 1, 4, 0}}, {0}},
        {{{numbers, 1, NULL, 0, HS_INTERVENE_ADD, -1, NULL, NULL, 0, false, vector, 4, 0}}, {0}},
        {{{numbers, 1, NULL, 0, HS_INTERVENE_ADD, 1, NULL, NULL, 0, false, NULL, 0, 0}},
         {.sources = {0, 1}, .n_sources = 2}},
        {{{numbers, 1, NULL, 0, HS_INTERVENE_ADD, 1, NULL, NULL, 0, false, NULL, 0, 0}},
         {.sources = {0, 1}, .n_sources = 2, .last = true}},
        {{{numbers, 1, NULL, 0, HS_INTERVENE_ADD, 1, NULL, NULL, 0, false, NULL, 0, 0}},
         {.sources = {1, 0}, .n_sources = 2}},
        {{{numbers, 1, NULL, 0, HS_INTERVENE_ADD, 1, NULL, NULL, 0, false, NULL, 0, 0}},
         {.sources = {0, 2}, .n_sources = 2}},
    };
    const hs_intervention two[] = {changes[0].list[0], changes[1].list[0]};
    enum { N_CHANGES = sizeof changes / sizeof *changes };
    hs__heads_key keys[N_CHANGES + 6] = {
        {.ids = ids, .types = types, .n_tokens = 3},
        {.ids = ids, .types = types, .n_tokens = 3, .interventions = two, .n_interventions = 2}};
    for (size_t i = 0; i < N_CHANGES; i++)
        keys[i + 2] = (hs__heads_key){.ids = ids,
                                      .types = types,
                                      .n_tokens = 3,
                                      .interventions = changes[i].list,
                                      .n_interventions = 1,
                                      .changes = &changes[i].change,
                                      .texts = texts};
    for (size_t i = 0; i < 4; i++) /* sources of a decoder, and its cross heads */
        keys[N_CHANGES + 2 + i] = (hs__heads_key){
            .ids = ids, .types = types, .n_tokens = 3, .source = &read[i < 3 ? i : 0], .cross = i == 3};
    for (size_t i = 0; i < N_CHANGES + 6; i++) {
        ck_assert_ptr_null(hs__head_cache_find(cache, &keys[i], &selection));
        hs__heads *heads = hs__head_cache_add(cache, &keys[i], capture_of(selection, 3), 0);
        hs__heads *found = hs__head_cache_find(cache, &keys[i], &selection);
        ck_assert_ptr_eq(found, heads);
        hs__heads_release(cache, found);
        hs__heads_release(cache, heads);
    }
    ck_assert_uint_eq(stats_of(cache).entries, N_CHANGES + 6);
    hs__head_cache_destroy(cache);
}
END_TEST

/* The vector that two texts give is not known when a request looks for what was computed with it. */
START_TEST(cache_finds_a_vector_of_two_texts_before_it_is_made)
{
    hs__head_cache *cache = hs__head_cache_create(1 << 20);
    int32_t ids[] = {2, 7, 3};
    uint8_t types[] = {0, 0, 0};
    static const float vector[] = {1, 2, 3, 4};
    const hs_selection selection = first(1, 1, ATT);
    const hs__text_read texts[] = {{.rows = {.n_tokens = 3, .ids = ids, .types = types}},
                                   {.rows = {.n_tokens = 2, .ids = ids, .types = types}}};
    const hs__change change = {.kind = HS_INTERVENE_ADD, .factor = 1, .sources = {0, 1}, .n_sources = 2};
    hs_intervention addition = {.layers = numbers, .n_layers = 1, .kind = HS_INTERVENE_ADD, .factor = 1};
    const hs__heads_key key = {.ids = ids,
                               .types = types,
                               .n_tokens = 3,
                               .interventions = &addition,
                               .n_interventions = 1,
                               .changes = &change,
                               .texts = texts};
    addition.vector = vector;
    addition.n_vector = 4;
    hs__heads *heads = hs__head_cache_add(cache, &key, capture_of(selection, 3), 0);
    addition.vector = NULL;
    addition.n_vector = 0;
    hs__heads *found = hs__head_cache_find(cache, &key, &selection);
    ck_assert_ptr_eq(found, heads);
    hs__heads_release(cache, found);
    hs__heads_release(cache, heads);
    hs__head_cache_destroy(cache);
}
END_TEST

START_TEST(cache_lets_the_least_recently_used_go)
{
    hs__head_cache *probe = hs__head_cache_create(1 << 20);
    add(probe, 0, first(1, 1, ATT));
    const size_t one = stats_of(probe).bytes; /* of one such entry, its key included */
    hs__head_cache_destroy(probe);

    hs__head_cache *cache = hs__head_cache_create(3 * one);
    for (int i = 1; i <= 3; i++)
        add(cache, i, first(1, 1, ATT));
    ck_assert_uint_eq(stats_of(cache).bytes, 3 * one);
    ck_assert(holds(cache, 1, first(1, 1, ATT))); /* now 2 is the oldest */
    add(cache, 4, first(1, 1, ATT));
    ck_assert(!holds(cache, 2, first(1, 1, ATT)));
    ck_assert(holds(cache, 1, first(1, 1, ATT)));
    ck_assert(holds(cache, 3, first(1, 1, ATT)));
    ck_assert(holds(cache, 4, first(1, 1, ATT)));
    const hs_cache_stats stats = stats_of(cache);
    ck_assert_uint_eq(stats.entries, 3);
    ck_assert_uint_eq(stats.bytes, 3 * one);
    ck_assert_uint_eq(stats.evictions, 1);
    hs__head_cache_destroy(cache);
}
END_TEST

START_TEST(cache_replaces_what_a_new_entry_covers)
{
    hs__head_cache *cache = hs__head_cache_create(1 << 20);
    add(cache, 1, first(1, 1, ATT));
    add(cache, 1, first(2, 1, SIM)); /* neither covers the other */
    ck_assert_uint_eq(stats_of(cache).entries, 2);
    add(cache, 1, first(2, 2, ATT | SIM));
    ck_assert_uint_eq(stats_of(cache).entries, 1);
    ck_assert_uint_eq(stats_of(cache).evictions, 0);
    hs__head_cache_destroy(cache);
}
END_TEST

START_TEST(cache_keeps_nothing_that_is_too_large)
{
    hs__head_cache *none = hs__head_cache_create(0), *small = hs__head_cache_create(1000);
    add(none, 1, first(1, 1, ATT));
    ck_assert(!holds(none, 1, first(1, 1, ATT)));
    add(small, 1, first(4, 4, ATT | SIM)); /* 4 * 4 * 2 maps of 4 floats, and columns: over half of 1000 */
    ck_assert(!holds(small, 1, first(1, 1, ATT)));
    ck_assert_uint_eq(stats_of(small).bytes, 0);
    hs__head_cache_destroy(none);
    hs__head_cache_destroy(small);
}
END_TEST

START_TEST(heads_outlive_their_entry)
{
    hs__head_cache *cache = hs__head_cache_create(4096);
    const text t = {{2, 1}, {0, 0}};
    const hs__heads_key key = key_of(&t);
    const hs_selection selection = first(1, 1, ATT);
    hs__heads *heads = hs__head_cache_add(cache, &key, capture_of(selection, 2), 0);
    memset(heads->capture->arrays[HS_TAP_ATTENTION], 0, 4 * sizeof(float));
    heads->capture->arrays[HS_TAP_ATTENTION][3] = 5;
    for (int i = 2; i < 100; i++)
        add(cache, i, selection);
    ck_assert(!holds(cache, 1, selection));
    ck_assert_float_eq(heads->capture->arrays[HS_TAP_ATTENTION][3], 5);
    ck_assert_uint_le(stats_of(cache).bytes, 4096);
    hs__heads_release(cache, heads);
    hs__head_cache_destroy(cache);
}
END_TEST

static void *hammer(void *arg)
{
    hs__head_cache *cache = arg;
    for (int i = 0; i < 3000; i++) {
        const text t = {{2, i % 40}, {0, 0}};
        const hs__heads_key key = key_of(&t);
        const hs_selection selection = first(1, 1, ATT);
        hs__heads *heads = hs__head_cache_find(cache, &key, &selection);
        if (!heads) {
            hs_capture *capture = capture_of(selection, 2);
            capture->arrays[HS_TAP_ATTENTION][0] = (float)(i % 40);
            heads = hs__head_cache_add(cache, &key, capture, 0);
        }
        ck_assert_float_eq(heads->capture->arrays[HS_TAP_ATTENTION][0], (float)(i % 40));
        hs__heads_release(cache, heads);
    }
    return NULL;
}

START_TEST(cache_serves_many_threads)
{
    hs__head_cache *cache = hs__head_cache_create(8192);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, hammer, cache), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    const hs_cache_stats stats = stats_of(cache);
    ck_assert_uint_eq(stats.hits + stats.misses, 12000);
    ck_assert_uint_le(stats.bytes, 8192);
    hs__head_cache_destroy(cache);
}
END_TEST

static size_t computed(api_fixture *f, const char *body)
{
    hs_response response = api_post(f, HS_ANALYZE, body);
    const size_t n_tokens = response.n_tokens;
    ck_assert_int_eq(response.status, 200);
    hs_response_finish(&response);
    return n_tokens;
}

START_TEST(follow_up_requests_cost_no_pass)
{
    api_fixture f;
    api_open(&(hs_api_options){.cache_bytes_max = 64 << 20}, &f);
    const char *whole = "{\"text\":\"a cat, a dog.\",\"layers\":\"all\"}";
    ck_assert_uint_eq(computed(&f, whole), 8);
    ck_assert_uint_eq(computed(&f, whole), 0);
    /* Other layers, heads, figures; another spelling of the same tokens. */
    ck_assert_uint_eq(computed(&f, "{\"text\":\"A  cat, a dog.\",\"layers\":[3],\"heads\":[1]}"), 0);
    ck_assert_uint_eq(
        computed(&f,
                 "{\"text\":\"a cat, a dog.\",\"layers\":\"all\",\"outputs\":[\"segments\",\"summary\"]}"),
        0);
    /* Head outputs are kept beside the maps. */
    ck_assert_uint_eq(computed(&f, "{\"text\":\"a cat, a dog.\",\"outputs\":[\"head_outputs\"]}"), 0);
    /* Other arrays, another text. */
    ck_assert_uint_eq(computed(&f, "{\"text\":\"a cat, a dog.\",\"outputs\":[\"hidden_states\"]}"), 8);
    ck_assert_uint_eq(computed(&f, "{\"text\":\"a cat, a fox.\"}"), 8);
    hs_cache_stats stats;
    hs_api_cache_stats(f.api, &stats);
    ck_assert_uint_eq(stats.hits, 4);
    ck_assert_uint_eq(stats.misses, 3);
    ck_assert_uint_gt(stats.bytes, 2 * 144 * 64 * sizeof(float));
    api_close(&f);
}
END_TEST

START_TEST(cached_answers_are_the_computed_ones)
{
    static const char *const bodies[] = {
        "{\"text\":\"One cat. Two "
        "cats.\",\"layers\":[2,11],\"heads\":[0,5],\"digits\":9,\"outputs\":[\"attentions\",\"similarities\","
        "\"pairs\",\"regions\",\"summary\"]}",
        "{\"text\":\"One cat. Two "
        "cats.\",\"layers\":[5],\"heads\":[7],\"normalize\":\"max\",\"special_tokens\":\"mask\"}",
        "{\"text\":\"One cat. Two "
        "cats.\",\"layers\":[1,5],\"heads\":[7,9],\"reduce\":\"mean\",\"outputs\":[\"similarities\","
        "\"segments\"]}",
        "{\"text\":\"One cat. Two "
        "cats.\",\"layers\":[0,4],\"heads\":[3],\"outputs\":[\"hidden_states\",\"head_outputs\"]}",
    };
    api_fixture cached, plain;
    api_open(&(hs_api_options){.cache_bytes_max = 64 << 20}, &cached);
    api_open(&(hs_api_options){0}, &plain);
    ck_assert_uint_gt(computed(&cached, "{\"text\":\"One cat. Two "
                                        "cats.\",\"layers\":\"all\",\"outputs\":[\"attentions\","
                                        "\"similarities\",\"head_outputs\",\"hidden_states\"]}"),
                      0);
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        hs_response a = api_post(&cached, HS_ANALYZE, bodies[i]), b = api_post(&plain, HS_ANALYZE, bodies[i]);
        ck_assert_uint_eq(a.n_tokens, 0);
        ck_assert_uint_gt(b.n_tokens, 0);
        ck_assert_uint_eq(a.body_bytes, b.body_bytes);
        ck_assert_mem_eq(a.body, b.body, a.body_bytes);
        hs_response_finish(&a);
        hs_response_finish(&b);
    }
    api_close(&cached);
    api_close(&plain);
}
END_TEST

int main(void)
{
    TCase *cases = tcase_create("cache");
    tcase_add_test(cases, cache_finds_what_covers_the_selection);
    tcase_add_test(cases, cache_tells_models_types_and_lengths_apart);
    tcase_add_test(cases, cache_tells_interventions_apart);
    tcase_add_test(cases, cache_finds_a_vector_of_two_texts_before_it_is_made);
    tcase_add_test(cases, cache_lets_the_least_recently_used_go);
    tcase_add_test(cases, cache_replaces_what_a_new_entry_covers);
    tcase_add_test(cases, cache_keeps_nothing_that_is_too_large);
    tcase_add_test(cases, heads_outlive_their_entry);
    tcase_add_test(cases, cache_serves_many_threads);
    tcase_add_test(cases, follow_up_requests_cost_no_pass);
    tcase_add_test(cases, cached_answers_are_the_computed_ones);
    Suite *suite = suite_create("api cache");
    suite_add_tcase(suite, cases);
    return tests_run(suite);
}
