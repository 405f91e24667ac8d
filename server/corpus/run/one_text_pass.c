/* one_text_pass.c - one pass that keeps the maps of three layers, and what the figures need of them as JSON.
 */
#include "server/corpus/run/one_text_pass.h"

#include "api/prompt.h"
#include "engine/analysis/analysis.h"
#include "server/corpus/report/figures.h"
#include "server/corpus/report/one_text.h"
#include "server/corpus/report/report_value.h"
#include "server/corpus/run/worker.h"
#include "server/corpus/search/strongest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 3, JSON_NUMBER_BYTES = 96 };

/* Three layers of the run, fewer if they are the same, with all their heads. */
typedef struct chosen {
    size_t places[LAYERS]; /* in the run's layers */
    uint16_t layers[LAYERS];
    hs_selection selection;
} chosen;

typedef struct one_text {
    const hs__corpus_job *job;
    const chosen *chosen;
    const hs_encoding *encoding;
    const hs_capture *capture;
    hs_tap similarity;
} one_text;

static hs_tap similarity_tap(const hs__corpus_job *job)
{
    return job->settings.fields.residual ? HS_TAP_RESIDUAL_SIMILARITY : HS_TAP_SIMILARITY;
}

static void layers_choose(const hs__corpus_job *job, chosen *c)
{
    const hs_corpus_options o = hs__corpus_options_of(job);
    const hs__pick pick = hs__pick_default(&o);
    const size_t places[] = {pick.early, pick.middle, pick.last};
    size_t n = 0;
    for (size_t k = 0; k < LAYERS; k++)
        if (n == 0 || places[k] > c->places[n - 1]) {
            c->places[n] = places[k];
            c->layers[n++] = o.layers[places[k]];
        }
    c->selection = (hs_selection){.layers = c->layers,
                                  .n_layers = n,
                                  .heads = hs_all_numbers,
                                  .n_heads = o.n_heads,
                                  .taps = HS_KEEP(ATTENTION) | 1U << similarity_tap(job)};
}

/* ---- as JSON ---- */

static json_t *tokens_json(const one_text *t)
{
    json_t *tokens = json_array();
    for (size_t i = 0; i < t->encoding->n_tokens; i++)
        json_array_append_new(
            tokens, json_string(hs_tokenizer_token(hs_model_tokenizer(t->job->model), t->encoding->ids[i])));
    return tokens;
}

/* Returns the sum of the first heads' maps as a list of numbers. */
static json_t *sum_json(const one_text *t, hs_tap tap, size_t l, size_t n_heads)
{
    const size_t T = t->encoding->n_tokens;
    json_t *values = json_array();
    for (size_t i = 0; i < T * T; i++) {
        double sum = 0;
        for (size_t k = 0; k < n_heads; k++)
            sum += (double)hs_capture_at(t->capture, tap, l, k)[i];
        json_array_append_new(values, json_real(hs__report_decimal((float)sum)));
    }
    return values;
}

static void map_add(json_t *maps, const one_text *t, hs_tap tap, size_t l, bool summed)
{
    const size_t H = t->capture->n_heads;
    json_array_append_new(maps, json_pack("{ss sI so so}", "kind",
                                          tap == HS_TAP_ATTENTION ? "attention" : "similarity", "layer",
                                          (json_int_t)t->chosen->layers[l], "head",
                                          summed ? json_null() : json_integer(0), "values",
                                          sum_json(t, tap, l, summed ? H : 1)));
}

/* Returns the attention of a head of each layer, then of all its heads, then the similarity of the last
 * layer's head. */
static json_t *maps_json(const one_text *t)
{
    const size_t n = t->chosen->selection.n_layers;
    json_t *maps = json_array();
    for (size_t l = 0; l < n; l++)
        map_add(maps, t, HS_TAP_ATTENTION, l, false);
    for (size_t l = 0; l < n; l++)
        map_add(maps, t, HS_TAP_ATTENTION, l, true);
    map_add(maps, t, t->similarity, n - 1, false);
    return maps;
}

/* Returns the high-attention tokens of the last layer's first head. */
static json_t *high_json(const one_text *t)
{
    const size_t T = t->encoding->n_tokens, last = t->chosen->selection.n_layers - 1;
    float profile[HS__ONE_TEXT_TOKENS];
    uint16_t tokens[HS__ONE_TEXT_TOKENS];
    json_t *high = json_array();
    hs_column_profile(hs_capture_at(t->capture, HS_TAP_ATTENTION, last, 0), T, NULL, profile);
    const size_t n = hs_high_tokens(profile, T, t->job->settings.fields.attention_threshold, tokens);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(high, json_integer(tokens[i]));
    return high;
}

/* ---- pairs ---- */

/* Finds the strongest pairs i < j of a map that reach a threshold, strongest first. */
static size_t pairs_find(const float *map, size_t T, float threshold, hs__strong_pair ret[HS__ONE_TEXT_PAIRS])
{
    size_t n = 0;
    for (size_t i = 0; i < T; i++)
        for (size_t j = i + 1; j < T; j++)
            if (map[i * T + j] >= threshold)
                hs__strongest_insert(ret, &n, HS__ONE_TEXT_PAIRS,
                                     (hs__strong_pair){(uint32_t)i, (uint32_t)j, map[i * T + j]});
    return n;
}

/* Returns a head's strongest pairs [i, j, N]. */
static json_t *head_json(const one_text *t, size_t h)
{
    const hs_corpus_options o = hs__corpus_options_of(t->job);
    const size_t T = t->encoding->n_tokens;
    const float *map = hs_capture_at(t->capture, t->similarity, t->chosen->selection.n_layers - 1, h);
    const float most = hs_similarity_max(map, T, NULL);
    hs__strong_pair pairs[HS__ONE_TEXT_PAIRS];
    json_t *list = json_array();
    const size_t n = most > 0 ? pairs_find(map, T, o.thresholds[o.threshold_main] * most, pairs) : 0;
    for (size_t k = 0; k < n; k++)
        json_array_append_new(list, json_pack("[I I f]", (json_int_t)pairs[k].i, (json_int_t)pairs[k].j,
                                              hs__report_decimal(pairs[k].value / most)));
    return json_pack("{sI so}", "head", (json_int_t)h, "pairs", list);
}

/* Returns the heads of the last layer with the most and the fewest pairs of the same token in this text. */
static json_t *heads_json(const one_text *t, const hs__example *example)
{
    const size_t H = t->capture->n_heads, last = t->chosen->places[t->chosen->selection.n_layers - 1];
    size_t most = H, fewest = H;
    json_t *heads = json_array();
    for (size_t h = 0; h < H; h++) {
        const float *of = example->figures + last * H * HS__EXAMPLE_FIGURES + HS__EXAMPLE_REPEATED;
        const float share = of[h * HS__EXAMPLE_FIGURES];
        if (!isfinite(share))
            continue;
        most = most == H || share > of[most * HS__EXAMPLE_FIGURES] ? h : most;
        fewest = fewest == H || share < of[fewest * HS__EXAMPLE_FIGURES] ? h : fewest;
    }
    if (most < H)
        json_array_append_new(heads, head_json(t, most));
    if (fewest < H && fewest != most)
        json_array_append_new(heads, head_json(t, fewest));
    return heads;
}

/* ---- the pass ---- */

static hs_status text_run(const one_text *t, hs_workspace *workspace, hs_capture *capture, hs_error *err)
{
    const hs__corpus_job *job = t->job;
    const hs_sequence sequence = {.ids = t->encoding->ids,
                                  .types = t->encoding->types,
                                  .n_tokens = t->encoding->n_tokens,
                                  .capture = capture,
                                  .interventions = job->settings.fields.interventions,
                                  .n_interventions = job->settings.fields.n_interventions};
    return hs_engine_compute(job->engine, workspace, &sequence, 1, NULL,
                             &(hs_run_control){.cancelled = job->stop}, err);
}

static hs_status encoded_make(one_text *t, hs_workspace *workspace, const hs__example *example, json_t **ret,
                              hs_error *err)
{
    hs_capture *capture = NULL;
    hs_status st = hs_capture_create(hs_engine_runtime(t->job->engine), hs_model_shape(t->job->model),
                                     &t->chosen->selection, t->encoding->n_tokens, &capture, err);
    if (!st)
        st = text_run(t, workspace, capture, err);
    t->capture = capture;
    if (!st)
        *ret = json_pack("{sI so so so so}", "number", (json_int_t)example->number, "tokens", tokens_json(t),
                         "maps", maps_json(t), "high", high_json(t), "heads", heads_json(t, example));
    if (!st && !*ret)
        st = hs_fail(err, HS_NO_MEMORY, "no memory for the figures of one text");
    hs_capture_destroy(capture);
    return st;
}

hs_status hs__one_text_make(const hs__corpus_job *job, hs_workspace *workspace, const hs__example *example,
                            json_t **ret, hs_error *err)
{
    const size_t most = job->settings.fields.max_tokens;
    const hs_encode_options options = {most < HS__ONE_TEXT_TOKENS ? most : HS__ONE_TEXT_TOKENS,
                                       job->settings.fields.split_special_tokens};
    const hs_text text = {example->text, strlen(example->text)};
    hs_encoding encoding;
    hs_error why = {0};
    chosen c = {0};
    *ret = NULL;
    layers_choose(job, &c);
    one_text t = {.job = job, .chosen = &c, .encoding = &encoding, .similarity = similarity_tap(job)};
    size_t n_prompt;
    hs_status st = hs_prompt_encode(hs_model_tokenizer(job->model), job->settings.fields.prompt, &text, NULL,
                                    &options, &encoding, &n_prompt, &why);
    if (st == HS_NO_MEMORY)
        return hs_fail(err, st, "%s", why.text);
    if (st)
        return HS_OK;
    if (encoding.n_tokens)
        st = encoded_make(&t, workspace, example, ret, err);
    hs_encoding_finish(&encoding);
    return st;
}

uint64_t hs__one_text_bytes(const hs__corpus_job *job)
{
    const uint64_t cells = HS__ONE_TEXT_TOKENS * HS__ONE_TEXT_TOKENS;
    chosen c = {0};
    layers_choose(job, &c);
    return hs_capture_bytes(hs_model_shape(job->model), &c.selection, HS__ONE_TEXT_TOKENS) +
           (2 * LAYERS + 1) * cells * JSON_NUMBER_BYTES;
}
