/* grams.c - W_O is read a row at a time: row r says what goes to element r of the hidden state, and its
 * columns of a head are what that head gives to it, so that G sums their products over the rows. */
#include "api/grams.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct hs__grams {
    const hs_recipe *recipe;
    pthread_mutex_t mutex;                  /* one thread makes a layer */
    _Atomic(float *) layers[HS_LAYERS_MAX]; /* [h][d][d], owned; NULL until made */
};

hs_status hs__grams_create(const hs_recipe *recipe, hs__grams **ret_grams, hs_error *err)
{
    hs__grams *grams = calloc(1, sizeof *grams);
    if (!grams)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a model");
    grams->recipe = recipe;
    pthread_mutex_init(&grams->mutex, NULL);
    *ret_grams = grams;
    return HS_OK;
}

void hs__grams_destroy(hs__grams *grams)
{
    if (!grams)
        return;
    for (size_t l = 0; l < HS_LAYERS_MAX; l++)
        free(atomic_load(&grams->layers[l]));
    pthread_mutex_destroy(&grams->mutex);
    free(grams);
}

/* gram += w' w */
static void add_row(const float *restrict w, size_t d, float *restrict gram)
{
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++)
            gram[i * d + j] += w[i] * w[j];
}

static float *make(const hs_shape *shape, const hs_tensor *output)
{
    const size_t H = shape->hidden, d = shape->head_width;
    float *grams = calloc(shape->n_heads * d * d, sizeof *grams), *row = malloc(H * sizeof *row);
    for (size_t r = 0; r < H && grams && row; r++) {
        hs_tensor_read(output, r, 1, row);
        for (size_t h = 0; h < shape->n_heads; h++)
            add_row(row + h * d, d, grams + h * d * d);
    }
    if (!row) {
        free(grams);
        grams = NULL;
    }
    free(row);
    return grams;
}

hs_status hs__grams_make(hs__grams *grams, size_t layer, hs_error *err)
{
    const hs_recipe *recipe = grams->recipe;
    if (atomic_load(&grams->layers[layer]))
        return HS_OK;
    pthread_mutex_lock(&grams->mutex);
    if (!atomic_load(&grams->layers[layer]))
        atomic_store(&grams->layers[layer], make(&recipe->shape, &recipe->layers[layer].output.weight));
    pthread_mutex_unlock(&grams->mutex);
    return atomic_load(&grams->layers[layer]) ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for norms");
}

const float *hs__grams_at(hs__grams *grams, size_t layer, size_t head)
{
    const size_t d = grams->recipe->shape.head_width;
    return atomic_load(&grams->layers[layer]) + head * d * d;
}
