/* examples.c - a list sorted by hash, under a lock. Adding a text and merging samples use the same insertion.
 */
#include "server/corpus/report/examples.h"

#include "model/base/bytes.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const char *const hs__example_names[HS__EXAMPLE_FIGURES] = {
    [HS__EXAMPLE_REPEATED] = "repeated_share", [HS__EXAMPLE_SAME_SENTENCE] = "same_sentence_share",
    [HS__EXAMPLE_DISTANCE] = "mean_distance",  [HS__EXAMPLE_FOCAL] = "focal_share",
    [HS__EXAMPLE_HIGH] = "high_pairs",         [HS__EXAMPLE_SEPARATOR] = "separator_attention",
};

struct hs__example_sample {
    pthread_mutex_t lock;
    size_t n_maps, n;
    hs__example kept[HS__EXAMPLES_MAX]; /* by hash, ascending */
};

/* No two numbers tie. */
static uint64_t hash(uint64_t number)
{
    return hs_mix(number + HS_MIX_STEP);
}

hs__example_sample *hs__example_sample_create(size_t n_maps)
{
    hs__example_sample *sample = calloc(1, sizeof *sample);
    if (sample && pthread_mutex_init(&sample->lock, NULL)) {
        free(sample);
        return NULL;
    }
    if (sample)
        sample->n_maps = n_maps;
    return sample;
}

void hs__example_finish(hs__example *example)
{
    free(example->text);
    free(example->figures);
    *example = (hs__example){0};
}

void hs__example_sample_destroy(hs__example_sample *sample)
{
    if (!sample)
        return;
    for (size_t i = 0; i < sample->n; i++)
        hs__example_finish(&sample->kept[i]);
    pthread_mutex_destroy(&sample->lock);
    free(sample);
}

static bool wants(const hs__example_sample *sample, uint64_t number)
{
    return sample->n < HS__EXAMPLES_MAX || hash(number) < hash(sample->kept[sample->n - 1].number);
}

bool hs__example_sample_wants(hs__example_sample *sample, uint64_t number)
{
    pthread_mutex_lock(&sample->lock);
    const bool is_sampled = wants(sample, number);
    pthread_mutex_unlock(&sample->lock);
    return is_sampled;
}

void hs__example_sample_add(hs__example_sample *sample, hs__example *example)
{
    pthread_mutex_lock(&sample->lock);
    if (wants(sample, example->number)) {
        size_t at = sample->n;
        if (at == HS__EXAMPLES_MAX)
            hs__example_finish(&sample->kept[--at]);
        for (; at && hash(sample->kept[at - 1].number) > hash(example->number); at--)
            sample->kept[at] = sample->kept[at - 1];
        sample->kept[at] = *example;
        sample->n += sample->n < HS__EXAMPLES_MAX;
        *example = (hs__example){0};
    }
    pthread_mutex_unlock(&sample->lock);
    hs__example_finish(example);
}

size_t hs__example_sample_list(hs__example_sample *sample, const hs__example **ret_examples)
{
    *ret_examples = sample->kept;
    return sample->n;
}

/* ---- as JSON; NAN is null ---- */

static json_t *example_save(const hs__example *example, size_t n_figures)
{
    json_t *figures = json_array();
    for (size_t k = 0; k < n_figures; k++)
        json_array_append_new(figures, isfinite(example->figures[k]) ? json_real((double)example->figures[k])
                                                                     : json_null());
    return json_pack("{sI sI sI ss so}", "number", (json_int_t)example->number, "file",
                     (json_int_t)example->file, "line", (json_int_t)example->line, "text", example->text,
                     "figures", figures);
}

json_t *hs__example_sample_save(hs__example_sample *sample)
{
    json_t *saved = json_array();
    pthread_mutex_lock(&sample->lock);
    for (size_t i = 0; saved && i < sample->n; i++)
        if (json_array_append_new(saved,
                                  example_save(&sample->kept[i], sample->n_maps * HS__EXAMPLE_FIGURES))) {
            json_decref(saved);
            saved = NULL;
        }
    pthread_mutex_unlock(&sample->lock);
    return saved;
}

static hs_status example_load(hs__example_sample *sample, json_t *saved, size_t n_files, hs_error *err)
{
    const size_t n = sample->n_maps * HS__EXAMPLE_FIGURES;
    json_int_t number, file, line;
    const char *text;
    json_t *figures;
    if (json_unpack(saved, "{sI sI sI ss so}", "number", &number, "file", &file, "line", &line, "text", &text,
                    "figures", &figures) ||
        json_array_size(figures) != n || number < 0 || line < 0 || file < 0 || (uint64_t)file >= n_files)
        return hs_fail(err, HS_INVALID, "the saved example texts are damaged");
    hs__example example = {.number = (uint64_t)number,
                           .file = (uint32_t)file,
                           .line = (uint64_t)line,
                           .text = strdup(text),
                           .figures = malloc(n * sizeof(float))};
    if (!example.text || !example.figures) {
        hs__example_finish(&example);
        return hs_fail(err, HS_NO_MEMORY, "no memory for example texts");
    }
    for (size_t k = 0; k < n; k++) {
        const json_t *figure = json_array_get(figures, k);
        example.figures[k] = json_is_number(figure) ? (float)json_number_value(figure) : NAN;
    }
    hs__example_sample_add(sample, &example);
    return HS_OK;
}

hs_status hs__example_sample_load(hs__example_sample *sample, const json_t *saved, size_t n_files,
                                  hs_error *err)
{
    hs_status st =
        json_is_array(saved) ? HS_OK : hs_fail(err, HS_INVALID, "there are no saved example texts");
    for (size_t i = 0; !st && i < json_array_size(saved); i++)
        st = example_load(sample, json_array_get(saved, i), n_files, err);
    return st;
}
