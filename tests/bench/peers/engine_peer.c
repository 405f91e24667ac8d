/* engine_peer.c - headscope's engine in the protocol of run.py: engine_peer CHECKPOINT THREADS [BACKEND
 * [PRECISION]]. A pass keeps every head's attention and similarity and finds its high-similarity pairs. */
#include "engine/analysis/analysis.h"
#include "engine/engine.h"
#include "model/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAIRS_MAX 10000
#define THRESHOLD 0.3F

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void must(hs_status status, const hs_error *err)
{
    if (status) {
        fprintf(stderr, "engine_peer: %s\n", err->text);
        exit(1);
    }
}

/* Prints the sums of A squared and of |S| off the diagonal, which is 0 here, over all layers and heads, and
 * the number of pairs. */
static void print_sums(const hs_capture *capture, uint64_t n_pairs)
{
    const size_t n = capture->n_layers * capture->n_heads * capture->n_tokens * capture->n_tokens;
    double attention = 0, similarity = 0;
    for (size_t i = 0; i < n; i++) {
        attention +=
            (double)capture->arrays[HS_TAP_ATTENTION][i] * (double)capture->arrays[HS_TAP_ATTENTION][i];
        similarity += fabs((double)capture->arrays[HS_TAP_SIMILARITY][i]);
    }
    printf("%.17g %.17g %" PRIu64 "\n", attention, similarity, n_pairs);
}

static void run_once(const hs_engine *engine, hs_workspace *ws, const hs_run_control *control, size_t T,
                     bool check)
{
    hs_error err = {0};
    int32_t *ids = malloc(T * sizeof *ids);
    if (!ids)
        exit(1);
    for (size_t i = 0; i < T; i++)
        ids[i] = (int32_t)((i * 7919 + 13) % 1000);
    const hs_shape *shape = hs_engine_shape(engine);
    hs_selection all = hs_select_all(shape, HS_KEEP(ATTENTION) | HS_KEEP(SIMILARITY));
    hs_capture *capture = NULL;
    hs_pair *pairs = NULL;
    size_t n_pairs = 0;
    uint64_t total = 0;
    double start = now_ms();
    must(hs_capture_create(hs_engine_runtime(engine), shape, &all, T, &capture, &err), &err);
    const hs_sequence sequence = {.ids = ids, .n_tokens = T, .capture = capture};
    must(hs_engine_compute(engine, ws, &sequence, 1, NULL, control, &err), &err);
    must(hs_pairs_find(capture, HS_TAP_SIMILARITY, NULL, THRESHOLD, PAIRS_MAX, control->n_threads, &pairs,
                       &n_pairs, &total, &err),
         &err);
    double ms = now_ms() - start;
    if (check)
        print_sums(capture, total);
    else
        printf("%.3f\n", ms);
    fflush(stdout);
    free(pairs);
    hs_capture_destroy(capture);
    free(ids);
}

static hs_products products_of(const char *name)
{
    return strcmp(name, "openblas") == 0 ? HS_PRODUCTS_CBLAS : HS_PRODUCTS_NATIVE;
}

static hs_precision precision_of(const char *name)
{
    if (strcmp(name, "bf16") == 0)
        return HS_PRECISION_BF16;
    return strcmp(name, "int8") == 0 ? HS_PRECISION_INT8 : HS_PRECISION_FP32;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: engine_peer CHECKPOINT THREADS [native|openblas [fp32|bf16|int8]]\n");
        return 2;
    }
    hs_error err = {0};
    hs_model *model = NULL;
    hs_engine *engine = NULL;
    hs_workspace *ws = NULL;
    hs_runtime *runtime = NULL;
    hs_engine_options options = {0};
    if (argc > 3)
        options.products = products_of(argv[3]);
    if (argc > 4)
        options.precision = precision_of(argv[4]);
    hs_products_prepare();
    must(hs_model_open(argv[1], NULL, &model, &err), &err);
    must(hs_runtime_create((size_t)atoi(argv[2]), &runtime, &err), &err);
    must(hs_engine_create(runtime, hs_model_architecture(model), &options, &engine, &err), &err);
    hs_model_release_pages(model);
    must(hs_workspace_create(engine, hs_model_shape(model)->n_positions, &ws, &err), &err);
    printf("ready\n");
    fflush(stdout);
    hs_run_control control = {.n_threads = hs_runtime_cores(runtime)};
    char line[32];
    while (fgets(line, sizeof line, stdin)) {
        long T = strtol(line, NULL, 10);
        if (T < 1 || (size_t)T > hs_model_shape(model)->n_positions)
            break;
        run_once(engine, ws, &control, (size_t)T, strstr(line, "check") != NULL);
    }
    hs_workspace_destroy(ws);
    hs_engine_destroy(engine);
    hs_runtime_destroy(runtime);
    hs_model_close(model);
    return 0;
}
