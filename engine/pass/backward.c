/* backward.c - runs the layers of a tape from the last to the first: the gradient of the state that leaves a
 * block becomes that of the state that enters it.
 *
 * With g the gradient of a sum x + r, both x and r have the gradient g. A product y = x W' + b passes g W on.
 * A norm n = (s - mean) / deviation * gamma + beta passes on, with h = g * gamma and u the normed s before
 * gamma:
 *
 *     LAYER: (h - mean(h) - u mean(h * u)) / deviation        RMS: (h - u mean(h * u)) / deviation
 *
 * Steps are shared by threads as in forward.c. */
#include "engine/pass/tape.h"

#include "engine/pass/team.h"

#include <string.h>

/* ---- steps ---- */

/* The state of a backward pass that its tasks read. */
typedef struct backward {
    hs_tape *tape;
    const hs_engine *engine;
    const hs__back_scratch *s;
    hs__team *team;
    const hs_gradients *to; /* [n] */
    size_t n, deepest;      /* selections; the lowest block whose heads are requested */
    bool whole;             /* the state that enters the first layer is requested */
    bool reads_memory;      /* the memory's gradient is requested */
    bool memory_is_set;     /* a block above has written the memory's gradient */
    size_t T, n_threads, n_chunks;
    size_t block;
    const hs__packed_layer *layer;
    const hs__kept *kept;
    const float *x; /* what enters the block */
    /* the product being computed, and the rows of the current step */
    const hs__linear *linear;
    size_t n_rows, width;
    const hs__packed_norm *norm;
    const float *from, *addend, *gradient, *base;
    float *product;
} backward;

typedef struct rows {
    size_t first, n;
} rows;

static rows rows_of_task(const backward *b, size_t task)
{
    const size_t first = hs__chunk_start(b->n_rows, b->n_chunks, task);
    return (rows){first, hs__chunk_start(b->n_rows, b->n_chunks, task + 1) - first};
}

static void task_multiply(void *context, size_t task, size_t slot)
{
    const backward *b = context;
    (void)slot;
    hs__linear_run(b->linear, b->n_rows, b->n_threads, b->from, b->product, task);
}

/* Computes ret = g W. */
static void multiply(backward *b, const hs__linear *linear, size_t n_rows, const float *g, float *ret)
{
    b->linear = linear;
    b->n_rows = n_rows;
    b->from = g;
    b->product = ret;
    hs__team_share(b->team, hs__linear_tasks(linear, n_rows, b->n_threads), task_multiply, b);
}

static void task_norm_back(void *context, size_t task, size_t slot)
{
    const backward *b = context;
    const rows r = rows_of_task(b, task);
    const size_t at = r.first * b->width;
    (void)slot;
    hs__norm_back(b->engine, b->norm, r.n, b->width, b->from + at, b->addend ? b->addend + at : NULL,
                  b->gradient + at, b->base ? b->base + at : NULL, b->product + at);
}

/* Computes ret = base + the gradient of x + r, from the gradient g of their norm. r and base may be NULL. */
static void norm_back(backward *b, const hs__packed_norm *norm, const float *x, const float *r,
                      const float *g, const float *base, float *ret)
{
    b->n_rows = b->T;
    b->width = b->engine->shape.hidden;
    b->norm = norm;
    b->from = x;
    b->addend = r;
    b->gradient = g;
    b->base = base;
    b->product = ret;
    hs__team_share(b->team, b->n_chunks, task_norm_back, b);
}

/* Computes rows of the state between the two parts of a block, as task_join of forward.c does. */
static void task_middle(void *context, size_t task, size_t slot)
{
    const backward *b = context;
    const hs_engine *engine = b->engine;
    const hs__packed_norm *out = &b->layer->attention_out_norm, *norm = &b->layer->attention_norm;
    const rows r = rows_of_task(b, task);
    const size_t H = engine->shape.hidden, at = r.first * H;
    const float eps = engine->architecture->norm_eps, *attended = b->kept->attended + at;
    float *middle = b->s->middle + at;
    (void)slot;
    if (!engine->architecture->norms_before && norm->gamma) {
        engine->add_norm(r.n, H, attended, b->x + at, norm->gamma, norm->beta, eps, middle);
        return;
    }
    if (out->gamma)
        engine->add_norm(r.n, H, attended, NULL, out->gamma, out->beta, eps, middle);
    else
        memcpy(middle, attended, r.n * H * sizeof *middle);
    engine->kernels->add_bias(1, r.n * H, b->x + at, middle, r.n * H);
}

/* Turns rows of the gradient of what ffn_out reads into those of the activation's input, and of the gate's.
 */
static void task_inner_back(void *context, size_t task, size_t slot)
{
    const backward *b = context;
    const hs__kernels *kernels = b->engine->kernels;
    const hs_activation activation = b->engine->architecture->activation;
    const size_t F = b->engine->shape.ffn, step = b->engine->inner_step;
    const rows r = rows_of_task(b, task);
    (void)slot;
    for (size_t i = r.first * step; i < (r.first + r.n) * step; i += step) {
        float *g = b->s->inner + i, *slope = b->s->slope + i;
        const float *kept = b->kept->inner + i;
        if (b->layer->ffn_gate) {
            const float *gate = b->kept->gate + i;
            float *to = b->s->gate + i;
            memcpy(to, gate, F * sizeof *to);
            kernels->slope[activation](1, F, to, F);
            kernels->multiply(F, kept, to);
            kernels->multiply(F, g, to);
            memcpy(slope, gate, F * sizeof *slope);
            kernels->activate[activation](1, F, slope, F);
        } else {
            memcpy(slope, kept, F * sizeof *slope);
            kernels->slope[activation](1, F, slope, F);
        }
        kernels->multiply(F, slope, g);
    }
}

static void task_add(void *context, size_t task, size_t slot)
{
    const backward *b = context;
    const rows r = rows_of_task(b, task);
    const size_t n = r.n * b->width, at = r.first * b->width;
    (void)slot;
    if (n > 0)
        b->engine->kernels->add_bias(1, n, b->from + at, b->product + at, n);
}

/* Adds rows to others. */
static void add(backward *b, size_t n_rows, const float *rows_from, float *to)
{
    b->n_rows = n_rows;
    b->width = b->engine->shape.hidden;
    b->from = rows_from;
    b->product = to;
    hs__team_share(b->team, b->n_chunks, task_add, b);
}

/* ---- a block ---- */

/* Takes g, the gradient of what the feed-forward part adds, to that of what it reads: s->normed. */
static void feed_back(backward *b, const float *g)
{
    const hs__backward_products *products = hs__transposed_at(b->engine->transposed, b->block);
    multiply(b, products->ffn_out, b->T, g, b->s->inner);
    hs__team_share(b->team, b->n_chunks, task_inner_back, b);
    multiply(b, products->ffn_in, b->T, b->s->inner, b->s->normed);
    if (!b->layer->ffn_gate)
        return;
    multiply(b, products->ffn_gate, b->T, b->s->gate, b->s->part);
    add(b, b->T, b->s->part, b->s->normed);
}

/* Takes s->g from behind the feed-forward part of a block to before it. With a parallel part its share of the
 * gradient of x is in s->middle, and s->g stays. */
static void feed_part_back(backward *b)
{
    const hs_architecture *architecture = b->engine->architecture;
    const hs__packed_layer *layer = b->layer;
    const hs__back_scratch *s = b->s;
    const float *fed = s->g;
    if (!architecture->parallel_residual) {
        b->n_rows = b->T;
        hs__team_share(b->team, b->n_chunks, task_middle, b);
    }
    if (!architecture->norms_before) {
        norm_back(b, &layer->ffn_norm, b->kept->fed, s->middle, s->g, NULL, s->sum);
        feed_back(b, s->sum);
        norm_back(b, NULL, NULL, NULL, s->normed, s->sum, s->g);
        return;
    }
    if (layer->ffn_out_norm.gamma) {
        norm_back(b, &layer->ffn_out_norm, b->kept->fed, NULL, s->g, NULL, s->sum);
        fed = s->sum;
    }
    feed_back(b, fed);
    if (architecture->parallel_residual)
        norm_back(b, &layer->ffn_norm, b->x, NULL, s->normed, NULL, s->middle);
    else
        norm_back(b, &layer->ffn_norm, s->middle, NULL, s->normed, s->g, s->g);
}

/* Returns the position of the block's layer in a selection of its heads, or -1. */
static ptrdiff_t layer_of(const backward *b, const hs_gradients *to)
{
    const size_t n = hs_architecture_layer_blocks(b->engine->architecture);
    return to->cross == (b->block % n == 1) ? hs__list_find(to->layers, to->n_layers, b->block / n) : -1;
}

/* Sets what a selection requests of a head. */
static void head_back_place(const backward *b, const hs_gradients *to, size_t index, hs__head_back *back)
{
    const hs__head *head = back->head;
    const size_t n = head->T * head->K;
    const ptrdiff_t l = layer_of(b, to), h = hs__list_find(to->heads, to->n_heads, index);
    const size_t at = (size_t)l * to->n_heads + (size_t)h;
    if (l >= 0 && to->relevance) {
        back->relevance = to->relevance + (size_t)l * n;
        back->share = 1 / (float)b->engine->shape.n_heads;
    }
    if (l < 0 || h < 0)
        return;
    if (to->attention)
        back->ret_attention = to->attention + at * n;
    if (to->head_output)
        back->ret_output = to->head_output + at * head->T * head->D;
    if (to->head_attribution)
        back->ret_attribution = to->head_attribution + at * head->T;
}

/* Computes the heads that share keys and values. */
static void task_attend_back(void *context, size_t group, size_t slot)
{
    const backward *b = context;
    const hs_engine *engine = b->engine;
    const size_t D = engine->shape.head_width, A = engine->attention_width, T = b->T;
    const size_t n = engine->shape.n_heads / hs_shape_kv_heads(&engine->shape);
    for (size_t index = group * n; index < (group + 1) * n; index++) {
        hs__head head = hs__head_describe(engine, b->block, index, &b->tape->text), to = head, raw = head;
        hs__operands_place(engine, b->block, index, b->kept->qkv, b->kept->memory_kv, &head);
        hs__operands_place(engine, b->block, index, b->s->qkv, b->s->memory_kv, &to);
        head.context = b->kept->context + index * D;
        to.context = b->s->context + index * D;
        head.context_step = to.context_step = A;
        hs__head_back back = {.head = &head,
                              .to = &to,
                              .attention = b->kept->attention + index * T * head.K,
                              .more_keys = index > group * n,
                              .keys_done = index + 1 == (group + 1) * n};
        if (head.query_norm.gamma) {
            hs__operands_place(engine, b->block, index, b->kept->raw, b->kept->raw_memory, &raw);
            back.raw_q = raw.q;
            back.raw_k = raw.k;
        }
        for (size_t i = 0; i < b->n; i++)
            head_back_place(b, &b->to[i], index, &back);
        hs__attend_back(engine, &b->s->heads[slot], &back);
    }
}

/* Takes rows of the gradients of q and k back through norms of all heads' columns. */
static void task_operands_back(void *context, size_t task, size_t slot)
{
    const backward *b = context;
    const hs__packed_layer *layer = b->layer;
    const size_t A = b->engine->attention_width, B = hs_shape_kv_width(&b->engine->shape);
    const rows r = rows_of_task(b, task);
    (void)slot;
    for (size_t i = r.first; i < r.first + r.n; i++) {
        const size_t at = i * layer->qkv->n_out;
        float *q = b->s->qkv + at, *k = q + A;
        hs__norm_back(b->engine, &layer->query_norm, 1, A, b->kept->raw + at, NULL, q, NULL, q);
        hs__norm_back(b->engine, &layer->key_norm, 1, B, b->kept->raw + at + A, NULL, k, NULL, k);
    }
}

/* Clears the relevance of the block's layer, to which its heads add. Returns true if it is requested. */
static bool relevance_begin(const backward *b)
{
    const size_t n = b->T * (b->layer->memory ? b->tape->text.n_memory : b->T);
    bool requested = false;
    for (size_t i = 0; i < b->n; i++) {
        const ptrdiff_t l = layer_of(b, &b->to[i]);
        if (l < 0 || !b->to[i].relevance)
            continue;
        memset(b->to[i].relevance + (size_t)l * n, 0, n * sizeof *b->to[i].relevance);
        requested = true;
    }
    return requested;
}

/* Computes all heads of the block, from s->context to s->qkv and s->memory_kv. Sums over heads have one
 * order, so that their heads follow one another. */
static void attend_back(backward *b)
{
    const size_t n_groups = hs_shape_kv_heads(&b->engine->shape);
    if (relevance_begin(b))
        for (size_t group = 0; group < n_groups; group++)
            task_attend_back(b, group, 0);
    else
        hs__team_share(b->team, n_groups, task_attend_back, b);
    if (!b->engine->architecture->qk_norms_whole)
        return;
    b->n_rows = b->T;
    hs__team_share(b->team, b->n_chunks, task_operands_back, b);
}

/* Adds the gradient of the memory that a cross block reads. */
static void memory_back(backward *b)
{
    const hs__linear *memory = hs__transposed_at(b->engine->transposed, b->block)->memory;
    const size_t n = b->tape->text.n_memory;
    multiply(b, memory, n, b->s->memory_kv, b->memory_is_set ? b->s->part : b->s->memory);
    if (b->memory_is_set)
        add(b, n, b->s->part, b->s->memory);
    b->memory_is_set = true;
}

/* Takes s->g from behind the heads of a block to before them. */
static void attention_part_back(backward *b)
{
    const hs_architecture *architecture = b->engine->architecture;
    const hs__backward_products *products = hs__transposed_at(b->engine->transposed, b->block);
    const hs__packed_layer *layer = b->layer;
    const hs__back_scratch *s = b->s;
    const float *attended = s->g;
    if (!architecture->norms_before) {
        norm_back(b, &layer->attention_norm, b->kept->attended, b->x, s->g, NULL, s->sum);
        attended = s->sum;
    } else if (layer->attention_out_norm.gamma) {
        norm_back(b, &layer->attention_out_norm, b->kept->attended, NULL, s->g, NULL, s->sum);
        attended = s->sum;
    }
    multiply(b, products->output, b->T, attended, s->context);
    attend_back(b);
    if (layer->memory && b->reads_memory)
        memory_back(b);
    if (b->block <= b->deepest && !b->whole)
        return;
    multiply(b, products->qkv, b->T, s->qkv, s->normed);
    if (!architecture->norms_before)
        norm_back(b, NULL, NULL, NULL, s->normed, s->sum, s->g);
    else
        norm_back(b, &layer->attention_norm, b->x, NULL, s->normed, s->g, s->g);
    if (architecture->parallel_residual)
        add(b, b->T, s->middle, s->g);
}

static void block_enter(backward *b, size_t block)
{
    b->block = block;
    b->layer = &b->engine->layers[block];
    b->kept = hs__tape_kept(b->tape, block);
    b->x = b->tape->x[block];
}

static void block_back(backward *b, size_t block)
{
    block_enter(b, block);
    if (b->layer->ffn_in)
        feed_part_back(b);
    attention_part_back(b);
}

/* ---- the convolution behind the first layer ---- */

/* Computes the state that the convolution's output is added to, in s->middle: norm(middle + fed). */
static void convolution_base(backward *b)
{
    const hs__packed_norm *norm = &b->layer->ffn_norm;
    const size_t H = b->engine->shape.hidden;
    b->n_rows = b->T;
    hs__team_share(b->team, b->n_chunks, task_middle, b);
    if (norm->gamma)
        b->engine->add_norm(b->T, H, b->kept->fed, b->s->middle, norm->gamma, norm->beta,
                            b->engine->architecture->norm_eps, b->s->middle);
    else
        b->engine->kernels->add_bias(1, b->T * H, b->kept->fed, b->s->middle, b->T * H);
}

/* Takes s->g back through x = norm(x + act(c)). The embeddings' share is left in s->unfolded. */
static void convolution_back(backward *b)
{
    const hs_engine *engine = b->engine;
    const hs__kernels *kernels = engine->kernels;
    const hs__back_scratch *s = b->s;
    const hs_activation activation = engine->architecture->convolution.activation;
    const size_t H = engine->shape.hidden, n = b->T * H;
    block_enter(b, 0);
    convolution_base(b);
    memcpy(s->convolved, b->tape->convolved, n * sizeof *s->convolved);
    kernels->activate[activation](1, n, s->convolved, n);
    norm_back(b, &engine->convolution_norm, s->convolved, s->middle, s->g, NULL, s->g);
    memcpy(s->convolved, b->tape->convolved, n * sizeof *s->convolved);
    kernels->slope[activation](1, n, s->convolved, n);
    kernels->multiply(n, s->g, s->convolved);
    multiply(b, hs__transposed_convolution(engine->transposed), b->T, s->convolved, s->unfolded);
}

/* Adds what each token's neighbours read of it: the other way of unfold in forward.c. */
static void convolution_fold(const backward *b)
{
    const size_t H = b->engine->shape.hidden, width = b->engine->architecture->convolution.width;
    const float *from = b->s->unfolded;
    for (size_t t = 0; t < b->T; t++)
        for (size_t j = 0; j < H; j++)
            for (size_t k = 0; k < width; k++, from++)
                if (t + k >= width / 2 && t + k - width / 2 < b->T)
                    b->s->g[(t + k - width / 2) * H + j] += *from;
}

/* ---- states ---- */

/* Writes the gradient of a state where it is requested: 0 the embeddings, l + 1 after layer l. */
static void state_keep(const backward *b, size_t state)
{
    const size_t n = b->T * b->engine->shape.hidden;
    for (size_t i = 0; i < b->n; i++) {
        const hs_gradients *to = &b->to[i];
        const ptrdiff_t l = state > 0 ? hs__list_find(to->layers, to->n_layers, state - 1) : -1;
        if (to->states && (state == 0 || l >= 0))
            memcpy(to->states + (size_t)(l + 1) * n, b->s->g, n * sizeof *to->states);
    }
}

/* Clears the rows of a state that patches have replaced. */
static void state_unpatch(const backward *b, size_t state)
{
    const hs_sequence *text = &b->tape->text;
    const size_t H = b->engine->shape.hidden;
    for (size_t i = 0; i < text->n_interventions; i++) {
        const hs_intervention *patch = &text->interventions[i];
        if (patch->kind != HS_INTERVENE_PATCH_STATE ||
            hs__list_find(patch->layers, patch->n_layers, state) < 0)
            continue;
        const size_t n = patch->n_positions > 0 ? patch->n_positions : b->T;
        for (size_t k = 0; k < n; k++)
            memset(b->s->g + (patch->n_positions > 0 ? patch->positions[k] : k) * H, 0, H * sizeof *b->s->g);
    }
}

/* Takes s->g from the embeddings to the word rows. */
static void embedding_back(backward *b)
{
    const hs_engine *engine = b->engine;
    const hs__back_scratch *s = b->s;
    const size_t E = engine->architecture->embedding.width, n = b->T * E;
    const hs__linear *projection = hs__transposed_projection(engine->transposed);
    const float *g = s->g;
    if (projection) {
        multiply(b, projection, b->T, s->g, s->words);
        g = s->words;
    }
    if (engine->embedding_norm.gamma)
        hs__embed_sum(engine, &b->tape->text, s->row, s->embedded);
    hs__norm_back(engine, &engine->embedding_norm, b->T, E, s->embedded, NULL, g, NULL, s->words);
    for (size_t i = 0; i < b->n; i++)
        if (b->to[i].words)
            memcpy(b->to[i].words, s->words, n * sizeof *s->words);
}

/* ---- all layers ---- */

static hs_status selection_check(const hs_tape *tape, const hs_gradients *to, size_t i, hs_error *err)
{
    const hs_shape *shape = &tape->engine->shape;
    const bool crosses = tape->engine->architecture->crosses;
    if (!hs__list_is_sound(to[i].layers, to[i].n_layers, shape->n_layers))
        return hs_fail(err, HS_INVALID, "layers must be ascending and below %zu", shape->n_layers);
    if (!hs__list_is_sound(to[i].heads, to[i].n_heads, shape->n_heads))
        return hs_fail(err, HS_INVALID, "heads must be ascending and below %zu", shape->n_heads);
    if (!crosses && (to[i].cross || to[i].memory))
        return hs_fail(err, HS_INVALID, "the model has no cross heads");
    if (to[i].cross && (to[i].states || to[i].words))
        return hs_fail(err, HS_INVALID, "gradients of states are not those of cross heads");
    for (size_t k = 0; k < i; k++)
        if (to[k].cross == to[i].cross &&
            ((to[k].attention && to[i].attention) || (to[k].head_output && to[i].head_output) ||
             (to[k].head_attribution && to[i].head_attribution) || (to[k].relevance && to[i].relevance)))
            return hs_fail(err, HS_INVALID, "two selections have the same array");
    return HS_OK;
}

/* Finds how deep the pass must go. */
static void depth_find(backward *b)
{
    const size_t n = hs_architecture_layer_blocks(b->engine->architecture);
    b->deepest = b->engine->n_blocks;
    for (size_t i = 0; i < b->n; i++) {
        const hs_gradients *to = &b->to[i];
        const bool of_heads = to->attention || to->head_output || to->head_attribution || to->relevance;
        const size_t block = to->memory                     ? 1
                             : of_heads && to->n_layers > 0 ? to->layers[0] * n + to->cross
                                                            : b->engine->n_blocks;
        b->deepest = block < b->deepest ? block : b->deepest;
        b->whole |= to->states || to->words;
        b->reads_memory |= to->memory != NULL;
    }
    if (b->whole)
        b->deepest = 0;
}

/* Computes a layer again that the tape has not kept. The forward pass starts a team, and an open one of b
 * would count as a busy core. */
static hs_status layer_again(backward *b, hs_workspace *ws, size_t layer, const hs_run_control *control,
                             hs_error *err)
{
    hs__team_finish(b->team);
    const hs_status st = hs__tape_layer_again(b->tape, ws, layer, control, err);
    hs__team_start(b->team, b->engine->runtime, b->n_threads);
    return st;
}

static hs_status layer_back(backward *b, hs_workspace *ws, size_t layer, const hs_run_control *control,
                            hs_error *err)
{
    const hs_engine *engine = b->engine;
    const size_t n = hs_architecture_layer_blocks(engine->architecture);
    const bool last = layer + 1 == engine->shape.n_layers;
    if (hs__is_cancelled(control))
        return hs_fail(err, HS_CANCELLED, "cancelled in layer %zu of a backward pass", layer);
    state_keep(b, layer + 1);
    if ((layer + 1) * n <= b->deepest)
        return HS_OK;
    state_unpatch(b, layer + 1);
    const hs_status st = hs__tape_kept(b->tape, layer * n) ? HS_OK : layer_again(b, ws, layer, control, err);
    if (st)
        return st;
    if (last && engine->final_norm.gamma)
        norm_back(b, &engine->final_norm, b->tape->unnormed, NULL, b->s->g, NULL, b->s->g);
    if (layer == 0 && engine->convolution)
        convolution_back(b);
    for (size_t block = (layer + 1) * n; block-- > layer * n && block >= b->deepest;)
        block_back(b, block);
    return HS_OK;
}

/* Ends a pass that went down to the embeddings. */
static void first_state_back(backward *b)
{
    if (b->engine->convolution)
        convolution_fold(b);
    state_keep(b, 0);
    state_unpatch(b, 0);
    embedding_back(b);
}

hs_status hs_tape_differentiate(hs_tape *tape, hs_workspace *ws, const float *last, const hs_gradients *to,
                                size_t n, const hs_run_control *control, hs_error *err)
{
    static const hs_run_control alone = {0};
    const hs_engine *engine = tape->engine;
    hs_status st = HS_OK;
    for (size_t i = 0; i < n && !st; i++)
        st = selection_check(tape, to, i, err);
    if (st)
        return st;
    control = control ? control : &alone;
    hs__team team;
    backward b = {.tape = tape, .engine = engine, .s = &tape->scratch, .team = &team, .to = to, .n = n};
    b.T = tape->text.n_tokens;
    b.n_threads = hs__threads_for(engine, b.T, control->n_threads < 1 ? 1 : control->n_threads);
    b.n_threads = b.n_threads < tape->n_threads ? b.n_threads : tape->n_threads;
    b.n_chunks = b.n_threads == 1 ? 1 : 4 * b.n_threads;
    depth_find(&b);
    memcpy(b.s->g, last, b.T * engine->shape.hidden * sizeof *last);
    hs__team_start(&team, engine->runtime, b.n_threads);
    for (size_t layer = engine->shape.n_layers; layer-- > 0 && !st;)
        st = layer_back(&b, ws, layer, control, err);
    if (!st && b.whole)
        first_state_back(&b);
    hs__team_finish(&team);
    for (size_t i = 0; i < n && !st; i++)
        if (to[i].memory)
            memcpy(to[i].memory, b.s->memory, tape->text.n_memory * engine->shape.hidden * sizeof(float));
    return st;
}
