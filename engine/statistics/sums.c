/* sums.c - shapes of declared arrays, and sums of these shapes. */
#include "engine/statistics/sums.h"

#include "model/base/bytes.h"

#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

static size_t axis_length(const hs_array_axis *axis, const size_t *lengths)
{
    return axis->of ? lengths[axis->of] : axis->length;
}

hs_corpus_array hs_array_of(const hs_array_row *rows, size_t k, const size_t *lengths)
{
    const hs_array_row *row = &rows[k];
    hs_corpus_array array = {.row = row, .name = row->name, .is_float = row->kind != HS_COUNT, .field = k};
    array.n_elements = !row->only || lengths[row->only] > 0;
    for (; array.n_axes < HS_CORPUS_AXES_MAX && row->axes[array.n_axes].name; array.n_axes++) {
        array.axes[array.n_axes] = axis_length(&row->axes[array.n_axes], lengths);
        array.n_elements *= array.axes[array.n_axes];
    }
    return array;
}

/* Returns the number of words of an element. */
static size_t words_each(hs_sum_kind kind)
{
    return kind == HS_REAL || kind == HS_REAL_37 ? 2 : 1;
}

static bool is_in_blocks(const hs_array_row *row)
{
    return row->place == HS_EACH_BLOCK || row->place == HS_ALL_BLOCKS;
}

size_t hs_row_words(const hs_array_row *rows, size_t k, const size_t *lengths)
{
    const hs_corpus_array array = hs_array_of(rows, k, lengths);
    if (array.row->place == HS_MADE)
        return 0;
    return words_each(array.row->kind) * array.n_elements /
           (array.row->place == HS_EACH_BLOCK ? array.axes[0] : 1);
}

static uint64_t text_digest(uint64_t digest, const char *text)
{
    return text ? hs_hash_bytes(digest, text, strlen(text) + 1) : hs_hash_word(digest, 0);
}

uint64_t hs_rows_digest(uint64_t digest, const hs_array_row *rows, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        digest = text_digest(digest, rows[k].name);
        digest = hs_hash_word(digest, 16 * (uint64_t)rows[k].place + (uint64_t)rows[k].kind);
        for (const hs_array_axis *axis = rows[k].axes; axis < rows[k].axes + HS_CORPUS_AXES_MAX; axis++)
            digest = hs_hash_word(text_digest(digest, axis->name), axis->length);
    }
    return digest;
}

/* Counts the words of rows before row k: those in blocks, or those that are there once. */
static size_t words_before(const hs_sums_kind *kind, size_t k, bool in_blocks, const size_t *lengths)
{
    size_t n = 0;
    for (size_t i = 0; i < k; i++)
        n += is_in_blocks(&kind->rows[i]) == in_blocks ? hs_row_words(kind->rows, i, lengths) : 0;
    return n;
}

static size_t blocks_of(const hs_sums_kind *kind)
{
    return kind->n_blocks ? kind->n_blocks : HS_BLOCKS_MAX;
}

/* ---- sums ---- */

hs_sums *hs_sums_create(const hs_sums_kind *kind, const size_t lengths[HS_LENGTHS], hs_error *err)
{
    const size_t n_words = words_before(kind, kind->n_rows, false, lengths),
                 n_in_block = words_before(kind, kind->n_rows, true, lengths);
    hs_blocks *blocks = n_in_block ? hs_blocks_create_few(blocks_of(kind), n_in_block) : NULL;
    hs_sums *s = calloc(1, sizeof *s + kind->n_rows * sizeof *s->firsts + n_words * sizeof *s->words);
    if (!s || (n_in_block && !blocks)) {
        free(s);
        free(blocks);
        hs_fail(err, HS_NO_MEMORY, "no memory for %s", kind->what);
        return NULL;
    }
    s->kind = kind;
    memcpy(s->lengths, lengths, sizeof s->lengths);
    s->blocks = blocks;
    s->n_words = n_words;
    s->firsts = (size_t *)(s + 1);
    s->words = (int64_t *)(s->firsts + kind->n_rows);
    for (size_t k = 0; k < kind->n_rows; k++)
        s->firsts[k] = words_before(kind, k, is_in_blocks(&kind->rows[k]), lengths);
    return s;
}

void hs_sums_destroy(hs_sums *sums)
{
    if (sums)
        free(sums->blocks);
    free(sums);
}

hs_sums_size hs_sums_measure(const hs_sums_kind *kind, const size_t lengths[HS_LENGTHS])
{
    const size_t n_words = words_before(kind, kind->n_rows, false, lengths),
                 n_in_block = words_before(kind, kind->n_rows, true, lengths);
    return (hs_sums_size){.bytes = sizeof(hs_sums) + kind->n_rows * sizeof(size_t) +
                                   n_words * sizeof(int64_t) +
                                   (n_in_block ? hs_blocks_bytes(blocks_of(kind), n_in_block) : 0),
                          .words = n_words + blocks_of(kind) * n_in_block};
}

void hs_sums_add(hs_sums *sums, const hs_sums *from)
{
    hs_words_add(sums->words, from->words, sums->n_words);
    if (sums->blocks)
        hs_blocks_merge(sums->blocks, from->blocks);
}

void hs_sums_move(hs_sums *sums, hs_sums *from)
{
    hs_sums_add(sums, from);
    memset(from->words, 0, from->n_words * sizeof *from->words);
    if (from->blocks)
        hs_blocks_clear(from->blocks);
}

/* ---- reading ---- */

double hs_sum_real(hs_sum_kind kind, const int64_t *words)
{
    switch (kind) {
    case HS_REAL:
        return hs_real_at(words);
    case HS_REAL_37: /* as hs__stats_fixed_add adds them */
        return (double)words[0] + (double)words[1] * 0x1p-37;
    case HS_UNITS_28:
        return (double)words[0] * 0x1p-28;
    case HS_UNITS_36:
        return (double)words[0] * 0x1p-36;
    default:
        return (double)words[0];
    }
}

void hs_words_read(const int64_t *words, hs_sum_kind kind, size_t first, size_t n, void *ret)
{
    double *reals = ret;
    if (kind == HS_COUNT)
        memcpy(ret, words + first, n * sizeof *words);
    else
        for (size_t k = 0; k < n; k++)
            reals[k] = hs_sum_real(kind, words + words_each(kind) * (first + k));
}

/* Reads element i of an array that is in blocks: of one of them, or summed over all. */
static void block_read(const hs_sums *s, const hs_corpus_array *array, size_t i, void *ret)
{
    const hs_sum_kind kind = array->row->kind;
    const size_t n = words_each(kind), n_each = array->n_elements / s->blocks->n_max;
    uint64_t sum[2] = {0};
    int64_t words[2];
    if (array->row->place == HS_EACH_BLOCK) {
        hs_words_read(hs_sums_in_block(s, array->field, i / n_each), kind, i % n_each, 1, ret);
        return;
    }
    for (size_t b = 0; b < s->blocks->n_max; b++)
        for (size_t w = 0; w < n; w++)
            sum[w] += (uint64_t)hs_sums_in_block(s, array->field, b)[n * i + w];
    memcpy(words, sum, sizeof words);
    hs_words_read(words, kind, 0, 1, ret);
}

void hs_sums_read(const hs_sums *sums, const hs_corpus_array *array, size_t first, size_t n, void *ret)
{
    if (array->row->place == HS_ONCE)
        hs_words_read(hs_sums_at(sums, array->field), array->row->kind, first, n, ret);
    else
        for (size_t k = 0; k < n; k++)
            block_read(sums, array, first + k, (int64_t *)ret + k);
}

void hs_sums_draw(const hs_sums *s, const hs_bootstrap *bootstrap, size_t row, size_t first, size_t n,
                  hs_draws ret)
{
    const hs_sum_kind kind = s->kind->rows[row].kind;
    double by_block[HS_BLOCKS_MAX] = {0};
    for (size_t b = 0; b < s->blocks->n_max; b++)
        for (size_t i = first; i < first + n; i++) {
            const int64_t *words = hs_sums_in_block(s, row, b) + words_each(kind) * i;
            by_block[b] += hs_sum_real(kind, words);
        }
    hs_bootstrap_draw(bootstrap, by_block, ret);
}
