/* analysis_predictions.c - one row of logits, read twice: for its maximum and the top, then for the sums of
 * e^x. */
#include "engine/analysis/analysis_maps.h"
#include "engine/analysis/predictions.h"
#include "model/clones.h"

#include <math.h>

/* Keeps the k largest so far in descending order; most logits fail the first comparison. */
static void top_insert(hs_prediction *p, float logit, int32_t id, size_t k)
{
    size_t at = p->n_top;
    if (at == k && (k == 0 || !(logit > p->top_probabilities[k - 1])))
        return;
    p->n_top += at < k;
    at = p->n_top - 1;
    for (; at > 0 && logit > p->top_probabilities[at - 1]; at--) {
        p->top_probabilities[at] = p->top_probabilities[at - 1];
        p->top_ids[at] = p->top_ids[at - 1];
    }
    p->top_probabilities[at] = logit;
    p->top_ids[at] = id;
}

/* Of e^(x - most), and of it times x - most. */
HS_CLONES
static void sums_find(const float *logits, size_t n, float most, double *ret_sum, double *ret_weighted)
{
    double sums[HS__LANES] = {0}, weighted[HS__LANES] = {0};
    size_t i = 0;
    for (; i + HS__LANES <= n; i += HS__LANES)
        for (size_t k = 0; k < HS__LANES; k++) {
            const float x = logits[i + k] - most, e = hs__exp(x);
            sums[k] += (double)e;
            weighted[k] += (double)e * (double)x;
        }
    for (; i < n; i++) {
        const float x = logits[i] - most, e = hs__exp(x);
        sums[0] += (double)e;
        weighted[0] += (double)e * (double)x;
    }
    for (size_t k = 0; k < HS__LANES; k++) {
        *ret_sum += sums[k];
        *ret_weighted += weighted[k];
    }
}

void hs_prediction_read(const float *logits, size_t vocab_size, int32_t id, size_t top_k,
                        hs_prediction *ret_prediction)
{
    hs_prediction *p = ret_prediction;
    const float asked = logits[id];
    float most = -INFINITY;
    *p = (hs_prediction){.rank = 1};
    for (size_t i = 0; i < vocab_size; i++) {
        most = logits[i] > most ? logits[i] : most;
        p->rank += logits[i] > asked;
        top_insert(p, logits[i], (int32_t)i, top_k);
    }
    double sum = 0, weighted = 0; /* of e^(x - most), and of it times x - most */
    sums_find(logits, vocab_size, most, &sum, &weighted);
    p->probability = (float)(exp((double)(asked - most)) / sum);
    p->entropy = (float)(log(fmax(sum, 1)) - weighted / sum); /* the largest counts 1 */
    for (size_t i = 0; i < p->n_top; i++)
        p->top_probabilities[i] = (float)(exp((double)(p->top_probabilities[i] - most)) / sum);
}
