/* analysis_predictions.c - reads a row of logits twice: for maximum, rank and top, then for the sums of
 * e^x. */
#include "engine/analysis/analysis_maps.h"
#include "engine/analysis/predictions.h"
#include "model/clones.h"

#include <math.h>

enum { LOGITS_AT_ONCE = 64 }; /* skipped if none of them is among the top */

HS_CLONES
static uint32_t count_above(const float *logits, size_t n, float cut)
{
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += logits[i] > cut;
    return count;
}

/* Inserts a logit into the k largest so far, in descending order. */
static void top_insert(hs_prediction *p, float logit, int32_t id, size_t k)
{
    size_t at = p->n_top;
    if (at == k && !(logit > p->top_probabilities[k - 1]))
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

static void top_find(hs_prediction *p, const float *logits, size_t n, size_t k)
{
    for (size_t first = 0; first < n; first += LOGITS_AT_ONCE) {
        const size_t end = hs__min(first + LOGITS_AT_ONCE, n);
        if (p->n_top == k && count_above(logits + first, end - first, p->top_probabilities[k - 1]) == 0)
            continue;
        for (size_t i = first; i < end; i++)
            top_insert(p, logits[i], (int32_t)i, k);
    }
}

/* Sums e^(x - most), and e^(x - most) (x - most). */
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

HS_CLONES
static float find_most(const float *logits, size_t n)
{
    float most = logits[0];
    for (size_t i = 1; i < n; i++)
        most = logits[i] > most ? logits[i] : most;
    return most;
}

void hs_prediction_read(const float *logits, size_t vocab_size, int32_t id, size_t top_k,
                        hs_prediction *ret_prediction)
{
    hs_prediction *p = ret_prediction;
    const float logit = logits[id];
    *p = (hs_prediction){.rank = 1 + count_above(logits, vocab_size, logit)};
    top_find(p, logits, vocab_size, hs__max(top_k, 1));
    const float most = p->top_probabilities[0];
    p->n_top = hs__min(p->n_top, top_k);
    double sum = 0, weighted = 0; /* of e^(x - most), and of it times x - most */
    sums_find(logits, vocab_size, most, &sum, &weighted);
    p->probability = (float)(exp((double)(logit - most)) / sum);
    p->entropy = (float)(log(fmax(sum, 1)) - weighted / sum); /* the largest counts 1 */
    for (size_t i = 0; i < p->n_top; i++)
        p->top_probabilities[i] = (float)(exp((double)(p->top_probabilities[i] - most)) / sum);
}

double hs_log_sum(const float *logits, size_t n)
{
    const float most = find_most(logits, n);
    double sum = 0, weighted = 0;
    sums_find(logits, n, most, &sum, &weighted);
    return log(fmax(sum, 1)) + (double)most; /* the largest counts 1 */
}

HS_CLONES
void hs_softmax(const float *logits, size_t n, float *ret)
{
    const float most = find_most(logits, n);
    const float scale = (float)exp((double)most - hs_log_sum(logits, n));
    for (size_t i = 0; i < n; i++)
        ret[i] = hs__exp(logits[i] - most) * scale;
}

double hs_log_sum_exact(const float *logits, const uint8_t *inside, size_t n)
{
    float most = -INFINITY;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        if (!inside || inside[i])
            most = fmaxf(most, logits[i]);
    for (size_t i = 0; i < n; i++)
        if (!inside || inside[i])
            sum += exp((double)logits[i] - (double)most);
    return (double)most + log(sum);
}

double hs_loss(const float *logits, size_t vocab_size, int32_t id)
{
    return hs_log_sum(logits, vocab_size) - (double)logits[id];
}
