/* api.h - turns request bytes into response bytes, without sockets.
 *
 * hs_api holds the models and the head cache; any thread may use it. Its operations are POST /analyze, POST
 * /tokenize, GET /models and GET /openapi.json. The server maps paths and methods to them and implements
 * everything else: health, metrics, viewer, corpora. Every failure is a response with a problem+json body
 * (RFC 9457). */
#pragma once

#include "engine/engine.h"
#include "model/model.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { HS_MODEL_NAME_BYTES = 256 }; /* of the name of a served model; includes the NUL */

typedef struct hs_api hs_api;

typedef struct hs_api_options {
    size_t n_workers;         /* passes of one model at a time; each model has as many workspaces; 0: 1 */
    size_t answer_bytes_max;  /* 0: 1 GiB; larger answers are refused before anything is computed */
    size_t capture_bytes_max; /* 0: 1 GiB; limit of the heads that one request captures */
    /* Limit of the captures of all running requests; others wait. Raised to capture_bytes_max if smaller. */
    size_t captures_bytes_max;
    size_t cache_bytes_max;   /* captured heads kept for follow-up requests; 0: none */
    const char *list_command; /* command that messages recommend for listing models; NULL: "GET /models" */
} hs_api_options;

HS_MUST_USE hs_status hs_api_create(const hs_api_options *options, hs_api **ret_api, hs_error *err);
void hs_api_destroy(hs_api *api); /* NULL is fine; no request and no user may be left */

/* ---- the served models ----
 *
 * A list of names. The first model is the default. A request uses the model that its name stood for when it
 * was read: replacing or removing a model neither stops requests nor waits for them. Any thread may change
 * the list at any time. */

typedef struct hs_api_model {
    const char *name; /* copied */
    const hs_model *model;
    const hs_engine *engine;
    const hs_engine *decoder; /* of an encoder-decoder model's decoder, or NULL */
    /* Called once nobody uses the model any more, on the thread of its last user. NULL: the caller keeps
     * model and engine until the api is destroyed. */
    void (*free)(void *user_data);
    void *user_data;
} hs_api_model;

/* Serves a model: adds its name to the list, or replaces the model of that name. Allocates the model's
 * workspaces first. On failure nothing has changed, and `free` is not called. Fails with HS_INVALID if
 * hs_api_model_use holds the old model, with HS_TOO_LARGE and with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_api_model_put(hs_api *api, const hs_api_model *model, hs_error *err);
/* Removes a name. The default stays. Fails with HS_NOT_FOUND, and as hs_api_model_put. */
HS_MUST_USE hs_status hs_api_model_remove(hs_api *api, const char *name, hs_error *err);

/* A served model and its users. */
typedef struct hs__served_model hs_served_model;

/* Returns the model of a name and keeps it from being replaced or removed until hs_api_model_release. NULL or
 * "" is the default. Returns NULL if there is no such model. */
hs_served_model *hs_api_model_use(hs_api *api, const char *name);
void hs_api_model_release(hs_api *api, hs_served_model *served); /* NULL is fine */
const char *hs_served_name(const hs_served_model *served);
const hs_model *hs_served_weights(const hs_served_model *served);
const hs_engine *hs_served_engine(const hs_served_model *served);
const hs_engine *hs_served_decoder(const hs_served_model *served); /* NULL: it has none */

/* Computes the missing SHA-256 of models (about 1 s per GB). For a thread of its own. Until then GET /models
 * has null, and npz and safetensors answers compute the hash of their model themselves. */
void hs_api_hash_models(hs_api *api);

typedef enum hs_operation { HS_ANALYZE, HS_TOKENIZE, HS_MODELS, HS_OPENAPI } hs_operation;

/* A request. All pointers are borrowed for the call, or until hs_job_destroy. Absent headers and query are
 * NULL. */
typedef struct hs_request {
    hs_operation operation;
    const char *query; /* without '?', still percent-encoded */
    const char *content_type, *accept, *accept_encoding;
    const char *id; /* request id */
    size_t line;    /* line number in a body of lines, from 1, for problems; 0: single request */
    const char *body;
    size_t body_bytes;
    const atomic_int *cancelled; /* see hs_run_control; may be NULL */
    size_t n_threads;            /* cores this request may use; 0 or 1: one */
    bool beside; /* the thread has other requests, so this one must not keep it; see hs_job_crowded */
    /* Returns whether an answer of at most n_bytes may be kept until it is sent; if not, the request gets
     * 503. Called at most once, by the thread that prepares the request. NULL: always. */
    bool (*hold)(void *data, size_t n_bytes);
    void *hold_data;
    /* Called by the computing thread with the number of finished heads of `effects`; may be NULL. */
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
    size_t body_capacity; /* size of the memory that hs_response_recycle keeps; 0: it keeps none */
    bool body_static;
    bool vary_encoding; /* Accept-Encoding could have changed the body: send Vary */
    double stage_ms[HS_STAGE_COUNT];
    size_t n_tokens; /* computed for this request, for metrics; 0 when the cache had the heads */
    char model[HS_MODEL_NAME_BYTES]; /* its name; "": refused before the model was known */
    hs_error error;                  /* cause of a 500, for the log; not part of the body */
} hs_response;

/* Answers one request: runs the three steps of a job, below. */
void hs_api_handle(hs_api *api, const hs_request *request, hs_response *ret_response);
void hs_response_finish(hs_response *response);
/* Releases a response and keeps a large body's memory for the next answer, within bounds: faulting in new
 * pages costs as much as writing them. */
void hs_response_recycle(hs_api *api, hs_response *response);

/* Writes a problem+json response with the status's title and the formatted detail. pointer may be NULL.
 * Falls back to a static body if memory is short. */
void hs_response_problem(hs_response *ret_response, int status, const char *pointer, const char *format, ...)
    HS_PRINTF(4, 5);

/* A field of POST /analyze, from which the command line makes its options. */
typedef enum hs_field_kind {
    HS_FIELD_TEXT,     /* a string */
    HS_FIELD_ENUM,     /* one of choices */
    HS_FIELD_STRINGS,  /* a list of strings */
    HS_FIELD_NUMBERS,  /* one of choices, or a list of integers */
    HS_FIELD_IDS,      /* a list of integers */
    HS_FIELD_INTEGER,  /* an integer from low to high; high 0: the model's limit */
    HS_FIELD_FRACTION, /* a number above 0, at most 1 */
    HS_FIELD_REAL,     /* a number from low to high */
    HS_FIELD_FLAG,     /* true or false */
    HS_FIELD_OBJECTS,  /* an object, or a list of them */
} hs_field_kind;

typedef struct hs_field {
    const char *name;
    hs_field_kind kind;
    const char *argument, *help; /* as a command line shows them */
    const char *choices;         /* "a|b" */
    double low, high;
    bool tokenize; /* also a field of POST /tokenize */
} hs_field;

/* The field stack, in the order of its choices. */
typedef enum hs_stack { HS_STACK_ENCODER, HS_STACK_DECODER, HS_STACK_CROSS } hs_stack;

/* Returns field i in the order of reading, without `model`; NULL past the last. */
const hs_field *hs_field_at(size_t i);
/* Returns the field with this name; NULL if there is none. */
const hs_field *hs_field_find(const char *name);
/* Returns member i of the field figure; NULL past the last. */
const hs_field *hs_figure_field_at(size_t i);

/* Returns the name of output i; NULL past the last. */
const char *hs_output_name(size_t i);

/* A format of an answer. */
typedef struct hs_format {
    const char *name, *media_type;
} hs_format;

/* Returns the index of the format that ?format= or else the Accept header selects, by default 0. Returns n if
 * none is allowed; ret_response then has the problem. */
size_t hs_format_choose(const hs_format *among, size_t n, const char *query, const char *accept,
                        hs_response *ret_response);

/* ---- several requests in one body: application/x-ndjson to HS_ANALYZE ---- */

/* Returns true if the Content-Type says that each line of the body is a request. Such a request is answered
 * by hs_lines_answer, not by hs_api_handle. */
bool hs_request_is_lines(const hs_request *request);

/* Returns true if the whole body is refused; ret_response then has the problem. */
bool hs_lines_refused(const hs_request *request, hs_response *ret_response);

/* Answers lines from the start of the body, as many as one worker may hold at once; short ones share passes.
 * Skips blank lines. Each answer, or problem with its line number, is a line, in order. request->line is the
 * number of the first line. Stops before a line whose answer is over the memory budget; a first line over
 * the budget is refused, or with `patient` left for later. ret_response has 200 and the answers, or 500
 * if memory was short. *ret_n_bytes of the body were answered. */
void hs_lines_answer(hs_api *api, const hs_request *request, bool patient, const hs_run_control *control,
                     hs_response *ret_response, size_t *ret_n_bytes);

/* Returns true if Accept-Encoding (may be NULL) allows gzip with a weight at least that of identity. */
bool hs_gzip_accepted(const char *accept_encoding);

/* One request in three steps, so that several short ones can share one pass of the engine:
 *
 *     job = hs_job_create(api, &request);         parses, validates, tokenizes, searches the cache, plans
 *     hs_job_run(jobs, n_jobs, &control); forward passes of the jobs that need any
 *     hs_job_answer(job, &response);              analyses and encodes; on any thread
 *     hs_job_destroy(job);
 *
 * A job belongs to one thread at a time. */
typedef struct hs_job hs_job;

/* Returns NULL if memory is short. Waits while other requests use the whole memory budget, at most until
 * request->cancelled. Borrows the request until the job is destroyed. */
hs_job *hs_job_create(hs_api *api, const hs_request *request);
void hs_job_destroy(hs_job *job); /* NULL is fine */

/* Returns true if request.beside made the job a refusal: it would have waited for memory, or run passes of
 * its own. Create it again when the thread has no other request. */
bool hs_job_crowded(const hs_job *job);

/* Returns true if the last of n jobs adds little to the time of those before it, which may be none. It is
 * short, and its passes are of the same layers as theirs. All their answers together are small. */
bool hs_job_joins(hs_job *const *jobs, size_t n);

/* Runs the passes that jobs of any models need; NULL jobs and jobs that need none are skipped. Short texts of
 * one model that need the same layers share a pass. Cancelled requests are refused. control is as in
 * hs_engine_run; NULL means {0}. Failures are recorded in the jobs and reported by hs_job_answer. Returns the
 * number of jobs that shared a pass with another. */
size_t hs_job_run(hs_job *const *jobs, size_t n_jobs, const hs_run_control *control);

void hs_job_answer(hs_job *job, hs_response *ret_response);

/* Counts of the head cache (api/head_cache.c), which keeps the maps of recent texts. Any thread. */
typedef struct hs_cache_stats {
    uint64_t hits, misses, evictions;
    size_t entries, bytes, bytes_max;
} hs_cache_stats;
void hs_api_cache_stats(const hs_api *api, hs_cache_stats *ret_stats);
/* Drops all entries of the head cache. Any thread. */
void hs_api_cache_empty(hs_api *api);

/* ---- how much is computed together ---- */

/* Numbers of requests and lines that are computed together. decisions.md ("Short texts share passes where
 * that pays") has the measurements. */
enum {
    /* Tokens of a pass that several texts share (plan_passes.c), and so its limit of texts. Larger passes are
     * no faster, and slower for models with small hidden states. */
    HS_SHARED_TOKENS = 64,

    /* Limits of several requests that a worker takes at once (server/http/tasks.c): their number, the bytes
     * of all bodies, and those of all answers. None is answered before all are computed, and 2 MiB of JSON
     * take some milliseconds. */
    HS_BATCH_MAX = 8,
    HS_BATCH_BYTES = 1536,
    HS_BATCH_ANSWER_BYTES = 2 << 20,

    /* Lines, and bytes of the body, of one task (server/http/stream.c); a longer line is a task of its
       own. */
    HS_CHUNK_LINES = 16,
    HS_CHUNK_BYTES = 16 << 10,

    /* Lines whose maps one worker holds at once (api.c): their number, their tokens to compute, and the
     * bytes of their maps and answers. The last line may exceed the latter two. */
    HS_LINES_MAX = 32,
    HS_LINES_TOKENS = 512,
    HS_LINES_BYTES = 64 << 20,
};

/* ---- what a decoder reads ---- */

/* Returns the token that the decoder of a model reads first, or -1 if nothing says which. language: of its
 * text, which is this token for mBART; 0: the model's default. */
int32_t hs_target_start(const hs_model *model, int32_t language);

/* Encodes a text as the decoder of a model reads it: in its language, behind the start token, which counts as
 * one of tokens_max. The start token is known. Fails as hs_tokenizer_encode. */
HS_MUST_USE hs_status hs_target_encode(const hs_model *model, const hs_text *text,
                                       const hs_encode_options *options, hs_encoding *ret_encoding,
                                       hs_error *err);

/* ---- prompts of sentence encoders ---- */

/* Encodes prompt and text as one string, as hs_tokenizer_encode does. Offsets and words are those of the
 * text: tokens of the prompt alone have offsets 0, 0 and word -1. prompt may be NULL.
 *
 * *ret_n_prompt is the number of tokens that sentence-transformers counts as the prompt: those of the prompt
 * encoded alone, without a special token at the end. Special tokens before the text count. 0 without a
 * prompt, or if it is empty. */
HS_MUST_USE hs_status hs_prompt_encode(const hs_tokenizer *tokenizer, const hs_prompt *prompt,
                                       const hs_text *text, const hs_text *pair,
                                       const hs_encode_options *options, hs_encoding *ret_encoding,
                                       size_t *ret_n_prompt, hs_error *err);
