/* attribution.c - attributions of tokens and heads, relevance and estimates from gradients. */
#include "engine/analysis/attribution.h"

#include "engine/analysis/analysis_maps.h"
#include "engine/pass/pass.h"

#include <stdlib.h>

static size_t hidden_of(const hs_engine *engine)
{
    return hs_engine_shape(engine)->hidden;
}

/* ---- one forward and one backward pass ---- */

/* Returns the floats of a text's states. */
static size_t state_floats(const hs_engine *engine, const hs_sequence *text)
{
    return text->n_tokens * hidden_of(engine);
}

static size_t word_floats(const hs_engine *engine, const hs_sequence *text)
{
    return text->n_tokens * hs_engine_architecture(engine)->embedding.width;
}

enum { WAY_ARRAYS = 5 };

/* Returns the numbers that the attributions of a text's tokens allocate: the arrays of a way, and ids. */
static size_t way_floats(const hs_engine *engine, const hs_sequence *text)
{
    return WAY_ARRAYS * word_floats(engine, text) + text->n_tokens;
}

size_t hs_differentiated_bytes(const hs_differentiated *of, size_t n_threads)
{
    const hs_engine *reader = of->decoder ? of->decoder : of->engine;
    const size_t T = of->text->n_tokens, n_read = (of->decoder ? of->decoder_text : of->text)->n_tokens;
    size_t n_states = state_floats(of->engine, of->text), n_way = way_floats(of->engine, of->text);
    size_t bytes = hs_tape_bytes(of->engine, T, of->text->n_memory, n_threads) +
                   hs_tape_target_bytes(reader, n_read, n_threads);
    if (of->decoder) {
        bytes += hs_tape_bytes(of->decoder, n_read, T, n_threads);
        n_states += state_floats(of->decoder, of->decoder_text);
        n_way = hs_max(n_way, way_floats(of->decoder, of->decoder_text));
    }
    return bytes + (n_states + n_way) * sizeof(float);
}

/* The tapes of a text and of its decoder's. */
typedef struct tapes {
    hs_tape *text, *decoder; /* owned */
    const hs_tape *read;     /* the one that the target is read of */
} tapes;

static void tapes_destroy(tapes *t)
{
    hs_tape_destroy(t->decoder);
    hs_tape_destroy(t->text);
}

/* Runs the forward passes. The caller destroys the tapes, also after a failure. */
static hs_status tapes_record(const hs_differentiated *of, const hs_run_control *control, tapes *t,
                              hs_error *err)
{
    hs_status st = hs_tape_record(of->engine, of->ws, of->text, control, &t->text, err);
    t->read = t->text;
    if (st || !of->decoder)
        return st;
    hs_sequence text = *of->decoder_text;
    text.memory = hs_tape_last(t->text);
    text.n_memory = of->text->n_tokens;
    st = hs_tape_record(of->decoder, of->decoder_ws, &text, control, &t->decoder, err);
    t->read = t->decoder;
    return st;
}

/* Runs the decoder's backward pass from `last`, and replaces it by the gradient of the first text's states.
 */
static hs_status decoder_back(const hs_differentiated *of, const tapes *t, const hs_gradients *to, size_t n,
                              bool further, float *last, float *memory, const hs_run_control *control,
                              hs_error *err)
{
    hs_gradients all[HS_DECODER_SELECTIONS_MAX + 1] = {0};
    if (n > HS_DECODER_SELECTIONS_MAX)
        return hs_fail(err, HS_INVALID, "%zu selections are more than %d", n, HS_DECODER_SELECTIONS_MAX);
    if (n > 0)
        memcpy(all, to, n * sizeof *all);
    all[n].memory = memory;
    return hs_tape_differentiate(t->decoder, of->decoder_ws, last, all, n + further, control, err);
}

/* Runs the backward passes from the target. */
static hs_status tapes_differentiate(const hs_differentiated *of, const tapes *t, const hs_target *target,
                                     const hs_gradients *to, size_t n, const hs_gradients *decoder_to,
                                     size_t n_decoder, const hs_run_control *control, double *ret_value,
                                     hs_error *err)
{
    const size_t n_text = state_floats(of->engine, of->text);
    const size_t n_decoded = of->decoder ? state_floats(of->decoder, of->decoder_text) : 0;
    float *text = malloc((n_text + n_decoded) * sizeof *text);
    if (!text)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for gradients");
    float *last = of->decoder ? text + n_text : text;
    hs_status st = hs_tape_target(t->read, target, control, ret_value, last, err);
    if (!st && of->decoder)
        st = decoder_back(of, t, decoder_to, n_decoder, n > 0, last, text, control, err);
    if (!st && n > 0)
        st = hs_tape_differentiate(t->text, of->ws, text, to, n, control, err);
    free(text);
    return st;
}

hs_status hs_differentiate(const hs_differentiated *of, const hs_gradients *to, size_t n,
                           const hs_gradients *decoder_to, size_t n_decoder, const hs_run_control *control,
                           double *ret_value, hs_error *err)
{
    tapes t = {0};
    hs_target target = of->target;
    hs_status st = tapes_record(of, control, &t, err);
    if (!st && of->find)
        st = of->find(of->context, &target, err);
    if (!st)
        st = tapes_differentiate(of, &t, &target, to, n, decoder_to, n_decoder, control, ret_value, err);
    tapes_destroy(&t);
    return st;
}

/* ---- tokens ---- */

void hs_attribution_read(hs_attribution_kind kind, const float *words, const float *gradients,
                         size_t n_tokens, size_t width, float *ret_tokens)
{
    const float *left = kind == HS_ATTRIBUTE_GRADIENT ? gradients : words;
    for (size_t t = 0; t < n_tokens; t++) {
        double sum = 0;
        for (size_t i = t * width; i < (t + 1) * width; i++)
            sum += (double)left[i] * (double)gradients[i];
        ret_tokens[t] = (float)(kind == HS_ATTRIBUTE_GRADIENT ? sqrt(sum) : sum);
    }
}

/* Finds point i of n of the Gauss-Legendre quadrature on [0, 1], and its weight: roots of the Legendre
 * polynomial P_n by Newton's method. */
static void quadrature_point(size_t i, size_t n, double *ret_at, double *ret_weight)
{
    const double pi = 3.14159265358979323846;
    double x = cos(pi * ((double)i + 0.75) / ((double)n + 0.5)), slope = 1;
    for (int step = 0; step < 100; step++) {
        double p = 1, before = 0;
        for (size_t k = 1; k <= n; k++) {
            const double next = ((2 * (double)k - 1) * x * p - ((double)k - 1) * before) / (double)k;
            before = p;
            p = next;
        }
        slope = (double)n * (x * p - before) / (x * x - 1);
        const double change = p / slope;
        x -= change;
        if (fabs(change) < 1e-15)
            break;
    }
    *ret_at = (1 - x) / 2;
    *ret_weight = 1 / ((1 - x * x) * slope * slope);
}

/* A way from a baseline's word rows to those of a text. */
typedef struct way {
    hs_differentiated of; /* of `text`, whose rows are replaced */
    hs_sequence text;
    size_t n;                            /* floats of rows */
    float *words, *baseline, *at, *sums; /* [n] */
    float *gradients;                    /* [n] */
} way;

/* Reads the rows at both ends. */
static hs_status way_read(const way *w, const hs_attribution_options *options, hs_error *err)
{
    const hs_architecture *architecture = hs_engine_architecture(w->of.engine);
    const size_t T = w->text.n_tokens, E = architecture->embedding.width;
    hs_sequence text = w->text;
    hs_word_rows_read(architecture, &text, w->words);
    memset(w->baseline, 0, w->n * sizeof *w->baseline);
    if (options->baseline_id >= 0) {
        int32_t *ids = malloc(T * sizeof *ids);
        if (!ids)
            return hs_fail(err, HS_NO_MEMORY, "out of memory for a baseline");
        for (size_t t = 0; t < T; t++)
            ids[t] = options->baseline_id;
        text.ids = ids;
        text.words = NULL;
        hs_word_rows_read(architecture, &text, w->baseline);
        free(ids);
    }
    for (size_t t = 0; options->kept && t < T; t++)
        if (options->kept[t])
            memcpy(w->baseline + t * E, w->words + t * E, E * sizeof *w->words);
    return HS_OK;
}

/* Computes the target where the rows are a part of the way from the baseline. */
static hs_status way_value(way *w, const float *rows, const hs_run_control *control, double *ret_value,
                           hs_error *err)
{
    tapes t = {0};
    w->text.words = rows;
    hs_status st = tapes_record(&w->of, control, &t, err);
    if (!st)
        st = hs_tape_target(t.read, &w->of.target, control, ret_value, NULL, err);
    tapes_destroy(&t);
    return st;
}

/* Sums weighted gradients along the way. */
static hs_status way_integrate(way *w, const hs_attribution_options *options, const hs_run_control *control,
                               hs_error *err)
{
    const hs_gradients to = {.words = w->gradients};
    hs_status st = HS_OK;
    memset(w->sums, 0, w->n * sizeof *w->sums);
    for (size_t step = 0; step < options->n_steps && !st; step++) {
        double at, weight;
        quadrature_point(step, options->n_steps, &at, &weight);
        for (size_t i = 0; i < w->n; i++)
            w->at[i] = w->baseline[i] + (float)at * (w->words[i] - w->baseline[i]);
        w->text.words = w->at;
        st = hs_differentiate(&w->of, &to, 1, NULL, 0, control, NULL, err);
        for (size_t i = 0; i < w->n && !st; i++)
            w->sums[i] += (float)weight * w->gradients[i];
        if (options->progress && !st)
            options->progress(options->context, step + 1);
    }
    return st;
}

static hs_status way_attribute(way *w, const hs_attribution_options *options, const hs_run_control *control,
                               float *ret_tokens, hs_attribution *ret, hs_error *err)
{
    const size_t T = w->text.n_tokens, E = w->n / T;
    const hs_gradients to = {.words = w->gradients};
    hs_status st = way_read(w, options, err);
    if (st)
        return st;
    if (options->kind != HS_ATTRIBUTE_INTEGRATED) {
        st = hs_differentiate(&w->of, &to, 1, NULL, 0, control, &ret->value, err);
        if (!st)
            hs_attribution_read(options->kind, w->words, w->gradients, T, E, ret_tokens);
        return st;
    }
    st = way_value(w, w->words, control, &ret->value, err);
    if (!st)
        st = way_value(w, w->baseline, control, &ret->baseline, err);
    if (!st)
        st = way_integrate(w, options, control, err);
    if (st)
        return st;
    for (size_t i = 0; i < w->n; i++)
        w->at[i] = w->words[i] - w->baseline[i];
    hs_attribution_read(options->kind, w->at, w->sums, T, E, ret_tokens);
    ret->gap = ret->baseline - ret->value;
    for (size_t t = 0; t < T; t++)
        ret->gap += (double)ret_tokens[t];
    return HS_OK;
}

/* Attributes to the tokens of the text of `of`, whose other text is constant. */
static hs_status attribute(const hs_differentiated *of, const hs_attribution_options *options,
                           const hs_run_control *control, float *ret_tokens, hs_attribution *ret,
                           hs_error *err)
{
    way w = {.of = *of, .text = *of->text};
    w.n = word_floats(of->engine, of->text);
    w.of.text = &w.text;
    w.of.find = NULL;
    w.text.capture = NULL;
    hs_sequence decoded = {0};
    if (of->decoder) {
        decoded = *of->decoder_text;
        decoded.capture = NULL;
        w.of.decoder_text = &decoded;
    }
    w.words = malloc(WAY_ARRAYS * w.n * sizeof *w.words);
    if (!w.words)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for attributions");
    w.baseline = w.words + w.n;
    w.at = w.baseline + w.n;
    w.sums = w.at + w.n;
    w.gradients = w.sums + w.n;
    *ret = (hs_attribution){0};
    const hs_status st = way_attribute(&w, options, control, ret_tokens, ret, err);
    free(w.words);
    return st;
}

/* Attributes to the tokens of the decoder's text, with the memory of one pass over the first text. */
static hs_status attribute_decoded(const hs_differentiated *of, const hs_attribution_options *options,
                                   const hs_run_control *control, float *ret_tokens, hs_attribution *ret,
                                   hs_error *err)
{
    hs_tape *tape = NULL;
    hs_sequence source = *of->text, text = *of->decoder_text;
    source.capture = NULL;
    hs_status st = hs_tape_record(of->engine, of->ws, &source, control, &tape, err);
    if (st)
        return st;
    text.memory = hs_tape_last(tape);
    text.n_memory = source.n_tokens;
    const hs_differentiated decoder = {
        .engine = of->decoder, .ws = of->decoder_ws, .text = &text, .target = of->target};
    st = attribute(&decoder, options, control, ret_tokens, ret, err);
    hs_tape_destroy(tape);
    return st;
}

hs_status hs_attribution_compute(const hs_differentiated *of, const hs_attribution_options *options,
                                 const hs_run_control *control, float *ret_tokens, hs_attribution *ret,
                                 hs_error *err)
{
    if (options->kind == HS_ATTRIBUTE_INTEGRATED &&
        (options->n_steps < 1 || options->n_steps > HS_ATTRIBUTION_STEPS_MAX))
        return hs_fail(err, HS_INVALID, "steps are not within 1 and %d", HS_ATTRIBUTION_STEPS_MAX);
    return options->of_decoder ? attribute_decoded(of, options, control, ret_tokens, ret, err)
                               : attribute(of, options, control, ret_tokens, ret, err);
}

/* ---- relevance ---- */

/* Maps of one pair of texts: Ts tokens of the first, Tt of the decoder's. */
typedef struct relevance {
    hs_runtime *runtime;
    const hs__kernels *kernels;
    size_t n_threads;
    size_t Ts, Tt, n_layers, n_decoder_layers;
    float *text;             /* [n_layers][Ts][Ts] A of each layer */
    float *own, *cross;      /* [n_decoder_layers][Tt][Tt], [..][Tt][Ts] */
    float *ss, *tt, *ts;     /* R */
    float *panels, *product; /* of maps of the longer text */
    float *normed, *other;
} relevance;

static void relevance_layout(relevance *r, const hs_engine *engine, hs__arena *arena)
{
    const size_t longest = hs_max(r->Ts, r->Tt), n = longest * longest;
    r->runtime = engine->runtime;
    r->kernels = engine->kernels;
    r->text = hs__arena_floats(arena, r->n_layers * r->Ts * r->Ts);
    r->own = hs__arena_floats(arena, r->n_decoder_layers * r->Tt * r->Tt);
    r->cross = hs__arena_floats(arena, r->n_decoder_layers * r->Tt * r->Ts);
    r->ss = hs__arena_floats(arena, r->Ts * r->Ts);
    r->tt = hs__arena_floats(arena, r->Tt * r->Tt);
    r->ts = hs__arena_floats(arena, r->Tt * r->Ts);
    r->panels = hs__arena_floats(arena, hs__panels_floats(r->kernels, longest, longest));
    r->product = hs__arena_floats(arena, n);
    r->normed = hs__arena_floats(arena, n);
    r->other = hs__arena_floats(arena, n);
}

static relevance relevance_describe(const hs_differentiated *of)
{
    return (relevance){.Ts = of->text->n_tokens,
                       .Tt = of->decoder ? of->decoder_text->n_tokens : 0,
                       .n_layers = hs_engine_shape(of->engine)->n_layers,
                       .n_decoder_layers = of->decoder ? hs_engine_shape(of->decoder)->n_layers : 0};
}

size_t hs_relevance_bytes(const hs_differentiated *of)
{
    relevance r = relevance_describe(of);
    hs__arena arena = {0};
    relevance_layout(&r, of->engine, &arena);
    return arena.used;
}

enum { PRODUCT_ROWS = 64 }; /* of a task */

typedef struct map_product {
    const relevance *r;
    size_t n, K, m;
    const float *a;
    float *c;
} map_product;

static void task_product_add(void *context, size_t task, size_t slot)
{
    const map_product *p = context;
    const hs__kernels *kernels = p->r->kernels;
    const size_t first = task * PRODUCT_ROWS, n = hs_min(PRODUCT_ROWS, p->n - first), at = first * p->m;
    float *product = p->r->product + at;
    (void)slot;
    kernels->product(n, p->K, p->a + first * p->K, p->K, p->r->panels, p->m, NULL, NULL, product, p->m);
    kernels->add_bias(1, n * p->m, product, p->c + at, n * p->m);
}

/* Adds a [n][K] times b [K][m] to c [n][m]. b is read before c changes, so that they may be one map. */
static void product_add(const relevance *r, size_t n, size_t K, size_t m, const float *a, const float *b,
                        float *c)
{
    map_product p = {r, n, K, m, a, c};
    r->kernels->pack(K, m, b, m, 1, r->panels);
    hs_runtime_share(r->runtime, r->n_threads, (n + PRODUCT_ROWS - 1) / PRODUCT_ROWS, task_product_add, &p);
}

static void identity_set(size_t n, float *map)
{
    memset(map, 0, n * n * sizeof *map);
    for (size_t i = 0; i < n; i++)
        map[i * n + i] = 1;
}

/* Writes N(R) of a map [n][n]: rows of R - I divided by their sums, plus I. */
static void map_normalize(size_t n, const float *map, float *ret)
{
    for (size_t i = 0; i < n; i++) {
        const float *from = map + i * n;
        float *to = ret + i * n;
        double sum = -1;
        for (size_t j = 0; j < n; j++)
            sum += (double)from[j];
        for (size_t j = 0; j < n; j++) {
            const double rest = (double)from[j] - (i == j);
            to[j] = (float)((sum > 0 ? rest / sum : 0) + (i == j));
        }
    }
}

/* Adds N(R_tt)' A N(R_ss) to R_ts. */
static void cross_add(const relevance *r, const float *A)
{
    const size_t Ts = r->Ts, Tt = r->Tt;
    map_normalize(Ts, r->ss, r->normed);
    memset(r->other, 0, Tt * Ts * sizeof *r->other);
    product_add(r, Tt, Ts, Ts, A, r->normed, r->other);
    map_normalize(Tt, r->tt, r->normed);
    for (size_t i = 0; i < Tt; i++)
        for (size_t j = 0; j < i; j++) {
            const float upper = r->normed[j * Tt + i];
            r->normed[j * Tt + i] = r->normed[i * Tt + j];
            r->normed[i * Tt + j] = upper;
        }
    product_add(r, Tt, Tt, Ts, r->normed, r->other, r->ts);
}

/* Runs through a layer of the decoder. */
static void decoder_layer_run(const relevance *r, size_t l)
{
    const float *own = r->own + l * r->Tt * r->Tt;
    product_add(r, r->Tt, r->Tt, r->Ts, own, r->ts, r->ts);
    product_add(r, r->Tt, r->Tt, r->Tt, own, r->tt, r->tt);
    cross_add(r, r->cross + l * r->Tt * r->Ts);
}

/* Runs through all layers, of the first text and then of the decoder. */
static hs_status relevance_run(const relevance *r, const hs_run_control *control, hs_error *err)
{
    const size_t Ts = r->Ts, Tt = r->Tt, n_layers = r->n_layers + r->n_decoder_layers;
    identity_set(Ts, r->ss);
    identity_set(Tt, r->tt);
    memset(r->ts, 0, Tt * Ts * sizeof *r->ts);
    for (size_t l = 0; l < n_layers; l++) {
        if (hs__is_cancelled(control))
            return hs_fail(err, HS_CANCELLED, "cancelled after %zu of %zu layers of relevance", l, n_layers);
        if (l < r->n_layers)
            product_add(r, Ts, Ts, Ts, r->text + l * Ts * Ts, r->ss, r->ss);
        else
            decoder_layer_run(r, l - r->n_layers);
    }
    return HS_OK;
}

hs_status hs_relevance_compute(const hs_differentiated *of, const hs_run_control *control, float *ret_text,
                               float *ret_decoder, float *ret_cross, double *ret_value, hs_error *err)
{
    relevance r = relevance_describe(of);
    hs__arena arena = {.base = hs_memory_create(hs_relevance_bytes(of))};
    if (!arena.base)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for relevance");
    relevance_layout(&r, of->engine, &arena);
    const hs_gradients text = {.layers = hs_all_numbers, .n_layers = r.n_layers, .relevance = r.text};
    const hs_gradients decoder[] = {
        {.layers = hs_all_numbers, .n_layers = r.n_decoder_layers, .relevance = r.own},
        {.layers = hs_all_numbers, .n_layers = r.n_decoder_layers, .cross = true, .relevance = r.cross}};
    r.n_threads = control ? control->n_threads : 1;
    hs_status st = hs_differentiate(of, &text, 1, decoder, of->decoder ? 2 : 0, control, ret_value, err);
    if (!st)
        st = relevance_run(&r, control, err);
    if (!st && ret_text)
        memcpy(ret_text, r.ss, r.Ts * r.Ts * sizeof *ret_text);
    if (!st && ret_decoder)
        memcpy(ret_decoder, r.tt, r.Tt * r.Tt * sizeof *ret_decoder);
    if (!st && ret_cross)
        memcpy(ret_cross, r.ts, r.Tt * r.Ts * sizeof *ret_cross);
    free(arena.base);
    return st;
}

/* ---- logits ---- */

hs_status hs_logit_attribution_compute(const hs_differentiated *of, const hs_logit_selection *selection,
                                       const hs_run_control *control, hs_logit_attribution *ret,
                                       double *ret_target, hs_error *err)
{
    tapes t = {0};
    hs_status st = tapes_record(of, control, &t, err);
    if (!st)
        st = hs_tape_logits(of->decoder ? t.decoder : t.text, of->decoder ? of->decoder_ws : of->ws,
                            &of->target, selection, control, ret, ret_target, err);
    tapes_destroy(&t);
    return st;
}

/* ---- estimates ---- */

/* Returns the part of a head's output in a capture of HEAD_OUTPUT. */
static const float *output_of(const hs_capture *capture, size_t layer, size_t head)
{
    const ptrdiff_t l = hs__list_find(capture->layers, capture->n_layers, layer),
                    h = hs__list_find(capture->heads, capture->n_heads, head);
    return hs_capture_at(capture, HS_TAP_HEAD_OUTPUT, (size_t)l, (size_t)h);
}

/* Returns the sum of (other - output) g in one column; other NULL: the column's mean, times the factor. */
static double column_estimate(const hs_effects_options *options, size_t T, size_t D, const float *output,
                              const float *other, const float *g)
{
    const double factor = options->kind == HS_INTERVENE_SCALE ? (double)options->factor : 0;
    double mean = 0, sum = 0;
    for (size_t t = 0; options->kind == HS_INTERVENE_MEAN && t < T; t++)
        mean += (double)output[t * D] / (double)T;
    for (size_t t = 0; t < T; t++) {
        const double o = (double)output[t * D];
        const double changed = other                                ? (double)other[t * D]
                               : options->kind == HS_INTERVENE_MEAN ? mean
                                                                    : factor * o;
        sum += (changed - o) * (double)g[t * D];
    }
    return sum;
}

void hs_effects_estimate(const hs_effects_options *options, const float *outputs, float *ret_changes)
{
    const hs_capture *baseline = options->baseline->capture;
    const size_t T = baseline->n_tokens, D = baseline->head_width;
    for (size_t l = 0; l < options->n_layers; l++)
        for (size_t h = 0; h < options->n_heads; h++) {
            const size_t layer = options->layers[l], head = options->heads[h];
            const float *output = output_of(baseline, layer, head);
            const float *other =
                options->kind == HS_INTERVENE_PATCH ? output_of(options->other, layer, head) : NULL;
            double sum = 0;
            for (size_t d = 0; d < D; d++)
                sum += column_estimate(options, T, D, output + d, other ? other + d : NULL, outputs + d);
            ret_changes[l * options->n_heads + h] = (float)sum;
            outputs += T * D;
        }
}

void hs_patch_map_estimate(const hs_patch_map_options *options, const float *states, double value,
                           double other_value, float *ret_map)
{
    const hs_capture *clean = options->clean->capture;
    const size_t n_rows = (clean->depth + 1) * clean->n_tokens, H = clean->hidden;
    const float *from = clean->arrays[HS_TAP_EVERY_STATE],
                *other = options->other->arrays[HS_TAP_EVERY_STATE];
    for (size_t row = 0; row < n_rows; row++) {
        double change = 0;
        for (size_t i = row * H; i < (row + 1) * H; i++)
            change += ((double)other[i] - (double)from[i]) * (double)states[i];
        ret_map[row] = hs_recovered(value, value + change, other_value);
    }
}
