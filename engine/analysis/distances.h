/* distances.h - how unlike heads are, by what they put out and by where they look.
 *
 *     CKA   1 - HSIC(S, S') / sqrt(HSIC(S, S) HSIC(S', S')), S = O O' of each head (Kornblith et al. 2019,
 *           arXiv 1905.00414), with the estimator of HSIC that has no bias (Song et al. 2012), which reads
 *           nothing on the diagonal: of u, what is left of S without the means of its rows and columns,
 *
 *               u_ij = s_ij - (r_i + r_j) / (T - 2) + r / ((T - 1) (T - 2)),  r_i = sum_j s_ij, r = sum_i r_i
 *               HSIC(S, S') = sum_{i != j} u_ij u'_ij / (T (T - 3))
 *
 *     JS    mean over rows of H((p + p') / 2) - (H(p) + H(p')) / 2, H(p) = - sum p ln p, of rows p of A
 *
 * Both are sums over texts before anything is divided, so that texts may be counted in any parts. CKA is 0 of
 * a head and itself, whatever turns or scales its output, and is not known of heads that put out the same for
 * all tokens, nor of three tokens. JS is 0 of equal maps, and at most ln 2.
 *
 * Maps are given one by one, row-major [n_tokens][n_tokens]; of similarities what lies above the diagonal is
 * read. Sums are [n_heads][n_heads], of which what lies on and above the diagonal is added to. */
#pragma once

#include <stddef.h>

/* Bytes that hs_heads_hsic_add works in: about a thousand elements of each map, and their sums. */
size_t hs_heads_hsic_room(size_t n_heads, size_t n_tokens);

/* Adds one text's HSIC of every two heads; nothing for fewer than four tokens. */
void hs_heads_hsic_add(const float *const *similarities, size_t n_heads, size_t n_tokens, void *room,
                       double *sums);

/* 1 - CKA in place of the sums, on both sides of the diagonal; NAN where it is not known. */
void hs_heads_cka_distance(double *sums, size_t n_heads);

/* Adds one row's part of the JS of every two heads: its divergence / T. entropies is room for n_heads. */
void hs_heads_js_add(const float *const *attentions, size_t n_heads, size_t n_tokens, size_t row,
                     double *entropies, double *sums);
