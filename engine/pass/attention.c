/* attention.c - one head: A = softmax(Q K' / sqrt(d)), O = A V, S = O O'.
 *
 * Each step is done while what it reads is in the nearest cache: a few rows of A are computed in the slot
 * where they are kept, turned into probabilities, summed by column and multiplied with V before the next rows
 * begin. */
#include "engine/pass/cpu.h"

#include <math.h>
#include <string.h>

size_t hs__attention_rows(const hs__kernels *kernels, size_t n_tokens)
{
    const size_t floats = 5120; /* 20 KB: leaves the first-level cache room for panels */
    const size_t n_tiles = floats / n_tokens / kernels->tile_rows;
    return kernels->tile_rows * (n_tiles > 0 ? n_tiles : 1);
}

/* y [n_rows][n_columns] = x B, B [K][n_columns] in panels. */
static void multiply(const hs__kernels *kernels, size_t n_rows, size_t K, const float *x, size_t ldx,
                     const float *panels, size_t n_columns, float *y, size_t ldy)
{
    for (size_t c = 0; c < n_columns; c += kernels->panel) {
        const size_t n = n_columns - c < kernels->panel ? n_columns - c : kernels->panel;
        kernels->product(n_rows, K, x, ldx, panels + K * c, n, NULL, NULL, y + c, ldy);
    }
}

/* n rows of A from row `first` on, where an intervention says what A is. */
static void map_replace(const hs__head *head, size_t first, size_t n, float *map)
{
    const size_t T = head->T;
    const float everywhere = head->change.uniform ? 1 / (float)T : 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < T; j++)
            map[i * T + j] = everywhere;
        if (head->change.identity)
            map[i * T + first + i] = 1;
        for (size_t j = 0; head->columns && j < T; j++)
            head->columns[j] += map[i * T + j];
    }
}

static void compute_map(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                        const hs__head *head)
{
    const size_t T = head->T, D = head->D, ld = 3 * head->H, rows_max = hs__attention_rows(kernels, T);
    const float scale = 1 / sqrtf((float)D);
    const bool replaced = head->change.uniform || head->change.identity;
    if (head->columns)
        memset(head->columns, 0, T * sizeof *head->columns);
    for (size_t row = 0; row < T; row += rows_max) {
        const size_t n = T - row < rows_max ? T - row : rows_max;
        float *map = head->attention ? head->attention + row * T : scratch->rows;
        if (!replaced || head->scores)
            multiply(kernels, n, D, head->qkv + row * ld, ld, scratch->keys, T, map, T);
        for (size_t i = 0; head->scores && i < n * T; i++)
            head->scores[row * T + i] = map[i] * scale;
        if (replaced)
            map_replace(head, row, n, map);
        else
            kernels->softmax(n, T, scale, map, T, head->columns);
        multiply(kernels, n, T, map, T, scratch->values, D, head->context + row * head->H, head->H);
    }
}

/* What interventions make of O, where it lies. */
static void output_change(const hs__head *head)
{
    const size_t T = head->T, H = head->H;
    const float factor = head->change.factor;
    for (size_t d = 0; d < head->D; d++) {
        float *column = head->context + d;
        double sum = 0;
        for (size_t i = 0; head->change.mean && i < T; i++)
            sum += column[i * H];
        for (size_t i = 0; i < T; i++) {
            const float o = head->change.mean ? (float)(sum / (double)T) : column[i * H];
            column[i * H] = factor == 0 ? 0 : o * factor; /* 0 whatever O is, infinities too */
        }
    }
}

/* A little more than half of the product is computed and mirrored where the other half is wanted, unless
 * heads are so narrow that copying takes as long. Either way S is symmetric to the bit: sums run in the same
 * order on both sides. */
static void compute_similarity(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                               const hs__head *head)
{
    enum { NARROW = 24 };
    const size_t T = head->T, D = head->D, H = head->H;
    const bool by_half = head->upper_only || D > NARROW;
    kernels->pack(D, T, head->context, 1, H, scratch->keys); /* B = O' */
    for (size_t c = 0; c < T; c += kernels->panel) {
        const size_t n = T - c < kernels->panel ? T - c : kernels->panel;
        kernels->product(by_half ? c + n : T, D, head->context, H, scratch->keys + D * c, n, NULL, NULL,
                         head->similarity + c, T);
    }
    if (by_half && !head->upper_only)
        kernels->mirror(T, head->similarity);
    for (size_t i = 0; i < T; i++)
        head->similarity[i * T + i] = 0;
}

void hs__attend(const hs__kernels *kernels, const hs__attention_scratch *scratch, const hs__head *head)
{
    const size_t T = head->T, D = head->D, H = head->H;
    kernels->pack(D, T, head->qkv + H, 1, 3 * H, scratch->keys);       /* B = K' */
    kernels->pack(T, D, head->qkv + 2 * H, 3 * H, 1, scratch->values); /* B = V */
    compute_map(kernels, scratch, head);
    if (head->change.mean || head->change.factor != 1)
        output_change(head);
    for (size_t i = 0; head->output && i < T; i++)
        memcpy(head->output + i * D, head->context + i * H, D * sizeof(float));
    if (head->similarity)
        compute_similarity(kernels, scratch, head);
}
