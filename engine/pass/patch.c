/* patch.c - activation patching: puts activations of one pass into another (Vig et al. 2020; Meng et al.
 * 2022).
 *
 * A patch copies rows, so that patching a text with itself changes no bit. */
#include "engine/pass/cpu.h"
#include "engine/pass/lists.h"

#include <string.h>

static bool names_layer(const hs_intervention *patch, size_t layer)
{
    return hs__list_find(patch->layers, patch->n_layers, layer) >= 0;
}

/* Copies the rows at the patch's positions: from [n_tokens][width] to rows `step` floats apart. */
static void rows_copy(const hs_intervention *patch, size_t n_tokens, size_t width, const float *from,
                      float *to, size_t step)
{
    const size_t n = patch->n_positions > 0 ? patch->n_positions : n_tokens;
    for (size_t i = 0; i < n; i++) {
        const size_t t = patch->n_positions > 0 ? patch->positions[i] : i;
        memcpy(to + t * step, from + t * width, width * sizeof *to);
    }
}

void hs__patch_output(const hs__head_place *place, size_t width, float *output, size_t step)
{
    const hs_sequence *sequence = place->sequence;
    for (size_t i = 0; i < sequence->n_interventions; i++) {
        const hs_intervention *patch = &sequence->interventions[i];
        if (patch->kind != HS_INTERVENE_PATCH || !names_layer(patch, place->layer) ||
            hs__list_find(patch->heads, patch->n_heads, place->head) < 0)
            continue;
        const hs_capture *capture = patch->from->capture;
        const ptrdiff_t l = hs__list_find(capture->layers, capture->n_layers, place->layer),
                        h = hs__list_find(capture->heads, capture->n_heads, place->head);
        rows_copy(patch, sequence->n_tokens, width,
                  hs_capture_at(capture, HS_TAP_HEAD_OUTPUT, (size_t)l, (size_t)h), output, step);
    }
}

static bool patches_state(const hs_intervention *patch, size_t state)
{
    return patch->kind == HS_INTERVENE_PATCH_STATE && names_layer(patch, state);
}

bool hs__patches_state(const hs_plan *plan, size_t state)
{
    for (size_t s = 0; s < plan->n_sequences; s++)
        for (size_t i = 0; i < plan->sequences[s].n_interventions; i++)
            if (patches_state(&plan->sequences[s].interventions[i], state))
                return true;
    return false;
}

/* The state after layer l is number l + 1 in a capture that selects all layers. */
static const float *source_state(const hs_capture *capture, size_t state)
{
    const ptrdiff_t l = state > 0 ? hs__list_find(capture->layers, capture->n_layers, state - 1) : -1;
    return hs_capture_at(capture, HS_TAP_HIDDEN_STATE, (size_t)(l + 1), 0);
}

void hs__patch_state(const hs_plan *plan, size_t state, size_t hidden, float *x)
{
    for (size_t s = 0; s < plan->n_sequences; s++) {
        const hs_sequence *sequence = &plan->sequences[s];
        const bool stays = sequence->start && sequence->start->patched && state == sequence->start->layer;
        for (size_t i = 0; !stays && i < sequence->n_interventions; i++) {
            const hs_intervention *patch = &sequence->interventions[i];
            if (patches_state(patch, state))
                rows_copy(patch, sequence->n_tokens, hidden, source_state(patch->from->capture, state), x,
                          hidden);
        }
        x += sequence->n_tokens * hidden;
    }
}
