/* corpus_sample.h - a few texts of the corpus kept as examples, with each head's figures of them.
 *
 * The texts with the lowest hashes of their numbers are kept: a random sample that does not depend on the
 * order of the texts, on workers, shards or interruptions, and that merges as the statistics do. Any thread.
 */
#pragma once

#include "model/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HS__CORPUS_SAMPLE_MAX 128

/* What a head does in one text, at the main threshold; NAN where it has no meaning. */
typedef enum hs__example_figure {
    HS__EXAMPLE_REPEATED,      /* share of E */
    HS__EXAMPLE_SAME_SENTENCE, /* share of E */
    HS__EXAMPLE_DISTANCE,      /* mean over E */
    HS__EXAMPLE_FOCAL,         /* share of E */
    HS__EXAMPLE_HIGH,          /* |E| */
    HS__EXAMPLE_SEPARATOR,     /* share of attention on separators */
    HS__EXAMPLE_FIGURES
} hs__example_figure;

extern const char *const hs__example_names[HS__EXAMPLE_FIGURES];

typedef struct hs__example {
    uint64_t number;
    uint32_t file;
    uint64_t line;
    char *text;     /* UTF-8, as far as the window reaches; owned */
    float *figures; /* [l][h][HS__EXAMPLE_FIGURES]; owned */
} hs__example;

typedef struct hs__corpus_sample hs__corpus_sample;

/* n_maps: layers times heads. NULL when memory is short. */
hs__corpus_sample *hs__corpus_sample_create(size_t n_maps);
void hs__corpus_sample_destroy(hs__corpus_sample *sample); /* NULL is fine */

/* Would this text be kept, as things are? If not now, then never. */
bool hs__corpus_sample_wants(hs__corpus_sample *sample, uint64_t number);
/* Takes the example's text and figures, whether it keeps them or not. */
void hs__corpus_sample_add(hs__corpus_sample *sample, hs__example *example);

size_t hs__corpus_sample_list(hs__corpus_sample *sample, const hs__example **ret_examples);
void hs__example_finish(hs__example *example);

/* NULL when memory is short. */
json_t *hs__corpus_sample_save(hs__corpus_sample *sample);
/* Adds what was saved. HS_INVALID when it is not that. */
HS_MUST_USE hs_status hs__corpus_sample_load(hs__corpus_sample *sample, const json_t *saved, hs_error *err);
