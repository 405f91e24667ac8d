/* head.c - describes one head of a block: what it computes, and where its operands lie. */
#include "engine/pass/pass.h"

/* Combines all interventions of a sequence in one head. */
static hs__head_change change_of(const hs__head_place *place)
{
    const hs_sequence *sequence = place->sequence;
    hs__head_change change = {.factor = 1};
    for (size_t i = 0; i < sequence->n_interventions; i++) {
        const hs_intervention *intervention = &sequence->interventions[i];
        if (hs_intervention_is_of_state(intervention) || intervention->cross != place->cross ||
            hs__list_find(intervention->layers, intervention->n_layers, place->layer) < 0 ||
            hs__list_find(intervention->heads, intervention->n_heads, place->head) < 0)
            continue;
        change.uniform |= intervention->kind == HS_INTERVENE_UNIFORM;
        change.identity |= intervention->kind == HS_INTERVENE_IDENTITY;
        change.patched |= intervention->kind == HS_INTERVENE_PATCH;
        change.mean |= intervention->kind == HS_INTERVENE_MEAN;
        if (intervention->kind == HS_INTERVENE_CUT &&
            (!change.distance || intervention->distance < change.distance))
            change.distance = intervention->distance;
        if (intervention->kind == HS_INTERVENE_ZERO)
            change.factor = 0;
        if (intervention->kind == HS_INTERVENE_SCALE)
            change.factor *= intervention->factor;
    }
    return change;
}

/* Returns the rotation of a block for a text of so many tokens, or NULL. */
static const hs__rotation *rotation_of(const hs_engine *engine, size_t block, size_t n_tokens)
{
    const hs_rotary *rotary = &engine->architecture->rotary;
    const hs__rotation *rotation = engine->layers[block].rotation;
    const bool is_long = rotation && rotary->divisors && n_tokens > rotary->original_positions;
    return is_long && !rotation->unscaled ? rotation + 1 : rotation;
}

/* Returns the key-value head that a head reads. */
static size_t shared_of(const hs_engine *engine, size_t index)
{
    return index / (engine->shape.n_heads / hs_shape_kv_heads(&engine->shape));
}

/* Finds the norms of one head's queries and keys. Those of all heads' columns are no part of the head. */
static void norms_place(const hs_engine *engine, size_t block, size_t index, hs__head *head)
{
    const hs__packed_norm q = engine->layers[block].query_norm, k = engine->layers[block].key_norm;
    if (engine->architecture->qk_norms_whole || !q.gamma)
        return;
    const size_t shared = shared_of(engine, index);
    head->query_norm = (hs__packed_norm){.gamma = q.gamma + index * q.step, .beta = q.beta + index * q.step};
    head->key_norm = (hs__packed_norm){.gamma = k.gamma + shared * k.step, .beta = k.beta + shared * k.step};
}

hs__head hs__head_describe(const hs_engine *engine, size_t block, size_t index, const hs_sequence *sequence)
{
    const hs_architecture *architecture = engine->architecture;
    const size_t n = hs_architecture_layer_blocks(architecture);
    const bool cross = block % n == 1;
    const hs__packed_layer *layer = &engine->layers[block];
    const size_t n_past = sequence->past ? sequence->past->n_tokens : 0;
    hs__head head = {.T = sequence->n_tokens,
                     .K = cross ? sequence->n_memory : sequence->n_tokens,
                     .D = engine->shape.head_width,
                     .add_norm = engine->add_norm,
                     .norm_eps = architecture->norm_eps,
                     .rotary_half = engine->rotary_half,
                     .causal = architecture->causal && !cross,
                     .scale = layer->score_scale,
                     .cap = (float)architecture->score_cap,
                     .rotation = rotation_of(engine, block, sequence->n_tokens + n_past),
                     .window = layer->window,
                     .place = {sequence, block / n, index, cross}};
    head.change = change_of(&head.place);
    if (head.change.distance && (!head.window || head.change.distance < head.window))
        head.window = head.change.distance;
    norms_place(engine, block, index, &head);
    hs__positions_place(engine, layer, cross, index, &head);
    return head;
}

void hs__operands_place(const hs_engine *engine, size_t block, size_t index, float *qkv, float *memory,
                        hs__head *head)
{
    const size_t A = engine->attention_width, B = hs_shape_kv_width(&engine->shape), D = head->D;
    const size_t shared = shared_of(engine, index);
    head->step = head->key_step = engine->layers[block].qkv->n_out;
    if (head->place.cross) {
        head->key_step = 2 * B;
        head->q = qkv + index * D;
        head->k = memory + shared * D;
        head->v = head->k + B;
    } else {
        head->q = qkv + index * D;
        head->k = qkv + A + shared * D;
        head->v = qkv + A + B + shared * D;
    }
}
