/* fuzz_corpus_stats.c - saved statistics are refused, or can be read, merged and saved to the same bytes.
 *
 * A fuzzer cannot guess checksums. Each input is tried a second time behind a sound header, with a new
 * checksum. */
#include "engine/statistics/statistics_state.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static void read_all(const hs_corpus_stats *stats)
{
    hs_corpus_array arrays[HS_CORPUS_ARRAYS_MAX];
    const size_t n = hs_corpus_arrays(stats, arrays);
    for (size_t k = 0; k < n; k++) {
        int64_t last;
        if (arrays[k].n_elements)
            hs_corpus_array_read(stats, &arrays[k], arrays[k].n_elements - 1, 1, &last);
    }
    const hs_corpus_options o = hs_corpus_stats_options(stats);
    (void)hs_corpus_head_read(stats, o.n_thresholds - 1, o.n_layers - 1, o.n_heads - 1);
    (void)hs_corpus_layer_read(stats, o.threshold_main, 0);
    (void)hs_corpus_chance_read(stats);
    (void)hs_corpus_masked_read(stats);
    (void)hs_corpus_profile_read(stats, o.n_layers - 1, o.n_heads - 1);
}

static void try_bytes(const void *data, size_t size)
{
    hs_corpus_stats *stats = NULL, *other = NULL;
    hs_error err = {0};
    hs_status st = hs_corpus_stats_load(data, size, &stats, &err);
    require(st == err.status && (st == HS_OK || st == HS_INVALID || st == HS_NO_MEMORY));
    require((stats != NULL) == (st == HS_OK));
    if (st)
        return;
    size_t n_bytes;
    const void *saved = hs_corpus_stats_save(stats, &n_bytes);
    require(n_bytes == size && memcmp(saved, data, size) == 0);
    read_all(stats);
    if (!hs_corpus_stats_load(data, size, &other, NULL)) {
        st = hs_corpus_stats_merge(stats, other, NULL);
        require(st == HS_OK || st == HS_TOO_LARGE);
        read_all(stats);
    }
    hs_corpus_stats_destroy(other);
    hs_corpus_stats_destroy(stats);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_bytes(data, size);

    /* A small state, its words overwritten by the input. */
    const uint16_t layer = 0;
    const float threshold = 0.3f;
    const hs_corpus_options options = {.layers = &layer,
                                       .n_layers = 1,
                                       .n_heads = 1,
                                       .tokens_max = 2,
                                       .vocab_size = 4,
                                       .thresholds = &threshold,
                                       .n_thresholds = 1,
                                       .attention_threshold = 0.3f,
                                       .n_parts = 2,
                                       .distances = (hs_corpus_distance)(size % 3),
                                       .masked = true};
    hs_corpus_stats *stats = NULL;
    if (hs_corpus_stats_create(&options, &stats, NULL))
        return 0;
    const size_t capacity = stats->header->n_words * sizeof(int64_t);
    memcpy(stats->header + 1, data, size < capacity ? size : capacity);
    size_t n_bytes;
    const void *saved = hs_corpus_stats_save(stats, &n_bytes);
    try_bytes(saved, n_bytes);
    hs_corpus_stats_destroy(stats);
    return 0;
}
