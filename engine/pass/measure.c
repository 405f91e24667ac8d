#include "engine/pass/measure.h"
#include "engine/pass/pass.h"
#include "engine/pass/team.h"
#include "model/clock.h"

#include <string.h>

const char *hs_measure_kernels(void)
{
    return hs__kernels_select()->name;
}

/* ---- peak ---- */

/* Sums that do not wait for each other: enough to cover latency times throughput of every core we know of,
 * few enough for 16 registers. */
enum { CHAINS = 12, STEPS = 1 << 16 };

/* Read at run time, so that no compiler works the sums out. They come to rest at 1.5. */
static volatile float factor = 0.5F, summand = 0.75F;

/* STEPS rounds of sum = sum * factor + summand in CHAINS vectors; returns the operations done. */
#define DEFINE_BURN(name, lanes)                                                                             \
    static double burn_##name(void)                                                                          \
    {                                                                                                        \
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
        return 2.0 * (lanes)*CHAINS * STEPS;                                                                 \
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

static burn burn_select(void)
{
#if defined __x86_64__
    if (strcmp(hs_measure_kernels(), "avx512") == 0)
        return burn_avx512;
    if (strcmp(hs_measure_kernels(), "avx2") == 0)
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

double hs_measure_peak(size_t n_threads, double seconds)
{
    burn function = burn_select();
    const double per_task = function(); /* and awake */
    const size_t n_tasks = 8 * n_threads;
    double done = 0, passed = 0;
    hs__crew crew;
    hs__team_join(n_threads);
    hs__crew_start(&crew, n_threads);
    const double start = hs_clock_seconds();
    while (passed < seconds) {
        hs__crew_share(&crew, n_tasks, task_burn, &function);
        done += per_task * (double)n_tasks;
        passed = hs_clock_seconds() - start;
    }
    hs__crew_finish(&crew);
    hs__team_leave();
    return done / passed;
}

/* ---- products ---- */

double hs_measure_flops(const hs_shape *shape, size_t n_tokens)
{
    const double T = (double)n_tokens, H = (double)shape->hidden, F = (double)shape->ffn;
    const double L = (double)shape->n_layers;
    return L * (6 * T * H * H + 4 * T * T * H + T * (T - 1) * H) + (L - 1) * (2 * T * H * H + 4 * T * H * F);
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

static void product_share(hs__crew *crew, product p)
{
    hs__crew_share(crew, hs__linear_tasks(p.linear, p.n_rows, p.n_threads), task_product, &p);
}

/* What a product reads: in bf16 it is what the last one of a pass read. */
static const void *operand(const hs_workspace *ws, const float *x)
{
    return ws->operand ? (const void *)ws->operand : x;
}

double hs_measure_products(const hs_engine *engine, hs_workspace *ws, size_t n_tokens, size_t n_threads)
{
    const size_t N = n_tokens, n = n_threads < engine->n_threads ? n_threads : engine->n_threads;
    hs__crew crew;
    const double start = hs_clock_seconds();
    hs__crew_start(&crew, n);
    for (size_t l = 0; l < engine->shape.n_layers; l++) {
        const hs__layer *layer = &engine->layers[l];
        product_share(&crew, (product){layer->qkv, operand(ws, ws->x), ws->qkv, N, n});
        if (l + 1 == engine->shape.n_layers)
            break;
        product_share(&crew, (product){layer->output, operand(ws, ws->context), ws->update, N, n});
        product_share(&crew, (product){layer->ffn_in, operand(ws, ws->x), ws->inner, N, n});
        product_share(&crew, (product){layer->ffn_out, operand(ws, ws->inner), ws->update, N, n});
    }
    hs__crew_finish(&crew);
    return hs_clock_seconds() - start;
}
