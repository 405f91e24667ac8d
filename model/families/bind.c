/* bind.c - binds the tensors of a checkpoint to an architecture, using the tables of its family. The first
 * failure is kept and later calls do nothing, so binding reads as a list. */
#include "model/families/family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tensors ---- */

#define NAME_BYTES 256 /* far more than the longest prefix, number and table entry together */

typedef struct binder {
    const hs__shards *shards;
    const hs__family *family;
    const hs__layout *layout;
    const char *prefix;
    char module[NAME_BYTES]; /* the current module's name, with its prefix */
    hs_dense out_projection; /* [E][H], or absent */
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

/* The dimensions of a vector, a matrix, or the kernel of a convolution. */
typedef struct dimensions {
    size_t n_dimensions, n[3];
} dimensions;

static void refuse_shape(binder *b, const char *file, const char *name, const dimensions *expected)
{
    char text[80] = "";
    for (size_t i = 0, used = 0; i < expected->n_dimensions && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, i ? ", %zu" : "%zu", expected->n[i]);
    b->status = hs_fail(b->err, HS_BAD_MODEL, "%s: tensor %s must have the shape [%s], as config.json says",
                        file, name, text);
}

static bool fits(const hs__entry *entry, const dimensions *expected)
{
    bool same = entry->n_dimensions == expected->n_dimensions;
    for (size_t i = 0; same && i < expected->n_dimensions; i++)
        same = entry->dimensions[i] == expected->n[i];
    return same;
}

/* Checks a tensor's shape, dtype and values and returns it as a matrix: the first dimension is its rows. */
static void take(binder *b, const char *file, const char *name, const hs__entry *entry,
                 const dimensions *expected, hs_tensor *ret_tensor)
{
    hs_tensor tensor = {.data = entry->data, .n_rows = 1, .n_columns = 1};
    for (size_t i = 0; i < expected->n_dimensions; i++)
        *(i == 0 && expected->n_dimensions > 1 ? &tensor.n_rows : &tensor.n_columns) *= expected->n[i];
    if (!fits(entry, expected))
        refuse_shape(b, file, name, expected);
    else if (!read_dtype(entry->dtype, &tensor.dtype))
        b->status = hs_fail(b->err, HS_BAD_MODEL, "%s: tensor %s has dtype %s; supported: F32, F16 and BF16",
                            file, name, entry->dtype);
    else if (!hs_tensor_is_finite(&tensor))
        b->status =
            hs_fail(b->err, HS_BAD_MODEL,
                    "%s: tensor %s has a NaN or an infinity; get an undamaged copy of the file", file, name);
    else
        *ret_tensor = tensor;
}

/* Binds <module>.<parameter>, or <module>.<old>, its name in checkpoints converted from TensorFlow. */
static void bind_shape(binder *b, const char *parameter, const char *old, dimensions expected,
                       hs_tensor *ret_tensor)
{
    if (b->status)
        return;
    char name[2 * NAME_BYTES];
    hs__entry entry;
    snprintf(name, sizeof name, "%s%s%s", b->module, *b->module ? "." : "", parameter);
    const hs__shard *shard = hs__shards_find(b->shards, name, &entry);
    if (!shard && old) {
        snprintf(name, sizeof name, "%s.%s", b->module, old);
        shard = hs__shards_find(b->shards, name, &entry);
    }
    if (shard)
        take(b, shard->tensors.file_name, name, &entry, &expected, ret_tensor);
    else
        b->status =
            hs_fail(b->err, HS_BAD_MODEL, "%s: no tensor %s.%s", b->shards->file_name, b->module, parameter);
}

/* Binds a matrix, or a vector if n_rows is 0. */
static void bind(binder *b, const char *parameter, const char *old, size_t n_rows, size_t n_columns,
                 hs_tensor *ret_tensor)
{
    const dimensions matrix = {2, {n_rows, n_columns}}, vector = {1, {n_columns}};
    bind_shape(b, parameter, old, n_rows ? matrix : vector, ret_tensor);
}

/* Binds a norm, or with n_rows one of so many rows. */
static void bind_norm_rows(binder *b, size_t n_rows, size_t width, bool has_bias, hs_norm *ret_norm)
{
    bind(b, "weight", "gamma", n_rows, width, &ret_norm->gamma);
    ret_norm->offset = b->layout->norms_around_one ? 1 : 0;
    if (has_bias)
        bind(b, "bias", "beta", n_rows, width, &ret_norm->beta);
}

static void bind_norm(binder *b, size_t width, hs_norm *ret_norm)
{
    bind_norm_rows(b, 0, width, !b->layout->norms_without_bias, ret_norm);
}

static void enter(binder *b, const char *module)
{
    snprintf(b->module, sizeof b->module, "%s%s", b->prefix, module);
}

static bool exists(const binder *b, const char *name)
{
    hs__entry entry;
    return hs__shards_find(b->shards, name, &entry) != NULL;
}

/* Returns true if the checkpoint has a tensor <module>.<parameter>. */
static bool has(const binder *b, const char *module, const char *parameter)
{
    char name[2 * NAME_BYTES];
    snprintf(name, sizeof name, "%s.%s", module, parameter);
    return exists(b, name);
}

/* Enters a module that has a weight, with the prefix or without it. Returns false if there is none. */
static bool enter_table(binder *b, const char *module)
{
    enter(b, module);
    if (!has(b, b->module, "weight"))
        snprintf(b->module, sizeof b->module, "%s", module);
    return has(b, b->module, "weight");
}

hs_status hs__dense_bind(const hs__shards *shards, const char *module, size_t n_out, size_t n_in,
                         bool has_bias, hs_dense *ret_dense, hs_error *err)
{
    binder b = {.shards = shards, .prefix = "", .err = err};
    enter(&b, module);
    bind(&b, "weight", NULL, n_out, n_in, &ret_dense->weight);
    if (has_bias)
        bind(&b, "bias", NULL, 0, n_out, &ret_dense->bias);
    return b.status;
}

hs_status hs__tensor_bind(const hs__shards *shards, const char *name, hs_tensor *ret_tensor,
                          bool *ret_is_vector, hs_error *err)
{
    binder b = {.shards = shards, .prefix = "", .err = err};
    hs__entry entry;
    const hs__shard *shard = hs__shards_find(shards, name, &entry);
    const size_t n = shard ? entry.n_dimensions : 0;
    if (n < 1 || n > 2 || entry.n_bytes == 0)
        return hs_fail(err, HS_BAD_MODEL, "%s: %s must be a matrix or a vector", shards->file_name, name);
    dimensions own = {.n_dimensions = n};
    for (size_t i = 0; i < n; i++)
        own.n[i] = entry.dimensions[i];
    *ret_is_vector = n == 1;
    take(&b, shard->tensors.file_name, name, &entry, &own, ret_tensor);
    return b.status;
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

/* Returns rows [first, first + n_rows) of a matrix. */
static hs_tensor rows_of(const hs_tensor *whole, size_t first, size_t n_rows)
{
    const size_t value_bytes = whole->dtype == HS_F32 ? 4 : 2;
    const size_t row_step = whole->column_step > 0 ? 1 : whole->n_columns;
    return (hs_tensor){.data = (const char *)whole->data + first * row_step * value_bytes,
                       .n_rows = n_rows,
                       .n_columns = whole->n_columns,
                       .dtype = whole->dtype,
                       .column_step = whole->column_step,
                       .factor = whole->factor};
}

static hs_tensor columns_of(const hs_tensor *whole, size_t first, size_t n_columns)
{
    const hs_tensor column = {
        .data = whole->data, .n_rows = whole->n_columns, .n_columns = 1, .dtype = whole->dtype};
    const hs_tensor some = rows_of(&column, first, n_columns);
    return (hs_tensor){.data = some.data, .n_rows = 1, .n_columns = n_columns, .dtype = whole->dtype};
}

/* Returns the outputs of a weight. */
static size_t outputs_of(const hs_shape *shape, hs__weight part)
{
    switch (part) {
    case HS__QUERY:
        return hs_shape_attention_width(shape);
    case HS__KEY:
    case HS__VALUE:
        return hs_shape_kv_width(shape);
    case HS__FFN_IN:
    case HS__FFN_GATE:
        return shape->ffn;
    default:
        return shape->hidden;
    }
}

static size_t inputs_of(const hs_shape *shape, hs__weight part)
{
    if (part == HS__OUTPUT)
        return hs_shape_attention_width(shape);
    return part == HS__FFN_OUT ? shape->ffn : shape->hidden;
}

/* Binds a matrix that is stored [in][out] if the module is transposed. */
static void bind_matrix(binder *b, bool transposed, size_t n_out, size_t n_in, hs_tensor *ret_tensor)
{
    bind(b, "weight", NULL, transposed ? n_in : n_out, transposed ? n_out : n_in, ret_tensor);
    if (transposed && !b->status)
        *ret_tensor = (hs_tensor){.data = ret_tensor->data,
                                  .n_rows = n_out,
                                  .n_columns = n_in,
                                  .dtype = ret_tensor->dtype,
                                  .column_step = n_out};
}

/* Returns n outputs of a packed weight or bias, which is in so many groups. `first` of them lie before these.
 */
static hs_dense part_of(const hs_dense *whole, size_t first, size_t n, size_t n_groups)
{
    const hs_tensor *weight = &whole->weight;
    hs_dense part = {.weight = rows_of(weight, first / n_groups, n)};
    if (whole->bias.data)
        part.bias = columns_of(&whole->bias, first / n_groups, n);
    if (n_groups > 1) {
        part.weight.group = n / n_groups * weight->n_columns;
        part.weight.group_step = weight->n_rows / n_groups * weight->n_columns;
        part.bias.group = n / n_groups;
        part.bias.group_step = weight->n_rows / n_groups;
    }
    return part;
}

static void bind_dense(binder *b, const hs__module *module, const hs_architecture *architecture,
                       hs_layer *layer)
{
    const hs_shape *shape = &architecture->shape;
    size_t n_parts = 0, n_out = 0, first = 0;
    hs_dense whole = {0};
    for (; n_parts < 3 && module->parts[n_parts]; n_parts++)
        n_out += outputs_of(shape, module->parts[n_parts]);
    bind_matrix(b, module->transposed, n_out, inputs_of(shape, module->parts[0]), &whole.weight);
    if (hs__module_is_biased(module, b->layout, architecture))
        bind(b, "bias", NULL, 0, n_out, &whole.bias);
    for (size_t i = 0; i < n_parts && !b->status; i++) {
        const size_t n = outputs_of(shape, module->parts[i]);
        *dense_of(layer, module->parts[i]) =
            part_of(&whole, first, n, module->grouped ? hs_shape_kv_heads(shape) : 1);
        first += n;
    }
}

/* Returns the norm that a module holds, or NULL. */
static hs_norm *norm_of(const hs__module *module, hs_layer *layer)
{
    switch (module->parts[0]) {
    case HS__ATTENTION_NORM:
        return &layer->attention_norm;
    case HS__FFN_NORM:
        return &layer->ffn_norm;
    case HS__ATTENTION_OUT_NORM:
        return &layer->attention_out_norm;
    case HS__FFN_OUT_NORM:
        return &layer->ffn_out_norm;
    case HS__QUERY_NORM:
        return &layer->query_norm;
    case HS__KEY_NORM:
        return &layer->key_norm;
    default:
        return NULL;
    }
}

/* Returns the columns of the norm that a module holds. */
static size_t norm_width(const hs__module *module, const hs_architecture *architecture)
{
    const hs_shape *shape = &architecture->shape;
    const bool whole = architecture->qk_norms_whole;
    switch (module->parts[0]) {
    case HS__QUERY_NORM:
        return whole ? hs_shape_attention_width(shape) : shape->head_width;
    case HS__KEY_NORM:
        return whole ? hs_shape_kv_width(shape) : shape->head_width;
    default:
        return shape->hidden;
    }
}

/* Reads the norms <name>.0, <name>.1, ... of heads into one matrix: their place in qk_gammas. */
static void gather_norms(binder *b, const hs__module *module, size_t index, size_t number,
                         hs_architecture *architecture, hs_norm *ret_norm)
{
    const hs_shape *shape = &architecture->shape;
    const size_t d = shape->head_width, n_all = shape->n_heads + hs_shape_kv_heads(shape);
    if (!architecture->qk_gammas && !b->status) {
        architecture->qk_gammas =
            calloc(hs_architecture_blocks(architecture) * n_all * d, sizeof *architecture->qk_gammas);
        if (!architecture->qk_gammas)
            b->status = hs_fail(b->err, HS_NO_MEMORY, "out of memory");
    }
    if (b->status)
        return;
    float *gammas = architecture->qk_gammas + index * n_all * d;
    gammas += module->parts[0] == HS__QUERY_NORM ? 0 : shape->n_heads * d;
    *ret_norm = (hs_norm){
        .gamma = {
            .data = gammas, .n_rows = hs__module_heads(module, shape), .n_columns = d, .dtype = HS_F32}};
    for (size_t h = 0; h < ret_norm->gamma.n_rows && !b->status; h++) {
        char name[64];
        hs_norm norm = {0};
        snprintf(name, sizeof name, "%s.%zu", module->name, h);
        enter_layer(b, number, name);
        bind_norm_rows(b, 0, d, false, &norm);
        if (!b->status)
            hs_tensor_read(&norm.gamma, 0, 1, gammas + h * d);
    }
}

/* Returns true if layer `index` has its own tensors for the module. */
static bool is_there(const hs__module *module, size_t index, const hs_architecture *architecture)
{
    const hs_relative *relative = &architecture->relative;
    if (architecture->crosses && module->crosses != (index % 2 == 1))
        return false;
    if (!hs__module_exists(module, architecture))
        return false;
    if (module->parts[0] == HS__POSITION_KEY)
        return relative->c2p && !relative->shared;
    if (module->parts[0] == HS__POSITION_QUERY)
        return relative->p2c && !relative->shared;
    return index >= module->first_layer;
}

/* Scales what a layer adds to the states. */
static void scale_layer(float factor, hs_layer *layer)
{
    layer->output.weight.factor = layer->output.bias.factor = factor;
    layer->ffn_out.weight.factor = layer->ffn_out.bias.factor = factor;
}

static void bind_layer(binder *b, size_t index, size_t number, hs_architecture *architecture)
{
    hs_layer *layer = &architecture->layers[index];
    for (const hs__module *module = b->layout->layers; module->name; module++) {
        if (!is_there(module, index, architecture))
            continue;
        enter_layer(b, number, module->name);
        hs_norm *norm = norm_of(module, layer);
        if (norm && module->numbered)
            gather_norms(b, module, index, number, architecture, norm);
        else if (norm)
            bind_norm_rows(b, module->by_head ? hs__module_heads(module, &architecture->shape) : 0,
                           norm_width(module, architecture),
                           hs__module_is_biased(module, b->layout, architecture), norm);
        else if (module->bias_alone)
            bind(b, module->bias_alone, NULL, 0, outputs_of(&architecture->shape, module->parts[0]),
                 &dense_of(layer, module->parts[0])->bias);
        else
            bind_dense(b, module, architecture, layer);
    }
    scale_layer((float)architecture->residual_scale, layer);
    if (architecture->relative.shared && architecture->relative.c2p)
        layer->position_key = layer->key;
    if (architecture->relative.shared && architecture->relative.p2c)
        layer->position_query = layer->query;
}

/* Binds all layers, block by block. The numbers in tensor names count only the layers that have their own
 * weights. */
static void bind_layers(binder *b, hs_architecture *architecture)
{
    size_t n_bound = 0;
    for (size_t i = 0; i < hs_architecture_blocks(architecture); i++) {
        if (architecture->layers[i].same_as == i)
            bind_layer(b, i, n_bound++ / hs_architecture_layer_blocks(architecture), architecture);
        else
            architecture->layers[i] = architecture->layers[architecture->layers[i].same_as];
    }
}

/* ---- word embeddings ---- */

bool hs__predictor_is_tied(const hs_predictor *predictor, const hs__predictor_names *names)
{
    return predictor->tied || (!predictor->untied && !names->untied);
}

/* Enters the table that others are tied to where they are absent. Returns false if there is none. */
static bool enter_tied(binder *b, const hs_predictor *predictor)
{
    for (size_t i = 0; b->layout->tied[i] && !predictor->untied; i++)
        if (enter_table(b, b->layout->tied[i]))
            return true;
    for (size_t i = 0; b->family->predictors[i]; i++) {
        const hs__predictor_names *names = b->family->predictors[i];
        if (names->decoder && hs__predictor_is_tied(predictor, names) && enter_table(b, names->decoder))
            return true;
    }
    return false;
}

/* Enters the layout's own table of words, or the one that it is tied to. */
static bool enter_words(binder *b, const hs_predictor *predictor)
{
    enter(b, b->layout->word);
    return has(b, b->module, "weight") || enter_tied(b, predictor);
}

/* ---- the rest ---- */

static void bind_table(binder *b, const char *module, size_t n_rows, size_t n_columns, hs_tensor *ret_tensor)
{
    if (!module || n_rows == 0)
        return;
    enter(b, module);
    bind(b, "weight", NULL, n_rows, n_columns, ret_tensor);
}

static void bind_embedding(binder *b, hs_architecture *architecture)
{
    const hs__layout *layout = b->layout;
    const hs_shape *shape = &architecture->shape;
    hs_embedding *embedding = &architecture->embedding;
    const size_t E = embedding->width, H = shape->hidden;
    enter_words(b, &architecture->predictor);
    bind(b, "weight", NULL, shape->vocab_size, E, &embedding->word);
    if (layout->position)
        enter(b, layout->position);
    if (layout->position && has(b, b->module, "weight")) /* Marian's may be in the file */
        embedding->sinusoids = HS_SINUSOIDS_NONE;
    embedding->positions_last = layout->projects_words && E != H;
    if (!embedding->unpositioned && !embedding->sinusoids)
        bind_table(b, layout->position, embedding->position_offset + shape->n_positions,
                   embedding->positions_last ? H : E, &embedding->position);
    bind_table(b, layout->type, shape->n_types, E, &embedding->type);
    if (layout->embedding_norm && !embedding->unnormed) {
        enter(b, layout->embedding_norm);
        bind_norm(b, E, &embedding->norm);
    }
    if (layout->projection && (E != H || layout->projects_always)) {
        enter(b, layout->projection);
        bind(b, "weight", NULL, H, E, &embedding->projection.weight);
        if (!layout->projects_words)
            bind(b, "bias", NULL, 0, H, &embedding->projection.bias);
    }
    if (layout->out_projection && E != H) {
        enter(b, layout->out_projection);
        bind(b, "weight", NULL, E, H, &b->out_projection.weight);
    }
}

/* Writes the name of a layer's frequencies, whose number is in text. Returns true if the checkpoint has them.
 */
static bool frequencies_in_layer(const binder *b, const char *number, char ret_name[NAME_BYTES])
{
    const hs__layout *layout = b->layout;
    snprintf(ret_name, NAME_BYTES, "%s%s%s%s%s", b->prefix, layout->layer, number, layout->below,
             layout->layer_frequencies);
    return exists(b, ret_name);
}

/* Finds the saved frequencies as transformers 5 does. Those of the first layer that has some count, then
 * those with an asterisk for the layer's number, which version 5 writes. The newer name is the last. */
static bool find_frequencies(const binder *b, char ret_name[NAME_BYTES])
{
    for (size_t i = 0; i < HS_LAYERS_MAX; i++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", i);
        if (frequencies_in_layer(b, number, ret_name))
            return true;
    }
    if (frequencies_in_layer(b, "*", ret_name))
        return true;
    snprintf(ret_name, NAME_BYTES, "%s%s", b->prefix, b->layout->frequencies);
    return exists(b, ret_name);
}

/* Binds the frequencies of rotary positions, if the checkpoint has them. */
static void bind_frequencies(binder *b, hs_architecture *architecture)
{
    char name[NAME_BYTES];
    if (!b->layout->frequencies || !find_frequencies(b, name))
        return;
    *b->module = '\0';
    bind(b, name, NULL, 0, architecture->shape.head_width / 2, &architecture->rotary.frequencies);
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

/* Binds the convolution. Its kernel is stored as [H][H][width], that is H rows of H width numbers. */
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

/* ---- the head ---- */

/* Returns true if the checkpoint has the head's dense and norm. Sentence encoders may hold only parts of it.
 */
static bool has_dense(const binder *b, const hs__predictor_names *names)
{
    return has(b, names->dense, "weight") && (has(b, names->norm, "weight") || has(b, names->norm, "gamma"));
}

/* Returns true if the checkpoint has a bias of the logits, or needs none. */
static bool has_logits_bias(const binder *b, const hs__predictor_names *names, const hs_predictor *predictor)
{
    return predictor->unbiased || has(b, names->biases[0], "bias") ||
           (names->biases[1] && has(b, names->biases[1], "bias"));
}

/* Names the tensor that a head needs which is not tied. */
static void note_missing(hs_predictor *predictor, const char *module, const char *parameter)
{
    snprintf(predictor->missing, sizeof predictor->missing, "%s.%s", module, parameter);
}

/* Binds the bias of the logits: that of the decoder, or one that it is tied to. */
static void bind_logits_bias(binder *b, const hs__predictor_names *names, hs_architecture *architecture)
{
    hs_predictor *predictor = &architecture->predictor;
    const bool own = has(b, names->biases[0], "bias");
    if (predictor->unbiased)
        return;
    if (!own && names->biases[1] && predictor->untied) {
        note_missing(predictor, names->biases[0], "bias");
        return;
    }
    enter(b, own || !names->biases[1] ? names->biases[0] : names->biases[1]);
    bind(b, "bias", NULL, 0, architecture->shape.vocab_size, &predictor->bias);
}

/* Binds the decoder, or ties it to the word embedding. */
static void bind_decoder(binder *b, const char *module, size_t width, hs_architecture *architecture)
{
    hs_predictor *predictor = &architecture->predictor;
    if (module && has(b, module, "weight"))
        bind_table(b, module, architecture->shape.vocab_size, width, &predictor->decoder);
    else if (module && predictor->untied)
        note_missing(predictor, module, "weight");
    else
        predictor->decoder = architecture->embedding.word;
    if (*predictor->missing)
        predictor->decoder = (hs_tensor){0};
}

static void bind_predictor(binder *b, const hs__predictor_names *names, hs_architecture *architecture)
{
    hs_predictor *predictor = &architecture->predictor;
    const size_t P = architecture->embedding.width;
    b->prefix = "";
    enter(b, names->dense);
    bind(b, "weight", NULL, P, architecture->shape.hidden, &predictor->dense.weight);
    if (!predictor->dense_unbiased)
        bind(b, "bias", NULL, 0, P, &predictor->dense.bias);
    enter(b, names->norm);
    bind_norm(b, P, &predictor->norm);
    bind_logits_bias(b, names, architecture);
    bind_decoder(b, names->decoder, P, architecture);
    predictor->activation = names->exact_gelu ? HS_GELU : architecture->activation;
}

/* Binds a decoder that is tied to a table of words: that of all stacks, or the only one. */
static void bind_tied(binder *b, const char *prefix, hs_architecture *architecture)
{
    hs_predictor *predictor = &architecture->predictor;
    b->prefix = prefix;
    if (b->layout->tied[0] && enter_tied(b, predictor))
        bind(b, "weight", NULL, architecture->shape.vocab_size, architecture->embedding.width,
             &predictor->decoder);
    else
        predictor->decoder = architecture->embedding.word;
    b->prefix = "";
}

/* Binds a head that is the decoder alone. */
static void find_decoder(binder *b, const hs__predictor_names *names, hs_architecture *architecture)
{
    hs_predictor *predictor = &architecture->predictor;
    const char *prefix = b->prefix;
    b->prefix = "";
    enter(b, ""); /* the bias is no parameter of a module */
    if (names->logits_bias && exists(b, names->logits_bias))
        bind(b, names->logits_bias, NULL, 1, architecture->shape.vocab_size, &predictor->bias);
    predictor->dense = b->out_projection;
    predictor->is_linear = true;
    if (has(b, names->decoder, "weight"))
        bind_table(b, names->decoder, architecture->shape.vocab_size, architecture->embedding.width,
                   &predictor->decoder);
    else if (hs__predictor_is_tied(predictor, names))
        bind_tied(b, prefix, architecture);
    else
        note_missing(predictor, names->decoder, "weight");
    if (!predictor->decoder.data || !names->biases[0])
        return;
    if (has_logits_bias(b, names, predictor))
        bind_logits_bias(b, names, architecture);
    else if (names->biases[1])
        note_missing(predictor, names->biases[1], "bias");
    if (*predictor->missing)
        predictor->decoder = (hs_tensor){0};
}

/* Returns true if the checkpoint has this head. A decoder alone may be tied to the word embedding, so the
 * last one of a family always counts. */
static bool has_predictor(const binder *b, const hs__predictor_names *const *names,
                          const hs_predictor *predictor)
{
    if ((*names)->dense)
        return has_dense(b, *names) && has_logits_bias(b, *names, predictor);
    return has(b, (*names)->decoder, "weight") || !names[1];
}

/* Binds the first of the family's heads that the checkpoint has, if any. */
static void find_predictor(binder *b, hs_architecture *architecture)
{
    const hs__predictor_names *const *names = b->family->predictors;
    while (*names && !has_predictor(b, names, &architecture->predictor))
        names++;
    if (*names && (*names)->dense)
        bind_predictor(b, *names, architecture);
    else if (*names)
        find_decoder(b, *names, architecture);
}

/* ---- task heads ---- */

/* Enters a module of the base model, or one of the head. */
static void enter_head(binder *b, const char *prefix, const char *module)
{
    b->prefix = prefix;
    enter(b, module);
}

static void bind_head(binder *b, const hs__head_names *names, const char *base,
                      const hs_architecture *architecture, hs_task_head *head)
{
    size_t hidden = architecture->shape.hidden;
    head->is_linear = !names->dense;
    if (!names->dense && b->out_projection.weight.data) {
        head->dense = b->out_projection;
        hidden = head->dense.weight.n_rows;
    } else if (names->dense) {
        enter_head(b, names->dense_in_base ? base : "", names->dense);
        bind(b, "weight", NULL, hidden, hidden, &head->dense.weight);
        if (!names->dense_may_lack_bias || !architecture->predictor.dense_unbiased)
            bind(b, "bias", NULL, 0, hidden, &head->dense.bias);
    }
    if (names->norm) {
        enter_head(b, "", names->norm);
        bind_norm(b, hidden, &head->norm);
    }
    enter_head(b, "", names->output);
    bind(b, "weight", NULL, head->n_classes, hidden, &head->output.weight);
    if (!names->pooled_without_bias || head->task != HS_TASK_SEQUENCE)
        bind(b, "bias", NULL, 0, head->n_classes, &head->output.bias);
}

/* Binds the head that config.json names, and BERT's next sentence head if the checkpoint has it. A head that
 * is named must have all of its tensors. */
static void bind_heads(binder *b, const hs__family *family, hs_architecture *architecture)
{
    const char *base = b->prefix;
    hs_task_head *head = &architecture->task_head, *next = &architecture->next_sentence;
    if (head->task)
        bind_head(b, hs__heads_names(family, head->task), base, architecture, head);
    if (!family->next_sentence)
        return;
    enter_head(b, base, family->next_sentence->dense);
    if (next->task || (has(b, b->module, "weight") && has(b, family->next_sentence->output, "weight"))) {
        *next = (hs_task_head){
            .task = HS_TASK_NEXT_SENTENCE, .n_classes = 2, .activation = family->next_sentence->activation};
        bind_head(b, family->next_sentence, base, architecture, next);
    }
}

/* Binds the contact head, if the checkpoint has it. */
static void bind_contacts(binder *b, const char *module, hs_architecture *architecture)
{
    const hs_shape *shape = &architecture->shape;
    if (!module)
        return;
    enter(b, module);
    if (!has(b, b->module, "weight"))
        return;
    bind(b, "weight", NULL, 1, shape->n_layers * shape->n_heads, &architecture->contacts.weight);
    bind(b, "bias", NULL, 0, 1, &architecture->contacts.bias);
}

/* ---- which names ---- */

/* Finds the first layout and prefix with word embeddings and, if with_layer, the first module of layer 0. */
static bool find_layout(binder *b, bool with_layer, const hs_predictor *predictor)
{
    for (size_t i = 0; b->family->layouts[i]; i++) {
        b->layout = b->family->layouts[i];
        for (size_t k = 0; b->family->prefixes[k]; k++) {
            b->prefix = b->family->prefixes[k];
            enter_layer(b, 0, b->layout->layers[0].name);
            if ((!with_layer || has(b, b->module, "weight")) && enter_words(b, predictor))
                return true;
        }
    }
    return false;
}

bool hs__weights_exist(const hs__shards *shards, const hs__family *family, const hs_predictor *predictor)
{
    binder b = {.shards = shards, .family = family};
    return find_layout(&b, true, predictor);
}

hs_status hs__weights_bind(const hs__shards *shards, const hs__family *family, hs_architecture *architecture,
                           hs_error *err)
{
    binder b = {.shards = shards, .family = family, .err = err};
    const hs_predictor *predictor = &architecture->predictor;
    if (!find_layout(&b, true, predictor) && !find_layout(&b, false, predictor))
        return hs_fail(err, HS_BAD_MODEL, "%s: no tensor %s%s.weight%s%s", shards->file_name,
                       family->prefixes[0], family->layouts[0]->word,
                       family->prefixes[1] ? ", bare or after " : "",
                       family->prefixes[1] ? family->prefixes[1] : "");
    bind_embedding(&b, architecture);
    bind_layers(&b, architecture);
    bind_table(&b, b.layout->score_bias, architecture->score_bias.n_buckets, architecture->shape.n_heads,
               &architecture->score_bias.table);
    bind_frequencies(&b, architecture);
    bind_relative(&b, architecture->shape.hidden, &architecture->relative);
    bind_convolution(&b, architecture->shape.hidden, &architecture->convolution);
    if (b.layout->final_norm && architecture->norms_before) {
        enter(&b, b.layout->final_norm);
        bind_norm(&b, architecture->shape.hidden, &architecture->final_norm);
    }
    if (!b.status)
        b.status = hs__unknown_tensors_refuse(shards, b.layout, b.prefix, architecture, err);
    bind_contacts(&b, family->contacts, architecture);
    bind_heads(&b, family, architecture);
    find_predictor(&b, architecture);
    return b.status;
}
