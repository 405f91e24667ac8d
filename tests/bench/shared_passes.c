/* shared_passes.c - what texts of one length gain by sharing passes: shared_passes CHECKPOINT WORKERS ROUNDS
 * TOKENS. Each worker computes the same sixteen texts one by one, two in a pass, four, eight and sixteen. All
 * keep attentions and similarities and find the pairs, as a request does. The ways take turns within a round,
 * all workers in step. A gain is the time of the texts one by one over their time in shared passes, median
 * over rounds. It is given by the clock and by CPU time, which depends less on other programs. */
#include "engine/analysis/analysis.h"
#include "engine/engine.h"
#include "model/model.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N_TEXTS = 16, TOKENS_MAX = 1024, N_WAYS = 5, WORKERS_MAX = 64, ROUNDS_MAX = 99, PAIRS_MAX = 10 };
#define THRESHOLD   0.3F
#define WAY_SECONDS 0.02 /* at least, of a way in a round */

typedef struct worker {
    pthread_t thread;
    const hs_engine *engine;
    hs_workspace *workspace;
    pthread_barrier_t *barrier;
    hs_selection all;
    int32_t *ids;
    size_t n_tokens, n_rounds, n_repeats;
    double clock_s[N_WAYS][ROUNDS_MAX], cpu_s[N_WAYS][ROUNDS_MAX];
} worker;

static void must(hs_status status, const hs_error *err)
{
    if (status) {
        fprintf(stderr, "shared_passes: %s\n", err->text);
        exit(1);
    }
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void pass_run(const worker *w, size_t n_texts)
{
    const hs_shape *shape = hs_engine_shape(w->engine);
    hs_sequence texts[N_TEXTS] = {0};
    hs_error err = {0};
    for (size_t i = 0; i < n_texts; i++) {
        texts[i] = (hs_sequence){.ids = w->ids, .n_tokens = w->n_tokens};
        must(hs_capture_create(hs_engine_runtime(w->engine), shape, &w->all, w->n_tokens, &texts[i].capture,
                               &err),
             &err);
    }
    must(hs_engine_compute(w->engine, w->workspace, texts, n_texts, NULL, NULL, &err), &err);
    for (size_t i = 0; i < n_texts; i++) {
        hs_pair *pairs = NULL;
        size_t n_pairs = 0;
        uint64_t total = 0;
        must(hs_pairs_find(texts[i].capture, HS_TAP_SIMILARITY, NULL, THRESHOLD, PAIRS_MAX, 1, &pairs,
                           &n_pairs, &total, &err),
             &err);
        free(pairs);
        hs_capture_destroy(texts[i].capture);
    }
}

/* All texts, so many in a pass. */
static void texts_run(const worker *w, size_t n_together)
{
    for (size_t done = 0; done < N_TEXTS; done += n_together)
        pass_run(w, n_together);
}

static void *worker_run(void *argument)
{
    worker *w = argument;
    for (size_t round = 0; round < w->n_rounds; round++)
        for (size_t way = 0; way < N_WAYS; way++) {
            pthread_barrier_wait(w->barrier);
            const double clock = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
            for (size_t i = 0; i < w->n_repeats; i++)
                texts_run(w, (size_t)1 << way);
            w->clock_s[way][round] = seconds(CLOCK_MONOTONIC) - clock;
            w->cpu_s[way][round] = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
        }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static void tell(const worker *workers, size_t n_workers)
{
    const size_t n_rounds = workers[0].n_rounds;
    const double texts = (double)(N_TEXTS * workers[0].n_repeats * n_workers);
    for (size_t way = 0; way < N_WAYS; way++) {
        double clock_gain[ROUNDS_MAX] = {0}, cpu_gain[ROUNDS_MAX] = {0}, ms[ROUNDS_MAX] = {0};
        for (size_t round = 0; round < n_rounds; round++) {
            double clock = 0, clock_alone = 0, cpu = 0, cpu_alone = 0;
            for (size_t i = 0; i < n_workers; i++) {
                clock += workers[i].clock_s[way][round];
                clock_alone += workers[i].clock_s[0][round];
                cpu += workers[i].cpu_s[way][round];
                cpu_alone += workers[i].cpu_s[0][round];
            }
            clock_gain[round] = clock_alone / clock;
            cpu_gain[round] = cpu_alone / cpu;
            ms[round] = 1e3 * cpu / texts;
        }
        printf("%7zu %6zu %8d %10.3f %7.2f %7.2f\n", n_workers, workers[0].n_tokens, 1 << way,
               median(ms, n_rounds), median(cpu_gain, n_rounds), median(clock_gain, n_rounds));
    }
}

static void workers_run(worker *workers, size_t n_workers)
{
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, (unsigned)n_workers);
    for (size_t i = 0; i < n_workers; i++) {
        workers[i].barrier = &barrier;
        if (pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]))
            exit(1);
    }
    for (size_t i = 0; i < n_workers; i++)
        pthread_join(workers[i].thread, NULL);
    pthread_barrier_destroy(&barrier);
}

static void measure(const hs_engine *engine, size_t n_workers, size_t n_rounds, size_t n_tokens)
{
    static worker workers[WORKERS_MAX];
    int32_t ids[TOKENS_MAX];
    hs_error err = {0};
    for (size_t i = 0; i < n_tokens; i++)
        ids[i] = (int32_t)((i * 7919 + 13) % 1000);
    for (size_t i = 0; i < n_workers; i++) {
        workers[i] =
            (worker){.engine = engine,
                     .all = hs_select_all(hs_engine_shape(engine), HS_KEEP(ATTENTION) | HS_KEEP(SIMILARITY)),
                     .ids = ids,
                     .n_tokens = n_tokens,
                     .n_rounds = n_rounds,
                     .n_repeats = 1};
        must(hs_workspace_create(engine, N_TEXTS * n_tokens, &workers[i].workspace, &err), &err);
    }
    texts_run(&workers[0], 1);
    const double start = seconds(CLOCK_MONOTONIC);
    texts_run(&workers[0], 1);
    const double took = seconds(CLOCK_MONOTONIC) - start;
    for (size_t i = 0; i < n_workers; i++)
        workers[i].n_repeats = 1 + (size_t)(WAY_SECONDS / took);
    workers_run(workers, n_workers);
    tell(workers, n_workers);
    for (size_t i = 0; i < n_workers; i++)
        hs_workspace_destroy(workers[i].workspace);
}

int main(int argc, char **argv)
{
    hs_error err = {0};
    hs_model *model = NULL;
    hs_engine *engine = NULL;
    hs_runtime *runtime = NULL;
    const size_t n_workers = argc > 4 ? (size_t)strtoul(argv[2], NULL, 10) : 0;
    const size_t n_rounds = argc > 4 ? (size_t)strtoul(argv[3], NULL, 10) : 0;
    if (n_workers < 1 || n_workers > WORKERS_MAX || n_rounds < 1 || n_rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: shared_passes CHECKPOINT WORKERS ROUNDS TOKENS...\n");
        return 2;
    }
    must(hs_model_open(argv[1], NULL, &model, &err), &err);
    must(hs_runtime_create(1, &runtime, &err), &err);
    must(hs_engine_create(runtime, hs_model_architecture(model), &(hs_engine_options){0}, &engine, &err),
         &err);
    hs_model_release_pages(model);
    printf("workers tokens together     CPU ms  gain   by the clock\n");
    for (int i = 4; i < argc; i++) {
        const size_t n_tokens = strtoul(argv[i], NULL, 10);
        if (n_tokens < 1 || n_tokens > TOKENS_MAX || n_tokens > hs_model_shape(model)->n_positions)
            return 2;
        measure(engine, n_workers, n_rounds, n_tokens);
        fflush(stdout);
    }
    hs_engine_destroy(engine);
    hs_runtime_destroy(runtime);
    hs_model_close(model);
    return 0;
}
