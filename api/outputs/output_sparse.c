/* output_sparse.c - the sparse vector of a text, by the head that predicts masked tokens. */
#include "api/outputs/structures.h"

#include "engine/analysis/sparse.h"

#include <stdlib.h>
#include <string.h>

typedef struct sparse_vector {
    size_t n;
    hs_sparse_entry entries[]; /* [vocab_size], of which n */
} sparse_vector;

/* ---- computing ---- */

/* Adds the logits of all tokens, some at a time. logits: scratch of n_rows rows. */
static hs_status tokens_add(const hs__answer *a, size_t n_rows, float *logits, double *sums, hs_error *err)
{
    const size_t T = a->text->rows.n_tokens, V = a->model->shape->vocab_size, H = a->capture->hidden;
    const float *states = hs_capture_at(a->capture, HS_TAP_LAST_STATE, 0, 0);
    hs_status st = HS_OK;
    for (size_t first = 0; first < T && !st && !hs__answer_cancelled(a); first += n_rows) {
        const size_t n = T - first < n_rows ? T - first : n_rows;
        st =
            hs_engine_predict(a->model->engine, states + first * H, n, 0, a->request->n_threads, logits, err);
        if (!st)
            hs_sparse_add(&a->model->architecture->sentence.sparse, logits, n, V, sums);
    }
    return st;
}

static hs_status sparse_compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    const size_t T = a->text->rows.n_tokens, V = a->model->shape->vocab_size;
    const size_t at_once = hs__positions_at_once(a, 1), n_rows = at_once < T ? at_once : T + 1;
    sparse_vector *s = malloc(sizeof *s + V * sizeof *s->entries);
    double *sums = calloc(V, sizeof *sums);
    float *logits = malloc(n_rows * V * sizeof *logits);
    hs_status st = HS_OK;
    *ret_result = s;
    if (s && sums && logits) {
        st = tokens_add(a, n_rows, logits, sums, err);
        s->n = hs_sparse_find(&a->model->architecture->sentence.sparse, sums, V, s->entries);
    } else {
        st = hs_fail(err, HS_NO_MEMORY, "no memory for a sparse vector");
    }
    free(sums);
    free(logits);
    return st;
}

static size_t sparse_bytes(const hs__measures *m)
{
    return m->shape->vocab_size * (sizeof(hs_sparse_entry) + sizeof(double));
}

/* ---- columns ---- */

static void sparse_pooling(const hs__table_row *row, hs__cell *ret)
{
    ret->text = hs_bytes_of(row->answer->model->architecture->sentence.sparse.sums ? "sum" : "max");
}

static void sparse_activation(const hs__table_row *row, hs__cell *ret)
{
    ret->text = hs_bytes_of(row->answer->model->architecture->sentence.sparse.twice ? "log1p_relu" : "relu");
}

static void entry_token(const hs__table_row *row, hs__cell *ret)
{
    const hs_tokenizer *tokenizer = hs_model_tokenizer(row->answer->model->model);
    ret->text = hs_bytes_of(hs_tokenizer_token(tokenizer, ((const hs_sparse_entry *)row->item)->id));
}

static hs__table_rows entry_rows(const hs__table_row *outer, size_t l)
{
    const sparse_vector *s = outer->item;
    (void)l;
    return (hs__table_rows){s->entries, s->n, sizeof *s->entries};
}

static size_t entries_max(const hs__measures *m)
{
    const size_t V = m->shape->vocab_size, n_most = m->architecture->sentence.sparse.n_most;
    return n_most > 0 && n_most < V ? n_most : V;
}

static const hs__table_column entry_columns[] = {
    {"id", .array = "ids", .type = HS__CELL_ID, HS__MEMBER(hs_sparse_entry, id)},
    {"token", .type = HS__CELL_ENTRY, .get = entry_token},
    {"weight", .array = "weights", .type = HS__CELL_NUMBER, HS__MEMBER(hs_sparse_entry, weight)},
    {0},
};

static const hs__table entry_table = {.kind = HS__TABLE_LIST,
                                      .arrays = "",
                                      .columns = entry_columns,
                                      .rows = entry_rows,
                                      .rows_max = entries_max};

static const hs__table_column sparse_columns[] = {
    {"pooling", .type = HS__CELL_TEXT, .get = sparse_pooling},
    {"activation", .type = HS__CELL_TEXT, .get = sparse_activation},
    {"entries", .type = HS__CELL_TABLE, .table = &entry_table},
    {0},
};

/* The two names. */
static size_t sparse_texts_max(const hs__measures *m)
{
    (void)m;
    return sizeof "sum" + sizeof "log1p_relu";
}

static const hs__table sparse_table = {.kind = HS__TABLE_ONE,
                                       .arrays = "sparse_embedding_",
                                       .columns = sparse_columns,
                                       .texts_max = sparse_texts_max};

static const hs__structure sparse_structure = {
    .compute = sparse_compute,
    .destroy = free,
    .table = &sparse_table,
};

const hs__output hs__output_row_sparse_embedding = {
    .taps = HS_KEEP(LAST_STATE), .structure = &sparse_structure, .bytes = sparse_bytes};
