/* plan.c - checks a request once, so that the loops of a pass need no checks. */
#include "engine/plan.h"

#include "engine/pass/lists.h"

#include <math.h>

static hs_status tokens_check(const hs_shape *shape, const hs_sequence *sequence, hs_error *err)
{
    for (size_t i = 0; i < sequence->n_tokens; i++) {
        if (sequence->ids[i] < 0 || (size_t)sequence->ids[i] >= shape->vocab_size)
            return hs_fail(err, HS_INVALID, "token id %d is not within 0 and %zu", (int)sequence->ids[i],
                           shape->vocab_size - 1);
        if (shape->n_types > 0 && sequence->types && sequence->types[i] >= shape->n_types)
            return hs_fail(err, HS_INVALID, "token type %d is not below %zu", sequence->types[i],
                           shape->n_types);
    }
    return HS_OK;
}

static bool is_in(const hs_intervention *intervention, size_t layer, size_t head)
{
    return hs__list_find(intervention->layers, intervention->n_layers, layer) >= 0 &&
           hs__list_find(intervention->heads, intervention->n_heads, head) >= 0;
}

bool hs_intervention_is_patch(const hs_intervention *intervention)
{
    return intervention->kind == HS_INTERVENE_PATCH || intervention->kind == HS_INTERVENE_PATCH_STATE;
}

/* Returns true if every item is in the list. */
static bool list_contains(const uint16_t *list, size_t n_list, const uint16_t *items, size_t n_items)
{
    for (size_t i = 0; i < n_items; i++)
        if (hs__list_find(list, n_list, items[i]) < 0)
            return false;
    return true;
}

/* Returns true if the capture of a patch's source keeps all that the patch takes. */
static bool patch_is_kept(const hs_intervention *patch, const hs_capture *capture)
{
    if (patch->kind == HS_INTERVENE_PATCH)
        return capture->taps & HS_KEEP(HEAD_OUTPUT) &&
               list_contains(capture->layers, capture->n_layers, patch->layers, patch->n_layers) &&
               list_contains(capture->heads, capture->n_heads, patch->heads, patch->n_heads);
    for (size_t i = 0; i < patch->n_layers; i++)
        if (patch->layers[i] > 0 &&
            hs__list_find(capture->layers, capture->n_layers, patch->layers[i] - 1U) < 0)
            return false;
    return capture->taps & HS_KEEP(HIDDEN_STATE);
}

static hs_status patch_check(const hs_intervention *patch, size_t n_tokens, hs_error *err)
{
    if (!patch->from || !patch->from->capture)
        return hs_fail(err, HS_INVALID, "a patch needs another text's pass, which only a single text has");
    if (patch->from->n_tokens != n_tokens)
        return hs_fail(err, HS_INVALID, "a patch is from a text of %zu tokens, but the text has %zu",
                       patch->from->n_tokens, n_tokens);
    for (size_t i = 0; i < patch->n_positions; i++)
        if (patch->positions[i] >= n_tokens || (i > 0 && patch->positions[i] <= patch->positions[i - 1]))
            return hs_fail(err, HS_INVALID, "a patch's positions must be ascending and below %zu", n_tokens);
    if (!patch_is_kept(patch, patch->from->capture))
        return hs_fail(err, HS_INVALID, "the pass that a patch is from does not keep what it takes");
    return HS_OK;
}

static hs_status intervention_check(const hs_shape *shape, const hs_intervention *intervention,
                                    size_t n_tokens, hs_error *err)
{
    const size_t limit = shape->n_layers + (intervention->kind == HS_INTERVENE_PATCH_STATE);
    if (!hs__list_is_sound(intervention->layers, intervention->n_layers, limit))
        return hs_fail(err, HS_INVALID, "an intervention's layers must be ascending and below %zu", limit);
    if (!hs__list_is_sound(intervention->heads, intervention->n_heads, shape->n_heads))
        return hs_fail(err, HS_INVALID, "an intervention's heads must be ascending and below %zu",
                       shape->n_heads);
    if (intervention->kind == HS_INTERVENE_SCALE && !isfinite(intervention->factor))
        return hs_fail(err, HS_INVALID, "an intervention's factor must be a finite number");
    return hs_intervention_is_patch(intervention) ? patch_check(intervention, n_tokens, err) : HS_OK;
}

/* Fails if a head's map would be both uniform and the identity. */
static hs_status maps_check(const hs_sequence *sequence, const hs_intervention *uniform, hs_error *err)
{
    for (size_t i = 0; i < sequence->n_interventions; i++) {
        const hs_intervention *identity = &sequence->interventions[i];
        if (identity->kind != HS_INTERVENE_IDENTITY)
            continue;
        for (size_t l = 0; l < uniform->n_layers; l++)
            for (size_t h = 0; h < uniform->n_heads; h++)
                if (is_in(identity, uniform->layers[l], uniform->heads[h]))
                    return hs_fail(err, HS_INVALID,
                                   "head %d of layer %d is asked to be uniform and the identity: choose one",
                                   uniform->heads[h], uniform->layers[l]);
    }
    return HS_OK;
}

static hs_status interventions_check(const hs_shape *shape, const hs_sequence *sequence, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t i = 0; !st && i < sequence->n_interventions; i++)
        st = intervention_check(shape, &sequence->interventions[i], sequence->n_tokens, err);
    for (size_t i = 0; !st && i < sequence->n_interventions; i++)
        if (sequence->interventions[i].kind == HS_INTERVENE_UNIFORM)
            st = maps_check(sequence, &sequence->interventions[i], err);
    return st;
}

hs_status hs_interventions_check(const hs_shape *shape, const hs_intervention *interventions,
                                 size_t n_interventions, hs_error *err)
{
    const hs_sequence sequence = {.interventions = interventions, .n_interventions = n_interventions};
    return interventions_check(shape, &sequence, err);
}

size_t hs_interventions_first_layer(const hs_intervention *interventions, size_t n_interventions,
                                    size_t n_layers)
{
    size_t first = n_layers;
    for (size_t i = 0; i < n_interventions; i++)
        if (interventions[i].n_layers > 0 && interventions[i].layers[0] < first)
            first = interventions[i].layers[0];
    return n_interventions == 0 ? 0 : first < n_layers ? first : n_layers - 1;
}

static hs_status sequence_check(const hs_shape *shape, const hs_sequence *sequence, hs_error *err)
{
    const hs_capture *capture = sequence->capture;
    if (sequence->n_tokens < 1 || sequence->n_tokens > shape->n_positions)
        return hs_fail(err, HS_TOO_LARGE, "%zu tokens are not within 1 and the model's %zu",
                       sequence->n_tokens, shape->n_positions);
    if (!capture || capture->n_tokens != sequence->n_tokens || capture->hidden != shape->hidden ||
        capture->head_width != shape->head_width)
        return hs_fail(err, HS_INVALID, "the capture was made for another text or model");
    const hs_status st = tokens_check(shape, sequence, err);
    return st ? st : interventions_check(shape, sequence, err);
}

/* Fails unless all sequences start in the same layer: the rows of all pass through the layers together. */
static hs_status starts_check(const hs_shape *shape, hs_plan *plan, hs_error *err)
{
    const hs_start *first = plan->n_sequences > 0 ? plan->sequences[0].start : NULL;
    for (size_t s = 0; s < plan->n_sequences; s++) {
        const hs_start *start = plan->sequences[s].start;
        if (!start != !first ||
            (start && (start->layer != first->layer || !start->head_outputs != !first->head_outputs)))
            return hs_fail(err, HS_INVALID, "the sequences of a pass must start at the same point");
        if (start && (start->layer >= shape->n_layers || !start->state))
            return hs_fail(err, HS_INVALID, "a sequence must start below layer %zu, with a state",
                           shape->n_layers);
    }
    plan->first_layer = first ? first->layer : 0;
    plan->starts_behind_heads = first && first->head_outputs;
    return HS_OK;
}

/* Finds the last layer to compute: the last one that a capture selects, or all layers if the last state
 * is kept. Only the heads of that layer are computed, unless a state after it is kept. */
static void depth_find(hs_plan *plan)
{
    plan->heads_only = true;
    for (size_t s = 0; s < plan->n_sequences; s++) {
        const hs_capture *capture = plan->sequences[s].capture;
        const bool all = capture->taps & (HS_KEEP(LAST_STATE) | HS_KEEP(EVERY_STATE));
        const bool states = all || capture->taps & HS_KEEP(HIDDEN_STATE);
        const size_t listed = capture->n_layers > 0 ? (size_t)capture->layers[capture->n_layers - 1] + 1 : 0;
        const size_t n = all ? capture->depth : listed;
        if (n > plan->n_layers || (n == plan->n_layers && states))
            plan->heads_only = !states;
        plan->n_layers = n > plan->n_layers ? n : plan->n_layers;
    }
}

hs_status hs_plan_make(const hs_architecture *architecture, const hs_sequence *sequences, size_t n_sequences,
                       const hs_observer *observer, hs_plan *ret_plan, hs_error *err)
{
    hs_plan plan = {.architecture = architecture,
                    .sequences = sequences,
                    .n_sequences = n_sequences,
                    .observer = observer};
    for (size_t s = 0; s < n_sequences; s++) {
        const hs_status st = sequence_check(&architecture->shape, &sequences[s], err);
        if (st)
            return st;
        plan.n_tokens += sequences[s].n_tokens;
    }
    const hs_status st = starts_check(&architecture->shape, &plan, err);
    if (st)
        return st;
    depth_find(&plan);
    *ret_plan = plan;
    return HS_OK;
}
