/* predicted_texts.c - chooses the predictions of a text, and computes their loss and its gradient. */
#include "server/corpus/counters/predicted_texts.h"

#include "engine/analysis/predictions.h"
#include "engine/gradients.h"
#include "model/base/bytes.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Fraction of the tokens that are masked. */
#define MASKED_SHARE 0.15

enum { TOGETHER = 16 }; /* predictions whose logits are there at a time */

const char *const hs__predicted_names[HS__PREDICTED_KINDS] = {"masked", "causal", "class"};

/* ---- texts ---- */

bool hs__predicts_tokens(const hs_model *model)
{
    const hs_predictor *predictor = &hs_model_architecture(model)->predictor;
    const bool has_mask = hs_tokenizer_special_ids(hs_model_tokenizer(model))->mask >= 0;
    return predictor->decoder.data && (predictor->next || has_mask);
}

bool hs__predicts(const hs_model *model, const hs__corpus_settings *settings)
{
    return *settings->input.label_field || hs__predicts_tokens(model);
}

hs__predicted hs__predicted_tokens_of(const hs__corpus_job *job)
{
    return hs_engine_architecture(job->engine)->predictor.next ? HS__PREDICTED_NEXT : HS__PREDICTED_MASKED;
}

hs__predicted hs__predicted_of(const hs__corpus_job *job)
{
    return *job->settings.input.label_field ? HS__PREDICTED_CLASS : hs__predicted_tokens_of(job);
}

uint64_t hs__predicted_hash(uint64_t number)
{
    return hs_mix(hs_mix(number + HS_MIX_STEP) + HS_MIX_STEP);
}

static bool is_masked(const hs_encoding *e, uint64_t number, size_t i)
{
    const uint64_t x = hs_mix(hs__predicted_hash(number) + (i + 1) * HS_MIX_STEP);
    return !e->special[i] && hs_fraction_of(x) < MASKED_SHARE;
}

hs_status hs__predicted_text_copy(const hs__text *t, hs__predicted kind, hs__predicted_text *ret,
                                  hs_error *err)
{
    const hs_encoding *e = &t->encoding;
    *ret = (hs__predicted_text){.number = hs__text_number(t),
                                .n_tokens = e->n_tokens,
                                .label = kind == HS__PREDICTED_CLASS ? t->label : 0,
                                .ids = malloc(e->n_tokens * sizeof *ret->ids),
                                .types = malloc(e->n_tokens),
                                .positions = malloc(e->n_tokens * sizeof *ret->positions)};
    if (!ret->ids || !ret->types || !ret->positions)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a text");
    memcpy(ret->ids, e->ids, e->n_tokens * sizeof *ret->ids);
    memcpy(ret->types, e->types, e->n_tokens);
    for (size_t i = 0; i < e->n_tokens && kind == HS__PREDICTED_MASKED; i++)
        if (is_masked(e, ret->number, i))
            ret->positions[ret->n_positions++] = i;
    return HS_OK;
}

void hs__predicted_text_finish(hs__predicted_text *text)
{
    free(text->ids);
    free(text->types);
    free(text->positions);
    *text = (hs__predicted_text){0};
}

/* Returns the number of predictions. */
static size_t predictions_count(const hs__predicted_text *text, hs__predicted kind)
{
    return kind == HS__PREDICTED_MASKED ? text->n_positions
           : kind == HS__PREDICTED_NEXT ? text->n_tokens - (text->n_tokens > 0)
                                        : text->n_tokens > 0;
}

bool hs__predicted_text_is_useful(const hs__predicted_text *text, hs__predicted kind)
{
    return predictions_count(text, kind) > 0;
}

size_t hs__predicted_position(const hs__predicted_text *text, hs__predicted kind, size_t i)
{
    return kind == HS__PREDICTED_MASKED ? text->positions[i] : i + 1;
}

void hs__predicted_text_ids(const hs__predicted_text *text, const hs__corpus_job *job, int32_t *ret_ids)
{
    memcpy(ret_ids, text->ids, text->n_tokens * sizeof *ret_ids);
    for (size_t i = 0; i < text->n_positions; i++)
        ret_ids[text->positions[i]] = hs_tokenizer_special_ids(hs_model_tokenizer(job->model))->mask;
}

/* ---- the loss ---- */

/* Parts of the scratch. */
typedef struct rows {
    size_t width;                    /* of logits */
    float *states, *gradients;       /* [TOGETHER][H] */
    float *logits, *logit_gradients; /* [TOGETHER][width] */
} rows;

/* Returns the columns of logits: of classes or of tokens, whichever are more. */
static size_t width_max(const hs_architecture *architecture)
{
    const size_t V = architecture->shape.vocab_size, n_classes = architecture->task_head.n_classes;
    return V > n_classes ? V : n_classes;
}

size_t hs__loss_floats(const hs__corpus_job *job)
{
    const hs_architecture *architecture = hs_engine_architecture(job->engine);
    return 2 * TOGETHER * (architecture->shape.hidden + width_max(architecture));
}

uint64_t hs__loss_bytes(const hs__corpus_job *job)
{
    const size_t T = job->settings.fields.max_tokens;
    return hs__loss_floats(job) * sizeof(float) +
           hs_heads_back_bytes(job->engine, T > TOGETHER ? T : TOGETHER, 1);
}

static rows rows_of(const hs__loss_reader *r)
{
    const hs_architecture *architecture = hs_engine_architecture(r->job->engine);
    const size_t n = TOGETHER * architecture->shape.hidden;
    const bool by_class = r->kind == HS__PREDICTED_CLASS;
    return (rows){.width = by_class ? architecture->task_head.n_classes : architecture->shape.vocab_size,
                  .states = r->scratch,
                  .gradients = r->scratch + n,
                  .logits = r->scratch + 2 * n,
                  .logit_gradients = r->scratch + 2 * n + TOGETHER * width_max(architecture)};
}

static void prediction_add(const float *logits, size_t n, int32_t id, hs__loss *ret)
{
    hs_prediction prediction;
    hs_prediction_read(logits, n, id, 1, &prediction);
    const double loss = hs_loss(logits, n, id);
    ret->sum += loss;
    if (ret->each)
        ret->each[ret->n] = loss;
    ret->n_right += prediction.rank == 1;
    ret->n++;
}

/* Writes the gradient of -ln p, divided by the number of predictions, with respect to the logits. */
static void prediction_differentiate(const float *logits, size_t n, int32_t id, size_t n_predictions,
                                     float *ret)
{
    hs_loss_gradient(logits, n, id, ret);
    for (size_t i = 0; i < n; i++)
        ret[i] /= (float)n_predictions;
}

static hs_status class_add(const hs__loss_reader *r, const hs__predicted_text *t, const hs_capture *capture,
                           hs__loss *ret, float *ret_last, hs_error *err)
{
    const hs_engine *engine = r->job->engine;
    const hs_task_head *head = &hs_engine_architecture(engine)->task_head;
    const float *states = hs_capture_at(capture, HS_TAP_LAST_STATE, 0, 0);
    const rows q = rows_of(r);
    hs_status st = hs_engine_pool(engine, head, states, capture, 1, q.states, err);
    if (!st)
        st = hs_engine_classify(engine, head, q.states, 1, 1, q.logits, err);
    if (!st)
        prediction_add(q.logits, q.width, (int32_t)t->label, ret);
    if (st || !ret_last)
        return st;
    prediction_differentiate(q.logits, q.width, (int32_t)t->label, 1, q.logit_gradients);
    st = hs_engine_classify_back(engine, head, q.states, 1, 1, q.logit_gradients, q.gradients, err);
    return st ? st
              : hs_engine_pool_back(engine, head, states, t->n_tokens, capture->n_unpadded, 1, q.gradients,
                                    ret_last, err);
}

/* Adds the predictions [first, end): of masked tokens, or of those that follow. */
static hs_status tokens_add(const hs__loss_reader *r, const hs__predicted_text *t, const float *states,
                            size_t first, size_t end, hs__loss *ret, float *ret_last, hs_error *err)
{
    const hs_engine *engine = r->job->engine;
    const size_t H = hs_engine_shape(engine)->hidden, n_all = predictions_count(t, r->kind);
    const bool masked = r->kind == HS__PREDICTED_MASKED;
    const rows q = rows_of(r);
    for (size_t i = first; i < end; i++)
        memcpy(q.states + (i - first) * H, states + (masked ? t->positions[i] : i) * H, H * sizeof *states);
    hs_status st = hs_engine_predict(engine, q.states, end - first, 0, 1, q.logits, err);
    for (size_t i = first; i < end && !st; i++) {
        const float *logits = q.logits + (i - first) * q.width;
        const int32_t id = t->ids[hs__predicted_position(t, r->kind, i)];
        prediction_add(logits, q.width, id, ret);
        if (ret_last)
            prediction_differentiate(logits, q.width, id, n_all, q.logit_gradients + (i - first) * q.width);
    }
    if (st || !ret_last)
        return st;
    st = hs_engine_predict_back(engine, q.states, end - first, 1, q.logits, q.logit_gradients, q.gradients,
                                err);
    for (size_t i = first; i < end && !st; i++)
        memcpy(ret_last + (masked ? t->positions[i] : i) * H, q.gradients + (i - first) * H,
               H * sizeof *ret_last);
    return st;
}

static bool is_cancelled(const hs__loss_reader *r)
{
    return r->control->cancelled && atomic_load_explicit(r->control->cancelled, memory_order_relaxed);
}

hs_status hs__loss_add(const hs__loss_reader *r, const hs__predicted_text *t, const hs_capture *capture,
                       hs__loss *ret, float *ret_last, hs_error *err)
{
    const size_t n = predictions_count(t, r->kind);
    const float *states = hs_capture_at(capture, HS_TAP_LAST_STATE, 0, 0);
    hs_status st = HS_OK;
    if (r->kind == HS__PREDICTED_CLASS)
        return class_add(r, t, capture, ret, ret_last, err);
    if (ret_last)
        memset(ret_last, 0, t->n_tokens * capture->hidden * sizeof *ret_last);
    for (size_t first = 0; first < n && !st; first += TOGETHER)
        st = is_cancelled(r) ? hs_fail(err, HS_CANCELLED, "cancelled after %zu of %zu predictions", first, n)
                             : tokens_add(r, t, states, first, n - first < TOGETHER ? n : first + TOGETHER,
                                          ret, ret_last, err);
    return st;
}
