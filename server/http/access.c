/* access.c - writes one log line for each request. In text, the fields are in the order in which people look:
 * client, request, outcome. */
#include "server/http/access.h"

#include "model/base/clock.h"
#include "server/base/log.h"

#include <stdio.h>

enum { FIELDS_MAX = 24 };

static double stage_ms(const hs_exchange *x, int stage)
{
    return stage ? x->response.stage_ms[stage - 1] : (double)(x->task.started_ns - x->task.queued_ns) / 1e6;
}

void hs__access_stages(hs_exchange *x)
{
    size_t used = 0;
    for (int i = 0; i <= HS_STAGE_COUNT && used < sizeof x->stages; i++)
        used += (size_t)snprintf(x->stages + used, sizeof x->stages - used, "%s%s;dur=%.3f", i ? ", " : "",
                                 hs__stage_names[i], stage_ms(x, i));
}

int hs__access_status_of_library(const hs_exchange *x)
{
    int status = 0;
#if MHD_VERSION >= 0x00097400
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_HTTP_STATUS);
    status = info ? (int)info->http_status : 0;
#endif
    return x->answered ? 0 : status;
}

static int status_final(const hs_exchange *x)
{
    const bool replied = x->answered && x->task.work.end != HS_WORK_ABANDONED;
    const int status = replied ? x->response.status : hs__access_status_of_library(x);
    if (status > 0)
        return status;
    return x->connection->too_slow ? MHD_HTTP_REQUEST_TIMEOUT
                                   : 499; /* nginx's status for clients that left */
}

static void line_log(const hs_exchange *x, int status, uint64_t bytes_out, double ms)
{
    static const char *const stage_fields[] = {"queue_ms", "tokenize_ms", "forward_ms", "analyze_ms",
                                               "encode_ms"};
    char message[24];
    hs_log_field fields[FIELDS_MAX] = {{"client", x->connection->client, 0},
                                       {"method", x->head ? "HEAD" : x->method, 0},
                                       {"path", x->target, 0},
                                       {"status", NULL, status},
                                       {"bytes_in", NULL, (double)x->received_bytes},
                                       {"bytes_out", NULL, (double)bytes_out},
                                       {"ms", NULL, ms},
                                       {"id", x->id, 0}};
    size_t n = 8;
    if (*x->response.model)
        fields[n++] = (hs_log_field){"model", x->response.model, 0};
    for (int i = 0; *x->stages && i <= HS_STAGE_COUNT; i++)
        fields[n++] = (hs_log_field){stage_fields[i], NULL, stage_ms(x, i)};
    if (*x->trace.trace_id) {
        fields[n++] = (hs_log_field){"trace_id", x->trace.trace_id, 0};
        fields[n++] = (hs_log_field){"parent_id", x->trace.parent_id, 0};
    }
    snprintf(message, sizeof message, "request %d", status);
    hs__log_fields(message, fields, n);
}

static void stages_count(const hs_exchange *x)
{
    hs_metrics *metrics = &x->server->metrics;
    for (int i = 0; *x->stages && i <= HS_STAGE_COUNT; i++)
        hs__histogram_add(&metrics->stages[i], stage_ms(x, i) / 1e3);
    metrics->tokens += x->response.n_tokens;
}

void hs__access_record(const hs_exchange *x)
{
    hs_metrics *metrics = &x->server->metrics;
    const int status = status_final(x);
    const uint64_t bytes_out = x->head ? 0 : x->response.body_bytes;
    const double seconds = (double)(hs_clock_ns() - x->begun_ns) / 1e9;
    hs__metrics_count(metrics, x->head ? "HEAD" : x->method, x->route ? x->route->path : "none", status,
                      x->response.model);
    metrics->bytes_in += x->received_bytes;
    metrics->bytes_out += bytes_out;
    hs__histogram_add(&metrics->total, seconds);
    stages_count(x);
    line_log(x, status, bytes_out, seconds * 1e3);
}

void hs__access_record_unread(const hs_connection *connection, const char *path, int status)
{
    char message[24];
    const hs_log_field fields[] = {
        {"client", connection->client, 0}, {"path", path, 0}, {"status", NULL, status}};
    hs__metrics_count(&connection->server->metrics, "none", "none", status, "");
    snprintf(message, sizeof message, "refused %d", status);
    hs__log_fields(message, fields, sizeof fields / sizeof *fields);
}
