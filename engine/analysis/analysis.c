/* analysis.c - figures of one text's maps: attention, profiles, segments, summaries. */
#include "engine/analysis/analysis.h"

#include "engine/analysis/analysis_maps.h"
#include "engine/analysis/longest_pairs.h"
#include "model/base/clones.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- parts of a map ---- */

/* Counts the unmasked tokens in [start, end). */
static size_t unmasked_count(const uint8_t *masked, size_t start, size_t end)
{
    size_t n = 0;
    for (size_t i = start; i < end; i++)
        n += !hs__is_masked(masked, i);
    return n;
}

/* Computes for each column j >= row the sum of S_ij over the unmasked rows i < j of [row, row_end), and 0 for
 * masked columns. ret_sums is [n_tokens]; its elements before row are not written. */
static HS_CLONES void columns_sum(const float *similarity, size_t n_tokens, const uint8_t *masked, size_t row,
                                  size_t row_end, double *ret_sums)
{
    for (size_t start = row; start < n_tokens; start += HS__BLOCK) {
        const size_t end = hs_min(start + HS__BLOCK, n_tokens);
        double sums[HS__BLOCK];
        for (size_t j = start; j < end; j++)
            sums[j - start] = 0;
        for (size_t i = row; i < row_end; i++) {
            if (hs__is_masked(masked, i))
                continue;
            const float *values = similarity + i * n_tokens;
            for (size_t j = hs_max(i + 1, start); j < end; j++)
                sums[j - start] += values[j];
        }
        for (size_t j = start; j < end; j++)
            ret_sums[j] = hs__is_masked(masked, j) ? 0 : sums[j - start];
    }
}

static double range_sum(const double *values, size_t start, size_t end)
{
    double sum = 0;
    for (size_t j = start; j < end; j++)
        sum += values[j];
    return sum;
}

/* ---- attention ----
 *
 * Column profile, high tokens and regions of one attention map. */

HS_CLONES
/* Adds each column's sum of A over unmasked rows to ret_sums [n_tokens]. */
static void columns_add(const float *attention, size_t n_tokens, const uint8_t *masked, double *ret_sums)
{
    for (size_t i = 0; i < n_tokens; i++) {
        if (hs__is_masked(masked, i))
            continue;
        const float *row = attention + i * n_tokens;
        for (size_t j = 0; j < n_tokens; j++)
            ret_sums[j] += row[j];
    }
}

void hs__profile_normalize(float *profile, size_t n_tokens)
{
    float maximum = 0;
    for (size_t j = 0; j < n_tokens; j++)
        maximum = profile[j] > maximum ? profile[j] : maximum;
    for (size_t j = 0; j < n_tokens; j++)
        profile[j] = maximum > 0 ? profile[j] / maximum : 0.0f;
}

HS_CLONES
void hs_column_profile(const float *attention, size_t n_tokens, size_t n_keys, const uint8_t *masked,
                       float *ret_profile)
{
    for (size_t start = 0; start < n_keys; start += HS__BLOCK) {
        const size_t width = hs_min(HS__BLOCK, n_keys - start);
        double sums[HS__BLOCK] = {0};
        for (size_t i = 0; i < n_tokens; i++) {
            if (hs__is_masked(masked, i))
                continue;
            const float *row = attention + i * n_keys + start;
            for (size_t j = 0; j < width; j++)
                sums[j] += row[j];
        }
        for (size_t j = 0; j < width; j++)
            ret_profile[start + j] = hs__is_masked(masked, start + j) ? 0.0f : (float)sums[j];
    }
    hs__profile_normalize(ret_profile, n_keys);
}

size_t hs_high_tokens(const float *profile, size_t n_tokens, float threshold, uint16_t *ret_tokens)
{
    size_t n = 0;
    for (size_t j = 0; j < n_tokens; j++)
        if (profile[j] >= threshold)
            ret_tokens[n++] = (uint16_t)j;
    return n;
}

size_t hs_runs_cut(const uint16_t *high, size_t n_high, size_t n_tokens, hs_span *ret_runs)
{
    size_t n = 0, start = 0;
    for (size_t k = 0; k < n_high; k++) {
        if (high[k] > start)
            ret_runs[n++] = (hs_span){(uint16_t)start, high[k]};
        start = (size_t)high[k] + 1;
        ret_runs[n++] = (hs_span){high[k], (uint16_t)start};
    }
    if (start < n_tokens)
        ret_runs[n++] = (hs_span){(uint16_t)start, (uint16_t)n_tokens};
    return n;
}

void hs_region_means(const float *similarity, size_t n_tokens, const uint8_t *masked, const hs_span *runs,
                     size_t n_runs, double *scratch, float *ret_means)
{
    for (size_t a = 0; a < n_runs; a++) {
        columns_sum(similarity, n_tokens, masked, runs[a].start, runs[a].end, scratch);
        const size_t rows = unmasked_count(masked, runs[a].start, runs[a].end);
        for (size_t b = a; b < n_runs; b++) {
            const size_t columns = a == b ? rows : unmasked_count(masked, runs[b].start, runs[b].end);
            const size_t n_pairs = a == b ? rows * (rows - (rows > 0)) / 2 : rows * columns;
            const double sum = range_sum(scratch, runs[b].start, runs[b].end);
            const float mean = n_pairs ? (float)(sum / (double)n_pairs) : 0.0f;
            ret_means[a * n_runs + b] = mean;
            ret_means[b * n_runs + a] = mean;
        }
    }
}

/* ---- profile ----
 *
 * The attention profile of a head, from its map. It reads each row once for the sums of
 * attention and once for the entropy. */

enum { REACH = HS_PROFILE_REACH };

/* Sums over rows. */
typedef struct profile_sums {
    double first, separator, punctuation, same_token, same_sentence, offsets[2 * REACH + 1];
    double entropy, confidence, distance;
} profile_sums;

static HS_CLONES double row_entropy(const float *row, size_t n)
{
    float information = 0;
    for (size_t j = 0; j < n; j++)
        information -= row[j] * hs__log(row[j]);
    return (double)information;
}

static bool is_same_sentence(const hs_token_kinds *kinds, size_t i, size_t j)
{
    const bool special = kinds->special && (kinds->special[i] || kinds->special[j]);
    return !special && kinds->sentences[i] == kinds->sentences[j];
}

static void row_add(const float *row, size_t i, const hs_token_kinds *kinds, profile_sums *s)
{
    float maximum = 0;
    for (size_t j = 0; j < kinds->n_tokens; j++) {
        const double a = (double)row[j];
        s->first += kinds->is_first[j] ? a : 0;
        s->separator += kinds->is_separator[j] ? a : 0;
        s->punctuation += kinds->is_punctuation[j] ? a : 0;
        s->same_token += j != i && kinds->first[j] == kinds->first[i] ? a : 0;
        s->same_sentence += is_same_sentence(kinds, i, j) ? a : 0;
        s->distance += a * (double)(j > i ? j - i : i - j);
        maximum = row[j] > maximum ? row[j] : maximum;
    }
    for (size_t k = 0; k < 2 * REACH + 1; k++)
        if (i + k >= REACH && i + k - REACH < kinds->n_tokens)
            s->offsets[k] += (double)row[i + k - REACH];
    s->confidence += (double)maximum;
    s->entropy += row_entropy(row, kinds->n_tokens);
}

hs_head_label hs_head_label_find(const hs_head_profile *p)
{
    if (p->separator > 0.6F || p->first > 0.6F || p->punctuation > 0.6F)
        return HS_LABEL_SPECIAL;
    if (p->entropy > 3.8F)
        return HS_LABEL_BROAD;
    return p->previous > 0.5F || p->next > 0.5F ? HS_LABEL_POSITION : HS_LABEL_OTHER;
}

void hs_head_profile_find(const float *attention, const hs_token_kinds *kinds, hs_head_profile *ret_profile)
{
    const size_t T = kinds->n_tokens;
    const double n = (double)T;
    profile_sums s = {0};
    for (size_t i = 0; i < T; i++)
        row_add(attention + i * T, i, kinds, &s);
    hs_head_profile p = {.self = (float)(s.offsets[REACH] / n),
                         .previous = (float)(s.offsets[REACH - 1] / n),
                         .next = (float)(s.offsets[REACH + 1] / n),
                         .first = (float)(s.first / n),
                         .separator = (float)(s.separator / n),
                         .punctuation = (float)(s.punctuation / n),
                         .same_token = (float)(s.same_token / n),
                         .same_sentence = (float)(s.same_sentence / n),
                         .entropy = (float)(s.entropy / n),
                         .entropy_first = (float)row_entropy(attention, T),
                         .confidence = (float)(s.confidence / n),
                         .mean_distance = (float)(s.distance / n)};
    for (size_t k = 0; k < 2 * REACH + 1; k++) {
        const size_t distance = k > REACH ? k - REACH : REACH - k;
        p.offsets[k] = distance < T ? (float)(s.offsets[k] / (double)(T - distance)) : 0;
    }
    p.label = hs_head_label_find(&p);
    *ret_profile = p;
}

/* ---- segments ----
 *
 * Segments of a text by one layer, and how well they match its sentences. */

size_t hs__segments_cut(const uint16_t *high, size_t n_high, const uint8_t *special, size_t n_tokens,
                        hs_segment *ret_segments)
{
    size_t n = 0, start = 0;
    for (size_t k = 0; k < n_high; k++) {
        const size_t next = (size_t)high[k] + 1;
        if (special[high[k]] || (k + 1 < n_high && high[k + 1] == next))
            continue;
        ret_segments[n++] = (hs_segment){.start = (uint16_t)start, .end = (uint16_t)next};
        start = next;
    }
    if (start < n_tokens)
        ret_segments[n++] = (hs_segment){.start = (uint16_t)start, .end = (uint16_t)n_tokens};
    return n;
}

/* Adds one head's N inside each segment to inside[], and between it and every other segment to across[].
 * columns is scratch [n_tokens]. */
static void segments_add_head(const float *similarity, size_t n_tokens, const uint8_t *masked,
                              const hs_segment *segments, size_t n, double *columns, double *inside,
                              double *across)
{
    const float maximum = hs_similarity_max(similarity, n_tokens, masked);
    if (!(maximum > 0))
        return;
    for (size_t a = 0; a < n; a++) {
        columns_sum(similarity, n_tokens, masked, segments[a].start, segments[a].end, columns);
        for (size_t b = a; b < n; b++) {
            const double sum = range_sum(columns, segments[b].start, segments[b].end) / (double)maximum;
            if (a == b) {
                inside[a] += sum;
            } else {
                across[a] += sum;
                across[b] += sum;
            }
        }
    }
}

/* Finds where segments begin and end, from A summed over the heads. profile and high are scratch; sums are 0.
 * Returns SIZE_MAX if a map cannot be had. */
static size_t segments_place(const hs_head_maps *maps, size_t n_heads, size_t n_tokens,
                             const uint8_t *special, const uint8_t *masked, float attention_threshold,
                             double *sums, float *profile, uint16_t *high, hs_segment *ret_segments)
{
    for (size_t h = 0; h < n_heads; h++) {
        const float *attention = maps->attention(maps->context, h);
        if (!attention)
            return SIZE_MAX;
        columns_add(attention, n_tokens, masked, sums);
    }
    for (size_t j = 0; j < n_tokens; j++)
        profile[j] = hs__is_masked(masked, j) ? 0.0f : (float)sums[j];
    hs__profile_normalize(profile, n_tokens);
    const size_t n_high = hs_high_tokens(profile, n_tokens, attention_threshold, high);
    return hs__segments_cut(high, n_high, special, n_tokens, ret_segments);
}

/* Sets cohesion and contrast of the segments from their sums of N. */
static void segments_measure(const double *inside, const double *across, size_t n_heads, size_t n_tokens,
                             const uint8_t *masked, hs_segment *segments, size_t n)
{
    const size_t n_unmasked = unmasked_count(masked, 0, n_tokens);
    for (size_t s = 0; s < n; s++) {
        hs_segment *segment = &segments[s];
        const size_t size = unmasked_count(masked, segment->start, segment->end);
        const double pairs_inside = 0.5 * (double)size * ((double)size - 1) * (double)n_heads;
        const double pairs_across = (double)size * (double)(n_unmasked - size) * (double)n_heads;
        segment->cohesion = pairs_inside > 0 ? (float)(inside[s] / pairs_inside) : NAN;
        segment->contrast = pairs_across > 0 ? (float)(across[s] / pairs_across) : NAN;
    }
}

size_t hs_segments_find_in(const hs_head_maps *maps, size_t n_heads, size_t n_tokens, const uint8_t *special,
                           const uint8_t *masked, float attention_threshold, hs_segment *ret_segments)
{
    double *inside = calloc(3 * n_tokens + 1, sizeof *inside);
    float *profile = calloc(n_tokens + 1, sizeof *profile);
    uint16_t *high = calloc(n_tokens + 1, sizeof *high);
    size_t n = SIZE_MAX;
    if (!inside || !profile || !high)
        goto out;
    double *across = inside + n_tokens, *columns = across + n_tokens;
    n = segments_place(maps, n_heads, n_tokens, special, masked, attention_threshold, inside, profile, high,
                       ret_segments);
    memset(inside, 0, 2 * n_tokens * sizeof *inside);
    for (size_t h = 0; h < n_heads && n != SIZE_MAX; h++) {
        const float *similarity = maps->similarity(maps->context, h);
        if (similarity)
            segments_add_head(similarity, n_tokens, masked, ret_segments, n, columns, inside, across);
        else
            n = SIZE_MAX;
    }
    if (n != SIZE_MAX)
        segments_measure(inside, across, n_heads, n_tokens, masked, ret_segments, n);
out:
    free(high);
    free(profile);
    free(inside);
    return n;
}

/* Maps that lie one after another. */
typedef struct kept_maps {
    const float *attentions, *similarities;
    size_t size;
} kept_maps;

static const float *kept_attention(void *context, size_t head)
{
    const kept_maps *kept = context;
    return kept->attentions + head * kept->size;
}

static const float *kept_similarity(void *context, size_t head)
{
    const kept_maps *kept = context;
    return kept->similarities + head * kept->size;
}

size_t hs_segments_find(const float *attentions, const float *similarities, size_t n_heads, size_t n_tokens,
                        const uint8_t *special, const uint8_t *masked, float attention_threshold,
                        hs_segment *ret_segments)
{
    kept_maps kept = {attentions, similarities, n_tokens * n_tokens};
    const hs_head_maps maps = {kept_attention, kept_similarity, &kept};
    return hs_segments_find_in(&maps, n_heads, n_tokens, special, masked, attention_threshold, ret_segments);
}

hs_boundary_score hs_segments_score(const hs_segment *segments, size_t n_segments, const int32_t *sentences,
                                    const uint8_t *special, size_t n_tokens)
{
    hs_boundary_score score = {0};
    size_t segment = 0, before = SIZE_MAX, segment_before = 0;
    for (size_t i = 0; i < n_tokens; i++) {
        while (segment + 1 < n_segments && segments[segment].end <= i)
            segment++;
        if (special[i])
            continue;
        if (before != SIZE_MAX) {
            const bool predicted = segment != segment_before;
            const bool actual = sentences[i] != sentences[before];
            score.predicted += predicted;
            score.actual += actual;
            score.true_positives += predicted && actual;
        }
        before = i;
        segment_before = segment;
    }
    return score;
}

/* ---- summary ----
 *
 * Summary figures of one head in one text. */

/* ---- E: repeats, sentences, distances, the focal token ---- */
typedef struct tally {
    uint64_t pairs, ordinary, repeated, same_sentence, both, distances;
    uint64_t *holding; /* [T], at an id's first position: pairs of E that hold the id */
} tally;

static void tally_add(tally *t, const hs_text_facts *text, size_t i, size_t j)
{
    const bool repeated = text->first[i] == text->first[j];
    const bool ordinary = !hs__is_masked(text->special, i) && !hs__is_masked(text->special, j);
    const bool same_sentence = ordinary && text->sentences[i] == text->sentences[j];
    t->pairs++;
    t->ordinary += ordinary;
    t->repeated += repeated;
    t->same_sentence += same_sentence;
    t->both += repeated && same_sentence;
    t->distances += j - i;
    t->holding[text->first[i]]++;
    t->holding[text->first[j]] += !repeated;
}

static HS_CLONES int block_count(const float *values, size_t n, float high)
{
    int count = 0;
    for (size_t j = 0; j < n; j++)
        count += values[j] >= high;
    return count;
}

/* Adds the pairs with S of at least `high`; NAN: none. */
static void tally_map(tally *t, const float *similarity, const hs_text_facts *text, float high)
{
    const size_t T = text->n_tokens;
    for (size_t i = 0; i < T; i++) {
        if (hs__is_masked(text->masked, i))
            continue;
        const float *row = similarity + i * T;
        if (!block_count(row + i + 1, T - i - 1, high))
            continue;
        for (size_t j = i + 1; j < T; j++)
            if (row[j] >= high && !hs__is_masked(text->masked, j))
                tally_add(t, text, i, j);
    }
}

static void tally_report(const tally *t, size_t n_tokens, hs_head_summary *ret_summary)
{
    const double n = t->pairs ? (double)t->pairs : NAN, ordinary = t->ordinary ? (double)t->ordinary : NAN;
    size_t focal = 0;
    for (size_t j = 1; j < n_tokens; j++)
        if (t->holding[j] > t->holding[focal])
            focal = j;
    ret_summary->high_pairs = t->pairs;
    ret_summary->repeated_share = (float)((double)t->repeated / n);
    ret_summary->same_sentence_share = (float)((double)t->same_sentence / ordinary);
    ret_summary->repeated_same_sentence_share = (float)((double)t->both / ordinary);
    ret_summary->mean_distance = (float)((double)t->distances / n);
    ret_summary->focal_token = t->pairs ? (int32_t)focal : -1;
    ret_summary->focal_share = (float)((double)t->holding[focal] / n);
}

/* ---- lengths ---- */

/* Counts the high pairs among n columns of a row that have at least this length. */
static HS_CLONES size_t long_count(const float *values, const float *lengths, size_t n, float high,
                                   float least)
{
    int count = 0;
    for (size_t j = 0; j < n; j++)
        count += (values[j] >= high) & (lengths[j] >= least);
    return (size_t)count;
}

/* Counts the high pairs that are among these pairs. lengths is 0 for masked tokens. */
static uint64_t overlap_count(const float *similarity, size_t n_tokens, const float *lengths,
                              const hs_longest_pairs *pairs, float longest, float high)
{
    const double above = nextafter(pairs->cut, INFINITY);
    uint64_t count = 0;
    for (size_t i = 0; i < n_tokens && pairs->cut > 0; i++) {
        const float *row = similarity + i * n_tokens;
        const size_t first = i + 1, last = pairs->last_column;
        const size_t end = i < pairs->last_row ? n_tokens : i > pairs->last_row ? first : last + 1;
        if (!(hs_length_product(lengths[i], longest) >= pairs->cut))
            continue;
        count += long_count(row + first, lengths + first, end - first, high,
                            hs_longest_partner(lengths[i], pairs->cut));
        if (end < n_tokens)
            count += long_count(row + end, lengths + end, n_tokens - end, high,
                                hs_longest_partner(lengths[i], above));
    }
    return count;
}

/* squares is the sum of S^2 above the diagonal; scratch is [3 T]. */
static void lengths_report(const float *similarity, const float *lengths, const hs_text_facts *text,
                           float high, double squares, uint32_t *scratch, hs_head_summary *ret_summary)
{
    const size_t T = text->n_tokens;
    const uint64_t n_pairs = ret_summary->high_pairs;
    float *unmasked = (float *)(void *)(scratch + 2 * T), longest = 0;
    for (size_t i = 0; i < T; i++) {
        unmasked[i] = hs__is_masked(text->masked, i) ? 0 : lengths[i];
        longest = unmasked[i] > longest ? unmasked[i] : longest;
    }
    ret_summary->participation_ratio = (float)hs_participation_ratio(unmasked, T, squares);
    ret_summary->longest_overlap = NAN;
    if (n_pairs == 0)
        return;
    const hs_longest_pairs pairs = hs_longest_pairs_find(unmasked, T, n_pairs, scratch);
    const uint64_t n = overlap_count(similarity, T, unmasked, &pairs, longest, high);
    ret_summary->longest_overlap = (float)((double)n / (double)n_pairs);
}

/* ---- sums over all pairs ---- */

/* Sums over pairs i < j of values S / scale. All are of pairs without special tokens, but for squares_all,
 * which is of all unmasked pairs. Signal pairs are repeated or in one sentence. */
typedef struct pair_sums {
    double n, sum, squares, n_signal, sum_signal, squares_signal, squares_all;
} pair_sums;

/* The same of a block of columns. */
typedef struct column_sums {
    double sum[HS__BLOCK], squares[HS__BLOCK], n_signal[HS__BLOCK], sum_signal[HS__BLOCK],
        squares_signal[HS__BLOCK], squares_special[HS__BLOCK]; /* the last one of rows of special tokens */
} column_sums;

static HS_CLONES void pairs_add(const float *row, const hs_text_facts *text, size_t i, size_t start,
                                size_t end, float scale, column_sums *c)
{
    const int32_t first = text->first[i], sentence = text->sentences[i];
    for (size_t j = hs_max(i + 1, start); j < end; j++) {
        const double value = row[j] / scale, square = value * value;
        const double signal = (text->first[j] == first) | (text->sentences[j] == sentence);
        c->sum[j - start] += value;
        c->squares[j - start] += square;
        c->n_signal[j - start] += signal;
        c->sum_signal[j - start] += signal * value;
        c->squares_signal[j - start] += signal * square;
    }
}

static HS_CLONES void special_pairs_add(const float *row, size_t i, size_t start, size_t end, float scale,
                                        column_sums *c)
{
    for (size_t j = hs_max(i + 1, start); j < end; j++) {
        const double value = row[j] / scale;
        c->squares_special[j - start] += value * value;
    }
}

static pair_sums sums_find(const float *similarity, const hs_text_facts *text, float scale)
{
    const size_t T = text->n_tokens;
    pair_sums s = {0};
    double n_before = 0; /* unmasked tokens before a column that are not special */
    for (size_t start = 0; start < T; start += HS__BLOCK) {
        const size_t end = hs_min(start + HS__BLOCK, T);
        column_sums c = {0};
        for (size_t i = 0; i < end; i++) {
            const float *row = similarity + i * T;
            if (hs__is_masked(text->masked, i))
                continue;
            if (hs__is_masked(text->special, i))
                special_pairs_add(row, i, start, end, scale, &c);
            else
                pairs_add(row, text, i, start, end, scale, &c);
        }
        for (size_t j = start; j < end; j++) {
            if (hs__is_masked(text->masked, j))
                continue;
            s.squares_all += c.squares[j - start] + c.squares_special[j - start];
            if (hs__is_masked(text->special, j))
                continue;
            s.n += n_before++;
            s.sum += c.sum[j - start];
            s.squares += c.squares[j - start];
            s.n_signal += c.n_signal[j - start];
            s.sum_signal += c.sum_signal[j - start];
            s.squares_signal += c.squares_signal[j - start];
        }
    }
    return s;
}

/* Returns d' of the sums of N = S / m. NAN if there is no spread. */
static double dprime(const pair_sums *s)
{
    const double n_noise = s->n - s->n_signal;
    const double noise_mean = (s->sum - s->sum_signal) / n_noise, signal_mean = s->sum_signal / s->n_signal;
    const double noise_variance = (s->squares - s->squares_signal) / n_noise - noise_mean * noise_mean;
    const double signal_variance = s->squares_signal / s->n_signal - signal_mean * signal_mean;
    const double variance = (noise_variance + signal_variance) / 2;
    return variance > 0 ? (signal_mean - noise_mean) / sqrt(variance) : NAN;
}

/* ---- attention ---- */
static double row_sum(const float *row, const hs_text_facts *text)
{
    double sum = 0;
    for (size_t j = 0; j < text->n_tokens; j++)
        if (!hs__is_masked(text->masked, j))
            sum += row[j];
    return sum;
}

/* Returns the entropy of a row. With a mask, the row is renormalised over the unmasked tokens, p = a / w,
 * and its entropy is -(1/w) sum a ln a + ln w. */
static HS_CLONES void attention_report(const float *attention, const hs_text_facts *text,
                                       hs_head_summary *ret_summary)
{
    const size_t T = text->n_tokens;
    double n_rows = 0, entropy = 0, mass = 0, separator_mass = 0;
    for (size_t start = 0; start < T; start += HS__BLOCK) {
        const size_t end = hs_min(start + HS__BLOCK, T);
        double masses[HS__BLOCK] = {0}, entropies[HS__BLOCK] = {0};
        for (size_t i = 0; i < T; i++) {
            if (hs__is_masked(text->masked, i))
                continue;
            const float *row = attention + i * T;
            const double sum = text->masked ? row_sum(row, text) : 1;
            const double weight = sum > 0 ? 1 / sum : 0;
            for (size_t j = start; j < end; j++) {
                masses[j - start] += row[j];
                entropies[j - start] -= weight * (row[j] * hs__log(row[j]));
            }
            if (start == 0) {
                n_rows += 1;
                entropy += weight > 0 ? log(sum) : 0;
            }
        }
        for (size_t j = start; j < end; j++) {
            if (hs__is_masked(text->masked, j))
                continue;
            entropy += entropies[j - start];
            mass += masses[j - start];
            separator_mass += text->separators[j] ? masses[j - start] : 0;
        }
    }
    ret_summary->attention_entropy = (float)(entropy / n_rows);
    ret_summary->separator_attention = (float)(separator_mass / mass);
}

hs_status hs_head_summarize(const hs_observed_head *maps, const hs_text_facts *text, float threshold,
                            hs_head_summary *ret_summary, hs_error *err)
{
    const size_t T = text->n_tokens;
    const float *similarity = maps->similarity;
    tally t = {.holding = calloc(T + 1, sizeof *t.holding + 3 * sizeof(uint32_t))};
    if (!t.holding)
        return hs_fail(err, HS_NO_MEMORY, "no memory to summarise a head over %zu tokens", T);
    uint32_t *scratch = (uint32_t *)(void *)(t.holding + T + 1);
    const float maximum = hs_similarity_max(similarity, T, text->masked), scale = maximum > 0 ? maximum : 1;
    const pair_sums sums = sums_find(similarity, text, scale);
    const bool has_pairs = maximum > 0 && isfinite(maximum);
    const float high = has_pairs ? hs__similarity_cut(threshold, maximum) : NAN;
    tally_map(&t, similarity, text, high);
    tally_report(&t, T, ret_summary);
    lengths_report(similarity, maps->lengths, text, high, sums.squares_all * scale * scale, scratch,
                   ret_summary);
    ret_summary->max_similarity = maximum > -INFINITY ? maximum : NAN;
    ret_summary->snr_dprime = maximum > 0 ? (float)dprime(&sums) : NAN;
    attention_report(maps->attention, text, ret_summary);
    free(t.holding);
    return HS_OK;
}

/* ---- text ----
 *
 * Sentences and repeated tokens of a text. */

void hs_sentences_find(const uint8_t *ends, const uint8_t *texts, const uint8_t *special, size_t n_tokens,
                       int32_t *ret_sentences)
{
    int32_t sentence = 0;
    bool after_end = false;  /* the sentence has reached an end token; more may follow */
    bool after_text = false; /* the first text of a pair has ended: the second follows */
    for (size_t i = 0; i < n_tokens; i++) {
        bool is_end = !special[i] && ends[i];
        if (after_text || (after_end && !is_end && !special[i])) {
            sentence++;
            after_end = false;
        }
        ret_sentences[i] = sentence;
        after_end = after_end || is_end;
        after_text = texts && special[i] && i + 1 < n_tokens && texts[i + 1] != texts[i];
    }
}

/* Quadratic in T, but a comparison costs a fraction of the T x d products of each pair in each head. */
void hs_repeats_find(const int32_t *ids, size_t n_tokens, int32_t *ret_first)
{
    for (size_t i = 0; i < n_tokens; i++) {
        size_t first = 0;
        while (ids[first] != ids[i])
            first++;
        ret_first[i] = (int32_t)first;
    }
}
