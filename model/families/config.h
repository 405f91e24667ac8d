/* config.h - config.json -> the shape of a model. */
#pragma once

#include "model/model.h"

typedef enum hs__family { HS__BERT, HS__DISTILBERT } hs__family;

/* Reads config.json into what it tells of a recipe, checks every limit of recipe.h and refuses what would
 * change the numbers. */
HS_MUST_USE hs_status hs__config_parse(const hs_bytes *config, hs__family *ret_family, hs_recipe *ret_recipe,
                                       hs_error *err);
