/* outputs.c - the table of outputs, the arrays among them, and functions over all rows. */
#include "api/outputs/outputs.h"

#include "api/outputs/structures.h"
#include "engine/analysis/flows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ==== arrays of the pass ==== */

/* Outputs that are arrays of the pass, as they are or nearly so. */

static const float *part_similarities(const hs__answer *a, size_t l, size_t h, float *into)
{
    const size_t T = a->capture->n_tokens;
    const float *map = hs__answer_at(a, hs__answer_similarity(a), l, h);
    if (!a->analysis->normalize)
        return map;
    hs_similarity_normalize(map, T, a->masked, hs_similarity_max(map, T, a->masked), into);
    return into;
}

/* State 0 is the embeddings; then comes one state per requested layer. */
static const float *part_hidden_states(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)into;
    return hs_capture_at(a->capture, HS_TAP_HIDDEN_STATE, l == 0 ? 0 : (size_t)a->layer_at[l - 1] + 1, h);
}

/* Norm-weighted attention (Kobayashi et al. 2020, arXiv 2004.10102): ||f(x_j)|| and
 * A[i,j] ||f(x_j)||, f(x) = v W_O of the head. */

static const float *part_value_norms(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)into;
    return hs__answer_at(a, HS_TAP_VALUE_NORMS, l, h);
}

static const float *part_weighted_norms(const hs__answer *a, size_t l, size_t h, float *into)
{
    const size_t T = a->capture->n_tokens, K = a->capture->n_keys;
    const float *attention = hs__answer_at(a, HS_TAP_ATTENTION, l, h);
    const float *norms = hs__answer_at(a, HS_TAP_VALUE_NORMS, l, h);
    for (size_t i = 0; i < T; i++)
        for (size_t j = 0; j < K; j++)
            into[i * K + j] = attention[i * K + j] * norms[j];
    return into;
}

/* ---- effective attention and rollout ---- */

static const float *part_effective_attentions(const hs__answer *a, size_t l, size_t h, float *into)
{
    hs_effective_attention(hs__answer_at(a, HS_TAP_ATTENTION, l, h), hs__answer_at(a, HS_TAP_VALUE, l, h),
                           a->capture->n_tokens, a->capture->n_keys, a->capture->head_width,
                           into + hs__answer_part_floats(a), into);
    return into;
}

/* Computes map times `before`, on as many threads as the sizes deserve. */
static void flow_step(const hs__answer *a, const float *map, const float *before, float *scratch,
                      float *after)
{
    const size_t T = a->capture->n_tokens;
    hs_flow_step(hs_engine_runtime(a->model->engine), hs__answer_threads(a, T * T), map, before, T, scratch,
                 after);
}

/* Computes the mean of a layer's maps. map: scratch for maps that are computed again. */
static hs_status layer_mean(const hs__answer *a, size_t layer, float *map, float *ret_mean, hs_error *err)
{
    const size_t T = a->capture->n_tokens, n_heads = a->capture->n_heads;
    for (size_t h = 0; h < n_heads && !hs__answer_cancelled(a); h++) {
        const float *attention;
        const hs_status st = hs__answer_attention_rows(a, layer, h, 0, T, map, &attention, err);
        if (st)
            return st;
        hs_attention_mean_add(attention, h, n_heads, T * T, ret_mean);
    }
    return HS_OK;
}

/* Returns the number of maps that hold the results of layers which are not requested: a step reads one of
 * them and writes the other. Requested results are kept, and read there. */
static size_t spare_maps(const hs__analysis_request *analysis)
{
    const size_t n_passed = analysis->layers[analysis->n_layers - 1] + 1U - analysis->n_layers;
    return n_passed < 2 ? n_passed : 2;
}

/* Returns the map of n numbers that a step writes: `kept` of a requested layer, else a spare one. */
static float *step_result(bool requested, float *kept, float *spare, const float *before, size_t n)
{
    return requested ? kept : before == spare ? spare + n : spare;
}

/* Every layer is captured, and every head of it. */
static hs_status rollout_compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    const size_t T = a->capture->n_tokens, n = T * T, n_maps = 1 + spare_maps(a->analysis);
    if (a->own[HS__OWN_CROSS_ROLLOUT])
        return HS_OK;
    float *scratch = malloc((n_maps * n + hs_flow_scratch_floats(T)) * sizeof *scratch);
    float *rollouts = *ret_result = malloc(a->analysis->n_layers * n * sizeof *rollouts);
    if (!scratch || !rollouts) {
        free(scratch);
        return hs_fail(err, HS_NO_MEMORY, "no memory for the rollout");
    }
    hs_status st = HS_OK;
    float *before = NULL, *mean = scratch;
    for (size_t number = 0, l = 0; l < a->analysis->n_layers && !hs__answer_cancelled(a); number++) {
        const bool requested = a->analysis->layers[l] == number;
        float *after = step_result(requested, rollouts + l * n, scratch + n, before, n);
        st = layer_mean(a, number, after, mean, err);
        if (st)
            break;
        hs_rollout_weights(mean, T);
        flow_step(a, mean, before, scratch + n_maps * n, after);
        l += requested;
        before = after;
    }
    free(scratch);
    return st;
}

/* Returns the bytes of the results of steps, of the maps that these read and write, and of their scratch. */
static size_t flow_bytes(const hs__measures *m)
{
    const size_t n_maps = 1 + spare_maps(m->analysis) + m->analysis->n_layers;
    return (n_maps * m->n_tokens * m->n_keys + hs_flow_scratch_floats(m->n_tokens)) * sizeof(float);
}

/* A map that is computed again has the place of the step's result. */
static size_t rollout_bytes(const hs__measures *m)
{
    return m->analysis->stack == HS_STACK_CROSS ? 0 : flow_bytes(m);
}

static const float *part_rollout(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)h;
    (void)into;
    const float *rollouts =
        a->capture->cross ? a->own[HS__OWN_CROSS_ROLLOUT] : a->results[HS__OUTPUT_rollout];
    return rollouts + l * a->capture->n_tokens * a->capture->n_keys;
}

/* ---- contributions and ALTI ---- */

static hs_status layer_compute(const hs__answer *a, size_t l, float *map, hs_error *err)
{
    const size_t T = a->capture->n_tokens;
    const size_t n_threads = a->capture->arrays[HS_TAP_ATTENTION]
                                 ? hs__answer_threads(a, T * T * a->capture->n_heads)
                                 : a->request->n_threads;
    return hs_contributions_compute(a->model->engine, n_threads > 1 ? n_threads : 1, a->capture, l, map, err);
}

/* Computes the requested layers alone. */
static hs_status contributions_compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    const size_t n = a->capture->n_tokens * a->capture->n_keys;
    float *contributions = *ret_result = malloc(a->analysis->n_layers * n * sizeof *contributions);
    hs_status st = HS_OK;
    if (!contributions)
        return hs_fail(err, HS_NO_MEMORY, "no memory for contributions");
    for (size_t l = 0; l < a->analysis->n_layers && !st && !hs__answer_cancelled(a); l++)
        st = layer_compute(a, a->layer_at[l], contributions + l * n, err);
    return st;
}

/* Computes all layers up to the last requested one, and keeps the requested ones. Takes contributions from
 * the output of that name, which comes before. scratch: a map, the spare ones, and the scratch of a step. */
static hs_status layers_compute(const hs__answer *a, float *scratch, float *ret_alti, hs_error *err)
{
    const hs__analysis_request *analysis = a->analysis;
    const size_t n = a->capture->n_tokens * a->capture->n_tokens;
    const size_t n_maps = 1 + spare_maps(analysis);
    const float *contributions = a->results[HS__OUTPUT_contributions], *before = NULL;
    hs_status st = HS_OK;
    for (size_t number = 0, l = 0; l < analysis->n_layers && !st && !hs__answer_cancelled(a); number++) {
        const bool requested = analysis->layers[l] == number, made = requested && contributions;
        float *now = step_result(requested, ret_alti + l * n, scratch + n, before, n);
        st = made ? HS_OK : layer_compute(a, number, scratch, err);
        if (st)
            break;
        flow_step(a, made ? contributions + l * n : scratch, before, scratch + n_maps * n, now);
        before = now;
        l += requested;
    }
    return st;
}
_Static_assert((int)HS__OUTPUT_contributions < (int)HS__OUTPUT_alti,
               "alti reads contributions, so they are computed first");

static hs_status alti_compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    const size_t T = a->capture->n_tokens, n = T * T;
    float *scratch =
        malloc(((1 + spare_maps(a->analysis)) * n + hs_flow_scratch_floats(T)) * sizeof *scratch);
    float *alti = *ret_result = malloc(a->analysis->n_layers * n * sizeof *alti);
    const hs_status st = scratch && alti ? layers_compute(a, scratch, alti, err)
                                         : hs_fail(err, HS_NO_MEMORY, "no memory for contributions");
    free(scratch);
    return st;
}

static size_t again_bytes(const hs__measures *m)
{
    return m->again ? hs_contributions_again_bytes(m->shape, m->n_tokens, m->n_threads) : 0;
}

static size_t contributions_bytes(const hs__measures *m)
{
    return m->analysis->n_layers * m->n_tokens * m->n_keys * sizeof(float) + again_bytes(m);
}

static size_t alti_bytes(const hs__measures *m)
{
    return flow_bytes(m) + again_bytes(m);
}

static const hs__structure rollout_maker = {.compute = rollout_compute, .destroy = free};
static const hs__structure contributions_maker = {.compute = contributions_compute, .destroy = free};
static const hs__structure alti_maker = {.compute = alti_compute, .destroy = free};

static const float *part_contributions(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)h;
    (void)into;
    return (const float *)a->results[HS__OUTPUT_contributions] +
           l * a->capture->n_tokens * a->capture->n_keys;
}

static const float *part_alti(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)h;
    (void)into;
    return (const float *)a->results[HS__OUTPUT_alti] + l * a->capture->n_tokens * a->capture->n_tokens;
}

/* ---- arrays of own passes ---- */

static const float *part_patch_map(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)h;
    (void)into;
    return hs__is_estimated(a->analysis, HS__OUTPUT_BIT(patch_map))
               ? hs__estimated_patch_map(a, l)
               : (const float *)a->own[HS__OWN_PATCH_MAP] + l * a->text->rows.n_tokens;
}

static const float *part_value_zeroing(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)h;
    (void)into;
    return (const float *)a->own[HS__OWN_VALUE_ZEROING] +
           l * a->text->rows.n_tokens * a->text->keys->n_tokens;
}

/* ==== the table ==== */

static unsigned choose_zeroing_taps(const hs__analysis_request *analysis)
{
    return HS_VALUE_ZEROING_TAPS | hs__input_taps(analysis);
}

static unsigned choose_contribution_taps(const hs__analysis_request *analysis)
{
    return HS_CONTRIBUTIONS_TAPS | hs__input_taps(analysis);
}

#define BETWEEN "between its layers, a decoder's states also take from the text that it reads"

#define LAYER      HS_AXIS_LAYER
#define STATE      HS_AXIS_STATE
#define DEPTH      HS_AXIS_DEPTH
#define HEAD       HS_AXIS_HEAD
#define KV_HEAD    HS_AXIS_KV_HEAD
#define TOKEN      HS_AXIS_TOKEN
#define KEY        HS_AXIS_KEY
#define HEAD_WIDTH HS_AXIS_HEAD_WIDTH
#define HIDDEN     HS_AXIS_HIDDEN

/* The rows of arrays. Those of structures and of reduced maps stand beside what makes them. */

const hs__output hs__output_row_attentions = {.taps = HS_KEEP(ATTENTION),
                                              .axes = {LAYER, HEAD, TOKEN, KEY},
                                              .range = HS__RANGE_UNIT,
                                              .hook = "attn.hook_pattern"};

const hs__output hs__output_row_similarities = {.taps = HS_KEEP(SIMILARITY),
                                                .axes = {LAYER, HEAD, TOKEN, TOKEN},
                                                .part = part_similarities,
                                                .range = HS__RANGE_UNIT_IF_NORMALIZED};

const hs__output hs__output_row_head_outputs = {.taps = HS_KEEP(HEAD_OUTPUT),
                                                .axes = {LAYER, HEAD, TOKEN, HEAD_WIDTH},
                                                .hook = "attn.hook_z",
                                                .range = HS__RANGE_ANY};

const hs__output hs__output_row_hidden_states = {.taps = HS_KEEP(HIDDEN_STATE),
                                                 .axes = {STATE, TOKEN, HIDDEN},
                                                 .part = part_hidden_states,
                                                 .hook = HS__HOOK_STATES,
                                                 .range = HS__RANGE_ANY};

const hs__output hs__output_row_queries = {.taps = HS_KEEP(QUERY),
                                           .axes = {LAYER, HEAD, TOKEN, HEAD_WIDTH},
                                           .range = HS__RANGE_ANY,
                                           .hook = "attn.hook_q"};

const hs__output hs__output_row_keys = {.taps = HS_KEEP(KEY),
                                        .axes = {LAYER, KV_HEAD, KEY, HEAD_WIDTH},
                                        .range = HS__RANGE_ANY,
                                        .hook = "attn.hook_k"};

const hs__output hs__output_row_values = {.taps = HS_KEEP(VALUE),
                                          .axes = {LAYER, KV_HEAD, KEY, HEAD_WIDTH},
                                          .range = HS__RANGE_ANY,
                                          .hook = "attn.hook_v"};

const hs__output hs__output_row_scores = {.taps = HS_KEEP(SCORES),
                                          .axes = {LAYER, HEAD, TOKEN, KEY},
                                          .range = HS__RANGE_ANY,
                                          .hook = "attn.hook_attn_scores"};

const hs__output hs__output_row_scores_c2c = {
    .taps = HS_KEEP(SCORES_C2C), .axes = {LAYER, HEAD, TOKEN, KEY}, .range = HS__RANGE_ANY};

const hs__output hs__output_row_scores_c2p = {
    .taps = HS_KEEP(SCORES_C2P), .axes = {LAYER, HEAD, TOKEN, KEY}, .range = HS__RANGE_ANY};

const hs__output hs__output_row_scores_p2c = {
    .taps = HS_KEEP(SCORES_P2C), .axes = {LAYER, HEAD, TOKEN, KEY}, .range = HS__RANGE_ANY};

const hs__output hs__output_row_value_norms = {.taps = HS_KEEP(VALUE_NORMS),
                                               .axes = {LAYER, HEAD, KEY},
                                               .part = part_value_norms,
                                               .range = HS__RANGE_ANY};

const hs__output hs__output_row_weighted_norms = {.taps = HS_KEEP(VALUE_NORMS) | HS_KEEP(ATTENTION),
                                                  .axes = {LAYER, HEAD, TOKEN, KEY},
                                                  .part = part_weighted_norms,
                                                  .range = HS__RANGE_ANY};

const hs__output hs__output_row_effective_attentions = {.taps = HS_KEEP(VALUE) | HS_KEEP(ATTENTION),
                                                        .axes = {LAYER, HEAD, TOKEN, KEY},
                                                        .part = part_effective_attentions,
                                                        .long_after = true,
                                                        .range = HS__RANGE_ANY};

const hs__output hs__output_row_rollout = {.taps = HS_KEEP(ATTENTION),
                                           .axes = {LAYER, TOKEN, KEY},
                                           .part = part_rollout,
                                           .range = HS__RANGE_UNIT,
                                           .maker = &rollout_maker,
                                           .bytes = rollout_bytes,
                                           .every_head = true,
                                           .every_layer = true,
                                           .own_of_cross = &hs__own_cross_rollout,
                                           .again = HS__AGAIN_SQUARE};

const hs__output hs__output_row_contributions = {.taps = HS_CONTRIBUTIONS_TAPS,
                                                 .choose_taps = choose_contribution_taps,
                                                 .axes = {LAYER, TOKEN, KEY},
                                                 .part = part_contributions,
                                                 .long_after = true,
                                                 .range = HS__RANGE_UNIT,
                                                 .maker = &contributions_maker,
                                                 .bytes = contributions_bytes,
                                                 .again = HS__AGAIN_SQUARE,
                                                 .every_head = true,
                                                 .unchanged_only = true};

const hs__output hs__output_row_alti = {.taps = HS_CONTRIBUTIONS_TAPS,
                                        .axes = {LAYER, TOKEN, TOKEN},
                                        .part = part_alti,
                                        .long_after = true,
                                        .range = HS__RANGE_UNIT,
                                        .maker = &alti_maker,
                                        .bytes = alti_bytes,
                                        .again = HS__AGAIN,
                                        .every_head = true,
                                        .every_layer = true,
                                        .unchanged_only = true,
                                        .not_decoder = BETWEEN};

const hs__output hs__output_row_value_zeroing = {.taps = HS_VALUE_ZEROING_TAPS,
                                                 .choose_taps = choose_zeroing_taps,
                                                 .axes = {LAYER, TOKEN, KEY},
                                                 .part = part_value_zeroing,
                                                 .range = HS__RANGE_UNIT,
                                                 .every_head = true,
                                                 .every_layer = true,
                                                 .own = &hs__own_value_zeroing,
                                                 .unchanged_only = true};

const hs__output hs__output_row_patch_map = {.taps = HS_KEEP(EVERY_STATE),
                                             .axes = {DEPTH, TOKEN},
                                             .part = part_patch_map,
                                             .range = HS__RANGE_ANY,
                                             .own = &hs__own_patch_map};

/* In the order of the answer. */
static const hs__output *const rows[HS__OUTPUTS_COUNT] = {
#define ROW(name) [HS__OUTPUT_##name] = &hs__output_row_##name,
    HS__OUTPUT_NAMES(ROW)
#undef ROW
};

const hs__output *hs__output_at(size_t i)
{
    return i < HS__OUTPUTS_COUNT ? rows[i] : NULL;
}

/* ==== sets of outputs ==== */

static bool holds(hs__outputs outputs, size_t i)
{
    return outputs >> i & 1;
}

/* Replaces maps by what they are computed from. */
static unsigned sources_of(unsigned taps)
{
    const unsigned similarity = taps & HS_KEEP(SIMILARITY), attention = taps & HS_KEEP(ATTENTION);
    return (taps & ~(similarity | attention)) | (similarity ? HS_KEEP(HEAD_OUTPUT) : 0) |
           (attention ? HS_KEEP(QUERY) | HS_KEEP(KEY) : 0);
}

/* Returns what computes output i; NULL: it is an array of other parts. */
static const hs__structure *maker_of(size_t i)
{
    return rows[i]->structure ? rows[i]->structure : rows[i]->maker;
}

static bool can_repeat(const hs__output *output, const hs__analysis_request *analysis, unsigned taps)
{
    const bool rectangular = analysis->stack == HS_STACK_CROSS && taps & HS_KEEP(ATTENTION);
    return output->again == HS__AGAIN || (output->again == HS__AGAIN_SQUARE && !rectangular);
}

/* Returns the own passes of output i; NULL: it has none. */
static const hs__own_passes *own_of(const hs__analysis_request *analysis, size_t i)
{
    if (hs__is_estimated(analysis, (hs__outputs)1 << i))
        return &hs__own_gradients;
    return analysis->stack == HS_STACK_CROSS && rows[i]->own_of_cross ? rows[i]->own_of_cross : rows[i]->own;
}

hs__needs hs__outputs_needs(const hs__analysis_request *analysis, hs__outputs outputs, hs__outputs again)
{
    hs__needs needs = {0};
    for (size_t i = 0; i < HS__OUTPUTS_COUNT; i++) {
        const hs__output *output = rows[i];
        const hs__outputs bit = (hs__outputs)1 << i;
        if (!(outputs & bit))
            continue;
        const unsigned taps = output->choose_taps ? output->choose_taps(analysis) : output->taps;
        const hs__own_passes *own = own_of(analysis, i);
        needs.own |= own ? 1U << own->kind : 0;
        if (own == &hs__own_gradients)
            continue; /* its passes keep what they read */
        needs.taps |= again & bit ? sources_of(taps) : taps;
        needs.every_head |= output->every_head;
        needs.every_layer |= output->every_layer;
        needs.observing |= maker_of(i) && maker_of(i)->begin ? bit : 0;
        needs.repeating |= can_repeat(output, analysis, taps) ? bit : 0;
        needs.long_after |= output->long_after;
    }
    if (needs.taps & HS_KEEP(SIMILARITY))
        needs.taps =
            (needs.taps & ~HS_KEEP(SIMILARITY)) | 1U << hs_similarity_tap(hs__similarity_kind(analysis));
    return needs;
}

size_t hs__outputs_bytes(const hs__measures *measures, hs__outputs outputs, hs__outputs again)
{
    hs__measures of_output = *measures;
    size_t n_bytes = 0;
    for (size_t i = 0; i < HS__OUTPUTS_COUNT; i++) {
        of_output.again = holds(again, i);
        if (holds(outputs, i) && rows[i]->bytes)
            n_bytes += rows[i]->bytes(&of_output);
    }
    return n_bytes;
}

const char *hs__outputs_of_maps(hs__outputs outputs, char *ret, size_t n_ret)
{
    size_t used = 0;
    ret[0] = 0;
    for (size_t i = 0; i < HS__OUTPUTS_COUNT && used < n_ret; i++) {
        bool maps = false;
        for (hs_tap tap = 0; tap < HS_N_TAPS; tap++) {
            const hs_axis last = hs_tap_axes(tap)[3];
            maps |= rows[i]->taps >> tap & 1 && (last == HS_AXIS_KEY || last == HS_AXIS_TOKEN);
        }
        if (holds(outputs, i) && maps)
            used += (size_t)snprintf(ret + used, n_ret - used, "%s%s", used ? ", " : "", hs__output_names[i]);
    }
    return ret;
}

const hs__own_passes *const hs__own_passes_by_kind[HS__OWN_COUNT] = {
    [HS__OWN_EFFECTS] = &hs__own_effects,
    [HS__OWN_HEAD_SCORES] = &hs__own_head_scores,
    [HS__OWN_PATCH_MAP] = &hs__own_patch_map,
    [HS__OWN_VALUE_ZEROING] = &hs__own_value_zeroing,
    [HS__OWN_CROSS_ROLLOUT] = &hs__own_cross_rollout,
    [HS__OWN_GRADIENTS] = &hs__own_gradients,
};

int hs__outputs_check_dtype(const hs__analysis_request *analysis, hs__problem *problem)
{
    if (analysis->dtype != HS__DTYPE_U1)
        return 0;
    for (size_t i = 0; i < HS__OUTPUTS_COUNT; i++) {
        if (!holds(analysis->outputs, i) || rows[i]->structure || rows[i]->range == HS__RANGE_UNIT)
            continue;
        if (rows[i]->range == HS__RANGE_ANY)
            return hs__refuse(problem, 422, "/dtype",
                              "dtype is u1, which holds values in [0, 1]; %s requires f4 or f2",
                              hs__output_names[i]);
        if (!analysis->normalize)
            return hs__refuse(
                problem, 422, "/dtype",
                "dtype is u1, which holds values in [0, 1]; %s requires f4, f2 or normalize \"max\"",
                hs__output_names[i]);
    }
    if (analysis->reduce == HS__REDUCE_SUM)
        return hs__refuse(problem, 422, "/dtype",
                          "dtype is u1, which holds values in [0, 1]; reduce must be \"none\" or \"mean\"");
    return 0;
}

int hs__outputs_check_interventions(const hs__analysis_request *analysis, hs__problem *problem)
{
    for (size_t i = 0; i < HS__OUTPUTS_COUNT && analysis->n_interventions > 0; i++)
        if (holds(analysis->outputs, i) && rows[i]->unchanged_only)
            return hs__refuse(problem, 422, "/interventions",
                              "%s is not computed with interventions: leave one of the two out",
                              hs__output_names[i]);
    return 0;
}

/* Returns what the request asks for besides outputs that its decoder does not have, or NULL. *ret_pointer is
 * its field, *ret_why the reason. */
static const char *beyond_decoder(const hs__analysis_request *analysis, const char **ret_pointer,
                                  const char **ret_why)
{
    const hs_target_kind kind = analysis->target.kind;
    *ret_why = HS__TWO_TEXTS;
    *ret_pointer = "/interventions";
    for (size_t i = 0; i < analysis->n_interventions; i++) {
        const hs_intervention_kind change = analysis->interventions[i].kind;
        if (analysis->interventions[i].cross && change == HS_INTERVENE_IDENTITY)
            return "the intervention identity";
        if (analysis->interventions[i].cross && change == HS_INTERVENE_CUT)
            return "the intervention cut";
    }
    *ret_pointer = "/target";
    *ret_why = "the vector of a text is made of its encoder's states";
    return kind == HS_TARGET_VECTOR || kind == HS_TARGET_COSINE ? "a target on the sentence vector" : NULL;
}

/* Refuses output i for the request's decoder. */
static int refuse_output(size_t i, const char *heads, hs__problem *problem)
{
    const char *not_decoder = rows[i]->not_decoder;
    return hs__refuse(problem, 422, "/outputs",
                      "%s is not computed for %s: %s; leave it out, or send stack %s", hs__output_names[i],
                      heads, not_decoder ? not_decoder : rows[i]->not_cross,
                      not_decoder ? "\"encoder\"" : "\"encoder\" or \"decoder\"");
}

/* Refuses a decoder's text beside a request about the encoder, except for effects and patch maps without
 * interventions. */
static int check_reader(const hs__analysis_request *analysis, hs__problem *problem)
{
    const hs_target_kind kind = analysis->target.kind;
    const char *name = analysis->decoder_input.ids ? "target_ids" : "text_target";
    char pointer[16];
    if (hs__target_model(analysis) == analysis->model)
        return 0;
    snprintf(pointer, sizeof pointer, "/%s", name);
    if (!(analysis->outputs & (HS__OUTPUT_BIT(effects) | HS__OUTPUT_BIT(patch_map))) &&
        !hs__needs_gradient(analysis))
        return hs__refuse(
            problem, 422, pointer,
            "%s is read by the decoder, and the request is about the encoder: add stack "
            "\"decoder\" or \"cross\", ask for effects, patch_map or gradients, or leave it out",
            name);
    if (analysis->n_interventions > 0)
        return hs__refuse(
            problem, 422, "/interventions",
            "effects and gradients on a decoder are computed without interventions: leave them out, or send "
            "stack \"decoder\" with interventions of stack \"encoder\"");
    if (kind == HS_TARGET_VECTOR || kind == HS_TARGET_COSINE)
        return hs__refuse(problem, 422, pointer,
                          "with %s the target is the decoder's, which has no sentence vector: leave it out",
                          name);
    return 0;
}

int hs__outputs_check_stack(const hs__analysis_request *analysis, hs__problem *problem)
{
    const bool cross = analysis->stack == HS_STACK_CROSS;
    const char *heads = cross ? "cross heads" : "the decoder", *pointer, *why;
    if (!analysis->model->encoder)
        return check_reader(analysis, problem);
    for (size_t i = 0; i < HS__OUTPUTS_COUNT; i++)
        if (holds(analysis->outputs, i) && (rows[i]->not_decoder || (cross && rows[i]->not_cross)))
            return refuse_output(i, heads, problem);
    const char *what = beyond_decoder(analysis, &pointer, &why);
    return what ? hs__refuse(problem, 422, pointer,
                             "%s is not computed for %s: %s; leave it out, or send another stack", what,
                             pointer[1] == 'i' ? "cross heads" : heads, why)
                : 0;
}

/* ---- structures ---- */

hs_status hs__outputs_begin(const hs__answer *a, hs__outputs outputs, void **ret_results, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t i = 0; i < HS__OUTPUTS_COUNT && !st; i++)
        if (holds(outputs, i))
            st = maker_of(i)->begin(a, &ret_results[i], err);
    return st;
}

hs_status hs__outputs_add_head(const hs__answer *a, void *const *results, size_t at,
                               const hs_observed_head *maps, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t i = 0; i < HS__OUTPUTS_COUNT && !st; i++)
        if (results[i])
            st = maker_of(i)->add_head(a, results[i], at, maps, err);
    return st;
}

void hs__results_destroy(void **results)
{
    for (size_t i = 0; i < HS__OUTPUTS_COUNT; i++) {
        if (results[i] && maker_of(i)->destroy)
            maker_of(i)->destroy(results[i]);
        results[i] = NULL;
    }
}

/* Adds the kept maps of all requested heads to one result. */
static hs_status heads_add(const hs__answer *a, const hs__structure *structure, void *result, hs_error *err)
{
    const size_t n_heads = a->analysis->n_heads, n = a->analysis->n_layers * n_heads;
    const hs_tap similarity = hs__answer_similarity(a);
    float *lengths = structure->reads_lengths ? malloc(a->capture->n_tokens * sizeof *lengths) : NULL;
    hs_status st = HS_OK;
    if (structure->reads_lengths && !lengths)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the lengths of outputs");
    for (size_t at = 0; at < n && !st && !hs__answer_cancelled(a); at++) {
        const size_t l = at / n_heads, h = at % n_heads;
        const hs_observed_head maps = {
            .attention =
                a->capture->arrays[HS_TAP_ATTENTION] ? hs__answer_at(a, HS_TAP_ATTENTION, l, h) : NULL,
            .similarity = a->capture->arrays[similarity] ? hs__answer_at(a, similarity, l, h) : NULL,
            .lengths = lengths,
        };
        if (lengths)
            st = hs_engine_lengths(a->model->engine, a->capture, a->layer_at[l], a->head_at[h],
                                   hs__similarity_kind(a->analysis), lengths, err);
        if (!st)
            st = structure->add_head(a, result, at, &maps, err);
    }
    free(lengths);
    return st;
}

static hs_status structure_compute(const hs__answer *a, const hs__structure *structure, void **result,
                                   hs_error *err)
{
    const bool observed = *result;
    hs_status st = HS_OK;
    if (!observed && structure->compute)
        return structure->compute(a, result, err);
    if (!observed)
        st = structure->begin(a, result, err);
    if (!st && !observed)
        st = heads_add(a, structure, *result, err);
    return st || !structure->end ? st : structure->end(a, *result, err);
}

hs_status hs__outputs_compute(hs__answer *a, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t i = 0; i < HS__OUTPUTS_COUNT && !st; i++) {
        if (!holds(a->analysis->outputs, i))
            continue;
        const hs__own_passes *own = own_of(a->analysis, i);
        if (rows[i]->structure && own)
            a->results[i] =
                (void *)(own->find ? own->find(a->own[own->kind], (unsigned)i) : a->own[own->kind]);
        else if (maker_of(i))
            st = structure_compute(a, maker_of(i), &a->results[i], err);
    }
    if (!st && hs__answer_cancelled(a))
        st = hs_fail(err, HS_CANCELLED, "cancelled");
    return st;
}

void hs__outputs_finish(hs__answer *a)
{
    hs__results_destroy(a->results);
    free(a->scratch);
    *a = (hs__answer){0};
}

/* ==== parts of arrays ==== */

/* Returns the block at l and h. An output without `part` is the array of its tap. */
static const float *block_of(const hs__output *output, const hs__answer *a, size_t l, size_t h, float *into)
{
    if (output->maker && output->maker->part)
        return output->maker->part(a->results[output->number], l * a->analysis->n_heads + h);
    return output->part ? output->part(a, l, h, into)
                        : hs__answer_at(a, (hs_tap)__builtin_ctz(output->taps), l, h);
}

static bool has_heads(const hs__output *output)
{
    return output->axes[1] == HS_AXIS_HEAD || output->axes[1] == HS_AXIS_KV_HEAD;
}

/* Lists the requested heads that the output has parts for, as places in the request. Only the first of the
 * heads that share keys and values has a part with these. Returns their number. */
static size_t heads_find(const hs__output *output, const hs__analysis_request *analysis,
                         const hs_shape *shape, uint16_t ret_at[HS_HEADS_MAX])
{
    const size_t shared_by =
        output->axes[1] == HS_AXIS_KV_HEAD ? shape->n_heads / hs_shape_kv_heads(shape) : 1;
    size_t n = 0;
    for (size_t i = 0; i < analysis->n_heads; i++)
        if (i == 0 || analysis->heads[i] / shared_by != analysis->heads[i - 1] / shared_by)
            ret_at[n++] = (uint16_t)i;
    return n;
}

size_t hs__output_n_walked(const hs__output *output)
{
    return has_heads(output) ? 2 : 1;
}

size_t hs__output_lengths(const hs__output *output, const hs__analysis_request *analysis,
                          const hs_shape *shape, const hs__text_read *text, size_t ret_lengths[HS_AXES_MAX])
{
    uint16_t at[HS_HEADS_MAX];
    const size_t n_heads = analysis->reduce == HS__REDUCE_NONE ? heads_find(output, analysis, shape, at) : 1;
    const size_t n_tokens = text->rows.n_tokens, n_keys = text->keys->n_tokens;
    const hs_tokenizer *tokenizer = hs_model_tokenizer(analysis->model->model);
    const size_t block = hs__pool_size(analysis);
    const size_t lengths[] = {
        [HS_AXIS_LAYER] = analysis->n_layers,
        [HS_AXIS_STATE] = analysis->n_layers + 1,
        [HS_AXIS_DEPTH] = shape->n_layers + 1,
        [HS_AXIS_HEAD] = n_heads,
        [HS_AXIS_KV_HEAD] = n_heads,
        [HS_AXIS_TOKEN] = n_tokens,
        [HS_AXIS_KEY] = n_keys,
        [HS_AXIS_HEAD_WIDTH] = shape->head_width,
        [HS_AXIS_HIDDEN] = shape->hidden,
        [HS_AXIS_BLOCK] = (n_tokens + block - 1) / block,
        [HS_AXIS_KEY_BLOCK] = (n_keys + block - 1) / block,
        [HS_AXIS_WORD] = hs__words_count(tokenizer, &text->rows),
        [HS_AXIS_KEY_WORD] = hs__words_count(tokenizer, text->keys),
        [HS_AXIS_ROW] = hs__slice_length(&analysis->rows, n_tokens),
        [HS_AXIS_COLUMN] = hs__slice_length(&analysis->columns, n_tokens),
        [HS_AXIS_KEY_COLUMN] = hs__slice_length(&analysis->columns, n_keys),
    };
    size_t n = 0;
    for (; output->axes[n]; n++)
        ret_lengths[n] = lengths[output->axes[n]];
    return n;
}

size_t hs__answer_lengths(const hs__output *output, const hs__answer *a, size_t ret_lengths[HS_AXES_MAX])
{
    return hs__output_lengths(output, a->analysis, a->model->shape, a->text, ret_lengths);
}

const float *hs__output_part(const hs__output *output, const hs__answer *a, size_t l, size_t h, size_t slot)
{
    const hs__analysis_request *analysis = a->analysis;
    float *sum = hs__answer_scratch(a, slot), *one = sum + hs__answer_part_floats(a);
    if (!has_heads(output))
        return block_of(output, a, l, h, one);
    uint16_t at[HS_HEADS_MAX];
    const size_t n_heads = heads_find(output, analysis, a->model->shape, at);
    if (analysis->reduce == HS__REDUCE_NONE)
        return block_of(output, a, l, at[h], one);
    const float weight = analysis->reduce == HS__REDUCE_MEAN ? 1.0f / (float)n_heads : 1.0f;
    size_t lengths[HS_AXES_MAX], n = 1;
    const size_t n_axes = hs__answer_lengths(output, a, lengths);
    for (size_t axis = 2; axis < n_axes; axis++)
        n *= lengths[axis];
    memset(sum, 0, n * sizeof *sum);
    for (size_t head = 0; head < n_heads; head++) {
        const float *part = block_of(output, a, l, at[head], one);
        for (size_t i = 0; i < n; i++)
            sum[i] += part[i] * weight;
    }
    return sum;
}
