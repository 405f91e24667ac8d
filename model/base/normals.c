/* normals.c - draws normal random numbers, two at a time. */
#include "model/base/normals.h"

#include "model/base/bytes.h"

#include <math.h>

void hs_normals_draw(uint64_t seed, double deviation, size_t n, float *ret)
{
    uint64_t state = hs_mix(seed);
    for (size_t k = 0; k < n; k += 2) {
        const double u = hs_fraction_of(hs_mix(state += HS_MIX_STEP)),
                     angle = 2 * M_PI * hs_fraction_of(hs_mix(state += HS_MIX_STEP));
        const double radius = deviation * sqrt(-2 * log1p(-u));
        ret[k] = (float)(radius * cos(angle));
        if (k + 1 < n)
            ret[k + 1] = (float)(radius * sin(angle));
    }
}
