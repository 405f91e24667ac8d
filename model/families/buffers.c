/* buffers.c - the list of known buffers. Their values are not read, because they follow from the config. */
#include "model/families/buffers.h"

#include <string.h>

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
static bool is_mask(const hs__entry *entry)
{
    return entry->n_dimensions == 4 && entry->dimensions[0] == 1 && entry->dimensions[1] == 1 &&
           entry->dimensions[2] == entry->dimensions[3];
}

bool hs__is_buffer(const char *name, const hs__entry *entry, const hs_shape *shape)
{
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof buffers / sizeof *buffers; i++)
        if (strcmp(dot + 1, buffers[i].name) == 0)
            return buffers[i].kind == MASK ? is_mask(entry)
                                           : is_vector(entry, values_max(buffers[i].kind, shape));
    return false;
}
