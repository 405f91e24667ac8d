/* sentence.h - reads the modules of a sentence encoder, as sentence-transformers saves them:
 *
 *     modules.json           the list: Transformer, Pooling, any Dense, perhaps Normalize
 *     1_Pooling/config.json  how one vector is made of the tokens' states
 *     2_Dense/config.json    in_features, out_features, bias, activation_function
 *     2_Dense/model.safetensors  linear.weight, linear.bias
 *     config_sentence_transformers.json  prompts, see prompts.h; optional */
#pragma once

#include "model/architecture.h"
#include "model/files/shards.h"

#define HS__MODULES_MAX     8
#define HS__MODULE_PATH_MAX 64

typedef enum hs__module_kind {
    HS__MODULE_TRANSFORMER,
    HS__MODULE_POOLING,
    HS__MODULE_DENSE,
    HS__MODULE_NORMALIZE
} hs__module_kind;

typedef struct hs__modules {
    size_t n;
    hs__module_kind kinds[HS__MODULES_MAX];
    char paths[HS__MODULES_MAX][HS__MODULE_PATH_MAX]; /* of the module's folder in the checkpoint's */
} hs__modules;

/* The sizes that a Dense module's config.json gives. */
typedef struct hs__dense_shape {
    size_t n_in, n_out;
    bool has_bias, is_linear;
    hs_activation activation;
} hs__dense_shape;

/* Parse one file each. All fail with HS_BAD_MODEL and name the key. hidden is H. */
HS_MUST_USE hs_status hs__modules_parse(const hs_bytes *file, hs__modules *ret_modules, hs_error *err);
HS_MUST_USE hs_status hs__pooling_parse(const hs_bytes *file, size_t hidden, hs_sentence_head *ret_head,
                                        hs_error *err);
HS_MUST_USE hs_status hs__dense_parse(const hs_bytes *file, hs__dense_shape *ret_shape, hs_error *err);

/* Reads the modules of the checkpoint in folder dir. Without modules.json *ret_head and *ret_weights stay as
 * they are. ret_weights [HS_SENTENCE_DENSE_MAX] holds the weights of the Dense modules, which the head points
 * into. The caller finishes them, even after an error, and frees ret_head->prompts. */
HS_MUST_USE hs_status hs__sentence_open(const char *dir, size_t hidden, hs_sentence_head *ret_head,
                                        hs__shards *ret_weights, hs_error *err);
