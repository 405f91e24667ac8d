/* steering.c - the vectors that interventions add to states: differences of two texts' states (Turner et al.
 * 2023). */
#include "api/internal.h"

#include <math.h>
#include <stdlib.h>

/* Returns the number of floats of a vector that is made of two texts; 0: of none. */
static size_t vector_floats(const hs_job *job, size_t i)
{
    return job->analysis.changes[i].n_sources == 2
               ? job->analysis.interventions[i].n_layers * job->analysis.model->shape->hidden
               : 0;
}

size_t hs__steering_bytes(const hs_job *job)
{
    size_t n = 0;
    for (size_t i = 0; i < job->analysis.n_interventions; i++)
        n += vector_floats(job, i);
    return n > 0 ? n * sizeof(float) + 2 * job->analysis.model->shape->hidden * sizeof(double) : 0;
}

/* Writes the state of a text to ret [hidden]: the mean over its tokens, or that of the last one. */
static void state_pool(const hs_capture *text, size_t state, bool last, double *ret)
{
    const size_t H = text->hidden, first = last ? text->n_tokens - 1 : 0;
    const float *x = hs_capture_state(text, state);
    for (size_t j = 0; j < H; j++)
        ret[j] = 0;
    for (size_t t = first; t < text->n_tokens; t++)
        for (size_t j = 0; j < H; j++)
            ret[j] += (double)x[t * H + j];
    for (size_t j = 0; j < H; j++)
        ret[j] /= (double)(text->n_tokens - first);
}

/* Writes the difference of two texts' states to ret [hidden]. pools is scratch, [2][hidden]. Returns false if
 * its product with the factor is beyond the range of floats. */
static bool difference_write(const hs_capture *const texts[2], size_t state, bool last, float factor,
                             double *pools, float *ret)
{
    const size_t H = texts[0]->hidden;
    bool is_finite = true;
    state_pool(texts[0], state, last, pools);
    state_pool(texts[1], state, last, pools + H);
    for (size_t j = 0; j < H; j++) {
        ret[j] = (float)(pools[j] - pools[H + j]);
        is_finite &= isfinite(factor * ret[j]) != 0;
    }
    return is_finite;
}

/* Makes the vector of the i-th intervention, a row for each of its states. */
static hs_status vector_make(hs_job *job, size_t i, const hs_capture *const texts[2], hs_error *err)
{
    hs_intervention *to = &job->analysis.interventions[i];
    const size_t n = vector_floats(job, i), H = texts[0]->hidden;
    float *vector = malloc(n * sizeof *vector);
    double *pools = malloc(2 * H * sizeof *pools);
    bool is_finite = true;
    if (!vector || !pools) {
        free(vector);
        free(pools);
        return hs_fail(err, HS_NO_MEMORY, "no memory for a vector to add");
    }
    for (size_t l = 0; l < to->n_layers; l++)
        is_finite &= difference_write(texts, to->layers[l], job->analysis.changes[i].last, to->factor, pools,
                                      vector + l * H);
    free(pools);
    if (!is_finite) {
        free(vector);
        return hs_fail(err, HS_INVALID,
                       "the difference of two texts' states, times factor, is beyond the range of floats: "
                       "send a smaller factor");
    }
    to->vector = vector;
    to->n_vector = n;
    return HS_OK;
}

hs_status hs__steering_bind(hs_job *job, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t i = 0; i < job->analysis.n_interventions && !st; i++) {
        const hs__change *change = &job->analysis.changes[i];
        if (vector_floats(job, i) == 0 || job->analysis.interventions[i].vector)
            continue;
        const hs_capture *const texts[2] = {job->sources[change->sources[0]].capture,
                                            job->sources[change->sources[1]].capture};
        if (texts[0] && texts[1])
            st = vector_make(job, i, texts, err);
    }
    return st;
}
