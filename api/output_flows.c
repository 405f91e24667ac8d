/* output_flows.c - effective attention (the part that affects the output) and attention rollout. */
#include "api/output_maps.h"
#include "engine/analysis/flows.h"

#include <stdlib.h>
#include <string.h>

const float *hs__part_effective_attentions(const hs__answer *a, size_t l, size_t h, float *into)
{
    hs_effective_attention(hs__answer_at(a, HS_TAP_ATTENTION, l, h), hs__answer_at(a, HS_TAP_VALUE, l, h),
                           a->capture->n_tokens, a->capture->head_width, into + hs__answer_part_floats(a),
                           into);
    return into;
}

/* Every layer is captured, and every head of it. */
hs_status hs__prepare_rollout(hs__answer *a, hs_error *err)
{
    const size_t n = a->capture->n_tokens * a->capture->n_tokens;
    float *scratch = malloc(3 * n * sizeof *scratch);
    a->rollouts = malloc(a->analysis->n_layers * n * sizeof *a->rollouts);
    if (!scratch || !a->rollouts) {
        free(scratch);
        return hs_fail(err, HS_NO_MEMORY, "no memory for the rollout");
    }
    float *before = scratch, *mean = scratch + 2 * n;
    for (size_t number = 0, l = 0; l < a->analysis->n_layers && !hs__answer_cancelled(a); number++) {
        float *after = before == scratch ? scratch + n : scratch;
        hs_attention_mean(hs_capture_at(a->capture, HS_TAP_ATTENTION, number, 0), a->capture->n_heads,
                          a->capture->n_tokens, mean);
        hs_rollout_step(mean, number ? before : NULL, a->capture->n_tokens, after);
        if (a->analysis->layers[l] == number)
            memcpy(a->rollouts + l++ * n, after, n * sizeof *after);
        before = after;
    }
    free(scratch);
    return HS_OK;
}

const float *hs__part_rollout(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)h;
    (void)into;
    return a->rollouts + l * a->capture->n_tokens * a->capture->n_tokens;
}
