/* measure.c - arithmetic on numbers in registers for the peak, a pass's products without the pass for their
 * share. */
#include "engine/pass/measure.h"

#include "engine/pass/cpu.h"
#include "engine/pass/runtime_parts.h"
#include "model/clock.h"

#include <string.h>

/* ---- peak ---- */

/* Sums that do not wait for each other: enough to cover latency times throughput of every core we know of,
 * few enough for 16 registers. */
enum { CHAINS = 12, STEPS = 1 << 16 };

/* STEPS rounds of sum = sum * factor + summand in CHAINS vectors; returns the operations done. */
#define DEFINE_BURN(name, lanes)                                                                             \
    static double burn_##name(void)                                                                          \
    {                                                                                                        \
        /* Read at run time, so that no compiler works the sums out. They come to rest at 1.5. */            \
        const volatile float factor = 0.5F, summand = 0.75F;                                                 \
        const vec_##name a = factor - (vec_##name){0}, b = summand - (vec_##name){0};                        \
        vec_##name sums[CHAINS], total = {0};                                                                \
        for (size_t j = 0; j < CHAINS; j++)                                                                  \
            sums[j] = b + (float)j;                                                                          \
        for (size_t k = 0; k < STEPS; k++)                                                                   \
            _Pragma("GCC unroll 16") for (size_t j = 0; j < CHAINS; j++) sums[j] = sums[j] * a + b;          \
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
    const double per_task = function(); /* and awake */
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

/* Pairs of a query and a key that it sees. */
static double pairs_seen(size_t n_tokens, size_t window)
{
    const double T = (double)n_tokens, w = (double)window;
    return window == 0 || w >= T ? T * T : T * (2 * w + 1) - w * (w + 1); /* a band less its two corners */
}

double hs_measure_product_flops(const hs_recipe *recipe, size_t n_tokens)
{
    const hs_shape *shape = &recipe->shape;
    const double T = (double)n_tokens, H = (double)shape->hidden, F = (double)shape->ffn;
    double flops = shape->n_layers > 1 ? 2 * T * H * H * (double)recipe->convolution.width : 0;
    for (size_t l = 0; l < shape->n_layers; l++) {
        const double n_products = recipe->layers[recipe->layers[l].same_as].ffn_gate.weight.data ? 3 : 2;
        flops += 6 * T * H * H;
        if (l + 1 < shape->n_layers)
            flops += 2 * T * H * H + n_products * 2 * T * H * F;
    }
    return flops;
}

double hs_measure_flops(const hs_recipe *recipe, size_t n_tokens)
{
    const hs_shape *shape = &recipe->shape;
    const double T = (double)n_tokens, H = (double)shape->hidden;
    const hs_relative *relative = &recipe->relative;
    const double n_addends = (double)relative->c2p + (double)relative->p2c;
    const double n_met = n_addends > 0 ? hs__relative_rows_met(relative, n_tokens) : 0;
    double flops = hs_measure_product_flops(recipe, n_tokens);
    for (size_t l = 0; l < shape->n_layers; l++) {
        const double n_pairs = pairs_seen(n_tokens, recipe->layers[l].window);
        flops += 4 * n_pairs * H + T * (T - 1) * H + n_addends * 2 * n_met * H;
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
    const hs_status st = hs__linear_run(p->linear, p->n_rows, p->n_threads, p->x, p->y, task);
    (void)st; /* a pass has been done before: a library has its scratch */
}

static void product_share(hs__team *team, product p)
{
    hs__team_share(team, hs__linear_tasks(p.linear, p.n_rows, p.n_threads), task_product, &p);
}

/* What a product reads. */
static const void *operand(const hs__cpu_workspace *ws, const float *x)
{
    return ws->operand ? (const void *)ws->operand : x;
}

double hs_measure_products(const hs_engine *base, hs_workspace *base_ws, size_t n_tokens, size_t n_threads)
{
    const hs__cpu_engine *engine = (const hs__cpu_engine *)base;
    const hs__cpu_workspace *ws = (const hs__cpu_workspace *)base_ws;
    const size_t N = n_tokens, n = n_threads < engine->n_threads ? n_threads : engine->n_threads;
    hs__team team;
    if (ws->operand) /* rows of another product would be nonsense, down to numbers that are slow */
        memset(ws->operand, 0, ws->operand_bytes);
    const double start = hs_clock_seconds();
    hs__team_start(&team, base->runtime, n);
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
