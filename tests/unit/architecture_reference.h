/* architecture_reference.h - the formulas of model/architecture.h and engine/plan.h as plain loops over
 * doubles. Tests compare engines with it. */
#pragma once

#include "engine/plan.h"

/* Arrays of one sequence of T tokens and K keys, of every layer and head. */
typedef struct reference {
    size_t T, K;
    double *states;           /* [L + 1][T][H] */
    double *query;            /* [L][heads][T][d] */
    double *key, *value;      /* [L][heads][K][d] */
    double *scores;           /* [L][heads][T][K] */
    double *c2c, *c2p, *p2c;  /* [L][heads][T][K], addends of scores */
    double *attention;        /* [L][heads][T][K] */
    double *output;           /* [L][heads][T][d] */
    double *similarity[2][2]; /* [residual][centered], each [L][heads][T][T], diagonal 0 */
} reference;

/* With `cross` the heads are a decoder's cross heads. */
reference reference_make(const hs_architecture *architecture, const hs_sequence *sequence, bool cross);
void reference_free(reference *r);

/* An architecture of random weights in this shape, E wide in its embeddings; norms after the blocks,
 * everything else plain. It holds memory: random_architecture_free. */
hs_architecture random_architecture(const hs_shape *shape, size_t E);
/* Makes it a causal decoder that reads the memory of an encoder. */
void random_decoder(hs_architecture *architecture);
void random_architecture_free(void); /* every tensor made so far */

/* Fills weights with random values in the same way. */
hs_dense random_dense(size_t n_out, size_t n_in);
hs_norm random_norm(size_t n);

/* A tensor of random values around `middle`. */
hs_tensor random_tensor(size_t n_rows, size_t n_columns, float middle, float spread);
