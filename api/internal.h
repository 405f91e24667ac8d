/* internal.h - types that the files directly in api/ share.
 *
 * api.c answers a request in these steps: request/ (headers, query, body, tokens) -> job.c (sequences) ->
 * plan_maps.c (memory) -> plan_passes.c (passes) -> outputs/ (results) -> answer/ (bytes). formats/ and
 * figures/ have the writers. */
#pragma once

#include "api/answer/answer.h"
#include "api/api.h"
#include "api/request/encode.h"
#include "api/request/request.h"
#include "engine/plan.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ==== the head cache ==== */

/* Keeps the maps of recent texts for follow-up requests.
 *
 * The key is everything that determines a pass: model, token ids and types, those of a decoder's source,
 * interventions and the tokens of the texts that they take values from. Texts that tokenize alike share an
 * entry, and a server without the entry computes the same answer again. An entry serves every request whose
 * layers, heads and arrays it contains. The cache captures next to nothing for itself: a request for one head
 * must not cost as much as one for all.
 *
 * The entries (captures and keys) take at most bytes_max; the least recently used are evicted first. A
 * capture of more than half of bytes_max is not kept, because it would evict everything else. A new entry
 * evicts those of the same text that it covers. Captures are reference-counted: an evicted one lives until
 * the last job that reads it ends. One mutex guards lists and counts. */

typedef struct hs__head_cache hs__head_cache;

/* A capture that jobs and the cache share; never written to once shared. */
typedef struct hs__heads {
    hs_capture *capture; /* owned */
    double forward_ms;   /* duration of its computation */
    size_t n_references; /* the cache's mutex guards it; jobs without a cache entry hold the only one */
} hs__heads;

/* The key of a text's maps, borrowed for the call. */
typedef struct hs__heads_key {
    uint64_t model; /* differs between all models ever served */
    const int32_t *ids;
    const uint8_t *types;
    size_t n_tokens;
    const hs_intervention *interventions;
    size_t n_interventions;
    const hs_encoding *source;                   /* of a decoder: the text whose states it reads; else NULL */
    const hs_intervention *source_interventions; /* in the encoder of that text */
    size_t n_source_interventions;
    bool cross;                 /* of its cross heads */
    const hs__change *changes;  /* of each of interventions; NULL: none takes values from a text */
    const hs__text_read *texts; /* that they take values from, by number */
} hs__heads_key;

/* Returns NULL if memory is short. With bytes_max 0 the cache stays empty. */
hs__head_cache *hs__head_cache_create(size_t bytes_max);
/* Drops all entries. Heads that jobs hold stay valid. */
void hs__head_cache_empty(hs__head_cache *cache);
void hs__head_cache_destroy(hs__head_cache *cache); /* NULL is fine; every reference must be released */

/* Returns a reference to heads that cover the selection, or NULL. Counts a hit or a miss. */
hs__heads *hs__head_cache_find(hs__head_cache *cache, const hs__heads_key *key,
                               const hs_selection *selection);

/* Takes ownership of the capture, also on failure, and returns a reference to it. Keeps another reference if
 * the policy allows. Returns NULL if memory is short. */
hs__heads *hs__head_cache_add(hs__head_cache *cache, const hs__heads_key *key, hs_capture *capture,
                              double forward_ms);

void hs__heads_release(hs__head_cache *cache, hs__heads *heads); /* NULL is fine */

struct hs_cache_stats;
void hs__head_cache_stats(hs__head_cache *cache, struct hs_cache_stats *ret_stats);

/* ==== the budget ==== */

/* Bounds the memory in which all running requests compute: captured heads, effects. Any
 * thread.
 *
 * A thread must not wait while it holds some of the budget: two such threads could wait for each other. */

typedef struct hs__budget_waiter hs__budget_waiter;

typedef struct hs__budget {
    pthread_mutex_t mutex; /* guards everything below */
    pthread_cond_t changed;
    size_t bytes, bytes_max;
    hs__budget_waiter *first, *last; /* served in this order */
} hs__budget;

/* Nothing is taken at first. */
void hs__budget_init(hs__budget *budget, size_t bytes_max);
void hs__budget_finish(hs__budget *budget);

/* Takes n_bytes <= bytes_max. Returns false if too little is left or other threads wait. */
bool hs__budget_try(hs__budget *budget, size_t n_bytes);
/* Waits for n_bytes and takes them. Returns false if *cancelled becomes nonzero, or if n_bytes > bytes_max,
 * which hs__budget_remove lowers. cancelled may be NULL. */
bool hs__budget_take(hs__budget *budget, size_t n_bytes, const atomic_int *cancelled);
/* Gives back n_bytes that were taken, and wakes those that wait. */
void hs__budget_give_back(hs__budget *budget, size_t n_bytes);
/* Moves n_bytes that were taken out of the budget, so that nobody gives them back. Returns false, and changes
 * nothing, if bytes_max would fall below `least`. */
bool hs__budget_remove(hs__budget *budget, size_t n_bytes, size_t least);
/* Puts n_bytes that were removed back. */
void hs__budget_add(hs__budget *budget, size_t n_bytes);
size_t hs__budget_bytes_max(hs__budget *budget);

/* ==== the api ==== */

#define HS__MODELS_MAX 64

struct hs_api {
    hs_api_options options; /* with the defaults filled in */
    pthread_mutex_t lock;   /* of the models */
    pthread_cond_t workspace_freed;
    hs__served_model *models[HS__MODELS_MAX];
    size_t n_models;
    uint64_t last_serial; /* of the models so far */
    hs_runtime *runtime;  /* of all engines */
    hs__head_cache *cache;
    hs__budget captures;
    size_t
        worker_bytes; /* for captures of each thread's job; beside the budget, so it never waits for these */
};

/* Returns a reference to the model that a request names, or with name NULL to the default. NULL: refused. */
hs__served_model *hs__model_choose(hs_api *api, const json_t *name, hs__problem *problem);
/* Releases a reference; the last one frees the model. NULL is fine. */
void hs__model_release(hs_api *api, hs__served_model *served);

/* api/openapi.json, linked in by openapi.S. */
extern const char hs__openapi_json[];
extern const uint64_t hs__openapi_json_bytes;

/* ==== jobs ==== */

/* A text to compute, with or without interventions. */
typedef struct hs__job_sequence {
    hs__served_model
        *model; /* whose engine computes it: the request's, or for a decoder's source its encoder */
    const hs_encoding *encoding;
    const struct hs__job_sequence *source; /* of a decoder: the text whose last states it reads; else NULL */
    const hs_intervention *interventions;
    size_t n_interventions;
    const hs_selection *selection; /* contents of its capture; taps 0: no pass is needed */
    size_t first_changed;          /* first layer that interventions change; 0: none */
    hs__heads *heads;              /* a reference; NULL until found or computed */
} hs__job_sequence;

/* One request on its way to an answer. One thread at a time has it.
 *
 * hs_job_create fills it up to the plan, hs_job_run computes the sequences and own passes, hs_job_answer
 * moves the results into an answer. problem.status says that it was refused: no step after that does
 * anything. Sequences, selections and patches point into the job, so it stays where it was allocated. */
struct hs_job {
    /* Borrowed until hs_job_destroy. */
    hs_api *api;
    const hs_request *request;

    /* The refusal. error is what the last failing call said, also for the log. */
    hs__problem problem; /* status 0: it was not */
    hs_error error;
    bool over_budget; /* its answer is over the memory budget */
    bool crowded;     /* refused beside other jobs, which see hs_job_crowded */

    /* The request as read: owned, valid from hs_job_create on. analysis.model is a reference. */
    hs__answer_format format;
    hs__analysis_request analysis;
    hs__texts texts;

    /* Passes compute the sequences. The first one is the answered one, with interventions the second is the
     * baseline, then come the texts that interventions take values from, from first_source on. A decoder's
     * are followed by the texts whose states they read. A selection is that of the sequences which point to
     * it. */
    hs__job_sequence sequences[4 + 2 * HS__SOURCES_MAX];
    size_t n_sequences, first_source;
    hs_selection selection; /* of all sequences but sources and encoders */
    hs_selection source_selections[HS__SOURCES_MAX], encoder_selection;
    uint16_t source_layers[HS_LAYERS_MAX], source_heads[HS_HEADS_MAX]; /* of all source_selections */
    hs_sequence sources[HS__SOURCES_MAX]; /* as patches name them; captures are bound before a pass */

    hs__needs needs; /* of all outputs, if each keeps its maps */

    /* How outputs get their maps, as hs__maps_plan chose. Those in `again` recompute them after the pass.
     * Those in `observed` get them while the pass computes the answered sequence. The others read its
     * capture. */
    hs__outputs again, observed;
    unsigned observed_taps; /* what is shown; 0: nothing */
    size_t n_slots;         /* threads that may show maps at once */

    /* Owned until the answer takes them; NULL until a pass has begun them. */
    void *own[HS__OWN_COUNT];         /* results of own passes */
    void *results[HS__OUTPUTS_COUNT]; /* of outputs that observe */

    /* Memory. hs__job_reserve takes it, hs__job_release gives it back. */
    size_t bytes_max;        /* what it may take: hs__bytes_max when it began */
    size_t capture_bytes;    /* the bound of what its heads take */
    size_t weights_bytes;    /* of that, transposed weights that no request has made yet */
    size_t shared_bytes;     /* of that, taken from the api's budget */
    size_t answer_bytes_max; /* an upper bound of the answer's size */

    /* For the log. */
    bool shared;      /* a pass computed it with another job */
    double waited_ms; /* for capture_bytes */
    size_t n_tokens_computed;
    double stage_ms[HS_STAGE_COUNT];
};

/* Refuses the request for the job's error, or because there is no memory for something. */
static inline int hs__job_refuse(hs_job *job)
{
    return hs__refuse_error(&job->problem, &job->error);
}

static inline int hs__job_refuse_memory(hs_job *job, const char *what)
{
    hs_fail(&job->error, HS_NO_MEMORY, "no memory for %s", what);
    return hs__job_refuse(job);
}

/* Plans what the job's passes keep, show and leave to be computed again, and takes the memory. Refuses a
 * request whose maps or answer could exceed the limits. */
int hs__maps_plan(hs_job *job);
/* Returns the bytes that one request may take: --max-maps, or what the transposed weights of gradients leave.
 */
size_t hs__bytes_max(hs_api *api);
/* Takes n_bytes of the memory budget for the job's heads, or refuses. n_kept of them may outlive the job, so
 * the memory of its thread holds none of these. */
int hs__job_reserve(hs_job *job, size_t n_bytes, size_t n_kept);
/* Gives back what the job has of the budget. */
void hs__job_release(hs_job *job);
/* Returns the bytes of transposed weights that the job's gradients read and no request has made yet. */
size_t hs__job_weights_bytes(const hs_job *job);
/* Returns the most bytes that transposed weights may take now. */
size_t hs__weights_bytes_max(hs_api *api);
/* Makes these weights. They live as long as their models: the first job that makes them leaves their memory
 * taken. Fails with HS_TOO_LARGE if other weights left too little for them meanwhile. */
HS_MUST_USE hs_status hs__job_weights_make(hs_job *job);
/* Returns true if the job runs passes of its own, whose number does not follow from its text: it may take
 * minutes. */
bool hs__job_is_long(const hs_job *job);
/* Makes the vectors that interventions add to states of those texts whose states are computed. They belong to
 * the interventions. Fails with HS_NO_MEMORY, or with HS_INVALID if one is beyond the range of floats. */
HS_MUST_USE hs_status hs__steering_bind(hs_job *job, hs_error *err);
/* Returns an upper bound of their bytes. */
size_t hs__steering_bytes(const hs_job *job);
/* Lets the model write max_new_tokens behind the encoded text of the job, or of a decoder behind its target.
 * Then replaces the request's input, or the decoder's, by the ids of both. */
int hs__job_write(hs_job *job);
/* Takes a workspace of the model for one pass. Waits if options.n_workers passes of the model run. */
hs_workspace *hs__workspace_take(hs_api *api, hs__served_model *served);
void hs__workspace_return(hs_api *api, hs__served_model *served, hs_workspace *ws);
/* Returns the answer without its results. */
hs__answer hs__job_describe(const hs_job *job);
/* Returns the key of a sequence in the head cache. */
hs__heads_key hs__job_key(const hs_job *job, const hs__job_sequence *sequence);

/* Returns the number of tokens that the job's passes still compute; 0 if none is needed (an error, another
 * operation, cached heads). A job with own passes counts as one text of the model's maximum length. */
size_t hs__job_tokens(const hs_job *job);
/* Writes the answer of GET /models. */
void hs__models_write(hs_buffer *buffer, hs_api *api);
