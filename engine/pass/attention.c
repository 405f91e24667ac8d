/* attention.c - one head: A = softmax of Q K' / sqrt(d) and its position terms, O = A V, S = O O'.
 *
 * Each step runs while its input is in the first-level cache (loop tiling, as in FlashAttention, but maps
 * are kept). A few rows of A are computed where they are kept, turned into probabilities, summed by
 * column and multiplied by V before the next rows begin. With a mask only the panels of keys that these
 * rows see are computed. */
#include "engine/pass/pass.h"
#include "engine/pass/team.h"
#include "model/base/clones.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ROWS_FLOATS: 20 KB of a map at a time leave space for panels in the first-level cache. With relative
 * positions each panel of keys also multiplies n rows of the table and a panel's more, so RELATIVE_ROWS
 * is large. In the other direction n queries multiply n rows more than the text has, so MEETING_ROWS is
 * small. */
enum { ROWS_FLOATS = 5120, RELATIVE_ROWS = 135, MEETING_ROWS = 18 };

/* Rounds n up to whole vectors. */
static size_t lanes_ceil(const hs__kernels *kernels, size_t n)
{
    return (n + kernels->lanes - 1) / kernels->lanes * kernels->lanes;
}

/* Returns the most keys that one query sees. */
static size_t keys_max(size_t window, size_t n_tokens)
{
    return window > 0 && 2 * window + 1 < n_tokens ? 2 * window + 1 : n_tokens;
}

/* Returns how many rows of a map are computed at a time. They stay in the first-level cache for the
 * softmax and the product with V. */
static size_t rows_at_once(const hs__kernels *kernels, size_t n_keys)
{
    assert(n_keys > 0);
    const size_t n_tiles = ROWS_FLOATS / lanes_ceil(kernels, n_keys) / kernels->tile_rows;
    return kernels->tile_rows * (n_tiles > 0 ? n_tiles : 1);
}

/* Returns the rows of a strip with relative positions. Strips are as equal as possible: a short one costs
 * as many rows of the table. */
static size_t relative_rows(size_t n_tokens)
{
    assert(n_tokens > 0);
    const size_t n_strips = (n_tokens + RELATIVE_ROWS - 1) / RELATIVE_ROWS;
    return (n_tokens + n_strips - 1) / n_strips;
}

/* Returns the floats of scratch for rows of a map, for texts of up to n_tokens.
 *
 * Without a window, rows x keys is at most ROWS_FLOATS, or a tile's rows of the longest text; a strip of a
 * similarity has a panel's rows. With a window shorter than the text, a row is as wide as the keys that all
 * its rows see, in whole panels. */
static size_t row_floats(const hs_engine *engine, size_t n_tokens)
{
    const hs__kernels *kernels = engine->kernels;
    size_t n = kernels->panel * lanes_ceil(kernels, n_tokens);
    n = n > ROWS_FLOATS ? n : ROWS_FLOATS;
    if (engine->relative.n_rows > 0 && n < RELATIVE_ROWS * lanes_ceil(kernels, n_tokens))
        n = RELATIVE_ROWS * lanes_ceil(kernels, n_tokens);
    for (size_t l = 0; l < engine->n_blocks; l++) {
        const size_t n_keys = keys_max(engine->layers[l].window, n_tokens);
        const size_t rows = rows_at_once(kernels, n_keys),
                     windowed = rows * (n_keys + rows + 2 * kernels->panel);
        if (n_keys < n_tokens && windowed > n)
            n = windowed;
    }
    return n;
}

/* Returns the floats of scratch for scores by relative position: the larger of two needs. One is a few rows
 * of a strip by all rows of the table that they use. The other is a panel of keys by the rows that the whole
 * strip uses. */
static size_t position_floats(const hs_engine *engine, size_t n_tokens)
{
    const size_t R = engine->relative.n_rows, panel = engine->kernels->panel;
    const size_t n_keys = (RELATIVE_ROWS + panel) * panel;
    const size_t met = n_tokens + MEETING_ROWS < R ? n_tokens + MEETING_ROWS : R;
    const size_t n_queries = MEETING_ROWS * (met + 2 * panel);
    return R == 0 ? 0 : n_keys > n_queries ? n_keys : n_queries;
}

void hs__attention_layout(const hs_engine *engine, size_t n_tokens, hs__arena *arena,
                          hs__attention_scratch *ret_scratch)
{
    const size_t D = engine->shape.head_width;
    ret_scratch->keys = hs__arena_floats(arena, hs__panels_floats(engine->kernels, D, n_tokens));
    ret_scratch->values = hs__arena_floats(arena, hs__panels_floats(engine->kernels, n_tokens, D));
    ret_scratch->rows = hs__arena_floats(arena, row_floats(engine, n_tokens));
    ret_scratch->positions = hs__arena_floats(arena, position_floats(engine, n_tokens));
}

/* Some rows of a head's map: queries [first, first + n) and the keys [from, to) that any of them sees, in
 * whole panels. The values are that part of the map, in the capture or in scratch. */
typedef struct strip {
    size_t first, n, from, to;
    float *values; /* [n][ld] */
    size_t ld;
} strip;

static strip strip_of(const hs__kernels *kernels, const hs__attention_scratch *scratch, const hs__head *head,
                      size_t first, size_t n_rows)
{
    const size_t T = head->T, K = head->K, w = head->window, panel = kernels->panel;
    const size_t ahead = head->causal ? 0 : w; /* keys after a query that it sees */
    const size_t position = head->past + first;
    strip s = {.first = first, .n = T - first < n_rows ? T - first : n_rows, .to = K};
    if (w > 0)
        s.from = position > w ? (position - w) / panel * panel : 0;
    if (w > 0 || head->causal) {
        const size_t end = (position + s.n + ahead + panel - 1) / panel * panel;
        s.to = end < K ? end : K;
    }
    const bool in_place = head->to[HS_TAP_ATTENTION] && !head->streams;
    s.ld = in_place ? K : lanes_ceil(kernels, s.to - s.from);
    s.values = in_place ? head->to[HS_TAP_ATTENTION] + first * K + s.from : scratch->rows;
    return s;
}

/* Finds the keys that query i sees. */
static void keys_of(const hs__head *head, size_t i, size_t *ret_first, size_t *ret_end)
{
    const size_t K = head->K, w = head->window, position = head->past + i;
    *ret_first = w > 0 && position > w ? position - w : 0;
    *ret_end = head->causal ? position + 1 : w > 0 && K - position > w ? position + w + 1 : K;
}

static void fill(float *values, size_t from, size_t to, float value)
{
    for (size_t j = from; j < to; j++)
        values[j] = value;
}

/* Copies the strip to a kept map, before more is added or the softmax overwrites it. */
static void scores_keep(const hs__head *head, const strip *s, float *map)
{
    const size_t K = head->K;
    for (size_t i = 0; map && i < s->n; i++) {
        float *to = map + (s->first + i) * K;
        fill(to, 0, s->from, -INFINITY);
        for (size_t j = s->from; j < s->to; j++)
            to[j] = s->values[i * s->ld + j - s->from] * head->scale;
        fill(to, s->to, K, -INFINITY);
    }
}

/* Addends from products with rows of the table, of which `first` is the first row. They are added to the
 * scores of the strip and n keys from key j on and, if map is given, kept there times the scale. */
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

/* Adds Q Kr': each query times the rows of the table at the strip's distances. */
static void content_to_position(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                                const hs__head *head, const strip *s)
{
    const size_t D = head->D, ldq = head->step, R = head->n_position_rows, panel = kernels->panel;
    const int32_t *rows = head->position_rows - (ptrdiff_t)s->first;
    const size_t first = (size_t)rows[(ptrdiff_t)s->from - (ptrdiff_t)(s->n - 1)] / panel * panel;
    const size_t end = (size_t)rows[s->to - 1] + 1, ld = (end - first + panel - 1) / panel * panel;
    for (size_t c = first; c < end; c += panel)
        kernels->product(s->n, D, head->q + s->first * ldq, ldq, head->position_keys + D * c,
                         R - c < panel ? R - c : panel, NULL, NULL, scratch->positions + (c - first), ld);
    position_add(
        head, s, s->from, s->to - s->from,
        (picking){kernels->add_picked_along, first, scratch->positions, ld, head->to[HS_TAP_SCORES_C2P]});
}

/* Adds Qr K': each panel of keys times the rows of the table at the strip's distances to it. */
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
        position_add(head, s, c, n,
                     (picking){kernels->add_picked_across, first, scratch->positions, panel,
                               head->to[HS_TAP_SCORES_P2C]});
    }
}

/* Replaces scores s by cap tanh(s / cap). Values are scores divided by `scale`. */
static void scores_cap(const hs__kernels *kernels, const hs__head *head, const strip *s)
{
    const size_t n = s->to - s->from;
    const float before = head->scale / head->cap, after = head->cap / head->scale;
    for (size_t i = 0; i < s->n; i++) {
        float *row = s->values + i * s->ld;
        for (size_t j = 0; j < n; j++)
            row[j] *= before;
        kernels->activate[HS_TANH](1, n, row, s->ld);
        for (size_t j = 0; j < n; j++)
            row[j] *= after;
    }
}

/* Computes the scores of the strip as the softmax reads them, divided by `scale`. The result does not
 * depend on what a head keeps: two equal texts get the same bits. */
static void scores_compute(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                           const hs__head *head, const strip *s)
{
    const size_t D = head->D, ldq = head->step;
    for (size_t c = s->from; c < s->to; c += kernels->panel) {
        const size_t n = s->to - c < kernels->panel ? s->to - c : kernels->panel;
        kernels->product(s->n, D, head->q + s->first * ldq, ldq, scratch->keys + D * c, n, NULL, NULL,
                         s->values + (c - s->from), s->ld);
    }
    if (head->cap > 0)
        scores_cap(kernels, head, s);
    for (size_t i = 0; i < s->n && (head->window > 0 || head->causal); i++) {
        float *row = s->values + i * s->ld;
        size_t first, end;
        keys_of(head, s->first + i, &first, &end);
        fill(row, 0, first - s->from, -INFINITY);
        fill(row, end - s->from, s->to - s->from, -INFINITY);
    }
    scores_keep(head, s, head->to[HS_TAP_SCORES_C2C]);
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
        kernels->add_bias(1, s->to - s->from, head->bias + s->from - (head->past + s->first + i),
                          s->values + i * s->ld, s->ld);
    scores_keep(head, s, head->to[HS_TAP_SCORES]);
}

/* Replaces the strip of A as an intervention says. */
static void map_replace(const hs__head *head, const strip *s, float *columns)
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
        for (size_t j = s->from; columns && j < s->to; j++)
            columns[j] += row[j - s->from];
    }
}

/* Completes the strip's rows of a kept map: stores values that are in scratch, and zeroes the elements that
 * no query of the strip sees. */
static void map_keep(const hs__kernels *kernels, const hs__head *head, const strip *s)
{
    const size_t K = head->K;
    float *to = head->to[HS_TAP_ATTENTION] ? head->to[HS_TAP_ATTENTION] + s->first * K : NULL;
    for (size_t i = 0; to && i < s->n; i++) {
        fill(to + i * K, 0, s->from, 0);
        fill(to + i * K, s->to, K, 0);
    }
    if (to && head->streams)
        kernels->stream_rows(s->n, s->to - s->from, s->values, s->ld, to + s->from, K);
}

/* Computes O of the strip: its part of A times the rows of V that it sees. */
static void output_compute(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                           const hs__head *head, const strip *s)
{
    const size_t K = head->K, D = head->D;
    for (size_t c = 0; c < D; c += kernels->panel) {
        const size_t n = D - c < kernels->panel ? D - c : kernels->panel;
        const float *panel = scratch->values + K * c + hs__panels_floats(kernels, s->from, n);
        kernels->product(s->n, s->to - s->from, s->values, s->ld, panel, n, NULL, NULL,
                         head->context + s->first * head->context_step + c, head->context_step);
    }
}

/* Computes the strip of A that begins at a row, and its O. */
static void compute_strip(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                          const hs__head *head, size_t row, size_t n_rows, float *columns)
{
    const bool replaced = head->change.uniform || head->change.identity;
    const bool scored = head->to[HS_TAP_SCORES] || head->to[HS_TAP_SCORES_C2C] ||
                        head->to[HS_TAP_SCORES_C2P] || head->to[HS_TAP_SCORES_P2C];
    const strip s = strip_of(kernels, scratch, head, row, n_rows);
    if (!replaced || scored)
        scores_compute(kernels, scratch, head, &s);
    if (replaced)
        map_replace(head, &s, columns);
    else
        kernels->softmax(s.n, s.to - s.from, head->scale, s.values, s.ld, columns ? columns + s.from : NULL);
    map_keep(kernels, head, &s);
    output_compute(kernels, scratch, head, &s);
}

/* ---- a head whose rows threads share ----
 *
 * Each thread has its own rows and positions in scratch. The panels of keys and values are those of the first
 * one. The result has the same bits: strips are the same, and column sums follow in the order of rows. */

typedef struct shared_head {
    const hs__kernels *kernels;
    const hs__sharing *sharing;
    const hs__head *head;
    size_t n_rows, n_tasks;
    const float *x; /* the rows of a similarity */
    size_t ldx;
    float *similarity;
    bool by_half;
} shared_head;

static hs__attention_scratch scratch_of(const shared_head *h, size_t slot)
{
    hs__attention_scratch scratch = h->sharing->scratch[slot];
    scratch.keys = h->sharing->scratch[0].keys;
    scratch.values = h->sharing->scratch[0].values;
    return scratch;
}

static void task_strip(void *context, size_t task, size_t slot)
{
    const shared_head *h = context;
    const hs__attention_scratch scratch = scratch_of(h, slot);
    compute_strip(h->kernels, &scratch, h->head, task * h->n_rows, h->n_rows, NULL);
}

/* Sums some columns of a kept map over its rows. */
static HS_CLONES void columns_sum(const float *map, size_t T, size_t K, size_t from, size_t to,
                                  float *columns)
{
    for (size_t i = 0; i < T; i++)
        for (size_t j = from; j < to; j++)
            columns[j] += map[i * K + j];
}

static void task_columns(void *context, size_t task, size_t slot)
{
    const shared_head *h = context;
    const size_t K = h->head->K;
    (void)slot;
    columns_sum(h->head->to[HS_TAP_ATTENTION], h->head->T, K, K * task / h->n_tasks,
                K * (task + 1) / h->n_tasks, h->head->to[HS_TAP_COLUMNS]);
}

static void share_map(const hs__kernels *kernels, const hs__sharing *sharing, const hs__head *head,
                      size_t n_rows)
{
    shared_head h = {.kernels = kernels, .sharing = sharing, .head = head, .n_rows = n_rows};
    h.n_tasks = sharing->team->n_threads;
    hs__team_share(sharing->team, (head->T + n_rows - 1) / n_rows, task_strip, &h);
    if (head->to[HS_TAP_COLUMNS])
        hs__team_share(sharing->team, h.n_tasks, task_columns, &h);
}

/* Returns the rows of the head's strips. Scratch was made for the windows of layers: a head that an
 * intervention cuts has as few rows as without a window. */
static size_t strip_rows(const hs__kernels *kernels, const hs__head *head)
{
    const size_t window = head->change.distance ? 0 : head->window;
    return head->position_queries ? relative_rows(head->T) : rows_at_once(kernels, keys_max(window, head->K));
}

static void compute_map(const hs__kernels *kernels, const hs__sharing *sharing,
                        const hs__attention_scratch *scratch, const hs__head *head)
{
    const size_t T = head->T, K = head->K, n_rows = strip_rows(kernels, head);
    if (head->to[HS_TAP_SCORES_C2P])
        fill(head->to[HS_TAP_SCORES_C2P], 0, T * K, 0);
    if (head->to[HS_TAP_SCORES_P2C])
        fill(head->to[HS_TAP_SCORES_P2C], 0, T * K, 0);
    if (head->to[HS_TAP_COLUMNS])
        memset(head->to[HS_TAP_COLUMNS], 0, K * sizeof *head->to[HS_TAP_COLUMNS]);
    if (sharing && head->to[HS_TAP_ATTENTION]) {
        share_map(kernels, sharing, head, n_rows);
        return;
    }
    for (size_t row = 0; row < T; row += n_rows)
        compute_strip(kernels, scratch, head, row, n_rows, head->to[HS_TAP_COLUMNS]);
}

/* Applies interventions to O in place. */
static void output_change(const hs__head *head)
{
    const size_t T = head->T, step = head->context_step;
    const float factor = head->change.factor;
    for (size_t d = 0; d < head->D; d++) {
        float *column = head->context + d;
        double sum = 0;
        for (size_t i = 0; head->change.mean && i < T; i++)
            sum += column[i * step];
        for (size_t i = 0; i < T; i++) {
            const float o = head->change.mean ? (float)(sum / (double)T) : column[i * step];
            column[i * step] = factor == 0 ? 0 : o * factor; /* 0 for any O, infinities too */
        }
    }
}

/* Computes a panel's rows of S at a time in scratch, from the diagonal on, and stores them and their mirror
 * image past the caches. Columns of a map would be stored a few cache lines at a time, which the hardware
 * does not prefetch. */
static void similarity_stream(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                              const hs__head *head, const float *x, size_t ldx, float *similarity)
{
    const size_t T = head->T, D = head->D;
    for (size_t first = 0; first < T; first += kernels->panel) {
        const size_t left = T - first, n = left < kernels->panel ? left : kernels->panel;
        const size_t ld = lanes_ceil(kernels, left);
        float *rows = scratch->rows, *to = similarity + first * T + first;
        kernels->product(n, D, x + first * ldx, ldx, scratch->keys + D * first, left, NULL, NULL, rows, ld);
        for (size_t i = 0; i < n; i++)
            rows[i * ld + i] = 0;
        kernels->stream_rows(n, left, rows, ld, to, T);
        if (left > n)
            kernels->stream_columns(left - n, rows + n, ld, to + n * T, T);
    }
}

/* Computes a panel's columns of S, from column c on. */
static void similarity_panel(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                             const hs__head *head, size_t c, bool by_half, const float *x, size_t ldx,
                             float *similarity)
{
    const size_t T = head->T, D = head->D, n = T - c < kernels->panel ? T - c : kernels->panel;
    kernels->product(by_half ? c + n : T, D, x, ldx, scratch->keys + D * c, n, NULL, NULL, similarity + c, T);
}

/* The widest panels come first, so that threads end together. */
static void task_similarity(void *context, size_t task, size_t slot)
{
    const shared_head *h = context;
    const size_t panel = h->kernels->panel, n = (h->head->T + panel - 1) / panel;
    (void)slot;
    similarity_panel(h->kernels, &h->sharing->scratch[0], h->head, (n - 1 - task) * panel, h->by_half, h->x,
                     h->ldx, h->similarity);
}

/* Computes S = O O'. About half of the product is computed and mirrored if the other half is needed,
 * unless heads are so narrow that copying takes as long. S is symmetric to the bit either way: sums have
 * the same order on both sides. */
static void compute_similarity(const hs__kernels *kernels, const hs__sharing *sharing,
                               const hs__attention_scratch *scratch, const hs__head *head, const float *x,
                               size_t ldx, float *similarity)
{
    enum { NARROW = 24 };
    const size_t T = head->T, D = head->D;
    const bool by_half = head->upper_only || D > NARROW;
    kernels->pack(D, T, x, 1, ldx, scratch->keys); /* B = O' */
    if (head->streams) {
        similarity_stream(kernels, scratch, head, x, ldx, similarity);
        return;
    }
    if (sharing) {
        shared_head h = {kernels,           sharing, head, .x = x, .ldx = ldx, .similarity = similarity,
                         .by_half = by_half};
        hs__team_share(sharing->team, (T + kernels->panel - 1) / kernels->panel, task_similarity, &h);
    }
    for (size_t c = 0; c < T && !sharing; c += kernels->panel)
        similarity_panel(kernels, scratch, head, c, by_half, x, ldx, similarity);
    if (by_half && !head->upper_only)
        kernels->mirror(T, similarity);
    for (size_t i = 0; i < T; i++)
        similarity[i * T + i] = 0;
}

/* Transforms n_rows rows x so that their inner products are those of x W_O (pass.h). Returns [n_rows][D], in
 * the memory of V. */
static const float *residual_rows(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                                  const hs__head *head, size_t n_rows, const float *x, size_t ldx)
{
    const size_t D = head->D;
    for (size_t c = 0; c < D; c += kernels->panel) {
        const size_t n = D - c < kernels->panel ? D - c : kernels->panel;
        kernels->product(n_rows, D, x, ldx, head->residual + D * c, n, NULL, NULL, scratch->values + c, D);
    }
    return scratch->values;
}

/* Takes the mean over all rows away from each row. Returns [T][D], in the memory of V, where x may lie. The
 * mean is in double, so that equal rows give exactly 0. */
static HS_CLONES const float *centered_rows(const hs__attention_scratch *scratch, size_t T, size_t D,
                                            const float *x, size_t ldx)
{
    enum { LANES = 16 };
    for (size_t first = 0; first < D; first += LANES) {
        const size_t n = D - first < LANES ? D - first : LANES;
        double mean[LANES] = {0};
        for (size_t t = 0; t < T; t++)
            for (size_t k = 0; k < n; k++)
                mean[k] += (double)x[t * ldx + first + k];
        for (size_t k = 0; k < n; k++)
            mean[k] /= (double)T;
        for (size_t t = 0; t < T; t++)
            for (size_t k = 0; k < n; k++)
                scratch->values[t * D + first + k] = (float)((double)x[t * ldx + first + k] - mean[k]);
    }
    return scratch->values;
}

/* Adds squares in lanes, so that compilers vectorise; their order does not depend on the vector width. */
static HS_CLONES void lengths_find(const float *x, size_t ldx, size_t T, size_t D, float *ret)
{
    enum { LANES = 8 };
    for (size_t t = 0; t < T; t++) {
        const float *row = x + t * ldx;
        double lanes[LANES] = {0}, sum = 0;
        size_t first = 0;
        for (; first + LANES <= D; first += LANES)
            for (size_t k = 0; k < LANES; k++)
                lanes[k] += (double)row[first + k] * (double)row[first + k];
        for (; first < D; first++)
            sum += (double)row[first] * (double)row[first];
        for (size_t k = 0; k < LANES; k++)
            sum += lanes[k];
        ret[t] = (float)sqrt(sum);
    }
}

static void compute_norms(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                          const hs__head *head)
{
    const float *rows = residual_rows(kernels, scratch, head, head->K, head->v, head->key_step);
    lengths_find(rows, head->D, head->K, head->D, head->to[HS_TAP_VALUE_NORMS]);
}

/* Computes a similarity of rows x, and their lengths if an observer sees it. */
static void similarity_add(const hs__kernels *kernels, const hs__sharing *sharing,
                           const hs__attention_scratch *scratch, const hs__head *head, hs_tap tap,
                           const float *x, size_t ldx)
{
    if (head->lengths && tap == head->measured)
        lengths_find(x, ldx, head->T, head->D, head->lengths);
    compute_similarity(kernels, sharing, scratch, head, x, ldx, head->to[tap]);
}

/* Computes each similarity that is kept. Centring commutes with W_O, so it follows the transformation. */
static void compute_similarities(const hs__kernels *kernels, const hs__sharing *sharing,
                                 const hs__attention_scratch *scratch, const hs__head *head)
{
    const size_t T = head->T, D = head->D, step = head->context_step;
    float *const *to = head->to;
    const float *rows = head->context;
    if (to[HS_TAP_SIMILARITY])
        similarity_add(kernels, sharing, scratch, head, HS_TAP_SIMILARITY, rows, step);
    if (to[HS_TAP_CENTERED_SIMILARITY])
        similarity_add(kernels, sharing, scratch, head, HS_TAP_CENTERED_SIMILARITY,
                       centered_rows(scratch, T, D, rows, step), D);
    if (!to[HS_TAP_RESIDUAL_SIMILARITY] && !to[HS_TAP_CENTERED_RESIDUAL_SIMILARITY])
        return;
    rows = residual_rows(kernels, scratch, head, T, rows, step);
    if (to[HS_TAP_RESIDUAL_SIMILARITY])
        similarity_add(kernels, sharing, scratch, head, HS_TAP_RESIDUAL_SIMILARITY, rows, D);
    if (to[HS_TAP_CENTERED_RESIDUAL_SIMILARITY])
        similarity_add(kernels, sharing, scratch, head, HS_TAP_CENTERED_RESIDUAL_SIMILARITY,
                       centered_rows(scratch, T, D, rows, D), D);
}

/* Rotates (a, b), the halves of a row, by the angles of its position, which is `past` for the first one. */
static HS_CLONES void rotate(const hs__rotation *rotation, size_t past, size_t T, size_t half, float *x,
                             size_t ld)
{
    for (size_t t = 0; t < T; t++) {
        const float *cosines = rotation->cosines + (past + t) * half,
                    *sines = rotation->sines + (past + t) * half;
        float *a = x + t * ld, *b = a + half;
        for (size_t m = 0; m < half; m++) {
            const float turned = a[m] * cosines[m] - b[m] * sines[m];
            b[m] = b[m] * cosines[m] + a[m] * sines[m];
            a[m] = turned;
        }
    }
}

/* Rotates pairs of neighbouring columns. */
static HS_CLONES void rotate_interleaved(const hs__rotation *rotation, size_t past, size_t T, size_t half,
                                         float *x, size_t ld)
{
    for (size_t t = 0; t < T; t++) {
        const float *cosines = rotation->cosines + (past + t) * half,
                    *sines = rotation->sines + (past + t) * half;
        for (size_t m = 0; m < half; m++) {
            float *pair = x + t * ld + 2 * m;
            const float turned = pair[0] * cosines[m] - pair[1] * sines[m];
            pair[1] = pair[1] * cosines[m] + pair[0] * sines[m];
            pair[0] = turned;
        }
    }
}

/* Norms and rotates n queries or keys in place, where the layer does. */
static void rows_position(const hs__head *head, const hs__packed_norm *norm, size_t n, float *x, size_t step)
{
    for (size_t t = 0; norm->gamma && t < n; t++) {
        float *row = x + t * step;
        head->add_norm(1, head->D, row, NULL, norm->gamma, norm->beta, head->norm_eps, row);
    }
    if (head->rotation && head->rotation->interleaved)
        rotate_interleaved(head->rotation, head->past, n, head->rotary_half, x, step);
    else if (head->rotation)
        rotate(head->rotation, head->past, n, head->rotary_half, x, step);
}

/* Copies the head's columns of n rows that are ld floats apart to ret [n][D], which may be NULL. */
static void rows_keep(const hs__head *head, size_t n, const float *x, size_t ld, float *ret)
{
    for (size_t i = 0; ret && i < n; i++)
        memcpy(ret + i * head->D, x + i * ld, head->D * sizeof *ret);
}

void hs__attend(const hs__kernels *kernels, const hs__sharing *sharing, const hs__attention_scratch *scratch,
                const hs__head *head)
{
    const size_t T = head->T, K = head->K, D = head->D, step = head->key_step;
    rows_position(head, &head->query_norm, T, head->q, head->step);
    if (!head->keys_are_ready)
        rows_position(head, &head->key_norm, K - head->past, head->k + head->past * step, step);
    rows_keep(head, T, head->q, head->step, head->to[HS_TAP_QUERY]);
    rows_keep(head, K, head->k, step, head->to[HS_TAP_KEY]);
    rows_keep(head, K, head->v, step, head->to[HS_TAP_VALUE]);
    kernels->pack(D, K, head->k, 1, step, scratch->keys);   /* B = K' */
    kernels->pack(K, D, head->v, step, 1, scratch->values); /* B = V */
    compute_map(kernels, sharing, scratch, head);
    if (head->to[HS_TAP_VALUE_NORMS])
        compute_norms(kernels, scratch, head);
    if (head->change.patched)
        hs__patch_output(&head->place, D, head->context, head->context_step);
    if (head->change.mean || head->change.factor != 1)
        output_change(head);
    rows_keep(head, T, head->context, head->context_step, head->to[HS_TAP_HEAD_OUTPUT]);
    compute_similarities(kernels, sharing, scratch, head);
}

/* ---- some rows of a map, from what a pass has kept of a head ---- */

/* Returns the rows that a similarity is of, *ret_step floats apart: the head's outputs, or their images in
 * the memory of V. */
static const float *measured_rows(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                                  const hs__head *head, hs_similarity kind, size_t *ret_step)
{
    const float *x = head->context;
    size_t ldx = head->context_step;
    if (kind.residual) {
        x = residual_rows(kernels, scratch, head, head->T, x, ldx);
        ldx = head->D;
    }
    if (kind.centered) {
        x = centered_rows(scratch, head->T, head->D, x, ldx);
        ldx = head->D;
    }
    *ret_step = ldx;
    return x;
}

void hs__similarity_lengths(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                            const hs__head *head, hs_similarity kind, float *ret_lengths)
{
    size_t ldx;
    const float *x = measured_rows(kernels, scratch, head, kind, &ldx);
    lengths_find(x, ldx, head->T, head->D, ret_lengths);
}

void hs__similarity_rows(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                         const hs__head *head, hs_similarity kind, size_t first, size_t n, float *ret_rows)
{
    const size_t T = head->T, D = head->D, panel = kernels->panel;
    size_t ldx;
    const float *x = measured_rows(kernels, scratch, head, kind, &ldx);
    kernels->pack(D, T, x, 1, ldx, scratch->keys);
    for (size_t c = first / panel * panel; c < T; c += panel) {
        const size_t width = T - c < panel ? T - c : panel, above = c + width - first;
        kernels->product(above < n ? above : n, D, x + first * ldx, ldx, scratch->keys + D * c, width, NULL,
                         NULL, ret_rows + c, T);
    }
}

void hs__attention_rows(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                        const hs__head *head, size_t first, size_t n, float *ret_rows)
{
    const size_t K = head->K, n_rows = strip_rows(kernels, head);
    kernels->pack(head->D, K, head->k, 1, head->key_step, scratch->keys);
    for (size_t row = first / n_rows * n_rows; row < first + n; row += n_rows) {
        const strip s = strip_of(kernels, scratch, head, row, n_rows);
        scores_compute(kernels, scratch, head, &s);
        kernels->softmax(s.n, s.to - s.from, head->scale, s.values, s.ld, NULL);
        for (size_t i = row < first ? first : row; i < row + s.n && i < first + n; i++) {
            float *to = ret_rows + (i - first) * K;
            fill(to, 0, s.from, 0);
            memcpy(to + s.from, s.values + (i - row) * s.ld, (s.to - s.from) * sizeof *to);
            fill(to, s.to, K, 0);
        }
    }
}
