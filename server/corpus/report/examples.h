/* examples.h - a random sample of texts, with each head's figures in them.
 *
 * The sample keeps the texts with the lowest hashes of their numbers. So it does not depend on the order of
 * texts, on workers, shards or interruptions, and samples of shards can be merged. Thread-safe. */
#pragma once

#include "model/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HS__EXAMPLES_MAX 128

/* Figures of a head in one text at the main threshold; NAN if undefined. */
typedef enum hs__example_figure {
    HS__EXAMPLE_REPEATED,      /* fraction of E */
    HS__EXAMPLE_SAME_SENTENCE, /* fraction of E */
    HS__EXAMPLE_DISTANCE,      /* mean over E */
    HS__EXAMPLE_FOCAL,         /* fraction of E */
    HS__EXAMPLE_HIGH,          /* |E| */
    HS__EXAMPLE_SEPARATOR,     /* fraction of attention on separators */
    HS__EXAMPLE_FIGURES
} hs__example_figure;

extern const char *const hs__example_names[HS__EXAMPLE_FIGURES];

typedef struct hs__example {
    uint64_t number;
    uint32_t file;
    uint64_t line;
    char *text;     /* UTF-8, up to the last token; owned */
    float *figures; /* [l][h][HS__EXAMPLE_FIGURES]; owned */
} hs__example;

typedef struct hs__example_sample hs__example_sample;

/* Creates a sample. n_maps: layers times heads. NULL if memory is short. */
hs__example_sample *hs__example_sample_create(size_t n_maps);
void hs__example_sample_destroy(hs__example_sample *sample); /* NULL is fine */

/* Returns true if the sample would keep this text now. Once false, it stays false. */
bool hs__example_sample_wants(hs__example_sample *sample, uint64_t number);
/* Adds an example if it belongs to the sample. Takes ownership of its text and figures in any case. */
void hs__example_sample_add(hs__example_sample *sample, hs__example *example);

size_t hs__example_sample_list(hs__example_sample *sample, const hs__example **ret_examples);
void hs__example_finish(hs__example *example);

/* Returns the sample as JSON; NULL if memory is short. */
json_t *hs__example_sample_save(hs__example_sample *sample);
/* Adds a saved sample. HS_INVALID: it is damaged. */
HS_MUST_USE hs_status hs__example_sample_load(hs__example_sample *sample, const json_t *saved, size_t n_files,
                                              hs_error *err);
