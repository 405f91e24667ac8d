/* snr.c - sums of regressions on position, distance and language, and the ratio that follows.
 *
 * A head's map is read once. Its sums by column and by distance give those of every term: only equal tokens
 * are visited pair by pair. */
#include "engine/statistics/snr.h"

#include "engine/analysis/analysis.h"
#include "engine/arena.h"
#include "model/base/bytes.h"
#include "model/base/clones.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_DISTANCE = 1, NEIGHBOURS = 2, N_NEIGHBOURS = 4, NEAR = 6, ROW = 7, COLUMN = 8 };
enum { SAME_TOKEN = HS_SNR_BASE, SAME_SENTENCE, BOTH };

/* Ids and sentences as a model sees them; arrays are [tokens_max], by position. */
typedef struct view {
    int32_t *next;      /* position of the following token of the same id; n_tokens: none */
    int32_t *sentences; /* -1: a special token */
    int32_t *begins;    /* at the last token of a sentence where it begins, else -1 */
    int32_t *ends;      /* at the first one where it ends (half-open), else -1 */
} view;

struct hs_snr_text {
    size_t n_tokens;
    uint64_t n_pairs;
    hs_snr_matrix products[HS_SNR_MODELS];
    view views[HS_SNR_MODELS];
    /* [tokens_max] */
    uint32_t *kept;         /* all ones: no special token */
    int32_t *places;        /* of kept tokens */
    int32_t *ids, *numbers; /* scratch: of kept tokens, in their order */
    uint8_t *ends;
    double *logs, *nears;                    /* of distances */
    double *columns, *squares, *by_distance; /* sums of the map at hand */
};

static void layout(hs_snr_text *t, size_t tokens_max, hs__arena *arena)
{
    (void)hs__arena_take(arena, sizeof *t); /* the struct itself */
    const size_t n = tokens_max * sizeof(int32_t), n_double = tokens_max * sizeof(double);
    for (size_t m = 0; m < HS_SNR_MODELS; m++) {
        t->views[m].next = hs__arena_take(arena, n);
        t->views[m].sentences = hs__arena_take(arena, n);
        t->views[m].begins = hs__arena_take(arena, n);
        t->views[m].ends = hs__arena_take(arena, n);
    }
    t->kept = hs__arena_take(arena, n);
    t->places = hs__arena_take(arena, n);
    t->ids = hs__arena_take(arena, n);
    t->numbers = hs__arena_take(arena, n);
    t->ends = hs__arena_take(arena, tokens_max);
    t->logs = hs__arena_take(arena, n_double);
    t->nears = hs__arena_take(arena, n_double);
    t->columns = hs__arena_take(arena, n_double);
    t->squares = hs__arena_take(arena, n_double);
    t->by_distance = hs__arena_take(arena, n_double);
}

size_t hs_snr_text_bytes(size_t tokens_max)
{
    hs_snr_text unused;
    hs__arena arena = {0};
    layout(&unused, tokens_max, &arena);
    return arena.used;
}

hs_snr_text *hs_snr_text_create(size_t tokens_max)
{
    hs_snr_text *t = calloc(1, hs_snr_text_bytes(tokens_max));
    if (!t)
        return NULL;
    hs__arena arena = {.base = t};
    layout(t, tokens_max, &arena);
    for (size_t d = 1; d < tokens_max; d++) {
        t->logs[d] = log((double)d);
        t->nears[d] = 1 / (1 + (double)d / 8);
    }
    return t;
}

void hs_snr_text_destroy(hs_snr_text *text)
{
    free(text);
}

/* ---- views of a text ---- */

/* Links each kept token to the following one of its id. */
static void ids_link(const hs_snr_text *t, size_t n_kept, view *to)
{
    for (size_t m = 0; m < t->n_tokens; m++)
        to->next[m] = (int32_t)t->n_tokens;
    for (size_t m = 0; m < n_kept; m++) {
        size_t later = m + 1;
        while (later < n_kept && t->ids[later] != t->ids[m])
            later++;
        if (later < n_kept)
            to->next[t->places[m]] = t->places[later];
    }
}

/* Makes sentences of runs of equal numbers, of which the first is that of kept token `first`. */
static void sentences_place(const hs_snr_text *t, size_t n_kept, size_t first, view *to)
{
    int32_t sentence = -1, begin = 0;
    for (size_t i = 0; i < t->n_tokens; i++)
        to->sentences[i] = to->begins[i] = to->ends[i] = -1;
    for (size_t m = 0; m < n_kept; m++) {
        const int32_t at = t->places[m], number = t->numbers[(m + first) % n_kept];
        if (m == 0 || number != t->numbers[(m + first - 1) % n_kept]) {
            sentence++;
            begin = at;
        }
        to->sentences[at] = sentence;
        if (m + 1 == n_kept || number != t->numbers[(m + first + 1) % n_kept]) {
            to->begins[at] = begin;
            to->ends[begin] = at + 1;
        }
    }
}

/* Shuffles ids by Fisher and Yates with splitmix64. Returns the number that chooses the rotation. */
static uint64_t ids_shuffle(int32_t *ids, size_t n, uint64_t seed)
{
    const uint64_t first = hs_mix(seed += HS_MIX_STEP);
    for (size_t k = n; k > 1; k--) {
        const size_t at = (size_t)(hs_mix(seed += HS_MIX_STEP) % k);
        const int32_t id = ids[at];
        ids[at] = ids[k - 1];
        ids[k - 1] = id;
    }
    return first;
}

/* Collects the tokens that count; returns their number. */
static size_t kept_find(hs_snr_text *t, const hs_corpus_text *of)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_tokens; i++)
        t->ends[i] = of->roles[i] == HS_ROLE_SENTENCE_END;
    hs_sentences_find(t->ends, NULL, of->special, t->n_tokens, t->views[0].sentences);
    for (size_t i = 0; i < t->n_tokens; i++) {
        t->kept[i] = of->special[i] ? 0 : UINT32_MAX;
        if (of->special[i])
            continue;
        t->places[n] = (int32_t)i;
        t->ids[n] = of->ids[i];
        t->numbers[n++] = t->views[0].sentences[i];
    }
    return n;
}

/* ---- X'X ---- */

static void base_terms(const hs_snr_text *t, size_t i, size_t j, double ret[HS_SNR_BASE])
{
    const size_t d = j - i;
    ret[0] = 1;
    ret[LOG_DISTANCE] = t->logs[d];
    for (size_t k = 0; k < N_NEIGHBOURS; k++)
        ret[NEIGHBOURS + k] = d == k + 1;
    ret[NEAR] = t->nears[d];
    ret[ROW] = (double)i / (double)t->n_tokens;
    ret[COLUMN] = (double)j / (double)t->n_tokens;
}

/* Adds above the diagonal. */
static HS_CLONES void base_add(const double terms[HS_SNR_BASE], hs_snr_matrix sums)
{
    for (size_t a = 0; a < HS_SNR_BASE; a++)
        for (size_t b = 0; b < HS_SNR_BASE; b++)
            sums[a][b] += terms[a] * terms[b];
}

static void base_products(hs_snr_text *t, size_t n_kept)
{
    double terms[HS_SNR_BASE];
    for (size_t a = 0; a < n_kept; a++)
        for (size_t b = a + 1; b < n_kept; b++) {
            base_terms(t, (size_t)t->places[a], (size_t)t->places[b], terms);
            base_add(terms, t->products[0]);
        }
}

static void term_add(const double terms[HS_SNR_BASE], size_t term, hs_snr_matrix sums)
{
    for (size_t k = 0; k < HS_SNR_BASE; k++)
        sums[k][term] += terms[k];
}

/* Adds the terms of language, which are 0 or 1: their products with the base are sums of it. */
static void language_products(const hs_snr_text *t, const view *v, hs_snr_matrix sums)
{
    const size_t T = t->n_tokens;
    double terms[HS_SNR_BASE];
    for (size_t i = 0; i < T; i++) {
        if (!t->kept[i])
            continue;
        for (size_t j = i + 1; j < T && (!t->kept[j] || v->sentences[j] == v->sentences[i]); j++)
            if (t->kept[j]) {
                base_terms(t, i, j, terms);
                term_add(terms, SAME_SENTENCE, sums);
            }
        for (size_t j = (size_t)v->next[i]; j < T; j = (size_t)v->next[j]) {
            base_terms(t, i, j, terms);
            term_add(terms, SAME_TOKEN, sums);
            if (v->sentences[j] == v->sentences[i])
                term_add(terms, BOTH, sums);
        }
    }
    for (size_t k = SAME_TOKEN; k < HS_SNR_TERMS; k++)
        sums[k][k] = sums[0][k];
    sums[SAME_TOKEN][SAME_SENTENCE] = sums[SAME_TOKEN][BOTH] = sums[SAME_SENTENCE][BOTH] = sums[0][BOTH];
    for (size_t a = 0; a < HS_SNR_TERMS; a++)
        for (size_t b = 0; b < a; b++)
            sums[a][b] = sums[b][a];
}

void hs_snr_text_find(hs_snr_text *t, const hs_corpus_text *of)
{
    t->n_tokens = of->n_tokens;
    const size_t n = kept_find(t, of);
    t->n_pairs = n > 2 ? (uint64_t)n * (n - 1) / 2 : 0;
    memset(t->products, 0, sizeof t->products);
    if (!t->n_pairs)
        return;
    base_products(t, n);
    for (size_t m = 0; m < HS_SNR_MODELS; m++) {
        memcpy(t->products[m], t->products[0], sizeof(hs_snr_matrix));
        const uint64_t x = m ? ids_shuffle(t->ids, n, of->number * HS_SNR_MODELS + m) : 0;
        ids_link(t, n, &t->views[m]);
        sentences_place(t, n, m ? 1 + (size_t)(x % (n - 1)) : 0, &t->views[m]);
    }
    for (size_t m = HS_SNR_MODELS; m-- > 0;)
        language_products(t, &t->views[m], t->products[m]);
}

const hs_snr_matrix *hs_snr_text_products(const hs_snr_text *text, size_t model)
{
    return (const hs_snr_matrix *)&text->products[model];
}

/* ---- X'y ---- */

/* Adds row i of S, right of the diagonal. */
static HS_CLONES void row_add(const float *restrict row, const uint32_t *restrict kept, size_t n,
                              double *restrict columns, double *restrict squares,
                              double *restrict by_distance)
{
    for (size_t k = 0; k < n; k++) {
        const double s = kept[k] ? (double)row[k] : 0.0;
        columns[k] += s;
        squares[k] += s * s;
        by_distance[k] += s;
    }
}

static double range_sum(const double *values, size_t begin, size_t end)
{
    double sum = 0;
    for (size_t i = begin; i < end; i++)
        sum += values[i];
    return sum;
}

/* Reads the map. ret_same are the sums within sentences: what the columns of one have gained over its rows.
 */
static void map_read(hs_snr_text *t, const float *similarity, double ret_same[HS_SNR_MODELS])
{
    const size_t T = t->n_tokens;
    memset(t->columns, 0, T * sizeof *t->columns);
    memset(t->squares, 0, T * sizeof *t->squares);
    memset(t->by_distance, 0, T * sizeof *t->by_distance);
    memset(ret_same, 0, HS_SNR_MODELS * sizeof *ret_same);
    for (size_t i = 0; i < T; i++) {
        if (!t->kept[i])
            continue;
        for (size_t m = 0; m < HS_SNR_MODELS; m++)
            if (t->views[m].ends[i] >= 0)
                ret_same[m] -= range_sum(t->columns, i, (size_t)t->views[m].ends[i]);
        row_add(similarity + i * (T + 1) + 1, t->kept + i + 1, T - 1 - i, t->columns + i + 1,
                t->squares + i + 1, t->by_distance + 1);
        for (size_t m = 0; m < HS_SNR_MODELS; m++)
            if (t->views[m].begins[i] >= 0)
                ret_same[m] += range_sum(t->columns, (size_t)t->views[m].begins[i], i + 1);
    }
}

static void repeats_sum(const hs_snr_text *t, const view *v, const float *similarity, double *ret_all,
                        double *ret_both)
{
    const size_t T = t->n_tokens;
    double all = 0, both = 0;
    for (size_t i = 0; i < T; i++)
        for (size_t j = (size_t)v->next[i]; j < T; j = (size_t)v->next[j]) {
            const double s = (double)similarity[i * T + j];
            all += s;
            both += v->sentences[i] == v->sentences[j] ? s : 0;
        }
    *ret_all = all;
    *ret_both = both;
}

/* Sums S times each term of the base model. */
static void base_sums(const hs_snr_text *t, hs_snr_vector ret)
{
    const size_t T = t->n_tokens;
    memset(ret, 0, sizeof(hs_snr_vector));
    for (size_t d = 1; d < T; d++) {
        ret[0] += t->by_distance[d];
        ret[LOG_DISTANCE] += t->by_distance[d] * t->logs[d];
        ret[NEAR] += t->by_distance[d] * t->nears[d];
        ret[ROW] -= t->by_distance[d] * (double)d / (double)T;
        ret[COLUMN] += t->columns[d] * (double)d / (double)T;
    }
    for (size_t k = 0; k < N_NEIGHBOURS && k + 1 < T; k++)
        ret[NEIGHBOURS + k] = t->by_distance[k + 1];
    ret[ROW] += ret[COLUMN];
}

uint64_t hs_snr_head_find(hs_snr_text *t, const float *similarity, hs_snr_vector ret[HS_SNR_MODELS])
{
    double same[HS_SNR_MODELS];
    hs_snr_vector sums;
    memset(ret, 0, HS_SNR_MODELS * sizeof *ret);
    if (!t->n_pairs)
        return 0;
    map_read(t, similarity, same);
    base_sums(t, sums);
    const double n = (double)t->n_pairs, mean = sums[0] / n;
    const double variance = range_sum(t->squares, 0, t->n_tokens) / n - mean * mean;
    /* smaller ones are rounding errors of a constant in single precision */
    if (!(variance > 1e-12 * mean * mean && variance < (double)INFINITY))
        return 0;
    for (size_t m = 0; m < HS_SNR_MODELS; m++) {
        sums[SAME_SENTENCE] = same[m];
        repeats_sum(t, &t->views[m], similarity, &sums[SAME_TOKEN], &sums[BOTH]);
        for (size_t k = 0; k < HS_SNR_TERMS; k++)
            ret[m][k] = (sums[k] - mean * t->products[m][0][k]) / sqrt(variance);
    }
    return t->n_pairs;
}

/* ---- fits ---- */

/* Factors the products without the terms of a set of bits. */
static void factor_find(const hs_snr_half *half, unsigned without, hs_snr_matrix ret)
{
    memset(ret, 0, sizeof(hs_snr_matrix));
    for (size_t k = 0; k < HS_SNR_TERMS; k++) {
        double pivot = half->products[k][k];
        for (size_t m = 0; m < k; m++)
            pivot -= ret[k][m] * ret[k][m];
        const bool is_left_out = without >> k & 1 || !(pivot > 1e-10 * half->products[k][k]);
        ret[k][k] = is_left_out ? 0 : sqrt(pivot);
        for (size_t i = k + 1; i < HS_SNR_TERMS && !is_left_out; i++) {
            double sum = half->products[i][k];
            for (size_t m = 0; m < k; m++)
                sum -= ret[i][m] * ret[k][m];
            ret[i][k] = sum / ret[k][k];
        }
    }
}

/* Returns false for a term that depends linearly on those before it. */
static bool is_fitted(const hs_snr_half *half, size_t term)
{
    return half->factor[term][term] > 0;
}

void hs_snr_half_factor(hs_snr_half *half)
{
    unsigned dependent = 0;
    factor_find(half, 0, half->factor);
    for (size_t k = 0; k < HS_SNR_TERMS; k++)
        dependent |= (unsigned)!is_fitted(half, k) << k;
    /* Else a dependent term takes the place of the one that it depends on, which then seems to add nothing.
     */
    for (size_t k = 0; k < HS_SNR_LANGUAGE; k++)
        factor_find(half, dependent | 1U << (HS_SNR_BASE + k), half->without[k]);
}

/* Returns the squared errors in a half of the first n terms, as fitted to another half by its factor. xy, yy:
 * of both. */
static double errors_of(const hs_snr_matrix factor, size_t n, const hs_snr_half *predicted,
                        const hs_snr_vector fitted_xy, const hs_snr_vector predicted_xy, double predicted_yy)
{
    hs_snr_vector b;
    double errors = predicted_yy;
    for (size_t k = 0; k < n; k++) {
        b[k] = fitted_xy[k];
        for (size_t m = 0; m < k; m++)
            b[k] -= factor[k][m] * b[m];
        b[k] = factor[k][k] > 0 ? b[k] / factor[k][k] : 0;
    }
    for (size_t k = n; k-- > 0;) {
        for (size_t m = k + 1; m < n; m++)
            b[k] -= factor[m][k] * b[m];
        b[k] = factor[k][k] > 0 ? b[k] / factor[k][k] : 0;
    }
    for (size_t k = 0; k < n; k++) {
        errors -= 2 * b[k] * predicted_xy[k];
        for (size_t m = 0; m < n; m++)
            errors += b[k] * predicted->products[k][m] * b[m];
    }
    return errors;
}

double hs_snr_ratio(const hs_snr_half halves[2], const hs_snr_vector xy[2], const double yy[2],
                    double ret_halves[2])
{
    double gains = 0, rests = 0;
    bool known = true;
    for (size_t p = 0; p < 2; p++) {
        const hs_snr_half *fit = &halves[1 - p];
        const double rest = errors_of(fit->factor, HS_SNR_TERMS, &halves[p], xy[1 - p], xy[p], yy[p]);
        const double gain = errors_of(fit->factor, HS_SNR_BASE, &halves[p], xy[1 - p], xy[p], yy[p]) - rest;
        known = known && yy[p] > 0 && rest > 0;
        gains += gain;
        rests += rest;
        if (ret_halves)
            ret_halves[p] = yy[p] > 0 && rest > 0 ? gain / rest : NAN;
    }
    return known ? gains / rests : (double)NAN;
}

void hs_snr_term_ratios(const hs_snr_half halves[2], const hs_snr_vector xy[2], const double yy[2],
                        double ret[HS_SNR_LANGUAGE])
{
    double gains[HS_SNR_LANGUAGE] = {0}, rests = 0;
    bool known = true;
    for (size_t p = 0; p < 2; p++) {
        const hs_snr_half *fit = &halves[1 - p];
        const double rest = errors_of(fit->factor, HS_SNR_TERMS, &halves[p], xy[1 - p], xy[p], yy[p]);
        known = known && yy[p] > 0 && rest > 0;
        rests += rest;
        for (size_t k = 0; k < HS_SNR_LANGUAGE; k++)
            gains[k] += errors_of(fit->without[k], HS_SNR_TERMS, &halves[p], xy[1 - p], xy[p], yy[p]) - rest;
    }
    for (size_t k = 0; k < HS_SNR_LANGUAGE; k++) {
        const bool in_both = is_fitted(&halves[0], HS_SNR_BASE + k) && is_fitted(&halves[1], HS_SNR_BASE + k);
        ret[k] = known && in_both ? gains[k] / rests : (double)NAN;
    }
}

double hs_snr_decibels(double ratio)
{
    return ratio > 0 ? 10 * log10(ratio) : (double)NAN;
}
