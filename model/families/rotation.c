/* rotation.c - reads the keys of rotary positions: base, fraction of a head, and the scaling of frequencies
 * for texts that are longer than those of the training (hs_rotary). The formulas are those of transformers
 * (modeling_rope_utils.py). */
#include "model/families/family.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define POSITIONS_MAX ((size_t)1 << 30)

/* Returns a member that must be an object, or NULL if it is absent or null. */
static json_t *read_object(hs__config *config, const json_t *object, const char *key)
{
    json_t *member = config->status ? NULL : json_object_get(object, key);
    if (!member || json_is_null(member))
        return NULL;
    if (!json_is_object(member))
        hs__config_refuse(config, "%s must be an object", key);
    return member;
}

/* Returns the key of the type: the older one counts without the newer. */
static const char *type_key(const hs__config *rope)
{
    const json_t *type = json_object_get(rope->keys, "rope_type");
    return type && !json_is_null(type) ? "rope_type" : "type";
}

double hs__config_theta_or(hs__config *config, const char *part, double otherwise)
{
    const json_t *all = read_object(config, config->keys, "rope_parameters");
    hs__config rope = *config;
    rope.keys = all;
    hs__config_only(&rope, type_key(&rope), "default");
    if (part) {
        rope.keys = read_object(&rope, all, part);
        hs__config_only(&rope, type_key(&rope), "default");
    }
    if (hs__config_number_or(&rope, "partial_rotary_factor", 0, 1, 1) != 1)
        hs__config_refuse(&rope, "partial_rotary_factor must be 1");
    const double theta = hs__config_number_or(&rope, "rope_theta", 1, 1e12, otherwise);
    config->status = rope.status;
    return theta;
}

/* A scaling while it is read. */
typedef struct scaling {
    hs__config *rope;    /* the object that names a type */
    const json_t *whole; /* config.json */
    hs__rotation_keys keys;
    hs_architecture *architecture;
} scaling;

/* Reads a number of positions from the whole config. */
static size_t positions_or(const scaling *s, const char *key, size_t otherwise)
{
    hs__config config = *s->rope;
    config.keys = s->whole;
    const size_t positions = hs__config_size_or(&config, key, 1, POSITIONS_MAX, otherwise);
    s->rope->status = config.status;
    return positions;
}

/* Returns the positions of the training: the key of the whole config counts before that of the object. */
static size_t read_original(const scaling *s)
{
    static const char *const key = "original_max_position_embeddings";
    size_t original = positions_or(s, "max_position_embeddings", s->architecture->shape.n_positions);
    original = hs__config_size_or(s->rope, key, 1, POSITIONS_MAX, original);
    if (s->keys.part)
        return original;
    return positions_or(s, key, s->keys.original > 0 ? s->keys.original : original);
}

/* Reads the factor. Absent or null, it is by how much the positions are more than those of the training. */
static double read_factor(const scaling *s)
{
    const size_t positions = positions_or(s, "max_position_embeddings", s->architecture->shape.n_positions);
    const double more = (double)positions / (double)s->architecture->rotary.original_positions;
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

/* Returns true if YaRN's columns are rounded. transformers reads the key beside the parts, not in them. */
static bool read_truncates(const scaling *s)
{
    hs__config rope = *s->rope;
    if (s->keys.part)
        rope.keys = json_object_get(s->whole, "rope_parameters");
    const bool ret = hs__config_flag_or(&rope, "truncate", !json_object_get(rope.keys, "truncate"));
    s->rope->status = rope.status;
    return ret;
}

/* Reads YaRN (Peng et al. 2023). */
static void read_yarn(const scaling *s, double base)
{
    hs_rotary *rotary = &s->architecture->rotary;
    hs__config *rope = s->rope;
    const bool truncates = read_truncates(s);
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
    if (s->rope->status)
        return;
    rotary->divisors = calloc(2 * half + 1, sizeof *rotary->divisors);
    if (!rotary->divisors) {
        s->rope->status = hs_fail(s->rope->err, HS_NO_MEMORY, "out of memory");
        return;
    }
    read_divisors(s->rope, "short_factor", half, rotary->divisors);
    read_divisors(s->rope, "long_factor", half, rotary->divisors + half);
}

/* Returns the type of the scaling, or NULL if there is none. */
static const char *read_type(const scaling *s)
{
    const char *type = hs__config_text(s->rope, type_key(s->rope));
    if (!type || strcmp(type, "default") == 0)
        return NULL;
    if (!s->keys.longrope_only)
        return type;
    if (strcmp(type, "longrope") != 0 && strcmp(type, "su") != 0 && strcmp(type, "yarn") != 0)
        hs__config_refuse(s->rope, "rope_type must be \"default\" or \"longrope\" for this family");
    return "longrope";
}

/* Reads the scaling of frequencies from the object that may name its type. "dynamic" changes only texts of
 * more than max_position_embeddings tokens, which are not read. */
static void read_scaling(const scaling *s, double base)
{
    hs_rotary *rotary = &s->architecture->rotary;
    const char *type = read_type(s);
    if (!type)
        return;
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

/* Reads how many columns of a head rotate. */
static void read_width(hs__config *rope, hs__rotation_keys keys, double fraction,
                       hs_architecture *architecture)
{
    const size_t head_width = architecture->shape.head_width;
    fraction = hs__config_number_or(rope, "partial_rotary_factor", 1e-6, 1, fraction);
    if (!keys.fraction && fraction < 1)
        hs__config_refuse(rope, "partial_rotary_factor must be 1 for this family");
    architecture->rotary.width = (size_t)((double)head_width * fraction);
    if (architecture->rotary.width < 2)
        hs__config_refuse(rope, "rotary positions of %g of heads of width %zu leave nothing to rotate",
                          fraction, head_width);
}

/* Returns a copy of a part of `all` with the members of `changes` in place of its own. */
static json_t *part_with(hs__config *config, json_t *all, const char *part, json_t *changes)
{
    json_t *own = read_object(config, all, part);
    if (all && !own && changes)
        hs__config_refuse(config, "rope_scaling needs %s in rope_parameters", part);
    json_t *ret = own ? json_copy(own) : json_object();
    const bool failed = (!own && json_object_set_new(ret, "rope_type", json_string("default"))) ||
                        (changes && json_object_update(ret, changes));
    if (!config->status && (!ret || failed))
        config->status = hs_fail(config->err, HS_NO_MEMORY, "out of memory");
    return ret;
}

/* Returns the object that transformers reads, or NULL: rope_scaling in place of rope_parameters, or of the
 * members that it has of a part. The caller releases it. */
static json_t *find_object(hs__config *config, const char *part)
{
    json_t *changes = read_object(config, config->keys, "rope_scaling"),
           *all = read_object(config, config->keys, "rope_parameters");
    if (config->status)
        return NULL;
    if (part)
        return part_with(config, all, part, changes);
    return json_incref(json_object_size(changes) > 0 ? changes : all);
}

void hs__config_rotation(hs__config *config, hs__rotation_keys keys, hs_architecture *architecture)
{
    double theta = hs__config_number_or(config, keys.theta, 1, 1e12, keys.base > 0 ? keys.base : 10000);
    double fraction = keys.share > 0 ? keys.share : 1;
    if (keys.fraction)
        fraction = hs__config_number_or(config, keys.fraction, 1e-6, 1, fraction);
    json_t *object = find_object(config, keys.part);
    hs__config rope = *config;
    rope.keys = object;
    theta = hs__config_number_or(&rope, "rope_theta", 1, 1e12, theta);
    read_width(&rope, keys, fraction, architecture);
    read_scaling(&(scaling){&rope, config->keys, keys, architecture}, theta);
    config->status = rope.status;
    json_decref(object);
    for (size_t i = 0; i < architecture->shape.n_layers; i++)
        architecture->layers[i].rotation_base = theta;
}
