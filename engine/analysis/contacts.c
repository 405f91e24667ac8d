/* contacts.c - ESM's contact head. The symmetric channels are never made: of each map A, the half of what it
 * adds is summed, and the sum is added to its transpose at the end. */
#include "engine/analysis/contacts.h"

#include "model/base/clones.h"

#include <math.h>
#include <stdlib.h>

/* The id of <eos> that HuggingFace's contact head takes for every checkpoint. */
enum { END_ID = 2 };

static size_t residues(size_t n_tokens)
{
    return n_tokens > 2 ? n_tokens - 2 : 0;
}

size_t hs_contacts_bytes(const hs_shape *shape, size_t n_tokens)
{
    const size_t R = residues(n_tokens);
    return sizeof(hs_contacts) + 2 * R * sizeof(double) +
           (shape->n_layers * shape->n_heads + R * R) * sizeof(float);
}

hs_contacts *hs_contacts_create(const hs_architecture *architecture, const int32_t *ids, size_t n_tokens)
{
    const size_t R = residues(n_tokens), n_channels = architecture->contacts.weight.n_columns;
    hs_contacts *c = malloc(hs_contacts_bytes(&architecture->shape, n_tokens));
    if (!c)
        return NULL;
    *c = (hs_contacts){.n_tokens = n_tokens, .n = R, .kept = c->sums + R};
    c->weights = (void *)(c->kept + R);
    c->values = c->weights + n_channels;
    hs_tensor_read(&architecture->contacts.weight, 0, 1, c->weights);
    hs_tensor_read(&architecture->contacts.bias, 0, 1, &c->bias);
    for (size_t i = 0; i < R; i++)
        c->kept[i] = ids[i + 1] == END_ID ? 0 : 1;
    for (size_t i = 0; i < R * R; i++)
        c->values[i] = 0;
    return c;
}

/* Computes r, the sums of the rows of A + A', and returns their sum. */
HS_CLONES
static double sums_find(const float *attention, size_t step, const double *kept, size_t n, double *ret_sums)
{
    double total = 0;
    for (size_t j = 0; j < n; j++)
        ret_sums[j] = 0;
    for (size_t i = 0; i < n; i++) {
        const float *row = attention + i * step;
        double of_row = 0;
        for (size_t j = 0; j < n; j++) {
            const double a = (double)row[j] * kept[i] * kept[j];
            of_row += a;
            ret_sums[j] += a;
        }
        ret_sums[i] += of_row;
        total += 2 * of_row;
    }
    return total;
}

HS_CLONES
static void row_add(const float *row, double weight, const double *kept, double correction,
                    const double *sums, size_t n, float *values)
{
    for (size_t j = 0; j < n; j++)
        values[j] += (float)(weight * (double)row[j] * kept[j] - correction * sums[j]);
}

void hs_contacts_add(hs_contacts *c, const float *attention, size_t channel)
{
    const size_t T = c->n_tokens, R = c->n;
    const double weight = (double)c->weights[channel];
    const float *first = attention + T + 1; /* of the first residue for itself */
    const double total = sums_find(first, T, c->kept, R, c->sums);
    for (size_t i = 0; i < R; i++)
        row_add(first + i * T, weight * c->kept[i], c->kept,
                total > 0 ? weight * c->sums[i] / (2 * total) : 0, c->sums, R, c->values + i * R);
}

void hs_contacts_finish(hs_contacts *c)
{
    const size_t R = c->n;
    for (size_t i = 0; i < R; i++)
        for (size_t j = 0; j <= i; j++) {
            const double sum = (double)c->values[i * R + j] + (double)c->values[j * R + i];
            const double p = 1 / (1 + exp(-sum - (double)c->bias));
            c->values[i * R + j] = c->values[j * R + i] = (float)p;
        }
}
