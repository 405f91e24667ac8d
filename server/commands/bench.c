/* bench.c - `headscope bench`: how fast this machine analyses texts. */
#include "engine/analysis/analysis.h"
#include "model/base/clock.h"
#include "server/base/catalog.h"
#include "server/base/machine.h"
#include "server/commands/commands.h"

#include <stdio.h>
#include <stdlib.h>

#define THRESHOLD 0.3F
enum { PAIRS_MAX = 10000, TOKENS_MAX = 512, TEXTS_MIN = 3, MS_MIN = 1000 };

/* Computes one text's complete analysis: the attentions and similarities of every head, and their pairs. */
static hs_status analyze(const hs_engine *engine, hs_workspace *ws, size_t n_tokens, size_t n_cores,
                         hs_error *err)
{
    const hs_shape *shape = hs_engine_shape(engine);
    const size_t n_ids = shape->vocab_size < 1000 ? shape->vocab_size : 1000;
    int32_t ids[TOKENS_MAX];
    for (size_t i = 0; i < n_tokens; i++)
        ids[i] = (int32_t)(i * 7919 % n_ids);
    const hs_selection all = hs_select_all(shape, HS_KEEP(ATTENTION) | HS_KEEP(SIMILARITY));
    hs_sequence sequence = {.ids = ids, .n_tokens = n_tokens};
    hs_pair *pairs = NULL;
    size_t n_pairs;
    uint64_t total;
    hs_status st =
        hs_capture_create(hs_engine_runtime(engine), shape, &all, n_tokens, &sequence.capture, err);
    if (!st)
        st = hs_engine_compute(engine, ws, &sequence, 1, NULL, &(hs_run_control){.n_threads = n_cores}, err);
    if (!st)
        st = hs_pairs_find(sequence.capture, HS_TAP_SIMILARITY, NULL, THRESHOLD, PAIRS_MAX, n_cores, &pairs,
                           &n_pairs, &total, err);
    free(pairs);
    hs_capture_destroy(sequence.capture);
    return st;
}

/* Analyses texts one after another for a second and prints the mean. The first text only warms up. */
static hs_status rate_print(const hs_engine *engine, hs_workspace *ws, size_t n_tokens, size_t n_cores,
                            hs_error *err)
{
    hs_status st = analyze(engine, ws, n_tokens, n_cores, err);
    const double start = hs_clock_ms();
    double ms = 0;
    size_t n_texts = 0;
    for (; !st && (n_texts < TEXTS_MIN || ms < MS_MIN); n_texts++) {
        st = analyze(engine, ws, n_tokens, n_cores, err);
        ms = hs_clock_ms() - start;
    }
    if (!st)
        printf("%6zu %5zu %10.2f %8.1f\n", n_tokens, n_cores, ms / (double)n_texts,
               1e3 * (double)n_texts / ms);
    fflush(stdout);
    return st;
}

static hs_status rates_print(const hs_engine *engine, size_t n_cores, hs_error *err)
{
    static const size_t lengths[] = {128, TOKENS_MAX};
    const hs_shape *shape = hs_engine_shape(engine);
    hs_workspace *ws = NULL;
    hs_status st = hs_workspace_create(engine, TOKENS_MAX, &ws, err);
    printf("%zu layers, %zu heads, hidden %zu; %s kernels\n\n%6s %5s %10s %8s\n", shape->n_layers,
           shape->n_heads, shape->hidden, hs_runtime_kernels(hs_engine_runtime(engine)), "tokens", "cores",
           "ms a text", "texts/s");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const size_t n_tokens = lengths[i] < shape->n_positions ? lengths[i] : shape->n_positions;
        if (i > 0 && n_tokens <= lengths[i - 1])
            continue;
        if (!st)
            st = rate_print(engine, ws, n_tokens, 1, err);
        if (!st && n_cores > 1)
            st = rate_print(engine, ws, n_tokens, n_cores, err);
    }
    hs_workspace_destroy(ws);
    return st;
}

static const hs_option bench_table[] = {
    {.name = "model", .argument = HS_MODEL_ARGUMENT, .help = HS_MODEL_HELP, .set = hs__set_model},
    {.name = "tokenizer", .argument = "DIR", .help = HS_TOKENIZER_HELP, .set = hs__set_tokenizer},
    {.name = "cores",
     .argument = "N",
     .help = "also measure on N cores, in addition to one (all)",
     .set = hs__set_count,
     .offset = offsetof(hs_catalog_options, n_threads),
     .min = 1,
     .max = 1000},
};

static int bench_main(const hs_command *command, int argc, char **argv)
{
    hs_catalog_options options = {.n_threads = hs__cores_usable()};
    hs_catalog_model model = {0};
    int operand, exit_code;
    hs_error err = {0};
    if (!hs__options_parse(command, argc, argv, &options, &operand, &exit_code))
        return exit_code;
    if (operand < argc)
        return hs__usage_error(command, "unexpected argument '%s'; this command takes options only",
                               argv[operand]);
    hs_status st = hs_runtime_create(options.n_threads, &options.runtime, &err);
    if (!st)
        st = hs__catalog_model_open(&options, hs__catalog_place(&options, 0), &model, &err);
    if (!st)
        st = rates_print(model.engine, options.n_threads, &err);
    hs__catalog_model_close(&model);
    hs_runtime_destroy(options.runtime);
    return st ? hs__command_failed(command, &err) : HS_EXIT_DONE;
}

const hs_command hs__command_bench = {
    .name = "bench",
    .operands = "",
    .summary = "Measures how fast this machine analyses texts",
    .details = "A text's analysis computes the attentions and similarities of every head, and their pairs.\n"
               "Texts are analysed one at a time: first on one core, then on all.",
    .options = bench_table,
    .n_options = sizeof bench_table / sizeof *bench_table,
    .main = bench_main,
};
