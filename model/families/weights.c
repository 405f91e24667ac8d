/* weights.c - from the names of a checkpoint to the weights of a recipe. The table below is all that BERT and
 * DistilBERT differ in; a prefix stands before every name, by the class that saved the checkpoint. */
#include "model/families/weights.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 256 /* longest prefix, number and table entry together stay far below */

static const char *const prefixes[] = {"", "bert.", "distilbert.", "model."};

typedef struct naming {
    const char *layer;
    const char *query, *key, *value, *output, *attention_norm, *ffn_in, *ffn_out, *ffn_norm;
} naming;

static const naming namings[] = {
    [HS__BERT] = {.layer = "encoder.layer",
                  .query = "attention.self.query",
                  .key = "attention.self.key",
                  .value = "attention.self.value",
                  .output = "attention.output.dense",
                  .attention_norm = "attention.output.LayerNorm",
                  .ffn_in = "intermediate.dense",
                  .ffn_out = "output.dense",
                  .ffn_norm = "output.LayerNorm"},
    [HS__DISTILBERT] = {.layer = "transformer.layer",
                        .query = "attention.q_lin",
                        .key = "attention.k_lin",
                        .value = "attention.v_lin",
                        .output = "attention.out_lin",
                        .attention_norm = "sa_layer_norm",
                        .ffn_in = "ffn.lin1",
                        .ffn_out = "ffn.lin2",
                        .ffn_norm = "output_layer_norm"},
};

/* A module of the checkpoint: its name, and where to look. The first failure sticks and silences what
 * follows, so that binding reads as a list. */
typedef struct binder {
    const hs__shards *shards;
    const char *prefix;
    char module[NAME_BYTES];
    hs_status status;
    hs_error *err;
} binder;

static bool read_dtype(const char *name, hs_dtype *ret_dtype)
{
    static const char *const names[] = {[HS_F32] = "F32", [HS_F16] = "F16", [HS_BF16] = "BF16"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret_dtype = (hs_dtype)i;
            return true;
        }
    }
    return false;
}

/* Binds <module>.<parameter>, or <module>.<old> as TensorFlow's checkpoints called it. n_rows 0 asks for a
 * vector. */
static void bind(binder *b, const char *parameter, const char *old, size_t n_rows, size_t n_columns,
                 hs_tensor *ret_tensor)
{
    if (b->status)
        return;
    char name[2 * NAME_BYTES];
    hs__entry entry;
    snprintf(name, sizeof name, "%s.%s", b->module, parameter);
    const hs__shard *shard = hs__shards_find(b->shards, name, &entry);
    if (!shard && old) {
        snprintf(name, sizeof name, "%s.%s", b->module, old);
        shard = hs__shards_find(b->shards, name, &entry);
    }
    if (!shard) {
        b->status =
            hs_fail(b->err, HS_BAD_MODEL, "%s: no tensor %s.%s", b->shards->file_name, b->module, parameter);
        return;
    }
    const char *file = shard->tensors.file_name;
    bool fits = n_rows == 0 ? entry.n_dimensions == 1 && entry.dimensions[0] == n_columns
                            : entry.n_dimensions == 2 && entry.dimensions[0] == n_rows &&
                                  entry.dimensions[1] == n_columns;
    hs_dtype dtype = HS_F32;
    if (!fits && n_rows == 0)
        b->status = hs_fail(b->err, HS_BAD_MODEL, "%s: the config asks for [%zu], another shape has %s", file,
                            n_columns, name);
    else if (!fits)
        b->status = hs_fail(b->err, HS_BAD_MODEL, "%s: the config asks for [%zu, %zu], another shape has %s",
                            file, n_rows, n_columns, name);
    else if (!read_dtype(entry.dtype, &dtype))
        b->status =
            hs_fail(b->err, HS_BAD_MODEL, "%s: dtype %s is not supported (F32, F16 and BF16 are) in %s", file,
                    entry.dtype, name);
    else
        *ret_tensor = (hs_tensor){entry.data, n_rows ? n_rows : 1, n_columns, dtype};
}

static void bind_embedding(binder *b, const char *table, size_t n_rows, size_t hidden, hs_tensor *ret_tensor)
{
    snprintf(b->module, sizeof b->module, "%sembeddings.%s", b->prefix, table);
    bind(b, "weight", NULL, n_rows, hidden, ret_tensor);
}

static void bind_norm(binder *b, size_t hidden, hs_norm *ret_norm)
{
    bind(b, "weight", "gamma", 0, hidden, &ret_norm->gamma);
    bind(b, "bias", "beta", 0, hidden, &ret_norm->beta);
}

static void enter(binder *b, const char *layer, size_t number, const char *module)
{
    snprintf(b->module, sizeof b->module, "%s%s.%zu.%s", b->prefix, layer, number, module);
}

static void bind_layer(binder *b, const naming *n, size_t number, const hs_shape *shape, hs_layer *ret_layer)
{
    const size_t H = shape->hidden, F = shape->ffn;
    const struct {
        const char *module;
        size_t n_out, n_in;
        hs_dense *dense;
    } products[] = {
        {n->query, H, H, &ret_layer->query},   {n->key, H, H, &ret_layer->key},
        {n->value, H, H, &ret_layer->value},   {n->output, H, H, &ret_layer->output},
        {n->ffn_in, F, H, &ret_layer->ffn_in}, {n->ffn_out, H, F, &ret_layer->ffn_out},
    };
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        enter(b, n->layer, number, products[i].module);
        bind(b, "weight", NULL, products[i].n_out, products[i].n_in, &products[i].dense->weight);
        bind(b, "bias", NULL, 0, products[i].n_out, &products[i].dense->bias);
    }
    enter(b, n->layer, number, n->attention_norm);
    bind_norm(b, H, &ret_layer->attention_norm);
    enter(b, n->layer, number, n->ffn_norm);
    bind_norm(b, H, &ret_layer->ffn_norm);
}

/* NULL when the checkpoint has no word embeddings under any prefix. */
static const char *find_prefix(const hs__shards *shards)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        char name[NAME_BYTES];
        hs__entry entry;
        snprintf(name, sizeof name, "%sembeddings.word_embeddings.weight", prefixes[i]);
        if (hs__shards_find(shards, name, &entry))
            return prefixes[i];
    }
    return NULL;
}

hs_status hs__weights_bind(const hs__shards *shards, hs__family family, hs_layer *layers, hs_recipe *recipe,
                           hs_error *err)
{
    binder b = {.shards = shards, .prefix = find_prefix(shards), .err = err};
    if (!b.prefix)
        return hs_fail(
            err, HS_BAD_MODEL,
            "%s: no tensor embeddings.word_embeddings.weight, bare or after bert., distilbert., model.",
            shards->file_name);
    const hs_shape *shape = &recipe->shape;
    const size_t H = shape->hidden;
    hs_embedding *embedding = &recipe->embedding;
    embedding->width = H;
    bind_embedding(&b, "word_embeddings", shape->vocab_size, H, &embedding->word);
    bind_embedding(&b, "position_embeddings", shape->n_positions, H, &embedding->position);
    if (shape->n_types > 0)
        bind_embedding(&b, "token_type_embeddings", shape->n_types, H, &embedding->type);
    snprintf(b.module, sizeof b.module, "%sembeddings.LayerNorm", b.prefix);
    bind_norm(&b, H, &embedding->norm);
    for (size_t i = 0; i < shape->n_layers; i++) {
        layers[i].same_as = i;
        bind_layer(&b, &namings[family], i, shape, &layers[i]);
    }
    recipe->layers = layers;
    return b.status;
}
