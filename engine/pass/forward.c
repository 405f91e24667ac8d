/* forward.c - runs the layers of a plan. */
#include "engine/pass/pass.h"
#include "engine/pass/tape.h"

#include "engine/pass/team.h"

#include <string.h>

/* ---- embed ----
 *
 * Looks up the embeddings of token ids.
 *
 * Rows of the tables are read from the model's file, so the vocabulary takes no memory of the engine. */

static void add_row(const hs_tensor *table, size_t row, float *scratch, float *x)
{
    hs_tensor_read(table, row, 1, scratch);
    for (size_t j = 0; j < table->n_columns; j++)
        x[j] += scratch[j];
}

/* Returns the factor of all word rows: the architecture's, or that of token dropout (ESM), or 1. A text of
 * masks only has no rows to scale. */
static float words_scale(const hs_embedding *weights, const hs_sequence *sequence)
{
    size_t n_kept = 0;
    for (size_t i = 0; i < sequence->n_tokens; i++)
        n_kept += sequence->ids[i] != weights->mask_id;
    if (weights->token_dropout <= 0 || n_kept == 0)
        return weights->scale > 0 ? (float)weights->scale : 1;
    return (float)((1 - weights->token_dropout) * (double)sequence->n_tokens / (double)n_kept);
}

void hs_word_rows_read(const hs_architecture *architecture, const hs_sequence *sequence, float *x)
{
    const hs_embedding *weights = &architecture->embedding;
    const size_t E = weights->width;
    if (sequence->words) {
        memcpy(x, sequence->words, sequence->n_tokens * E * sizeof *x);
        return;
    }
    const float scale = words_scale(weights, sequence);
    for (size_t i = 0; i < sequence->n_tokens; i++, x += E) {
        if (weights->token_dropout > 0 && sequence->ids[i] == weights->mask_id)
            memset(x, 0, E * sizeof *x);
        else
            hs_tensor_read(&weights->word, (size_t)sequence->ids[i], 1, x);
        for (size_t j = 0; scale != 1 && j < E; j++)
            x[j] *= scale;
    }
}

/* Adds the positions of one sequence to x [T][columns of the positions]. scratch holds one row. */
static void add_positions(const hs_engine *engine, const hs_sequence *sequence, float *scratch, float *x)
{
    const hs_embedding *weights = &engine->architecture->embedding;
    const size_t offset = weights->position_offset;
    const size_t W = weights->positions_last ? engine->shape.hidden : weights->width;
    size_t position = offset + (sequence->past ? sequence->past->n_placed : 0);
    for (size_t i = 0; i < sequence->n_tokens; i++) {
        const bool padding = offset > 0 && !weights->counts_padding && (size_t)sequence->ids[i] == offset - 1;
        if (weights->position.data)
            add_row(&weights->position, padding ? offset - 1 : position, scratch, x + i * W);
        if (engine->sinusoids && !padding)
            engine->kernels->add_bias(1, W, engine->sinusoids + (position - offset) * W, x + i * W, W);
        position += !padding;
    }
    if (sequence->past)
        sequence->past->n_placed = position - offset;
}

void hs__embed_sum(const hs_engine *engine, const hs_sequence *sequence, float *scratch, float *x)
{
    const hs_architecture *architecture = engine->architecture;
    const hs_embedding *weights = &architecture->embedding;
    const size_t E = weights->width, T = sequence->n_tokens;
    hs_word_rows_read(architecture, sequence, x);
    if (!weights->positions_last)
        add_positions(engine, sequence, scratch, x);
    for (size_t i = 0; weights->type.data && i < T; i++)
        add_row(&weights->type, sequence->types ? sequence->types[i] : 0, scratch, x + i * E);
}

/* Computes the embeddings of one sequence before the projection: x [T][E]. scratch holds one row. */
static void embed_sequence(const hs_engine *engine, const hs_sequence *sequence, float *scratch, float *x)
{
    const hs__packed_norm *norm = &engine->embedding_norm;
    hs__embed_sum(engine, sequence, scratch, x);
    if (norm->gamma)
        engine->add_norm(sequence->n_tokens, engine->architecture->embedding.width, x, NULL, norm->gamma,
                         norm->beta, engine->architecture->norm_eps, x);
}

/* ---- forward ----
 *
 * One forward pass of a model over the sequences of a plan.
 *
 * The N rows of all matrices are the tokens of all sequences, side by side. Only attention combines rows,
 * and only those of one sequence. Per layer, with x [N][H]:
 *
 *     q k v = x Wqkv' + b
 *     A = softmax(q k' / sqrt(d)), O = A v, S = O O'     per sequence and head
 *     x = norm(x + O Wo' + b)
 *     x = norm(x + act(x Wi' + b) Wf' + b)
 *
 * or with norms before the blocks (pre-norm), in turn or in parallel, as architecture.h says. A decoder's
 * layer is two blocks: self attention, and cross attention with the feed-forward part.
 *
 * Each line is one or two steps. A step is a number of tasks, which threads run in any order; the next
 * step begins when all are done. A single thread runs the same steps, those between heads for some rows
 * at a time. */

/* The state of a pass that its tasks read. */
typedef struct pass {
    const hs_engine *engine;
    hs_workspace *ws;
    const hs_plan *plan;
    hs_tape *tape;            /* of the only sequence, or NULL */
    size_t N;                 /* tokens of all sequences */
    size_t n_longest;         /* of the longest one */
    size_t n_keys_longest;    /* the most keys of a head whose capture is of this pass */
    size_t first_row, n_rows; /* row range of the current step */
    size_t n_row_chunks, n_threads;
    size_t block;                  /* number of the block whose heads are computed */
    size_t index;                  /* of its layer */
    bool cross;                    /* it is cross attention */
    const hs__packed_layer *layer; /* its weights */
    const hs__kept *kept;          /* what the tape keeps of it, or NULL */
    float *qkv, *context;          /* [N][n_out], [N][A] of the block: in the tape or the workspace */
    size_t n_head_tasks;           /* groups of heads of the block, of all sequences */
    size_t n_attending;            /* threads that compute them */
    const hs__sharing *sharing;    /* of the rows of a head; NULL: a thread computes all of them */
    bool streams;                  /* heads store maps past the caches */
    bool last;                     /* nothing after this block's heads is needed */
    /* the product being computed */
    const hs__linear *linear;
    const float *from;
    float *to;
    const hs__packed_layer *normed; /* whose queries and keys are being normed */
    float *operands;                /* [N][n_out]: they */
    /* the block being ended */
    const hs__packed_norm *out_norm; /* of what is added, or NULL */
    const hs__packed_norm *norm;     /* or NULL */
    float *added;                    /* what is added, before out_norm */
    bool adds;
} pass;

typedef struct rows {
    size_t first, n;
} rows;

/* Returns a task's rows, counted from first_row. */
static rows rows_of_task(const pass *p, size_t task)
{
    const size_t first = hs__chunk_start(p->n_rows, p->n_row_chunks, task);
    return (rows){first, hs__chunk_start(p->n_rows, p->n_row_chunks, task + 1) - first};
}

/* Computes a part of y = x W' + b. */
static void task_multiply(void *context, size_t task, size_t slot)
{
    (void)slot;
    const pass *p = context;
    const void *x = p->ws->operand ? (const void *)p->ws->operand : p->from;
    hs__linear_run(p->linear, p->n_rows, p->n_threads, x, p->to, task);
}

/* Taps that an observer may read instead of its scratch. */
#define SIMILARITIES                                                                                         \
    (HS_KEEP(SIMILARITY) | HS_KEEP(RESIDUAL_SIMILARITY) | HS_KEEP(CENTERED_SIMILARITY) |                     \
     HS_KEEP(CENTERED_RESIDUAL_SIMILARITY))

/* Sets the destinations of a head that the capture selects: the capture's arrays or, for an observer, its
 * scratch. */
static void head_place(const pass *p, const hs_capture *capture, size_t l, size_t h, size_t slot,
                       hs__head *head)
{
    const hs_observer *observer = p->plan->observer;
    const size_t T = p->n_longest, K = p->n_keys_longest;
    float **to = head->to;
    for (hs_tap tap = 0; tap < HS_N_TAPS; tap++)
        if (capture->arrays[tap] && hs_tap_axes(tap)[1] == HS_AXIS_HEAD)
            to[tap] = hs_capture_at(capture, tap, l, h);
    if (!observer)
        return;
    const hs_tap similarity = hs_similarity_tap(observer->kind);
    if (!to[HS_TAP_ATTENTION] && observer->attention)
        to[HS_TAP_ATTENTION] = observer->attention + slot * T * K;
    if (!to[HS_TAP_COLUMNS] && observer->columns)
        to[HS_TAP_COLUMNS] = observer->columns + slot * K;
    if (!to[similarity] && observer->similarity) {
        to[similarity] = observer->similarity + slot * T * T;
        head->upper_only = !(capture->taps & SIMILARITIES);
    }
    head->measured = similarity;
    head->lengths = observer->lengths ? observer->lengths + slot * T : NULL;
}

/* The rows at which a sequence begins among those of all sequences. */
typedef struct row_start {
    size_t token, memory;
} row_start;

/* Returns the keys and values of the memory in the current block. */
static float *memory_rows(const pass *p)
{
    if (p->kept)
        return p->kept->memory_kv;
    return p->plan->past ? hs__past_rows(p->plan->past, p->block) : p->ws->memory_kv;
}

/* Returns true if an earlier pass has computed them. */
static bool memory_is_ready(const pass *p)
{
    return p->plan->past && p->plan->past->n_tokens > 0;
}

/* Puts a head's keys and values behind those of the tokens before, and lets it read all. */
static void past_join(const pass *p, size_t shared, hs__head *head)
{
    const hs_past *past = p->plan->past;
    const size_t D = head->D, B = hs_shape_kv_width(&p->engine->shape);
    float *k = hs__past_rows(past, p->block) + shared * D, *v = k + B;
    for (size_t t = 0; t < head->T && !head->keys_are_ready; t++) {
        const size_t to = (past->n_tokens + t) * past->step, from = t * head->key_step;
        memcpy(k + to, head->k + from, D * sizeof *k);
        memcpy(v + to, head->v + from, D * sizeof *v);
    }
    head->k = k;
    head->v = v;
    head->key_step = past->step;
    head->past = past->n_tokens;
    head->K = past->n_tokens + head->T;
}

/* Returns the capture's position of the layer whose heads are computed, or -1. */
static ptrdiff_t layer_kept(const pass *p, const hs_capture *capture)
{
    return capture->cross == p->cross ? hs__list_find(capture->layers, capture->n_layers, p->index) : -1;
}

/* Computes one head of the sequence s, which begins at rows `at`. Returns false if nothing needs it. */
static bool head_attend(const pass *p, size_t index, size_t s, row_start at, size_t slot, bool keys_are_ready)
{
    const size_t A = p->engine->attention_width, D = p->engine->shape.head_width;
    const hs_sequence *sequence = &p->plan->sequences[s];
    const hs_capture *capture = sequence->capture;
    const ptrdiff_t l = layer_kept(p, capture);
    const ptrdiff_t h = l < 0 ? -1 : hs__list_find(capture->heads, capture->n_heads, index);
    if (h < 0 && p->last)
        return false;
    hs__head head = hs__head_describe(p->engine, p->block, index, sequence);
    hs__operands_place(p->engine, p->block, index, p->qkv + at.token * p->layer->qkv->n_out,
                       memory_rows(p) + at.memory * 2 * hs_shape_kv_width(&p->engine->shape), &head);
    head.keys_are_ready = keys_are_ready;
    head.streams = p->streams;
    head.context = p->context + at.token * A + index * D;
    head.context_step = A;
    if (p->plan->past && !p->cross)
        past_join(p, index / (p->engine->shape.n_heads / hs_shape_kv_heads(&p->engine->shape)), &head);
    if (h >= 0)
        head_place(p, capture, (size_t)l, (size_t)h, slot, &head);
    if (head.to[HS_TAP_VALUE_NORMS] || head.to[HS_TAP_RESIDUAL_SIMILARITY] ||
        head.to[HS_TAP_CENTERED_RESIDUAL_SIMILARITY])
        head.residual = hs__residual_at(p->engine->residual, p->block, index);
    float *selected = head.to[HS_TAP_ATTENTION];
    const size_t n = head.T * head.K;
    if (p->kept)
        head.to[HS_TAP_ATTENTION] = p->kept->attention + index * n;
    hs__attend(p->engine->kernels, p->sharing, &p->ws->attention[slot], &head);
    if (p->kept && selected)
        memcpy(selected, p->kept->attention + index * n, n * sizeof *selected);
    const hs_observer *observer = p->plan->observer;
    if (h >= 0 && observer)
        observer->show(observer->context, s, (size_t)l, (size_t)h,
                       &(hs_observed_head){head.to[HS_TAP_ATTENTION],
                                           head.to[hs_similarity_tap(observer->kind)],
                                           head.to[HS_TAP_COLUMNS], head.lengths});
    return true;
}

/* Computes the heads of one sequence that share keys and values: one head, unless heads are grouped. */
static void task_attend(void *context, size_t task, size_t slot)
{
    const pass *p = context;
    const hs_shape *shape = &p->engine->shape;
    const size_t group = task / p->plan->n_sequences, s = task % p->plan->n_sequences;
    const size_t n = shape->n_heads / hs_shape_kv_heads(shape);
    row_start at = {0};
    size_t n_memory = 0; /* up to the end of the sequence's own */
    for (size_t before = 0; before < s; before++)
        at.token += p->plan->sequences[before].n_tokens;
    for (size_t i = 0; i <= s; i++)
        n_memory += hs__sequence_memory(p->plan->sequences, i);
    at.memory = n_memory - p->plan->sequences[s].n_memory;
    bool keys_are_ready = false;
    for (size_t index = group * n; index < (group + 1) * n; index++)
        keys_are_ready |= head_attend(p, index, s, at, slot, keys_are_ready);
}

/* Returns the threads that may attend in the current block: fewer than the pass has if an observer has memory
 * for fewer maps. */
static size_t attending_threads(const pass *p)
{
    const hs_observer *observer = p->plan->observer;
    const size_t n = observer && observer->n_threads > 1 ? observer->n_threads : 1;
    bool observed = false;
    for (size_t s = 0; observer && s < p->plan->n_sequences; s++)
        observed |= layer_kept(p, p->plan->sequences[s].capture) >= 0;
    return observed && n < p->n_threads ? n : p->n_threads;
}

/* Computes every n_attending-th group of heads. The memory of thread `index` serves, which no other task
 * uses. */
static void task_attend_some(void *context, size_t index, size_t slot)
{
    const pass *p = context;
    (void)slot;
    for (size_t task = index; task < p->n_head_tasks; task += p->n_attending)
        task_attend(context, task, index);
}

/* Computes all heads of the current block. */
static void attend(pass *p, hs__team *team)
{
    p->n_head_tasks = p->plan->n_sequences * hs_shape_kv_heads(&p->engine->shape);
    p->n_attending = attending_threads(p);
    const bool alone = p->n_attending < p->n_threads && p->n_attending == 1;
    p->sharing = alone ? &(hs__sharing){team, p->ws->attention} : NULL;
    if (alone)
        task_attend_some(p, 0, 0);
    else if (p->n_attending < p->n_threads)
        hs__team_share(team, p->n_attending, task_attend_some, p);
    else
        hs__team_share(team, p->n_head_tasks, task_attend, p);
    p->sharing = NULL;
}

/* Adds a block's output to rows of x. With post-norm the sum is normed; with pre-norm the input of the
 * next block is normed into its own array. */
static void task_join(void *context, size_t task, size_t slot)
{
    (void)slot;
    const pass *p = context;
    const hs__kernels *kernels = p->engine->kernels;
    const hs__packed_norm *norm = p->norm;
    const size_t H = p->engine->shape.hidden;
    const float eps = p->engine->architecture->norm_eps;
    const rows r = rows_of_task(p, task);
    float *x = p->ws->x + (p->first_row + r.first) * H;
    const float *update = p->added + r.first * H;
    if (p->adds && p->out_norm && p->out_norm->gamma) {
        float *normed = p->ws->update + r.first * H;
        p->engine->add_norm(r.n, H, update, NULL, p->out_norm->gamma, p->out_norm->beta, eps, normed);
        update = normed;
    }
    if (!p->engine->architecture->norms_before && norm->gamma) {
        p->engine->add_norm(r.n, H, update, x, norm->gamma, norm->beta, eps, x);
        return;
    }
    if (p->adds)
        kernels->add_bias(1, r.n * H, update, x, r.n * H);
    if (norm && norm->gamma)
        p->engine->add_norm(r.n, H, x, NULL, norm->gamma, norm->beta, eps, p->ws->normed + r.first * H);
}

/* Norms the queries and keys of some rows, where a norm is of all heads' columns. */
static void task_norm_operands(void *context, size_t task, size_t slot)
{
    (void)slot;
    const pass *p = context;
    const hs__packed_layer *layer = p->normed;
    const size_t A = p->engine->attention_width, B = hs_shape_kv_width(&p->engine->shape);
    const float eps = p->engine->architecture->norm_eps;
    const rows r = rows_of_task(p, task);
    for (size_t i = p->first_row + r.first; i < p->first_row + r.first + r.n; i++) {
        float *q = p->operands + i * layer->qkv->n_out, *k = q + A;
        p->engine->add_norm(1, A, q, NULL, layer->query_norm.gamma, layer->query_norm.beta, eps, q);
        p->engine->add_norm(1, B, k, NULL, layer->key_norm.gamma, layer->key_norm.beta, eps, k);
    }
}

/* Ends a block that adds `added`, or begins the first one if that is NULL. norm is the block's norm
 * (post-norm) or that of the next block (pre-norm). */
static void join(pass *p, hs__team *team, float *added, const hs__packed_norm *norm)
{
    p->adds = added != NULL;
    p->added = added ? added : p->ws->update;
    p->norm = norm;
    hs__team_share(team, p->n_row_chunks, task_join, p);
}

/* Returns the rows that a block with this norm reads. */
static const float *block_input(const pass *p, const hs__packed_norm *norm)
{
    return p->engine->architecture->norms_before && norm->gamma
               ? p->ws->normed
               : p->ws->x + p->first_row * p->engine->shape.hidden;
}

/* Activates rows of what a tape keeps: to = f(from). */
static void task_activate(void *context, size_t task, size_t slot)
{
    (void)slot;
    const pass *p = context;
    const size_t n = p->linear->n_out, step = p->linear->y_step;
    const rows r = rows_of_task(p, task);
    for (size_t i = r.first; i < r.first + r.n; i++) {
        memcpy(p->to + i * step, p->from + i * step, n * sizeof *p->to);
        if (p->linear->activate)
            p->linear->activate(1, n, p->to + i * step, step);
    }
}

/* Computes inner = gate * inner. */
static void task_gate(void *context, size_t task, size_t slot)
{
    (void)slot;
    const pass *p = context;
    const size_t F = p->engine->shape.ffn, step = p->engine->inner_step;
    const rows r = rows_of_task(p, task);
    for (size_t i = r.first; i < r.first + r.n; i++)
        p->engine->kernels->multiply(F, p->ws->gate + i * step, p->ws->inner + i * step);
}

/* Converts rows of `from` to operands of a product. */
static void task_convert(void *context, size_t task, size_t slot)
{
    (void)slot;
    const pass *p = context;
    const hs__linear *linear = p->linear;
    const rows r = rows_of_task(p, task);
    const hs__conversion *to = p->engine->conversion;
    to->convert(r.n, linear->n_in, p->from + r.first * linear->x_step, linear->x_step, linear->factors,
                p->ws->operand + r.first * to->words(linear->n_in));
}

/* Computes to = from W' + b. With `again`, the last product read the same rows, so they are converted: but
 * for int24, whose factors are the product's own. */
static void multiply_rows(pass *p, hs__team *team, const hs__linear *linear, const float *from, float *to,
                          bool again)
{
    p->linear = linear;
    p->from = from;
    p->to = to;
    if (p->engine->conversion && !(again && !linear->factors))
        hs__team_share(team, p->n_row_chunks, task_convert, p);
    hs__team_share(team, hs__linear_tasks(linear, p->n_rows, p->n_threads), task_multiply, p);
}

static void multiply(pass *p, hs__team *team, const hs__linear *linear, const float *from, float *to)
{
    multiply_rows(p, team, linear, from, to, false);
}

/* Computes to = f(from W' + b) and keeps what f reads, if `kept` is not NULL. bare is the product without f.
 */
static void multiply_kept(pass *p, hs__team *team, const hs__linear *linear, const hs__linear *bare,
                          const float *from, float *kept, float *to)
{
    if (!kept) {
        multiply(p, team, linear, from, to);
        return;
    }
    multiply(p, team, bare, from, kept);
    p->linear = linear;
    p->from = kept;
    p->to = to;
    hs__team_share(team, p->n_row_chunks, task_activate, p);
}

/* Returns the rows that one thread takes from one layer's heads to those of the next before it takes more
 * rows (loop blocking). For narrow models all data between the heads stays in the second-level cache:
 * mini's pass over eight texts takes 4 % less time. Wider models would read their weights too often. */
static size_t piece_rows(const pass *p)
{
    const size_t cache = 768 << 10, rows_min = 128;
    const hs_shape *shape = &p->engine->shape;
    const size_t n = cache / ((2 * shape->hidden + shape->ffn) * sizeof(float));
    return p->n_threads == 1 && n >= rows_min && !p->tape ? n : p->N;
}

/* Copies what the heads of the first block write, which is given, for the rows of the current step. */
static void written_gather(const pass *p)
{
    const size_t H = p->engine->shape.hidden, end = p->first_row + p->n_rows;
    size_t row = 0; /* of the sequence's first token */
    for (size_t s = 0; s < p->plan->n_sequences; s++) {
        const hs_sequence *sequence = &p->plan->sequences[s];
        const size_t after = row + sequence->n_tokens;
        const size_t first = row > p->first_row ? row : p->first_row, last = after < end ? after : end;
        if (first < last)
            memcpy(p->ws->update + (first - p->first_row) * H, sequence->start->written + (first - row) * H,
                   (last - first) * H * sizeof *p->ws->update);
        row = after;
    }
}

/* Takes some rows through the feed-forward part of a layer: returns what it adds to x. */
static float *feed_rows(pass *p, hs__team *team, const hs__packed_layer *layer)
{
    const hs_workspace *ws = p->ws;
    const float *x = block_input(p, &layer->ffn_norm);
    const hs__backward_products *bare = p->kept ? hs__transposed_at(p->engine->transposed, p->block) : NULL;
    const hs__kept *kept = bare ? p->kept : NULL;
    multiply_kept(p, team, layer->ffn_in, bare ? bare->bare_in : NULL, x, kept ? kept->inner : NULL,
                  ws->inner);
    if (layer->ffn_gate) {
        if (kept)
            multiply_kept(p, team, layer->ffn_gate, bare->bare_gate, x, kept->gate, ws->gate);
        else
            multiply_rows(p, team, layer->ffn_gate, x, ws->gate, true);
        hs__team_share(team, p->n_row_chunks, task_gate, p);
    }
    float *fed = kept ? kept->fed : ws->update;
    multiply(p, team, layer->ffn_out, ws->inner, fed);
    return fed;
}

/* Adds the convolution to rows of x after the first layer. */
static void convolve_rows(pass *p, hs__team *team)
{
    const hs__linear *convolution = p->engine->convolution;
    const hs__linear *bare = p->kept ? hs__transposed_bare_convolution(p->engine->transposed) : NULL;
    multiply_kept(p, team, convolution, bare, p->ws->unfolded + p->first_row * convolution->n_in,
                  p->kept ? p->tape->convolved : NULL, p->ws->update);
    p->out_norm = NULL;
    join(p, team, p->ws->update, &p->engine->convolution_norm);
}

/* Takes some rows from the heads of a layer to x after that layer. next is the following layer, or NULL
 * if it is not needed. */
static void run_layer_rows(pass *p, hs__team *team, const hs__packed_layer *layer,
                           const hs__packed_layer *next)
{
    const bool before = p->engine->architecture->norms_before;
    const bool parallel = p->engine->architecture->parallel_residual;
    float *attended = p->kept ? p->kept->attended : p->ws->update;
    if (parallel)
        join(p, team, NULL, &layer->ffn_norm);
    if (p->plan->starts_behind_output && p->block == p->plan->first_block)
        written_gather(p);
    else
        multiply(p, team, layer->output, p->context + p->first_row * p->engine->attention_width, attended);
    p->out_norm = &layer->attention_out_norm;
    if (!layer->ffn_in) {
        join(p, team, attended, !before ? &layer->attention_norm : next ? &next->attention_norm : NULL);
        return;
    }
    join(p, team, attended, parallel ? NULL : before ? &layer->ffn_norm : &layer->attention_norm);
    float *fed = feed_rows(p, team, layer);
    p->out_norm = &layer->ffn_out_norm;
    join(p, team, fed, !before ? &layer->ffn_norm : next ? &next->attention_norm : NULL);
    if (p->engine->convolution && layer == p->engine->layers)
        convolve_rows(p, team);
}

/* Returns what the tape keeps of a block, or NULL. */
static const hs__kept *kept_of(const pass *p, const hs__packed_layer *layer)
{
    return hs__tape_kept(p->tape, (size_t)(layer - p->engine->layers));
}

/* Takes some rows from the heads of a layer, or from the embeddings, to q, k and v of the next layer if
 * it is needed. */
static void run_rows(pass *p, hs__team *team, const hs__packed_layer *from, const hs__packed_layer *to)
{
    if (from)
        run_layer_rows(p, team, from, to);
    else if (p->engine->architecture->norms_before)
        join(p, team, NULL, &to->attention_norm);
    if (!to)
        return;
    const hs__kept *kept = kept_of(p, to);
    float *qkv = kept ? kept->qkv : p->ws->qkv;
    multiply(p, team, to->qkv, block_input(p, &to->attention_norm), qkv + p->first_row * to->qkv->n_out);
    if (kept && kept->raw)
        memcpy(kept->raw, qkv, p->N * to->qkv->n_out * sizeof *qkv);
    if (p->engine->architecture->qk_norms_whole) {
        p->normed = to;
        p->operands = qkv;
        hs__team_share(team, p->n_row_chunks, task_norm_operands, p);
    }
}

static void run_between(pass *p, hs__team *team, const hs__packed_layer *from, const hs__packed_layer *to)
{
    const size_t n = piece_rows(p);
    for (p->first_row = 0; p->first_row < p->N; p->first_row += n) {
        p->n_rows = p->N - p->first_row < n ? p->N - p->first_row : n;
        run_rows(p, team, from, to);
    }
}

/* Puts the neighbours of each token beside it (im2col), as the convolution reads them: x [T][H] to [T][H
 * width] of one sequence. */
static void unfold(size_t T, size_t H, size_t width, const float *x, float *to)
{
    for (size_t t = 0; t < T; t++)
        for (size_t j = 0; j < H; j++)
            for (size_t k = 0; k < width; k++) {
                const size_t from = t + k, before = width / 2; /* of the token from - before */
                *to++ = from >= before && from - before < T ? x[(from - before) * H + j] : 0;
            }
}

static void unfold_all(const pass *p)
{
    const size_t H = p->engine->shape.hidden, width = p->engine->architecture->convolution.width;
    size_t row = 0;
    for (size_t s = 0; width > 0 && s < p->plan->n_sequences; s++) {
        const size_t T = p->plan->sequences[s].n_tokens;
        unfold(T, H, width, p->ws->x + row * H, p->ws->unfolded + row * H * width);
        row += T;
    }
}

/* Computes the embeddings of all sequences: x, or the input of the projection to x. */
static void embed(pass *p, hs__team *team)
{
    const hs_engine *engine = p->engine;
    hs_workspace *ws = p->ws;
    float *x = engine->projection ? ws->update : ws->x;
    /* The rest of the workspace is free here, so qkv serves as scratch for one row. */
    for (size_t s = 0; s < p->plan->n_sequences; s++) {
        embed_sequence(engine, &p->plan->sequences[s], ws->qkv, x);
        x += p->plan->sequences[s].n_tokens * engine->architecture->embedding.width;
    }
    p->first_row = 0;
    p->n_rows = p->N;
    if (engine->projection)
        multiply(p, team, engine->projection, ws->update, ws->x);
    x = ws->x;
    for (size_t s = 0; engine->architecture->embedding.positions_last && s < p->plan->n_sequences; s++) {
        add_positions(engine, &p->plan->sequences[s], ws->qkv, x);
        x += p->plan->sequences[s].n_tokens * engine->shape.hidden;
    }
}

/* Copies O of the layer in which a sequence starts to the array that the output product reads. */
static void start_context(const hs_start *start, const hs_shape *shape, size_t T, float *context)
{
    const size_t A = hs_shape_attention_width(shape), D = shape->head_width;
    for (size_t h = 0; h < shape->n_heads; h++) {
        const float *output = h == start->head_off ? start->head_new : start->head_outputs + h * T * D;
        for (size_t i = 0; i < T; i++) {
            float *to = context + i * A + h * D;
            if (output)
                memcpy(to, output + i * D, D * sizeof *to);
            else
                memset(to, 0, D * sizeof *to);
        }
    }
}

/* Copies the states in which all sequences start: x, and O if it is given. */
static void start(const pass *p)
{
    const hs_shape *shape = &p->engine->shape;
    const size_t H = shape->hidden;
    size_t row = 0;
    for (size_t s = 0; s < p->plan->n_sequences; s++) {
        const hs_sequence *sequence = &p->plan->sequences[s];
        const size_t T = sequence->n_tokens;
        memcpy(p->ws->x + row * H, sequence->start->state, T * H * sizeof *p->ws->x);
        if (p->plan->starts_behind_heads && !p->plan->starts_behind_output)
            start_context(sequence->start, shape, T, p->ws->context + row * p->engine->attention_width);
        row += T;
    }
}

/* Puts the memories of all sequences side by side, as the products of cross attention read them. */
static void memory_gather(const pass *p)
{
    const size_t H = p->engine->shape.hidden;
    float *to = p->ws->memory;
    for (size_t s = 0; to && s < p->plan->n_sequences; s++) {
        const size_t n = hs__sequence_memory(p->plan->sequences, s) * H;
        if (n > 0)
            memcpy(to, p->plan->sequences[s].memory, n * sizeof *to);
        to += n;
    }
}

/* Computes the memory's keys and values of the current block. */
static void memory_multiply(pass *p, hs__team *team)
{
    p->first_row = 0;
    p->n_rows = p->plan->n_memory;
    multiply(p, team, p->layer->memory, p->ws->memory, memory_rows(p));
    if (p->kept && p->kept->raw_memory)
        memcpy(p->kept->raw_memory, p->kept->memory_kv,
               p->n_rows * p->layer->memory->n_out * sizeof *p->kept->raw_memory);
}

/* Computes x = norm(x) after the last layer. */
static void final_norm(const pass *p)
{
    const hs__packed_norm *norm = &p->engine->final_norm;
    const hs_engine *engine = p->engine;
    if (norm->gamma)
        engine->add_norm(p->N, engine->shape.hidden, p->ws->x, NULL, norm->gamma, norm->beta,
                         engine->architecture->norm_eps, p->ws->x);
}

/* Copies the state x to each array of a capture that keeps it. */
static void keep_state(const hs_capture *capture, ptrdiff_t layer, const float *x)
{
    const size_t bytes = capture->n_tokens * capture->hidden * sizeof *x;
    const ptrdiff_t l = layer < 0 ? -1 : hs__list_find(capture->layers, capture->n_layers, (size_t)layer);
    if (capture->arrays[HS_TAP_HIDDEN_STATE] && (layer < 0 || l >= 0))
        memcpy(hs_capture_at(capture, HS_TAP_HIDDEN_STATE, (size_t)(l + 1), 0), x, bytes);
    if (capture->arrays[HS_TAP_EVERY_STATE])
        memcpy(hs_capture_at(capture, HS_TAP_EVERY_STATE, (size_t)(layer + 1), 0), x, bytes);
    if (capture->arrays[HS_TAP_LAST_STATE] && layer + 1 == (ptrdiff_t)capture->depth)
        memcpy(capture->arrays[HS_TAP_LAST_STATE], x, bytes);
}

/* Keeps the states that enter the cross heads of the current layer. */
static void keep_cross_states(const pass *p)
{
    const float *x = p->ws->x;
    for (size_t s = 0; s < p->plan->n_sequences; s++) {
        const hs_capture *capture = p->plan->sequences[s].capture;
        const size_t n = capture->n_tokens * capture->hidden;
        if (capture->arrays[HS_TAP_CROSS_STATE])
            memcpy(hs_capture_at(capture, HS_TAP_CROSS_STATE, p->index, 0), x, n * sizeof *x);
        x += n;
    }
}

/* Keeps the states after a layer; -1: the embeddings. */
static void keep_hidden_states(const pass *p, ptrdiff_t layer)
{
    const float *x = p->ws->x;
    for (size_t s = 0; s < p->plan->n_sequences; s++) {
        const hs_capture *capture = p->plan->sequences[s].capture;
        keep_state(capture, layer, x);
        x += capture->n_tokens * capture->hidden;
    }
}

/* Takes the rows from the heads of a block to the state after it, and to q, k and v of the next block. A
 * changed state is complete before these are computed. */
static void finish_block(pass *p, hs__team *team)
{
    const hs__packed_layer *next = p->block + 1 < p->plan->n_blocks ? p->layer + 1 : NULL;
    const size_t n = hs_architecture_layer_blocks(p->engine->architecture);
    const bool ends_layer = p->block % n == n - 1;
    const bool changed = ends_layer && hs__state_is_changed(p->plan, p->index + 1);
    run_between(p, team, p->layer, changed ? NULL : next);
    if (p->tape && p->block + 1 == p->engine->n_blocks)
        memcpy(p->tape->unnormed, p->ws->x, p->N * p->engine->shape.hidden * sizeof(float));
    if (p->block + 1 == p->engine->n_blocks)
        final_norm(p);
    if (changed)
        hs__state_change(p->plan, p->index + 1, p->engine->shape.hidden, p->ws->x);
    if (changed && next)
        run_between(p, team, NULL, next);
    if (ends_layer)
        keep_hidden_states(p, (ptrdiff_t)p->index);
    else
        keep_cross_states(p);
}

/* Makes a block the current one. */
static void enter_block(pass *p, size_t block)
{
    const size_t n = hs_architecture_layer_blocks(p->engine->architecture);
    p->block = block;
    p->index = block / n;
    p->cross = block % n == 1;
    p->layer = &p->engine->layers[block];
    p->kept = kept_of(p, p->layer);
    p->qkv = p->kept ? p->kept->qkv : p->ws->qkv;
    p->context = p->kept ? p->kept->context : p->ws->context;
    p->last = p->plan->heads_only && block + 1 == p->plan->n_blocks;
}

static hs_status run_layers(pass *p, hs__team *team, const hs_run_control *control, hs_error *err)
{
    const size_t n_blocks = p->plan->n_blocks, first = p->plan->first_block;
    for (size_t block = first; block < n_blocks; block++) {
        const bool attends = block > first || !p->plan->starts_behind_heads;
        if (hs__is_cancelled(control))
            return hs_fail(err, HS_CANCELLED, "cancelled after %zu of %zu layers", block, n_blocks);
        enter_block(p, block);
        if (block == first && attends)
            run_between(p, team, NULL, p->layer);
        if (p->cross && attends && !memory_is_ready(p))
            memory_multiply(p, team);
        if (attends)
            attend(p, team);
        if (p->tape)
            memcpy(p->tape->x[block], p->ws->x, p->N * p->engine->shape.hidden * sizeof(float));
        if (!p->last)
            finish_block(p, team);
    }
    return HS_OK;
}

void hs_engine_write(const hs_engine *engine, hs_workspace *ws, const hs_start *start, size_t n_tokens,
                     float *ret)
{
    const size_t block =
        start->layer * hs_architecture_layer_blocks(engine->architecture) + (size_t)start->cross;
    pass p = {.engine = engine, .ws = ws, .N = n_tokens, .n_rows = n_tokens, .n_row_chunks = 1};
    p.n_threads = 1;
    hs__team team;
    hs__team_start(&team, engine->runtime, 1);
    start_context(start, &engine->shape, n_tokens, ws->context);
    multiply(&p, &team, engine->layers[block].output, ws->context, ret);
    hs__team_finish(&team);
}

/* A pass of about a millisecond runs on one thread: helpers save less than the delay when one of them loses
 * its core to another process. */
size_t hs__threads_for(const hs_engine *engine, size_t n_tokens, size_t n_threads)
{
    const double shared_min = 2.5e8; /* operations: some ms of one core */
    const hs_shape *shape = &engine->shape;
    const double weights = (double)shape->hidden *
                           ((double)engine->n_blocks *
                                (2 * (double)engine->attention_width + 2 * (double)hs_shape_kv_width(shape)) +
                            (double)shape->n_layers * 2 * (double)shape->ffn);
    const size_t n = n_threads < engine->n_threads ? n_threads : engine->n_threads;
    return n > 1 && 2 * (double)n_tokens * weights >= shared_min ? n : 1;
}

/* Returns the block of a capture's heads in the l-th of its layers. */
static size_t block_of(const hs_engine *engine, const hs_capture *capture, size_t l)
{
    return capture->layers[l] * hs_architecture_layer_blocks(engine->architecture) + capture->cross;
}

/* Counts the layers of the capture that need factors of their output weights. */
static size_t n_layers_measured(const hs_plan *plan, const hs_capture *capture)
{
    const bool observed = plan->observer && plan->observer->similarity && plan->observer->kind.residual;
    const unsigned taps =
        HS_KEEP(VALUE_NORMS) | HS_KEEP(RESIDUAL_SIMILARITY) | HS_KEEP(CENTERED_RESIDUAL_SIMILARITY);
    return observed || capture->taps & taps ? capture->n_layers : 0;
}

hs_status hs_engine_prepare(const hs_engine *engine, const hs_plan *plan, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t s = 0; s < plan->n_sequences; s++) {
        const hs_capture *capture = plan->sequences[s].capture;
        for (size_t l = 0; l < n_layers_measured(plan, capture) && !st; l++)
            st = hs__residual_make(engine->residual, block_of(engine, capture, l), err);
    }
    return st;
}

static bool is_prepared(const hs_engine *engine, const hs_plan *plan)
{
    for (size_t s = 0; s < plan->n_sequences; s++) {
        const hs_capture *capture = plan->sequences[s].capture;
        for (size_t l = 0; l < n_layers_measured(plan, capture); l++)
            if (!hs__residual_at(engine->residual, block_of(engine, capture, l), 0))
                return false;
    }
    return true;
}

/* Returns true if maps are stored past the caches: a core's caches cannot hold what the pass keeps, and no
 * observer reads a map right after it was computed. */
static bool maps_stream(const hs_engine *engine, const hs_plan *plan)
{
    size_t bytes = 0;
    for (size_t s = 0; s < plan->n_sequences; s++)
        bytes += plan->sequences[s].capture->bytes;
    return engine->kernels->streams && !plan->observer && bytes > hs_runtime_caches(engine->runtime).second;
}

/* Fails if the engine or the workspace cannot run the plan. */
static hs_status plan_check(const hs_engine *engine, const hs_workspace *ws, const hs_plan *plan,
                            hs_error *err)
{
    if (plan->architecture != engine->architecture)
        return hs_fail(err, HS_INVALID, "the plan was made for another model");
    if (plan->n_tokens > ws->tokens_max)
        return hs_fail(err, HS_TOO_LARGE, "%zu tokens are more than the workspace's %zu", plan->n_tokens,
                       ws->tokens_max);
    if (plan->past && plan->past->n_tokens + plan->n_tokens > ws->tokens_max)
        return hs_fail(err, HS_TOO_LARGE, "%zu tokens are more than the workspace's %zu",
                       plan->past->n_tokens + plan->n_tokens, ws->tokens_max);
    if (plan->n_memory > ws->tokens_max)
        return hs_fail(err, HS_TOO_LARGE, "%zu tokens of sources are more than the workspace's %zu",
                       plan->n_memory, ws->tokens_max);
    if (!is_prepared(engine, plan))
        return hs_fail(err, HS_INVALID,
                       "the plan measures lengths in the hidden state: call hs_engine_prepare");
    return HS_OK;
}

/* Notes in each capture where its text ends, for heads that read the last token. */
static void ends_note(const hs_plan *plan)
{
    const int32_t padding_id = plan->architecture->task_head.padding_id;
    for (size_t i = 0; i < plan->n_sequences; i++) {
        size_t n = plan->sequences[i].n_tokens;
        while (n > 1 && plan->sequences[i].ids[n - 1] == padding_id)
            n--;
        plan->sequences[i].capture->n_unpadded = n;
    }
}

hs_status hs_engine_run(const hs_engine *engine, hs_workspace *ws, const hs_plan *plan,
                        const hs_run_control *control, hs_error *err)
{
    return hs__engine_run_taped(engine, ws, plan, control, NULL, err);
}

hs_status hs__engine_run_taped(const hs_engine *engine, hs_workspace *ws, const hs_plan *plan,
                               const hs_run_control *control, hs_tape *tape, hs_error *err)
{
    static const hs_run_control alone = {0};
    hs_status st = plan_check(engine, ws, plan, err);
    if (st)
        return st;
    ends_note(plan);
    control = control ? control : &alone;
    pass p = {.engine = engine, .ws = ws, .plan = plan, .tape = tape, .N = plan->n_tokens};
    p.n_threads = hs__threads_for(engine, plan->n_tokens, control->n_threads);
    for (size_t s = 0; s < plan->n_sequences; s++) {
        const hs_capture *capture = plan->sequences[s].capture;
        p.n_longest = capture->n_tokens > p.n_longest ? capture->n_tokens : p.n_longest;
        p.n_keys_longest = capture->n_keys > p.n_keys_longest ? capture->n_keys : p.n_keys_longest;
    }
    p.streams = !tape && maps_stream(engine, plan);
    p.n_row_chunks = p.n_threads == 1 ? 1 : 4 * p.n_threads;
    hs__team team;
    hs__team_start(&team, engine->runtime, p.n_threads);
    if (plan->n_sequences > 0 && plan->sequences[0].start)
        start(&p);
    else
        embed(&p, &team);
    if (!memory_is_ready(&p))
        memory_gather(&p);
    enter_block(&p, plan->first_block);
    hs__state_change(plan, p.index, engine->shape.hidden, p.ws->x);
    if (plan->first_block == 0)
        unfold_all(&p);
    if (!p.cross)
        keep_hidden_states(&p, (ptrdiff_t)p.index - 1);
    st = run_layers(&p, &team, control, err);
    hs__team_finish(&team);
    if (tape && !st && plan->n_blocks == engine->n_blocks)
        memcpy(tape->last, ws->x, p.N * engine->shape.hidden * sizeof *tape->last);
    if (plan->past && !st)
        plan->past->n_tokens += plan->n_tokens;
    return st;
}

hs_status hs_engine_compute(const hs_engine *engine, hs_workspace *ws, const hs_sequence *sequences,
                            size_t n_sequences, const hs_observer *observer, const hs_run_control *control,
                            hs_error *err)
{
    hs_plan plan;
    hs_status st = hs_plan_make(engine->architecture, sequences, n_sequences, observer, &plan, err);
    if (!st)
        st = hs_engine_prepare(engine, &plan, err);
    return st ? st : hs_engine_run(engine, ws, &plan, control, err);
}
