/* output_maps.c - returns captured arrays in place; copies only normalised ones. */
#include "api/output_maps.h"

const float *hs__part_similarities(const hs__answer *a, size_t l, size_t h, float *into)
{
    const size_t T = a->capture->n_tokens;
    const float *map = hs__answer_at(a, hs__answer_similarity(a), l, h);
    if (!a->analysis->normalize)
        return map;
    hs_similarity_normalize(map, T, a->masked, hs_similarity_max(map, T, a->masked), into);
    return into;
}

/* State 0 is the embeddings; then comes one state per requested layer. */
const float *hs__part_hidden_states(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)into;
    return hs_capture_at(a->capture, HS_TAP_HIDDEN_STATE, l == 0 ? 0 : (size_t)a->layer_at[l - 1] + 1, h);
}
