/* output_heads.c - figures of heads: summary, profiles, and distances between them. */
#include "api/outputs/structures.h"

#include "engine/analysis/distances.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* ==== summary ==== */

/* Figures of one head: its pairs, their tokens and distances, and its attention. */

/* Marks [CLS], [SEP] and sentence ends with 1. */
static void mark_separators(const hs__answer *a, uint8_t *ret_separators)
{
    const hs_encoding *e = &a->text->rows;
    for (size_t i = 0; i < e->n_tokens; i++)
        ret_separators[i] = e->special[i] || e->roles[i] == HS_ROLE_FIRST ||
                            e->roles[i] == HS_ROLE_SEPARATOR || a->text->ends[i];
}

/* The summaries and what they are found from. */
typedef struct summaries {
    hs_text_facts facts;
    int32_t *first;          /* owned: [T] */
    uint8_t *separators;     /* owned: [T] */
    hs_head_summary heads[]; /* [l][h] */
} summaries;

static hs_status summary_begin(const hs__answer *a, void **ret_result, hs_error *err)
{
    const size_t T = a->text->rows.n_tokens, n = a->analysis->n_layers * a->analysis->n_heads;
    assert(n > 0);
    summaries *table = calloc(1, sizeof *table + n * sizeof *table->heads);
    *ret_result = table;
    if (!table)
        return hs_fail(err, HS_NO_MEMORY, "no memory for summaries");
    table->first = malloc(T * sizeof *table->first);
    table->separators = malloc(T);
    if (!table->first || !table->separators)
        return hs_fail(err, HS_NO_MEMORY, "no memory for summaries");
    hs_repeats_find(a->text->rows.ids, T, table->first);
    mark_separators(a, table->separators);
    table->facts = (hs_text_facts){
        T, table->first, a->text->sentences, table->separators, a->text->rows.special, a->masked};
    return HS_OK;
}

static hs_status summary_add_head(const hs__answer *a, void *result, size_t at, const hs_observed_head *maps,
                                  hs_error *err)
{
    summaries *table = result;
    return hs_head_summarize(maps, &table->facts, a->analysis->threshold, &table->heads[at], err);
}

static void summary_destroy(void *result)
{
    summaries *table = result;
    free(table->first);
    free(table->separators);
    free(table);
}

/* ---- columns ---- */

static void focal_token(const hs__table_row *row, hs__cell *ret)
{
    const hs_head_summary *head = row->item;
    ret->null = head->focal_token < 0;
    if (!ret->null)
        ret->text = hs__answer_token_bytes(row->answer, (size_t)head->focal_token);
}

static void focal_position(const hs__table_row *row, hs__cell *ret)
{
    ret->integer = ((const hs_head_summary *)row->item)->focal_token;
    ret->null = ret->integer < 0;
}

static const hs__table_column summary_columns[] = {
    {HS__NUMBER_OF(hs_head_summary, max_similarity)},
    {"high_pairs", .type = HS__CELL_COUNT, HS__MEMBER(hs_head_summary, high_pairs), .array_last = true},
    {HS__NUMBER_OF(hs_head_summary, repeated_share)},
    {HS__NUMBER_OF(hs_head_summary, same_sentence_share)},
    {HS__NUMBER_OF(hs_head_summary, repeated_same_sentence_share)},
    {HS__NUMBER_OF(hs_head_summary, mean_distance)},
    {"focal_token", .type = HS__CELL_TOKEN, .get = focal_token, .nullable = true},
    {"focal_position", .type = HS__CELL_POSITION, .get = focal_position, .nullable = true,
     .array_last = true},
    {HS__NUMBER_OF(hs_head_summary, focal_share)},
    {HS__NUMBER_OF(hs_head_summary, attention_entropy)},
    {HS__NUMBER_OF(hs_head_summary, separator_attention)},
    {HS__NUMBER_OF(hs_head_summary, snr_dprime)},
    {HS__NUMBER_OF(hs_head_summary, longest_overlap)},
    {HS__NUMBER_OF(hs_head_summary, participation_ratio)},
    {0},
};

static const hs__table summary_table = {.kind = HS__TABLE_HEADS,
                                        .arrays = "summary_",
                                        .columns = summary_columns,
                                        .offset = offsetof(summaries, heads),
                                        .stride = sizeof(hs_head_summary)};

static const hs__structure summary_structure = {
    .begin = summary_begin,
    .add_head = summary_add_head,
    .reads_lengths = true,
    .destroy = summary_destroy,
    .table = &summary_table,
};

const hs__output hs__output_row_summary = {.taps = HS_KEEP(ATTENTION) | HS_KEEP(SIMILARITY) |
                                                   HS_KEEP(HEAD_OUTPUT),
                                           .structure = &summary_structure,
                                           .not_cross = HS__TWO_TEXTS};

/* ==== profiles ==== */

/* Attention profiles of heads: attention to neighbours, special tokens, punctuation,
 * repeated tokens and the own sentence, and the class by Clark et al. (2019). Includes special tokens
 * regardless of special_tokens. */

/* marks is scratch of 3 T bytes. */
static hs_token_kinds find_kinds(const hs__text_read *text, int32_t *first, uint8_t *marks)
{
    const hs_encoding *e = &text->rows;
    const size_t T = e->n_tokens;
    hs_repeats_find(e->ids, T, first);
    for (size_t i = 0; i < T; i++) {
        marks[i] = e->roles[i] == HS_ROLE_FIRST;
        marks[T + i] = e->roles[i] == HS_ROLE_SEPARATOR;
        marks[2 * T + i] = e->roles[i] == HS_ROLE_SENTENCE_END || e->roles[i] == HS_ROLE_COMMA;
    }
    return (hs_token_kinds){
        T, first, marks, marks + T, marks + 2 * T, .sentences = text->sentences, .special = e->special};
}

/* The profiles and what they are found from. */
typedef struct profiles {
    hs_token_kinds kinds;
    int32_t *first;          /* owned: [T], then 3 T marks */
    hs_head_profile heads[]; /* [l][h] */
} profiles;

static hs_status profiles_begin(const hs__answer *a, void **ret_result, hs_error *err)
{
    const size_t T = a->text->rows.n_tokens, n = a->analysis->n_layers * a->analysis->n_heads;
    profiles *table = calloc(1, sizeof *table + n * sizeof *table->heads);
    *ret_result = table;
    if (!table)
        return hs_fail(err, HS_NO_MEMORY, "no memory for profiles");
    table->first = malloc(T * (sizeof *table->first + 3));
    if (!table->first)
        return hs_fail(err, HS_NO_MEMORY, "no memory for profiles");
    table->kinds = find_kinds(a->text, table->first, (uint8_t *)(table->first + T));
    return HS_OK;
}

static hs_status profiles_add_head(const hs__answer *a, void *result, size_t at, const hs_observed_head *maps,
                                   hs_error *err)
{
    profiles *table = result;
    (void)a;
    (void)err;
    hs_head_profile_find(maps->attention, &table->kinds, &table->heads[at]);
    return HS_OK;
}

static void profiles_destroy(void *result)
{
    free(((profiles *)result)->first);
    free(result);
}

/* ---- columns ---- */

static const char *const labels[] = {"position", "special", "broad", "other", NULL}; /* as hs_head_label */

enum { N_OFFSETS = 2 * HS_PROFILE_REACH + 1 };

static void profile_label(const hs__table_row *row, hs__cell *ret)
{
    ret->integer = ((const hs_head_profile *)row->item)->label;
}

static void profile_offsets(const hs__table_row *row, hs__cell *ret)
{
    ret->block = (hs__cell_block){((const hs_head_profile *)row->item)->offsets, 1, {N_OFFSETS}};
}

static void offsets_most(const hs__measures *m, size_t ret_lengths[2])
{
    (void)m;
    ret_lengths[0] = N_OFFSETS;
}

static const hs__table_column profile_columns[] = {
    {"label", .type = HS__CELL_LABEL, .get = profile_label, .choices = labels, .array_last = true},
    {HS__NUMBER_OF(hs_head_profile, self)},
    {HS__NUMBER_OF(hs_head_profile, previous)},
    {HS__NUMBER_OF(hs_head_profile, next)},
    {HS__NUMBER_OF(hs_head_profile, first)},
    {HS__NUMBER_OF(hs_head_profile, separator)},
    {HS__NUMBER_OF(hs_head_profile, punctuation)},
    {HS__NUMBER_OF(hs_head_profile, same_token)},
    {HS__NUMBER_OF(hs_head_profile, same_sentence)},
    {HS__NUMBER_OF(hs_head_profile, entropy)},
    {HS__NUMBER_OF(hs_head_profile, entropy_first)},
    {HS__NUMBER_OF(hs_head_profile, confidence)},
    {HS__NUMBER_OF(hs_head_profile, mean_distance)},
    {"offsets", .type = HS__CELL_BLOCK, .get = profile_offsets, .most = offsets_most},
    {0},
};

static const hs__table profile_table = {.kind = HS__TABLE_HEADS,
                                        .arrays = "profiles_",
                                        .columns = profile_columns,
                                        .offset = offsetof(profiles, heads),
                                        .stride = sizeof(hs_head_profile)};

static const hs__structure profiles_structure = {
    .begin = profiles_begin,
    .add_head = profiles_add_head,
    .destroy = profiles_destroy,
    .table = &profile_table,
};

const hs__output hs__output_row_profiles = {
    .taps = HS_KEEP(ATTENTION), .structure = &profiles_structure, .not_cross = HS__TWO_TEXTS};

/* ==== distances ==== */

/* Distances between all requested heads, as one matrix over layers and heads in
 * row-major order. Includes special tokens regardless of special_tokens. */

typedef struct distances {
    size_t n;
    double *values; /* [n][n], owned; NULL once they are rounded */
    float *rounded; /* [n][n], owned: as they are answered */
} distances;

/* ---- rows of all heads: of kept maps, or computed again ---- */

typedef struct head_rows {
    const hs__answer *answer;
    hs_tap tap;
    size_t n, T, K, n_rows; /* heads, tokens, keys, and rows at a time */
    float *memory;          /* [n][n_rows][T], owned; NULL: the maps are kept */
    size_t first, n_loaded;
    atomic_int failed;
} head_rows;

/* Returns how many rows of each head are computed at a time. */
static size_t rows_at_once(size_t n_tokens)
{
    return n_tokens < HS_HEAD_ROWS_MIN ? n_tokens : HS_HEAD_ROWS_MIN;
}

static size_t distances_bytes(const hs__measures *m)
{
    return m->again ? m->n_heads * rows_at_once(m->n_tokens) * m->n_tokens * sizeof(float) : 0;
}

static hs_status head_rows_begin(const hs__answer *a, hs_tap tap, size_t n_heads, head_rows *ret)
{
    const size_t T = a->capture->n_tokens;
    const size_t K = tap == HS_TAP_ATTENTION ? a->capture->n_keys : T;
    *ret = (head_rows){.answer = a, .tap = tap, .n = n_heads, .T = T, .K = K, .n_rows = T};
    if (a->capture->arrays[tap])
        return HS_OK;
    ret->n_rows = rows_at_once(T);
    ret->memory = hs_memory_create(n_heads * ret->n_rows * T * sizeof *ret->memory);
    return ret->memory ? HS_OK : HS_NO_MEMORY;
}

/* Task: computes the rows of one head. */
static void task_rows(void *context, size_t head, size_t slot)
{
    head_rows *r = context;
    const hs__answer *a = r->answer;
    const hs_engine *engine = a->model->engine;
    const size_t l = a->layer_at[head / a->analysis->n_heads], h = a->head_at[head % a->analysis->n_heads];
    float *to = r->memory + head * r->n_rows * r->T;
    (void)slot;
    if (r->tap == HS_TAP_ATTENTION
            ? hs_engine_attention(engine, a->capture, l, h, r->first, r->n_loaded, to, NULL)
            : hs_engine_similarity(engine, a->capture, l, h, hs__similarity_kind(a->analysis), r->first,
                                   r->n_loaded, to, NULL))
        atomic_store(&r->failed, 1);
}

/* The load of hs_head_rows. */
static bool head_rows_load(void *context, size_t first, size_t n, const float **ret_rows)
{
    head_rows *r = context;
    const hs__answer *a = r->answer;
    const size_t n_heads = a->analysis->n_heads, n_threads = a->request->n_threads;
    r->first = first;
    r->n_loaded = n;
    if (r->memory)
        hs__answer_share(a, n_threads > 1 ? n_threads : 1, r->n, task_rows, r);
    for (size_t i = 0; i < r->n; i++)
        ret_rows[i] = r->memory ? r->memory + i * r->n_rows * r->T
                                : hs__answer_at(a, r->tap, i / n_heads, i % n_heads) + first * r->K;
    return !atomic_load(&r->failed) && !hs__answer_cancelled(a);
}

/* ---- both distances ---- */

/* maps and entropies are scratch of n elements. */
static bool measure_js(const hs__answer *a, head_rows *rows, const float **maps, double *entropies,
                       distances *d)
{
    const size_t n = d->n, T = rows->T, K = rows->K;
    for (size_t first = 0; first < T; first += rows->n_loaded) {
        const size_t left = T - first;
        if (!head_rows_load(rows, first, left < rows->n_rows ? left : rows->n_rows, maps))
            return false;
        for (size_t row = 0; row < rows->n_loaded && !hs__answer_cancelled(a); row++)
            hs_heads_js_add(hs_engine_runtime(a->model->engine), hs__answer_threads(a, n * n / 2 * K), maps,
                            n, T, K, row, entropies, d->values);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            d->values[i * n + j] = d->values[j * n + i];
    return true;
}

static bool measure_cka(head_rows *rows, distances *d)
{
    const hs_head_rows source = {.load = head_rows_load, .context = rows, .n_rows = rows->n_rows};
    void *scratch = malloc(hs_heads_hsic_bytes(d->n, rows->T));
    const bool measured = scratch && hs_heads_hsic_add_in(&source, d->n, rows->T, scratch, d->values);
    if (measured)
        hs_heads_cka_distance(d->values, d->n);
    free(scratch);
    return measured;
}

/* A request that is cancelled measures nothing, and is refused after all outputs. */
static hs_status measure(const hs__answer *a, distances *d, hs_error *err)
{
    const bool js = a->analysis->head_distance == HS__DISTANCE_JS;
    const float **maps = malloc(d->n * sizeof *maps);
    double *entropies = malloc(d->n * sizeof *entropies);
    head_rows rows = {0};
    bool measured = false;
    if (maps && entropies &&
        !head_rows_begin(a, js ? HS_TAP_ATTENTION : hs__answer_similarity(a), d->n, &rows))
        measured = js ? measure_js(a, &rows, maps, entropies, d) : measure_cka(&rows, d);
    free(maps);
    free(entropies);
    free(rows.memory);
    return measured || hs__answer_cancelled(a)
               ? HS_OK
               : hs_fail(err, HS_NO_MEMORY, "no memory for distances of heads");
}

static void distances_destroy(void *result)
{
    distances *d = result;
    free(d->values);
    free(d->rounded);
    free(d);
}

static hs_status distances_compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    distances *d = calloc(1, sizeof *d);
    if (!d)
        return hs_fail(err, HS_NO_MEMORY, "no memory for distances of heads");
    *ret_result = d;
    d->n = a->analysis->n_layers * a->analysis->n_heads;
    d->values = calloc(d->n * d->n, sizeof *d->values);
    d->rounded = malloc(d->n * d->n * sizeof *d->rounded);
    if (!d->values || !d->rounded)
        return hs_fail(err, HS_NO_MEMORY, "no memory for distances of heads");
    const hs_status st = measure(a, d, err);
    for (size_t i = 0; i < d->n * d->n && !st; i++)
        d->rounded[i] = (float)d->values[i];
    free(d->values);
    d->values = NULL;
    return st;
}

static void distances_block(const hs__table_row *row, hs__cell *ret)
{
    const distances *d = row->item;
    ret->block = (hs__cell_block){d->rounded, 2, {d->n, d->n}};
}

static void distances_most(const hs__measures *m, size_t ret_lengths[2])
{
    ret_lengths[0] = ret_lengths[1] = m->n_heads;
}

static const hs__table distance_table = {
    .kind = HS__TABLE_ONE,
    .arrays = "head_distances",
    .columns = (const hs__table_column[]){
        {"", .type = HS__CELL_BLOCK, .get = distances_block, .most = distances_most}, {0}}};

/* Returns the taps that the requested head distance needs. */
static unsigned choose_distance_taps(const hs__analysis_request *analysis)
{
    return analysis->head_distance == HS__DISTANCE_JS ? HS_KEEP(ATTENTION) : HS_KEEP(SIMILARITY);
}

static const hs__structure head_distances_structure = {
    .compute = distances_compute,
    .destroy = distances_destroy,
    .table = &distance_table,
};

const hs__output hs__output_row_head_distances = {.taps = HS_KEEP(ATTENTION) | HS_KEEP(SIMILARITY),
                                                  .structure = &head_distances_structure,
                                                  .choose_taps = choose_distance_taps,
                                                  .bytes = distances_bytes,
                                                  .again = HS__AGAIN_SQUARE,
                                                  .long_after = true};
