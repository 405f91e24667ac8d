/* measure.c - the machine's peak from arithmetic on registers, and a pass's matrix products without the rest
 * of the pass. */
#include "tests/bench/measure.h"

#include "engine/pass/pass.h"
#include "engine/pass/team.h"
#include "model/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- peak ---- */

/* Independent sums: enough to cover latency times throughput of the cores we know, few enough for the
 * registers (16 on x86-64 without AVX-512, 32 on arm64). */
#if defined __aarch64__
enum { CHAINS = 24, STEPS = 1 << 16 };
#else
enum { CHAINS = 12, STEPS = 1 << 16 };
#endif

/* Does STEPS rounds of sum += next sum * factor in CHAINS vectors and returns the operations done. The addend
 * stays in its register, as arm64's instruction requires. */
#define DEFINE_BURN(name, lanes)                                                                             \
    static double burn_##name(void)                                                                          \
    {                                                                                                        \
        /* Read at run time, so that no compiler computes the sums. They grow by 7 %. */                     \
        const volatile float factor = 0x1p-20F, begin = 0.75F;                                               \
        const vec_##name a = factor - (vec_##name){0}, b = begin - (vec_##name){0};                          \
        vec_##name sums[CHAINS], total = {0};                                                                \
        for (size_t j = 0; j < CHAINS; j++)                                                                  \
            sums[j] = b + (float)j;                                                                          \
        for (size_t k = 0; k < STEPS; k++)                                                                   \
            _Pragma("GCC unroll 24") for (size_t j = 0; j < CHAINS; j++) sums[j] +=                          \
                sums[(j + 1) % CHAINS] * a;                                                                  \
        for (size_t j = 0; j < CHAINS; j++)                                                                  \
            total += sums[j];                                                                                \
        const volatile float sink = total[0];                                                                \
        (void)sink;                                                                                          \
        return 2.0 * CHAINS * STEPS * (lanes);                                                               \
    }

typedef double (*burn)(void);
typedef float vec_base __attribute__((vector_size(16)));
DEFINE_BURN(base, 4)
#if defined __x86_64__
typedef float vec_avx2 __attribute__((vector_size(32)));
typedef float vec_avx512 __attribute__((vector_size(64)));
static double burn_avx2(void) __attribute__((target("avx2,fma")));
static double burn_avx512(void) __attribute__((target("avx512f")));
DEFINE_BURN(avx2, 8)
DEFINE_BURN(avx512, 16)
#endif

static burn burn_select(const char *kernels)
{
    (void)kernels;
#if defined __x86_64__
    if (strcmp(kernels, "avx512") == 0)
        return burn_avx512;
    if (strcmp(kernels, "avx2") == 0)
        return burn_avx2;
#endif
    return burn_base;
}

static void task_burn(void *context, size_t task, size_t slot)
{
    (void)task;
    (void)slot;
    const burn *function = context;
    (*function)();
}

double hs_measure_peak(hs_runtime *runtime, size_t n_threads, double seconds)
{
    burn function = burn_select(hs_runtime_kernels(runtime));
    const double per_task = function(); /* also wakes the core up */
    const size_t n_tasks = 8 * n_threads;
    double done = 0, passed = 0;
    hs__team team;
    hs__team_start(&team, runtime, n_threads);
    const double start = hs_clock_seconds();
    while (passed < seconds) {
        hs__team_share(&team, n_tasks, task_burn, &function);
        done += per_task * (double)n_tasks;
        passed = hs_clock_seconds() - start;
    }
    hs__team_finish(&team);
    return done / passed;
}

/* ---- products ---- */

/* Counts the pairs of a query and a key that it sees: within the window, and not after it if the model is
 * causal. */
static double pairs_seen(const hs_architecture *architecture, size_t n_tokens, size_t window)
{
    const double T = (double)n_tokens, w = window == 0 || (double)window >= T ? T - 1 : (double)window;
    const double before = T * w - w * (w + 1) / 2; /* a band less its corner */
    return T + (architecture->causal ? before : 2 * before);
}

double hs_measure_product_flops(const hs_architecture *architecture, size_t n_tokens)
{
    const hs_shape *shape = &architecture->shape;
    const double T = (double)n_tokens, H = (double)shape->hidden, F = (double)shape->ffn;
    const double A = (double)hs_shape_attention_width(shape), B = (double)hs_shape_kv_width(shape);
    double flops = shape->n_layers > 1 ? 2 * T * H * H * (double)architecture->convolution.width : 0;
    for (size_t l = 0; l < shape->n_layers; l++) {
        const double n_products =
            architecture->layers[architecture->layers[l].same_as].ffn_gate.weight.data ? 3 : 2;
        flops += 2 * T * H * (A + 2 * B);
        if (l + 1 < shape->n_layers)
            flops += 2 * T * H * A + n_products * 2 * T * H * F;
    }
    return flops;
}

/* Counts the rows of the table of relative positions that a token meets, summed over T tokens. */
static double rows_met(const hs_architecture *architecture, size_t n_tokens)
{
    const size_t last = architecture->shape.n_positions - 1;
    int32_t *rows = malloc((2 * last + 1) * sizeof *rows);
    double met = (double)n_tokens;
    if (!rows) {
        fprintf(stderr, "passes: no memory for %zu positions\n", last + 1);
        exit(1);
    }
    hs__relative_rows_fill(architecture, rows);
    for (size_t m = 1, n = 0; m < n_tokens; m++) {
        n += rows[last - m] != rows[last - m + 1];
        n += rows[last + m] != rows[last + m - 1];
        met += (double)n; /* tokens m places from the text's first or last token */
    }
    free(rows);
    return met;
}

double hs_measure_flops(const hs_architecture *architecture, size_t n_tokens)
{
    const hs_shape *shape = &architecture->shape;
    const double T = (double)n_tokens, A = (double)hs_shape_attention_width(shape);
    const hs_relative *relative = &architecture->relative;
    const double n_addends = (double)relative->c2p + (double)relative->p2c;
    const double n_met = n_addends > 0 ? rows_met(architecture, n_tokens) : 0;
    double flops = hs_measure_product_flops(architecture, n_tokens);
    for (size_t l = 0; l < shape->n_layers; l++) {
        const double n_pairs = pairs_seen(architecture, n_tokens, architecture->layers[l].window);
        flops += 4 * n_pairs * A + T * (T - 1) * A + n_addends * 2 * n_met * A;
    }
    return flops;
}

/* Counts the operations of the encoder's states: all layers to their end, without S. */
static double encoder_flops(const hs_architecture *encoder, size_t n_tokens)
{
    const hs_shape *shape = &encoder->shape;
    const double T = (double)n_tokens, H = (double)shape->hidden, F = (double)shape->ffn;
    const double A = (double)hs_shape_attention_width(shape);
    const double n_products = encoder->layers[shape->n_layers - 1].ffn_gate.weight.data ? 3 : 2;
    return hs_measure_flops(encoder, n_tokens) - (double)shape->n_layers * T * (T - 1) * A + 2 * T * H * A +
           n_products * 2 * T * H * F;
}

double hs_measure_decoder_flops(const hs_architecture *encoder, const hs_architecture *decoder,
                                size_t n_tokens, size_t n_memory, bool cross)
{
    const hs_shape *shape = &decoder->shape;
    const double T = (double)n_tokens, U = (double)n_memory, H = (double)shape->hidden,
                 F = (double)shape->ffn;
    const double A = (double)hs_shape_attention_width(shape), B = (double)hs_shape_kv_width(shape);
    double flops = encoder_flops(encoder, n_memory);
    for (size_t l = 0; l < shape->n_layers; l++) {
        const hs_layer *own = &decoder->layers[2 * l], *reading = &decoder->layers[2 * l + 1];
        const double n_products = reading->ffn_gate.weight.data ? 3 : 2;
        const bool last = l + 1 == shape->n_layers;
        flops += 2 * T * H * (A + 2 * B) + 4 * pairs_seen(decoder, n_tokens, own->window) * A;
        flops += T * (T - 1) * A; /* S of the heads that are requested */
        if (!last || cross)
            flops += 2 * T * H * A + 2 * T * H * A + 2 * U * H * 2 * B + 4 * T * U * A;
        if (!last)
            flops += 2 * T * H * A + n_products * 2 * T * H * F;
    }
    return flops;
}

typedef struct product {
    const hs__linear *linear;
    const void *x;
    float *y;
    size_t n_rows, n_threads;
} product;

static void task_product(void *context, size_t task, size_t slot)
{
    (void)slot;
    const product *p = context;
    hs__linear_run(p->linear, p->n_rows, p->n_threads, p->x, p->y, task);
}

static void product_share(hs__team *team, product p)
{
    hs__team_share(team, hs__linear_tasks(p.linear, p.n_rows, p.n_threads), task_product, &p);
}

/* Returns the operand that a product reads. */
static const void *operand(const hs_workspace *ws, const float *x)
{
    return ws->operand ? (const void *)ws->operand : x;
}

double hs_measure_products(const hs_engine *engine, hs_workspace *ws, size_t n_tokens, size_t n_threads)
{
    const size_t N = n_tokens, n = n_threads < engine->n_threads ? n_threads : engine->n_threads;
    hs__team team;
    if (ws->operand) /* rows of another product may be denormal numbers, which are slow */
        memset(ws->operand, 0, ws->operand_bytes);
    const double start = hs_clock_seconds();
    hs__team_start(&team, engine->runtime, n);
    if (engine->convolution && engine->shape.n_layers > 1)
        product_share(&team, (product){engine->convolution, operand(ws, ws->unfolded), ws->update, N, n});
    for (size_t l = 0; l < engine->shape.n_layers; l++) {
        const hs__packed_layer *layer = &engine->layers[l];
        product_share(&team, (product){layer->qkv, operand(ws, ws->x), ws->qkv, N, n});
        if (l + 1 == engine->shape.n_layers)
            break;
        product_share(&team, (product){layer->output, operand(ws, ws->context), ws->update, N, n});
        if (layer->ffn_gate)
            product_share(&team, (product){layer->ffn_gate, operand(ws, ws->x), ws->gate, N, n});
        product_share(&team, (product){layer->ffn_in, operand(ws, ws->x), ws->inner, N, n});
        product_share(&team, (product){layer->ffn_out, operand(ws, ws->inner), ws->update, N, n});
    }
    hs__team_finish(&team);
    return hs_clock_seconds() - start;
}
