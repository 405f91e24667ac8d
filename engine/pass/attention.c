/* attention.c - one head: A = softmax of the scores, Q K' / sqrt(d) and what they have of positions, O = A V,
 * S = O O'.
 *
 * Each step is done while what it reads is in the nearest cache: a few rows of A are computed in the slot
 * where they are kept, turned into probabilities, summed by column and multiplied with V before the next rows
 * begin. Where a window hides keys, only the panels that these rows see are computed. */
#include "engine/pass/cpu.h"
#include "model/clones.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* 20 KB of a map at once leave the first-level cache room for panels. With relative positions n rows meet n
 * and a panel's rows of the table at each panel of keys, so that few rows would cost many; and n queries meet
 * n rows of it beside those of a whole text, so that they are few. */
enum { ROWS_FLOATS = 5120, RELATIVE_ROWS = 135, MEETING_ROWS = 18 };

/* Keys that one query sees, at most. */
static size_t keys_max(size_t window, size_t n_tokens)
{
    return window > 0 && 2 * window + 1 < n_tokens ? 2 * window + 1 : n_tokens;
}

/* Rows of a map that are computed at once, so that they are still in the first-level cache when the softmax
 * and then the product with V read them. */
static size_t rows_at_once(const hs__kernels *kernels, size_t n_keys)
{
    assert(n_keys > 0);
    const size_t n_tiles = ROWS_FLOATS / n_keys / kernels->tile_rows;
    return kernels->tile_rows * (n_tiles > 0 ? n_tiles : 1);
}

/* As equal strips as can be: one of a few rows meets a panel's rows of the table all the same. */
static size_t relative_rows(size_t n_tokens)
{
    assert(n_tokens > 0);
    const size_t n_strips = (n_tokens + RELATIVE_ROWS - 1) / RELATIVE_ROWS;
    return (n_tokens + n_strips - 1) / n_strips;
}

/* Without a window rows x keys is at most ROWS_FLOATS, or a tile's rows of the longest text. With one that is
 * shorter than the text, a row is as wide as the keys that all rows see, in whole panels. */
size_t hs__attention_floats(const hs__cpu_engine *engine, size_t n_tokens)
{
    const hs__kernels *kernels = engine->kernels;
    size_t n = kernels->tile_rows * n_tokens;
    n = n > ROWS_FLOATS ? n : ROWS_FLOATS;
    if (engine->relative.n_rows > 0 && n < RELATIVE_ROWS * n_tokens)
        n = RELATIVE_ROWS * n_tokens;
    for (size_t l = 0; l < engine->shape.n_layers; l++) {
        const size_t n_keys = keys_max(engine->layers[l].window, n_tokens);
        const size_t rows = rows_at_once(kernels, n_keys),
                     windowed = rows * (n_keys + rows + 2 * kernels->panel);
        if (n_keys < n_tokens && windowed > n)
            n = windowed;
    }
    return n;
}

/* Room for a few rows of a strip beside each row of the table that they meet, or for a panel of keys beside
 * what the whole strip meets there. */
size_t hs__position_floats(const hs__cpu_engine *engine, size_t n_tokens)
{
    const size_t R = engine->relative.n_rows, panel = engine->kernels->panel;
    const size_t n_keys = (RELATIVE_ROWS + panel) * panel;
    const size_t met = n_tokens + MEETING_ROWS < R ? n_tokens + MEETING_ROWS : R;
    const size_t n_queries = MEETING_ROWS * (met + 2 * panel);
    return R == 0 ? 0 : n_keys > n_queries ? n_keys : n_queries;
}

/* Some rows of the map of a head: queries [first, first + n), and the keys [from, to) that any of them sees,
 * in whole panels. values is that part of the map. */
typedef struct strip {
    size_t first, n, from, to;
    float *values; /* [n][ld] */
    size_t ld;
} strip;

static strip strip_of(const hs__kernels *kernels, const hs__attention_scratch *scratch, const hs__head *head,
                      size_t first, size_t n_rows)
{
    const size_t T = head->T, w = head->window, panel = kernels->panel;
    strip s = {.first = first, .n = T - first < n_rows ? T - first : n_rows, .to = T};
    if (w > 0) {
        s.from = first > w ? (first - w) / panel * panel : 0;
        const size_t end = (first + s.n + w + panel - 1) / panel * panel;
        s.to = end < T ? end : T;
    }
    s.ld = head->attention ? T : s.to - s.from;
    s.values = head->attention ? head->attention + first * T + s.from : scratch->rows;
    return s;
}

/* The keys that query i sees. */
static void keys_of(const hs__head *head, size_t i, size_t *ret_first, size_t *ret_end)
{
    const size_t w = head->window > 0 ? head->window : head->T;
    *ret_first = i > w ? i - w : 0;
    *ret_end = head->T - i > w ? i + w + 1 : head->T;
}

static void fill(float *values, size_t from, size_t to, float value)
{
    for (size_t j = from; j < to; j++)
        values[j] = value;
}

/* A copy of the strip, for more is added and the softmax works in place. */
static void scores_keep(const hs__head *head, const strip *s, float *map)
{
    const size_t T = head->T;
    for (size_t i = 0; map && i < s->n; i++) {
        float *to = map + (s->first + i) * T;
        fill(to, 0, s->from, -INFINITY);
        for (size_t j = s->from; j < s->to; j++)
            to[j] = s->values[i * s->ld + j - s->from] * head->scale;
        fill(to, s->to, T, -INFINITY);
    }
}

/* What is in products with rows of the table, of which `first` is the first, for the strip's distances to n
 * keys from key j on is added to their scores and, scaled, kept in a map of its own. */
typedef struct picking {
    hs__add_picked *add;
    size_t first;
    const float *products;
    size_t ld;
    float *map; /* or NULL */
} picking;

static void position_add(const hs__head *head, const strip *s, size_t j, size_t n, picking p)
{
    const size_t T = head->T;
    const int32_t *rows = head->position_rows + (ptrdiff_t)j - (ptrdiff_t)s->first;
    p.add(s->n, n, rows, (int32_t)p.first, p.products, p.ld, s->values + j - s->from, s->ld);
    if (!p.map)
        return;
    float *to = p.map + s->first * T + j;
    for (size_t i = 0; i < s->n; i++)
        fill(to + i * T, 0, n, 0);
    p.add(s->n, n, rows, (int32_t)p.first, p.products, p.ld, to, T);
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < n; k++)
            to[i * T + k] *= head->scale;
}

/* + Q Kr': each query beside the rows of the table that the strip's distances have. */
static void content_to_position(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                                const hs__head *head, const strip *s)
{
    const size_t D = head->D, ldq = 3 * head->H, R = head->n_position_rows, panel = kernels->panel;
    const int32_t *rows = head->position_rows - (ptrdiff_t)s->first;
    const size_t first = (size_t)rows[(ptrdiff_t)s->from - (ptrdiff_t)(s->n - 1)] / panel * panel;
    const size_t end = (size_t)rows[s->to - 1] + 1, ld = (end - first + panel - 1) / panel * panel;
    for (size_t c = first; c < end; c += panel)
        kernels->product(s->n, D, head->qkv + s->first * ldq, ldq, head->position_keys + D * c,
                         R - c < panel ? R - c : panel, NULL, NULL, scratch->positions + (c - first), ld);
    position_add(head, s, s->from, s->to - s->from,
                 (picking){kernels->add_picked_along, first, scratch->positions, ld, head->scores_c2p});
}

/* + Qr K': each panel of keys beside the rows of the table that the strip's distances to it have. */
static void position_to_content(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                                const hs__head *head, const strip *s)
{
    const size_t D = head->D, panel = kernels->panel;
    const int32_t *rows = head->position_rows - (ptrdiff_t)s->first;
    for (size_t c = s->from; c < s->to; c += panel) {
        const size_t n = s->to - c < panel ? s->to - c : panel;
        const size_t first = (size_t)rows[(ptrdiff_t)c - (ptrdiff_t)(s->n - 1)];
        const size_t n_rows = (size_t)rows[c + n - 1] + 1 - first;
        kernels->product(n_rows, D, head->position_queries + first * D, D, scratch->keys + D * c, n, NULL,
                         NULL, scratch->positions, panel);
        position_add(
            head, s, c, n,
            (picking){kernels->add_picked_across, first, scratch->positions, panel, head->scores_p2c});
    }
}

/* The scores of the strip, as the softmax reads them: over `scale`. Two equal texts differ in no bit,
 * whatever their head keeps. */
static void scores_compute(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                           const hs__head *head, const strip *s)
{
    const size_t D = head->D, ldq = 3 * head->H;
    for (size_t c = s->from; c < s->to; c += kernels->panel) {
        const size_t n = s->to - c < kernels->panel ? s->to - c : kernels->panel;
        kernels->product(s->n, D, head->qkv + s->first * ldq, ldq, scratch->keys + D * c, n, NULL, NULL,
                         s->values + (c - s->from), s->ld);
    }
    for (size_t i = 0; i < s->n && head->window > 0; i++) {
        float *row = s->values + i * s->ld;
        size_t first, end;
        keys_of(head, s->first + i, &first, &end);
        fill(row, 0, first - s->from, -INFINITY);
        fill(row, end - s->from, s->to - s->from, -INFINITY);
    }
    scores_keep(head, s, head->scores_c2c);
    for (size_t row = 0; head->position_keys && row < s->n; row += MEETING_ROWS) {
        strip part = *s;
        part.first += row;
        part.n = s->n - row < MEETING_ROWS ? s->n - row : MEETING_ROWS;
        part.values += row * s->ld;
        content_to_position(kernels, scratch, head, &part);
    }
    if (head->position_queries)
        position_to_content(kernels, scratch, head, s);
    for (size_t i = 0; i < s->n && head->bias; i++)
        kernels->add_bias(1, s->to - s->from, head->bias + s->from - (s->first + i), s->values + i * s->ld,
                          s->ld);
    scores_keep(head, s, head->scores);
}

/* The strip of A where an intervention says what A is. */
static void map_replace(const hs__head *head, const strip *s)
{
    for (size_t i = 0; i < s->n; i++) {
        float *row = s->values + i * s->ld;
        size_t first, end;
        keys_of(head, s->first + i, &first, &end);
        fill(row, 0, s->to - s->from, 0);
        if (head->change.uniform)
            fill(row, first - s->from, end - s->from, 1 / (float)(end - first));
        else
            row[s->first + i - s->from] = 1;
        for (size_t j = s->from; head->columns && j < s->to; j++)
            head->columns[j] += row[j - s->from];
    }
}

/* Of a map that is kept, what no query of the strip sees is 0. */
static void hidden_clear(const hs__head *head, const strip *s)
{
    for (size_t i = 0; head->attention && i < s->n; i++) {
        fill(head->attention + (s->first + i) * head->T, 0, s->from, 0);
        fill(head->attention + (s->first + i) * head->T, s->to, head->T, 0);
    }
}

/* O of the strip: its part of A times the rows of V that it sees. */
static void output_compute(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                           const hs__head *head, const strip *s)
{
    const size_t T = head->T, D = head->D;
    for (size_t c = 0; c < D; c += kernels->panel) {
        const size_t n = D - c < kernels->panel ? D - c : kernels->panel;
        const float *panel = scratch->values + T * c + hs__panels_floats(kernels, s->from, n);
        kernels->product(s->n, s->to - s->from, s->values, s->ld, panel, n, NULL, NULL,
                         head->context + s->first * head->H + c, head->H);
    }
}

static void compute_map(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                        const hs__head *head)
{
    const size_t T = head->T;
    const size_t n_rows =
        head->position_queries ? relative_rows(T) : rows_at_once(kernels, keys_max(head->window, T));
    const bool replaced = head->change.uniform || head->change.identity;
    const bool scored = head->scores || head->scores_c2c || head->scores_c2p || head->scores_p2c;
    if (head->scores_c2p)
        fill(head->scores_c2p, 0, T * T, 0);
    if (head->scores_p2c)
        fill(head->scores_p2c, 0, T * T, 0);
    if (head->columns)
        memset(head->columns, 0, T * sizeof *head->columns);
    for (size_t row = 0; row < T; row += n_rows) {
        const strip s = strip_of(kernels, scratch, head, row, n_rows);
        if (!replaced || scored)
            scores_compute(kernels, scratch, head, &s);
        if (replaced)
            map_replace(head, &s);
        else
            kernels->softmax(s.n, s.to - s.from, head->scale, s.values, s.ld,
                             head->columns ? head->columns + s.from : NULL);
        hidden_clear(head, &s);
        output_compute(kernels, scratch, head, &s);
    }
}

/* What interventions make of O, where it lies. */
static void output_change(const hs__head *head)
{
    const size_t T = head->T, H = head->H;
    const float factor = head->change.factor;
    for (size_t d = 0; d < head->D; d++) {
        float *column = head->context + d;
        double sum = 0;
        for (size_t i = 0; head->change.mean && i < T; i++)
            sum += column[i * H];
        for (size_t i = 0; i < T; i++) {
            const float o = head->change.mean ? (float)(sum / (double)T) : column[i * H];
            column[i * H] = factor == 0 ? 0 : o * factor; /* 0 whatever O is, infinities too */
        }
    }
}

/* A little more than half of the product is computed and mirrored where the other half is wanted, unless
 * heads are so narrow that copying takes as long. Either way S is symmetric to the bit: sums run in the same
 * order on both sides. */
static void compute_similarity(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                               const hs__head *head, const float *x, size_t ldx, float *similarity)
{
    enum { NARROW = 24 };
    const size_t T = head->T, D = head->D;
    const bool by_half = head->upper_only || D > NARROW;
    kernels->pack(D, T, x, 1, ldx, scratch->keys); /* B = O' */
    for (size_t c = 0; c < T; c += kernels->panel) {
        const size_t n = T - c < kernels->panel ? T - c : kernels->panel;
        kernels->product(by_half ? c + n : T, D, x, ldx, scratch->keys + D * c, n, NULL, NULL, similarity + c,
                         T);
    }
    if (by_half && !head->upper_only)
        kernels->mirror(T, similarity);
    for (size_t i = 0; i < T; i++)
        similarity[i * T + i] = 0;
}

/* Rows x in coordinates in which their inner products are those of x W_O (residual.h): [T][D], where V was.
 */
static const float *residual_rows(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                                  const hs__head *head, const float *x, size_t ldx)
{
    const size_t D = head->D;
    for (size_t c = 0; c < D; c += kernels->panel) {
        const size_t n = D - c < kernels->panel ? D - c : kernels->panel;
        kernels->product(head->T, D, x, ldx, head->residual + D * c, n, NULL, NULL, scratch->values + c, D);
    }
    return scratch->values;
}

static void compute_norms(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                          const hs__head *head)
{
    const float *rows = residual_rows(kernels, scratch, head, head->qkv + 2 * head->H, 3 * head->H);
    for (size_t t = 0; t < head->T; t++) {
        double sum = 0;
        for (size_t i = 0; i < head->D; i++)
            sum += (double)rows[t * head->D + i] * (double)rows[t * head->D + i];
        head->value_norms[t] = (float)sqrt(sum);
    }
}

/* (a, b) turned by their position's angles, a and b the halves of a row. */
HS_CLONES static void rotate(const hs__rotation *rotation, size_t T, size_t half, float *x, size_t ld)
{
    for (size_t t = 0; t < T; t++) {
        const float *cosines = rotation->cosines + t * half, *sines = rotation->sines + t * half;
        float *a = x + t * ld, *b = a + half;
        for (size_t m = 0; m < half; m++) {
            const float turned = a[m] * cosines[m] - b[m] * sines[m];
            b[m] = b[m] * cosines[m] + a[m] * sines[m];
            a[m] = turned;
        }
    }
}

/* ret [T][D], which may be NULL, gets the head's columns of rows ld apart. */
static void rows_keep(const hs__head *head, const float *x, size_t ld, float *ret)
{
    for (size_t i = 0; ret && i < head->T; i++)
        memcpy(ret + i * head->D, x + i * ld, head->D * sizeof *ret);
}

void hs__attend(const hs__kernels *kernels, const hs__attention_scratch *scratch, const hs__head *head)
{
    const size_t T = head->T, D = head->D, H = head->H;
    if (head->rotation) {
        rotate(head->rotation, T, D / 2, head->qkv, 3 * H);
        rotate(head->rotation, T, D / 2, head->qkv + H, 3 * H);
    }
    rows_keep(head, head->qkv, 3 * H, head->query);
    rows_keep(head, head->qkv + H, 3 * H, head->key);
    rows_keep(head, head->qkv + 2 * H, 3 * H, head->value);
    kernels->pack(D, T, head->qkv + H, 1, 3 * H, scratch->keys);       /* B = K' */
    kernels->pack(T, D, head->qkv + 2 * H, 3 * H, 1, scratch->values); /* B = V */
    compute_map(kernels, scratch, head);
    if (head->value_norms)
        compute_norms(kernels, scratch, head);
    if (head->change.mean || head->change.factor != 1)
        output_change(head);
    rows_keep(head, head->context, H, head->output);
    if (head->similarity)
        compute_similarity(kernels, scratch, head, head->context, H, head->similarity);
    if (head->residual_similarity)
        compute_similarity(kernels, scratch, head, residual_rows(kernels, scratch, head, head->context, H), D,
                           head->residual_similarity);
}
