/* statistics_add.c - adds one text's maps to the sums. */
#include "engine/statistics/statistics_add.h"

#include "engine/analysis/analysis.h"
#include "engine/analysis/analysis_maps.h"
#include "engine/analysis/distances.h"
#include "model/base/clones.h"

#include <stdlib.h>
#include <string.h>

/* ---- distances of heads ----
 *
 * Distances of heads over texts. They compare every two heads of a text, so its maps
 * are kept until the last head has come. */

/* Nothing without distances. */
static void corpus_kept_layout(const hs__stats_header *header, hs__arena *arena, hs__stats_kept *ret)
{
    const size_t n = hs__stats_distance_heads(header), W = header->tokens_max;
    if (n == 0)
        return;
    ret->maps = hs__arena_floats(arena, n * W * W);
    ret->heads = hs__arena_take(arena, n * sizeof *ret->heads);
    ret->sums = hs__arena_take(arena, n * n * sizeof *ret->sums);
    ret->scratch = hs__arena_take(arena, header->distances == HS_CORPUS_JS ? n * sizeof(double)
                                                                           : hs_heads_hsic_bytes(n, W));
}

/* Keeps S above the diagonal, or all of A, whose rows have K keys. */
static void keep(const hs__stats_kept *kept, bool js, size_t at, size_t W, size_t T, size_t K,
                 const hs_observed_head *head)
{
    float *to = kept->maps + at * W * W;
    kept->heads[at] = to;
    if (js)
        memcpy(to, head->attention, T * K * sizeof *to);
    for (size_t i = 0; !js && i + 1 < T; i++)
        memcpy(to + i * T + i + 1, head->similarity + i * T + i + 1, (T - 1 - i) * sizeof *to);
}

/* Keeps map number `at` of all layers' heads. The last map adds the text's distances. */
static void corpus_distances_add(hs_corpus_stats *stats, const hs__stats_kept *kept, size_t at,
                                 size_t n_tokens, size_t n_keys, const hs_observed_head *head)
{
    const size_t n = hs__stats_distance_heads(stats->header);
    const bool js = stats->header->distances == HS_CORPUS_JS;
    keep(kept, js, at, stats->header->tokens_max, n_tokens, n_keys, head);
    if (at + 1 < n)
        return;
    memset(kept->sums, 0, n * n * sizeof *kept->sums);
    for (size_t row = 0; js && row < n_tokens; row++)
        hs_heads_js_add(NULL, 1, kept->heads, n, n_tokens, n_keys, row, kept->scratch, kept->sums);
    if (!js)
        hs_heads_hsic_add(kept->heads, n, n_tokens, kept->scratch, kept->sums);
    for (size_t i = 0; i < n * n; i++)
        hs__stats_fixed_add(stats->fields[HS__F_DISTANCES] + 2 * i, kept->sums[i]);
}

/* ---- one text ----
 *
 * Adding texts to the corpus statistics, head by head as a pass makes them.
 *
 * A map is read right after it was computed, while it is in the cache, so only the sums come from memory. The
 * large sums of a head are fetched once for all texts of a batch. Sums over the heads of a layer are kept
 * per text until the layer's last head. */

struct hs__stats_scratch {
    void *block;
    size_t stride;
    hs_corpus_text texts[HS_CORPUS_BATCH]; /* being added */
    size_t n_texts;
    hs__stats_facts facts[HS_CORPUS_BATCH];  /* of them */
    hs__stats_facts others[HS_CORPUS_BATCH]; /* of the texts that are attended to, if these are others */
    hs__stats_facts *keys[HS_CORPUS_BATCH];  /* of the texts that are attended to */
    hs__stats_map map;
    uint8_t *locations; /* [window][stride]: E of the head at hand at the main threshold, over the batch */
    uint32_t *batch;    /* [2][hs__stats_attention_rows][window]: its attention */
    hs__cells cells;    /* of the state's maps */
    int32_t *focal;     /* [k][t][h]: position of the focal id, -1 for none */
    uint32_t *seen;     /* [stride]: of ids, at their first positions */
    uint8_t *ends;      /* [stride]: tokens that end a sentence of the text at hand */
    float *profile;
    uint16_t *high;
    hs_segment *segments;
    hs__stats_kept kept;
    hs_corpus_layer_observation layer; /* that ended last */
};

static size_t batch_max(const hs__stats_header *header)
{
    return hs_corpus_batch_max(header->tokens_max, (hs_corpus_distance)header->distances);
}

static void facts_layout(size_t stride, hs__arena *arena, hs__stats_facts *facts)
{
    facts->first = hs__arena_take(arena, stride * sizeof(int32_t));
    facts->next = hs__arena_take(arena, stride * sizeof(int32_t));
    facts->repeats = hs__arena_take(arena, stride * sizeof(int32_t));
    facts->sentences = hs__arena_take(arena, stride * sizeof(int32_t));
    facts->sentence_ends = hs__arena_take(arena, stride * sizeof(int32_t));
    facts->specials = hs__arena_take(arena, stride * sizeof(int32_t));
    facts->roles = hs__arena_take(arena, stride);
    facts->high_mask = hs__arena_take(arena, stride * sizeof(uint32_t));
    facts->columns = hs__arena_floats(arena, stride);
}

static void scratch_layout(hs__stats_scratch *s, const hs__stats_header *header, hs__arena *arena)
{
    s->stride = s->map.stride = hs__stats_stride(header->tokens_max);
    const size_t W = header->tokens_max, P = s->stride, n_thresholds = header->n_thresholds;
    for (size_t k = 0; k < batch_max(header); k++) {
        hs__stats_facts *facts = &s->facts[k];
        facts_layout(P, arena, facts);
        facts->similarity_sum = hs__arena_floats(arena, hs__stats_sums_floats(W));
        facts->normalized_sum = hs__arena_floats(arena, hs__stats_sums_floats(W));
        s->keys[k] = header->crosses ? &s->others[k] : facts;
        if (header->crosses)
            facts_layout(P, arena, &s->others[k]);
    }
    s->map.levels = hs__arena_take(arena, P * P);
    s->map.diagonals = hs__arena_take(arena, P * P);
    s->map.bins = hs__arena_take(arena, W * P);
    s->map.hist = hs__arena_take(arena, HS__HIST_BINS * sizeof(uint32_t));
    s->map.special = hs__arena_take(arena, HS__SIGNAL * sizeof(uint32_t));
    s->map.strata = hs__arena_take(arena, HS_CORPUS_STRATA * HS__HIST_BINS * sizeof(uint32_t));
    s->map.by_distance = hs__arena_take(arena, 4 * P * sizeof(double));
    s->map.degrees = hs__arena_take(arena, n_thresholds * P * sizeof(uint32_t));
    s->map.distances = hs__arena_take(arena, n_thresholds * P * sizeof(uint32_t));
    s->map.ordinary = hs__arena_take(arena, n_thresholds * P * sizeof(uint32_t));
    s->locations = hs__arena_take(arena, W * P);
    s->cells = (hs__cells){.window = W, .step = hs__stats_step(header), .n = hs__stats_cells(header)};
    s->batch = hs__arena_take(arena, 2 * hs__stats_attention_rows(&s->cells, batch_max(header)) * W *
                                         sizeof(uint32_t));
    for (size_t k = 0; k < 2; k++)
        s->cells.strips[k] = hs__arena_take(arena, P * sizeof(int64_t));
    s->focal = hs__arena_take(arena, HS_CORPUS_BATCH * n_thresholds * header->n_heads * sizeof(int32_t));
    s->seen = hs__arena_take(arena, P * sizeof(uint32_t));
    s->ends = hs__arena_take(arena, P);
    s->profile = hs__arena_floats(arena, P);
    s->high = hs__arena_take(arena, P * sizeof(uint16_t));
    s->segments = hs__arena_take(arena, P * sizeof(hs_segment));
    corpus_kept_layout(header, arena, &s->kept);
}

size_t hs__stats_scratch_bytes(const hs__stats_header *header)
{
    hs__stats_scratch unused;
    hs__arena arena = {0};
    scratch_layout(&unused, header, &arena);
    return sizeof unused + arena.used;
}

hs__stats_scratch *hs__stats_scratch_create(const hs__stats_header *header)
{
    hs__stats_scratch *scratch = calloc(1, sizeof *scratch);
    if (!scratch)
        return NULL;
    scratch->map.n_thresholds = header->n_thresholds;
    const size_t n_bytes = hs__stats_scratch_bytes(header) - sizeof *scratch;
    scratch->block = hs_memory_create(n_bytes);
    if (!scratch->block) {
        free(scratch);
        return NULL;
    }
    memset(scratch->block, 0, n_bytes);
    hs__arena arena = {.base = scratch->block};
    scratch_layout(scratch, header, &arena);
    return scratch;
}

void hs__stats_scratch_destroy(hs__stats_scratch *scratch)
{
    if (!scratch)
        return;
    free(scratch->block);
    free(scratch);
}

/* Bin of part / size on [0, 1], in integers: no rounding decides. */
static size_t share_bin(uint64_t part, uint64_t size)
{
    const uint64_t bin = part * HS_CORPUS_SHARE_BINS / size;
    return bin < HS_CORPUS_SHARE_BINS ? (size_t)bin : HS_CORPUS_SHARE_BINS - 1;
}

/* ---- the text ---- */

/* Finds where sentences end. A special token is in none, so it stands alone. */
static void sentences_bound(hs__stats_facts *facts)
{
    const size_t T = facts->n_tokens;
    facts->n_same_sentence = facts->n_specials = 0;
    for (size_t i = T; i-- > 0;) {
        const bool is_last = i + 1 == T || facts->special[i] || facts->special[i + 1] ||
                             facts->sentences[i + 1] != facts->sentences[i];
        facts->sentence_ends[i] = is_last ? (int32_t)(i + 1) : facts->sentence_ends[i + 1];
        facts->n_same_sentence += (size_t)facts->sentence_ends[i] - (i + 1);
    }
    for (size_t i = 0; i < T; i++)
        if (facts->special[i])
            facts->specials[facts->n_specials++] = (int32_t)i;
}

static void facts_fill(const hs_corpus_stats *stats, const hs_corpus_text *text, hs__stats_facts *facts)
{
    const hs__stats_header *header = stats->header;
    const size_t T = text->n_tokens;
    uint32_t *last = stats->scratch->seen; /* position of the last token of an id, at its first position */
    facts->n_tokens = T;
    facts->part = (size_t)(text->number % header->n_parts);
    facts->special = text->special;
    memcpy(facts->roles, text->roles, T);
    uint8_t *ends = stats->scratch->ends;
    for (size_t i = 0; i < T; i++)
        ends[i] = text->roles[i] == HS_ROLE_SENTENCE_END;
    hs_sentences_find(ends, text->texts, text->special, T, facts->sentences);
    hs_repeats_find(text->ids, T, facts->first);
    facts->n_repeats = 0;
    for (size_t i = 0; i < T; i++) {
        facts->next[i] = (int32_t)T;
        const size_t first = (size_t)facts->first[i];
        if (first < i) {
            facts->next[last[first]] = (int32_t)i;
            facts->repeats[facts->n_repeats++] = (int32_t)i;
        }
        last[first] = (uint32_t)i;
    }
    sentences_bound(facts);
}

/* The share of attention that an even spread keeps within sentences, special tokens being in none. */
static double even_share(const hs__stats_facts *facts)
{
    const size_t T = facts->n_tokens;
    size_t n_cells = 0, n_own = 0; /* tokens of the sentence at hand */
    for (size_t i = 0; i < T; i++) {
        n_own += !facts->special[i];
        if (i + 1 < (size_t)facts->sentence_ends[i])
            continue;
        n_cells += n_own * n_own;
        n_own = 0;
    }
    return (double)n_cells / ((double)T * (double)T);
}

/* Adds the figures that evenly drawn pairs and evenly spread attention would have. */
static void chance_add(hs_corpus_stats *stats, const hs__stats_facts *facts)
{
    const size_t T = facts->n_tokens;
    stats->fields[HS__F_TEXTS][0]++;
    stats->fields[HS__F_TOKENS][0] += (int64_t)T;
    stats->fields[HS__F_ALL_PAIRS][0] += (int64_t)hs_pairs_of(T);
    stats->fields[HS__F_ALL_ORDINARY][0] += (int64_t)hs_pairs_of(T - facts->n_specials);
    stats->fields[HS__F_ALL_SAME_SENTENCE][0] += (int64_t)facts->n_same_sentence;
    stats->fields[HS__F_SENTENCES][0] += facts->sentences[T - 1] + 1;
    if (!stats->header->crosses)
        hs__stats_fixed_add(stats->fields[HS__F_EVEN_SAME_SENTENCE], even_share(facts));
    for (size_t i = 0; i < T; i++) {
        stats->fields[HS__F_REACHED][i]++;
        for (size_t j = (size_t)facts->next[i]; j < T; j = (size_t)facts->next[j]) {
            stats->fields[HS__F_ALL_REPEATED][0]++;
            stats->fields[HS__F_ALL_BOTH][0] += (int32_t)j < facts->sentence_ends[i];
        }
        if (i > 0)
            stats->fields[HS__F_ALL_DISTANCE][i] += (int64_t)(T - i);
    }
}

/* Returns how many of n positions are in cell c. */
static int64_t cell_overlap(size_t n, size_t step, size_t c)
{
    const size_t rest = n - c * step;
    return (int64_t)(rest < step ? rest : step);
}

/* Adds the cells of a text's attention over another text. */
static void attended_add(hs_corpus_stats *stats, size_t n_tokens, size_t n_keys)
{
    const size_t step = hs__stats_step(stats->header), n = hs__stats_cells(stats->header);
    int64_t *cells = stats->fields[HS__F_ATTENDED];
    for (size_t i = 0; i * step < n_tokens; i++)
        for (size_t j = 0; j * step < n_keys; j++)
            cells[i * n + j] += cell_overlap(n_tokens, step, i) * cell_overlap(n_keys, step, j);
}

/* ---- similarity ---- */

/* One text's E in one head at one threshold. */
typedef struct head_tally {
    uint64_t high, ordinary, repeated, same_sentence, both, distances, focal_pairs;
    int32_t focal; /* position, -1 when E is empty */
} head_tally;

/* Number of pairs and sum of their distances. */
static inline __attribute__((always_inline)) void distances_sum(const uint32_t *distances, size_t n,
                                                                head_tally *tally)
{
    uint64_t pairs = 0, sum = 0;
    for (size_t d = 0; d < n; d++) {
        pairs += distances[d];
        sum += (uint32_t)d * distances[d]; /* each below 2^12 */
    }
    tally->high = pairs;
    tally->distances = sum;
}

static inline __attribute__((always_inline)) uint64_t counts_sum(const uint32_t *counts, size_t n)
{
    uint64_t sum = 0;
    for (size_t d = 0; d < n; d++)
        sum += counts[d];
    return sum;
}

/* Pairs of E that hold an id, at its first position, 0 at the others: from the tokens' degrees. Pairs of
 * equal tokens count twice. */
static void holding_gather(const hs__stats_facts *facts, uint32_t *degrees)
{
    for (size_t k = 0; k < facts->n_repeats; k++) {
        const size_t i = (size_t)facts->repeats[k];
        degrees[facts->first[i]] += degrees[i];
        degrees[i] = 0;
    }
}

/* Pairs of E of equal tokens. Such a pair holds the id once, not twice. */
static void repeats_count(hs__stats_scratch *s, const hs__stats_facts *facts, head_tally *tallies)
{
    const size_t T = facts->n_tokens;
    for (size_t i = 0; i < T; i++)
        for (size_t j = (size_t)facts->next[i]; j < T; j = (size_t)facts->next[j]) {
            const size_t level = s->map.levels[i * s->stride + j];
            for (size_t t = 0; t < level; t++) {
                tallies[t].repeated++;
                tallies[t].both += (int32_t)j < facts->sentence_ends[i];
                s->map.degrees[t * s->stride + (size_t)facts->first[i]]--;
            }
        }
}

/* The id that most pairs hold, the first such. */
static inline __attribute__((always_inline)) void focal_find(const uint32_t *holding, size_t n_tokens,
                                                             head_tally *tally)
{
    uint32_t most = 0;
    int32_t focal = 0;
    for (size_t i = 0; i < n_tokens; i++)
        most = holding[i] > most ? holding[i] : most;
    while (most && holding[focal] != most)
        focal++;
    tally->focal_pairs = most;
    tally->focal = most ? focal : -1;
}

/* Counts the pairs of each threshold, with vectors. */
static HS_CLONES void tallies_sum(const hs__stats_map *map, size_t n_tokens, head_tally *tallies)
{
    for (size_t t = 0; t < map->n_thresholds; t++) {
        distances_sum(map->distances + t * map->stride, n_tokens, &tallies[t]);
        tallies[t].ordinary = counts_sum(map->ordinary + t * map->stride, n_tokens);
        focal_find(map->degrees + t * map->stride, n_tokens, &tallies[t]);
    }
}

/* The map at hand at every threshold. */
static void tallies_make(hs__stats_scratch *s, const hs__stats_facts *facts, head_tally *ret_tallies)
{
    memset(ret_tallies, 0, s->map.n_thresholds * sizeof *ret_tallies);
    for (size_t t = 0; t < s->map.n_thresholds; t++) {
        ret_tallies[t].same_sentence = s->map.same_sentence[t];
        holding_gather(facts, s->map.degrees + t * s->stride);
    }
    repeats_count(s, facts, ret_tallies);
    tallies_sum(&s->map, facts->n_tokens, ret_tallies);
}

static HS_CLONES void counts_add(const uint32_t *restrict counts, size_t n, int64_t *restrict sums)
{
    for (size_t i = 0; i < n; i++)
        sums[i] += counts[i];
}

static void tally_add(hs_corpus_stats *stats, const hs__stats_facts *facts, const head_tally *tally, size_t t,
                      size_t l, size_t h)
{
    const hs__stats_header *header = stats->header;
    if (!tally->high)
        return;
    const size_t cell = hs__stats_cell(stats, t, l, h);
    const size_t part = cell + facts->part * header->n_thresholds * header->n_layers * header->n_heads;
    stats->fields[HS__F_PART_HIGH][part] += (int64_t)tally->high;
    stats->fields[HS__F_PART_HIGH_ORDINARY][part] += (int64_t)tally->ordinary;
    stats->fields[HS__F_PART_REPEATED][part] += (int64_t)tally->repeated;
    stats->fields[HS__F_PART_SAME_SENTENCE][part] += (int64_t)tally->same_sentence;
    stats->fields[HS__F_PART_BOTH][part] += (int64_t)tally->both;
    stats->fields[HS__F_PART_DISTANCE_SUM][part] += (int64_t)tally->distances;
    stats->fields[HS__F_PART_TEXTS_WITH_HIGH][part]++;
    stats->fields[HS__F_PART_FOCAL_SHARE_SUM][part] +=
        (int64_t)nearbyint((double)tally->focal_pairs / (double)tally->high / HS__SHARE_UNIT);

    const size_t bins = cell * HS_CORPUS_SHARE_BINS;
    stats->fields[HS__F_REPEATED_HIST][bins + share_bin(tally->repeated, tally->high)]++;
    stats->fields[HS__F_FOCAL_HIST][bins + share_bin(tally->focal_pairs, tally->high)]++;
    if (tally->ordinary) {
        stats->fields[HS__F_SAME_SENTENCE_HIST][bins + share_bin(tally->same_sentence, tally->ordinary)]++;
        stats->fields[HS__F_BOTH_HIST][bins + share_bin(tally->both, tally->ordinary)]++;
    }

    counts_add(stats->scratch->map.distances + t * stats->scratch->stride, facts->n_tokens,
               stats->fields[HS__F_DISTANCE] + cell * header->tokens_max);
}

/* Histogram, moments and locations of the map at hand. */
static void head_maps_add(hs_corpus_stats *stats, const hs__stats_facts *facts, size_t l, size_t h)
{
    const hs__stats_map *map = &stats->scratch->map;
    const size_t index = hs__stats_index(stats, l, h);
    int64_t *hist[2] = {stats->fields[HS__F_NOISE_HIST] + index * HS__N_BINS,
                        stats->fields[HS__F_SIGNAL_HIST] + index * HS__N_BINS};
    int64_t *moments[2] = {stats->fields[HS__F_NOISE_MOMENTS] + index * 6,
                           stats->fields[HS__F_SIGNAL_MOMENTS] + index * 6};
    for (size_t kind = 0; kind < 2; kind++) {
        for (size_t bin = 0; bin < HS__N_BINS; bin++)
            hist[kind][bin] += map->hist[HS__SIGNAL * kind + bin];
        for (size_t k = 0; k < 3; k++)
            hs__stats_fixed_add(moments[kind] + 2 * k, map->moments[kind][k]);
    }
    for (size_t bin = 0; bin < HS__N_BINS; bin++)
        stats->fields[HS__F_SPECIAL_HIST][index * HS__N_BINS + bin] += map->special[bin];
    hs__stats_levels_count(map->levels, (uint8_t)stats->header->threshold_main, facts->n_tokens, map->stride,
                           stats->scratch->locations);
}

static int32_t *focal_at(const hs_corpus_stats *stats, size_t k, size_t t)
{
    const hs__stats_header *header = stats->header;
    return stats->scratch->focal + (k * header->n_thresholds + t) * header->n_heads;
}

/* Adds the number of different focal ids that a layer's heads have in text k, and returns it. */
static size_t unique_focal_add(hs_corpus_stats *stats, size_t k, size_t t, size_t l)
{
    hs__stats_scratch *s = stats->scratch;
    const size_t n_heads = stats->header->n_heads;
    const int32_t *focal = focal_at(stats, k, t);
    size_t n = 0;
    memset(s->seen, 0, s->facts[k].n_tokens * sizeof *s->seen);
    for (size_t h = 0; h < n_heads; h++) {
        if (focal[h] < 0)
            continue;
        n += !s->seen[focal[h]];
        s->seen[focal[h]] = 1;
    }
    stats->fields[HS__F_UNIQUE_FOCAL][(t * stats->header->n_layers + l) * (n_heads + 1) + n]++;
    return n;
}

static float share_of(uint64_t part, uint64_t size)
{
    return size ? (float)((double)part / (double)size) : NAN;
}

static void observe_similarity(const head_tally *tally, hs_corpus_observation *ret)
{
    ret->high_pairs = tally->high;
    ret->ordinary_pairs = tally->ordinary;
    ret->repeated_pairs = tally->repeated;
    ret->same_sentence_pairs = tally->same_sentence;
    ret->distance_sum = tally->distances;
    ret->repeated_share = share_of(tally->repeated, tally->high);
    ret->same_sentence_share = share_of(tally->same_sentence, tally->ordinary);
    ret->mean_distance = share_of(tally->distances, tally->high);
    ret->focal_share = share_of(tally->focal_pairs, tally->high);
    ret->focal_ratio = tally->high ? (double)tally->focal_pairs / (double)tally->high : 0;
    ret->both_pairs = tally->both;
}

/* Counts all pairs whose N lies in some bins. */
static uint64_t bins_sum(const hs__stats_map *map, size_t first, size_t end)
{
    uint64_t sum = 0;
    for (size_t bin = first; bin < end; bin++)
        sum += (uint64_t)map->hist[bin] + map->hist[HS__SIGNAL + bin] + map->special[bin];
    return sum;
}

static void similarity_add(hs_corpus_stats *stats, size_t k, size_t l, size_t h, const float *similarity,
                           hs_corpus_observation *ret_observation)
{
    hs__stats_scratch *s = stats->scratch;
    const hs__stats_header *header = stats->header;
    hs__stats_facts *facts = &s->facts[k];
    head_tally tallies[HS_CORPUS_THRESHOLDS_MAX];
    hs__stats_map_read(&s->map, similarity, facts, h == 0, header->thresholds);
    head_maps_add(stats, facts, l, h);
    tallies_make(s, facts, tallies);
    for (size_t t = 0; t < header->n_thresholds; t++) {
        tally_add(stats, facts, &tallies[t], t, l, h);
        focal_at(stats, k, t)[h] = tallies[t].focal;
    }
    const int32_t focal = tallies[header->threshold_main].focal;
    if (focal >= 0)
        stats->fields[HS__F_FOCAL][l * header->vocab_size + (size_t)s->texts[k].ids[focal]]++;
    if (!ret_observation)
        return;
    observe_similarity(&tallies[header->threshold_main], ret_observation);
    ret_observation->below_pairs = bins_sum(&s->map, 0, 1 + HS_CORPUS_BINS / 10);
    ret_observation->middle_pairs = bins_sum(&s->map, 1 + HS_CORPUS_BINS / 10, 1 + HS_CORPUS_BINS * 6 / 10);
}

/* ---- attention ---- */

/* Returns the text that the heads of a batch's text attend to. */
static const hs_corpus_text *text_attended(const hs_corpus_stats *stats, size_t k)
{
    const hs_corpus_text *text = &stats->scratch->texts[k];
    return stats->header->crosses ? text->keys : text;
}

/* H of one map: which ids it holds, where it is, how the profile is spread; who gets the attention. */
static void columns_add(hs_corpus_stats *stats, size_t k, size_t l, size_t h, const float *columns,
                        hs_corpus_observation *ret_observation)
{
    const hs__stats_header *header = stats->header;
    const size_t index = hs__stats_index(stats, l, h);
    hs__stats_facts *keys = stats->scratch->keys[k];
    const int32_t *ids = text_attended(stats, k)->ids;
    float *profile = stats->scratch->profile;
    double mass[HS_ROLE_COUNT] = {0};
    memcpy(profile, columns, keys->n_tokens * sizeof *profile);
    hs__profile_normalize(profile, keys->n_tokens);
    for (size_t j = 0; j < keys->n_tokens; j++) {
        const bool is_high = profile[j] >= header->attention_threshold;
        const float scaled = profile[j] * (float)HS_CORPUS_BINS;
        const size_t bin = scaled >= 0 && scaled < HS_CORPUS_BINS ? (size_t)scaled : HS_CORPUS_BINS - 1;
        stats->fields[HS__F_COLUMN_HIST][index * HS_CORPUS_BINS + bin]++;
        stats->fields[HS__F_FOCUS][l * header->vocab_size + (size_t)ids[j]] += is_high;
        keys->high_mask[j] = is_high ? UINT32_MAX : 0;
        keys->columns[j] += columns[j];
        mass[keys->roles[j]] += columns[j];
    }
    for (size_t role = 0; role < HS_ROLE_COUNT; role++)
        hs__stats_fixed_add(stats->fields[HS__F_MASS] + (index * HS_ROLE_COUNT + role) * 2, mass[role]);
    if (ret_observation) {
        const double separators = mass[HS_ROLE_FIRST] + mass[HS_ROLE_SEPARATOR] + mass[HS_ROLE_SENTENCE_END];
        ret_observation->separator_attention =
            (float)(separators / (separators + mass[HS_ROLE_COMMA] + mass[HS_ROLE_OTHER]));
        memcpy(ret_observation->mass, mass, sizeof mass);
    }
}

static void profile_add(hs_corpus_stats *stats, size_t k, size_t l, size_t h, const hs_observed_head *head)
{
    double figures[HS__PROFILE_N];
    int64_t *sums = stats->fields[HS__F_PROFILES] + hs__stats_index(stats, l, h) * 2 * HS__PROFILE_N;
    hs__stats_profile_find(head, &stats->scratch->facts[k], stats->scratch->keys[k], figures);
    for (size_t i = 0; i < HS__PROFILE_N; i++)
        hs__stats_fixed_add(sums + 2 * i, figures[i]);
}

static void segmentation_add(hs_corpus_stats *stats, size_t k, size_t l)
{
    hs__stats_scratch *s = stats->scratch;
    const hs__stats_facts *keys = s->keys[k];
    const size_t K = keys->n_tokens;
    hs__profile_normalize(keys->columns, K);
    const size_t n_high = hs_high_tokens(keys->columns, K, stats->header->attention_threshold, s->high);
    const size_t n = hs__segments_cut(s->high, n_high, keys->special, K, s->segments);
    const hs_boundary_score score = hs_segments_score(s->segments, n, keys->sentences, keys->special, K);
    int64_t *sums = stats->fields[HS__F_SEGMENTATION] + l * 3;
    sums[0] += score.true_positives;
    sums[1] += score.predicted;
    sums[2] += score.actual;
}

/* ---- all of it ---- */
static hs_status text_check(const hs__stats_header *header, const hs_corpus_text *text, hs_error *err)
{
    if (text->n_tokens < 1 || text->n_tokens > header->tokens_max)
        return hs_fail(err, HS_INVALID, "corpus statistics: text %llu has %zu tokens, the window %llu",
                       (unsigned long long)text->number, text->n_tokens,
                       (unsigned long long)header->tokens_max);
    for (size_t i = 0; i < text->n_tokens; i++)
        if (text->ids[i] < 0 || (uint64_t)text->ids[i] >= header->vocab_size)
            return hs_fail(err, HS_INVALID, "corpus statistics: text %llu has the id %d, the vocabulary %llu",
                           (unsigned long long)text->number, text->ids[i],
                           (unsigned long long)header->vocab_size);
    return HS_OK;
}

hs_status hs_corpus_batch_begin(hs_corpus_stats *stats, const hs_corpus_text *texts, size_t n_texts,
                                hs_error *err)
{
    if (n_texts < 1 || n_texts > batch_max(stats->header))
        return hs_fail(err, HS_INVALID, "corpus statistics: 1 to %zu texts are added at a time, not %zu",
                       batch_max(stats->header), n_texts);
    if (n_texts > HS_CORPUS_TEXTS_MAX - (uint64_t)stats->fields[HS__F_TEXTS][0])
        return hs_fail(err, HS_TOO_LARGE, "corpus statistics hold at most %llu texts",
                       (unsigned long long)HS_CORPUS_TEXTS_MAX);
    for (size_t k = 0; k < n_texts; k++) {
        hs_status st = text_check(stats->header, &texts[k], err);
        if (!st && stats->header->crosses)
            st = text_check(stats->header, texts[k].keys, err);
        if (st)
            return st;
    }
    if (!stats->scratch)
        stats->scratch = hs__stats_scratch_create(stats->header);
    hs__stats_scratch *s = stats->scratch;
    if (!s)
        return hs_fail(err, HS_NO_MEMORY,
                       "corpus statistics need %llu MB of memory to add texts; choose fewer layers or a "
                       "smaller window",
                       (unsigned long long)(hs__stats_scratch_bytes(stats->header) >> 20));
    s->n_texts = n_texts;
    for (size_t k = 0; k < n_texts; k++) {
        s->texts[k] = texts[k];
        facts_fill(stats, &texts[k], &s->facts[k]);
        chance_add(stats, &s->facts[k]);
        if (stats->header->crosses) {
            facts_fill(stats, texts[k].keys, &s->others[k]);
            attended_add(stats, texts[k].n_tokens, texts[k].keys->n_tokens);
        }
        if (texts[k].number == 0 && s->cells.step > 1)
            stats->fields[HS__F_FIRST_TOKENS][0] += (int64_t)texts[k].n_tokens;
    }
    return HS_OK;
}

/* Sums the positive part of N, a vector's lanes apart. */
static HS_CLONES void band_sum(const hs__stats_facts *facts, double *ret_near, double *ret_all)
{
    enum { LANES = 16 };
    const size_t T = facts->n_tokens;
    double near = 0, all = 0;
    for (size_t i = 0; i + 1 < T; i++) {
        const float *row = facts->normalized_sum + hs__stats_sums_row(T, i);
        float lanes[LANES] = {0};
        size_t j = i + 1;
        for (; j < T && (j <= i + HS_CORPUS_BAND || j % LANES); j++) {
            const float value = row[j] > 0 ? row[j] : 0.0f;
            near += j <= i + HS_CORPUS_BAND ? (double)value : 0;
            all += (double)value;
        }
        for (; j + LANES <= T; j += LANES)
            for (size_t k = 0; k < LANES; k++)
                lanes[k] += row[j + k] > 0 ? row[j + k] : 0.0f;
        for (; j < T; j++)
            lanes[j % LANES] += row[j] > 0 ? row[j] : 0.0f;
        for (size_t k = 0; k < LANES; k++)
            all += (double)lanes[k];
    }
    *ret_near = near;
    *ret_all = all;
}

/* After the last one. */
static void layer_end(hs_corpus_stats *stats, size_t k, size_t l)
{
    const hs__cells *cells = &stats->scratch->cells;
    const size_t at = l * 2 * cells->n * cells->n;
    const hs__stats_facts *facts = &stats->scratch->facts[k];
    hs__stats_sums_add(facts->similarity_sum, facts->n_tokens, cells, stats->fields[HS__F_SIMILARITY] + at);
    hs__stats_sums_add(facts->normalized_sum, facts->n_tokens, cells, stats->fields[HS__F_NORMALIZED] + at);
    if (stats->scratch->texts[k].number == 0)
        hs__stats_sums_add(facts->similarity_sum, facts->n_tokens, cells,
                           stats->fields[HS__F_FIRST_SIMILARITY] + at);
    for (size_t t = 0; t < stats->header->n_thresholds; t++) {
        const size_t n = unique_focal_add(stats, k, t, l);
        if (t == stats->header->threshold_main)
            stats->scratch->layer.unique_focal = n;
    }
    band_sum(facts, &stats->scratch->layer.near, &stats->scratch->layer.all);
    segmentation_add(stats, k, l);
}

/* Adds the attention of text k to the sums of a head, and after its last text all sums of the batch. */
static void attention_add(hs_corpus_stats *stats, size_t k, size_t index, const float *attention)
{
    hs__stats_scratch *s = stats->scratch;
    const size_t n = s->cells.n, at = index * n * n;
    const hs__attention_fields fields = {
        stats->fields[HS__F_ATTENTION] + at, stats->fields[HS__F_HIGH_COLUMNS] + at,
        s->cells.step > 1 && !stats->header->crosses ? stats->fields[HS__F_DIAGONAL] + index * n : NULL};
    const bool folds = hs__stats_attention_folds(&s->cells, batch_max(stats->header));
    if (folds)
        hs__stats_attention_fold(attention, s->facts[k].n_tokens, s->keys[k], &s->cells, s->batch, &fields);
    else
        hs__stats_attention_add(attention, s->facts[k].n_tokens, s->keys[k], &s->cells, k == 0, s->batch);
    if (k + 1 < s->n_texts)
        return;
    if (!folds)
        hs__stats_attention_move(s->batch, &s->cells, &fields);
    hs__stats_counts_move(s->locations, s->stride, &s->cells, stats->fields[HS__F_LOCATION] + at);
}

void hs_corpus_batch_head(hs_corpus_stats *stats, size_t k, size_t l, size_t h, const hs_observed_head *head,
                          hs_corpus_observation *ret_observation)
{
    hs__stats_scratch *s = stats->scratch;
    if (h == 0)
        memset(s->keys[k]->columns, 0, s->keys[k]->n_tokens * sizeof(float));
    similarity_add(stats, k, l, h, head->similarity, ret_observation);
    columns_add(stats, k, l, h, head->columns, ret_observation);
    profile_add(stats, k, l, h, head);
    if (stats->header->distances)
        corpus_distances_add(stats, &s->kept, hs__stats_index(stats, l, h), s->facts[k].n_tokens,
                             s->keys[k]->n_tokens, head);
    attention_add(stats, k, hs__stats_index(stats, l, h), head->attention);
    if (h + 1 == stats->header->n_heads)
        layer_end(stats, k, l);
}

const uint32_t *hs_corpus_batch_distances(const hs_corpus_stats *stats, size_t t)
{
    return stats->scratch->map.distances + t * stats->scratch->stride;
}

const uint32_t *hs_corpus_batch_ordinary(const hs_corpus_stats *stats, size_t t)
{
    return stats->scratch->map.ordinary + t * stats->scratch->stride;
}

const uint8_t *hs_corpus_batch_levels(const hs_corpus_stats *stats, size_t *ret_stride)
{
    *ret_stride = stats->scratch->stride;
    return stats->scratch->map.levels;
}

void hs_corpus_batch_strata(const hs_corpus_stats *stats, size_t k, const float *similarity,
                            hs_corpus_strata *ret)
{
    hs__stats_strata_find(&stats->scratch->map, similarity, &stats->scratch->facts[k], ret);
}

void hs_corpus_batch_far_repeats(const hs_corpus_stats *stats, size_t k, size_t t, const int *distances,
                                 size_t n, int64_t *ret_all, int64_t *ret_high)
{
    const hs__stats_scratch *s = stats->scratch;
    const hs__stats_facts *facts = &s->facts[k];
    const size_t T = facts->n_tokens;
    for (size_t d = 0; d < n; d++)
        ret_all[d] = ret_high[d] = 0;
    for (size_t i = 0; i < T; i++)
        for (size_t j = (size_t)facts->next[i]; j < T; j = (size_t)facts->next[j]) {
            const bool is_high = s->map.levels[i * s->stride + j] > t;
            for (size_t d = 0; d < n; d++) {
                const bool is_far = j - i > (size_t)distances[d];
                ret_all[d] += is_far;
                ret_high[d] += is_far && is_high;
            }
        }
}

hs_corpus_layer_observation hs_corpus_batch_layer(const hs_corpus_stats *stats)
{
    return stats->scratch->layer;
}

void hs_corpus_masked_add(hs_corpus_stats *stats, size_t n_masked, size_t n_right, double loss)
{
    if (!stats->header->masked)
        return;
    stats->fields[HS__F_MASKED_TOKENS][0] += (int64_t)n_masked;
    stats->fields[HS__F_MASKED_RIGHT][0] += (int64_t)n_right;
    hs__stats_fixed_add(stats->fields[HS__F_MASKED_LOSS], loss);
}
