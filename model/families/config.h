/* config.h - reads keys of config.json. The first failure sticks and silences what follows, so that a family
 * reads as a list; values read after a failure are the smallest allowed and go nowhere. Every failure is
 * HS_BAD_MODEL and names the key. */
#pragma once

#include "model/recipe.h"
#include "model/status.h"

#include <jansson.h>

typedef struct hs__config {
    const json_t *keys;
    hs_status status;
    hs_error *err;
} hs__config;

/* What each shape calls its sizes. */
typedef struct hs__shape_keys {
    const char *n_layers, *n_heads, *hidden, *ffn, *n_positions, *vocab_size;
} hs__shape_keys;

/* Reads the sizes that every family has, within the limits of recipe.h; head_width follows. */
void hs__config_shape(hs__config *config, const hs__shape_keys *names, hs_shape *ret_shape);

/* An integer from min to max that must be there. */
size_t hs__config_size(hs__config *config, const char *key, size_t min, size_t max);

/* The rest may be absent, flags and numbers also null, and is `otherwise` then. */
size_t hs__config_size_or(hs__config *config, const char *key, size_t min, size_t max, size_t otherwise);
bool hs__config_flag_or(hs__config *config, const char *key, bool otherwise);
double hs__config_number_or(hs__config *config, const char *key, double min, double max, double otherwise);

/* Under any of HuggingFace's names. Absent or null: `otherwise`. */
hs_activation hs__config_activation(hs__config *config, const char *key, hs_activation otherwise);

/* Positions that count from the id of padding on, as fairseq's do: the rows up to it are not a token's. */
void hs__config_padding(hs__config *config, size_t padding_id, hs_recipe *recipe);

/* A string; NULL where it is absent or null. */
const char *hs__config_text(hs__config *config, const char *key);

/* The base of rotary positions, rope_theta, in rope_parameters or in `part` of them where layers differ. */
double hs__config_theta_or(hs__config *config, const char *part, double otherwise);

/* Absent and null mean HuggingFace's default, which is the one value supported. */
void hs__config_only(hs__config *config, const char *key, const char *only);

/* Absent, null, false and {} all say that a feature is not used. */
void hs__config_unused(hs__config *config, const char *key);

/* Refuses the config: what is wrong with which key. */
void hs__config_refuse(hs__config *config, const char *format, ...) HS_PRINTF(2, 3);
