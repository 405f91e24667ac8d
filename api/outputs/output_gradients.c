/* output_gradients.c - gradients of the target, attributions of heads and tokens, and estimated effects.
 *
 * One backward pass gives all of them but integrated gradients, which take one for each step, relevance, and
 * logit attributions, which need none.
 * engine/analysis/attribution.h has the formulas. */
#include "api/outputs/structures.h"

#include "engine/analysis/attribution.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ==== the result ==== */

/* T, K: tokens and keys of the requested heads; S: tokens of the text that a decoder reads. Parts that the
 * request does not need are NULL. */
typedef struct gradients {
    float *attention;              /* [l][h][T][K] */
    float *head_output;            /* [l][h][T][d] */
    float *head_attribution;       /* [l][h][T] */
    float *states;                 /* [1 + l][T][H] */
    float *every_state;            /* [1 + L][T][H]: for patch_map */
    float *words, *source_words;   /* [T][E], [S][E]: for the tokens */
    float *tokens, *source_tokens; /* [T], [S] */
    float *relevance;              /* [T][K] */
    float *changes;                /* [l][h]: target_change of effects */
    float *patch_map;              /* [1 + L][T] */
    hs_effect *effects;            /* [l][h] */
    hs__logit_attributions logits; /* its arrays are parts */
    hs_target target;
    float value;        /* of the target */
    double exact_value; /* the same */
    /* The target of the baseline of integrated gradients, and the sum of the attributions less the difference
     * of both targets. */
    float baseline, gap, source_baseline, source_gap;
    float numbers[]; /* holds the parts */
} gradients;

static bool asks(const hs__analysis_request *analysis, hs__outputs outputs)
{
    return analysis->outputs & outputs;
}

static bool estimates(const hs__analysis_request *analysis, hs__outputs outputs)
{
    return hs__is_estimated(analysis, outputs) && asks(analysis, outputs);
}

static bool integrates(const hs__analysis_request *analysis)
{
    return asks(analysis, HS__OUTPUT_BIT(token_attributions)) &&
           hs__attribution_of(analysis).method == HS__INTEGRATED_GRADIENTS;
}

static bool integrates_source(const hs__analysis_request *analysis)
{
    return integrates(analysis) && analysis->model->encoder;
}

/* Returns n numbers of base from *used on, if they are needed; base NULL only counts. */
static float *part_take(float *base, size_t *used, bool needed, size_t n)
{
    float *part = needed && base ? base + *used : NULL;
    *used += needed ? n : 0;
    return part;
}

/* Sets the parts of g in base, which may be NULL. Returns how many numbers they are. */
static size_t parts_set(const hs__answer *a, gradients *g, float *base)
{
    const hs__analysis_request *analysis = a->analysis;
    const hs_shape *shape = a->model->shape;
    const size_t T = a->text->rows.n_tokens, K = a->text->keys->n_tokens, S = a->text->memory.n_tokens;
    const size_t n_heads = analysis->n_layers * analysis->n_heads, d = shape->head_width;
    const size_t E = a->model->architecture->embedding.width, n_states = T * shape->hidden;
    const bool tokens = asks(analysis, HS__OUTPUT_BIT(token_attributions)),
               words = tokens && !integrates(analysis),
               effects = estimates(analysis, HS__OUTPUT_BIT(effects)),
               map = estimates(analysis, HS__OUTPUT_BIT(patch_map));
    size_t n = 0;
    g->attention = part_take(base, &n, asks(analysis, HS__OUTPUT_BIT(attention_gradients)), n_heads * T * K);
    g->head_output = part_take(base, &n, asks(analysis, HS__OUTPUT_BIT(head_output_gradients)) || effects,
                               n_heads * T * d);
    g->head_attribution = part_take(base, &n, asks(analysis, HS__OUTPUT_BIT(head_attributions)), n_heads * T);
    g->states = part_take(base, &n, asks(analysis, HS__OUTPUT_BIT(hidden_state_gradients)),
                          (1 + analysis->n_layers) * n_states);
    g->every_state = part_take(base, &n, map, (1 + shape->n_layers) * n_states);
    g->words = part_take(base, &n, words, T * E);
    g->source_words = part_take(base, &n, words && S > 0, S * E);
    g->tokens = part_take(base, &n, tokens, T);
    g->source_tokens = part_take(base, &n, tokens && S > 0, S);
    g->relevance = part_take(base, &n, asks(analysis, HS__OUTPUT_BIT(relevance)), T * K);
    g->changes = part_take(base, &n, effects, n_heads);
    g->patch_map = part_take(base, &n, map, (1 + shape->n_layers) * T);
    g->logits.heads = part_take(base, &n, asks(analysis, HS__OUTPUT_BIT(logit_attributions)), n_heads);
    g->logits.feed_forward =
        part_take(base, &n, asks(analysis, HS__OUTPUT_BIT(logit_attributions)), analysis->n_layers);
    g->effects = (void *)part_take(base, &n, effects, n_heads * (sizeof *g->effects / sizeof(float)));
    return n;
}

static size_t result_bytes(const hs__answer *a)
{
    gradients unused;
    return sizeof unused + parts_set(a, &unused, NULL) * sizeof(float);
}

/* ==== the passes ==== */

/* The texts of a request as the passes read them. `of` points into it. Captures are owned. */
typedef struct reading {
    const hs__answer *answer;
    gradients *to;
    hs_sequence text;             /* the only one, or the one whose last states a decoder reads */
    hs_sequence decoder_text;     /* of a decoder */
    hs_sequence *rows, *followed; /* of them: whose heads are asked about, and that the target is read of */
    hs_differentiated of;
    hs_workspace *other_ws; /* owned: of the stack that the request is not about */
} reading;

static hs_sequence sequence_of(const hs__served_model *model, const hs_encoding *e,
                               const hs_intervention *interventions, size_t n)
{
    return (hs_sequence){.ids = e->ids,
                         .types = model->shape->n_types ? e->types : NULL,
                         .n_tokens = e->n_tokens,
                         .interventions = interventions,
                         .n_interventions = n};
}

/* Describes the texts, without captures and workspaces. */
static void texts_set(const hs__answer *a, reading *r)
{
    const hs__analysis_request *analysis = a->analysis;
    const hs__served_model *model = a->model, *followed = hs__target_model(analysis);
    const size_t n_own = analysis->n_own_interventions;
    const hs_sequence rows = sequence_of(model, &a->text->rows, analysis->interventions, n_own);
    *r = (reading){.answer = a, .text = rows, .rows = &r->text, .followed = &r->text};
    r->of = (hs_differentiated){.engine = model->engine, .text = &r->text, .target = analysis->target};
    if (model->encoder) {
        r->decoder_text = rows;
        r->text = sequence_of(model->encoder, &a->text->memory, analysis->interventions + n_own,
                              analysis->n_interventions - n_own);
        r->rows = r->followed = &r->decoder_text;
        r->of.engine = model->encoder->engine;
        r->of.decoder = model->engine;
    } else if (followed != model) {
        r->decoder_text = sequence_of(followed, &a->text->reader, NULL, 0);
        r->followed = &r->decoder_text;
        r->of.decoder = followed->engine;
    }
    r->of.decoder_text = r->of.decoder ? &r->decoder_text : NULL;
}

/* ---- captures and workspaces ---- */

static bool finds_target(const hs__answer *a)
{
    return a->analysis->target.kind == HS_TARGET_NONE && a->analysis->n_interventions == 0;
}

/* Selects what estimates and the default target read of a text. */
static hs_selection selection_of(const reading *r, const hs_sequence *text)
{
    const hs__answer *a = r->answer;
    const bool rows = text == r->rows;
    const hs_engine *engine = text == r->of.decoder_text ? r->of.decoder : r->of.engine;
    hs_selection selection = hs_select_all(hs_engine_shape(engine), 0);
    selection.n_memory = rows ? hs__text_n_memory(a->text) : 0;
    if (rows && estimates(a->analysis, HS__OUTPUT_BIT(effects)))
        selection.taps |= HS_KEEP(HEAD_OUTPUT);
    if (rows && estimates(a->analysis, HS__OUTPUT_BIT(patch_map)))
        selection.taps |= HS_KEEP(EVERY_STATE);
    if (text == r->followed && (finds_target(a) || (r->of.decoder_text && !rows)))
        selection.taps |= HS_KEEP(LAST_STATE);
    return selection;
}

static size_t other_ws_tokens(const reading *r)
{
    const size_t n_text = r->text.n_tokens, n_decoder = r->decoder_text.n_tokens;
    return r->rows == &r->decoder_text || n_text > n_decoder ? n_text : n_decoder;
}

static const hs_engine *other_engine(const reading *r)
{
    return r->rows == &r->decoder_text ? r->of.engine : r->of.decoder;
}

static size_t bytes_max(const hs__answer *a)
{
    reading r;
    texts_set(a, &r);
    const size_t n_threads = a->request->n_threads;
    size_t n_bytes = result_bytes(a) + hs_differentiated_bytes(&r.of, n_threads);
    const hs_sequence *const texts[] = {&r.text, r.of.decoder_text};
    for (size_t i = 0; i < 2 && texts[i]; i++) {
        const hs_selection selection = selection_of(&r, texts[i]);
        const hs_engine *engine = i ? r.of.decoder : r.of.engine;
        n_bytes +=
            selection.taps ? hs_capture_bytes(hs_engine_shape(engine), &selection, texts[i]->n_tokens) : 0;
    }
    if (r.of.decoder)
        n_bytes += hs_workspace_bytes(other_engine(&r), other_ws_tokens(&r));
    if (asks(a->analysis, HS__OUTPUT_BIT(relevance)))
        n_bytes += hs_relevance_bytes(&r.of);
    if (asks(a->analysis, HS__OUTPUT_BIT(logit_attributions)))
        n_bytes += hs_logit_attribution_bytes(a->model->engine, r.followed->n_tokens);
    return n_bytes;
}

static hs_status capture_open(const reading *r, hs_sequence *text, hs_error *err)
{
    const hs_engine *engine = text == r->of.decoder_text ? r->of.decoder : r->of.engine;
    const hs_selection selection = selection_of(r, text);
    return selection.taps ? hs_capture_create(hs_engine_runtime(engine), hs_engine_shape(engine), &selection,
                                              text->n_tokens, &text->capture, err)
                          : HS_OK;
}

/* ws is of the stack that the request is about. The caller closes, also after a failure. */
static hs_status reading_open(reading *r, hs_workspace *ws, hs_error *err)
{
    hs_status st = capture_open(r, &r->text, err);
    r->of.ws = ws;
    if (st || !r->of.decoder)
        return st;
    st = hs_workspace_create(other_engine(r), other_ws_tokens(r), &r->other_ws, err);
    r->of.ws = r->rows == &r->text ? ws : r->other_ws;
    r->of.decoder_ws = r->rows == &r->text ? r->other_ws : ws;
    return st ? st : capture_open(r, &r->decoder_text, err);
}

static void reading_close(reading *r)
{
    hs_capture_destroy(r->text.capture);
    hs_capture_destroy(r->decoder_text.capture);
    hs_workspace_destroy(r->other_ws);
}

/* ---- the default target ---- */

/* Follows the most probable token at a mask. */
static hs_status token_find(const hs__answer *a, const float *states, size_t position, hs_target *ret_target,
                            hs_error *err)
{
    const hs_shape *shape = a->model->shape;
    float *logits = malloc(shape->vocab_size * sizeof *logits);
    if (!logits)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a target");
    const hs_status st = hs_engine_predict(a->model->engine, states + position * shape->hidden, 1, 0,
                                           a->request->n_threads, logits, err);
    size_t most = 0;
    for (size_t id = 1; id < shape->vocab_size && !st; id++)
        most = logits[id] > logits[most] ? id : most;
    *ret_target =
        (hs_target){.kind = HS_TARGET_LOG_PROBABILITY, .tokens = {(int32_t)most, -1}, .position = position};
    free(logits);
    return st;
}

/* Finds the named target or the default one: the predicted class, the token at the first mask, the loss.
 * states are the last ones of the text in `capture`. */
static hs_status target_choose(const hs__answer *a, const hs_capture *capture, const float *states,
                               hs_target *ret_target, hs_error *err)
{
    hs__answer followed = *a;
    size_t position;
    followed.model = hs__target_model(a->analysis);
    followed.capture = capture;
    const hs_status st = hs__target_find(&followed, states, ret_target, err);
    if (st || ret_target->kind)
        return st;
    if (hs__first_mask(a->analysis, hs__text_followed(a->text), &position))
        return token_find(&followed, states, position, ret_target, err);
    ret_target->kind = HS_TARGET_LOSS;
    return HS_OK;
}

/* Called after the forward pass. */
static hs_status target_find(void *context, hs_target *ret_target, hs_error *err)
{
    reading *r = context;
    const hs_capture *capture = r->followed->capture;
    const hs_status st =
        target_choose(r->answer, capture, capture->arrays[HS_TAP_LAST_STATE], ret_target, err);
    r->of.find = NULL;
    r->of.target = *ret_target;
    return st;
}

/* Sets the target, or lets the first pass find it. Interventions change a target's value, not the target: a
 * default one is the baseline's. */
static hs_status target_set(reading *r, hs_error *err)
{
    const hs__answer *a = r->answer;
    const size_t last = a->model->shape->n_layers;
    r->of.context = r;
    if (finds_target(a)) {
        r->of.find = target_find;
        return HS_OK;
    }
    const float *states = a->baseline ? hs_capture_at(a->baseline, HS_TAP_HIDDEN_STATE, last, 0) : NULL;
    return target_choose(a, a->baseline, states, &r->of.target, err);
}

/* ---- gradients and tokens ---- */

enum { SELECTIONS_MAX = 3 };

/* Lists the arrays of the requested heads' text that the backward pass writes. */
static size_t rows_select(const reading *r, hs_gradients ret[SELECTIONS_MAX])
{
    const hs__answer *a = r->answer;
    const hs__analysis_request *analysis = a->analysis;
    const gradients *g = r->to;
    const bool cross = analysis->stack == HS_STACK_CROSS;
    const hs_gradients chosen = {.layers = analysis->layers,
                                 .heads = analysis->heads,
                                 .n_layers = analysis->n_layers,
                                 .n_heads = analysis->n_heads};
    size_t n = 0;
    if (g->attention || g->head_output || g->head_attribution) {
        ret[n] = chosen;
        ret[n].cross = cross;
        ret[n].attention = g->attention;
        ret[n].head_output = g->head_output;
        ret[n++].head_attribution = g->head_attribution;
    }
    if (g->states || g->words) {
        ret[n] = chosen;
        ret[n].states = g->states;
        ret[n++].words = g->words;
    }
    if (g->every_state) {
        ret[n] = chosen;
        ret[n].layers = hs_all_numbers;
        ret[n].n_layers = a->model->shape->n_layers;
        ret[n++].states = g->every_state;
    }
    return n;
}

static hs_status differentiate(reading *r, const hs_run_control *control, hs_error *err)
{
    hs_gradients rows[SELECTIONS_MAX];
    const size_t n = rows_select(r, rows);
    const hs_gradients source = {.layers = hs_all_numbers, .n_layers = 1, .words = r->to->source_words};
    const size_t n_source = source.words ? 1 : 0;
    double value = NAN;
    if (n + n_source == 0 && !r->of.find)
        return HS_OK;
    const bool decodes = r->rows == &r->decoder_text;
    const hs_status st = decodes ? hs_differentiate(&r->of, &source, n_source, rows, n, control, &value, err)
                                 : hs_differentiate(&r->of, rows, n, NULL, 0, control, &value, err);
    r->to->value = (float)value;
    r->to->exact_value = value;
    return st;
}

/* Reads the attributions of a text's tokens from the gradients of its word rows, which the words replace. */
static hs_status words_attribute(const hs__answer *a, const hs_engine *engine, const hs_sequence *text,
                                 const float *words, float *ret_tokens, hs_error *err)
{
    const hs_architecture *architecture = hs_engine_architecture(engine);
    const size_t E = architecture->embedding.width;
    const bool length = hs__attribution_of(a->analysis).method == HS__GRADIENT;
    float *rows = malloc(text->n_tokens * E * sizeof *rows);
    if (!rows)
        return hs_fail(err, HS_NO_MEMORY, "no memory for attributions");
    hs_word_rows_read(architecture, text, rows);
    hs_attribution_read(length ? HS_ATTRIBUTE_GRADIENT : HS_ATTRIBUTE_GRADIENT_X_INPUT, rows, words,
                        text->n_tokens, E, ret_tokens);
    free(rows);
    return HS_OK;
}

/* Computes the integrated gradients of one text's tokens. Special ones stay in the baseline as they are. */
static hs_status integrate(const reading *r, bool of_decoder, const hs_encoding *e, float *ret_tokens,
                           float *ret_baseline, float *ret_gap, const hs_run_control *control, hs_error *err)
{
    const hs__analysis_request *analysis = r->answer->analysis;
    const hs_attribution_options options = {.kind = HS_ATTRIBUTE_INTEGRATED,
                                            .of_decoder = of_decoder,
                                            .n_steps = hs__attribution_of(analysis).steps,
                                            .baseline_id = hs__baseline_id(analysis),
                                            .kept = e->special};
    hs_attribution found = {0};
    const hs_status st = hs_attribution_compute(&r->of, &options, control, ret_tokens, &found, err);
    r->to->value = (float)found.value;
    r->to->exact_value = found.value;
    *ret_baseline = (float)found.baseline;
    *ret_gap = (float)found.gap;
    return st;
}

static hs_status tokens_attribute(const reading *r, const hs_run_control *control, hs_error *err)
{
    const hs__answer *a = r->answer;
    gradients *g = r->to;
    const bool decodes = r->rows == &r->decoder_text;
    hs_status st = HS_OK;
    if (g->words)
        st = words_attribute(a, a->model->engine, r->rows, g->words, g->tokens, err);
    else if (g->tokens)
        st = integrate(r, decodes, &a->text->rows, g->tokens, &g->baseline, &g->gap, control, err);
    if (!st && g->source_words)
        st = words_attribute(a, r->of.engine, &r->text, g->source_words, g->source_tokens, err);
    else if (!st && g->source_tokens)
        st = integrate(r, false, &a->text->memory, g->source_tokens, &g->source_baseline, &g->source_gap,
                       control, err);
    return st;
}

static hs_status relevance_find(const reading *r, const hs_run_control *control, hs_error *err)
{
    const bool cross = r->answer->analysis->stack == HS_STACK_CROSS, decodes = r->rows == &r->decoder_text;
    float *relevance = r->to->relevance;
    double value = 0;
    if (!relevance)
        return HS_OK;
    const hs_status st =
        hs_relevance_compute(&r->of, control, decodes ? NULL : relevance,
                             decodes && !cross ? relevance : NULL, cross ? relevance : NULL, &value, err);
    r->to->value = (float)value;
    r->to->exact_value = value;
    return st;
}

static hs_status logits_attribute(const reading *r, const hs_run_control *control, hs_error *err)
{
    const hs__analysis_request *analysis = r->answer->analysis;
    hs__logit_attributions *logits = &r->to->logits;
    const hs_logit_selection selection = {.layers = analysis->layers,
                                          .heads = analysis->heads,
                                          .n_layers = analysis->n_layers,
                                          .n_heads = analysis->n_heads,
                                          .cross = analysis->stack == HS_STACK_CROSS,
                                          .ret_heads = logits->heads,
                                          .ret_feed_forward = logits->feed_forward};
    double value = 0;
    if (!logits->heads)
        return HS_OK;
    const hs_status st =
        hs_logit_attribution_compute(&r->of, &selection, control, &logits->sums, &value, err);
    r->to->value = (float)value;
    r->to->exact_value = value;
    return st;
}

/* ---- estimated effects ---- */

/* Reads the last states of the text that effects_of patches from, or those of the decoder that reads them. */
static hs_status other_states(const reading *r, const hs_run_control *control, const float **ret_states,
                              hs_error *err)
{
    const hs_capture *other = r->answer->other;
    const float *last = hs_capture_at(other, HS_TAP_EVERY_STATE, other->depth, 0);
    *ret_states = last;
    if (r->rows == r->followed)
        return HS_OK;
    hs_sequence text = r->decoder_text;
    text.memory = last;
    text.n_memory = other->n_tokens;
    *ret_states = text.capture->arrays[HS_TAP_LAST_STATE];
    return hs_engine_compute(r->of.decoder, r->of.decoder_ws, &text, 1, NULL, control, err);
}

/* Computes the target of the text that effects_of patches from. The loss is that of the request's tokens. */
static hs_status other_value(const reading *r, const hs_run_control *control, double *ret_value,
                             hs_error *err)
{
    const hs__served_model *model = hs__target_model(r->answer->analysis);
    const hs_target *target = &r->of.target;
    const hs_sequence *text = r->followed;
    const float *states;
    hs_status st = other_states(r, control, &states, err);
    if (st)
        return st;
    float *rows = malloc(hs_target_floats(model->architecture, target, text->n_tokens) * sizeof *rows);
    if (!rows)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a target");
    const hs_capture *counts = r->rows == r->followed ? r->answer->other : text->capture;
    st = hs_target_rows(model->engine, target, states, counts, control->n_threads, rows, err);
    if (!st)
        st = hs_target_values(model->engine, target, rows, 1, text->ids, text->n_tokens, control->n_threads,
                              ret_value, NULL, err);
    free(rows);
    return st;
}

static hs_status estimate(const reading *r, const hs_run_control *control, hs_error *err)
{
    const hs__analysis_request *analysis = r->answer->analysis;
    gradients *g = r->to;
    const size_t n_heads = analysis->n_layers * analysis->n_heads;
    double other = NAN;
    hs_status st = HS_OK;
    if ((g->effects || g->patch_map) && analysis->effects_of.kind == HS_INTERVENE_PATCH)
        st = other_value(r, control, &other, err);
    if (!st && g->effects) {
        const hs_effects_options options = {.baseline = r->rows,
                                            .kind = analysis->effects_of.kind,
                                            .factor = analysis->effects_of.factor,
                                            .other = r->answer->other,
                                            .layers = analysis->layers,
                                            .heads = analysis->heads,
                                            .n_layers = analysis->n_layers,
                                            .n_heads = analysis->n_heads};
        hs_effects_estimate(&options, g->head_output, g->changes);
        for (size_t i = 0; i < n_heads; i++)
            g->effects[i] = (hs_effect){
                .target_change = g->changes[i],
                .recovered = hs_recovered(g->exact_value, g->exact_value + (double)g->changes[i], other)};
    }
    if (!st && g->patch_map) {
        const hs_patch_map_options options = {.clean = r->rows, .other = r->answer->other};
        hs_patch_map_estimate(&options, g->every_state, g->exact_value, other, g->patch_map);
    }
    return st;
}

/* ---- all of them ---- */

static hs_status run(const hs__answer *a, hs_workspace *ws, const hs_run_control *control, void *ret_result,
                     hs_error *err)
{
    reading r;
    gradients *g = ret_result;
    memset(g, 0, sizeof *g);
    parts_set(a, g, g->numbers);
    texts_set(a, &r);
    r.to = g;
    hs_status st = reading_open(&r, ws, err);
    if (!st)
        st = target_set(&r, err);
    if (!st)
        st = differentiate(&r, control, err);
    if (!st)
        st = tokens_attribute(&r, control, err);
    if (!st)
        st = relevance_find(&r, control, err);
    if (!st)
        st = logits_attribute(&r, control, err);
    if (!st)
        st = estimate(&r, control, err);
    g->target = r.of.target;
    reading_close(&r);
    return st;
}

static const void *result_find(const void *result, unsigned output)
{
    const gradients *g = result;
    return output == HS__OUTPUT_effects              ? (const void *)g->effects
           : output == HS__OUTPUT_logit_attributions ? (const void *)&g->logits
                                                     : result;
}

const hs__own_passes hs__own_gradients = {
    .kind = HS__OWN_GRADIENTS,
    .result = "gradients",
    .result_bytes = result_bytes,
    .bytes_max = bytes_max,
    .run = run,
    .find = result_find,
};

/* ==== arrays ==== */

static const gradients *result_of(const hs__answer *a)
{
    return a->own[HS__OWN_GRADIENTS];
}

static const float *part_attention(const hs__answer *a, size_t l, size_t h, float *into)
{
    const size_t n = a->text->rows.n_tokens * a->text->keys->n_tokens;
    (void)into;
    return result_of(a)->attention + (l * a->analysis->n_heads + h) * n;
}

static const float *part_head_output(const hs__answer *a, size_t l, size_t h, float *into)
{
    const size_t n = a->text->rows.n_tokens * a->model->shape->head_width;
    (void)into;
    return result_of(a)->head_output + (l * a->analysis->n_heads + h) * n;
}

static const float *part_states(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)h;
    (void)into;
    return result_of(a)->states + l * a->text->rows.n_tokens * a->model->shape->hidden;
}

static const float *part_head_attribution(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)into;
    return result_of(a)->head_attribution + (l * a->analysis->n_heads + h) * a->text->rows.n_tokens;
}

/* l is a row of the map. */
static const float *part_relevance(const hs__answer *a, size_t l, size_t h, float *into)
{
    (void)h;
    (void)into;
    return result_of(a)->relevance + l * a->text->keys->n_tokens;
}

const float *hs__estimated_patch_map(const hs__answer *a, size_t l)
{
    return result_of(a)->patch_map + l * a->text->rows.n_tokens;
}

const hs__output hs__output_row_attention_gradients = {
    .axes = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_KEY},
    .part = part_attention,
    .range = HS__RANGE_ANY,
    .hook = "attn.hook_pattern_grad",
    .own = &hs__own_gradients};

const hs__output hs__output_row_head_output_gradients = {
    .axes = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_HEAD_WIDTH},
    .part = part_head_output,
    .range = HS__RANGE_ANY,
    .hook = "attn.hook_z_grad",
    .own = &hs__own_gradients};

const hs__output hs__output_row_hidden_state_gradients = {
    .axes = {HS_AXIS_STATE, HS_AXIS_TOKEN, HS_AXIS_HIDDEN},
    .part = part_states,
    .range = HS__RANGE_ANY,
    .hook = HS__HOOK_STATES "_grad",
    .own = &hs__own_gradients};

const hs__output hs__output_row_head_attributions = {.axes = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN},
                                                     .part = part_head_attribution,
                                                     .range = HS__RANGE_ANY,
                                                     .own = &hs__own_gradients};

const hs__output hs__output_row_relevance = {.axes = {HS_AXIS_TOKEN, HS_AXIS_KEY},
                                             .part = part_relevance,
                                             .range = HS__RANGE_ANY,
                                             .own = &hs__own_gradients};

/* ==== columns ==== */

/* ---- tokens ---- */

static hs__table_rows token_rows(const hs__table_row *outer, size_t l)
{
    const gradients *g = outer->item;
    (void)l;
    return (hs__table_rows){g->tokens, outer->answer->text->rows.n_tokens, sizeof *g->tokens};
}

static hs__table_rows source_token_rows(const hs__table_row *outer, size_t l)
{
    const gradients *g = outer->item;
    (void)l;
    return (hs__table_rows){g->source_tokens, outer->answer->text->memory.n_tokens, sizeof *g->source_tokens};
}

static size_t tokens_max(const hs__measures *m)
{
    return m->n_tokens;
}

static size_t source_tokens_max(const hs__measures *m)
{
    return m->n_source;
}

/* A row is its number. */
static const hs__table_column token_columns[] = {{"", .type = HS__CELL_NUMBER, .member = HS__MEMBER_FLOAT},
                                                 {0}};

static const hs__table token_table = {.kind = HS__TABLE_LIST,
                                      .arrays = "token_attributions",
                                      .columns = token_columns,
                                      .rows = token_rows,
                                      .rows_max = tokens_max};
static const hs__table source_token_table = {.kind = HS__TABLE_LIST,
                                             .arrays = "source_token_attributions",
                                             .columns = token_columns,
                                             .rows = source_token_rows,
                                             .rows_max = source_tokens_max};
static const hs__structure token_structure = {.table = &token_table};
static const hs__structure source_token_structure = {.table = &source_token_table};

const hs__output hs__output_row_token_attributions = {.structure = &token_structure,
                                                      .own = &hs__own_gradients};
const hs__output hs__output_row_source_token_attributions = {.structure = &source_token_structure,
                                                             .own = &hs__own_gradients};

/* ---- the target ---- */

/* In the order of hs_target_kind, which has no target of one token; gradients have none of VECTOR. */
static const char *const kinds[] = {"class", "token", "tokens", "probability", "log_probability",
                                    "span",  "loss",  "cosine", NULL};

static const hs_target *target_of(const hs__table_row *row)
{
    return &((const gradients *)row->item)->target;
}

static void target_kind(const hs__table_row *row, hs__cell *ret)
{
    const hs_target *target = target_of(row);
    const bool one = target->kind == HS_TARGET_TOKENS && target->tokens[1] < 0;
    ret->integer =
        (int64_t)target->kind - (one || target->kind == HS_TARGET_CLASS || target->kind > HS_TARGET_VECTOR);
}

static void target_class(const hs__table_row *row, hs__cell *ret)
{
    ret->null = target_of(row)->kind != HS_TARGET_CLASS;
    ret->integer = ret->null ? -1 : (int64_t)target_of(row)->class;
}

static const hs_task_head *target_head(const hs__analysis_request *analysis)
{
    return &hs__target_model(analysis)->architecture->task_head;
}

static void target_label(const hs__table_row *row, hs__cell *ret)
{
    target_class(row, ret);
    if (!ret->null)
        ret->text = hs_bytes_of(target_head(row->answer->analysis)->labels[target_of(row)->class]);
}

static void target_id(const hs__table_row *row, hs__cell *ret)
{
    const hs_target *target = target_of(row);
    ret->null = target->kind < HS_TARGET_TOKENS || target->kind > HS_TARGET_LOG_PROBABILITY;
    ret->integer = ret->null ? -1 : target->tokens[0];
}

static void target_token(const hs__table_row *row, hs__cell *ret)
{
    target_id(row, ret);
    if (!ret->null)
        ret->text = hs_bytes_of(
            hs_tokenizer_token(hs_model_tokenizer(row->answer->model->model), target_of(row)->tokens[0]));
}

static bool target_has_position(const hs__table_row *row)
{
    const hs_target *target = target_of(row);
    return target->kind == HS_TARGET_CLASS
               ? target_head(row->answer->analysis)->task == HS_TASK_TOKENS
               : target->kind >= HS_TARGET_TOKENS && target->kind <= HS_TARGET_LOG_PROBABILITY;
}

static void target_position(const hs__table_row *row, hs__cell *ret)
{
    ret->null = !target_has_position(row);
    ret->integer = ret->null ? -1 : (int64_t)target_of(row)->position;
}

static bool has_classes(const hs__analysis_request *analysis)
{
    return target_head(analysis)->labels;
}

static bool is_estimated(const hs__analysis_request *analysis)
{
    return hs__is_estimated(analysis, analysis->outputs);
}

static void target_estimated(const hs__table_row *row, hs__cell *ret)
{
    ret->integer = is_estimated(row->answer->analysis);
}

static size_t label_max(const hs__measures *m)
{
    const hs_task_head *head = target_head(m->analysis);
    size_t longest = 0;
    for (size_t i = 0; head->labels && i < head->n_classes; i++)
        longest = strlen(head->labels[i]) > longest ? strlen(head->labels[i]) : longest;
    return 6 * longest;
}

static const hs__table_column target_columns[] = {
    {"kind", .type = HS__CELL_LABEL, .get = target_kind, .choices = kinds},
    {"class", .type = HS__CELL_TEXT, .place = HS__IN_JSON, .get = target_label, .nullable = true,
     .is_answered = has_classes},
    {"class", .type = HS__CELL_POSITION, .place = HS__IN_ARRAYS, .get = target_class, .nullable = true,
     .is_answered = has_classes},
    {"token", .type = HS__CELL_ENTRY, .place = HS__IN_JSON, .get = target_token, .nullable = true},
    {"token", .type = HS__CELL_ID, .place = HS__IN_ARRAYS, .get = target_id, .nullable = true},
    {"position", .type = HS__CELL_POSITION, .get = target_position, .nullable = true},
    {HS__NUMBER_OF(gradients, value)},
    {"estimated", .type = HS__CELL_FLAG, .get = target_estimated, .is_answered = is_estimated},
    {HS__NUMBER_OF(gradients, baseline), .is_answered = integrates},
    {"completeness_gap", .type = HS__CELL_NUMBER, HS__MEMBER(gradients, gap), .is_answered = integrates},
    {HS__NUMBER_OF(gradients, source_baseline), .is_answered = integrates_source},
    {"source_completeness_gap", .type = HS__CELL_NUMBER, HS__MEMBER(gradients, source_gap),
     .is_answered = integrates_source},
    {0},
};

static const hs__table target_table = {
    .kind = HS__TABLE_ONE, .arrays = "target_", .columns = target_columns, .texts_max = label_max};
static const hs__structure target_structure = {.table = &target_table};

const hs__output hs__output_row_target = {.structure = &target_structure, .own = &hs__own_gradients};
