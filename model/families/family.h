/* family.h - what a family of models is: how its config.json and the tensors of its checkpoints are called,
 * as tables that family.c and weights.c turn into a recipe. docs/tour.md says how to add one. */
#pragma once

#include "model/bytes.h"
#include "model/families/config.h"
#include "model/files/shards.h"

#define HS__TYPES_MAX 256 /* token types are stored in a byte */

/* Which weight of a layer a module is, or some of its rows; the end of a list. */
typedef enum hs__weight {
    HS__END,
    HS__QUERY,
    HS__KEY,
    HS__VALUE,
    HS__OUTPUT,
    HS__FFN_IN,
    HS__FFN_GATE,
    HS__FFN_OUT,
    HS__POSITION_KEY,
    HS__POSITION_QUERY,
    HS__ATTENTION_NORM,
    HS__FFN_NORM
} hs__weight;

/* A module of a layer: <name>.weight, and <name>.bias unless it has none. */
typedef struct hs__module {
    const char *name;
    hs__weight parts[4]; /* from its first rows to its last; HS__END after them */
    bool no_bias;
    size_t first_layer; /* earlier layers are without */
} hs__module;

/* One way to name a family's tensors, the prefix left out. Modules that a recipe has no use for are not
 * looked for: token types where n_types is 0, the projection where E is H unless it projects always, what is
 * of relative positions or of a convolution where the recipe has none. NULL: there is none. */
typedef struct hs__layout {
    const char *word, *position, *type, *embedding_norm, *projection;
    const char *layer, *below; /* what stands before a layer's number, and after it */
    const hs__module *layers;  /* the modules of a layer, up to one without name */
    const char *score_bias, *relative, *relative_norm, *convolution, *convolution_norm, *final_norm;
    bool norms_without_bias, projects_always;
} hs__layout;

/* The modules of the head that predicts masked tokens. Their names stand beside the model's, without its
 * prefix. A checkpoint has the head when it has dense, norm and bias; without decoder that is the word
 * embedding, unless its config says that it is not. */
typedef struct hs__predictor_names {
    const char *dense, *norm, *decoder; /* decoder NULL: always the word embedding */
    const char *biases[2];              /* modules whose bias is the logits', the first that is there */
    bool exact_gelu;                    /* whatever the config's activation */
} hs__predictor_names;

typedef struct hs__family {
    const char *types[4]; /* model_type of config.json: the names that it goes by; NULL after the last */
    const char *old_key;  /* a config without model_type that has this key is one; or NULL */
    const hs__shape_keys *keys[3];            /* the first whose n_layers a config has; NULL after the last */
    const char *prefixes[4];                  /* of tensors' names; NULL after the last */
    const hs__layout *layouts[3];             /* the first that is there; NULL after the last */
    const hs__predictor_names *predictors[3]; /* likewise */
    /* Reads all of a recipe that is not a weight; shape and layers are there, each the same as itself. */
    void (*configure)(hs__config *config, hs_recipe *recipe);
} hs__family;

/* BERT's own (bert.c), on which several families build: what its config calls its sizes, its tensors, and
 * what it reads from a config. */
extern const hs__shape_keys hs__bert_keys;
extern const hs__layout hs__bert_layout;
extern const hs__predictor_names hs__bert_predictor;
void hs__bert_configure(hs__config *config, hs_recipe *recipe);

/* RoBERTa's head (roberta.c), which MPNet and ESM have too. */
extern const hs__predictor_names hs__roberta_predictor;

/* Reads config.json: finds the family, checks every limit of recipe.h and refuses what would change the
 * numbers. On success ret_recipe->layers is the caller's to free; on failure *ret_recipe is untouched. */
HS_MUST_USE hs_status hs__family_configure(const hs_bytes *config, const hs__family **ret_family,
                                           hs_recipe *ret_recipe, hs_error *err);
