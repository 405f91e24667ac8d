/* pairs_filter.h - selects which pairs of a run become rows. */
#pragma once

#include "model/architecture.h"
#include "model/base/status.h"

#include <stdbool.h>

#define HS__PAIRS_HEADS_MAX     256
#define HS__PAIRS_STRONGEST_MAX 1000

/* Zeroed: all high pairs. */
typedef struct hs__pairs_filter {
    size_t strongest;                       /* of each text and head; 0: all */
    uint16_t heads[HS__PAIRS_HEADS_MAX][2]; /* layer, head */
    size_t n_heads;                         /* 0: all */
    float least;                            /* normalised similarity; 0: the run's main threshold */
    double sample;                          /* fraction of the rows, drawn at random; 0: all */
    uint64_t seed;
} hs__pairs_filter;

/* Parses "5.3,7.0", layer and head from 0. HS_INVALID: the message begins "must be". */
HS_MUST_USE hs_status hs__pairs_filter_heads(const char *text, const uint16_t *layers, size_t n_layers,
                                             size_t n_heads, hs__pairs_filter *filter, hs_error *err);
