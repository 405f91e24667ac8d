/* api.h - request bytes in, response bytes out; no sockets.
 *
 * hs_api holds the models and the head cache; any thread may use it. Its operations are POST
 * /analyze, POST /tokenize, GET /models and GET /openapi.json; which path and method each has, and everything
 * else (health, metrics, viewer, corpora), is the server's matter. No answer ever fails: a failure is a
 * response with a problem+json body (RFC 9457). */
#pragma once

#include "engine/engine.h"
#include "model/model.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct hs_api hs_api;

typedef struct hs_api_options {
    size_t answer_bytes_max;  /* 0: 256 MiB; larger answers are refused before anything is computed */
    size_t capture_bytes_max; /* 0: 1 GiB; likewise for the heads one request makes us hold */
    size_t cache_bytes_max;   /* captured heads kept for follow-up requests; 0: none */
} hs_api_options;

HS_MUST_USE hs_status hs_api_create(const hs_api_options *options, hs_api **ret_api, hs_error *err);
/* Adds a model under a name (copied); the first is the default. The api owns neither model nor engine. Not
 * while requests run. */
HS_MUST_USE hs_status hs_api_add_model(hs_api *api, const char *name, const hs_model *model,
                                       const hs_engine *engine, hs_error *err);
void hs_api_destroy(hs_api *api); /* NULL is fine */

/* Computes the models' SHA-256 (about 1 s per GB): call it once from a thread of its own. Until then GET
 * /models says null; an npz or safetensors answer computes what it needs itself. */
void hs_api_hash_models(hs_api *api);

/* What one worker needs: a workspace for every model. One request, or one hs_job_run, at a time. */
typedef struct hs_api_worker hs_api_worker;
HS_MUST_USE hs_status hs_api_worker_create(const hs_api *api, hs_api_worker **ret_worker, hs_error *err);
void hs_api_worker_destroy(hs_api_worker *worker); /* NULL is fine */

/* All borrowed for the call, or until hs_job_destroy. Absent headers and query are NULL. */
typedef enum hs_operation { HS_ANALYZE, HS_TOKENIZE, HS_MODELS, HS_OPENAPI } hs_operation;

typedef struct hs_request {
    hs_operation operation;
    const char *query; /* without '?', still percent-encoded */
    const char *content_type, *accept, *accept_encoding;
    const char *id; /* request id */
    size_t line;    /* among several, from 1: told in problems; 0: it is alone */
    const char *body;
    size_t body_bytes;
    const atomic_int *cancelled; /* see hs_run_control; may be NULL */
    size_t n_threads;            /* cores this request may use; 0 or 1: one */
    /* May an answer of at most so many bytes be held until it is sent? Else 503. NULL: it may. Asked at most
     * once, by the thread that prepares the request. */
    bool (*hold)(void *data, size_t n_bytes);
    void *hold_data;
    /* Told by the computing thread how many heads of `effects` are done; NULL: nobody asks. */
    void (*progress)(void *data, size_t n_done);
    void *progress_data;
} hs_request;

typedef enum hs_stage {
    HS_STAGE_TOKENIZE, /* parsing included */
    HS_STAGE_FORWARD,
    HS_STAGE_ANALYZE,
    HS_STAGE_ENCODE,
    HS_STAGE_COUNT
} hs_stage;

typedef struct hs_response {
    int status; /* HTTP; a cancelled request has 504 */
    const char *content_type;
    const char *content_encoding; /* "gzip" or NULL */
    char *body;                   /* malloc'ed, owned by the response; or borrowed when body_static */
    size_t body_bytes;
    size_t body_room; /* of memory that hs_response_recycle keeps; 0: it has nothing worth that */
    bool body_static;
    bool vary_encoding; /* Accept-Encoding could have changed the body: send Vary */
    double stage_ms[HS_STAGE_COUNT];
    size_t n_tokens;   /* computed for this request, for metrics; 0 when the cache had the heads */
    const char *model; /* that was asked, the api's; NULL: the request did not get so far */
    hs_error error;    /* of a 500: what happened, for the log; the body does not tell */
} hs_response;

/* A whole request: the three steps below for one job. */
void hs_api_handle(hs_api *api, hs_api_worker *worker, const hs_request *request, hs_response *ret_response);
void hs_response_finish(hs_response *response);
/* Likewise, but a large body's memory is kept for the next answer, within bounds: fresh pages cost as much as
 * what is written into them. */
void hs_response_recycle(hs_api *api, hs_response *response);

/* A problem+json answer for callers above: title from the status, detail as given. pointer may be NULL. Falls
 * back to a static body when memory is short. */
void hs_response_problem(hs_response *ret_response, int status, const char *pointer, const char *format, ...)
    HS_PRINTF(4, 5);

/* A field of POST /analyze, for callers that offer the same by other means. */
typedef enum hs_field_kind {
    HS_FIELD_TEXT,    /* a string */
    HS_FIELD_WORD,    /* one of choices */
    HS_FIELD_WORDS,   /* a list of strings */
    HS_FIELD_NUMBERS, /* one of choices, or a list of whole numbers */
    HS_FIELD_IDS,     /* a list of whole numbers */
    HS_FIELD_WHOLE,   /* a whole number, low to high; high 0: as far as the model goes */
    HS_FIELD_SHARE,   /* a number above 0, at most 1 */
    HS_FIELD_FLAG,    /* true or false */
    HS_FIELD_OBJECTS, /* an object, or a list of them */
} hs_field_kind;

typedef struct hs_field {
    const char *name;
    hs_field_kind kind;
    const char *argument, *help; /* as a command line shows them */
    const char *choices;         /* "a|b" */
    double low, high;
    bool tokenize; /* of POST /tokenize too */
} hs_field;

/* Every field but model, in the order of reading; NULL past the last. */
const hs_field *hs_field_at(size_t i);

/* Names of outputs, NULL past the last. */
const char *hs_output_name(size_t i);

/* A form in which an answer can come. */
typedef struct hs_format {
    const char *name, *media_type;
} hs_format;

/* For callers above: which of n forms a request wants. ?format= wins, then the Accept header; the first when
 * they say nothing. n: refused, ret_response has the problem. */
size_t hs_format_choose(const hs_format *among, size_t n, const char *query, const char *accept,
                        hs_response *ret_response);

/* ---- several requests in one body: application/x-ndjson to HS_ANALYZE ---- */

/* Each line is a request, blank ones left out; each answer is a line, or a problem with the number of its
 * line, in their order. */
bool hs_lines_asked(const hs_request *request); /* by the Content-Type; not for hs_api_handle then */

/* Whether the whole of it is refused: ret_response has the problem then. */
bool hs_lines_refused(const hs_request *request, hs_response *ret_response);

/* Answers lines from the start of the body on, as many as one worker should hold at once: short ones share
 * passes. request->line is the number of the first one. With `patient` it stops at the first whose answer
 * cannot be held now, be it the first of all; else that one is refused. ret_response: 200 with the answers,
 * 500 when memory was short; *ret_n_bytes of the body were answered. */
void hs_lines_answer(hs_api *api, hs_api_worker *worker, const hs_request *request, bool patient,
                     const hs_run_control *control, hs_response *ret_response, size_t *ret_n_bytes);

/* Whether an Accept-Encoding header (NULL: there is none) takes gzip, and not less gladly than plain bytes.
 */
bool hs_gzip_accepted(const char *accept_encoding);

/* One request in three steps, so that several short ones can share one pass of the engine:
 *
 *     job = hs_job_create(api, &request);         parses, validates, tokenizes, asks the cache, plans
 *     hs_job_run(worker, jobs, n_jobs, &control); forward passes; only jobs with hs_job_tokens() > 0
 *     hs_job_answer(job, &response);              analyses and encodes; on any thread
 *     hs_job_destroy(job);
 *
 * A job belongs to one thread at a time. */
typedef struct hs_job hs_job;

/* NULL when memory is short. The request must stay until the job is destroyed. */
hs_job *hs_job_create(hs_api *api, const hs_request *request);
void hs_job_destroy(hs_job *job); /* NULL is fine */

/* Tokens the engine has to compute; 0 when no pass is needed (an error, another path, cached heads). Who
 * needs many passes has no room beside it. */
size_t hs_job_tokens(const hs_job *job);
/* Memory that it will have taken when it is answered, at most. */
size_t hs_job_bytes(const hs_job *job);
/* Refused because request.hold said no: it may be asked again later. */
bool hs_job_unheld(const hs_job *job);
/* Number of the job's model: only jobs with the same one may run together, and no more of them than fit into
 * hs_job_room tokens in all. Meaningful where hs_job_tokens is not 0. */
size_t hs_job_model(const hs_job *job);
size_t hs_job_room(const hs_job *job);
/* Layers its pass runs through. In a shared pass every text goes as deep as the deepest. */
size_t hs_job_layers(const hs_job *job);

/* That texts side by side in a pass have at most: more rows gain nothing by company, and narrow
 * models lose (docs/performance.md). */
#define HS_SHARED_TOKENS ((size_t)64)

/* Runs passes for all n_jobs >= 1 of them, each of a text or of several short ones. control as in
 * hs_engine_run; NULL stands for {0}. Failure is kept in the jobs: their answers tell. */
void hs_job_run(hs_api_worker *worker, hs_job *const *jobs, size_t n_jobs, const hs_run_control *control);

void hs_job_answer(hs_job *job, hs_response *ret_response);

/* The head cache: maps of recent texts, found again by content (model, token ids, types), so that a follow-up
 * request for some of the same layers, heads and arrays costs no forward pass while the api stays stateless.
 * Bounded by cache_bytes_max, least recently used first out; see api/head_cache.h. Any thread. */
typedef struct hs_cache_stats {
    uint64_t hits, misses, evictions;
    size_t entries, bytes, bytes_max;
} hs_cache_stats;
void hs_api_cache_stats(const hs_api *api, hs_cache_stats *ret_stats);
