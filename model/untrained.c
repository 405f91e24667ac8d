/* untrained.c - walks an architecture's tensors twice: lists their memory, then points them into a block. */
#include "model/untrained.h"

#include "model/base/bytes.h"
#include "model/base/normals.h"

#include <stdlib.h>
#include <string.h>

/* The memory of a tensor of the trained model, and its numbers in the block. */
typedef struct replaced {
    const void *data;
    size_t n, first;
    double mean, deviation;
} replaced;

typedef struct walk {
    double deviation; /* of the architecture at hand */
    float *block;     /* NULL: tensors are listed */
    replaced *list;   /* [n_list]: tensors that share their memory once */
    size_t n_list, capacity, n_floats;
    bool failed; /* the list lacks a tensor: memory is short */
} walk;

/* Returns the tensor's memory in the list, or NULL. */
static const replaced *list_find(const walk *w, const hs_tensor *tensor, size_t n)
{
    for (size_t i = 0; i < w->n_list; i++)
        if (w->list[i].data == tensor->data && w->list[i].n == n)
            return &w->list[i];
    return NULL;
}

/* Appends to the list. If memory is short, the numbers are counted alone. */
static void list_put(walk *w, const replaced *item)
{
    w->n_floats += item->n;
    if (w->n_list == w->capacity && !w->failed) {
        const size_t capacity = 2 * w->capacity + 64;
        replaced *list = realloc(w->list, capacity * sizeof *list);
        w->failed = !list;
        if (list) {
            w->list = list;
            w->capacity = capacity;
        }
    }
    if (!w->failed)
        w->list[w->n_list++] = *item;
}

/* Takes a tensor: normal numbers around `mean`, or `mean` itself without a deviation. */
static void tensor_take(walk *w, hs_tensor *tensor, double mean, double deviation)
{
    const size_t n = tensor->n_rows * tensor->n_columns;
    if (!tensor->data || !n)
        return;
    const replaced *found = list_find(w, tensor, n);
    if (!found && !w->block)
        list_put(w, &(replaced){tensor->data, n, w->n_floats, mean, deviation});
    if (found && w->block)
        *tensor = (hs_tensor){.data = w->block + found->first,
                              .n_rows = tensor->n_rows,
                              .n_columns = tensor->n_columns,
                              .dtype = HS_F32,
                              .factor = tensor->factor};
}

static void weight_take(walk *w, hs_tensor *tensor)
{
    tensor_take(w, tensor, 0, w->deviation);
}

static void dense_take(walk *w, hs_dense *dense)
{
    weight_take(w, &dense->weight);
    tensor_take(w, &dense->bias, 0, 0);
}

static void norm_take(walk *w, hs_norm *norm)
{
    tensor_take(w, &norm->gamma, 1 - (double)norm->offset, 0);
    tensor_take(w, &norm->beta, 0, 0);
}

static void layer_take(walk *w, hs_layer *layer)
{
    hs_dense *const denses[] = {&layer->query,   &layer->key,          &layer->value,
                                &layer->output,  &layer->ffn_in,       &layer->ffn_gate,
                                &layer->ffn_out, &layer->position_key, &layer->position_query};
    hs_norm *const norms[] = {&layer->query_norm,         &layer->key_norm,     &layer->attention_norm,
                              &layer->attention_out_norm, &layer->ffn_out_norm, &layer->ffn_norm};
    for (size_t i = 0; i < sizeof denses / sizeof(hs_dense *); i++)
        dense_take(w, denses[i]);
    for (size_t i = 0; i < sizeof norms / sizeof(hs_norm *); i++)
        norm_take(w, norms[i]);
}

static void task_head_take(walk *w, hs_task_head *head)
{
    dense_take(w, &head->dense);
    norm_take(w, &head->norm);
    dense_take(w, &head->output);
}

/* Takes all tensors but the frequencies of rotary positions, which no training sets. */
static void tensors_take(walk *w, hs_architecture *a)
{
    w->deviation = a->initializer_range;
    weight_take(w, &a->embedding.word);
    weight_take(w, &a->embedding.position);
    weight_take(w, &a->embedding.type);
    norm_take(w, &a->embedding.norm);
    dense_take(w, &a->embedding.projection);
    for (size_t l = 0; l < hs_architecture_blocks(a); l++)
        layer_take(w, &a->layers[l]);
    weight_take(w, &a->score_bias.table);
    weight_take(w, &a->relative.table);
    norm_take(w, &a->relative.norm);
    dense_take(w, &a->convolution.dense);
    norm_take(w, &a->convolution.norm);
    norm_take(w, &a->final_norm);
    dense_take(w, &a->predictor.dense);
    norm_take(w, &a->predictor.norm);
    weight_take(w, &a->predictor.decoder);
    tensor_take(w, &a->predictor.bias, 0, 0);
    task_head_take(w, &a->task_head);
    task_head_take(w, &a->next_sentence);
    dense_take(w, &a->contacts);
    for (size_t i = 0; i < a->sentence.n_dense; i++)
        dense_take(w, &a->sentence.dense[i].dense);
}

/* Takes those of a model: of the decoder, if there is one, after the others. */
static void model_take(walk *w, hs_architecture *architecture, hs_architecture *decoder)
{
    tensors_take(w, architecture);
    if (decoder)
        tensors_take(w, decoder);
}

/* Draws the numbers of the list's tensors. */
static void block_draw(const walk *w, uint64_t seed)
{
    for (size_t i = 0; i < w->n_list; i++) {
        const replaced *r = &w->list[i];
        float *numbers = w->block + r->first;
        hs_normals_draw(hs_mix(seed + HS_MIX_STEP) + i * HS_MIX_STEP, r->deviation, r->n, numbers);
        for (size_t k = 0; k < r->n; k++)
            numbers[k] += (float)r->mean;
    }
}

hs_status hs_architecture_untrain(hs_architecture *architecture, hs_architecture *decoder, uint64_t seed,
                                  float **ret_block, hs_error *err)
{
    walk w = {0};
    model_take(&w, architecture, decoder);
    w.block = w.failed || !w.n_floats ? NULL : calloc(w.n_floats, sizeof *w.block);
    if (w.block) {
        block_draw(&w, seed);
        model_take(&w, architecture, decoder);
        *architecture->trained_for = '\0';
        *ret_block = w.block;
    }
    free(w.list);
    return w.block ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for %zu random weights", w.n_floats);
}

hs_status hs_untrained_create(const hs_architecture *of, uint64_t seed, hs_untrained *ret, hs_error *err)
{
    const size_t n = hs_architecture_blocks(of);
    *ret = (hs_untrained){.architecture = *of};
    ret->architecture.layers = malloc(n * sizeof *ret->architecture.layers);
    if (!ret->architecture.layers)
        return hs_fail(err, HS_NO_MEMORY, "no memory for %zu layers", n);
    memcpy(ret->architecture.layers, of->layers, n * sizeof *of->layers);
    const hs_status st = hs_architecture_untrain(&ret->architecture, NULL, seed, &ret->block, err);
    if (st)
        hs_untrained_finish(ret);
    return st;
}

void hs_untrained_finish(hs_untrained *untrained)
{
    free(untrained->architecture.layers);
    free(untrained->block);
    *untrained = (hs_untrained){0};
}

size_t hs_untrained_bytes(const hs_architecture *of)
{
    walk w = {0};
    hs_architecture copy = *of; /* listing changes no tensor */
    tensors_take(&w, &copy);
    free(w.list);
    return w.n_floats * sizeof *w.block;
}
