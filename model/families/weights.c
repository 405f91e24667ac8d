/* weights.c - binds the tensors of a checkpoint to a recipe, by the tables of its family. The first failure
 * sticks and silences what follows, so that binding reads as a list. */
#include "model/families/weights.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 256 /* longest prefix, number and table entry together stay far below */

typedef struct binder {
    const hs__shards *shards;
    const hs__layout *layout;
    const char *prefix;
    char module[NAME_BYTES]; /* that is being bound, prefix and all */
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

/* Of a vector, a matrix, or the kernel of a convolution. */
typedef struct dimensions {
    size_t n_dimensions, n[3];
} dimensions;

static void refuse_shape(binder *b, const char *file, const char *name, const dimensions *wanted)
{
    char text[80] = "";
    for (size_t i = 0, used = 0; i < wanted->n_dimensions && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, i ? ", %zu" : "%zu", wanted->n[i]);
    b->status =
        hs_fail(b->err, HS_BAD_MODEL, "%s: the config asks for [%s], another shape has %s", file, text, name);
}

static bool fits(const hs__entry *entry, const dimensions *wanted)
{
    bool same = entry->n_dimensions == wanted->n_dimensions;
    for (size_t i = 0; same && i < wanted->n_dimensions; i++)
        same = entry->dimensions[i] == wanted->n[i];
    return same;
}

/* The tensor that was found under a name, if it is what the recipe needs: its first dimension is its rows. */
static void take(binder *b, const char *file, const char *name, const hs__entry *entry,
                 const dimensions *wanted, hs_tensor *ret_tensor)
{
    hs_tensor tensor = {.data = entry->data, .n_rows = 1, .n_columns = 1};
    for (size_t i = 0; i < wanted->n_dimensions; i++)
        *(i == 0 && wanted->n_dimensions > 1 ? &tensor.n_rows : &tensor.n_columns) *= wanted->n[i];
    if (!fits(entry, wanted))
        refuse_shape(b, file, name, wanted);
    else if (!read_dtype(entry->dtype, &tensor.dtype))
        b->status =
            hs_fail(b->err, HS_BAD_MODEL, "%s: dtype %s is not supported (F32, F16 and BF16 are) in %s", file,
                    entry->dtype, name);
    else if (!hs_tensor_is_finite(&tensor))
        b->status = hs_fail(b->err, HS_BAD_MODEL, "%s: a NaN or an infinite number in %s: load a sound copy",
                            file, name);
    else
        *ret_tensor = tensor;
}

/* Binds <module>.<parameter>, or <module>.<old> as TensorFlow's checkpoints called it. */
static void bind_shape(binder *b, const char *parameter, const char *old, dimensions wanted,
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
    if (shard)
        take(b, shard->tensors.file_name, name, &entry, &wanted, ret_tensor);
    else
        b->status =
            hs_fail(b->err, HS_BAD_MODEL, "%s: no tensor %s.%s", b->shards->file_name, b->module, parameter);
}

/* n_rows 0: a vector. */
static void bind(binder *b, const char *parameter, const char *old, size_t n_rows, size_t n_columns,
                 hs_tensor *ret_tensor)
{
    const dimensions matrix = {2, {n_rows, n_columns}}, vector = {1, {n_columns}};
    bind_shape(b, parameter, old, n_rows ? matrix : vector, ret_tensor);
}

static void bind_norm(binder *b, size_t width, hs_norm *ret_norm)
{
    bind(b, "weight", "gamma", 0, width, &ret_norm->gamma);
    if (!b->layout->norms_without_bias)
        bind(b, "bias", "beta", 0, width, &ret_norm->beta);
}

static void enter(binder *b, const char *module)
{
    snprintf(b->module, sizeof b->module, "%s%s", b->prefix, module);
}

/* ---- a layer ---- */

static void enter_layer(binder *b, size_t number, const char *module)
{
    const hs__layout *layout = b->layout;
    snprintf(b->module, sizeof b->module, "%s%s%zu%s%s", b->prefix, layout->layer, number, layout->below,
             module);
}

static hs_dense *dense_of(hs_layer *layer, hs__weight part)
{
    hs_dense *const dense[] = {
        [HS__QUERY] = &layer->query,
        [HS__KEY] = &layer->key,
        [HS__VALUE] = &layer->value,
        [HS__OUTPUT] = &layer->output,
        [HS__FFN_IN] = &layer->ffn_in,
        [HS__FFN_GATE] = &layer->ffn_gate,
        [HS__FFN_OUT] = &layer->ffn_out,
        [HS__POSITION_KEY] = &layer->position_key,
        [HS__POSITION_QUERY] = &layer->position_query,
    };
    return dense[part];
}

/* Rows [first, first + n_rows) of a matrix; of a vector, as many columns. */
static hs_tensor rows_of(const hs_tensor *whole, size_t first, size_t n_rows)
{
    const size_t value_bytes = whole->dtype == HS_F32 ? 4 : 2;
    return (hs_tensor){(const char *)whole->data + first * whole->n_columns * value_bytes, n_rows,
                       whole->n_columns, whole->dtype};
}

static hs_tensor columns_of(const hs_tensor *whole, size_t first, size_t n_columns)
{
    const hs_tensor column = {whole->data, whole->n_columns, 1, whole->dtype};
    const hs_tensor some = rows_of(&column, first, n_columns);
    return (hs_tensor){some.data, 1, n_columns, whole->dtype};
}

static void bind_dense(binder *b, const hs__module *module, const hs_shape *shape, hs_layer *layer)
{
    const size_t H = shape->hidden, F = shape->ffn;
    const bool widens = module->parts[0] == HS__FFN_IN || module->parts[0] == HS__FFN_GATE;
    const size_t n_in = module->parts[0] == HS__FFN_OUT ? F : H, n_out = widens ? F : H;
    size_t n_parts = 0;
    hs_dense whole = {0};
    while (n_parts < 3 && module->parts[n_parts])
        n_parts++;
    bind(b, "weight", NULL, n_parts * n_out, n_in, &whole.weight);
    if (!module->no_bias)
        bind(b, "bias", NULL, 0, n_parts * n_out, &whole.bias);
    for (size_t i = 0; i < n_parts && !b->status; i++) {
        hs_dense *part = dense_of(layer, module->parts[i]);
        part->weight = rows_of(&whole.weight, i * n_out, n_out);
        if (whole.bias.data)
            part->bias = columns_of(&whole.bias, i * n_out, n_out);
    }
}

/* Whether a layer has a module of its own. */
static bool is_there(const hs__module *module, size_t index, const hs_relative *relative)
{
    if (module->parts[0] == HS__POSITION_KEY)
        return relative->c2p && !relative->shared;
    if (module->parts[0] == HS__POSITION_QUERY)
        return relative->p2c && !relative->shared;
    return index >= module->first_layer;
}

static void bind_layer(binder *b, size_t index, size_t number, hs_recipe *recipe)
{
    hs_layer *layer = &recipe->layers[index];
    for (const hs__module *module = b->layout->layers; module->name; module++) {
        if (!is_there(module, index, &recipe->relative))
            continue;
        enter_layer(b, number, module->name);
        if (module->parts[0] == HS__ATTENTION_NORM)
            bind_norm(b, recipe->shape.hidden, &layer->attention_norm);
        else if (module->parts[0] == HS__FFN_NORM)
            bind_norm(b, recipe->shape.hidden, &layer->ffn_norm);
        else
            bind_dense(b, module, &recipe->shape, layer);
    }
    if (recipe->relative.shared && recipe->relative.c2p)
        layer->position_key = layer->key;
    if (recipe->relative.shared && recipe->relative.p2c)
        layer->position_query = layer->query;
}

/* Numbers in names count the layers that have weights of their own. */
static void bind_layers(binder *b, hs_recipe *recipe)
{
    size_t number = 0;
    for (size_t i = 0; i < recipe->shape.n_layers; i++) {
        if (recipe->layers[i].same_as == i)
            bind_layer(b, i, number++, recipe);
        else
            recipe->layers[i] = recipe->layers[recipe->layers[i].same_as];
    }
}

/* ---- the rest ---- */

static void bind_table(binder *b, const char *module, size_t n_rows, size_t n_columns, hs_tensor *ret_tensor)
{
    if (!module || n_rows == 0)
        return;
    enter(b, module);
    bind(b, "weight", NULL, n_rows, n_columns, ret_tensor);
}

static void bind_embedding(binder *b, const hs_shape *shape, hs_embedding *embedding)
{
    const hs__layout *layout = b->layout;
    const size_t E = embedding->width, H = shape->hidden;
    bind_table(b, layout->word, shape->vocab_size, E, &embedding->word);
    if (!embedding->unpositioned)
        bind_table(b, layout->position, embedding->position_offset + shape->n_positions, E,
                   &embedding->position);
    bind_table(b, layout->type, shape->n_types, E, &embedding->type);
    if (layout->embedding_norm) {
        enter(b, layout->embedding_norm);
        bind_norm(b, E, &embedding->norm);
    }
    if (layout->projection && (E != H || layout->projects_always)) {
        enter(b, layout->projection);
        bind(b, "weight", NULL, H, E, &embedding->projection.weight);
        bind(b, "bias", NULL, 0, H, &embedding->projection.bias);
    }
}

static void bind_relative(binder *b, size_t hidden, hs_relative *relative)
{
    if (!relative->c2p && !relative->p2c)
        return;
    bind_table(b, b->layout->relative, 2 * relative->span, hidden, &relative->table);
    if (relative->is_normed) {
        enter(b, b->layout->relative_norm);
        bind_norm(b, hidden, &relative->norm);
    }
}

/* The kernel lies as [H][H][width]: rows of H width numbers. */
static void bind_convolution(binder *b, size_t hidden, hs_convolution *convolution)
{
    const size_t width = convolution->width;
    if (width == 0)
        return;
    enter(b, b->layout->convolution);
    bind_shape(b, "weight", NULL, (dimensions){3, {hidden, hidden, width}}, &convolution->dense.weight);
    bind(b, "bias", NULL, 0, hidden, &convolution->dense.bias);
    enter(b, b->layout->convolution_norm);
    bind_norm(b, hidden, &convolution->norm);
}

/* ---- what is not in the tables ---- */

/* What follows a layer's number in the name of one of its tensors; NULL: it is of no layer. */
static const char *below_layer(const binder *b, const char *name)
{
    const size_t n_prefix = strlen(b->prefix), n_layer = strlen(b->layout->layer);
    if (strncmp(name, b->prefix, n_prefix) != 0 || strncmp(name + n_prefix, b->layout->layer, n_layer) != 0)
        return NULL;
    const char *rest = name + n_prefix + n_layer;
    return rest + strspn(rest, "0123456789");
}

static bool is_norm(const hs__module *module)
{
    return module->parts[0] == HS__ATTENTION_NORM || module->parts[0] == HS__FFN_NORM;
}

/* Whether a parameter is one that a module has, under its newer or its older name. */
static bool is_of(const hs__module *module, const char *parameter, const hs__layout *layout)
{
    const bool biased = is_norm(module) ? !layout->norms_without_bias : !module->no_bias;
    if (strcmp(parameter, "weight") == 0 || (is_norm(module) && strcmp(parameter, "gamma") == 0))
        return true;
    return biased && (strcmp(parameter, "bias") == 0 || (is_norm(module) && strcmp(parameter, "beta") == 0));
}

static bool is_known(const hs__layout *layout, const char *rest)
{
    const size_t n_below = strlen(layout->below);
    if (strncmp(rest, layout->below, n_below) != 0)
        return false;
    rest += n_below;
    for (const hs__module *module = layout->layers; module->name; module++) {
        const size_t n = strlen(module->name);
        if (strncmp(rest, module->name, n) == 0 && rest[n] == '.' && is_of(module, rest + n + 1, layout))
            return true;
    }
    /* Frequencies of rotary positions follow from the config; older code saved them too. */
    const char *last = strrchr(rest, '.');
    return last && strcmp(last, ".inv_freq") == 0;
}

/* A weight in a layer that nothing here computes with, say a norm of queries, is a model of another kind
 * under a known name: its maps would be wrong. */
static void refuse_strange(binder *b)
{
    for (size_t i = 0; i < b->shards->n_shards && !b->status; i++) {
        const hs__safetensors *tensors = &b->shards->shards[i].tensors;
        for (void *at = json_object_iter(tensors->header); at && !b->status;
             at = json_object_iter_next(tensors->header, at)) {
            const char *name = json_object_iter_key(at), *rest = below_layer(b, name);
            if (rest && !is_known(b->layout, rest))
                b->status =
                    hs_fail(b->err, HS_BAD_MODEL,
                            "%s: %s has no place in this family's layers: the model is of another kind",
                            tensors->file_name, name);
        }
    }
}

/* ---- the head ---- */

/* Whether there is a tensor <module>.<parameter>. */
static bool has(const binder *b, const char *module, const char *parameter)
{
    char name[2 * NAME_BYTES];
    hs__entry entry;
    snprintf(name, sizeof name, "%s.%s", module, parameter);
    return hs__shards_find(b->shards, name, &entry) != NULL;
}

/* Checkpoints of sentence encoders may hold parts of the head: half of one is none. */
static const char *predictor_bias(const binder *b, const hs__predictor_names *names)
{
    if (!has(b, names->dense, "weight") || (!has(b, names->norm, "weight") && !has(b, names->norm, "gamma")))
        return NULL;
    for (size_t i = 0; i < 2 && names->biases[i]; i++)
        if (has(b, names->biases[i], "bias"))
            return names->biases[i];
    return NULL;
}

/* A decoder that is neither in the file nor the word embedding would be one of random numbers. */
static void bind_decoder(binder *b, const char *module, size_t width, hs_recipe *recipe)
{
    hs_predictor *predictor = &recipe->predictor;
    if (module && has(b, module, "weight"))
        bind_table(b, module, recipe->shape.vocab_size, width, &predictor->decoder);
    else if (module && predictor->untied && !b->status)
        b->status =
            hs_fail(b->err, HS_BAD_MODEL,
                    "%s: tie_word_embeddings is false in config.json, and no tensor %s.weight is here",
                    b->shards->file_name, module);
    else
        predictor->decoder = recipe->embedding.word;
}

static void bind_predictor(binder *b, const hs__predictor_names *names, const char *bias, hs_recipe *recipe)
{
    hs_predictor *predictor = &recipe->predictor;
    const size_t P = recipe->embedding.width, V = recipe->shape.vocab_size;
    b->prefix = "";
    enter(b, names->dense);
    bind(b, "weight", NULL, P, recipe->shape.hidden, &predictor->dense.weight);
    if (has(b, names->dense, "bias"))
        bind(b, "bias", NULL, 0, P, &predictor->dense.bias);
    enter(b, names->norm);
    bind_norm(b, P, &predictor->norm);
    enter(b, bias);
    bind(b, "bias", NULL, 0, V, &predictor->bias);
    bind_decoder(b, names->decoder, P, recipe);
    predictor->activation = names->exact_gelu ? HS_GELU : recipe->activation;
}

/* The first head that the checkpoint has, if it has one. */
static void find_predictor(binder *b, const hs__family *family, hs_recipe *recipe)
{
    for (size_t i = 0; family->predictors[i]; i++) {
        const char *bias = predictor_bias(b, family->predictors[i]);
        if (bias) {
            bind_predictor(b, family->predictors[i], bias, recipe);
            return;
        }
    }
}

/* ---- which names ---- */

/* Layout and prefix are the first under which there are word embeddings and, if it must be, the first module
 * of the first layer. */
static bool find_layout(binder *b, const hs__family *family, bool with_layer)
{
    for (size_t i = 0; family->layouts[i]; i++) {
        b->layout = family->layouts[i];
        for (size_t k = 0; family->prefixes[k]; k++) {
            b->prefix = family->prefixes[k];
            enter(b, b->layout->word);
            bool found = has(b, b->module, "weight");
            enter_layer(b, 0, b->layout->layers[0].name);
            found = found && (!with_layer || has(b, b->module, "weight"));
            if (found)
                return true;
        }
    }
    return false;
}

hs_status hs__weights_bind(const hs__shards *shards, const hs__family *family, hs_recipe *recipe,
                           hs_error *err)
{
    binder b = {.shards = shards, .err = err};
    if (!find_layout(&b, family, true) && !find_layout(&b, family, false))
        return hs_fail(err, HS_BAD_MODEL, "%s: no tensor %s.weight, bare or after %s", shards->file_name,
                       family->layouts[0]->word, family->prefixes[1]);
    bind_embedding(&b, &recipe->shape, &recipe->embedding);
    bind_layers(&b, recipe);
    bind_table(&b, b.layout->score_bias, HS_DISTANCE_BUCKETS, recipe->shape.n_heads, &recipe->score_bias);
    bind_relative(&b, recipe->shape.hidden, &recipe->relative);
    bind_convolution(&b, recipe->shape.hidden, &recipe->convolution);
    if (b.layout->final_norm) {
        enter(&b, b.layout->final_norm);
        bind_norm(&b, recipe->shape.hidden, &recipe->final_norm);
    }
    refuse_strange(&b);
    find_predictor(&b, family, recipe);
    return b.status;
}
