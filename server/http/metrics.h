/* metrics.h - what the server counts, in Prometheus' text format. Loop thread only. */
#pragma once

#include "api/api.h"
#include "server/http/route.h"

#include <stdio.h>

enum { HS_METRIC_BUCKETS = 16, HS_METRIC_ROUTES_MAX = 32, HS_METRIC_STATUSES = 600 };

typedef struct hs_histogram {
    uint64_t buckets[HS_METRIC_BUCKETS]; /* not cumulative; the last one is +Inf */
    uint64_t count;
    double sum; /* seconds */
} hs_histogram;

typedef struct hs_metrics {
    uint64_t requests[HS_METRIC_ROUTES_MAX][HS_METRIC_STATUSES]; /* by number of the route; one more: none */
    hs_histogram total, queue, stages[HS_STAGE_COUNT];
    uint64_t tokens, bytes_in, bytes_out;
    uint64_t connections, cut_off; /* accepted; ended by us for being too slow */
    uint64_t crowded;              /* refused: too many from one address */
    size_t in_flight;              /* requests between their headers and their end */
} hs_metrics;

void hs__histogram_add(hs_histogram *histogram, double seconds);

/* One counter or gauge: # HELP, # TYPE and its value, under headscope_. */
void hs__metric_print(FILE *out, const char *name, const char *type, const char *help, double value);
/* Everything in metrics. */
void hs__metrics_print(const hs_metrics *metrics, const hs_routes *routes, FILE *out);
/* This process: memory, descriptors, CPU time, from /proc. */
void hs__metrics_print_process(FILE *out);
