/* plan.c - what a pass computes and keeps: captures, interventions, plans. */
#include "engine/plan.h"

#include "engine/arena.h"
#include "engine/pass/pass.h"
#include "engine/pass/team.h"

#include <math.h>
#include <string.h>

/* ---- capture ----
 *
 * Captures: one layout function measures and carves the block, the runtime's pool gives the
 * memory. */

/* The start of a capture's block. */
typedef struct capture_store {
    hs_capture capture;
    size_t block_bytes;
} capture_store;

static const hs_axis tap_axes[HS_N_TAPS][HS_AXES_MAX + 1] = {
    [HS_TAP_QUERY] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_HEAD_WIDTH},
    [HS_TAP_KEY] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_KEY, HS_AXIS_HEAD_WIDTH},
    [HS_TAP_VALUE] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_KEY, HS_AXIS_HEAD_WIDTH},
    [HS_TAP_VALUE_NORMS] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_KEY},
    [HS_TAP_SCORES] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_KEY},
    [HS_TAP_SCORES_C2C] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_KEY},
    [HS_TAP_SCORES_C2P] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_KEY},
    [HS_TAP_SCORES_P2C] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_KEY},
    [HS_TAP_ATTENTION] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_KEY},
    [HS_TAP_COLUMNS] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_KEY},
    [HS_TAP_HEAD_OUTPUT] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_HEAD_WIDTH},
    [HS_TAP_SIMILARITY] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_TOKEN},
    [HS_TAP_RESIDUAL_SIMILARITY] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_TOKEN},
    [HS_TAP_CENTERED_SIMILARITY] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_TOKEN},
    [HS_TAP_CENTERED_RESIDUAL_SIMILARITY] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_TOKEN},
    [HS_TAP_HIDDEN_STATE] = {HS_AXIS_STATE, HS_AXIS_TOKEN, HS_AXIS_HIDDEN},
    [HS_TAP_LAST_STATE] = {HS_AXIS_TOKEN, HS_AXIS_HIDDEN},
    [HS_TAP_EVERY_STATE] = {HS_AXIS_DEPTH, HS_AXIS_TOKEN, HS_AXIS_HIDDEN},
    [HS_TAP_CROSS_STATE] = {HS_AXIS_MODEL_LAYER, HS_AXIS_TOKEN, HS_AXIS_HIDDEN},
};

/* clang-format off */
#define FOUR(n)    (n), (n) + 1, (n) + 2, (n) + 3
#define SIXTEEN(n) FOUR(n), FOUR((n) + 4), FOUR((n) + 8), FOUR((n) + 12)
#define QUARTER(n) SIXTEEN(n), SIXTEEN((n) + 16), SIXTEEN((n) + 32), SIXTEEN((n) + 48)

const uint16_t hs_all_numbers[HS_LAYERS_MAX] = {QUARTER(0), QUARTER(64), QUARTER(128), QUARTER(192)};

/* clang-format on */
_Static_assert(HS_LAYERS_MAX == 256 && HS_HEADS_MAX <= HS_LAYERS_MAX, "the numbers are all");

hs_selection hs_select_all(const hs_shape *shape, unsigned taps)
{
    return (hs_selection){hs_all_numbers, shape->n_layers, hs_all_numbers, shape->n_heads, taps, 0};
}

const hs_axis *hs_tap_axes(hs_tap tap)
{
    return tap_axes[tap];
}

size_t hs_capture_length(const hs_capture *capture, hs_axis axis)
{
    const size_t lengths[] = {
        [HS_AXIS_NONE] = 1,
        [HS_AXIS_LAYER] = capture->n_layers,
        [HS_AXIS_STATE] = 1 + capture->n_layers,
        [HS_AXIS_MODEL_LAYER] = capture->depth,
        [HS_AXIS_DEPTH] = 1 + capture->depth,
        [HS_AXIS_HEAD] = capture->n_heads,
        [HS_AXIS_KV_HEAD] = capture->n_heads,
        [HS_AXIS_TOKEN] = capture->n_tokens,
        [HS_AXIS_KEY] = capture->n_keys,
        [HS_AXIS_HEAD_WIDTH] = capture->head_width,
        [HS_AXIS_HIDDEN] = capture->hidden,
    };
    return lengths[axis];
}

/* Returns the number of elements of a tap, from its axis `from` on. */
static size_t tap_floats(const hs_capture *capture, hs_tap tap, size_t from)
{
    size_t n = 1;
    for (const hs_axis *axis = tap_axes[tap] + from; *axis; axis++)
        n *= hs_capture_length(capture, *axis);
    return n;
}

/* Measures (base NULL) or carves the block after the struct: layers, heads, then the taps in order. */
static void capture_layout(hs_capture *capture, const hs_selection *selection, hs__arena *arena)
{
    capture->layers = hs__arena_take(arena, selection->n_layers * sizeof *selection->layers);
    capture->heads = hs__arena_take(arena, selection->n_heads * sizeof *selection->heads);
    for (size_t tap = 0; tap < HS_N_TAPS; tap++)
        if (capture->taps >> tap & 1)
            capture->arrays[tap] = hs__arena_floats(arena, tap_floats(capture, tap, 0));
}

static hs_capture capture_describe(hs_runtime *runtime, const hs_shape *shape, const hs_selection *selection,
                                   size_t n_tokens)
{
    return (hs_capture){
        .runtime = runtime,
        .n_tokens = n_tokens,
        .n_keys = selection->n_memory > 0 ? selection->n_memory : n_tokens,
        .cross = selection->n_memory > 0,
        .n_layers = selection->n_layers,
        .n_heads = selection->n_heads,
        .head_width = shape->head_width,
        .hidden = shape->hidden,
        .depth = shape->n_layers,
        .taps = selection->taps | (selection->taps & HS_KEEP(ATTENTION) ? HS_KEEP(COLUMNS) : 0),
    };
}

size_t hs_capture_bytes(const hs_shape *shape, const hs_selection *selection, size_t n_tokens)
{
    hs_capture capture = capture_describe(NULL, shape, selection, n_tokens);
    hs__arena arena = {0};
    hs__arena_take(&arena, sizeof(capture_store));
    capture_layout(&capture, selection, &arena);
    return arena.used;
}

static void *block_take(hs_runtime *runtime, size_t bytes, size_t *ret_bytes)
{
    *ret_bytes = bytes;
    return runtime ? hs_runtime_block_take(runtime, bytes, ret_bytes) : hs_memory_create(bytes);
}

hs_status hs_capture_create(hs_runtime *runtime, const hs_shape *shape, const hs_selection *selection,
                            size_t n_tokens, hs_capture **ret_capture, hs_error *err)
{
    if (!hs__list_is_sound(selection->layers, selection->n_layers, shape->n_layers))
        return hs_fail(err, HS_INVALID, "layers must be ascending and below %zu", shape->n_layers);
    if (!hs__list_is_sound(selection->heads, selection->n_heads, shape->n_heads))
        return hs_fail(err, HS_INVALID, "heads must be ascending and below %zu", shape->n_heads);
    if (n_tokens < 1 || n_tokens > shape->n_positions)
        return hs_fail(err, HS_TOO_LARGE, "%zu tokens are not within 1 and %zu", n_tokens,
                       shape->n_positions);

    const size_t bytes = hs_capture_bytes(shape, selection, n_tokens);
    size_t taken_bytes;
    void *taken = block_take(runtime, bytes, &taken_bytes);
    if (!taken)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for the heads of %zu tokens (%zu bytes)", n_tokens,
                       bytes);

    hs__arena arena = {.base = taken};
    capture_store *store = hs__arena_take(&arena, sizeof *store);
    *store = (capture_store){capture_describe(runtime, shape, selection, n_tokens), taken_bytes};
    hs_capture *capture = &store->capture;
    capture->bytes = bytes;
    capture_layout(capture, selection, &arena);
    if (selection->n_layers > 0)
        memcpy((void *)capture->layers, selection->layers, selection->n_layers * sizeof *selection->layers);
    if (selection->n_heads > 0)
        memcpy((void *)capture->heads, selection->heads, selection->n_heads * sizeof *selection->heads);
    *ret_capture = capture;
    return HS_OK;
}

void hs_capture_destroy(hs_capture *capture)
{
    if (!capture)
        return;
    if (capture->runtime)
        hs_runtime_block_return(capture->runtime, capture, ((capture_store *)capture)->block_bytes);
    else
        free(capture);
}

float *hs_capture_at(const hs_capture *capture, hs_tap tap, size_t l, size_t h)
{
    const bool heads = tap_axes[tap][1] == HS_AXIS_HEAD;
    const size_t index = heads ? l * capture->n_heads + h : l;
    return capture->arrays[tap] + index * tap_floats(capture, tap, heads ? 2 : 1);
}

const float *hs_capture_state(const hs_capture *capture, size_t state)
{
    const ptrdiff_t l = state > 0 ? hs__list_find(capture->layers, capture->n_layers, state - 1) : -1;
    return hs_capture_at(capture, HS_TAP_HIDDEN_STATE, (size_t)(l + 1), 0);
}

const float *hs_capture_input(const hs_capture *capture, size_t layer)
{
    return hs_capture_at(capture, capture->cross ? HS_TAP_CROSS_STATE : HS_TAP_EVERY_STATE, layer, 0);
}

static void copy_heads(const hs_capture *from, hs_capture *to, hs_tap tap, size_t l)
{
    const ptrdiff_t from_l = hs__list_find(from->layers, from->n_layers, to->layers[l]);
    for (size_t h = 0; h < to->n_heads; h++) {
        const ptrdiff_t from_h = hs__list_find(from->heads, from->n_heads, to->heads[h]);
        memcpy(hs_capture_at(to, tap, l, h), hs_capture_at(from, tap, (size_t)from_l, (size_t)from_h),
               tap_floats(to, tap, 2) * sizeof(float));
    }
}

/* Copies states; the state that enters a layer is the one after the layer below. */
static void copy_states(const hs_capture *from, hs_capture *to, size_t n_layers)
{
    const size_t n = to->n_tokens * to->hidden;
    if (to->arrays[HS_TAP_EVERY_STATE])
        memcpy(to->arrays[HS_TAP_EVERY_STATE], from->arrays[HS_TAP_EVERY_STATE],
               n_layers * n * sizeof(float));
    if (to->arrays[HS_TAP_CROSS_STATE])
        memcpy(to->arrays[HS_TAP_CROSS_STATE], from->arrays[HS_TAP_CROSS_STATE],
               n_layers * n * sizeof(float));
    if (!to->arrays[HS_TAP_HIDDEN_STATE] || n_layers == 0)
        return;
    memcpy(to->arrays[HS_TAP_HIDDEN_STATE], from->arrays[HS_TAP_HIDDEN_STATE], n * sizeof(float));
    for (size_t l = 0; l < to->n_layers && to->layers[l] + 1U < n_layers; l++) {
        const ptrdiff_t from_l = hs__list_find(from->layers, from->n_layers, to->layers[l]);
        memcpy(hs_capture_at(to, HS_TAP_HIDDEN_STATE, l + 1, 0),
               hs_capture_at(from, HS_TAP_HIDDEN_STATE, (size_t)from_l + 1, 0), n * sizeof(float));
    }
}

void hs_capture_copy_below(const hs_capture *from, hs_capture *to, size_t n_layers)
{
    for (size_t tap = 0; tap < HS_N_TAPS; tap++)
        for (size_t l = 0; to->arrays[tap] && tap_axes[tap][1] == HS_AXIS_HEAD && l < to->n_layers; l++)
            if (to->layers[l] < n_layers)
                copy_heads(from, to, (hs_tap)tap, l);
    copy_states(from, to, n_layers);
}

/* ---- plan ----
 *
 * Checks a request once, so that the loops of a pass need no checks. */

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

bool hs_intervention_is_of_state(const hs_intervention *intervention)
{
    return intervention->kind == HS_INTERVENE_ADD || intervention->kind == HS_INTERVENE_PATCH_STATE;
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
        return capture->taps & HS_KEEP(HEAD_OUTPUT) && capture->cross == patch->cross &&
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
    if (!patch_is_kept(patch, patch->from->capture))
        return hs_fail(err, HS_INVALID, "the pass that a patch is from does not keep what it takes");
    return HS_OK;
}

static hs_status positions_check(const hs_intervention *intervention, size_t n_tokens, hs_error *err)
{
    const size_t *positions = intervention->positions;
    for (size_t i = 0; i < intervention->n_positions; i++)
        if (positions[i] >= n_tokens || (i > 0 && positions[i] <= positions[i - 1]))
            return hs_fail(err, HS_INVALID, "an intervention's positions must be ascending and below %zu",
                           n_tokens);
    return HS_OK;
}

static hs_status vector_check(const hs_intervention *addition, size_t hidden, hs_error *err)
{
    const size_t n = addition->n_vector;
    if (!addition->vector || (n != hidden && n != addition->n_layers * hidden))
        return hs_fail(err, HS_INVALID, "an addition needs a vector of the hidden size, %zu", hidden);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(addition->factor * addition->vector[i]))
            return hs_fail(err, HS_INVALID,
                           "the vector to add, times its factor, is not within the range of floats");
    return HS_OK;
}

static hs_status cut_check(const hs_architecture *architecture, const hs_intervention *cut, hs_error *err)
{
    if (cut->distance < 1)
        return hs_fail(err, HS_INVALID, "the distance of a cut must be at least 1");
    if (cut->cross)
        return hs_fail(
            err, HS_INVALID,
            "the map of a cross head has no distances to cut at: its rows and columns are tokens of two "
            "texts");
    if (architecture->relative.table.data)
        return hs_fail(
            err, HS_INVALID,
            "attention cannot be cut in models whose scores have terms of relative positions (DeBERTa)");
    return HS_OK;
}

static hs_status intervention_check(const hs_architecture *architecture, const hs_intervention *intervention,
                                    hs_error *err)
{
    const hs_shape *shape = &architecture->shape;
    const size_t limit = shape->n_layers + hs_intervention_is_of_state(intervention);
    if (!hs__list_is_sound(intervention->layers, intervention->n_layers, limit))
        return hs_fail(err, HS_INVALID, "an intervention's layers must be ascending and below %zu", limit);
    if (!hs__list_is_sound(intervention->heads, intervention->n_heads, shape->n_heads))
        return hs_fail(err, HS_INVALID, "an intervention's heads must be ascending and below %zu",
                       shape->n_heads);
    if ((intervention->kind == HS_INTERVENE_SCALE || intervention->kind == HS_INTERVENE_ADD) &&
        !isfinite(intervention->factor))
        return hs_fail(err, HS_INVALID, "an intervention's factor must be a finite number");
    if (intervention->kind == HS_INTERVENE_IDENTITY && intervention->cross)
        return hs_fail(err, HS_INVALID,
                       "the map of a cross head cannot be the identity: its rows and columns are tokens of "
                       "two texts");
    return intervention->kind == HS_INTERVENE_CUT ? cut_check(architecture, intervention, err) : HS_OK;
}

/* Fails if a head's map would be both uniform and the identity. */
static hs_status maps_check(const hs_intervention *interventions, size_t n_interventions,
                            const hs_intervention *uniform, hs_error *err)
{
    for (size_t i = 0; i < n_interventions; i++) {
        const hs_intervention *identity = &interventions[i];
        if (identity->kind != HS_INTERVENE_IDENTITY || identity->cross != uniform->cross)
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

hs_status hs_interventions_check(const hs_architecture *architecture, const hs_intervention *interventions,
                                 size_t n_interventions, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t i = 0; !st && i < n_interventions; i++)
        st = intervention_check(architecture, &interventions[i], err);
    for (size_t i = 0; !st && i < n_interventions; i++)
        if (interventions[i].kind == HS_INTERVENE_UNIFORM)
            st = maps_check(interventions, n_interventions, &interventions[i], err);
    return st;
}

/* Checks what interventions take from other texts, and where they put it. */
static hs_status values_check(const hs_shape *shape, const hs_sequence *sequence, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t i = 0; !st && i < sequence->n_interventions; i++) {
        const hs_intervention *intervention = &sequence->interventions[i];
        if (hs_intervention_is_patch(intervention))
            st = patch_check(intervention, sequence->n_tokens, err);
        else if (intervention->kind == HS_INTERVENE_ADD)
            st = vector_check(intervention, shape->hidden, err);
        if (!st)
            st = positions_check(intervention, sequence->n_tokens, err);
    }
    return st;
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

/* Checks that a decoder has its memory, and that nothing names cross heads of other models. */
static hs_status memory_check(const hs_architecture *architecture, const hs_sequence *sequence, hs_error *err)
{
    const size_t n_positions = architecture->shape.n_positions;
    bool cross =
        sequence->memory || sequence->capture->cross || sequence->capture->taps & HS_KEEP(CROSS_STATE);
    for (size_t i = 0; i < sequence->n_interventions; i++)
        cross |= sequence->interventions[i].cross;
    if (cross && !architecture->crosses)
        return hs_fail(err, HS_INVALID, "the model has no cross heads and reads no memory");
    if (architecture->crosses && !sequence->memory)
        return hs_fail(err, HS_INVALID, "a decoder needs the states of its encoder");
    if (sequence->memory && (sequence->n_memory < 1 || sequence->n_memory > n_positions))
        return hs_fail(err, HS_TOO_LARGE, "%zu tokens of the source are not within 1 and the model's %zu",
                       sequence->n_memory, n_positions);
    if (sequence->capture->cross && sequence->capture->n_keys != sequence->n_memory)
        return hs_fail(err, HS_INVALID, "the capture was made for another source");
    return HS_OK;
}

static hs_status sequence_check(const hs_architecture *architecture, const hs_sequence *sequence,
                                hs_error *err)
{
    const hs_shape *shape = &architecture->shape;
    const hs_capture *capture = sequence->capture;
    if (sequence->n_tokens < 1 || sequence->n_tokens > shape->n_positions)
        return hs_fail(err, HS_TOO_LARGE, "%zu tokens are not within 1 and the model's %zu",
                       sequence->n_tokens, shape->n_positions);
    if (!capture || capture->n_tokens != sequence->n_tokens || capture->hidden != shape->hidden ||
        capture->head_width != shape->head_width)
        return hs_fail(err, HS_INVALID, "the capture was made for another text or model");
    hs_status st = memory_check(architecture, sequence, err);
    if (!st)
        st = tokens_check(shape, sequence, err);
    if (!st)
        st = hs_interventions_check(architecture, sequence->interventions, sequence->n_interventions, err);
    return st ? st : values_check(shape, sequence, err);
}

size_t hs__sequence_memory(const hs_sequence *sequences, size_t s)
{
    const bool shared = s > 0 && sequences[s].memory == sequences[s - 1].memory &&
                        sequences[s].n_memory == sequences[s - 1].n_memory;
    return sequences[s].memory && !shared ? sequences[s].n_memory : 0;
}

/* Checks a past, whose sequence is alone and keeps nothing of heads: these have other keys than a capture. */
static hs_status past_check(hs_plan *plan, hs_error *err)
{
    const hs_sequence *sequence = plan->sequences;
    const hs_past *past = NULL;
    for (size_t s = 0; s < plan->n_sequences; s++)
        past = plan->sequences[s].past ? plan->sequences[s].past : past;
    if (!past)
        return HS_OK;
    if (plan->n_sequences > 1 || plan->observer || !plan->architecture->causal || sequence->start ||
        sequence->n_interventions > 0 || sequence->capture->taps != HS_KEEP(LAST_STATE))
        return hs_fail(err, HS_INVALID,
                       "behind the past of a causal text, a pass computes one sequence's last states only");
    if (past->n_memory != sequence->n_memory || past->crosses != plan->architecture->crosses)
        return hs_fail(err, HS_INVALID, "the past was made for another source or model");
    if (past->n_tokens + sequence->n_tokens > past->n_tokens_max)
        return hs_fail(err, HS_TOO_LARGE, "%zu tokens are more than the %zu that the past was made for",
                       past->n_tokens + sequence->n_tokens, past->n_tokens_max);
    plan->past = sequence->past;
    return HS_OK;
}

/* Fails unless all sequences start in the same layer: the rows of all pass through the layers together. */
static hs_status starts_check(hs_plan *plan, hs_error *err)
{
    const hs_shape *shape = &plan->architecture->shape;
    const hs_start *first = plan->n_sequences > 0 ? plan->sequences[0].start : NULL;
    for (size_t s = 0; s < plan->n_sequences; s++) {
        const hs_start *start = plan->sequences[s].start;
        if (!start != !first ||
            (start && (start->layer != first->layer || !start->head_outputs != !first->head_outputs ||
                       !start->written != !first->written || start->cross != first->cross)))
            return hs_fail(err, HS_INVALID, "the sequences of a pass must start at the same point");
        if (start && (start->layer >= shape->n_layers || !start->state))
            return hs_fail(err, HS_INVALID, "a sequence must start below layer %zu, with a state",
                           shape->n_layers);
        if (start && start->cross &&
            (!plan->architecture->crosses || (!start->head_outputs && !start->written)))
            return hs_fail(err, HS_INVALID, "only a decoder starts behind cross heads, with their outputs");
    }
    plan->first_block =
        first ? first->layer * hs_architecture_layer_blocks(plan->architecture) + first->cross : 0;
    plan->starts_behind_output = first && first->written;
    plan->starts_behind_heads = first && (first->head_outputs || first->written);
    return HS_OK;
}

/* Finds the last block to compute: the last one that a capture selects, or all blocks if the last state
 * is kept. Only the heads of that block are computed, unless a state after it is kept. */
static void depth_find(hs_plan *plan)
{
    const size_t n_layer = hs_architecture_layer_blocks(plan->architecture);
    plan->heads_only = true;
    for (size_t s = 0; s < plan->n_sequences; s++) {
        const hs_capture *capture = plan->sequences[s].capture;
        const bool all = capture->taps & (HS_KEEP(LAST_STATE) | HS_KEEP(EVERY_STATE) | HS_KEEP(CROSS_STATE));
        const bool states = all || capture->taps & HS_KEEP(HIDDEN_STATE);
        const size_t listed = capture->n_layers > 0 ? (size_t)capture->layers[capture->n_layers - 1] + 1 : 0;
        size_t n = (all ? capture->depth : listed) * n_layer;
        if (n_layer == 2 && n > 0 && !states && !capture->cross)
            n--; /* the cross heads come after the heads that are selected */
        if (n > plan->n_blocks || (n == plan->n_blocks && states))
            plan->heads_only = !states;
        plan->n_blocks = n > plan->n_blocks ? n : plan->n_blocks;
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
        const hs_status st = sequence_check(architecture, &sequences[s], err);
        if (st)
            return st;
        plan.n_tokens += sequences[s].n_tokens;
        plan.n_memory += hs__sequence_memory(sequences, s);
    }
    hs_status st = starts_check(&plan, err);
    if (!st)
        st = past_check(&plan, err);
    if (st)
        return st;
    depth_find(&plan);
    *ret_plan = plan;
    return HS_OK;
}

/* ---- patch and add ----
 *
 * Activation patching puts activations of one pass into another (Vig et al. 2020; Meng et al. 2022). A patch
 * copies rows, so that patching a text with itself changes no bit. Steering adds a vector to states (Turner
 * et al. 2023). */

static bool names_layer(const hs_intervention *intervention, size_t layer)
{
    return hs__list_find(intervention->layers, intervention->n_layers, layer) >= 0;
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
        if (patch->kind != HS_INTERVENE_PATCH || patch->cross != place->cross ||
            !names_layer(patch, place->layer) || hs__list_find(patch->heads, patch->n_heads, place->head) < 0)
            continue;
        const hs_capture *capture = patch->from->capture;
        const ptrdiff_t l = hs__list_find(capture->layers, capture->n_layers, place->layer),
                        h = hs__list_find(capture->heads, capture->n_heads, place->head);
        rows_copy(patch, sequence->n_tokens, width,
                  hs_capture_at(capture, HS_TAP_HEAD_OUTPUT, (size_t)l, (size_t)h), output, step);
    }
}

/* Adds factor times the vector of the state to the rows of x [n_tokens][hidden] at the positions. */
static void vector_add(const hs_intervention *addition, size_t state, size_t n_tokens, size_t hidden,
                       float *x)
{
    const size_t n = addition->n_positions > 0 ? addition->n_positions : n_tokens;
    const bool shared = addition->n_vector == hidden;
    const size_t at = shared ? 0 : (size_t)hs__list_find(addition->layers, addition->n_layers, state);
    const float *vector = addition->vector + at * hidden;
    for (size_t i = 0; i < n; i++) {
        float *row = x + (addition->n_positions > 0 ? addition->positions[i] : i) * hidden;
        for (size_t j = 0; j < hidden; j++)
            row[j] += addition->factor * vector[j];
    }
}

/* Returns true if the intervention changes bits of this state. */
static bool changes_state(const hs_intervention *intervention, size_t state)
{
    const bool is_nothing = intervention->kind == HS_INTERVENE_ADD && intervention->factor == 0;
    return hs_intervention_is_of_state(intervention) && !is_nothing && names_layer(intervention, state);
}

bool hs__state_is_changed(const hs_plan *plan, size_t state)
{
    for (size_t s = 0; s < plan->n_sequences; s++)
        for (size_t i = 0; i < plan->sequences[s].n_interventions; i++)
            if (changes_state(&plan->sequences[s].interventions[i], state))
                return true;
    return false;
}

void hs__state_change(const hs_plan *plan, size_t state, size_t hidden, float *x)
{
    for (size_t s = 0; s < plan->n_sequences; s++) {
        const hs_sequence *sequence = &plan->sequences[s];
        const hs_start *start = sequence->start;
        const bool stays = start && !start->unchanged && state == start->layer;
        for (size_t i = 0; !stays && i < sequence->n_interventions; i++) {
            const hs_intervention *change = &sequence->interventions[i];
            if (!changes_state(change, state))
                continue;
            if (change->kind == HS_INTERVENE_ADD)
                vector_add(change, state, sequence->n_tokens, hidden, x);
            else
                rows_copy(change, sequence->n_tokens, hidden, hs_capture_state(change->from->capture, state),
                          x, hidden);
        }
        x += sequence->n_tokens * hidden;
    }
}
