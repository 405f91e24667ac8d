/* analysis_summary.c - summary figures of one head in one text. */
#include "engine/analysis/analysis.h"

#include "engine/analysis/analysis_maps.h"
#include "model/clones.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- E: repeats, sentences, distances, the focal token ---- */

typedef struct tally {
    uint64_t pairs, repeated, same_sentence, both, distances;
    uint64_t *holding; /* [T], at an id's first position: pairs of E that hold the id */
} tally;

static void tally_add(tally *t, const hs_text_facts *text, size_t i, size_t j)
{
    const bool repeated = text->first[i] == text->first[j];
    const bool same_sentence = text->sentences[i] == text->sentences[j];
    t->pairs++;
    t->repeated += repeated;
    t->same_sentence += same_sentence;
    t->both += repeated && same_sentence;
    t->distances += j - i;
    t->holding[text->first[i]]++;
    t->holding[text->first[j]] += !repeated;
}

HS_CLONES
static int block_count(const float *values, size_t n, float maximum, float threshold)
{
    int count = 0;
    for (size_t j = 0; j < n; j++)
        count += values[j] / maximum >= threshold;
    return count;
}

static void tally_map(tally *t, const float *similarity, const hs_text_facts *text, float maximum,
                      float threshold)
{
    const size_t T = text->n_tokens;
    for (size_t i = 0; i < T; i++) {
        if (hs__is_masked(text->masked, i))
            continue;
        const float *row = similarity + i * T;
        if (!block_count(row + i + 1, T - i - 1, maximum, threshold))
            continue;
        for (size_t j = i + 1; j < T; j++)
            if (row[j] / maximum >= threshold && !hs__is_masked(text->masked, j))
                tally_add(t, text, i, j);
    }
}

static void tally_report(const tally *t, size_t n_tokens, hs_head_summary *ret_summary)
{
    const double n = t->pairs ? (double)t->pairs : NAN;
    size_t focal = 0;
    for (size_t j = 1; j < n_tokens; j++)
        if (t->holding[j] > t->holding[focal])
            focal = j;
    ret_summary->high_pairs = t->pairs;
    ret_summary->repeated_share = (float)((double)t->repeated / n);
    ret_summary->same_sentence_share = (float)((double)t->same_sentence / n);
    ret_summary->repeated_same_sentence_share = (float)((double)t->both / n);
    ret_summary->mean_distance = (float)((double)t->distances / n);
    ret_summary->focal_token = t->pairs ? (int32_t)focal : -1;
    ret_summary->focal_share = (float)((double)t->holding[focal] / n);
}

/* ---- signal to noise ---- */

/* Returns d' over all pairs, of N = S / m. NAN if there is no spread, which m <= 0 implies. */
HS_CLONES
static double dprime(const float *similarity, const hs_text_facts *text, float maximum)
{
    const size_t T = text->n_tokens;
    double n[2] = {0}, sum[2] = {0}, squares[2] = {0}; /* [1] signal, [0] noise */
    for (size_t start = 0; start < T; start += HS__BLOCK) {
        const size_t end = hs__min(start + HS__BLOCK, T);
        double column_n[2][HS__BLOCK] = {0}, column_sum[2][HS__BLOCK] = {0},
               column_squares[2][HS__BLOCK] = {0};
        for (size_t i = 0; i < end; i++) {
            if (hs__is_masked(text->masked, i))
                continue;
            const int32_t first = text->first[i], sentence = text->sentences[i];
            for (size_t j = hs__max(i + 1, start); j < end; j++) {
                const double value = similarity[i * T + j] / maximum;
                const double signal = (text->first[j] == first) | (text->sentences[j] == sentence);
                column_n[1][j - start] += signal;
                column_sum[1][j - start] += signal * value;
                column_squares[1][j - start] += signal * value * value;
                column_n[0][j - start] += 1 - signal;
                column_sum[0][j - start] += (1 - signal) * value;
                column_squares[0][j - start] += (1 - signal) * value * value;
            }
        }
        for (size_t kind = 0; kind < 2; kind++)
            for (size_t j = start; j < end; j++) {
                if (hs__is_masked(text->masked, j))
                    continue;
                n[kind] += column_n[kind][j - start];
                sum[kind] += column_sum[kind][j - start];
                squares[kind] += column_squares[kind][j - start];
            }
    }
    const double noise_mean = sum[0] / n[0], signal_mean = sum[1] / n[1];
    const double noise_variance = squares[0] / n[0] - noise_mean * noise_mean;
    const double signal_variance = squares[1] / n[1] - signal_mean * signal_mean;
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
HS_CLONES
static void attention_report(const float *attention, const hs_text_facts *text, hs_head_summary *ret_summary)
{
    const size_t T = text->n_tokens;
    double n_rows = 0, entropy = 0, mass = 0, separator_mass = 0;
    for (size_t start = 0; start < T; start += HS__BLOCK) {
        const size_t end = hs__min(start + HS__BLOCK, T);
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

hs_status hs_head_summarize(const float *attention, const float *similarity, const hs_text_facts *text,
                            float threshold, hs_head_summary *ret_summary, hs_error *err)
{
    tally t = {.holding = calloc(text->n_tokens + 1, sizeof *t.holding)};
    if (!t.holding)
        return hs_fail(err, HS_NO_MEMORY, "no memory to summarise a head over %zu tokens", text->n_tokens);
    const float maximum = hs_similarity_max(similarity, text->n_tokens, text->masked);
    if (maximum > 0)
        tally_map(&t, similarity, text, maximum, threshold);
    tally_report(&t, text->n_tokens, ret_summary);
    ret_summary->max_similarity = maximum > -INFINITY ? maximum : NAN;
    ret_summary->snr_dprime = maximum > 0 ? (float)dprime(similarity, text, maximum) : NAN;
    attention_report(attention, text, ret_summary);
    free(t.holding);
    return HS_OK;
}
