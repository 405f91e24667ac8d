/* passes.h - the parts of build/bench/passes. Each part prints a table and returns the same figures as JSON.
 *
 * Machines are noisy, so measurements that are compared alternate, and a figure is a median over rounds. */
#pragma once

#include "model/base/clock.h"
#include "server/base/catalog.h"

#include <jansson.h>

typedef struct bench_subject {
    hs_api *api; /* of one model */
    const hs_engine *engine;
    const hs_engine *decoder; /* of an encoder-decoder model, or NULL */
    size_t n_cores;
    bool quick;      /* fewer lengths and rounds */
    size_t n_tokens; /* passes of this length alone, without answers and experiments; 0: all */
} bench_subject;

/* Measures passes of several lengths on one core and on all, beside the peak and the floor of measure.h. The
 * caller owns *ret_figures. */
HS_MUST_USE hs_status passes_measure(const bench_subject *subject, json_t **ret_figures, hs_error *err);

/* Measures the passes of a decoder's own heads and of its cross heads on one core, beside their floor.
 * Without a decoder there are no figures. The caller owns *ret_figures. */
HS_MUST_USE hs_status stacks_measure(const bench_subject *subject, json_t **ret_figures, hs_error *err);

/* Measures how long answers of each format take to encode, beside a copy of the same bytes. The caller owns
 * *ret_figures. */
HS_MUST_USE hs_status encoding_measure(const bench_subject *subject, json_t **ret_figures, hs_error *err);

/* Measures the cost of experiments in passes. The caller owns *ret_figures. */
HS_MUST_USE hs_status experiments_measure(const bench_subject *subject, json_t **ret_figures, hs_error *err);

/* Sorts n >= 1 values and returns their median. */
double median_of(double *values, size_t n);
