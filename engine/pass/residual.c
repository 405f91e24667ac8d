/* residual.c - W_O is read a row at a time: row r says what goes to element r of the hidden state, and its
 * columns of a head are what that head gives to it, so that G sums their products over the rows. */
#include "engine/pass/residual.h"

#include "model/clones.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct hs__residual {
    const hs_recipe *recipe;
    const hs__kernels *kernels;
    pthread_mutex_t mutex;                  /* one thread makes a layer */
    _Atomic(float *) layers[HS_LAYERS_MAX]; /* [h][panels], owned; NULL until made */
};

hs_status hs__residual_create(const hs_recipe *recipe, const hs__kernels *kernels,
                              hs__residual **ret_residual, hs_error *err)
{
    hs__residual *residual = calloc(1, sizeof *residual);
    if (!residual)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a model");
    residual->recipe = recipe;
    residual->kernels = kernels;
    pthread_mutex_init(&residual->mutex, NULL);
    *ret_residual = residual;
    return HS_OK;
}

void hs__residual_destroy(hs__residual *residual)
{
    if (!residual)
        return;
    for (size_t l = 0; l < HS_LAYERS_MAX; l++)
        free(atomic_load(&residual->layers[l]));
    pthread_mutex_destroy(&residual->mutex);
    free(residual);
}

/* gram += w' w */
HS_CLONES static void add_row(const float *restrict w, size_t d, double *restrict gram)
{
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++)
            gram[i * d + j] += (double)w[i] * (double)w[j];
}

/* The lower triangle C with C C' = gram, where gram is; above it 0. A row that hangs on those before it, up
 * to rounding, gets no column of its own. */
static void factor(double *gram, size_t d)
{
    for (size_t j = 0; j < d; j++) {
        double left = gram[j * d + j];
        const double whole = left;
        for (size_t k = 0; k < j; k++)
            left -= gram[j * d + k] * gram[j * d + k];
        const double pivot = left > 1e-14 * whole ? sqrt(left) : 0;
        gram[j * d + j] = pivot;
        for (size_t i = j + 1; i < d; i++) {
            double sum = gram[i * d + j];
            for (size_t k = 0; k < j; k++)
                sum -= gram[i * d + k] * gram[j * d + k];
            gram[i * d + j] = pivot > 0 ? sum / pivot : 0;
            gram[j * d + i] = 0;
        }
    }
}

/* The sums over the rows of W_O: G of each head. */
static void add_rows(const hs_shape *shape, const hs_tensor *output, float *row, double *ret_grams)
{
    const size_t d = shape->head_width;
    for (size_t r = 0; r < shape->hidden; r++) {
        hs_tensor_read(output, r, 1, row);
        for (size_t h = 0; h < shape->n_heads; h++)
            add_row(row + h * d, d, ret_grams + h * d * d);
    }
}

/* [h][panels] of a layer, or NULL. */
static float *make(const hs__residual *residual, const hs_tensor *output)
{
    const hs_shape *shape = &residual->recipe->shape;
    const size_t H = shape->hidden, d = shape->head_width, n = d * d;
    const size_t n_panels = hs__panels_floats(residual->kernels, d, d);
    double *grams = calloc(shape->n_heads * n, sizeof *grams);
    float *row = malloc((H > n ? H : n) * sizeof *row); /* and then a factor */
    float *panels = grams && row ? malloc(shape->n_heads * n_panels * sizeof *panels) : NULL;
    if (panels)
        add_rows(shape, output, row, grams);
    for (size_t h = 0; h < shape->n_heads && panels; h++) {
        factor(grams + h * n, d);
        for (size_t i = 0; i < n; i++)
            row[i] = (float)grams[h * n + i];
        residual->kernels->pack(d, d, row, d, 1, panels + h * n_panels);
    }
    free(grams);
    free(row);
    return panels;
}

hs_status hs__residual_make(hs__residual *residual, size_t layer, hs_error *err)
{
    const hs_recipe *recipe = residual->recipe;
    if (atomic_load(&residual->layers[layer]))
        return HS_OK;
    pthread_mutex_lock(&residual->mutex);
    if (!atomic_load(&residual->layers[layer]))
        atomic_store(&residual->layers[layer], make(residual, &recipe->layers[layer].output.weight));
    pthread_mutex_unlock(&residual->mutex);
    return atomic_load(&residual->layers[layer]) ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for norms");
}

const float *hs__residual_at(const hs__residual *residual, size_t layer, size_t head)
{
    const size_t d = residual->recipe->shape.head_width;
    return atomic_load(&residual->layers[layer]) + head * hs__panels_floats(residual->kernels, d, d);
}
