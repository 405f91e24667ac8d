/* output_answer.c - answers to a question: the best spans of a passage, by the head for question answering.
 */
#include "api/output_structures.h"

#include "engine/analysis/predictions.h"

#include <math.h>
#include <stdlib.h>

#define SPANS_MAX       5
#define SPAN_TOKENS_MAX 30

typedef struct span {
    size_t start, end; /* first and last token */
    float score, probability;
} span;

typedef struct spans {
    size_t n_tokens, n_best;
    bool of_baseline;
    span best[SPANS_MAX]; /* by descending score */
    float *ends;          /* [T], after the starts */
    float starts[];       /* [T] logits */
} spans;

/* ---- computing ---- */

/* Marks the tokens of the passage: those of the second text, or of the only one. Types tell given ids apart.
 */
static void mark_passage(const hs__answer *a, uint8_t *ret_inside)
{
    const hs_encoding *e = a->encoding;
    const bool has_pair = a->analysis->input.text_pair.bytes != NULL;
    const uint8_t *second = has_pair ? e->texts : e->types;
    bool is_second = has_pair;
    for (size_t i = 0; i < e->n_tokens && a->analysis->input.ids; i++)
        is_second |= second[i] == 1;
    for (size_t i = 0; i < e->n_tokens; i++)
        ret_inside[i] = !e->special[i] && (!is_second || second[i] == 1);
}

/* Keeps a span if it is among the best. Among equal spans the first stays ahead. */
static void offer(spans *s, span offered)
{
    size_t at = s->n_best;
    while (at > 0 && offered.score > s->best[at - 1].score)
        at--;
    if (at == SPANS_MAX)
        return;
    s->n_best += s->n_best < SPANS_MAX;
    for (size_t i = s->n_best - 1; i > at; i--)
        s->best[i] = s->best[i - 1];
    s->best[at] = offered;
}

static void find_best(spans *s, const uint8_t *inside)
{
    const size_t T = s->n_tokens;
    for (size_t start = 0; start < T; start++) {
        const size_t n = T - start < SPAN_TOKENS_MAX ? T - start : SPAN_TOKENS_MAX;
        for (size_t end = start; end < start + n && inside[start] && inside[end]; end++)
            offer(s, (span){.start = start, .end = end, .score = s->starts[start] + s->ends[end]});
    }
    const double total = hs_log_sum_exact(s->starts, inside, T) + hs_log_sum_exact(s->ends, inside, T);
    for (size_t i = 0; i < s->n_best; i++) {
        const double start = (double)s->starts[s->best[i].start], end = (double)s->ends[s->best[i].end];
        s->best[i].probability = (float)exp(start + end - total);
    }
}

/* Computes the logits into `both` [T][2] and splits them. */
static hs_status find_logits(const hs__answer *a, spans *s, float *both, hs_error *err)
{
    const hs_task_head *head = &hs_model_architecture(a->model->model)->task_head;
    const float *states = hs_capture_at(a->capture, HS_TAP_LAST_STATE, 0, 0);
    const hs_status st =
        hs_engine_classify(a->model->engine, head, states, s->n_tokens, a->request->n_threads, both, err);
    for (size_t i = 0; i < s->n_tokens && !st; i++) {
        s->starts[i] = both[2 * i];
        s->ends[i] = both[2 * i + 1];
    }
    return st;
}

static hs_status compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    const size_t T = a->capture->n_tokens;
    spans *s = malloc(sizeof *s + 2 * T * sizeof(float));
    float *both = malloc(2 * T * sizeof *both);
    uint8_t *inside = calloc(T, 1);
    hs_status st = HS_OK;
    *ret_result = s;
    if (s && both && inside) {
        *s = (spans){.n_tokens = T, .of_baseline = a->capture == a->baseline, .ends = s->starts + T};
        st = find_logits(a, s, both, err);
        mark_passage(a, inside);
        if (!st)
            find_best(s, inside);
    } else {
        st = hs_fail(err, HS_NO_MEMORY, "no memory for answers");
    }
    free(both);
    free(inside);
    return st;
}

/* ---- JSON ---- */

/* Returns the text that holds the passage; bytes NULL: the request had ids or words. */
static const hs_text *passage(const hs__answer *a)
{
    return a->analysis->input.text_pair.bytes ? &a->analysis->input.text_pair : &a->analysis->input.text;
}

static void write_place(hs_buffer *b, const hs__answer *a, const span *best)
{
    const hs_text *text = passage(a);
    hs__json_key(b, "chars");
    if (!text->bytes) {
        hs_buffer_text(b, "null,\"text\":null");
        return;
    }
    const uint32_t start = a->encoding->starts[best->start], end = a->encoding->ends[best->end];
    const hs_text part = hs__text_part(text, start, end);
    hs__json_range(b, start, end);
    hs__json_key(b, "text");
    hs__json_string(b, part.bytes, part.n_bytes);
}

static void write_span(hs_buffer *b, const hs__answer *a, const span *best)
{
    hs_buffer_text(b, "{\"start\":");
    hs__json_integer(b, (int64_t)best->start);
    hs__json_key(b, "end");
    hs__json_integer(b, (int64_t)best->end);
    hs__json_key(b, "score");
    hs__json_float(b, best->score, (int)a->analysis->digits);
    hs__json_key(b, "probability");
    hs__json_float(b, best->probability, (int)a->analysis->digits);
    write_place(b, a, best);
    hs_buffer_text(b, "}");
}

static void write_json(hs_buffer *b, const hs__answer *a, const void *result)
{
    const spans *s = result;
    hs_buffer_text(b, "{\"start_logits\":");
    hs__json_block(b, s->starts, 1, &s->n_tokens, (int)a->analysis->digits);
    hs__json_key(b, "end_logits");
    hs__json_block(b, s->ends, 1, &s->n_tokens, (int)a->analysis->digits);
    hs__json_key(b, "best");
    hs_buffer_text(b, "[");
    for (size_t i = 0; i < s->n_best; i++) {
        hs__json_comma(b, i);
        write_span(b, a, &s->best[i]);
    }
    hs_buffer_text(b, "]}");
}

/* ---- arrays ---- */

static void add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
{
    const spans *s = result;
    const bool old = s->of_baseline;
    hs_arrays_add_floats(arrays, old ? "changes_start_logits" : "start_logits", s->starts, 1, s->n_tokens, 0);
    hs_arrays_add_floats(arrays, old ? "changes_end_logits" : "end_logits", s->ends, 1, s->n_tokens, 0);
    int32_t *tokens = hs_arrays_add(arrays, old ? "changes_answer_tokens" : "answer_tokens", HS_ELEMENT_I4, 2,
                                    s->n_best, 2);
    int32_t *chars =
        hs_arrays_add(arrays, old ? "changes_answer_chars" : "answer_chars", HS_ELEMENT_I4, 2, s->n_best, 2);
    float *probabilities =
        hs_arrays_add(arrays, old ? "changes_answer_probabilities" : "answer_probabilities", HS_ELEMENT_F4, 1,
                      s->n_best, 0);
    const bool has_text = passage(a)->bytes != NULL;
    for (size_t i = 0; i < s->n_best && !arrays->failed; i++) {
        const span *best = &s->best[i];
        tokens[2 * i] = (int32_t)best->start;
        tokens[2 * i + 1] = (int32_t)best->end;
        chars[2 * i] = has_text ? (int32_t)a->encoding->starts[best->start] : -1;
        chars[2 * i + 1] = has_text ? (int32_t)a->encoding->ends[best->end] : -1;
        probabilities[i] = best->probability;
    }
}

/* ---- sizes ---- */

static size_t json_bytes_max(const hs__measures *m)
{
    const size_t n_text = m->analysis->input.text.n_bytes + m->analysis->input.text_pair.n_bytes;
    return 64 + 2 * m->n_tokens * m->number + SPANS_MAX * (192 + 2 * m->number + 6 * n_text);
}

static size_t array_bytes_max(const hs__measures *m)
{
    return 8 * m->n_tokens + SPANS_MAX * 20;
}

const hs__structure hs__structure_answer = {
    .compute = compute,
    .destroy = free,
    .write_json = write_json,
    .add_arrays = add_arrays,
    .json_bytes_max = json_bytes_max,
    .array_bytes_max = array_bytes_max,
};
