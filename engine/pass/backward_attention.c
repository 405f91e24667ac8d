/* backward_attention.c - one head, backwards: from the gradient of O to those of A, q, k and v.
 *
 *     dA = dO V'                                  dV = A' dO
 *     ds = A * (dA - rowsum(A * dA))              of the softmax; times the cap's slope and the scale
 *     dQ = ds K                                   dK = ds' Q
 *
 * Scores with relative positions add rows of the table to dQ and dK. A query takes each row as often as the
 * sum of ds over the keys that meet it there. Rotations turn back, and norms of q and k follow.
 *
 * A strip of rows of A is in the second-level cache while it is read four times. Products have few rows if
 * they are of d columns the other way, so that strips are packed as they are: dK' = Q' ds. */
#include "engine/pass/tape.h"

#include "model/base/clones.h"
#include "model/base/sizes.h"

#include <string.h>

enum { STRIP_FLOATS = 65536, LANES = 16 };

static size_t lanes_ceil(const hs__kernels *kernels, size_t n)
{
    return (n + kernels->lanes - 1) / kernels->lanes * kernels->lanes;
}

/* Returns the rows of a strip. */
static size_t strip_rows(const hs__kernels *kernels, size_t T, size_t K)
{
    const size_t n = STRIP_FLOATS / lanes_ceil(kernels, K) / kernels->tile_rows * kernels->tile_rows;
    return hs_min(T, n > 0 ? n : kernels->tile_rows);
}

void hs__head_back_layout(const hs_engine *engine, size_t T, size_t K, hs__arena *arena,
                          hs__head_back_scratch *ret_scratch)
{
    const hs__kernels *kernels = engine->kernels;
    const size_t D = engine->shape.head_width, R = engine->relative.n_rows;
    const size_t n_strip = hs_max(STRIP_FLOATS, kernels->tile_rows * lanes_ceil(kernels, K));
    const size_t n_table = hs__panels_floats(kernels, R, D);
    const bool capped = engine->architecture->score_cap > 0;
    hs__head_back_scratch s = {0};
    s.values = hs__arena_floats(arena, hs__panels_floats(kernels, D, K));
    s.keys = hs__arena_floats(arena, hs__panels_floats(kernels, K, D));
    s.strip = hs__arena_floats(arena, n_strip);
    s.packed = hs__arena_floats(arena, hs_max(n_strip, n_table));
    s.queries = hs__arena_floats(arena, D * T);
    s.outputs = hs__arena_floats(arena, D * T);
    s.part = hs__arena_floats(arena, D * K);
    s.key_sums = hs__arena_floats(arena, D * K);
    s.value_sums = hs__arena_floats(arena, D * K);
    if (capped) {
        s.scores = hs__arena_floats(arena, hs__panels_floats(kernels, D, K));
        s.capped = hs__arena_floats(arena, n_strip);
    }
    if (R > 0) {
        s.query_rows = hs__arena_floats(arena, T * R);
        s.key_rows = hs__arena_floats(arena, K * R);
        s.table = hs__arena_floats(arena, R * D);
        s.added = hs__arena_floats(arena, hs_max(T, K) * D);
    }
    *ret_scratch = s;
}

/* ---- the output ---- */

/* Writes to [n_columns][ldt] = x' of n_rows rows that are ld floats apart. */
static void transpose(size_t n_rows, size_t n_columns, const float *x, size_t ld, float *to, size_t ldt)
{
    enum { SQUARE = 16 };
    for (size_t i = 0; i < n_rows; i += SQUARE)
        for (size_t j = 0; j < n_columns; j += SQUARE) {
            const size_t end_i = hs_min(i + SQUARE, n_rows), end_j = hs_min(j + SQUARE, n_columns);
            for (size_t c = j; c < end_j; c++)
                for (size_t r = i; r < end_i; r++)
                    to[c * ldt + r] = x[r * ld + c];
        }
}

/* Writes what is requested of the gradient of O, interventions applied. */
static void output_keep(const hs__head_back *b)
{
    const hs__head *head = b->head, *to = b->to;
    const size_t D = head->D;
    for (size_t t = 0; t < head->T; t++) {
        const float *g = to->context + t * to->context_step, *o = head->context + t * head->context_step;
        if (b->ret_output)
            memcpy(b->ret_output + t * D, g, D * sizeof *g);
        double sum = 0;
        for (size_t d = 0; b->ret_attribution && d < D; d++)
            sum += (double)g[d] * (double)o[d];
        if (b->ret_attribution)
            b->ret_attribution[t] = (float)sum;
    }
}

/* Sets the rows at a patch's positions to 0: nothing of what was there is left. */
static void rows_clear(const hs_intervention *patch, size_t n_tokens, size_t width, float *x, size_t step)
{
    const size_t n = patch->n_positions > 0 ? patch->n_positions : n_tokens;
    for (size_t i = 0; i < n; i++)
        memset(x + (patch->n_positions > 0 ? patch->positions[i] : i) * step, 0, width * sizeof *x);
}

static void patches_clear(const hs__head *to)
{
    const hs__head_place *place = &to->place;
    for (size_t i = 0; i < place->sequence->n_interventions; i++) {
        const hs_intervention *patch = &place->sequence->interventions[i];
        if (patch->kind == HS_INTERVENE_PATCH && patch->cross == place->cross &&
            hs__list_find(patch->layers, patch->n_layers, place->layer) >= 0 &&
            hs__list_find(patch->heads, patch->n_heads, place->head) >= 0)
            rows_clear(patch, to->T, to->D, to->context, to->context_step);
    }
}

/* Takes the gradient of O back through its interventions, to that of A V. */
static void output_unchange(const hs__head *to)
{
    const hs__head_change *change = &to->change;
    const size_t T = to->T, step = to->context_step;
    for (size_t d = 0; (change->mean || change->factor != 1) && d < to->D; d++) {
        float *column = to->context + d;
        double sum = 0;
        for (size_t t = 0; t < T; t++)
            sum += column[t * step];
        for (size_t t = 0; t < T; t++)
            column[t * step] = change->factor * (change->mean ? (float)(sum / (double)T) : column[t * step]);
    }
    if (change->patched)
        patches_clear(to);
}

/* ---- strips ---- */

typedef struct strip {
    size_t first, n, from, to, ld; /* queries, keys, floats between rows */
} strip;

static strip strip_of(const hs__kernels *kernels, const hs__head *head, size_t first, size_t n_rows)
{
    const size_t w = head->window, K = head->K, panel = kernels->panel;
    strip s = {.first = first, .n = hs_min(n_rows, head->T - first), .to = K};
    if (w > 0)
        s.from = first > w ? (first - w) / panel * panel : 0;
    if (w > 0 || head->causal)
        s.to = hs_min(K, (first + s.n + (head->causal ? 0 : w) + panel - 1) / panel * panel);
    s.ld = lanes_ceil(kernels, s.to - s.from);
    return s;
}

/* Finds the keys that query i sees. */
static void keys_of(const hs__head *head, size_t i, size_t *ret_first, size_t *ret_end)
{
    const size_t K = head->K, w = head->window;
    *ret_first = w > 0 && i > w ? i - w : 0;
    *ret_end = head->causal ? i + 1 : w > 0 && K - i > w ? i + w + 1 : K;
}

/* Writes a row of dA, 0 where a key is hidden, and adds the row's relevance. */
static HS_CLONES void row_keep(const hs__head_back *b, size_t i, const float *a, const float *g, size_t from,
                               size_t to)
{
    const size_t K = b->head->K;
    size_t first, end;
    keys_of(b->head, i, &first, &end);
    if (b->ret_attention) {
        float *row = b->ret_attention + i * K;
        memset(row, 0, first * sizeof *row);
        memcpy(row + first, g + (first - from), (end - first) * sizeof *row);
        memset(row + end, 0, (K - end) * sizeof *row);
    }
    if (!b->relevance)
        return;
    float *relevance = b->relevance + i * K + from;
    for (size_t j = 0; j < to - from; j++) {
        const float product = a[j] * g[j];
        relevance[j] += b->share * (product > 0 ? product : 0);
    }
}

/* Replaces a row g of dA by factor a * (g - <a, g>). */
static HS_CLONES void softmax_back(size_t n, const float *a, float factor, float *g)
{
    float sums[LANES] = {0};
    double sum = 0;
    size_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (size_t k = 0; k < LANES; k++)
            sums[k] += a[j + k] * g[j + k];
    for (; j < n; j++)
        sum += (double)(a[j] * g[j]);
    for (size_t k = 0; k < LANES; k++)
        sum += (double)sums[k];
    const float middle = (float)sum;
    for (j = 0; j < n; j++)
        g[j] = factor * a[j] * (g[j] - middle);
}

/* Multiplies by 1 - t^2, t = tanh(s / cap). */
static HS_CLONES void row_uncap(size_t n, const float *t, float *g)
{
    for (size_t j = 0; j < n; j++)
        g[j] *= (1 - t[j]) * (1 + t[j]);
}

/* Takes ds of a strip back through the cap of scores, which are computed again. */
static void strip_uncap(const hs__kernels *kernels, const hs__head_back_scratch *scratch,
                        const hs__head *head, const strip *s)
{
    const size_t D = head->D, n = s->to - s->from;
    for (size_t c = s->from; c < s->to; c += kernels->panel)
        kernels->product(s->n, D, head->q + s->first * head->step, head->step, scratch->scores + D * c,
                         hs_min(kernels->panel, s->to - c), NULL, NULL, scratch->capped + (c - s->from),
                         s->ld);
    for (size_t i = 0; i < s->n; i++) {
        float *row = scratch->capped + i * s->ld;
        for (size_t j = 0; j < n; j++)
            row[j] *= head->scale / head->cap;
        kernels->activate[HS_TANH](1, n, row, s->ld);
        row_uncap(n, row, scratch->strip + i * s->ld);
    }
}

/* Adds turned [D] x strip to sums [D][K], where turned [D][T] has a column for each query. */
static void sums_add(const hs__kernels *kernels, const hs__head_back_scratch *scratch, const hs__head *head,
                     const strip *s, const float *turned, const float *rows, size_t ld, float *sums)
{
    const size_t D = head->D, K = head->K, n = s->to - s->from;
    const bool whole = s->first == 0 && n == K; /* the first strip sets them */
    float *to = whole ? sums : scratch->part;
    kernels->pack(s->n, n, rows, ld, 1, scratch->packed);
    kernels->product(D, s->n, turned + s->first, head->T, scratch->packed, n, NULL, NULL, to, K);
    if (whole)
        return;
    for (size_t d = 0; d < D; d++) {
        if (s->first == 0)
            memset(sums + d * K, 0, K * sizeof *sums);
        kernels->add_bias(1, n, to + d * K, sums + d * K + s->from, n);
    }
}

/* Adds ds to what each query and each key has at the rows of the table where they meet. */
static void rows_add(const hs__head *head, const hs__head_back_scratch *scratch, const strip *s)
{
    const size_t R = head->n_position_rows;
    for (size_t i = 0; i < s->n; i++) {
        const int32_t *rows = head->position_rows - (ptrdiff_t)(s->first + i);
        const float *g = scratch->strip + i * s->ld;
        float *query = scratch->query_rows + (s->first + i) * R;
        for (size_t j = s->from; head->position_keys && j < s->to; j++)
            query[rows[j]] += g[j - s->from];
        for (size_t j = s->from; head->position_queries && j < s->to; j++)
            scratch->key_rows[j * R + (size_t)rows[j]] += g[j - s->from];
    }
}

static void strip_back(const hs__kernels *kernels, const hs__head_back_scratch *scratch,
                       const hs__head_back *b, const strip *s)
{
    const hs__head *head = b->head, *to = b->to;
    const size_t D = head->D, K = head->K, n = s->to - s->from;
    const bool replaced = head->change.uniform || head->change.identity;
    const float *A = b->attention + s->first * K + s->from;
    for (size_t c = s->from; c < s->to; c += kernels->panel)
        kernels->product(s->n, D, to->context + s->first * to->context_step, to->context_step,
                         scratch->values + D * c, hs_min(kernels->panel, s->to - c), NULL, NULL,
                         scratch->strip + (c - s->from), s->ld);
    for (size_t i = 0; i < s->n; i++) {
        float *g = scratch->strip + i * s->ld;
        if (b->ret_attention || b->relevance)
            row_keep(b, s->first + i, A + i * K, g, s->from, s->to);
        softmax_back(n, A + i * K, head->scale, g);
    }
    sums_add(kernels, scratch, head, s, scratch->outputs, A, K, scratch->value_sums);
    if (replaced)
        return;
    if (head->cap > 0)
        strip_uncap(kernels, scratch, head, s);
    for (size_t c = 0; c < D; c += kernels->panel) {
        const size_t width = hs_min(kernels->panel, D - c);
        kernels->product(s->n, n, scratch->strip, s->ld,
                         scratch->keys + K * c + hs__panels_floats(kernels, s->from, width), width, NULL,
                         NULL, to->q + s->first * to->step + c, to->step);
    }
    sums_add(kernels, scratch, head, s, scratch->queries, scratch->strip, s->ld, scratch->key_sums);
    if (head->n_position_rows > 0)
        rows_add(head, scratch, s);
}

/* ---- relative positions ---- */

/* Reads Kr [R][D] from its panels, which are [D][R]. */
static void position_keys_read(const hs__kernels *kernels, const hs__head *head, float *ret_rows)
{
    const size_t D = head->D, R = head->n_position_rows;
    for (size_t c = 0; c < R; c += kernels->panel) {
        const size_t n = hs_min(kernels->panel, R - c), width = lanes_ceil(kernels, n);
        transpose(D, n, head->position_keys + D * c, width, ret_rows + c * D, D);
    }
}

/* Computes n rows of sums [R] times the table [R][D]: scratch->added [n][D]. */
static void table_multiply(const hs__kernels *kernels, const hs__head_back_scratch *scratch,
                           const hs__head *head, size_t n, const float *sums, const float *table)
{
    const size_t D = head->D, R = head->n_position_rows;
    kernels->pack(R, D, table, D, 1, scratch->packed);
    kernels->product(n, R, sums, R, scratch->packed, D, NULL, NULL, scratch->added, D);
}

/* ---- queries and keys ---- */

/* Turns rows back by the angles of their positions: the transposed rotation. */
static HS_CLONES void rotate_back(const hs__rotation *rotation, size_t n, size_t half, float *x, size_t ld)
{
    const size_t pair = rotation->interleaved ? 2 : 1, apart = rotation->interleaved ? 1 : half;
    for (size_t t = 0; t < n; t++) {
        const float *cosines = rotation->cosines + t * half, *sines = rotation->sines + t * half;
        float *a = x + t * ld, *b = a + apart;
        for (size_t m = 0; m < half; m++) {
            const float turned = a[m * pair] * cosines[m] + b[m * pair] * sines[m];
            b[m * pair] = b[m * pair] * cosines[m] - a[m * pair] * sines[m];
            a[m * pair] = turned;
        }
    }
}

/* Takes the gradient of n queries or keys back to before they were rotated and normed. */
static void rows_unposition(const hs_engine *engine, const hs__head *head, const hs__packed_norm *norm,
                            size_t n, const float *raw, float *g, size_t step)
{
    if (head->rotation)
        rotate_back(head->rotation, n, head->rotary_half, g, step);
    for (size_t t = 0; norm->gamma && t < n; t++)
        hs__norm_back(engine, norm, 1, head->D, raw + t * step, NULL, g + t * step, NULL, g + t * step);
}

/* Stores [D][K] sums as rows, or adds them. */
static void rows_store(const hs__head_back *b, const float *sums, const float *added, float *to)
{
    enum { SQUARE = 16 };
    const size_t D = b->head->D, K = b->head->K, step = b->to->key_step;
    for (size_t first = 0; first < K; first += SQUARE)
        for (size_t d = 0; d < D; d++)
            for (size_t j = first; j < hs_min(first + SQUARE, K); j++) {
                const float more = (added ? added[j * D + d] : 0) + (b->more_keys ? to[j * step + d] : 0);
                to[j * step + d] = sums[d * K + j] + more;
            }
}

/* Sets the gradients that no score passes on. */
static void operands_clear(const hs__head_back_scratch *scratch, const hs__head_back *b)
{
    const hs__head *to = b->to;
    for (size_t t = 0; t < to->T; t++)
        memset(to->q + t * to->step, 0, to->D * sizeof *to->q);
    memset(scratch->key_sums, 0, to->D * to->K * sizeof *scratch->key_sums);
}

static void queries_end(const hs_engine *engine, const hs__head_back_scratch *scratch, const hs__head_back *b)
{
    const hs__head *head = b->head, *to = b->to;
    const size_t D = head->D;
    if (head->position_keys) {
        position_keys_read(engine->kernels, head, scratch->table);
        table_multiply(engine->kernels, scratch, head, head->T, scratch->query_rows, scratch->table);
        for (size_t t = 0; t < head->T; t++)
            engine->kernels->add_bias(1, D, scratch->added + t * D, to->q + t * to->step, D);
    }
    rows_unposition(engine, head, &head->query_norm, head->T, b->raw_q, to->q, to->step);
}

static void keys_end(const hs_engine *engine, const hs__head_back_scratch *scratch, const hs__head_back *b)
{
    const hs__head *head = b->head, *to = b->to;
    const bool placed = head->position_queries != NULL;
    if (placed)
        table_multiply(engine->kernels, scratch, head, head->K, scratch->key_rows, head->position_queries);
    rows_store(b, scratch->key_sums, placed ? scratch->added : NULL, to->k);
    rows_store(b, scratch->value_sums, NULL, to->v);
    if (b->keys_done)
        rows_unposition(engine, head, &head->key_norm, head->K, b->raw_k, to->k, to->key_step);
}

void hs__attend_back(const hs_engine *engine, const hs__head_back_scratch *scratch, const hs__head_back *b)
{
    const hs__kernels *kernels = engine->kernels;
    const hs__head *head = b->head, *to = b->to;
    const size_t T = head->T, K = head->K, D = head->D, n_rows = strip_rows(kernels, T, K);
    output_keep(b);
    output_unchange(to);
    kernels->pack(D, K, head->v, 1, head->key_step, scratch->values); /* B = V' */
    kernels->pack(K, D, head->k, head->key_step, 1, scratch->keys);   /* B = K */
    if (head->cap > 0)
        kernels->pack(D, K, head->k, 1, head->key_step, scratch->scores); /* B = K' */
    transpose(T, D, head->q, head->step, scratch->queries, T);
    transpose(T, D, to->context, to->context_step, scratch->outputs, T);
    if (head->n_position_rows > 0) {
        memset(scratch->query_rows, 0, T * head->n_position_rows * sizeof *scratch->query_rows);
        memset(scratch->key_rows, 0, K * head->n_position_rows * sizeof *scratch->key_rows);
    }
    if (head->change.uniform || head->change.identity)
        operands_clear(scratch, b);
    for (size_t row = 0; row < T; row += n_rows) {
        const strip s = strip_of(kernels, head, row, n_rows);
        strip_back(kernels, scratch, b, &s);
    }
    queries_end(engine, scratch, b);
    keys_end(engine, scratch, b);
}
