/* rotation.c - reads the keys of rotary positions: base, fraction of a head, and the scaling of frequencies
 * for texts that are longer than those of the training (hs_rotary). The formulas are those of transformers
 * (modeling_rope_utils.py). */
#include "model/families/family.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define POSITIONS_MAX ((size_t)1 << 30)

double hs__config_theta_or(hs__config *config, const char *part, double otherwise)
{
    const json_t *all = config->status ? NULL : json_object_get(config->keys, "rope_parameters");
    hs__config rope = {
        .keys = part ? json_object_get(all, part) : all, .status = config->status, .err = config->err};
    if (!rope.keys || json_is_null(rope.keys))
        return otherwise;
    if (!json_is_object(rope.keys))
        hs__config_refuse(&rope, "rope_parameters must be an object");
    hs__config_only(&rope, "rope_type", "default");
    if (hs__config_number_or(&rope, "partial_rotary_factor", 0, 1, 1) != 1)
        hs__config_refuse(&rope, "partial_rotary_factor must be 1");
    const double theta = hs__config_number_or(&rope, "rope_theta", 1, 1e12, otherwise);
    config->status = rope.status;
    return theta;
}

/* A scaling while it is read. */
typedef struct scaling {
    hs__config *config, *rope; /* the whole, and the object that names a type */
    hs__rotation_keys keys;
    hs_architecture *architecture;
} scaling;

/* Returns the positions of the training: the key of the whole config counts before that of the object. */
static size_t read_original(const scaling *s)
{
    static const char *const key = "original_max_position_embeddings";
    const size_t positions = s->architecture->shape.n_positions;
    size_t original = hs__config_size_or(
        s->rope, key, 1, POSITIONS_MAX,
        hs__config_size_or(s->config, "max_position_embeddings", 1, POSITIONS_MAX, positions));
    if (s->keys.part)
        return original;
    original = s->keys.original > 0 ? s->keys.original : original;
    return hs__config_size_or(s->config, key, 1, POSITIONS_MAX, original);
}

/* Reads the factor. Absent or null, it is by how much the positions are more than those of the training. */
static double read_factor(const scaling *s)
{
    const double positions = (double)hs__config_size_or(s->config, "max_position_embeddings", 1,
                                                        POSITIONS_MAX, s->architecture->shape.n_positions);
    const double more = positions / (double)s->architecture->rotary.original_positions;
    return hs__config_number_or(s->rope, "factor", 1e-6, 1e6, more);
}

static void read_llama3(const scaling *s)
{
    hs_rotary *rotary = &s->architecture->rotary;
    rotary->factor = hs__config_number_or(s->rope, "factor", 1, 1e6, 1);
    rotary->low = hs__config_number_or(s->rope, "low_freq_factor", 1e-6, 1e6, 1);
    rotary->high = hs__config_number_or(s->rope, "high_freq_factor", 1e-6, 1e6, 4);
    if (rotary->high <= rotary->low)
        hs__config_refuse(s->rope, "high_freq_factor must be greater than low_freq_factor");
}

/* Returns 1 + m ln(factor) / 10, the amplitude of YaRN. */
static double amplitude_of(double factor, double m)
{
    return factor <= 1 ? 1 : 0.1 * m * log(factor) + 1;
}

/* Returns the column whose frequency turns so many times within the positions of the training. */
static double column_of(const hs_rotary *rotary, double turns, double base)
{
    const double period = turns * 2 * 3.14159265358979323846;
    return (double)rotary->width * log((double)rotary->original_positions / period) / (2 * log(base));
}

/* Reads YaRN (Peng et al. 2023). */
static void read_yarn(const scaling *s, double base)
{
    hs_rotary *rotary = &s->architecture->rotary;
    hs__config *rope = s->rope;
    const bool truncates = hs__config_flag_or(rope, "truncate", !json_object_get(rope->keys, "truncate"));
    const double m = hs__config_number_or(rope, "mscale", 0, 1e6, 0),
                 m_all = hs__config_number_or(rope, "mscale_all_dim", 0, 1e6, 0);
    double fast = hs__config_number_or(rope, "beta_fast", 0, 1e6, 0),
           slow = hs__config_number_or(rope, "beta_slow", 0, 1e6, 0);
    fast = fast > 0 ? fast : 32;
    slow = slow > 0 ? slow : 1;
    if (!json_object_get(rope->keys, "factor"))
        hs__config_refuse(rope, "factor is missing");
    rotary->factor = read_factor(s);
    rotary->amplitude = m > 0 && m_all > 0
                            ? amplitude_of(rotary->factor, m) / amplitude_of(rotary->factor, m_all)
                            : amplitude_of(rotary->factor, 1);
    rotary->amplitude = hs__config_number_or(rope, "attention_factor", 1e-6, 1e6, rotary->amplitude);
    rotary->by_column = true;
    if (base <= 1 || fast < slow) {
        hs__config_refuse(rope, "yarn needs a rope_theta above 1, and beta_fast of at least beta_slow");
        return;
    }
    rotary->low = column_of(rotary, fast, base);
    rotary->high = column_of(rotary, slow, base);
    if (truncates) {
        rotary->low = floor(rotary->low);
        rotary->high = ceil(rotary->high);
    }
    rotary->low = fmax(rotary->low, 0);
    rotary->high = fmin(rotary->high, (double)rotary->width - 1);
    if (rotary->high == rotary->low)
        rotary->high += 0.001;
}

static void read_divisors(hs__config *rope, const char *key, size_t n, float *ret)
{
    const json_t *list = json_object_get(rope->keys, key);
    bool ok = json_is_array(list) && json_array_size(list) == n;
    for (size_t i = 0; ok && i < n; i++) {
        const json_t *number = json_array_get(list, i);
        ret[i] = (float)json_number_value(number);
        ok = json_is_number(number) && ret[i] >= 1e-6F && ret[i] <= 1e6F;
    }
    if (!ok)
        hs__config_refuse(rope, "%s must be a list of %zu numbers from 1e-06 to 1e+06", key, n);
}

/* Reads LongRoPE (Ding et al. 2024). */
static void read_longrope(const scaling *s)
{
    hs_rotary *rotary = &s->architecture->rotary;
    const size_t half = rotary->width / 2;
    const double factor = read_factor(s), original = (double)rotary->original_positions;
    const double amplitude = factor <= 1 || original <= 1 ? 1 : sqrt(1 + log(factor) / log(original));
    rotary->amplitude = hs__config_number_or(s->rope, "attention_factor", 1e-6, 1e6, amplitude);
    rotary->divisors = s->config->status ? NULL : calloc(2 * half + 1, sizeof *rotary->divisors);
    if (!rotary->divisors) {
        if (!s->config->status)
            s->rope->status = hs_fail(s->config->err, HS_NO_MEMORY, "out of memory");
        return;
    }
    read_divisors(s->rope, "short_factor", half, rotary->divisors);
    read_divisors(s->rope, "long_factor", half, rotary->divisors + half);
}

/* Reads the scaling of frequencies from an object that names its type, as it is or in rope_scaling. "dynamic"
 * changes only texts of more than max_position_embeddings tokens, which are not read. */
static void read_scaling(const scaling *s, double base)
{
    hs_rotary *rotary = &s->architecture->rotary;
    const char *type = hs__config_text(s->rope, "rope_type");
    if (!type)
        type = hs__config_text(s->rope, "type");
    if (!type || strcmp(type, "default") == 0)
        return;
    if (rotary->divisors) {
        hs__config_refuse(s->rope, "rope_scaling and rope_parameters must not both have longrope");
        return;
    }
    if (strcmp(type, "dynamic") == 0) {
        (void)hs__config_number_or(s->rope, "factor", 1, 1e6, 1);
        return;
    }
    if (strcmp(type, "linear") == 0) {
        rotary->factor = hs__config_number_or(s->rope, "factor", 1, 1e6, 1);
        return;
    }
    rotary->original_positions = read_original(s);
    if (strcmp(type, "llama3") == 0)
        read_llama3(s);
    else if (strcmp(type, "yarn") == 0)
        read_yarn(s, base);
    else if (strcmp(type, "longrope") == 0)
        read_longrope(s);
    else
        hs__config_refuse(
            s->rope,
            "rope_type must be \"default\", \"dynamic\", \"linear\", \"llama3\", \"longrope\" or "
            "\"yarn\"; not supported: \"%s\"",
            type);
}

/* Sets how many columns of a head rotate. */
static void set_width(hs__config *config, double fraction, hs_architecture *architecture)
{
    const size_t head_width = architecture->shape.head_width;
    architecture->rotary.width = (size_t)((double)head_width * fraction);
    if (architecture->rotary.width < 2)
        hs__config_refuse(config, "rotary positions of %g of heads of width %zu leave nothing to rotate",
                          fraction, head_width);
}

void hs__config_rotation(hs__config *config, hs__rotation_keys keys, hs_architecture *architecture)
{
    static const char *const objects[] = {"rope_scaling", "rope_parameters"};
    double theta = hs__config_number_or(config, keys.theta, 1, 1e12, keys.base > 0 ? keys.base : 10000);
    double fraction = keys.share > 0 ? keys.share : 1;
    if (keys.fraction)
        fraction = hs__config_number_or(config, keys.fraction, 1e-6, 1, fraction);
    set_width(config, fraction, architecture);
    for (size_t i = 0; i < 2; i++) {
        hs__config rope = {.keys = config->status ? NULL : json_object_get(config->keys, objects[i]),
                           .err = config->err};
        if (rope.keys && !json_is_null(rope.keys) && !json_is_object(rope.keys))
            hs__config_refuse(config, "%s must be an object", objects[i]);
        if (keys.part && i == 1)
            rope.keys = json_object_get(rope.keys, keys.part);
        if (!rope.keys || json_is_null(rope.keys) || config->status)
            continue;
        theta = hs__config_number_or(&rope, "rope_theta", 1, 1e12, theta);
        fraction = hs__config_number_or(&rope, "partial_rotary_factor", 1e-6, 1, fraction);
        set_width(&rope, fraction, architecture);
        read_scaling(&(scaling){config, &rope, keys, architecture}, theta);
        config->status = rope.status;
    }
    for (size_t i = 0; i < architecture->shape.n_layers; i++)
        architecture->layers[i].rotation_base = theta;
}
