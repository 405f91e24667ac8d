/* requirements.c - sums the sizes that each allocating module reports. JSON is estimated from above, by
 * element. */
#include "server/corpus/run/requirements.h"

#include "model/base/sizes.h"
#include "model/files/json.h"
#include "server/base/atomic_files.h"
#include "server/base/machine.h"
#include "server/corpus/counters/text_pass.h"
#include "server/corpus/decoder_texts.h"
#include "server/corpus/input/input.h"
#include "server/corpus/report/report.h"
#include "server/corpus/run/settings.h"
#include "server/corpus/run/workers.h"

#define MB (UINT64_C(1) << 20)

/* Bytes in memory: jansson takes 24 for a number, malloc 8, and lists may be half empty; the object of a
 * head's or a layer's figures takes some thousands. *_TEXT: bytes when written. */
enum { NUMBER_BYTES = 48, FIGURES_BYTES = 4096, NUMBER_TEXT = 24, FIGURES_TEXT = 1024, WORD_TEXT = 11 };
/* Sample texts, names, bad lines. */
#define WORDS_BYTES (4 * MB)
/* A buffer that doubles holds its text up to twice, and the old one while it grows. */
#define GROWING 3
/* The page itself with its maps as base64 (report_html.c), and those maps in memory (report_maps.c); the
 * window's one that they are made of comes on top. */
#define PAGE_BYTES (12 * MB)
#define MAPS_BYTES (6 * MB)
#define ZIP_BYTES  (1 * MB)

/* Lines on their way: HS__QUEUE_BYTES, a block over it, the reader's line, what unpacks the file; and in each
 * worker one being parsed. */
#define TEXTS_BYTES        (HS__QUEUE_BYTES + (HS__CORPUS_BLOCK + 3) * HS__RECORD_BYTES_MAX + HS__UNPACK_MEMORY_MAX)
#define TEXTS_WORKER_BYTES (4 * HS__RECORD_BYTES_MAX)

/* Numbers of elements that determine the sizes. */
typedef struct dimensions {
    uint64_t maps;     /* layers x heads */
    uint64_t figures;  /* thresholds x layers x heads */
    uint64_t listed;   /* elements of report.json */
    uint64_t elements; /* of report.npz */
    hs__counter_size counters;
} dimensions;

/* Adds the sizes of a counter, and the elements of its arrays. */
static void counter_add(const hs__corpus_job *job, const json_t *identity, size_t c, dimensions *d)
{
    const hs__counter *counter = hs__counters[c];
    size_t lengths[HS_LENGTHS];
    if (!hs__counter_is_active(counter, identity))
        return;
    hs__counter_lengths(job, lengths);
    hs__counter_measure(counter, job, job->settings.options[c], &d->counters);
    for (size_t k = 0; counter->sums && !counter->sums->hidden && k < counter->sums->n_rows; k++) {
        const hs_corpus_array array = hs_array_of(counter->sums->rows, k, lengths);
        d->elements += array.name ? array.n_elements : 0;
        d->listed += array.name && hs__report_lists(&array) ? array.n_elements : 0;
    }
}

static dimensions dimensions_of(const hs__corpus_job *job, const json_t *identity, const hs_corpus_options *o)
{
    hs_corpus_array arrays[HS_CORPUS_ARRAYS_MAX];
    const size_t n = hs_corpus_arrays_of(o, arrays);
    dimensions d = {.maps = o->n_layers * o->n_heads};
    d.figures = d.maps * o->n_thresholds;
    for (size_t k = 0; k < n; k++) {
        d.elements += arrays[k].n_elements;
        d.listed += hs__report_lists(&arrays[k]) ? arrays[k].n_elements : 0;
    }
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        counter_add(job, identity, c, &d);
    d.listed += d.counters.listed;
    d.elements += d.counters.elements;
    return d;
}

static hs_status counters_check(const hs__corpus_job *job, const json_t *identity, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t c = 0; !st && c < HS__N_COUNTERS; c++)
        if (hs__counters[c]->check && hs__counter_is_active(hs__counters[c], identity))
            st = hs__counters[c]->check(job, err);
    return st;
}

static uint64_t report_text(const dimensions *d)
{
    return WORDS_BYTES + d->listed * NUMBER_TEXT + d->figures * FIGURES_TEXT + d->counters.report_text;
}

/* A checkpoint has its words as base64. They are encoded in a buffer, and the parser grows one. */
static uint64_t json_memory(const dimensions *d)
{
    const uint64_t words = d->counters.saved_words * WORD_TEXT;
    const uint64_t checkpoint = d->counters.saved * NUMBER_BYTES + (1 + GROWING) * words;
    const uint64_t report = d->listed * NUMBER_BYTES + d->figures * FIGURES_BYTES + d->counters.report;
    return hs_max(checkpoint, report + GROWING * report_text(d)) + GROWING * WORDS_BYTES;
}

static uint64_t maps_memory(const hs_corpus_options *o)
{
    const uint64_t side = (o->tokens_max + o->map_step - 1) / o->map_step;
    return MAPS_BYTES + side * side * sizeof(double) * (o->crosses ? 2 : 1);
}

static uint64_t worker_memory(const hs__corpus_job *job, const dimensions *d, uint64_t statistics)
{
    const size_t T = job->settings.fields.max_tokens;
    const size_t n = hs__corpus_together(job);
    return statistics + hs_workspace_bytes(job->engine, n * T) + hs__source_states_bytes(job, n, T) +
           hs__pass_floats(&job->settings) * sizeof(float) + d->counters.worker + TEXTS_WORKER_BYTES;
}

hs_status hs__requirements_measure(const hs__corpus_job *job, hs__requirements *ret_needs, hs_error *err)
{
    const hs_corpus_options o = hs__corpus_options_of(job);
    hs_corpus_size size;
    const hs_status st = hs_corpus_stats_measure(&o, &size, err);
    if (st)
        return st;
    const size_t refusals = hs_json_refusals();
    json_t *identity = json_object();
    hs__corpus_settings_identify(&job->settings, job->model, identity);
    identity = hs_json_whole(identity, refusals);
    if (!identity)
        return hs_fail(err, HS_NO_MEMORY, "no memory to begin");
    const hs_status checked = counters_check(job, identity, err);
    const dimensions d = dimensions_of(job, identity, &o);
    json_decref(identity);
    if (checked)
        return checked;
    const uint64_t state =
        size.saved_bytes + d.counters.saved * NUMBER_TEXT + d.counters.saved_words * WORD_TEXT + WORDS_BYTES;
    const uint64_t npz = d.elements * sizeof(double) + ZIP_BYTES;
    const uint64_t page = PAGE_BYTES + report_text(&d);
    *ret_needs =
        (hs__requirements){.memory = TEXTS_BYTES + maps_memory(&o) + json_memory(&d) + d.counters.shared,
                           .memory_worker = worker_memory(job, &d, size.memory_bytes),
                           .disk = state + hs_max(state, npz + page + report_text(&d)) + d.counters.disk};
    return HS_OK;
}

hs_status hs__corpus_disk_fits(const hs__requirements *needs, const char *dir, uint64_t n_there,
                               hs_error *err)
{
    const uint64_t n_free = hs__disk_free(dir);
    if (needs->disk <= n_free || needs->disk - n_free <= n_there)
        return HS_OK;
    return hs_fail(err, HS_NO_SPACE, "the run needs %llu MB in '%.200s'; %llu MB are free",
                   (unsigned long long)(needs->disk / MB), dir, (unsigned long long)(n_free / MB));
}

hs_status hs__corpus_workers_fit(const hs__requirements *needs, const hs__run_memory *memory,
                                 size_t n_requested, size_t *ret_n, hs_error *err)
{
    const uint64_t usable = memory->bytes > memory->kept ? memory->bytes - memory->kept : 0;
    const uint64_t least = needs->memory + needs->memory_worker;
    if (usable < least)
        return hs_fail(
            err, HS_NO_MEMORY,
            "the run needs %llu MB of memory; %llu MB %s, and %llu MB are kept for other purposes. "
            "Choose fewer layers, a smaller max_tokens or control none, or free memory",
            (unsigned long long)(least / MB), (unsigned long long)(memory->bytes / MB), memory->what,
            (unsigned long long)(memory->kept / MB));
    const uint64_t n = (usable - needs->memory) / needs->memory_worker;
    *ret_n = n < n_requested ? (size_t)n : n_requested;
    return HS_OK;
}

hs__run_memory hs__corpus_memory_all(void)
{
    const uint64_t limit = hs__memory_limit();
    return (hs__run_memory){limit, limit / 16, "are the limit of this machine or container"};
}

hs__run_memory hs__corpus_memory_free(void)
{
    return (hs__run_memory){hs__memory_available(), hs__memory_limit() / 16, "are free"};
}
