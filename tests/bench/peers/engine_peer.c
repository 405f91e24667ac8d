/* engine_peer.c - headscope's engine on the protocol of the peers: engine_peer CHECKPOINT THREADS [BACKEND
 * [PRECISION]]. Reads lines "T", answers "milliseconds checksum": one pass over T tokens, every head's
 * attention and similarity kept and its high-similarity pairs found, which is more than the peers do. */
#include "engine/analysis.h"
#include "engine/engine.h"

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

static hs_selection select_all(const hs_shape *shape)
{
    static uint16_t layers[HS_LAYERS_MAX], heads[HS_HEADS_MAX];
    for (size_t l = 0; l < shape->n_layers; l++)
        layers[l] = (uint16_t)l;
    for (size_t h = 0; h < shape->n_heads; h++)
        heads[h] = (uint16_t)h;
    return (hs_selection){.layers = layers,
                          .n_layers = shape->n_layers,
                          .heads = heads,
                          .n_heads = shape->n_heads,
                          .keep = HS_KEEP_ATTENTIONS | HS_KEEP_SIMILARITIES};
}

/* The checksum is S[0][1] of the last layer, head 0: equal among peers given the same checkpoint. */
static double run_once(const hs_engine *engine, hs_workspace *ws, const hs_run_control *control, size_t T,
                       float *ret_checksum)
{
    hs_error err = {0};
    int32_t *ids = malloc(T * sizeof *ids);
    if (!ids)
        exit(1);
    for (size_t i = 0; i < T; i++)
        ids[i] = (int32_t)((i * 7919 + 13) % 1000);
    const hs_shape *shape = hs_engine_shape(engine);
    hs_selection all = select_all(shape);
    hs_capture *capture = NULL;
    hs_pair *pairs = NULL;
    size_t n_pairs = 0;
    uint64_t total = 0;
    double start = now_ms();
    must(hs_capture_create(shape, &all, T, &capture, &err), &err);
    must(hs_engine_run(engine, ws, &(hs_sequence){.ids = ids, .n_tokens = T, .capture = capture}, 1, control,
                       &err),
         &err);
    must(hs_pairs_find(capture, NULL, THRESHOLD, PAIRS_MAX, &pairs, &n_pairs, &total, &err), &err);
    double ms = now_ms() - start;
    *ret_checksum = hs_capture_similarity(capture, shape->n_layers - 1, 0)[1];
    free(pairs);
    hs_capture_destroy(capture);
    free(ids);
    return ms;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: engine_peer CHECKPOINT THREADS [onednn|openblas [fp32|bf16]]\n");
        return 2;
    }
    hs_error err = {0};
    hs_model *model = NULL;
    hs_engine *engine = NULL;
    hs_workspace *ws = NULL;
    hs_engine_options options = {.n_threads = (size_t)atoi(argv[2])};
    if (argc > 3)
        options.backend = strcmp(argv[3], "openblas") == 0 ? HS_BACKEND_OPENBLAS : HS_BACKEND_ONEDNN;
    if (argc > 4 && strcmp(argv[4], "bf16") == 0)
        options.precision = HS_PRECISION_BF16;
    must(hs_model_open(argv[1], &model, &err), &err);
    must(hs_engine_create(model, &options, &engine, &err), &err);
    must(hs_workspace_create(engine, hs_model_shape(model)->n_positions, &ws, &err), &err);
    printf("ready\n");
    fflush(stdout);
    hs_run_control control = {.n_threads = options.n_threads};
    char line[32];
    while (fgets(line, sizeof line, stdin)) {
        long T = strtol(line, NULL, 10);
        if (T < 1 || (size_t)T > hs_model_shape(model)->n_positions)
            break;
        float checksum = 0;
        double ms = run_once(engine, ws, &control, (size_t)T, &checksum);
        printf("%.3f %g\n", ms, (double)checksum);
        fflush(stdout);
    }
    hs_workspace_destroy(ws);
    hs_engine_destroy(engine);
    hs_model_close(model);
    return 0;
}
