/* config.h - config.json -> the shape of a model. */
#pragma once

#include "model/model.h"

typedef enum hs__family { HS__BERT, HS__DISTILBERT } hs__family;

/* Reads config.json, checks every limit of model.h and refuses what would change the numbers. */
HS_MUST_USE hs_status hs__config_parse(const hs_bytes *config, hs__family *ret_family, hs_shape *ret_shape,
                                       hs_error *err);
