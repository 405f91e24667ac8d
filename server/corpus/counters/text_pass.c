/* text_pass.c - cuts the maps that an engine shows to the counted tokens, and adds them to statistics. */
#include "server/corpus/counters/text_pass.h"

#include <string.h>

static size_t maps_floats(size_t T)
{
    return 2 * T * T + 2 * T;
}

size_t hs__pass_floats(const hs__corpus_settings *settings)
{
    return maps_floats(settings->fields.max_tokens) * (settings->fields.special_masked ? 2 : 1);
}

/* Copies the part of the maps that is counted and sums its columns. n_keys: the length of attention's rows.
 */
static void head_cut(const hs__text *t, size_t n_keys, float *to, hs_observed_head *head)
{
    const size_t T = t->encoding.n_tokens, n = t->end - t->first, k = t->key_end - t->key_first;
    float *attention = to, *similarity = attention + n * k, *columns = similarity + n * n;
    memset(columns, 0, k * sizeof *columns);
    for (size_t i = 0; i < n; i++) {
        memcpy(attention + i * k, head->attention + (t->first + i) * n_keys + t->key_first,
               k * sizeof *attention);
        memcpy(similarity + i * n, head->similarity + (t->first + i) * T + t->first, n * sizeof *similarity);
        for (size_t j = 0; j < k; j++)
            columns[j] += attention[i * k + j];
    }
    *head = (hs_observed_head){attention, similarity, columns, head->lengths + t->first};
}

/* A pass at work. */
typedef struct observed_pass {
    const hs__pass_observer *observer;
    const hs__text_pass *pass;
    size_t n_heads;
} observed_pass;

/* Observer callback: counts the maps of one head of text k. */
static void head_count(void *data, size_t k, size_t l, size_t h, const hs_observed_head *shown)
{
    const observed_pass *o = data;
    const hs__corpus_job *job = o->observer->job;
    hs__text *t = &o->pass->texts[k];
    const size_t n_keys = hs__text_keys(job, t)->n_tokens;
    hs_corpus_observation observation = {0};
    hs__text_head head = {.statistics = o->pass->statistics,
                          .l = l,
                          .h = h,
                          .map = l * o->n_heads + h,
                          .maps = *shown,
                          .observation = &observation};
    if (t->end - t->first < t->encoding.n_tokens || t->key_end - t->key_first < n_keys)
        head_cut(t, n_keys, o->observer->maps + maps_floats(job->settings.fields.max_tokens), &head.maps);
    hs_corpus_batch_head(o->pass->statistics, k, l, h, &head.maps, &observation);
    o->observer->show(o->observer->context, t, &head);
}

hs_status hs__pass_observe(const hs_engine *engine, const hs__pass_observer *observer,
                           const hs__text_pass *pass, hs_error *err)
{
    const hs__corpus_settings *settings = &observer->job->settings;
    const size_t T = settings->fields.max_tokens;
    observed_pass observed = {observer, pass, hs_engine_shape(engine)->n_heads};
    const hs_observer shown = {.attention = observer->maps,
                               .similarity = observer->maps + T * T,
                               .columns = observer->maps + 2 * T * T,
                               .lengths = observer->maps + 2 * T * T + T,
                               .show = head_count,
                               .context = &observed,
                               .kind = settings->fields.similarity};
    const hs_status st = hs_corpus_batch_begin(pass->statistics, pass->counted, pass->n, err);
    return st ? st
              : hs_engine_compute(engine, pass->workspace, pass->sequences, pass->n, &shown, pass->control,
                                  err);
}
