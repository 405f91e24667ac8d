/* one_text.c - the paper's figures 4, 5 and 9: maps, marked tokens and strongest pairs of one text.
 *
 * The text is the first of the examples: that of figure 12. A run analyses it at its end: one pass that keeps
 * the maps of three layers. Its member of report.json is {number, tokens, sentences: [number], maps: [{kind,
 * layer, head, values}], high: [tokens], heads: [{head, pairs: [[i, j, N]]}]}. A special token has the
 * sentence -1. head is null for all heads of a layer. source_tokens are those that cross heads attend to;
 * high has numbers of these then. */
#include "server/corpus/counters/examples.h"

#include "api/api.h"
#include "api/figures/region_panels.h"
#include "engine/analysis/analysis.h"
#include "model/tokenizer/tokenizer.h"
#include "server/corpus/decoder_texts.h"
#include "server/corpus/report/html.h"
#include "server/corpus/report/report_value.h"
#include "server/corpus/search/strongest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MEMBER     "one_text"
#define TOKENS_MAX 128 /* the length of the paper's texts; the maps are in report.json */
#define PAIRS_MAX  12  /* strongest pairs of a head */

enum { LAYERS = 3, JSON_NUMBER_BYTES = 96, JSON_TEXT_BYTES = 24 };

/* Three layers of the run, fewer if they are the same, with all their heads. */
typedef struct chosen {
    size_t places[LAYERS]; /* in the run's layers */
    uint16_t layers[LAYERS];
    hs_selection selection;
} chosen;

typedef struct one_text {
    const hs__corpus_job *job;
    const chosen *chosen;
    const hs_encoding *encoding, *source; /* source: what a decoder reads; else zeroed */
    const hs_capture *capture;
    hs_tap similarity;
    float threshold; /* of similarity */
} one_text;

static hs_tap similarity_tap(const hs__corpus_job *job)
{
    return hs_similarity_tap(job->settings.fields.similarity);
}

static void layers_choose(const hs__corpus_job *job, chosen *c)
{
    const hs_field_values *fields = &job->settings.fields;
    const hs__pick pick = hs__pick_default(fields->n_layers, 0);
    const size_t places[] = {pick.early, pick.middle, pick.last};
    size_t n = 0;
    for (size_t k = 0; k < LAYERS; k++)
        if (n == 0 || places[k] > c->places[n - 1]) {
            c->places[n] = places[k];
            c->layers[n++] = fields->layers[places[k]];
        }
    c->selection = (hs_selection){.layers = c->layers,
                                  .n_layers = n,
                                  .heads = hs_all_numbers,
                                  .n_heads = hs_engine_shape(job->engine)->n_heads,
                                  .taps = HS_KEEP(ATTENTION) | 1U << similarity_tap(job)};
}

/* ---- as JSON ---- */

static json_t *tokens_json(const one_text *t, const hs_encoding *encoding)
{
    json_t *tokens = json_array();
    for (size_t i = 0; i < encoding->n_tokens; i++)
        json_array_append_new(
            tokens, json_string(hs_tokenizer_token(hs_model_tokenizer(t->job->model), encoding->ids[i])));
    return tokens;
}

/* Returns true if a token ends a sentence, as the run's texts have it. */
static bool ends_sentence(const hs_field_values *fields, const hs_encoding *e, size_t i)
{
    if (!fields->has_sentence_ends)
        return e->roles[i] == HS_ROLE_SENTENCE_END;
    for (size_t k = 0; k < fields->n_sentence_ends; k++)
        if (fields->sentence_ends[k] == e->ids[i])
            return true;
    return false;
}

static json_t *sentences_json(const one_text *t)
{
    const hs_encoding *e = t->encoding;
    uint8_t ends[TOKENS_MAX];
    int32_t sentences[TOKENS_MAX];
    json_t *list = json_array();
    for (size_t i = 0; i < e->n_tokens; i++)
        ends[i] = ends_sentence(&t->job->settings.fields, e, i);
    hs_sentences_find(ends, e->texts, e->special, e->n_tokens, sentences);
    for (size_t i = 0; i < e->n_tokens; i++)
        json_array_append_new(list, json_integer(e->special[i] ? -1 : sentences[i]));
    return list;
}

/* Returns the sum of the first heads' maps as a list of numbers. */
static json_t *sum_json(const one_text *t, hs_tap tap, size_t l, size_t n_heads)
{
    const size_t T = t->encoding->n_tokens, K = tap == HS_TAP_ATTENTION ? t->capture->n_keys : T;
    json_t *values = json_array();
    for (size_t i = 0; i < T * K; i++) {
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
    const size_t T = t->encoding->n_tokens, K = t->capture->n_keys;
    const size_t last = t->chosen->selection.n_layers - 1;
    float profile[TOKENS_MAX];
    uint16_t tokens[TOKENS_MAX];
    json_t *high = json_array();
    hs_column_profile(hs_capture_at(t->capture, HS_TAP_ATTENTION, last, 0), T, K, NULL, profile);
    const size_t n = hs_high_tokens(profile, K, t->job->settings.fields.attention_threshold, tokens);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(high, json_integer(tokens[i]));
    return high;
}

/* ---- pairs ---- */

/* Finds the strongest pairs i < j of a map that reach a threshold, strongest first. */
static size_t pairs_find(const float *map, size_t T, float threshold, hs__strong_pair ret[PAIRS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < T; i++)
        for (size_t j = i + 1; j < T; j++)
            if (map[i * T + j] >= threshold)
                hs__strongest_insert(ret, &n, PAIRS_MAX,
                                     (hs__strong_pair){(uint32_t)i, (uint32_t)j, map[i * T + j]});
    return n;
}

/* Returns a head's strongest pairs [i, j, N]. */
static json_t *head_json(const one_text *t, size_t h)
{
    const size_t T = t->encoding->n_tokens;
    const float *map = hs_capture_at(t->capture, t->similarity, t->chosen->selection.n_layers - 1, h);
    const float most = hs_similarity_max(map, T, NULL);
    hs__strong_pair pairs[PAIRS_MAX];
    json_t *list = json_array();
    const size_t n = most > 0 ? pairs_find(map, T, t->threshold * most, pairs) : 0;
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
    const hs_run_control control = {.cancelled = job->stop};
    hs__source_states *states = NULL;
    hs_sequence sequence = {.ids = t->encoding->ids,
                            .types = t->encoding->types,
                            .n_tokens = t->encoding->n_tokens,
                            .capture = capture,
                            .interventions = job->settings.fields.interventions,
                            .n_interventions = job->settings.fields.n_interventions};
    hs_status st = job->encoder ? hs__source_states_create(job, 1, TOKENS_MAX, &states, err) : HS_OK;
    if (!st && states)
        st = hs__source_states_compute(states, (const hs_encoding *const[]){t->source}, 1, &control,
                                       &sequence, err);
    if (!st)
        st = hs_engine_compute(job->engine, workspace, &sequence, 1, NULL, &control, err);
    hs__source_states_destroy(states);
    return st;
}

static hs_status encoded_make(one_text *t, hs_workspace *workspace, const hs__example *example, json_t **ret,
                              hs_error *err)
{
    const bool crosses = hs__corpus_crosses(t->job);
    hs_capture *capture = NULL;
    hs_selection selection = t->chosen->selection;
    selection.n_memory = crosses ? t->source->n_tokens : 0;
    hs_status st = hs_capture_create(hs_engine_runtime(t->job->engine), hs_engine_shape(t->job->engine),
                                     &selection, t->encoding->n_tokens, &capture, err);
    if (!st)
        st = text_run(t, workspace, capture, err);
    t->capture = capture;
    if (!st)
        *ret = json_pack("{sI so so so so so so*}", "number", (json_int_t)example->number, "tokens",
                         tokens_json(t, t->encoding), "sentences", sentences_json(t), "maps", maps_json(t),
                         "high", high_json(t), "heads", heads_json(t, example), "source_tokens",
                         crosses ? tokens_json(t, t->source) : NULL);
    if (!st && !*ret)
        st = hs_fail(err, HS_NO_MEMORY, "no memory for the figures of one text");
    hs_capture_destroy(capture);
    return st;
}

/* Encodes the beginning of an example, at most TOKENS_MAX tokens. */
static hs_status example_encode(const hs__corpus_job *job, const hs__example *example,
                                hs_encoding *ret_source, hs_encoding *ret, hs_error *err)
{
    const size_t most = job->settings.fields.max_tokens, n = most < TOKENS_MAX ? most : TOKENS_MAX;
    const hs_encode_options options = {.tokens_max = n,
                                       .split_special_tokens = job->settings.fields.split_special_tokens,
                                       .language = job->settings.fields.source_language};
    size_t n_prompt;
    *ret_source = (hs_encoding){0};
    if (job->encoder)
        return hs__decoder_texts_encode(job, &example->text, &example->pair, n, ret_source, ret, err);
    return hs_prompt_encode(hs_model_tokenizer(job->model), job->settings.fields.prompt, &example->text,
                            example->pair.bytes ? &example->pair : NULL, &options, ret, &n_prompt, err);
}

/* Analyses the beginning of a text, at most TOKENS_MAX tokens. *ret is NULL if the text cannot be encoded.
 * HS_NO_MEMORY. HS_CANCELLED: *job->stop became non-zero. */
static hs_status one_text_make(const hs__counting *counting, hs_workspace *workspace,
                               const hs__example *example, json_t **ret, hs_error *err)
{
    const hs__corpus_job *job = counting->job;
    const hs_corpus_options *o = counting->statistics;
    hs_encoding encoding, source;
    hs_error why = {0};
    chosen c = {0};
    *ret = NULL;
    layers_choose(job, &c);
    one_text t = {.job = job,
                  .chosen = &c,
                  .encoding = &encoding,
                  .source = &source,
                  .similarity = similarity_tap(job),
                  .threshold = o->thresholds[o->threshold_main]};
    hs_status st = example_encode(job, example, &source, &encoding, &why);
    if (st == HS_NO_MEMORY)
        return hs_fail(err, st, "%s", why.text);
    if (st)
        return HS_OK;
    if (encoding.n_tokens)
        st = encoded_make(&t, workspace, example, ret, err);
    hs_encoding_finish(&source);
    hs_encoding_finish(&encoding);
    return st;
}

/* Keeps the maps of the first example. */
static hs_status complete(hs__counting *counting, hs_workspace *workspace, hs_error *err)
{
    const hs__example *example = hs__example_first(counting->results->counts[HS__NUMBER_OF_examples]);
    json_t *kept = NULL;
    const hs_status st = example ? one_text_make(counting, workspace, example, &kept, err) : HS_OK;
    if (!st && kept)
        json_object_set_new(counting->results->names, MEMBER, kept);
    return st;
}

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    const uint64_t cells = TOKENS_MAX * TOKENS_MAX;
    chosen c = {0};
    (void)options;
    layers_choose(job, &c);
    c.selection.n_memory = hs__corpus_crosses(job) ? TOKENS_MAX : 0;
    size->shared += hs_capture_bytes(hs_engine_shape(job->engine), &c.selection, TOKENS_MAX) +
                    hs__source_states_bytes(job, 1, TOKENS_MAX) +
                    (2 * LAYERS + 1) * cells * JSON_NUMBER_BYTES;
    size->report_text += (2 * LAYERS + 1) * cells * JSON_TEXT_BYTES;
}

/* Keeps the maps of the text that is the first example of both shards. Examples are merged before. */
static hs_status merge(hs__corpus_results *results, void **counts, const hs__corpus_results *from,
                       void **from_counts, const char *from_dir, hs_error *err)
{
    json_t *other = json_object_get(from->names, MEMBER);
    const json_t *number = json_object_get(other, "number");
    const hs__example *first = hs__example_first(results->counts[HS__NUMBER_OF_examples]);
    (void)counts, (void)from_counts, (void)from_dir, (void)err;
    if (first && json_is_integer(number) && (uint64_t)json_integer_value(number) == first->number)
        json_object_set(results->names, MEMBER, other);
    return HS_OK;
}

static void report(const hs__corpus_results *results, void *counts, json_t *to)
{
    json_t *kept = json_object_get(results->names, MEMBER);
    (void)counts;
    if (json_is_object(kept))
        json_object_set(to, MEMBER, kept);
}

/* ---- figures; they leave out what is missing or damaged ---- */

/* A panel's `which`. */
enum {
    ONE_ATTENTION, /* figure 4: attention of one head and of all heads, layer by layer */
    ONE_HIGH,      /* figure 4: the tokens, with those of high attention marked */
    ONE_MARKED,    /* figure 5: attention and similarity of a head, the mask of its tokens of high attention,
                      and the mean similarity of the regions between them */
    ONE_MOST,      /* figure 9: the tokens, with those of the strongest pairs of a head marked */
    ONE_FEWEST     /* figure 9: the same of the head with the fewest pairs of the same token */
};

#define FONT 8.0   /* points */
#define WIDE 200.0 /* mm */

enum { MAPS_MAX = 6, NAME_BYTES = 96, CELLS = TOKENS_MAX * TOKENS_MAX };

/* The tokens of one text. */
typedef struct scene_text {
    char names[TOKENS_MAX][NAME_BYTES];
    const char *tokens[TOKENS_MAX];
    size_t n;
} scene_text;

/* Memory of one figure. */
typedef struct scene {
    scene_text text, source; /* source: without tokens, unless heads attend to it */
    const scene_text *keys;  /* the one that heads attend to */
    size_t marks[TOKENS_MAX];
    unsigned char marked[TOKENS_MAX];
    hs_panel panels[MAPS_MAX];
    size_t n_panels;
    float values[MAPS_MAX][CELLS];
    /* of regions */
    uint16_t high[TOKENS_MAX];
    hs_span runs[TOKENS_MAX];
    double sums[TOKENS_MAX];
    float means[CELLS];
} scene;

static const json_t *kept_text(const hs__drawing *d)
{
    return json_object_get(d->report, MEMBER);
}

/* Reads the tokens of a text. Returns false if there are none, or too many. */
static bool text_read(const hs__drawing *d, const json_t *tokens, scene_text *ret)
{
    const json_t *model = json_object_get(json_object_get(d->report, "provenance"), "model");
    const char *kind = json_string_value(json_object_get(model, "tokenizer"));
    ret->n = json_array_size(tokens);
    if (!ret->n || ret->n > TOKENS_MAX)
        return false;
    for (size_t i = 0; i < ret->n; i++) {
        const char *token = json_string_value(json_array_get(tokens, i));
        hs_token_readable(kind, token ? token : "?", ret->names[i], NAME_BYTES);
        ret->tokens[i] = ret->names[i];
    }
    return true;
}

/* Reads the tokens. Returns false if there is no text. */
static bool tokens_read(const hs__drawing *d, scene *r)
{
    const json_t *source = json_object_get(kept_text(d), "source_tokens");
    r->keys = source ? &r->source : &r->text;
    return text_read(d, json_object_get(kept_text(d), "tokens"), &r->text) &&
           (!source || text_read(d, source, &r->source));
}

/* ---- maps ---- */

static void panel_add(scene *r, const json_t *map)
{
    const json_t *head = json_object_get(map, "head"), *kind = json_object_get(map, "kind");
    const json_t *list = json_object_get(map, "values");
    const bool attends = json_is_string(kind) && strcmp(json_string_value(kind), "attention") == 0;
    const long long layer = (long long)json_integer_value(json_object_get(map, "layer"));
    const scene_text *columns = attends ? r->keys : &r->text;
    const size_t n = r->text.n, n_values = n * columns->n;
    float *values = r->values[r->n_panels];
    hs_panel *p = &r->panels[r->n_panels];
    if (json_array_size(list) != n_values)
        return;
    for (size_t i = 0; i < n_values; i++)
        values[i] = (float)json_number_value(json_array_get(list, i));
    *p = hs_panel_of_map(values, r->text.tokens, n, columns->tokens, columns->n, !attends);
    if (!isfinite(p->low) || !isfinite(p->high))
        return;
    char name[32] = "all heads";
    if (json_is_integer(head))
        snprintf(name, sizeof name, "head %lld", (long long)json_integer_value(head));
    char range[72];
    hs_panel_range_text(p, range);
    snprintf(p->title, sizeof p->title, "Layer %lld, %s: %s, %s", layer, name,
             attends ? "attention" : "similarity", range);
    r->n_panels++;
}

static hs_status maps_draw(const scene *r, const char *title, size_t n_across, hs_picture *ret, hs_error *err)
{
    const hs_figure figure = {.title = title,
                              .caption = title,
                              .panels = r->panels,
                              .n_panels = r->n_panels,
                              .n_across = n_across < r->n_panels ? n_across : r->n_panels,
                              .width_mm = fmin(WIDE, 90 * (double)n_across),
                              .font_pt = FONT};
    return r->n_panels ? hs_figure_draw(&figure, ret, err) : HS_OK;
}

static hs_status attention_draw(const hs__drawing *d, scene *r, const char *title, hs_picture *ret,
                                hs_error *err)
{
    const json_t *maps = json_object_get(kept_text(d), "maps");
    const size_t n = json_array_size(maps) / 2; /* a head and all heads of each layer */
    for (size_t k = 0; k < 2 * n && k < MAPS_MAX; k++)
        panel_add(r, json_array_get(maps, k));
    return maps_draw(r, title, n, ret, err);
}

static void token_mark(scene *r, const scene_text *text, const json_t *number)
{
    const json_int_t i = json_integer_value(number);
    if (i >= 0 && (size_t)i < text->n)
        r->marked[i] = 1;
}

static void high_read(const hs__drawing *d, scene *r)
{
    const json_t *high = json_object_get(kept_text(d), "high");
    for (size_t k = 0; k < json_array_size(high); k++)
        token_mark(r, r->keys, json_array_get(high, k));
}

static hs_status marked_draw(const hs__drawing *d, scene *r, const char *title, hs_picture *ret,
                             hs_error *err)
{
    const json_t *maps = json_object_get(kept_text(d), "maps");
    const size_t n = json_array_size(maps) / 2;
    high_read(d, r);
    if (n) {
        panel_add(r, json_array_get(maps, n - 1));
        panel_add(r, json_array_get(maps, 2 * n));
    }
    for (size_t k = 0; k < r->n_panels && r->keys == &r->text; k++) /* marks need a square map */
        r->panels[k].marked = r->marked;
    if (r->n_panels == 2 && r->keys == &r->text) {
        const hs_region_memory memory = {r->sums, r->means, r->runs, r->high};
        const size_t n_tokens = r->text.n;
        r->panels[2] = hs_panel_of_mask(r->marked, r->text.tokens, n_tokens, r->values[2]);
        r->panels[3] = hs_panel_of_regions(r->values[1], NULL, r->marked, r->text.tokens, n_tokens, &memory,
                                           r->values[3]);
        r->n_panels = 4;
    }
    return maps_draw(r, title, 2, ret, err);
}

/* ---- tokens ---- */

static void pairs_read(const json_t *pairs, scene *r)
{
    for (size_t k = 0; k < json_array_size(pairs); k++)
        for (size_t side = 0; side < 2; side++)
            token_mark(r, &r->text, json_array_get(json_array_get(pairs, k), side));
}

/* Marks the tokens of high attention, or those of the strongest pairs of the kth head. */
static hs_status tokens_draw(const hs__drawing *d, scene *r, const hs__report_panel *panel, hs_picture *ret,
                             hs_error *err)
{
    const json_t *heads = json_object_get(kept_text(d), "heads"), *head = NULL;
    const scene_text *marked = panel->which == ONE_HIGH ? r->keys : &r->text;
    char title[128];
    if (panel->which == ONE_HIGH)
        high_read(d, r);
    else {
        head = json_array_get(heads, (size_t)panel->which - ONE_MOST);
        pairs_read(json_object_get(head, "pairs"), r);
    }
    snprintf(title, sizeof title, "Layer %d, head %lld: %s", d->o.layers[d->o.n_layers - 1],
             (long long)json_integer_value(json_object_get(head, "head")), panel->title);
    hs_token_marks_number(marked->tokens, r->marked, marked->n, r->marks);
    const hs_token_text text = {.title = title,
                                .tokens = marked->tokens,
                                .marks = r->marks,
                                .n = marked->n,
                                .width_mm = WIDE,
                                .font_pt = FONT};
    return panel->which == ONE_HIGH || head ? hs_token_text_draw(&text, ret, err) : HS_OK;
}

/* Returns a text of a list, and a number; "?" and -1 if there is none. */
static const char *token_at(const json_t *list, json_int_t i)
{
    const char *token = i < 0 ? NULL : json_string_value(json_array_get(list, (size_t)i));
    return token ? token : "?";
}

static json_int_t sentence_at(const json_t *list, json_int_t i)
{
    const json_t *number = i < 0 ? NULL : json_array_get(list, (size_t)i);
    return json_is_integer(number) ? json_integer_value(number) : -1;
}

static void token_cell(const hs__drawing *d, const char *token, FILE *out)
{
    const json_t *model = json_object_get(json_object_get(d->report, "provenance"), "model");
    char name[NAME_BYTES];
    hs_token_readable(json_string_value(json_object_get(model, "tokenizer")), token, name, NAME_BYTES);
    fputs("<td>", out);
    hs__html_text(out, name);
    fputs("</td>", out);
}

static void pair_write(const hs__drawing *d, const json_t *pair, FILE *out)
{
    const json_t *tokens = json_object_get(kept_text(d), "tokens"),
                 *sentences = json_object_get(kept_text(d), "sentences");
    const json_int_t i = json_integer_value(json_array_get(pair, 0)),
                     j = json_integer_value(json_array_get(pair, 1));
    const char *first = token_at(tokens, i), *second = token_at(tokens, j);
    const json_int_t sentence = sentence_at(sentences, i);
    fprintf(out, "<tr><th scope=\"row\">%lld, %lld</th>", (long long)i, (long long)j);
    token_cell(d, first, out);
    token_cell(d, second, out);
    hs__cell_write(out, hs__report_number_at(pair, "L", (hs__indices){.l = 2}), "%.3f");
    fprintf(out, "<td>%lld</td><td>%s</td><td>%s</td></tr>\n", (long long)(j - i),
            strcmp(first, second) == 0 ? "yes" : "no",
            sentence >= 0 && sentence == sentence_at(sentences, j) ? "yes" : "no");
}

/* Writes the strongest pairs of the kth head. */
static void pairs_write(const hs__drawing *d, size_t k, FILE *out)
{
    static const hs__column columns[] = {
        {"Positions", NULL, NULL},     {"Token", NULL, NULL},
        {"Token", NULL, NULL},         {"N", NULL, NULL},
        {"Distance", NULL, NULL},      {"Same token", NULL, NULL},
        {"Same sentence", NULL, NULL},
    };
    const json_t *head = json_array_get(json_object_get(kept_text(d), "heads"), k),
                 *pairs = json_object_get(head, "pairs");
    if (!head)
        return;
    fprintf(out, "<details><summary>Strongest pairs of head %lld</summary>",
            (long long)json_integer_value(json_object_get(head, "head")));
    hs__table_begin(out, columns, HS__N(columns));
    for (size_t i = 0; i < json_array_size(pairs) && i < PAIRS_MAX; i++)
        pair_write(d, json_array_get(pairs, i), out);
    hs__table_end(out);
    fputs("</details>", out);
}

static void most_write(const hs__drawing *d, hs__indices at, FILE *out)
{
    (void)at;
    pairs_write(d, 0, out);
}

static void fewest_write(const hs__drawing *d, hs__indices at, FILE *out)
{
    (void)at;
    pairs_write(d, 1, out);
}

static hs_status draw(hs__drawing *d, const hs__report_panel *panel, hs__indices at, hs_picture *ret,
                      hs_error *err)
{
    (void)at;
    hs_status st = HS_OK;
    scene *r = kept_text(d) ? calloc(1, sizeof *r) : NULL;
    if (kept_text(d) && !r)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the report");
    if (r && tokens_read(d, r))
        st = panel->which == ONE_ATTENTION ? attention_draw(d, r, panel->title, ret, err)
             : panel->which == ONE_MARKED  ? marked_draw(d, r, panel->title, ret, err)
                                           : tokens_draw(d, r, panel, ret, err);
    free(r);
    return st;
}

#define ONE_TEXT(kind) .which = ONE_##kind, .draw = draw
static const hs__report_panel panels[] = {
    {"one_attention", "", "Attention in one text", ONE_TEXT(ATTENTION)},
    {"one_high", "", "tokens of high attention", ONE_TEXT(HIGH)},
    {"one_marked", "", "Attention and similarity in one text", ONE_TEXT(MARKED)},
    {"one_most", "", "most pairs of the same token", ONE_TEXT(MOST)},
    {"one_fewest", "", "fewest pairs of the same token", ONE_TEXT(FEWEST)},
    {"one_most_pairs", "", .write = most_write},
    {"one_fewest_pairs", "", .write = fewest_write},
};

const hs__counter hs__counter_one_text = {
    .name = "one text",
    .measure = measure,
    .complete = complete,
    .merge = merge,
    .report = report,
    .panels = panels,
    .n_panels = sizeof panels / sizeof *panels,
};
