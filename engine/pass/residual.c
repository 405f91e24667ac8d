/* residual.c - computes G = W_O W_O' of each head and its Cholesky factor.
 *
 * W_O is read one row at a time: row r maps all heads' outputs to element r of the hidden state. G of a
 * head is the sum over rows of the products of the head's columns. */
#include "engine/pass/residual.h"

#include "model/clones.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct hs__residual {
    const hs_architecture *architecture;
    const hs__kernels *kernels;
    pthread_mutex_t mutex;                  /* held by the thread that computes a layer */
    _Atomic(float *) layers[HS_LAYERS_MAX]; /* [h][panels], owned; NULL until computed */
};

hs_status hs__residual_create(const hs_architecture *architecture, const hs__kernels *kernels,
                              hs__residual **ret_residual, hs_error *err)
{
    hs__residual *residual = calloc(1, sizeof *residual);
    if (!residual)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a model");
    residual->architecture = architecture;
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

/* Adds w' w to gram. */
HS_CLONES static void add_row(const float *restrict w, size_t d, double *restrict gram)
{
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++)
            gram[i * d + j] += (double)w[i] * (double)w[j];
}

/* Replaces gram by its Cholesky factor C, a lower triangle with C C' = gram. A linearly dependent row
 * gets a zero pivot. */
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

/* Sums G of each head over the rows of W_O. */
static void add_rows(const hs_shape *shape, const hs_tensor *output, float *row, double *ret_grams)
{
    const size_t d = shape->head_width;
    for (size_t r = 0; r < shape->hidden; r++) {
        hs_tensor_read(output, r, 1, row);
        for (size_t h = 0; h < shape->n_heads; h++)
            add_row(row + h * d, d, ret_grams + h * d * d);
    }
}

/* Returns the factors [h][panels] of a layer, or NULL if there is no memory. */
static float *make(const hs__residual *residual, const hs_tensor *output)
{
    const hs_shape *shape = &residual->architecture->shape;
    const size_t A = hs_shape_attention_width(shape), d = shape->head_width, n = d * d;
    const size_t n_panels = hs__panels_floats(residual->kernels, d, d);
    double *grams = calloc(shape->n_heads * n, sizeof *grams);
    float *row = malloc((A > n ? A : n) * sizeof *row); /* a row of W_O, then a factor */
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
    const hs_architecture *architecture = residual->architecture;
    if (atomic_load(&residual->layers[layer]))
        return HS_OK;
    pthread_mutex_lock(&residual->mutex);
    if (!atomic_load(&residual->layers[layer]))
        atomic_store(&residual->layers[layer], make(residual, &architecture->layers[layer].output.weight));
    pthread_mutex_unlock(&residual->mutex);
    return atomic_load(&residual->layers[layer]) ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for norms");
}

bool hs__residual_is_made(const hs__residual *residual, size_t layer)
{
    return atomic_load(&residual->layers[layer]);
}

const float *hs__residual_at(const hs__residual *residual, size_t layer, size_t head)
{
    const size_t d = residual->architecture->shape.head_width;
    return atomic_load(&residual->layers[layer]) + head * hs__panels_floats(residual->kernels, d, d);
}
