/* statistics.c - the state of the corpus statistics: made, merged, saved, loaded. */
#include "engine/statistics/statistics.h"

#include "engine/arena.h"
#include "engine/statistics/statistics_state.h"
#include "model/base/bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "hs-stats" read as a little-endian word, so that another byte order is another magic. */
#define MAGIC   UINT64_C(0x73746174732d7368)
#define VERSION UINT64_C(4)

/* Each row begins on a cache line. */
static size_t field_words(size_t field, const size_t *lengths)
{
    const size_t line = HS_LINE_BYTES / sizeof(int64_t);
    return (hs_row_words(hs__stats_rows, field, lengths) + line - 1) / line * line;
}

/* At most 2^56, for options within their bounds. */
static uint64_t words_count(const hs__stats_header *header)
{
    size_t lengths[HS__STATS_LENGTHS];
    uint64_t n = 0;
    hs__stats_lengths(header, lengths);
    for (size_t field = 0; field < HS__N_FIELDS; field++)
        n += field_words(field, lengths);
    return n;
}

static uint64_t saved_bytes(const hs__stats_header *header)
{
    return sizeof *header + words_count(header) * sizeof(int64_t);
}

/* ---- options ---- */
static hs_status check_range(const char *name, uint64_t value, uint64_t minimum, uint64_t maximum,
                             hs_error *err)
{
    if (value >= minimum && value <= maximum)
        return HS_OK;
    return hs_fail(err, HS_INVALID, "corpus statistics: %s is %llu; allowed are %llu to %llu", name,
                   (unsigned long long)value, (unsigned long long)minimum, (unsigned long long)maximum);
}

static hs_status check_layers(const hs__stats_header *header, hs_error *err)
{
    for (size_t l = 0; l < header->n_layers; l++)
        if (header->layers[l] >= HS_LAYERS_MAX || (l > 0 && header->layers[l] <= header->layers[l - 1]))
            return hs_fail(err, HS_INVALID, "corpus statistics: layers must ascend and be below %d",
                           HS_LAYERS_MAX);
    return HS_OK;
}

static hs_status check_thresholds(const hs__stats_header *header, hs_error *err)
{
    for (size_t t = 0; t < header->n_thresholds; t++) {
        const float value = header->thresholds[t];
        if (!(value > 0 && value <= 1) || (t > 0 && !(value > header->thresholds[t - 1])))
            return hs_fail(err, HS_INVALID, "corpus statistics: thresholds must ascend within (0, 1]");
    }
    if (!(header->attention_threshold > 0 && header->attention_threshold <= 1))
        return hs_fail(err, HS_INVALID, "corpus statistics: the attention threshold must be in (0, 1]");
    return HS_OK;
}

/* Counts first: the arrays are read by them. */
static hs_status check_counts(const hs__stats_header *h, hs_error *err)
{
    const struct {
        const char *name;
        uint64_t value, minimum, maximum;
    } bounds[] = {
        {"the number of layers", h->n_layers, 1, HS_LAYERS_MAX},
        {"the number of heads", h->n_heads, 1, HS_HEADS_MAX},
        {"the window", h->tokens_max, 2, HS_CORPUS_WINDOW_MAX},
        {"the vocabulary's size", h->vocab_size, 1, HS_VOCAB_MAX},
        {"the number of thresholds", h->n_thresholds, 1, HS_CORPUS_THRESHOLDS_MAX},
        {"the main threshold's index", h->threshold_main, 0, h->n_thresholds - 1},
        {"the number of parts", h->n_parts, 1, HS_CORPUS_PARTS_MAX},
        {"the kind of distances", h->distances, 0, HS_CORPUS_JS},
        {"the number of predictions", h->masked, 0, 1},
        {"the number of texts that are attended to", h->crosses, 0, 1},
        {"the edge of a map's cell", h->map_step, 0, h->tokens_max},
    };
    hs_status st = HS_OK;
    for (size_t k = 0; !st && k < sizeof bounds / sizeof *bounds; k++)
        st = check_range(bounds[k].name, bounds[k].value, bounds[k].minimum, bounds[k].maximum, err);
    return st;
}

static hs_status check_header(const hs__stats_header *header, hs_error *err)
{
    hs_status st = check_counts(header, err);
    if (!st)
        st = check_layers(header, err);
    if (!st)
        st = check_thresholds(header, err);
    return st;
}

static void header_fill(hs__stats_header *header, const hs_corpus_options *o)
{
    header->magic = MAGIC;
    header->version = VERSION;
    header->n_layers = o->n_layers;
    header->n_heads = o->n_heads;
    header->tokens_max = o->tokens_max;
    header->vocab_size = o->vocab_size;
    header->n_thresholds = o->n_thresholds;
    header->threshold_main = o->threshold_main;
    header->n_parts = o->n_parts;
    header->attention_threshold = o->attention_threshold;
    header->distances = o->distances;
    header->masked = o->masked;
    header->crosses = o->crosses;
    header->map_step = o->map_step > 1 ? (uint32_t)o->map_step : 0;
}

/* The counts were checked. */
static void header_fill_lists(hs__stats_header *header, const hs_corpus_options *o)
{
    memcpy(header->thresholds, o->thresholds, o->n_thresholds * sizeof *o->thresholds);
    memcpy(header->layers, o->layers, o->n_layers * sizeof *o->layers);
}

/* Everything that says what is counted, and nothing of what was. */
static bool headers_agree(const hs__stats_header *a, const hs__stats_header *b)
{
    const size_t options = offsetof(hs__stats_header, n_layers);
    return memcmp((const char *)a + options, (const char *)b + options, sizeof *a - options) == 0;
}

hs_corpus_options hs_corpus_stats_options(const hs_corpus_stats *stats)
{
    const hs__stats_header *h = stats->header;
    return (hs_corpus_options){
        .layers = h->layers,
        .n_layers = h->n_layers,
        .n_heads = h->n_heads,
        .tokens_max = h->tokens_max,
        .vocab_size = h->vocab_size,
        .thresholds = h->thresholds,
        .n_thresholds = h->n_thresholds,
        .threshold_main = h->threshold_main,
        .attention_threshold = h->attention_threshold,
        .n_parts = h->n_parts,
        .distances = (hs_corpus_distance)h->distances,
        .masked = h->masked,
        .crosses = h->crosses,
        .map_step = hs__stats_step(h),
    };
}

/* ---- lifetime ---- */

/* Returns the header's place in a block of zeros. The words after it then begin on a cache line. */
static hs__stats_header *header_place(void *block)
{
    const uintptr_t words = (uintptr_t)block + sizeof(hs__stats_header);
    return (hs__stats_header *)((char *)block + (HS_LINE_BYTES - words % HS_LINE_BYTES) % HS_LINE_BYTES);
}

/* An empty state under a header that was checked, with scratch if texts are to be added at once; NULL when
 * memory is short. */
static hs_corpus_stats *stats_make(const hs__stats_header *header, bool adds, hs_error *err)
{
    const uint64_t n_bytes = saved_bytes(header);
    hs_corpus_stats *stats = calloc(1, sizeof *stats);
    if (stats) {
        stats->block = calloc(1, n_bytes + HS_LINE_BYTES);
        stats->scratch = adds ? hs__stats_scratch_create(header) : NULL;
    }
    if (!stats || !stats->block || (adds && !stats->scratch)) {
        hs_corpus_stats_destroy(stats);
        hs_fail(err, HS_NO_MEMORY,
                "corpus statistics need %llu MB of memory; choose fewer layers or a smaller window",
                (unsigned long long)((n_bytes + (adds ? hs__stats_scratch_bytes(header) : 0)) >> 20));
        return NULL;
    }
    hs_memory_huge(stats->block, n_bytes);
    stats->header = header_place(stats->block);
    *stats->header = *header;
    stats->header->n_words = words_count(header);
    hs__stats_lengths(header, stats->lengths);
    int64_t *words = (int64_t *)(stats->header + 1);
    for (size_t field = 0; field < HS__N_FIELDS; field++) {
        const size_t n = field_words(field, stats->lengths);
        stats->fields[field] = n ? words : NULL;
        words += n;
    }
    return stats;
}

hs_status hs__stats_header_make(const hs_corpus_options *options, hs__stats_header *ret_header, hs_error *err)
{
    *ret_header = (hs__stats_header){0};
    header_fill(ret_header, options);
    const hs_status st = check_counts(ret_header, err);
    if (st)
        return st;
    header_fill_lists(ret_header, options);
    return check_header(ret_header, err);
}

hs_status hs_corpus_stats_measure(const hs_corpus_options *options, hs_corpus_size *ret_size, hs_error *err)
{
    hs__stats_header header;
    const hs_status st = hs__stats_header_make(options, &header, err);
    if (st)
        return st;
    ret_size->saved_bytes = saved_bytes(&header);
    ret_size->memory_bytes =
        sizeof(hs_corpus_stats) + ret_size->saved_bytes + HS_LINE_BYTES + hs__stats_scratch_bytes(&header);
    return HS_OK;
}

hs_status hs_corpus_stats_create(const hs_corpus_options *options, hs_corpus_stats **ret_stats, hs_error *err)
{
    hs__stats_header header;
    const hs_status st = hs__stats_header_make(options, &header, err);
    if (st)
        return st;
    hs_corpus_stats *stats = stats_make(&header, true, err);
    if (!stats)
        return HS_NO_MEMORY;
    *ret_stats = stats;
    return HS_OK;
}

void hs_corpus_stats_destroy(hs_corpus_stats *stats)
{
    if (!stats)
        return;
    hs__stats_scratch_destroy(stats->scratch);
    free(stats->block);
    free(stats);
}

uint64_t hs_corpus_stats_texts(const hs_corpus_stats *stats)
{
    return (uint64_t)stats->fields[HS__F_TEXTS][0];
}

bool hs_corpus_stats_match(const hs_corpus_stats *stats, const hs_corpus_options *options)
{
    hs__stats_header header;
    if (hs__stats_header_make(options, &header, NULL))
        return false;
    header.n_words = stats->header->n_words; /* follows from the options */
    return headers_agree(stats->header, &header);
}

hs_status hs_corpus_stats_merge(hs_corpus_stats *stats, const hs_corpus_stats *from, hs_error *err)
{
    if (!headers_agree(stats->header, from->header))
        return hs_fail(err, HS_INVALID, "corpus statistics of different models or options cannot be merged");
    if (hs_corpus_stats_texts(stats) + hs_corpus_stats_texts(from) > HS_CORPUS_TEXTS_MAX)
        return hs_fail(err, HS_TOO_LARGE, "corpus statistics hold at most %llu texts",
                       (unsigned long long)HS_CORPUS_TEXTS_MAX);
    /* Unsigned: whatever a loaded state holds, the addition is defined. */
    uint64_t *into = (uint64_t *)(stats->header + 1);
    const uint64_t *words = (const uint64_t *)(from->header + 1);
    for (uint64_t k = 0; k < stats->header->n_words; k++)
        into[k] += words[k];
    return HS_OK;
}

/* ---- bytes ---- */

/* The upper half is folded in, so that a flipped high bit does not stay there. */
static uint64_t checksum(const hs__stats_header *header)
{
    const size_t start = offsetof(hs__stats_header, n_layers);
    const char *bytes = (const char *)header + start;
    const uint64_t n = (sizeof *header - start) / sizeof(uint64_t) + header->n_words;
    uint64_t hash = HS_HASH_START;
    for (uint64_t k = 0; k < n; k++) {
        uint64_t word;
        memcpy(&word, bytes + k * sizeof word, sizeof word);
        hash = hs_hash_word(hash, word);
        hash ^= hash >> 32;
    }
    return hash;
}

_Static_assert(sizeof(hs__stats_header) % sizeof(uint64_t) == 0, "the header is whole words without padding");

const void *hs_corpus_stats_save(hs_corpus_stats *stats, size_t *ret_n_bytes)
{
    stats->header->checksum = checksum(stats->header);
    *ret_n_bytes = saved_bytes(stats->header);
    return stats->header;
}

hs_status hs_corpus_stats_load(const void *bytes, size_t n_bytes, hs_corpus_stats **ret_stats, hs_error *err)
{
    hs__stats_header header;
    if (n_bytes < sizeof header)
        return hs_fail(err, HS_INVALID, "corpus statistics: cut short after %zu bytes", n_bytes);
    memcpy(&header, bytes, sizeof header);
    if (header.magic != MAGIC)
        return hs_fail(err, HS_INVALID, "these bytes are not headscope's corpus statistics");
    if (header.version != VERSION)
        return hs_fail(err, HS_INVALID,
                       "corpus statistics of version %llu; this program counts those of version %llu: begin "
                       "the run anew, or finish it with the headscope that began it",
                       (unsigned long long)header.version, (unsigned long long)VERSION);
    hs_status st = check_header(&header, err);
    if (st)
        return st;
    const uint64_t n_due = saved_bytes(&header);
    if (header.n_words != words_count(&header) || n_bytes != n_due)
        return hs_fail(err, HS_INVALID, "corpus statistics: %zu bytes where %llu are due", n_bytes,
                       (unsigned long long)n_due);
    hs_corpus_stats *stats = stats_make(&header, false, err);
    if (!stats)
        return HS_NO_MEMORY;
    memcpy(stats->header, bytes, n_bytes);
    if (checksum(stats->header) != header.checksum)
        st = hs_fail(err, HS_INVALID, "corpus statistics: damaged, the checksum does not match");
    else if (hs_corpus_stats_texts(stats) > HS_CORPUS_TEXTS_MAX)
        st = hs_fail(err, HS_INVALID, "corpus statistics: more texts than there can be");
    if (st) {
        hs_corpus_stats_destroy(stats);
        return st;
    }
    *ret_stats = stats;
    return HS_OK;
}
