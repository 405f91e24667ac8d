/* fuzz_corpus_state.c - the saved state of a run is refused with a reason, or gives a run whose report can
 * be written and whose lists can be saved.
 *
 * A fuzzer cannot guess checksums. If the first byte of the input is odd, the rest is the JSON of a state,
 * and this file adds the header and small statistics. 'p' and 'q' ask for the page too, which takes most of
 * the time: few seeds begin so. */
#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/report.h"
#include "server/corpus/run/run_checkpoint.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void page_draw(const hs__corpus_results *results, const json_t *report)
{
    FILE *out = fopen("/dev/null", "we");
    hs_error err = {0};
    require(out && hs__corpus_html_write(out, results->stats, report, &err) == err.status);
    fclose(out);
}

static void state_try(const void *bytes, size_t n_bytes, bool with_page)
{
    hs__corpus_results results, again;
    hs_error err = {0};
    const hs_status st = hs__run_checkpoint_parse(bytes, n_bytes, "state", &results, &err);
    require(st == err.status && (st == HS_OK || st == HS_INVALID || st == HS_NO_MEMORY));
    if (st)
        return;
    json_t *report = hs__corpus_report_json(&results), *bad = hs__bad_lines_save(results.bad, NULL),
           *counts = json_object();
    require(report && bad && counts);
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        require(hs__counter_save(hs__counters[c], &results, results.counts[c], counts, &err) == HS_OK);
    if (with_page)
        page_draw(&results, report);
    require(hs__run_checkpoint_parse(bytes, n_bytes, "state", &again, NULL) == HS_OK);
    require(hs__corpus_results_merge(&results, &again, "again", &err) ==
            HS_INVALID); /* the same shard twice */
    hs__corpus_results_finish(&again);
    hs__corpus_results_finish(&results);
    json_decref(report);
    json_decref(bad);
    json_decref(counts);
}

/* Adds what an input cannot guess, or would be long: the digest of rows, and zeros of sums that it lacks.
 * NULL: it is no JSON object. */
static char *text_complete(const uint8_t *json, size_t n_json, size_t *ret_n)
{
    static const size_t lengths[HS_LENGTHS] = {[HS_THRESHOLDS] = 1, [HS_LAYERS] = 1, [HS_HEADS] = 1};
    char rows[17];
    json_t *tree = NULL;
    if (hs_json_load((const char *)json, n_json, 0, &tree, NULL) || !json_is_object(tree)) {
        json_decref(tree);
        return NULL;
    }
    hs__counters_digest(rows);
    json_object_set_new(tree, "rows", json_string(rows));
    for (size_t c = 0; c < HS__N_COUNTERS; c++) {
        const hs__counter *counter = hs__counters[c];
        if (!counter->sums || json_object_get(tree, counter->sums->member))
            continue;
        hs_sums *zeros = hs_sums_create(counter->sums, lengths, NULL);
        require(zeros && hs__counter_save(counter, NULL, zeros, tree, NULL) == HS_OK);
        hs_sums_destroy(zeros);
    }
    char *text = hs_json_text(tree, JSON_COMPACT);
    require(text);
    json_decref(tree);
    *ret_n = strlen(text);
    return text;
}

static void json_try(const uint8_t *json, size_t n_json, bool with_page)
{
    size_t n_text = n_json;
    char *completed = text_complete(json, n_json, &n_text);
    const void *text = completed ? completed : (const char *)json;
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
                                       .n_parts = 2};
    hs_corpus_stats *stats = NULL;
    char *bytes = NULL;
    size_t n_bytes = 0, n_stats;
    FILE *file = open_memstream(&bytes, &n_bytes);
    require(file && !hs_corpus_stats_create(&options, &stats, NULL));
    const void *saved = hs_corpus_stats_save(stats, &n_stats);
    fprintf(file, "headscope-corpus 1 %zu %08lx\n", n_text, (unsigned long)crc32_z(0, text, n_text));
    fwrite(text, 1, n_text, file);
    free(completed);
    fwrite(saved, 1, n_stats, file);
    require(fclose(file) == 0);
    state_try(bytes, n_bytes, with_page);
    free(bytes);
    hs_corpus_stats_destroy(stats);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    const bool with_page = *data == 'p' || *data == 'q';
    if (*data & 1)
        json_try(data + 1, size - 1, with_page);
    else
        state_try(data + 1, size - 1, with_page);
    return 0;
}
