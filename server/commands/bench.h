/* bench.h - the parts of `headscope bench`. Each prints its table as it goes and returns the same figures as
 * JSON. Machines are noisy: whatever is compared runs alternately, and a figure is a median over rounds. */
#pragma once

#include "model/clock.h"
#include "server/base/catalog.h"

#include <jansson.h>

typedef struct hs_bench_subject {
    const hs_catalog *catalog; /* of one model */
    size_t n_cores;
    bool quick; /* fewer lengths and rounds */
} hs_bench_subject;

/* Passes of several lengths on one core and on all, beside the peak and the floor of engine/pass/measure.h.
 * *ret_figures is the caller's. */
HS_MUST_USE hs_status hs__bench_passes(const hs_bench_subject *subject, json_t **ret_figures, hs_error *err);

/* Answers of every format beside a copy of the same bytes. *ret_figures is the caller's. */
HS_MUST_USE hs_status hs__bench_encoding(const hs_bench_subject *subject, json_t **ret_figures,
                                         hs_error *err);

/* What experiments cost, in passes. *ret_figures is the caller's. */
HS_MUST_USE hs_status hs__bench_experiments(const hs_bench_subject *subject, json_t **ret_figures,
                                            hs_error *err);

/* The middle of n >= 1 values, which are sorted by it. */
double hs__bench_median(double *values, size_t n);
