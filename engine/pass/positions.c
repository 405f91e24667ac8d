/* positions.c - tables of positions, filled when the engine is created: rotations by position, biases and
 * rows by distance. */
#include "engine/pass/cpu.h"

#include <math.h>

/* Scales a frequency as hs_rotary says, in float32 as HuggingFace's models do. */
static float frequency_scale(const hs_rotary *rotary, float frequency)
{
    const float factor = (float)rotary->factor, low = (float)rotary->low, high = (float)rotary->high;
    const float turns = (float)((double)rotary->original_positions / 6.283185307179586) * frequency;
    if (rotary->factor <= 0)
        return frequency;
    if (rotary->original_positions == 0 || turns < low)
        return frequency / factor;
    if (turns > high)
        return frequency;
    const float smooth = (turns - low) / (high - low);
    return (1 - smooth) * frequency / factor + smooth * frequency;
}

/* Fills the table of angles in float32, as HuggingFace's models do. At position 8000 the rounding shows in
 * the fourth digit of a cosine. It rounds inv[m] = 1 / theta^(2m / d), then t * inv[m]. */
void hs__rotation_fill(hs__rotation *rotation, const hs_rotary *rotary, size_t n_positions, size_t width)
{
    const size_t half = width / 2;
    for (size_t m = 0; m < half; m++) {
        const float exponent = (float)(2 * m) / (float)width;
        const float inverse = frequency_scale(rotary, 1 / (float)pow(rotation->base, exponent));
        for (size_t t = 0; t < n_positions; t++) {
            const float angle = (float)t * inverse;
            rotation->cosines[t * half + m] = (float)cos((double)angle);
            rotation->sines[t * half + m] = (float)sin((double)angle);
        }
    }
}

/* Returns T5's and MPNet's bucket of a distance, as architecture.h says; ahead: the key comes after the
 * query. Computed in integers, because rounding could put m = 16, 32 and 64 into either bucket. Bucket 8
 * + k begins where ln(m / 8) / ln(16) * 8 >= k, which is (m / 8)^2 >= 2^k, or m^2 >= 2^(k + 6). */
static size_t distance_bucket(size_t m, bool ahead)
{
    size_t bucket = m;
    if (m >= 8)
        for (bucket = 8; bucket < 15 && m * m >= (size_t)1 << (bucket + 1 - 8 + 6);)
            bucket++;
    return bucket + (ahead ? HS_DISTANCE_BUCKETS / 2 : 0);
}

/* Returns a head's slope of ALiBi (Press et al. 2022): a geometric series for a power of two of heads.
 * Otherwise the series of the next lower power P, then every second slope of 2P. */
static double alibi_slope(size_t head, size_t n_heads)
{
    size_t power = 1;
    while (2 * power <= n_heads)
        power *= 2;
    return head < power ? exp2(-8.0 * (double)(head + 1) / (double)power)
                        : exp2(-4.0 * (double)(2 * (head - power) + 1) / (double)power);
}

void hs__score_bias_fill(const hs_architecture *architecture, float *bias)
{
    const hs_shape *shape = &architecture->shape;
    const size_t n_heads = shape->n_heads, last = shape->n_positions - 1;
    const size_t n_addends = architecture->relative.n_addends > 0 ? architecture->relative.n_addends : 1;
    float row[HS_HEADS_MAX] = {0};
    for (size_t k = 0; k <= 2 * last; k++) { /* distance k - last */
        const size_t m = k > last ? k - last : last - k;
        if (architecture->score_bias.data)
            hs_tensor_read(&architecture->score_bias, distance_bucket(m, k > last), 1, row);
        for (size_t h = 0; h < n_heads; h++) {
            const double alibi = architecture->alibi ? alibi_slope(h, n_heads) * (double)m : 0;
            bias[h * (2 * last + 1) + k] =
                (float)((row[h] - alibi) * sqrt((double)(shape->head_width * n_addends)));
        }
    }
}

/* Returns DeBERTa's bucket of a distance m >= 0, as architecture.h says. Logarithms are in float32, as in
 * HuggingFace's models, which decides where a bucket ends if there are few. */
static size_t relative_bucket(const hs_relative *relative, size_t m)
{
    const size_t middle = relative->n_buckets / 2;
    if (relative->n_buckets == 0 || m <= middle)
        return m;
    const float far = (float)log((double)((float)m / (float)middle));
    const float farthest = (float)log((double)((float)(relative->n_distances - 1) / (float)middle));
    return (size_t)ceilf(far / farthest * (float)(middle - 1)) + middle;
}

/* Fills the rows of the table by distance. c of architecture.h is span + bucket(i - j); these rows count
 * from the end, so that they rise with j. */
void hs__relative_rows_fill(const hs_architecture *architecture, int32_t *rows)
{
    const hs_relative *relative = &architecture->relative;
    const size_t last = architecture->shape.n_positions - 1, span = relative->span;
    for (size_t m = 0; m <= last; m++) {
        const size_t bucket = relative_bucket(relative, m);
        rows[last - m] = (int32_t)(bucket < span ? span - 1 - bucket : 0);
        rows[last + m] = (int32_t)(bucket < span ? span - 1 + bucket : 2 * span - 1);
    }
}
