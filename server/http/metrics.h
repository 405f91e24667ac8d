/* metrics.h - the server's metrics, in Prometheus' text format. Loop thread only. */
#pragma once

#include "api/api.h"

#include <stdio.h>

enum { HS_METRIC_BUCKETS = 16, HS_METRIC_SERIES_MAX = 1024 };

typedef struct hs_histogram {
    uint64_t buckets[HS_METRIC_BUCKETS]; /* not cumulative; the last one is +Inf */
    uint64_t count;
    double sum; /* seconds */
} hs_histogram;

/* Requests of one kind. */
typedef struct hs_metric_series {
    const char *method, *route; /* static */
    char model[HS_MODEL_NAME_BYTES];
    int status;
    uint64_t count;
} hs_metric_series;

typedef struct hs_metrics {
    hs_metric_series series[HS_METRIC_SERIES_MAX];
    size_t n_series;
    hs_histogram total, lag, stages[1 + HS_STAGE_COUNT]; /* the first stage is waiting for a worker */
    uint64_t tokens, bytes_in, bytes_out;
    uint64_t connections, cut_off; /* accepted; cut off for being too slow */
    uint64_t crowded;              /* refused: too many from one address */
    size_t in_flight;              /* requests between their headers and their end */
} hs_metrics;

extern const char *const hs__stage_names[1 + HS_STAGE_COUNT]; /* of `stages` */

void hs__histogram_add(hs_histogram *histogram, double seconds);

/* Prints one metric with # HELP and # TYPE: a counter if its name ends in _total, else a gauge. */
void hs__metric_print(FILE *out, const char *name, const char *help, double value);

/* Counts one request. method is any that a client sent; model is "" if it is not known. */
void hs__metrics_count(hs_metrics *metrics, const char *method, const char *route, int status,
                       const char *model);

/* Prints all of metrics. */
void hs__metrics_print(const hs_metrics *metrics, FILE *out);
/* Prints this process's memory, descriptors, CPU time and start under the standard process_ names. Reads
 * /proc. */
void hs__metrics_print_process(FILE *out);
