/* generate.c - writes tokens, each from a pass over the tokens that no pass has seen. */
#include "engine/analysis/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rules ----
 *
 * transformers' logits processors. ids [n] is the text so far, of which n_prompt tokens were given, and
 * n_max its largest length. */

typedef struct text {
    const int32_t *ids;
    size_t n, n_prompt, n_max;
} text;

static void ban(const int32_t *ids, size_t n, float *logits)
{
    for (size_t i = 0; i < n; i++)
        logits[ids[i]] = -INFINITY;
}

/* Makes tokens of the text less probable, each once (Keskar et al. 2019). */
static void repetition_penalize(const text *t, double penalty, float *logits)
{
    for (size_t i = 0; i < t->n; i++) {
        size_t before = 0;
        while (before < i && t->ids[before] != t->ids[i])
            before++;
        float *logit = &logits[t->ids[i]];
        if (before == i)
            *logit = *logit < 0 ? *logit * (float)penalty : *logit / (float)penalty;
    }
}

/* Bans each token that would repeat n_gram tokens of the text. */
static void repeats_ban(const text *t, size_t n_gram, float *logits)
{
    const size_t n_before = n_gram - 1;
    const int32_t *end = t->ids + t->n - n_before;
    for (size_t i = 0; i + n_before < t->n; i++)
        if (memcmp(t->ids + i, end, n_before * sizeof *end) == 0)
            logits[t->ids[i + n_before]] = -INFINITY;
}

static bool stops(const hs_generation *g, int32_t id)
{
    for (size_t i = 0; i < g->n_stops; i++)
        if (g->stops[i] == id)
            return true;
    return false;
}

/* Bans the last token of each bad word whose others end the text. A token that stops the text is no bad word.
 */
static void bad_words_ban(const hs_generation *g, const text *t, float *logits)
{
    for (size_t first = 0, end; first < g->n_bad_words; first = end + 1) {
        end = first;
        while (g->bad_words[end] >= 0)
            end++;
        const int32_t *word = g->bad_words + first, last = g->bad_words[end - 1];
        const size_t n_before = end - first - 1;
        if (n_before <= t->n && !(n_before == 0 && stops(g, last)) &&
            memcmp(word, t->ids + t->n - n_before, n_before * sizeof *word) == 0)
            logits[last] = -INFINITY;
    }
}

/* Leaves one token only. */
static void force(int32_t id, size_t vocab_size, float *logits)
{
    for (size_t i = 0; i < vocab_size; i++)
        logits[i] = -INFINITY;
    logits[id] = 0;
}

static void rules_apply(const hs_generation *g, const text *t, int32_t first, size_t vocab_size,
                        float *logits)
{
    /* A forced first token moves the begin behind it. */
    const size_t begin = t->n_prompt + (t->n_prompt == 1 && first >= 0);
    if (g->repetition_penalty != 1)
        repetition_penalize(t, g->repetition_penalty, logits);
    if (g->no_repeat > 0 && t->n + 1 >= g->no_repeat)
        repeats_ban(t, g->no_repeat, logits);
    bad_words_ban(g, t, logits);
    if (t->n < g->min_length || t->n < t->n_prompt + g->min_new_tokens)
        ban(g->stops, g->n_stops, logits);
    if (first >= 0 && t->n == 1)
        force(first, vocab_size, logits);
    if (g->forced_last >= 0 && t->n + 1 == t->n_max)
        force(g->forced_last, vocab_size, logits);
    ban(g->suppressed, g->n_suppressed, logits);
    if (t->n == begin)
        ban(g->suppressed + g->n_suppressed, g->n_begin_suppressed, logits);
}

static int32_t largest(const float *logits, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

/* ---- steps ---- */

typedef struct writer {
    const hs_engine *engine;
    hs_workspace *ws;
    hs_sequence sequence; /* the text so far, with its memory and its past */
    int32_t first;        /* forced behind a text of one token; -1: none */
    float *logits;        /* [vocab_size] */
    const hs_run_control *control;
} writer;

/* Computes the logits behind the text, from a pass over the tokens behind its past. */
static hs_status logits_compute(const writer *w, hs_error *err)
{
    const hs_shape *shape = hs_engine_shape(w->engine);
    const hs_selection last_state = {.taps = HS_KEEP(LAST_STATE)};
    hs_sequence next = w->sequence;
    next.ids += next.past->n_tokens;
    next.n_tokens -= next.past->n_tokens;
    hs_status st = hs_capture_create(hs_engine_runtime(w->engine), shape, &last_state, next.n_tokens,
                                     &next.capture, err);
    if (st)
        return st;
    st = hs_engine_compute(w->engine, w->ws, &next, 1, NULL, w->control, err);
    if (!st)
        st = hs_engine_predict(w->engine,
                               next.capture->arrays[HS_TAP_LAST_STATE] + (next.n_tokens - 1) * shape->hidden,
                               1, 0, w->control->n_threads, w->logits, err);
    hs_capture_destroy(next.capture);
    return st;
}

/* Forgets the past where rotations change with the length of the text (LongRoPE), so that the model writes
 * what passes over the whole text predict. */
static void past_check(const hs_architecture *architecture, size_t n_tokens, hs_past *past)
{
    const hs_rotary *rotary = &architecture->rotary;
    const size_t n_short = rotary->original_positions;
    if (rotary->divisors && past->n_tokens <= n_short && n_tokens > n_short)
        past->n_tokens = past->n_placed = 0;
}

static hs_status write_tokens(writer *w, int32_t *ids, size_t n_prompt, size_t n_max, size_t *ret_n,
                              hs_error *err)
{
    const hs_architecture *architecture = hs_engine_architecture(w->engine);
    const hs_generation *g = &architecture->generation;
    const size_t V = architecture->shape.vocab_size;
    *ret_n = n_prompt;
    for (size_t n = n_prompt; n < n_max; n++) {
        w->sequence.n_tokens = n;
        past_check(architecture, n, w->sequence.past);
        const hs_status st = logits_compute(w, err);
        if (st)
            return st;
        rules_apply(g, &(text){ids, n, n_prompt, n_max}, w->first, V, w->logits);
        ids[n] = largest(w->logits, V);
        *ret_n = n + 1;
        if (stops(g, ids[n]))
            break;
    }
    return HS_OK;
}

size_t hs_generate_bytes(const hs_architecture *architecture, size_t n_tokens_max, size_t n_memory)
{
    const hs_selection last_state = {.taps = HS_KEEP(LAST_STATE)};
    return hs_past_bytes(architecture, n_tokens_max, n_memory) +
           hs_capture_bytes(&architecture->shape, &last_state, n_tokens_max) +
           architecture->shape.vocab_size * sizeof(float);
}

hs_status hs_generate(const hs_engine *engine, hs_workspace *ws, int32_t *ids, size_t n_tokens,
                      size_t n_tokens_max, const float *memory, size_t n_memory, int32_t forced_first,
                      const hs_run_control *control, size_t *ret_n, hs_error *err)
{
    static const hs_run_control alone = {0};
    const hs_architecture *architecture = hs_engine_architecture(engine);
    if (*architecture->generation.refusal)
        return hs_fail(err, HS_UNSUPPORTED, "%s", architecture->generation.refusal);
    writer w = {.engine = engine,
                .ws = ws,
                .sequence = {.ids = ids, .memory = memory, .n_memory = n_memory},
                .first = forced_first >= 0 ? forced_first : architecture->generation.forced_first,
                .control = control ? control : &alone};
    hs_status st = hs_past_create(architecture, n_tokens_max, n_memory, &w.sequence.past, err);
    if (st)
        return st;
    w.logits = malloc(architecture->shape.vocab_size * sizeof *w.logits);
    st = w.logits ? write_tokens(&w, ids, n_tokens, n_tokens_max, ret_n, err)
                  : hs_fail(err, HS_NO_MEMORY, "out of memory for predictions");
    free(w.logits);
    hs_past_destroy(w.sequence.past);
    return st;
}
