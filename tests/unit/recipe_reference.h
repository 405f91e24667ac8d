/* recipe_reference.h - what a recipe means, in loops over doubles: the formulas of model/recipe.h and
 * engine/plan.h read aloud, with no thought for speed. Engines are held against it. */
#pragma once

#include "engine/plan.h"

/* Of one sequence of T tokens; everything of every layer and head. */
typedef struct reference {
    size_t T;
    double *states;              /* [L + 1][T][H] */
    double *query, *key, *value; /* [L][heads][T][d] */
    double *scores;              /* [L][heads][T][T] */
    double *c2c, *c2p, *p2c;     /* [L][heads][T][T], addends of scores */
    double *attention;           /* [L][heads][T][T] */
    double *output;              /* [L][heads][T][d] */
    double *similarity;          /* [L][heads][T][T], diagonal 0 */
} reference;

reference reference_make(const hs_recipe *recipe, const hs_sequence *sequence);
void reference_free(reference *r);

/* A recipe of random weights in this shape, E wide in its embeddings; norms after the blocks, everything else
 * plain. It holds memory: random_recipe_free. */
hs_recipe random_recipe(const hs_shape *shape, size_t E);
void random_recipe_free(void); /* every tensor made so far */

/* Of random weights too. */
hs_dense random_dense(size_t n_out, size_t n_in);
hs_norm random_norm(size_t n);

/* A tensor of random values around `middle`. */
hs_tensor random_tensor(size_t n_rows, size_t n_columns, float middle, float spread);
