/* linear_openblas.c - linear on CBLAS: weights as rows in our own memory, bias and gelu in one sweep after.
 */
#include "engine/arena.h"
#include "engine/linear.h"

#include <cblas.h>

struct hs__linear {
    const hs__kernels *kernels;
    size_t n_in, n_out;
    bool gelu;
    float *weight; /* [n_out][n_in] */
    float *bias;   /* [n_out] */
};

static void openblas_destroy(hs__linear *linear)
{
    free(linear);
}

/* The struct and its weights are one block. */
static void layout(hs__linear *linear, hs__arena *arena)
{
    linear->weight = hs__arena_floats(arena, linear->n_out * linear->n_in);
    linear->bias = hs__arena_floats(arena, linear->n_out);
}

static hs_status openblas_create(const hs__linear_source *source, const hs__kernels *kernels,
                                 hs_precision precision, hs__linear **ret_linear, hs_error *err)
{
    if (precision != HS_PRECISION_FP32)
        return hs_fail(err, HS_UNSUPPORTED, "the openblas backend computes in fp32 only");

    hs__linear plan = {.kernels = kernels, .gelu = source->gelu};
    plan.n_in = source->parts[0]->weight.n_columns;
    for (size_t p = 0; p < source->n_parts; p++)
        plan.n_out += source->parts[p]->weight.n_rows;

    hs__arena arena = {0};
    hs__arena_take(&arena, sizeof plan);
    layout(&plan, &arena);
    arena = (hs__arena){.base = hs__block_create(arena.used)};
    if (!arena.base)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for weights of %zu x %zu", plan.n_out, plan.n_in);
    hs__linear *linear = hs__arena_take(&arena, sizeof plan);
    *linear = plan;
    layout(linear, &arena);

    size_t row = 0;
    for (size_t p = 0; p < source->n_parts; p++) {
        const hs_dense *part = source->parts[p];
        hs_tensor_read(&part->weight, 0, part->weight.n_rows, linear->weight + row * linear->n_in);
        hs_tensor_read(&part->bias, 0, 1, linear->bias + row);
        row += part->weight.n_rows;
    }
    *ret_linear = linear;
    return HS_OK;
}

static void openblas_apply(const hs__linear *linear, size_t n_rows, const float *x, float *y)
{
    const int m = (int)n_rows, n = (int)linear->n_out, k = (int)linear->n_in;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, x, k, linear->weight, k, 0, y,
                n); /* x W' */
    if (linear->gelu)
        linear->kernels->add_bias_gelu(n_rows, linear->n_out, linear->bias, y);
    else
        linear->kernels->add_bias(n_rows, linear->n_out, linear->bias, y);
}

const hs__linear_kind hs__linear_openblas = {
    .name = "openblas",
    .create = openblas_create,
    .destroy = openblas_destroy,
    .apply = openblas_apply,
};
