/* output_maps.c - returns captured arrays in place; copies only normalised ones. */
#include "api/output_maps.h"

const float *hs__part_queries(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)into;
    return hs__answer_at(a, HS_TAP_QUERY, l, h);
}

const float *hs__part_keys(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)into;
    return hs__answer_at(a, HS_TAP_KEY, l, h);
}

const float *hs__part_values(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)into;
    return hs__answer_at(a, HS_TAP_VALUE, l, h);
}

const float *hs__part_scores(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)into;
    return hs__answer_at(a, HS_TAP_SCORES, l, h);
}

const float *hs__part_scores_c2c(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)into;
    return hs__answer_at(a, HS_TAP_SCORES_C2C, l, h);
}

const float *hs__part_scores_c2p(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)into;
    return hs__answer_at(a, HS_TAP_SCORES_C2P, l, h);
}

const float *hs__part_scores_p2c(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)into;
    return hs__answer_at(a, HS_TAP_SCORES_P2C, l, h);
}

const float *hs__part_attentions(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)into;
    return hs__answer_at(a, HS_TAP_ATTENTION, l, h);
}

const float *hs__part_similarities(const hs__answer *a, size_t l, size_t h, float *into)
{
    const size_t T = a->capture->n_tokens;
    const float *map = hs__answer_at(a, hs__answer_similarity(a), l, h);
    if (!a->wanted->normalize)
        return map;
    hs_similarity_normalize(map, T, a->masked, hs_similarity_max(map, T, a->masked), into);
    return into;
}

const float *hs__part_head_outputs(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)into;
    return hs__answer_at(a, HS_TAP_HEAD_OUTPUT, l, h);
}

/* State 0 is the embeddings; then comes one state per requested layer. */
const float *hs__part_hidden_states(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)into;
    return hs_capture_at(a->capture, HS_TAP_HIDDEN_STATE, l == 0 ? 0 : (size_t)a->layer_at[l - 1] + 1, h);
}
