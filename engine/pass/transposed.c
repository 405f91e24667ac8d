/* transposed.c - the weights the other way, in fp32: how gradients pass the products of an engine.
 *
 * With y = x W' the gradient of x is that of y times W. The packed panels of W' are read in the wrong order
 * for that, so each product has a second copy. The first user of an engine's gradients makes them, and the
 * last one that releases them frees them. */
#include "engine/gradients.h"
#include "engine/pass/pass.h"

#include "engine/pass/team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct hs__transposed {
    const hs_engine *engine;
    pthread_mutex_t mutex; /* held by the thread that makes or frees them */
    size_t n_users;        /* calls of hs__transposed_make less those of hs__transposed_release */
    atomic_bool ready;     /* n_users > 0 */
    hs__linear *projection, *convolution, *bare_convolution;
    hs__backward_products blocks[]; /* [n_blocks]; empty where a block has another's weights */
};

hs_status hs__transposed_create(const hs_engine *engine, hs__transposed **ret_transposed, hs_error *err)
{
    hs__transposed *transposed =
        calloc(1, sizeof *transposed + engine->n_blocks * sizeof *transposed->blocks);
    if (!transposed)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a model");
    transposed->engine = engine;
    pthread_mutex_init(&transposed->mutex, NULL);
    *ret_transposed = transposed;
    return HS_OK;
}

static void products_destroy(hs__backward_products *products)
{
    hs__linear *const list[] = {products->qkv,     products->memory,   products->output,
                                products->ffn_in,  products->ffn_gate, products->ffn_out,
                                products->bare_in, products->bare_gate};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        hs__linear_destroy(list[i]);
    *products = (hs__backward_products){0};
}

static void products_clear(hs__transposed *transposed)
{
    for (size_t b = 0; b < transposed->engine->n_blocks; b++)
        products_destroy(&transposed->blocks[b]);
    hs__linear_destroy(transposed->projection);
    hs__linear_destroy(transposed->convolution);
    hs__linear_destroy(transposed->bare_convolution);
    transposed->projection = transposed->convolution = transposed->bare_convolution = NULL;
}

void hs__transposed_destroy(hs__transposed *transposed)
{
    if (!transposed)
        return;
    products_clear(transposed);
    pthread_mutex_destroy(&transposed->mutex);
    free(transposed);
}

/* Products to make, one task each: those of the blocks, then the embedding's projection and the
 * convolution. */
typedef struct making {
    hs__transposed *to;
    atomic_size_t *measured; /* NULL: make them */
    atomic_int status;       /* the first failure */
} making;

/* Makes one product; does nothing without weights. */
static hs_status make(const making *m, const hs_dense *const *parts, size_t n_parts, size_t x_step,
                      size_t y_step, hs__linear **ret_linear)
{
    const hs_engine *engine = m->to->engine;
    const hs__linear_source source = {.parts = parts,
                                      .n_parts = n_parts,
                                      .cache_bytes = hs_runtime_caches(engine->runtime).second,
                                      .x_step = x_step,
                                      .y_step = y_step,
                                      .measured = m->measured};
    if (n_parts == 0 || !parts[0]->weight.data)
        return HS_OK;
    return hs__linear_transposed.create(&source, engine->kernels, HS_PRECISION_FP32, ret_linear, NULL);
}

/* Makes the products of a block that owns its weights. */
static hs_status block_make(const making *m, size_t block)
{
    const hs_engine *engine = m->to->engine;
    const hs_layer *source = &engine->architecture->layers[block];
    const hs__packed_layer *layer = &engine->layers[block];
    hs__backward_products *to = &m->to->blocks[block];
    const bool crosses = engine->architecture->crosses && block % 2 == 1;
    const hs_dense *const qkv[] = {&source->query, &source->key, &source->value};
    const hs_dense *const output[] = {&source->output}, *const in[] = {&source->ffn_in},
                          *const gate[] = {&source->ffn_gate}, *const out[] = {&source->ffn_out};
    const size_t step = engine->inner_step;
    hs_status st = make(m, qkv, crosses ? 1 : 3, 0, 0, &to->qkv);
    if (!st)
        st = make(m, qkv + 1, crosses ? 2 : 0, 0, 0, &to->memory);
    if (!st)
        st = make(m, output, 1, 0, 0, &to->output);
    if (!st)
        st = make(m, in, 1, step, 0, &to->ffn_in);
    if (!st)
        st = make(m, gate, 1, step, 0, &to->ffn_gate);
    if (!st)
        st = make(m, out, 1, 0, step, &to->ffn_out);
    if (!st && !m->measured && layer->ffn_in)
        st = hs__linear_bare(layer->ffn_in, &to->bare_in, NULL);
    if (!st && !m->measured && layer->ffn_gate)
        st = hs__linear_bare(layer->ffn_gate, &to->bare_gate, NULL);
    return st;
}

static hs_status others_make(const making *m)
{
    const hs_engine *engine = m->to->engine;
    const hs_dense *const projection[] = {&engine->architecture->embedding.projection};
    const hs_dense *const convolution[] = {&engine->architecture->convolution.dense};
    hs_status st = make(m, projection, 1, 0, 0, &m->to->projection);
    if (!st)
        st = make(m, convolution, 1, 0, 0, &m->to->convolution);
    if (!st && !m->measured && engine->convolution)
        st = hs__linear_bare(engine->convolution, &m->to->bare_convolution, NULL);
    return st;
}

static void task_make(void *context, size_t task, size_t slot)
{
    (void)slot;
    making *m = context;
    const hs_engine *engine = m->to->engine;
    hs_status st = HS_OK;
    if (atomic_load(&m->status))
        return;
    if (task == engine->n_blocks)
        st = others_make(m);
    else if (engine->architecture->layers[task].same_as == task)
        st = block_make(m, task);
    if (st)
        atomic_store(&m->status, (int)st);
}

static hs_status all_make(hs__transposed *transposed, bool alone)
{
    const hs_engine *engine = transposed->engine;
    making m = {.to = transposed};
    hs__team team;
    hs__team_start(&team, engine->runtime, alone ? 1 : engine->n_threads);
    hs__team_share(&team, engine->n_blocks + 1, task_make, &m);
    hs__team_finish(&team);
    const hs_status st = (hs_status)atomic_load(&m.status);
    if (st)
        products_clear(transposed);
    else
        atomic_store(&transposed->ready, true);
    return st;
}

hs_status hs__transposed_make(hs__transposed *transposed, bool alone, hs_error *err)
{
    pthread_mutex_lock(&transposed->mutex);
    const hs_status st = atomic_load(&transposed->ready) ? HS_OK : all_make(transposed, alone);
    transposed->n_users += !st;
    pthread_mutex_unlock(&transposed->mutex);
    return st ? hs_fail(err, st, "out of memory for the weights of gradients") : HS_OK;
}

void hs__transposed_release(hs__transposed *transposed)
{
    pthread_mutex_lock(&transposed->mutex);
    if (--transposed->n_users == 0) {
        atomic_store(&transposed->ready, false);
        products_clear(transposed);
    }
    pthread_mutex_unlock(&transposed->mutex);
}

size_t hs_gradients_weights_bytes(const hs_engine *engine)
{
    atomic_size_t measured = 0;
    making m = {.to = engine->transposed, .measured = &measured};
    for (size_t task = 0; task <= engine->n_blocks; task++)
        task_make(&m, task, 0);
    return atomic_load(&measured);
}

const hs__backward_products *hs__transposed_at(const hs__transposed *transposed, size_t block)
{
    return atomic_load(&transposed->ready)
               ? &transposed->blocks[transposed->engine->architecture->layers[block].same_as]
               : NULL;
}

const hs__linear *hs__transposed_projection(const hs__transposed *transposed)
{
    return transposed->projection;
}

const hs__linear *hs__transposed_convolution(const hs__transposed *transposed)
{
    return transposed->convolution;
}

const hs__linear *hs__transposed_bare_convolution(const hs__transposed *transposed)
{
    return transposed->bare_convolution;
}
