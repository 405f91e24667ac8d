/* analysis_profile.c - the attention profile of a head, from its map. It reads each row once for the sums of
 * attention and once for the entropy. */
#include "engine/analysis/analysis.h"
#include "engine/analysis/analysis_maps.h"
#include "model/clones.h"

enum { REACH = HS_PROFILE_REACH };

/* Sums over rows. */
typedef struct sums {
    double first, separator, punctuation, same_token, offsets[2 * REACH + 1];
    double entropy, confidence, distance;
} sums;

HS_CLONES
static double row_entropy(const float *row, size_t n)
{
    float information = 0;
    for (size_t j = 0; j < n; j++)
        information -= row[j] * hs__log(row[j]);
    return (double)information;
}

static void row_add(const float *row, size_t i, const hs_token_kinds *kinds, sums *s)
{
    float maximum = 0;
    for (size_t j = 0; j < kinds->n_tokens; j++) {
        const double a = (double)row[j];
        s->first += kinds->is_first[j] ? a : 0;
        s->separator += kinds->is_separator[j] ? a : 0;
        s->punctuation += kinds->is_punctuation[j] ? a : 0;
        s->same_token += j != i && kinds->first[j] == kinds->first[i] ? a : 0;
        s->distance += a * (double)(j > i ? j - i : i - j);
        maximum = row[j] > maximum ? row[j] : maximum;
    }
    for (size_t k = 0; k < 2 * REACH + 1; k++)
        if (i + k >= REACH && i + k - REACH < kinds->n_tokens)
            s->offsets[k] += (double)row[i + k - REACH];
    s->confidence += (double)maximum;
    s->entropy += row_entropy(row, kinds->n_tokens);
}

hs_head_label hs_head_label_find(const hs_head_profile *p)
{
    if (p->separator > 0.6F || p->first > 0.6F || p->punctuation > 0.6F)
        return HS_LABEL_SPECIAL;
    if (p->entropy > 3.8F)
        return HS_LABEL_BROAD;
    return p->previous > 0.5F || p->next > 0.5F ? HS_LABEL_POSITION : HS_LABEL_OTHER;
}

void hs_head_profile_find(const float *attention, const hs_token_kinds *kinds, hs_head_profile *ret_profile)
{
    const size_t T = kinds->n_tokens;
    const double n = (double)T;
    sums s = {0};
    for (size_t i = 0; i < T; i++)
        row_add(attention + i * T, i, kinds, &s);
    hs_head_profile p = {.self = (float)(s.offsets[REACH] / n),
                         .previous = (float)(s.offsets[REACH - 1] / n),
                         .next = (float)(s.offsets[REACH + 1] / n),
                         .first = (float)(s.first / n),
                         .separator = (float)(s.separator / n),
                         .punctuation = (float)(s.punctuation / n),
                         .same_token = (float)(s.same_token / n),
                         .entropy = (float)(s.entropy / n),
                         .entropy_first = (float)row_entropy(attention, T),
                         .confidence = (float)(s.confidence / n),
                         .mean_distance = (float)(s.distance / n)};
    for (size_t k = 0; k < 2 * REACH + 1; k++) {
        const size_t distance = k > REACH ? k - REACH : REACH - k;
        p.offsets[k] = distance < T ? (float)(s.offsets[k] / (double)(T - distance)) : 0;
    }
    p.label = hs_head_label_find(&p);
    *ret_profile = p;
}
