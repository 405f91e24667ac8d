/* captures.c - the captured heads of jobs: a budget for all that run, and what a job has of it and of the
 * cache. */
#include "api/internal.h"

#include "model/base/clock.h"

#include <pthread.h>
#include <string.h>

/* ==== the budget ==== */

/* Waiters form a queue on their own stacks and are served in order, so that small requests
 * cannot starve a large one.
 *
 * Nothing signals a cancellation: `cancelled` is only a flag. A waiter polls it every LOOK_MS. */

enum { LOOK_MS = 20 };

struct hs__budget_waiter {
    hs__budget_waiter *next;
};

void hs__budget_init(hs__budget *budget, size_t bytes_max)
{
    *budget = (hs__budget){.bytes_max = bytes_max};
    pthread_mutex_init(&budget->mutex, NULL); /* cannot fail with glibc's default attributes */
    pthread_cond_init(&budget->changed, NULL);
}

void hs__budget_finish(hs__budget *budget)
{
    pthread_cond_destroy(&budget->changed);
    pthread_mutex_destroy(&budget->mutex);
}

static bool fits(const hs__budget *budget, size_t n_bytes)
{
    return n_bytes <= budget->bytes_max - budget->bytes;
}

bool hs__budget_try(hs__budget *budget, size_t n_bytes)
{
    pthread_mutex_lock(&budget->mutex);
    const bool taken = !budget->first && fits(budget, n_bytes);
    budget->bytes += taken ? n_bytes : 0;
    pthread_mutex_unlock(&budget->mutex);
    return taken;
}

static void waiter_add(hs__budget *budget, hs__budget_waiter *waiter)
{
    *(budget->last ? &budget->last->next : &budget->first) = waiter;
    budget->last = waiter;
}

static void waiter_remove(hs__budget *budget, hs__budget_waiter *waiter)
{
    hs__budget_waiter **link = &budget->first, *before = NULL;
    while (*link != waiter) {
        before = *link;
        link = &before->next;
    }
    *link = waiter->next;
    if (budget->last == waiter)
        budget->last = before;
    pthread_cond_broadcast(&budget->changed); /* another one may be the first now */
}

/* Waits for a change, LOOK_MS at most; mutex held. */
static void wait_shortly(hs__budget *budget)
{
    const struct timespec until = hs_clock_after_ms(LOOK_MS);
    pthread_cond_clockwait(&budget->changed, &budget->mutex, CLOCK_MONOTONIC, &until);
}

static bool is_cancelled(const atomic_int *cancelled)
{
    return cancelled && atomic_load(cancelled);
}

bool hs__budget_take(hs__budget *budget, size_t n_bytes, const atomic_int *cancelled)
{
    hs__budget_waiter waiter = {0};
    pthread_mutex_lock(&budget->mutex);
    waiter_add(budget, &waiter);
    while ((budget->first != &waiter || !fits(budget, n_bytes)) && n_bytes <= budget->bytes_max &&
           !is_cancelled(cancelled))
        wait_shortly(budget);
    const bool taken = budget->first == &waiter && fits(budget, n_bytes);
    budget->bytes += taken ? n_bytes : 0;
    waiter_remove(budget, &waiter);
    pthread_mutex_unlock(&budget->mutex);
    return taken;
}

void hs__budget_give_back(hs__budget *budget, size_t n_bytes)
{
    pthread_mutex_lock(&budget->mutex);
    budget->bytes -= n_bytes;
    pthread_cond_broadcast(&budget->changed);
    pthread_mutex_unlock(&budget->mutex);
}

bool hs__budget_remove(hs__budget *budget, size_t n_bytes, size_t least)
{
    pthread_mutex_lock(&budget->mutex);
    const bool removed = budget->bytes_max >= least && n_bytes <= budget->bytes_max - least;
    budget->bytes -= removed ? n_bytes : 0;
    budget->bytes_max -= removed ? n_bytes : 0;
    pthread_cond_broadcast(&budget->changed); /* a waiter may not fit any more */
    pthread_mutex_unlock(&budget->mutex);
    return removed;
}

void hs__budget_add(hs__budget *budget, size_t n_bytes)
{
    pthread_mutex_lock(&budget->mutex);
    budget->bytes_max += n_bytes;
    pthread_cond_broadcast(&budget->changed);
    pthread_mutex_unlock(&budget->mutex);
}

size_t hs__budget_bytes_max(hs__budget *budget)
{
    pthread_mutex_lock(&budget->mutex);
    const size_t bytes_max = budget->bytes_max;
    pthread_mutex_unlock(&budget->mutex);
    return bytes_max;
}

/* ==== of a job ==== */

size_t hs__bytes_max(hs_api *api)
{
    const size_t left = hs__budget_bytes_max(&api->captures) + api->worker_bytes,
                 limit = api->options.capture_bytes_max;
    return left < limit ? left : limit;
}

int hs__job_reserve(hs_job *job, size_t n_bytes, size_t n_kept)
{
    hs__budget *budget = &job->api->captures;
    const size_t own = job->request->beside ? 0 : job->api->worker_bytes, n_returned = n_bytes - n_kept;
    const size_t shared = n_kept + (n_returned > own ? n_returned - own : 0);
    const atomic_int *cancelled = job->request->cancelled;
    bool taken = shared == 0 || hs__budget_try(budget, shared);
    job->capture_bytes = n_bytes;
    job->crowded = !taken && job->request->beside;
    if (!taken && !job->crowded) {
        const double start = hs_clock_ms();
        taken = hs__budget_take(budget, shared, cancelled);
        job->waited_ms = hs_clock_ms() - start;
    }
    job->shared_bytes = taken ? shared : 0;
    if (taken)
        return 0;
    if (job->crowded || !is_cancelled(cancelled))
        return hs__refuse(&job->problem, 503, NULL,
                          "other requests use all memory for computing: send it again later");
    hs_fail(&job->error, HS_CANCELLED, "cancelled");
    return hs__job_refuse(job);
}

void hs__job_release(hs_job *job)
{
    if (job->shared_bytes)
        hs__budget_give_back(&job->api->captures, job->shared_bytes);
    job->capture_bytes = job->shared_bytes = 0;
}

/* Returns what the request says of the sequence's interventions, which are a part of its list. */
static const hs__change *changes_of(const hs__analysis_request *analysis, const hs__job_sequence *s)
{
    return s->interventions ? analysis->changes + (s->interventions - analysis->interventions) : NULL;
}

hs__heads_key hs__job_key(const hs_job *job, const hs__job_sequence *s)
{
    return (hs__heads_key){.model = s->model->serial,
                           .ids = s->encoding->ids,
                           .types = s->encoding->types,
                           .n_tokens = s->encoding->n_tokens,
                           .interventions = s->interventions,
                           .n_interventions = s->n_interventions,
                           .source = s->source ? s->source->encoding : NULL,
                           .source_interventions = s->source ? s->source->interventions : NULL,
                           .n_source_interventions = s->source ? s->source->n_interventions : 0,
                           .cross = s->selection->n_memory > 0,
                           .changes = changes_of(&job->analysis, s),
                           .texts = job->texts.sources};
}

/* Returns the mask of tokens that figures leave out: the special ones if requested, else NULL. A text of
 * special tokens only is always masked, because it has nothing to compare. */
static const uint8_t *masked_tokens(const hs__analysis_request *analysis, const hs_encoding *e)
{
    const bool text = memchr(e->special, 0, e->n_tokens) != NULL;
    return analysis->special_tokens || !text ? e->special : NULL;
}

/* Returns the answer without its results. */
hs__answer hs__job_describe(const hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    const hs__heads *heads = job->sequences[0].heads,
                    *baseline = analysis->n_interventions ? job->sequences[1].heads : NULL,
                    *memory = job->sequences[0].source ? job->sequences[0].source->heads : NULL,
                    *other = analysis->effects_of.kind == HS_INTERVENE_PATCH
                                 ? job->sequences[job->first_source + analysis->effects_of.sources[0]].heads
                                 : NULL;
    hs__answer answer = {.model = job->analysis.model,
                         .request = job->request,
                         .analysis = analysis,
                         .text = &job->texts.text,
                         .masked = masked_tokens(analysis, &job->texts.text.rows),
                         .capture = heads ? heads->capture : NULL,
                         .baseline = baseline ? baseline->capture : NULL,
                         .again = job->again,
                         .other = other ? other->capture : NULL,
                         .memory = memory ? memory->capture : NULL};
    memcpy(answer.own, job->own, sizeof answer.own);
    return answer;
}
