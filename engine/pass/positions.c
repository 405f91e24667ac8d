/* positions.c - what scores know of positions: tables by position for rotations, by distance for biases,
 * computed when the engine is made. */
#include "engine/pass/cpu.h"

#include <math.h>

/* HuggingFace's models take the angles in float32, and at position 8000 that is seen in the fourth digit of a
 * cosine. So do we: inv[m] = 1 / theta^(2m / d) is rounded, then t * inv[m] is. */
void hs__rotation_fill(hs__rotation *rotation, size_t n_positions, size_t head_width)
{
    const size_t half = head_width / 2;
    for (size_t m = 0; m < half; m++) {
        const float exponent = (float)(2 * m) / (float)head_width;
        const float inverse = 1 / (float)pow(rotation->base, exponent);
        for (size_t t = 0; t < n_positions; t++) {
            const float angle = (float)t * inverse;
            rotation->cosines[t * half + m] = (float)cos((double)angle);
            rotation->sines[t * half + m] = (float)sin((double)angle);
        }
    }
}

/* Of T5 and MPNet, as recipe.h says; ahead: the key is behind the query. In integers, for in floating
 * point m = 16, 32 and 64 could fall to either side: bucket 8 + k begins where ln(m / 8) / ln(16) * 8 >= k,
 * which is (m / 8)^2 >= 2^k, or m^2 >= 2^(k + 6). */
static size_t distance_bucket(size_t m, bool ahead)
{
    size_t bucket = m;
    if (m >= 8)
        for (bucket = 8; bucket < 15 && m * m >= (size_t)1 << (bucket + 1 - 8 + 6);)
            bucket++;
    return bucket + (ahead ? HS_DISTANCE_BUCKETS / 2 : 0);
}

/* Press et al. 2022: a geometric series for a power of two; else that of the next lower power P, then every
 * second one of 2P. */
static double alibi_slope(size_t head, size_t n_heads)
{
    size_t power = 1;
    while (2 * power <= n_heads)
        power *= 2;
    return head < power ? exp2(-8.0 * (double)(head + 1) / (double)power)
                        : exp2(-4.0 * (double)(2 * (head - power) + 1) / (double)power);
}

void hs__score_bias_fill(const hs_recipe *recipe, float *bias)
{
    const hs_shape *shape = &recipe->shape;
    const size_t n_heads = shape->n_heads, last = shape->n_positions - 1;
    const size_t n_addends = recipe->relative.n_addends > 0 ? recipe->relative.n_addends : 1;
    float row[HS_HEADS_MAX] = {0};
    for (size_t k = 0; k <= 2 * last; k++) { /* distance k - last */
        const size_t m = k > last ? k - last : last - k;
        if (recipe->score_bias.data)
            hs_tensor_read(&recipe->score_bias, distance_bucket(m, k > last), 1, row);
        for (size_t h = 0; h < n_heads; h++) {
            const double alibi = recipe->alibi ? alibi_slope(h, n_heads) * (double)m : 0;
            bias[h * (2 * last + 1) + k] =
                (float)((row[h] - alibi) * sqrt((double)(shape->head_width * n_addends)));
        }
    }
}

/* DeBERTa's bucket of a distance m >= 0, as recipe.h says. HuggingFace's models take the logarithms in
 * float32, which decides where one bucket ends when there are few. */
static size_t relative_bucket(const hs_relative *relative, size_t m)
{
    const size_t middle = relative->n_buckets / 2;
    if (relative->n_buckets == 0 || m <= middle)
        return m;
    const float far = (float)log((double)((float)m / (float)middle));
    const float farthest = (float)log((double)((float)(relative->n_distances - 1) / (float)middle));
    return (size_t)ceilf(far / farthest * (float)(middle - 1)) + middle;
}

/* c of recipe.h is span + bucket(i - j) within the table; ours count from its end, so that they rise with j.
 */
void hs__relative_rows_fill(const hs_recipe *recipe, int32_t *rows)
{
    const hs_relative *relative = &recipe->relative;
    const size_t last = recipe->shape.n_positions - 1, span = relative->span;
    for (size_t m = 0; m <= last; m++) {
        const size_t bucket = relative_bucket(relative, m);
        rows[last - m] = (int32_t)(bucket < span ? span - 1 - bucket : 0);
        rows[last + m] = (int32_t)(bucket < span ? span - 1 + bucket : 2 * span - 1);
    }
}

double hs__relative_rows_met(const hs_relative *relative, size_t n_tokens)
{
    double met = 0;
    for (size_t m = 1, bucket = 0, n = 0; m < n_tokens; m++) {
        const size_t last = bucket;
        bucket = relative_bucket(relative, m);
        bucket = bucket < relative->span ? bucket : relative->span;
        n += bucket != last;
        met += 2 * (double)n; /* to the one side of a token and to the other side of another */
    }
    return met + (double)n_tokens;
}
