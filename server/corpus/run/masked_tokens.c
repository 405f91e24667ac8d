/* masked_tokens.c - masks tokens, keeps the last hidden state of a pass, and applies the prediction head to
 * some masked positions at a time. */
#include "server/corpus/run/masked_tokens.h"

#include "engine/analysis/predictions.h"
#include "model/base/bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOGETHER = 16 }; /* positions whose logits are there at a time */

static size_t states_floats(const hs__corpus_job *job)
{
    const hs_shape *shape = hs_model_shape(job->model);
    return TOGETHER * (shape->hidden + shape->vocab_size);
}

size_t hs__corpus_masking_bytes(const hs__corpus_job *job)
{
    const hs_shape *shape = hs_model_shape(job->model);
    const size_t T = job->settings.fields.max_tokens;
    const size_t captures = HS_CORPUS_BATCH * T * shape->hidden * sizeof(float);
    return job->settings.masked_share > 0 ? HS_CORPUS_BATCH * T * sizeof(int32_t) + T * sizeof(size_t) +
                                                captures + states_floats(job) * sizeof(float)
                                          : 0;
}

hs_status hs__corpus_masking_init(hs__corpus_masking *m, const hs__corpus_job *job, hs_error *err)
{
    const size_t T = job->settings.fields.max_tokens;
    *m = (hs__corpus_masking){.job = job};
    if (!(job->settings.masked_share > 0))
        return HS_OK;
    m->ids = malloc(HS_CORPUS_BATCH * T * sizeof *m->ids);
    m->positions = malloc(T * sizeof *m->positions);
    m->states = malloc(states_floats(job) * sizeof *m->states);
    return m->ids && m->positions && m->states ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
}

void hs__corpus_masking_finish(hs__corpus_masking *m)
{
    free(m->ids);
    free(m->positions);
    free(m->states);
    *m = (hs__corpus_masking){0};
}

/* ---- which ---- */

/* Mixes the three into a number in [0, 1). */
static double chance_of(uint64_t seed, uint64_t number, uint64_t position)
{
    const uint64_t x = seed * HS_MIX_STEP + number * UINT64_C(0xbf58476d1ce4e5b9) +
                       (position + 1) * UINT64_C(0x94d049bb133111eb);
    return hs_fraction_of(hs_mix(x));
}

static bool is_masked(const hs__corpus_masking *m, const hs_corpus_text *text, size_t i)
{
    const hs__corpus_settings *settings = &m->job->settings;
    return !text->special[i] && text->ids[i] != settings->mask_id &&
           chance_of(settings->mask_seed, text->number, i) < (double)settings->masked_share;
}

static void mask(const hs__corpus_masking *m, const hs_corpus_text *text, int32_t *ret_ids)
{
    for (size_t i = 0; i < text->n_tokens; i++)
        ret_ids[i] = is_masked(m, text, i) ? m->job->settings.mask_id : text->ids[i];
}

/* ---- and what of them ---- */

typedef struct tally {
    size_t n_right;
    double loss;
} tally;

static hs_status predict(const hs__corpus_masking *m, const hs_capture *capture, const hs_corpus_text *text,
                         const size_t *positions, size_t n, tally *sums, hs_error *err)
{
    const size_t H = capture->hidden, V = hs_model_shape(m->job->model)->vocab_size;
    float *logits = m->states + TOGETHER * H;
    for (size_t i = 0; i < n; i++)
        memcpy(m->states + i * H, hs_capture_at(capture, HS_TAP_LAST_STATE, 0, 0) + positions[i] * H,
               H * sizeof *logits);
    const hs_status st = hs_engine_predict(m->job->engine, m->states, n, 0, 1, logits, err);
    for (size_t i = 0; i < n && !st; i++) {
        hs_prediction prediction;
        hs_prediction_read(logits + i * V, V, text->ids[positions[i]], 1, &prediction);
        sums->n_right += prediction.rank == 1;
        /* A probability that underflows counts as the smallest float. */
        sums->loss -= log(fmax((double)prediction.probability, 0x1p-149));
    }
    return st;
}

static hs_status text_count(const hs__corpus_masking *m, const hs_capture *capture,
                            const hs_corpus_text *text, hs_corpus_stats *stats, hs_error *err)
{
    size_t n = 0;
    tally sums = {0};
    hs_status st = HS_OK;
    for (size_t i = 0; i < text->n_tokens; i++)
        if (is_masked(m, text, i))
            m->positions[n++] = i;
    for (size_t first = 0; first < n && !st; first += TOGETHER)
        st = predict(m, capture, text, m->positions + first, n - first < TOGETHER ? n - first : TOGETHER,
                     &sums, err);
    if (!st)
        hs_corpus_masked_add(stats, n, sums.n_right, sums.loss);
    return st;
}

hs_status hs__corpus_masking_count(hs__corpus_masking *m, hs_workspace *ws, const hs_sequence *sequences,
                                   const hs_corpus_text *texts, size_t n_texts, const hs_run_control *control,
                                   hs_corpus_stats *stats, hs_error *err)
{
    const hs_engine *engine = m->job->engine;
    const hs_selection selection = {.taps = HS_KEEP(LAST_STATE)};
    hs_sequence masked[HS_CORPUS_BATCH] = {0};
    hs_status st = HS_OK;
    for (size_t k = 0; k < n_texts && !st; k++) {
        int32_t *ids = m->ids + k * m->job->settings.fields.max_tokens;
        mask(m, &texts[k], ids);
        masked[k] = sequences[k];
        masked[k].ids = ids;
        masked[k].capture = NULL;
        st = hs_capture_create(hs_engine_runtime(engine), hs_engine_shape(engine), &selection,
                               sequences[k].n_tokens, &masked[k].capture, err);
    }
    if (!st)
        st = hs_engine_compute(engine, ws, masked, n_texts, NULL, control, err);
    for (size_t k = 0; k < n_texts && !st; k++)
        st = text_count(m, masked[k].capture, &texts[k], stats, err);
    for (size_t k = 0; k < n_texts; k++)
        hs_capture_destroy(masked[k].capture);
    return st;
}
