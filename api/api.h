/* api.h - request bytes in, response bytes out; no sockets.
 *
 * hs_api holds the models; it never changes once started, so any thread may use it. hs_api_handle never
 * fails: a failure is a response with a problem+json body. It answers POST /analyze, POST /tokenize, GET
 * /models and GET /openapi.json; everything else (health, metrics, viewer, corpora) is the server's. */
#pragma once

#include "engine/engine.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct hs_api hs_api;

typedef struct hs_api_options {
    size_t answer_bytes_max; /* 0: 256 MiB */
    size_t cache_bytes_max;  /* captured heads kept for follow-up requests; 0: none */
} hs_api_options;

HS_MUST_USE hs_status hs_api_create(const hs_api_options *options, hs_api **ret_api, hs_error *err);
/* Adds a model under a name; the first is the default. The api owns neither. Not while requests run. */
HS_MUST_USE hs_status hs_api_add_model(hs_api *api, const char *name, const hs_model *model,
                                       const hs_engine *engine, hs_error *err);
void hs_api_destroy(hs_api *api); /* NULL is fine */

/* What one worker needs: a workspace for every model. One request at a time. */
typedef struct hs_api_worker hs_api_worker;
HS_MUST_USE hs_status hs_api_worker_create(const hs_api *api, hs_api_worker **ret_worker, hs_error *err);
void hs_api_worker_destroy(hs_api_worker *worker); /* NULL is fine */

/* All borrowed for the call. Absent headers and query are NULL. */
typedef struct hs_request {
    const char *method, *path, *query; /* query without '?', still percent-encoded */
    const char *content_type, *accept, *accept_encoding;
    const char *id; /* request id */
    const char *body;
    size_t body_bytes;
    const atomic_int *cancelled; /* see hs_run_control; may be NULL */
    size_t n_threads;            /* cores this request may use; 0 or 1: one */
} hs_request;

typedef enum hs_stage {
    HS_STAGE_TOKENIZE,
    HS_STAGE_FORWARD,
    HS_STAGE_ANALYZE,
    HS_STAGE_ENCODE,
    HS_STAGE_COUNT
} hs_stage;

typedef struct hs_response {
    int status; /* HTTP */
    const char *content_type;
    const char *content_encoding; /* "gzip" or NULL */
    const char *allow;            /* for 405, else NULL */
    char *body;                   /* malloc'ed, owned by the response; or borrowed when body_static */
    size_t body_bytes;
    bool body_static;
    double stage_ms[HS_STAGE_COUNT];
    size_t n_tokens; /* computed for this request, for metrics */
} hs_response;

void hs_api_handle(hs_api *api, hs_api_worker *worker, const hs_request *request, hs_response *ret_response);
void hs_response_finish(hs_response *response);

/* A problem+json answer (RFC 9457) for callers above: title from the status, detail as given. pointer may be
 * NULL. Falls back to a static body when memory is short. */
void hs_response_problem(hs_response *ret_response, int status, const char *pointer, const char *format, ...)
    HS_PRINTF(4, 5);
