/* head_scores.c - draws the texts and reads the maps of each while they are in the cache, one text a pass. */
#include "engine/analysis/head_scores.h"

#include "engine/arena.h"
#include "model/hash.h"

#include <stdlib.h>
#include <string.h>

typedef struct sums {
    double previous, duplicate, induction;
} sums;

/* The data of a call. */
typedef struct scoring {
    const hs_head_scores_options *options;
    size_t T, n_threads;
    uint64_t state;   /* of the random numbers */
    int32_t *choices; /* [n_choices], shuffled further by each text */
    int32_t *ids;     /* [T] */
    sums *sums;       /* [n_layers][n_heads] over texts */
    float *maps;      /* [n_threads][T][T] */
} scoring;

/* Draws different ids by the first steps of Fisher and Yates's shuffle, and repeats them. */
static void text_draw(scoring *s)
{
    const hs_head_scores_options *w = s->options;
    int32_t *first = s->ids + w->n_before, *second = first + w->length;
    for (size_t i = 0; i < w->length; i++) {
        s->state += HS_MIX_STEP;
        const size_t k = i + (size_t)(hs_mix(s->state) % (w->n_choices - i));
        const int32_t drawn = s->choices[k];
        s->choices[k] = s->choices[i];
        s->choices[i] = first[i] = second[i] = drawn;
    }
}

/* The observer's callback: adds one head's means over the rows of a text. Threads have different heads. */
static void map_add(void *context, size_t sequence, size_t l, size_t h, const hs_observed_head *head)
{
    const scoring *s = context;
    const hs_head_scores_options *w = s->options;
    const size_t T = s->T, n = w->length, second = w->n_before + n;
    sums rows = {0}, *sum = &s->sums[l * w->n_heads + h];
    (void)sequence;
    for (size_t i = 1; i < T; i++)
        rows.previous += (double)head->attention[i * T + i - 1];
    for (size_t i = second; i < second + n; i++) {
        rows.duplicate += (double)head->attention[i * T + i - n];
        rows.induction += (double)head->attention[i * T + i - n + 1];
    }
    sum->previous += rows.previous / (double)(T - 1);
    sum->duplicate += rows.duplicate / (double)n;
    sum->induction += rows.induction / (double)n;
}

/* Measures (base NULL) or carves the memory of a call. */
static void scoring_layout(scoring *s, hs__arena *arena)
{
    const hs_head_scores_options *w = s->options;
    s->choices = hs__arena_take(arena, w->n_choices * sizeof *s->choices);
    s->ids = hs__arena_take(arena, s->T * sizeof *s->ids);
    s->sums = hs__arena_take(arena, w->n_layers * w->n_heads * sizeof *s->sums);
    s->maps = hs__arena_floats(arena, s->n_threads * s->T * s->T);
}

static scoring scoring_describe(const hs_head_scores_options *options, size_t n_threads)
{
    return (scoring){.options = options,
                     .T = options->n_before + 2 * options->length + options->n_after,
                     .n_threads = n_threads > 1 ? n_threads : 1,
                     .state = options->seed};
}

static hs_selection selection_of(const hs_head_scores_options *w)
{
    return (hs_selection){w->layers, w->n_layers, w->heads, w->n_heads, 0};
}

static size_t scoring_bytes(scoring s)
{
    hs__arena measure = {0};
    scoring_layout(&s, &measure);
    return measure.used;
}

size_t hs_head_scores_bytes(const hs_engine *engine, const hs_head_scores_options *options, size_t n_threads)
{
    const scoring s = scoring_describe(options, n_threads);
    const hs_selection selection = selection_of(options);
    return scoring_bytes(s) + hs_capture_bytes(hs_engine_shape(engine), &selection, s.T);
}

static void scoring_begin(scoring *s)
{
    const hs_head_scores_options *w = s->options;
    memset(s->sums, 0, w->n_layers * w->n_heads * sizeof *s->sums);
    memcpy(s->choices, w->choices, w->n_choices * sizeof *s->choices);
    if (w->n_before > 0)
        memcpy(s->ids, w->before, w->n_before * sizeof *s->ids);
    if (w->n_after > 0)
        memcpy(s->ids + s->T - w->n_after, w->after, w->n_after * sizeof *s->ids);
}

static void scores_write(const scoring *s, hs_head_score *ret)
{
    const hs_head_scores_options *w = s->options;
    const double n = (double)w->n_texts;
    for (size_t i = 0; i < w->n_layers * w->n_heads; i++)
        ret[i] = (hs_head_score){(float)(s->sums[i].previous / n), (float)(s->sums[i].duplicate / n),
                                 (float)(s->sums[i].induction / n)};
}

static hs_status texts_run(scoring *s, const hs_engine *engine, hs_workspace *ws,
                           const hs_run_control *control, hs_error *err)
{
    const hs_head_scores_options *w = s->options;
    const hs_selection selection = selection_of(w);
    const hs_observer observer = {
        .attention = s->maps, .show = map_add, .context = s, .n_threads = s->n_threads};
    hs_sequence sequence = {.ids = s->ids,
                            .n_tokens = s->T,
                            .interventions = w->interventions,
                            .n_interventions = w->n_interventions};
    hs_status st = hs_capture_create(hs_engine_runtime(engine), hs_engine_shape(engine), &selection, s->T,
                                     &sequence.capture, err);
    for (size_t i = 0; i < w->n_texts && !st; i++) {
        text_draw(s);
        st = hs_engine_compute(engine, ws, &sequence, 1, &observer, control, err);
    }
    hs_capture_destroy(sequence.capture);
    return st;
}

hs_status hs_head_scores_compute(const hs_engine *engine, hs_workspace *ws,
                                 const hs_head_scores_options *options, const hs_run_control *control,
                                 hs_head_score *ret_scores, hs_error *err)
{
    scoring s = scoring_describe(options, control->n_threads);
    hs__arena arena = {.base = hs_memory_create(scoring_bytes(s))};
    if (!arena.base)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for head scores");
    scoring_layout(&s, &arena);
    scoring_begin(&s);
    const hs_status st = texts_run(&s, engine, ws, control, err);
    if (!st)
        scores_write(&s, ret_scores);
    free(arena.base);
    return st;
}
