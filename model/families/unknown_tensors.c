/* unknown_tensors.c - finds weights in a checkpoint's layers that its family does not have. Such a model
 * computes something else under a known name, and its maps would be wrong. */
#include "model/base/read_number.h"
#include "model/families/family.h"

#include <string.h>

/* ---- buffers ----
 *
 * Buffers are tensors that follow from a model's config and that some library versions saved. Their values
 * are not read. */

/* The limit on a buffer's number of values. */
typedef enum buffer_kind { SCALAR, FREQUENCIES, POSITIONS, MASK } buffer_kind;

static const struct {
    const char *name;
    buffer_kind kind;
} buffers[] = {
    {"inv_freq", FREQUENCIES}, /* transformers 5 saves ESM-2's with an asterisk for the layer's number */
    {"original_inv_freq", FREQUENCIES},
    {"masked_bias", SCALAR}, /* the score of a masked token */
    {"position_ids", POSITIONS},
    {"token_type_ids", POSITIONS},
    {"bias", MASK}, /* which keys a query sees, as GPT-2 and GPT-NeoX save it */
};

static size_t values_max(buffer_kind kind, const hs_shape *shape)
{
    if (kind == POSITIONS)
        return HS_POSITIONS_MAX;
    return kind == FREQUENCIES ? shape->head_width / 2 : 1;
}

/* Returns true if the tensor is a scalar or a vector of at most n_max values, perhaps with dimensions of 1.
 */
static bool is_vector(const hs__entry *entry, size_t n_max)
{
    size_t n_values = 1, n_long = 0;
    if (entry->n_dimensions > sizeof entry->dimensions / sizeof *entry->dimensions)
        return false;
    for (size_t i = 0; i < entry->n_dimensions; i++)
        if (entry->dimensions[i] != 1) {
            n_values = entry->dimensions[i];
            n_long++;
        }
    return n_long <= 1 && n_values <= n_max;
}

/* Returns true for [1][1][n][n]. */
static bool is_square(const hs__entry *entry)
{
    return entry->n_dimensions == 4 && entry->dimensions[0] == 1 && entry->dimensions[1] == 1 &&
           entry->dimensions[2] == entry->dimensions[3];
}

/* Returns true if the last component of a tensor's name is that of a known buffer and the tensor is no larger
 * than such a buffer of this shape. A larger one could be a weight under a buffer's name. */
static bool is_buffer(const char *name, const hs__entry *entry, const hs_shape *shape)
{
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof buffers / sizeof *buffers; i++)
        if (strcmp(dot + 1, buffers[i].name) == 0)
            return buffers[i].kind == MASK ? is_square(entry)
                                           : is_vector(entry, values_max(buffers[i].kind, shape));
    return false;
}

/* ---- the tensors of a family ---- */

static bool is_norm(const hs__module *module)
{
    return module->parts[0] >= HS__ATTENTION_NORM;
}

bool hs__module_exists(const hs__module *module, const hs_architecture *architecture)
{
    switch (module->condition) {
    case HS__IF_GATED:
    case HS__IF_PLAIN:
        return (module->condition == HS__IF_GATED) == architecture->gated;
    case HS__IF_PARALLEL:
    case HS__IF_SERIAL:
        return (module->condition == HS__IF_PARALLEL) == architecture->parallel_residual;
    case HS__IF_NORMS_APART:
    case HS__IF_NORMS_NOT_APART:
        return (module->condition == HS__IF_NORMS_APART) == architecture->norms_apart;
    case HS__IF_NORM_SHARED:
        return architecture->parallel_residual && !architecture->norms_apart;
    case HS__IF_QK_NORMED:
        return architecture->qk_normed;
    case HS__ALWAYS:
        break;
    }
    return true;
}

size_t hs__module_heads(const hs__module *module, const hs_shape *shape)
{
    return module->parts[0] == HS__QUERY_NORM ? shape->n_heads : hs_shape_kv_heads(shape);
}

bool hs__module_is_biased(const hs__module *module, const hs__layout *layout,
                          const hs_architecture *architecture)
{
    if (is_norm(module))
        return !layout->norms_without_bias && module->bias == HS__BIAS;
    switch (module->bias) {
    case HS__IF_ATTENTION_BIASED:
        return architecture->attention_biased;
    case HS__IF_OUTPUT_BIASED:
        return architecture->output_biased;
    case HS__IF_FFN_BIASED:
        return architecture->ffn_biased;
    default:
        return module->bias == HS__BIAS;
    }
}

/* A checkpoint, with the names that its tensors have. */
typedef struct tensor_names {
    const hs__layout *layout;
    const char *prefix;
    const hs_architecture *architecture;
} tensor_names;

/* A tensor's name in a layer: the number's digits, and what follows them. */
typedef struct layer_name {
    const char *digits, *rest;
} layer_name;

/* Returns false if the tensor belongs to no layer. */
static bool find_layer(const tensor_names *names, const char *name, layer_name *ret)
{
    const size_t n_prefix = strlen(names->prefix), n_layer = strlen(names->layout->layer);
    if (strncmp(name, names->prefix, n_prefix) != 0 ||
        strncmp(name + n_prefix, names->layout->layer, n_layer) != 0)
        return false;
    ret->digits = name + n_prefix + n_layer;
    ret->rest = ret->digits + strspn(ret->digits, "0123456789");
    return true;
}

/* Returns the layers that have their own weights, which tensor names count. */
static size_t n_numbered(const hs_architecture *architecture)
{
    size_t n = 0;
    for (size_t i = 0; i < hs_architecture_blocks(architecture); i++)
        n += architecture->layers[i].same_as == i;
    return n / hs_architecture_layer_blocks(architecture);
}

/* Returns true if the module has this parameter, by its newer or its older name. */
static bool is_of(const tensor_names *names, const hs__module *module, const char *parameter)
{
    if (module->bias_alone)
        return strcmp(parameter, module->bias_alone) == 0;
    if (strcmp(parameter, "weight") == 0 || (is_norm(module) && strcmp(parameter, "gamma") == 0))
        return true;
    return hs__module_is_biased(module, names->layout, names->architecture) &&
           (strcmp(parameter, "bias") == 0 || (is_norm(module) && strcmp(parameter, "beta") == 0));
}

/* Skips the number of one of a module's heads and the dot behind it. Returns false if there is none. */
static bool head_skip(const hs__module *module, const hs_shape *shape, const char **name)
{
    const int64_t last = (int64_t)hs__module_heads(module, shape) - 1;
    int64_t head;
    const bool found = **name != '-' && !hs_integer_read(*name, name, 0, last, &head) && **name == '.';
    *name += found;
    return found;
}

static bool is_known(const tensor_names *names, const char *rest)
{
    const size_t n_below = strlen(names->layout->below);
    if (strncmp(rest, names->layout->below, n_below) != 0)
        return false;
    rest += n_below;
    for (const hs__module *module = names->layout->layers; module->name; module++) {
        const size_t n = strlen(module->name);
        if (strncmp(rest, module->name, n) != 0 || rest[n] != '.' ||
            !hs__module_exists(module, names->architecture))
            continue;
        const char *parameter = rest + n + 1;
        if (module->numbered && !head_skip(module, &names->architecture->shape, &parameter))
            continue;
        if (is_of(names, module, parameter))
            return true;
    }
    return false;
}

static bool is_module(const tensor_names *names, const char *name, const char *module)
{
    const size_t n_prefix = strlen(names->prefix), n_module = module ? strlen(module) : 0;
    return module && strncmp(name, names->prefix, n_prefix) == 0 &&
           strncmp(name + n_prefix, module, n_module) == 0 &&
           strcmp(name + n_prefix + n_module, ".weight") == 0;
}

/* Returns true for the table of the score bias, which T5 keeps in a layer, and for one that nothing reads. */
static bool is_beside_layers(const tensor_names *names, const char *name)
{
    return is_module(names, name, names->layout->score_bias) || is_module(names, name, names->layout->unread);
}

/* ---- unknown tensors ---- */

/* Refuses a tensor that is neither a buffer nor a weight of one of the config's layers. */
static hs_status check(const tensor_names *names, const hs__safetensors *tensors, const char *name,
                       const layer_name *at, hs_error *err)
{
    hs__entry entry;
    const size_t n_layers = n_numbered(names->architecture);
    const char *digits_end;
    int64_t layer;
    if (hs__safetensors_find(tensors, name, &entry) &&
        is_buffer(at->rest, &entry, &names->architecture->shape))
        return HS_OK;
    if (!is_known(names, at->rest))
        return hs_fail(err, HS_BAD_MODEL,
                       "%s: the layers of this family have no tensor %s; the model has another architecture",
                       tensors->file_name, name);
    if (hs_integer_read(at->digits, &digits_end, 0, (int64_t)n_layers - 1, &layer) == HS_NUMBER_TOO_LARGE)
        return hs_fail(err, HS_BAD_MODEL,
                       "%s: tensor %s is of layer %.*s, and config.json says that layers 0 to %zu are all; "
                       "use the config.json that was saved with these weights",
                       tensors->file_name, name, (int)(at->rest - at->digits), at->digits, n_layers - 1);
    return HS_OK;
}

hs_status hs__unknown_tensors_refuse(const hs__shards *shards, const hs__layout *layout, const char *prefix,
                                     const hs_architecture *architecture, hs_error *err)
{
    const tensor_names names = {layout, prefix, architecture};
    hs_status status = HS_OK;
    for (size_t i = 0; i < shards->n_shards; i++) {
        const hs__safetensors *tensors = &shards->shards[i].tensors;
        for (void *item = json_object_iter(tensors->header); item && !status;
             item = json_object_iter_next(tensors->header, item)) {
            layer_name at;
            const char *name = json_object_iter_key(item);
            if (find_layer(&names, name, &at) && !is_beside_layers(&names, name))
                status = check(&names, tensors, name, &at, err);
        }
    }
    return status;
}
