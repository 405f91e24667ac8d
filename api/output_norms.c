/* output_norms.c - norm-weighted attention (Kobayashi et al. 2020, arXiv 2004.10102): ||f(x_j)|| and
 * A[i,j] ||f(x_j)||, f(x) = v W_O of the head. */
#include "api/output_maps.h"

const float *hs__part_value_norms(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)into;
    return hs__answer_at(a, HS_TAP_VALUE_NORMS, l, h);
}

const float *hs__part_weighted_norms(const hs__answer *a, size_t l, size_t h, float *into)
{
    const size_t T = a->capture->n_tokens;
    const float *attention = hs__answer_at(a, HS_TAP_ATTENTION, l, h);
    const float *norms = hs__answer_at(a, HS_TAP_VALUE_NORMS, l, h);
    for (size_t i = 0; i < T; i++)
        for (size_t j = 0; j < T; j++)
            into[i * T + j] = attention[i * T + j] * norms[j];
    return into;
}
