/* output_changes.c - what interventions change: norms relative to the baseline pass, and the baseline's
 * predictions.
 *
 * Maps of both passes are kept, or computed again by strips of rows from queries, keys and head outputs. */
#include "api/outputs/structures.h"

#include "engine/analysis/predictions.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Outputs of prediction and task heads: changes has those of the baseline that are requested. */
#define OF_BASELINE(X) X(predictions) X(classes) X(next_sentence) X(answer) X(loss) X(embedding)

enum {
#define NUMBER(name) OF_##name,
    OF_BASELINE(NUMBER) N_OUTPUTS
#undef NUMBER
};

static const struct {
    unsigned output; /* HS__OUTPUT_... */
    const hs__output *row;
} outputs[] = {
#define OUTPUT(name) {HS__OUTPUT_##name, &hs__output_row_##name},
    OF_BASELINE(OUTPUT)
#undef OUTPUT
};

typedef struct changes {
    size_t n_layers, n_heads, n_states, n_tokens;
    void *of_baseline[N_OUTPUTS]; /* owned: the baseline's results of `outputs`; NULL if not requested */
    float before, after;          /* the target in the baseline and in the changed pass; see hs__has_target */
    float *attentions, *similarities; /* [l][h]: relative Frobenius norms */
    float hidden[];                   /* [L + 1][T]; the others follow */
} changes;

/* All layers are captured in both passes. */
static void measure_hidden(const hs__answer *a, changes *c)
{
    const size_t H = a->capture->hidden;
    for (size_t s = 0; s < c->n_states; s++) {
        const float *changed = hs_capture_at(a->capture, HS_TAP_HIDDEN_STATE, s, 0);
        const float *baseline = hs_capture_at(a->baseline, HS_TAP_HIDDEN_STATE, s, 0);
        for (size_t t = 0; t < c->n_tokens; t++)
            c->hidden[s * c->n_tokens + t] = (float)hs_relative_change(changed + t * H, baseline + t * H, H);
    }
}

/* ---- maps ---- */

enum { STRIP = 128 }; /* rows of a map that are computed again at a time */

/* The maps of one tap in both passes. */
typedef struct map_changes {
    const hs__answer *answer;
    hs_tap tap;
    size_t n_heads, n_rows, n_columns;
    float *strips; /* [slots][2][STRIP][n_columns]; NULL: the maps are kept */
    float *ret;    /* [l][h] */
    atomic_int failed;
} map_changes;

static size_t strip_floats(size_t n_tokens, size_t n_keys)
{
    return STRIP * (n_tokens > n_keys ? n_tokens : n_keys);
}

static size_t changes_bytes(const hs__measures *m)
{
    return m->again ? 2 * m->n_threads * strip_floats(m->n_tokens, m->n_keys) * sizeof(float) : 0;
}

/* Computes n rows of the map at a place of a pass again. */
static hs_status rows_make(const map_changes *m, const hs_capture *pass, size_t l, size_t h, size_t first,
                           size_t n, float *ret_rows)
{
    const hs_engine *engine = m->answer->model->engine;
    return m->tap == HS_TAP_ATTENTION
               ? hs_engine_attention(engine, pass, l, h, first, n, ret_rows, NULL)
               : hs_engine_similarity(engine, pass, l, h, hs__similarity_kind(m->answer->analysis), first, n,
                                      ret_rows, NULL);
}

/* Adds the squares of n rows from `first`. Similarities are symmetric and have no diagonal, so only those
 * above it are computed. */
static void rows_compare(const map_changes *m, const float *changed, const float *baseline, size_t first,
                         size_t n, double squares[2])
{
    const size_t K = m->n_columns;
    if (m->tap == HS_TAP_ATTENTION)
        hs_change_add(changed, baseline, n * K, squares);
    for (size_t i = 0; m->tap != HS_TAP_ATTENTION && i < n; i++) {
        const size_t from = first + i + 1;
        hs_change_add(changed + i * K + from, baseline + i * K + from, K - from, squares);
    }
}

/* Task: the change of one map that is computed again. */
static void task_change(void *context, size_t task, size_t slot)
{
    map_changes *m = context;
    const hs__answer *a = m->answer;
    const size_t l = task / m->n_heads, h = task % m->n_heads;
    float *changed = m->strips + 2 * slot * strip_floats(a->capture->n_tokens, a->capture->n_keys);
    float *baseline = changed + STRIP * m->n_columns;
    double squares[2] = {0};
    for (size_t first = 0; first < m->n_rows && !hs__answer_cancelled(a); first += STRIP) {
        const size_t n = m->n_rows - first < STRIP ? m->n_rows - first : STRIP;
        if (rows_make(m, a->capture, a->layer_at[l], a->head_at[h], first, n, changed) ||
            rows_make(m, a->baseline, a->baseline_layer_at[l], a->baseline_head_at[h], first, n, baseline)) {
            atomic_store(&m->failed, 1);
            return;
        }
        rows_compare(m, changed, baseline, first, n, squares);
    }
    m->ret[task] = (float)(sqrt(squares[0]) / sqrt(squares[1]));
}

static hs_status measure_again(map_changes *m, size_t n_maps, hs_error *err)
{
    const hs__answer *a = m->answer;
    const size_t n_threads = a->request->n_threads > 1 ? a->request->n_threads : 1;
    m->strips = hs_memory_create(2 * n_threads * strip_floats(a->capture->n_tokens, a->capture->n_keys) *
                                 sizeof *m->strips);
    if (m->strips)
        hs__answer_share(a, n_threads, n_maps, task_change, m);
    const bool failed = !m->strips || atomic_load(&m->failed);
    free(m->strips);
    return failed ? hs_fail(err, HS_NO_MEMORY, "no memory to compute maps") : HS_OK;
}

static hs_status measure_maps(const hs__answer *a, hs_tap tap, size_t n_layers, size_t n_heads, float *ret,
                              hs_error *err)
{
    const size_t T = a->capture->n_tokens, K = tap == HS_TAP_ATTENTION ? a->capture->n_keys : T;
    if (!a->capture->arrays[tap] || !a->baseline->arrays[tap]) {
        map_changes m = {
            .answer = a, .tap = tap, .n_heads = n_heads, .n_rows = T, .n_columns = K, .ret = ret};
        return measure_again(&m, n_layers * n_heads, err);
    }
    for (size_t l = 0; l < n_layers && !hs__answer_cancelled(a); l++)
        for (size_t h = 0; h < n_heads; h++) {
            const float *baseline =
                hs_capture_at(a->baseline, tap, a->baseline_layer_at[l], a->baseline_head_at[h]);
            ret[l * n_heads + h] = (float)hs_relative_change(hs__answer_at(a, tap, l, h), baseline, T * K);
        }
    return HS_OK;
}

/* Reads the target from the last hidden states of both passes. */
static hs_status measure_target(const hs__answer *a, changes *c, hs_error *err)
{
    const hs_architecture *architecture = a->model->architecture;
    const size_t L = a->model->shape->n_layers, T = a->capture->n_tokens;
    const hs_capture *const passes[] = {a->baseline, a->capture};
    hs_target target;
    double values[2];
    hs_status st = hs__target_find(a, hs_capture_at(a->baseline, HS_TAP_HIDDEN_STATE, L, 0), &target, err);
    if (st || target.kind == HS_TARGET_NONE)
        return st;
    const size_t n = hs_target_floats(architecture, &target, T);
    float *rows = malloc(2 * n * sizeof *rows);
    if (!rows)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a target");
    for (size_t i = 0; i < 2 && !st; i++)
        st = hs_target_rows(a->model->engine, &target, hs_capture_at(passes[i], HS_TAP_HIDDEN_STATE, L, 0),
                            passes[i], a->request->n_threads, rows + i * n, err);
    if (!st)
        st = hs_target_values(a->model->engine, &target, rows, 2, a->text->rows.ids, T, a->request->n_threads,
                              values, NULL, err);
    free(rows);
    if (st)
        return st;
    c->before = (float)values[0];
    c->after = (float)values[1];
    return HS_OK;
}

static hs_status changes_compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    const size_t n_states = a->model->shape->n_layers + 1, T = a->capture->n_tokens;
    const size_t n_layers = a->analysis->n_layers, n_heads = a->analysis->n_heads;
    changes *c = calloc(1, sizeof *c + (n_states * T + 2 * n_layers * n_heads) * sizeof(float));
    if (!c)
        return hs_fail(err, HS_NO_MEMORY, "no memory for changes");
    c->n_layers = n_layers;
    c->n_heads = n_heads;
    c->n_states = n_states;
    c->n_tokens = T;
    c->attentions = c->hidden + n_states * T;
    c->similarities = c->attentions + n_layers * n_heads;
    measure_hidden(a, c);
    *ret_result = c;
    hs__answer baseline = *a;
    baseline.capture = a->baseline;
    hs_status st = measure_maps(a, HS_TAP_ATTENTION, n_layers, n_heads, c->attentions, err);
    if (!st)
        st = measure_maps(a, hs__answer_similarity(a), n_layers, n_heads, c->similarities, err);
    if (!st)
        st = measure_target(a, c, err);
    for (size_t i = 0; i < N_OUTPUTS && !st; i++)
        if (a->analysis->outputs >> outputs[i].output & 1)
            st = outputs[i].row->structure->compute(&baseline, &c->of_baseline[i], err);
    return st;
}

static void changes_destroy(void *result)
{
    changes *c = result;
    for (size_t i = 0; i < N_OUTPUTS; i++)
        outputs[i].row->structure->destroy(c->of_baseline[i]);
    free(c);
}

/* ---- columns ---- */

static void changes_hidden(const hs__table_row *row, hs__cell *ret)
{
    const changes *c = row->item;
    ret->block = (hs__cell_block){c->hidden, 2, {c->n_states, c->n_tokens}};
}

static void changes_attentions(const hs__table_row *row, hs__cell *ret)
{
    const changes *c = row->item;
    ret->block = (hs__cell_block){c->attentions, 2, {c->n_layers, c->n_heads}};
}

static void changes_similarities(const hs__table_row *row, hs__cell *ret)
{
    const changes *c = row->item;
    ret->block = (hs__cell_block){c->similarities, 2, {c->n_layers, c->n_heads}};
}

static void states_most(const hs__measures *m, size_t ret_lengths[2])
{
    ret_lengths[0] = m->shape->n_layers + 1;
    ret_lengths[1] = m->n_tokens;
}

static void heads_most(const hs__measures *m, size_t ret_lengths[2])
{
    ret_lengths[0] = m->analysis->n_layers;
    ret_lengths[1] = m->analysis->n_heads;
}

/* In arrays both numbers of the target are one. */
static void changes_target(const hs__table_row *row, hs__cell *ret)
{
    ret->block = (hs__cell_block){&((const changes *)row->item)->before, 1, {2}};
}
_Static_assert(offsetof(changes, after) == offsetof(changes, before) + sizeof(float), "side by side");

static void target_most(const hs__measures *m, size_t ret_lengths[2])
{
    (void)m;
    ret_lengths[0] = 2;
}

static const hs__table target_table = {
    .kind = HS__TABLE_ONE,
    .columns = (const hs__table_column[]){{"before", .type = HS__CELL_NUMBER, HS__MEMBER(changes, before)},
                                          {"after", .type = HS__CELL_NUMBER, HS__MEMBER(changes, after)},
                                          {0}}};

#define FUNCTIONS(output)                                                                                    \
    static bool has_##output(const hs__analysis_request *analysis)                                           \
    {                                                                                                        \
        return analysis->outputs & HS__OUTPUT_BIT(output);                                                   \
    }                                                                                                        \
    static void changes_##output(const hs__table_row *row, hs__cell *ret)                                    \
    {                                                                                                        \
        ret->item = ((const changes *)row->item)->of_baseline[OF_##output];                                  \
    }
OF_BASELINE(FUNCTIONS)
#undef FUNCTIONS

static const hs__table_column change_columns[] = {
    {"hidden", .type = HS__CELL_BLOCK, .get = changes_hidden, .most = states_most},
    {"attentions", .type = HS__CELL_BLOCK, .get = changes_attentions, .most = heads_most},
    {"similarities", .type = HS__CELL_BLOCK, .get = changes_similarities, .most = heads_most},
    {"target", .type = HS__CELL_BLOCK, .place = HS__IN_ARRAYS, .get = changes_target, .most = target_most,
     .is_answered = hs__has_target},
    {"target", .type = HS__CELL_TABLE, .place = HS__IN_JSON, .table = &target_table,
     .is_answered = hs__has_target},
#define COLUMN(output)                                                                                       \
    {#output, .type = HS__CELL_TABLE, .table = &hs__table_of_##output, .get = changes_##output,              \
     .is_answered = has_##output},
    OF_BASELINE(COLUMN)
#undef COLUMN
        {0},
};

static const hs__table change_table = {
    .kind = HS__TABLE_ONE, .arrays = "changes_", .columns = change_columns};

static const hs__structure changes_structure = {
    .compute = changes_compute,
    .destroy = changes_destroy,
    .table = &change_table,
};

const hs__output hs__output_row_changes = {.taps = HS_KEEP(ATTENTION) | HS_KEEP(SIMILARITY) |
                                                   HS_KEEP(HIDDEN_STATE),
                                           .structure = &changes_structure,
                                           .every_layer = true,
                                           .bytes = changes_bytes,
                                           .again = HS__AGAIN};
