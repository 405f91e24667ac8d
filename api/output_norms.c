/* output_norms.c - norm-weighted attention (Kobayashi et al. 2020, arXiv 2004.10102): ||f(x_j)|| and
 * A[i,j] ||f(x_j)||, f(x) = v W_O of the head. With G = W_O W_O' of the head, ||f||^2 = v G v': the head's
 * width squared for each token instead of its width times the model's. */
#include "api/grams.h"
#include "api/output_maps.h"

#include <math.h>

hs_status hs__prepare_norms(const hs__answer *a, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t l = 0; l < a->wanted->n_layers && !st; l++)
        st = hs__grams_make(a->model->grams, a->wanted->layers[l], err);
    return st;
}

/* sqrt(v G v') */
static float norm(const float *v, const float *gram, size_t d)
{
    double sum = 0;
    for (size_t i = 0; i < d; i++) {
        float row = 0;
        for (size_t j = 0; j < d; j++)
            row += gram[i * d + j] * v[j];
        sum += (double)row * (double)v[i];
    }
    return (float)sqrt(sum > 0 ? sum : 0);
}

const float *hs__part_value_norms(const hs__answer *a, size_t l, size_t h, float *into)
{
    const size_t T = a->capture->n_tokens, d = a->capture->head_width;
    const float *gram = hs__grams_at(a->model->grams, a->wanted->layers[l], a->wanted->heads[h]);
    const float *values = hs__answer_at(a, HS_TAP_VALUE, l, h);
    for (size_t t = 0; t < T; t++)
        into[t] = norm(values + t * d, gram, d);
    return into;
}

/* The norms stand in the last row until that row is the last to be made. */
const float *hs__part_weighted_norms(const hs__answer *a, size_t l, size_t h, float *into)
{
    const size_t T = a->capture->n_tokens;
    const float *attention = hs__answer_at(a, HS_TAP_ATTENTION, l, h);
    const float *norms = hs__part_value_norms(a, l, h, into + (T - 1) * T);
    for (size_t i = 0; i < T; i++)
        for (size_t j = 0; j < T; j++)
            into[i * T + j] = attention[i * T + j] * norms[j];
    return into;
}
