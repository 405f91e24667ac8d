/* distances.h - distances of heads, by their outputs (CKA) and by their attention (JS).
 *
 *     CKA   1 - HSIC(S, S') / sqrt(HSIC(S, S) HSIC(S', S')), S = O O' of each head (Kornblith et al. 2019,
 *           arXiv 1905.00414), with the unbiased estimator of HSIC (Song et al. 2012). It ignores the
 * diagonal and centres S by the means of its rows and columns:
 *
 *               u_ij = s_ij - (r_i + r_j) / (T - 2) + r / ((T - 1) (T - 2)),  r_i = sum_j s_ij, r = sum_i r_i
 *               HSIC(S, S') = sum_{i != j} u_ij u'_ij / (T (T - 3))
 *
 *     JS    Jensen-Shannon divergence, mean over rows p of A: H((p + p') / 2) - (H(p) + H(p')) / 2 with
 *           H(p) = - sum p ln p
 *
 * Both are sums over texts until the last step, so that texts may be counted in any parts. CKA is 0 for a
 * head and itself, also after a rotation or scaling of its output. It is undefined for heads with the
 * same output for all tokens and for three tokens. JS is 0 for equal maps and at most ln 2.
 *
 * Maps are row-major [n_tokens][n_tokens], one pointer each. Only elements above the diagonal of
 * similarities are read. Sums are [n_heads][n_heads]; elements on and above the diagonal are added to. */
#pragma once

#include "engine/runtime.h"

#include <stdbool.h>
#include <stddef.h>

/* Returns the bytes of scratch that hs_heads_hsic_add needs: about a thousand elements of each map, and
 * their sums. */
size_t hs_heads_hsic_bytes(size_t n_heads, size_t n_tokens);

/* Adds one text's HSIC of every two heads. Adds nothing for fewer than four tokens. */
void hs_heads_hsic_add(const float *const *similarities, size_t n_heads, size_t n_tokens, void *scratch,
                       double *sums);

/* Rows of the maps of several heads that are not in memory at once. `load` points each of ret_rows [n_heads]
 * to rows [first, first + n) of a head, n_rows at most, valid until the next call; false: they cannot be had.
 */
typedef struct hs_head_rows {
    bool (*load)(void *context, size_t first, size_t n, const float **ret_rows);
    void *context;
    size_t n_rows; /* at least HS_HEAD_ROWS_MIN, or all */
} hs_head_rows;

/* A block of a thousand elements in the last corner of a map has fewer rows. */
enum { HS_HEAD_ROWS_MIN = 64 };

/* The same sums to the bit as hs_heads_hsic_add. Loads all rows twice. Returns false if they cannot be had.
 */
bool hs_heads_hsic_add_in(const hs_head_rows *source, size_t n_heads, size_t n_tokens, void *scratch,
                          double *sums);

/* Replaces the sums by 1 - CKA, on both sides of the diagonal; NAN where it is undefined. */
void hs_heads_cka_distance(double *sums, size_t n_heads);

/* Adds one row's part of the JS of every two heads, whose maps are [n_tokens][n_keys]: its divergence / T.
 * entropies is scratch [n_heads]. Threads share the pairs of heads; the sums do not depend on their number.
 * runtime may be NULL for one thread. */
void hs_heads_js_add(hs_runtime *runtime, size_t n_threads, const float *const *attentions, size_t n_heads,
                     size_t n_tokens, size_t n_keys, size_t row, double *entropies, double *sums);
