/* config.h - reads keys of config.json. The first failure is kept and later readers do nothing, so a family
 * reads its keys without checks between them. After a failure the readers return the smallest allowed value,
 * which nothing uses. Every failure is HS_BAD_MODEL and names the key. */
#pragma once

#include "model/architecture.h"
#include "model/base/status.h"

#include <jansson.h>

typedef struct hs__config {
    const json_t *keys;
    hs_status status;
    hs_error *err;
} hs__config;

/* The names of the keys of a shape's sizes. */
typedef struct hs__shape_keys {
    const char *n_layers, *n_heads, *hidden, *ffn, *n_positions, *vocab_size;
    const char *n_kv_heads, *head_width; /* optional keys, or NULL */
    bool long_texts;                     /* more positions than HS_POSITIONS_MAX are allowed, and not used */
    size_t ffn_factor;                   /* ffn may be absent or null: this times hidden; 0: it may not */
} hs__shape_keys;

/* Reads the sizes that every family has, within the limits of architecture.h, and computes head_width. */
void hs__config_shape(hs__config *config, const hs__shape_keys *names, hs_shape *ret_shape);

/* Reads a required integer from min to max. */
size_t hs__config_size(hs__config *config, const char *key, size_t min, size_t max);

/* Read optional keys. Return `otherwise` if the key is absent or, for flags and numbers, null. */
size_t hs__config_size_or(hs__config *config, const char *key, size_t min, size_t max, size_t otherwise);
bool hs__config_flag_or(hs__config *config, const char *key, bool otherwise);
double hs__config_number_or(hs__config *config, const char *key, double min, double max, double otherwise);

/* Reads an activation by any of HuggingFace's names. Returns `otherwise` if the key is absent or null. */
hs_activation hs__config_activation(hs__config *config, const char *key, hs_activation otherwise);

/* Sets position_offset for families whose positions start after the padding id, as fairseq's do. The rows up
 * to padding_id belong to no token. */
void hs__config_padding(hs__config *config, size_t padding_id, hs_architecture *architecture);

/* Reads a string. Returns NULL if the key is absent or null. */
const char *hs__config_text(hs__config *config, const char *key);

/* Reads the base of rotary positions: rope_theta in rope_parameters, or in their member `part` if layers
 * differ. */
double hs__config_theta_or(hs__config *config, const char *part, double otherwise);

/* Reads rotary positions by their newer keys (rope_parameters) or their older ones (`theta_key`,
 * `fraction_key`, rope_scaling) into the architecture and its layers. fraction_key may be NULL. */
void hs__config_rotation(hs__config *config, const char *theta_key, const char *fraction_key,
                         hs_architecture *architecture);

/* Refuses any value except `only`. Absent and null mean HuggingFace's default, which is `only`. */
void hs__config_only(hs__config *config, const char *key, const char *only);

/* Refuses the config unless the key is absent, null, false or {}: the feature is not supported. */
void hs__config_unused(hs__config *config, const char *key);

/* Refuses the config. The message says which key is wrong, and why. */
void hs__config_refuse(hs__config *config, const char *format, ...) HS_PRINTF(2, 3);
