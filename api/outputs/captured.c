/* captured.c - finds what an answer reads: layers, heads and maps of a capture, tokens, window and target. */
#include "api/outputs/structures.h"

#include "engine/analysis/flows.h"
#include "model/base/memory.h"
#include "model/base/utf8.h"

#include <stdlib.h>

/* Limit of the scratch of all slots; there is always at least one slot. */
#define SCRATCH_BYTES_MAX  ((size_t)128 << 20)
#define SHARED_NUMBERS_MIN ((size_t)65536) /* some 300 us of JSON */

bool hs__answer_cancelled(const hs__answer *answer)
{
    const atomic_int *cancelled = answer->request->cancelled;
    return cancelled && atomic_load_explicit(cancelled, memory_order_relaxed);
}

size_t hs__answer_threads(const hs__answer *a, size_t n_numbers)
{
    return n_numbers >= SHARED_NUMBERS_MIN ? a->n_slots : 1;
}

void hs__answer_share(const hs__answer *a, size_t n_threads, size_t n_tasks,
                      void (*task)(void *context, size_t i, size_t slot), void *context)
{
    hs_runtime_share(hs_engine_runtime(a->model->engine), n_threads, n_tasks, task, context);
}

/* Finds the index of each requested number in the captured ones. Both lists ascend; the captured one contains
 * the other. */
static void locate(const uint16_t *requested, size_t n_requested, const uint16_t *captured, uint16_t *ret_at)
{
    uint16_t at = 0;
    for (size_t i = 0; i < n_requested; i++) {
        while (captured[at] != requested[i])
            at++;
        ret_at[i] = at;
    }
}

hs_pooling hs__answer_pooling(const hs__answer *a)
{
    const hs_architecture *architecture = a->model->architecture;
    hs_pooling pooling = hs_sentence_pooling(architecture, &a->analysis->pooling);
    pooling.first = architecture->sentence.without_prompt ? a->text->n_prompt : 0;
    return pooling;
}

hs_tap hs__answer_similarity(const hs__answer *a)
{
    return hs_similarity_tap(hs__similarity_kind(a->analysis));
}

static size_t scratch_bytes(const hs__answer *a)
{
    const size_t T = a->text->rows.n_tokens, K = a->text->keys->n_tokens;
    const size_t n_bytes = 2 * hs__answer_part_floats(a) * sizeof(float) +
                           hs_effective_attention_bytes(T > K ? T : K, a->model->shape->head_width);
    return (n_bytes + HS_LINE_BYTES - 1) / HS_LINE_BYTES * HS_LINE_BYTES;
}

float *hs__answer_scratch(const hs__answer *a, size_t slot)
{
    return (float *)(void *)(a->scratch + slot * scratch_bytes(a));
}

hs_status hs__answer_init(hs__answer *a, hs_error *err)
{
    if (!a->capture && !a->own[HS__OWN_GRADIENTS])
        return HS_OK;
    if (a->capture) {
        locate(a->analysis->layers, a->analysis->n_layers, a->capture->layers, a->layer_at);
        locate(a->analysis->heads, a->analysis->n_heads, a->capture->heads, a->head_at);
    }
    if (a->baseline) {
        locate(a->analysis->layers, a->analysis->n_layers, a->baseline->layers, a->baseline_layer_at);
        locate(a->analysis->heads, a->analysis->n_heads, a->baseline->heads, a->baseline_head_at);
    }
    const size_t n_fit = SCRATCH_BYTES_MAX / scratch_bytes(a);
    a->n_slots = a->request->n_threads < n_fit ? a->request->n_threads : n_fit;
    a->n_slots = a->n_slots > 1 ? a->n_slots : 1;
    a->scratch = malloc(a->n_slots * scratch_bytes(a));
    return a->scratch ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for the answer's maps");
}

const float *hs__answer_at(const hs__answer *a, hs_tap tap, size_t l, size_t h)
{
    return hs_capture_at(a->capture, tap, a->layer_at[l], a->head_at[h]);
}

/* ---- maps, kept or computed again ---- */

hs_status hs__answer_similarity_map(const hs__answer *a, size_t l, size_t h, float *into,
                                    const float **ret_map, hs_error *err)
{
    const hs_tap tap = hs__answer_similarity(a);
    const bool kept = a->capture->arrays[tap];
    *ret_map = kept ? hs_capture_at(a->capture, tap, l, h) : into;
    return kept ? HS_OK
                : hs_engine_similarity(a->model->engine, a->capture, l, h, hs__similarity_kind(a->analysis),
                                       0, a->capture->n_tokens, into, err);
}

/* Rows of a map that threads share. */
typedef struct row_sharing {
    const hs__answer *answer;
    size_t l, h, first, n, n_tasks;
    float *into;
    atomic_int failed;
} row_sharing;

static void task_rows(void *context, size_t task, size_t slot)
{
    row_sharing *r = context;
    const hs_capture *capture = r->answer->capture;
    const size_t from = r->n * task / r->n_tasks, to = r->n * (task + 1) / r->n_tasks;
    (void)slot;
    if (hs_engine_attention(r->answer->model->engine, capture, r->l, r->h, r->first + from, to - from,
                            r->into + from * capture->n_keys, NULL))
        atomic_store(&r->failed, 1);
}

hs_status hs__answer_attention_rows(const hs__answer *a, size_t l, size_t h, size_t first, size_t n,
                                    float *into, const float **ret_rows, hs_error *err)
{
    const hs_capture *capture = a->capture;
    const size_t n_threads = a->request->n_threads > 1 ? a->request->n_threads : 1;
    if (capture->arrays[HS_TAP_ATTENTION]) {
        *ret_rows = hs_capture_at(capture, HS_TAP_ATTENTION, l, h) + first * capture->n_keys;
        return HS_OK;
    }
    row_sharing r = {.answer = a, .l = l, .h = h, .first = first, .n = n, .n_tasks = n_threads, .into = into};
    hs__answer_share(a, n_threads, n_threads, task_rows, &r);
    *ret_rows = into;
    return atomic_load(&r.failed) ? hs_fail(err, HS_NO_MEMORY, "no memory to compute a map") : HS_OK;
}

hs_text hs__text_part(const hs_text *text, size_t start, size_t end)
{
    const size_t from = hs_utf8_offset(text->bytes, text->n_bytes, start);
    const char *bytes = text->bytes + from;
    return (hs_text){bytes, hs_utf8_offset(bytes, text->n_bytes - from, end - start)};
}

hs__window_place hs__answer_window(const hs__answer *a)
{
    const hs_encoding *e = &a->text->rows;
    const size_t first = a->text->windows.n_before, end = e->n_tokens - a->text->windows.n_after;
    const size_t at = a->analysis->window * a->text->windows.step;
    hs__window_place place = {.tokens = {(int32_t)at, (int32_t)(at + end - first)}};
    if (a->analysis->input.words)
        place.chars[0] = place.chars[1] = -1;
    else if (first < end) {
        place.chars[0] = (int32_t)e->starts[first];
        place.chars[1] = (int32_t)e->ends[end - 1];
    }
    return place;
}

const char *hs__answer_token(const hs__answer *a, const hs_encoding *side, size_t i)
{
    return hs_tokenizer_token(hs_model_tokenizer(a->model->model), side->ids[i]);
}

hs_bytes hs__answer_token_bytes(const hs__answer *a, size_t i)
{
    return hs_bytes_of(hs__answer_token(a, &a->text->rows, i));
}

/* ---- the target ---- */

bool hs__answer_truncated(const hs__answer *a)
{
    return a->text->rows.truncated || a->text->memory.truncated || a->text->reader.truncated;
}

const char *hs__answer_stack(const hs__answer *a)
{
    static const char *const names[] = {"encoder", "decoder", "cross"};
    return a->model->encoder || a->model->decoder ? names[a->analysis->stack] : NULL;
}

/* Finds the class with the largest logit. */
static hs_status find_class(const hs__answer *a, const float *states, size_t *ret_class, hs_error *err)
{
    const hs_architecture *architecture = a->model->architecture;
    const hs_task_head *head = &architecture->task_head;
    const size_t H = architecture->shape.hidden;
    float *row = malloc((H + head->n_classes) * sizeof *row);
    if (!row)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a target");
    float *logits = row + H;
    const size_t n_threads = a->request->n_threads;
    hs_status st = hs_engine_pool(a->model->engine, head, states, a->capture, n_threads, row, err);
    if (!st)
        st = hs_engine_classify(a->model->engine, head, row, 1, n_threads, logits, err);
    *ret_class = 0;
    for (size_t i = 1; i < head->n_classes && !st; i++)
        *ret_class = logits[i] > logits[*ret_class] ? i : *ret_class;
    free(row);
    return st;
}

hs_status hs__target_find(const hs__answer *a, const float *states, hs_target *ret_target, hs_error *err)
{
    *ret_target = a->analysis->target;
    ret_target->pooling.first = hs__answer_pooling(a).first;
    if (ret_target->kind || !hs__target_exists(a->analysis, hs__target_model(a->analysis)->architecture))
        return HS_OK;
    ret_target->kind = HS_TARGET_CLASS;
    return states ? find_class(a, states, &ret_target->class, err) : HS_OK;
}
