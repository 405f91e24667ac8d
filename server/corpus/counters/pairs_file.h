/* pairs_file.h - what a run writes its high pairs to, and which of them.
 *
 * They are options of a command line: the file is outside of the run's folder, and no part of the run's
 * identity. */
#pragma once

#include "model/architecture.h"
#include "model/base/status.h"

#include <stdbool.h>

#define HS__PAIRS_HEADS_MAX     256
#define HS__PAIRS_STRONGEST_MAX 1000

/* Selects which pairs become rows. Zeroed: all high pairs. */
typedef struct hs__pairs_filter {
    size_t strongest;                       /* of each text and head; 0: all */
    uint16_t heads[HS__PAIRS_HEADS_MAX][2]; /* layer, head */
    size_t n_heads;                         /* 0: all */
    float least;                            /* normalised similarity; 0: the run's main threshold */
    double sample;                          /* fraction of the rows, drawn at random; 0: all */
    uint64_t seed;
} hs__pairs_filter;

typedef struct hs__pairs_options {
    const char *path; /* CSV, packed if it ends in .gz, or a database if it ends in .sqlite or .db */
    bool csv_safe;    /* text in CSV is no formula to a spreadsheet */
    hs__pairs_filter filter;
} hs__pairs_options;

/* Parses "5.3,7.0", layer and head from 0. HS_INVALID: the message begins "must be". */
HS_MUST_USE hs_status hs__pairs_filter_heads(const char *text, const uint16_t *layers, size_t n_layers,
                                             size_t n_heads, hs__pairs_filter *filter, hs_error *err);
