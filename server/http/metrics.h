/* metrics.h - counts and logs requests, and prints the metrics in Prometheus' text format. Loop thread only.
 */
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

typedef struct hs_server hs_server;
typedef struct hs_connection hs_connection;
typedef struct hs_exchange hs_exchange;

void hs__histogram_add(hs_histogram *histogram, double seconds);

/* Prints the server's metrics and those of its process. Reads /proc. */
void hs__metrics_print(const hs_server *server, FILE *out);

/* Writes the stages' times so far into exchange->stages, in the format of Server-Timing. */
void hs__request_stages(hs_exchange *exchange);

/* Counts and logs a request whose answer was sent or will never be sent. If its headers were not read, it
 * does so only if libmicrohttpd refused it. */
void hs__request_record(const hs_exchange *exchange);

/* Counts and logs a request that was refused before its headers were read. path is "" if libmicrohttpd could
 * not read the request line either. */
void hs__request_record_unread(const hs_connection *connection, const char *path, int status);
