/* contacts.h - contacts of a protein's residues from the attention of all heads, as ESM's contact head finds
 * them (Rao et al. 2021, "Transformer protein language models are unsupervised structure learners").
 *
 * Residues are the R tokens between the first and the last one. With A [R][R] the rows and columns of a
 * head's map that are theirs, those of <eos> set to 0, the head's channel is
 *
 *     F = X - r r' / sum(r),  X = A + A', r the sums of X's rows
 *
 * The subtraction is the average product correction (Dunn et al. 2008). A logistic regression over the
 * channels of all layers and heads gives the probability of each contact. */
#pragma once

#include "model/architecture.h"

#include <stddef.h>
#include <stdint.h>

/* The contacts of one text. The caller frees it. */
typedef struct hs_contacts {
    size_t n_tokens, n; /* T, R */
    float *weights;     /* [L n_heads]: of each channel */
    float bias;
    float *values; /* [R][R]: behind hs_contacts_finish the probabilities, a symmetric matrix */
    double *kept;  /* [R]: 0 for <eos>, else 1 */
    double sums[]; /* [R]: scratch */
} hs_contacts;

/* Returns the bytes that hs_contacts_create allocates. */
size_t hs_contacts_bytes(const hs_shape *shape, size_t n_tokens);

/* Begins the contacts of a text with these ids [n_tokens]. The architecture must have a contact head. Returns
 * NULL if there is no memory. */
hs_contacts *hs_contacts_create(const hs_architecture *architecture, const int32_t *ids, size_t n_tokens);

/* Adds a head's map [T][T]. channel is layer * n_heads + head. */
void hs_contacts_add(hs_contacts *contacts, const float *attention, size_t channel);

/* Turns the sums over all channels into probabilities. */
void hs_contacts_finish(hs_contacts *contacts);
