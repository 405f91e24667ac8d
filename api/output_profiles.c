/* output_profiles.c - attention profiles of heads: attention to neighbours, special tokens, punctuation and
 * repeated tokens, and the class by Clark et al. (2019). Includes special tokens regardless of
 * special_tokens. */
#include "api/head_figures.h"
#include "api/output_structures.h"

#include <stdlib.h>

static const char *const labels[] = {"position", "special", "broad", "other"}; /* as hs_head_label */

/* The figures by name, in the order of the answer. */
static const hs__head_figure figures[] = {
#define FIGURE(name) HS__HEAD_FIGURE("profiles", hs_head_profile, name, NULL)
    FIGURE(self),          FIGURE(previous),    FIGURE(next),          FIGURE(first),
    FIGURE(separator),     FIGURE(punctuation), FIGURE(same_token),    FIGURE(entropy),
    FIGURE(entropy_first), FIGURE(confidence),  FIGURE(mean_distance),
#undef FIGURE
};
#define N_FIGURES (sizeof figures / sizeof *figures)
#define N_OFFSETS ((size_t)2 * HS_PROFILE_REACH + 1)

/* marks is scratch of 3 T bytes. */
static hs_token_kinds find_kinds(const hs_encoding *e, int32_t *first, uint8_t *marks)
{
    const size_t T = e->n_tokens;
    hs_repeats_find(e->ids, T, first);
    for (size_t i = 0; i < T; i++) {
        marks[i] = e->roles[i] == HS_ROLE_FIRST;
        marks[T + i] = e->roles[i] == HS_ROLE_SEPARATOR;
        marks[2 * T + i] = e->roles[i] == HS_ROLE_SENTENCE_END || e->roles[i] == HS_ROLE_COMMA;
    }
    return (hs_token_kinds){T, first, marks, marks + T, marks + 2 * T};
}

static hs_status compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    const size_t T = a->encoding->n_tokens, n = a->analysis->n_layers * a->analysis->n_heads;
    hs_head_profile *profiles = calloc(n, sizeof *profiles);
    int32_t *first = malloc(T * (sizeof *first + 3));
    *ret_result = profiles;
    if (!profiles || !first) {
        free(first);
        return hs_fail(err, HS_NO_MEMORY, "no memory for profiles");
    }
    const hs_token_kinds kinds = find_kinds(a->encoding, first, (uint8_t *)(first + T));
    for (size_t i = 0; i < n && !hs__answer_cancelled(a); i++) {
        const size_t l = i / a->analysis->n_heads, h = i % a->analysis->n_heads;
        hs_head_profile_find(hs__answer_at(a, HS_TAP_ATTENTION, l, h), &kinds, &profiles[i]);
    }
    free(first);
    return HS_OK;
}

static void write_head(hs_buffer *b, const hs__answer *a, const void *result, size_t at)
{
    const hs_head_profile *profile = &((const hs_head_profile *)result)[at];
    const int digits = (int)a->analysis->digits;
    hs_buffer_text(b, "{\"label\":\"");
    hs_buffer_text(b, labels[profile->label]);
    hs_buffer_text(b, "\",");
    hs__head_figures_write(b, a, figures, N_FIGURES, profile);
    hs__json_key(b, "offsets");
    hs__json_floats(b, profile->offsets, N_OFFSETS, digits);
    hs_buffer_text(b, "}");
}

static void add_offsets(hs_arrays *arrays, const hs_head_profile *profiles, size_t n_layers, size_t n_heads)
{
    const size_t shape[] = {n_layers, n_heads, N_OFFSETS};
    float *to = hs_arrays_add_block(arrays, "profiles_offsets", HS_ELEMENT_F4, 3, shape);
    for (size_t i = 0; i < n_layers * n_heads && to; i++)
        for (size_t k = 0; k < N_OFFSETS; k++)
            to[i * N_OFFSETS + k] = profiles[i].offsets[k];
}

static void add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
{
    const hs_head_profile *profiles = result;
    const size_t n_layers = a->analysis->n_layers, n_heads = a->analysis->n_heads;
    hs__head_figures_add(arrays, a, figures, N_FIGURES, profiles, sizeof *profiles);
    add_offsets(arrays, profiles, n_layers, n_heads);
    uint8_t *to = hs_arrays_add(arrays, "profiles_label", HS_ELEMENT_U1, 2, n_layers, n_heads);
    for (size_t i = 0; i < n_layers * n_heads && to; i++)
        to[i] = (uint8_t)profiles[i].label;
}

static size_t json_bytes_max(const hs__measures *m)
{
    return m->n_heads * (240 + (N_FIGURES + N_OFFSETS) * m->number);
}

static size_t array_bytes_max(const hs__measures *m)
{
    return m->n_heads * (4 * (N_FIGURES + N_OFFSETS) + 1);
}

const hs__structure hs__structure_profiles = {
    .compute = compute,
    .destroy = free,
    .write_head = write_head,
    .add_arrays = add_arrays,
    .json_bytes_max = json_bytes_max,
    .array_bytes_max = array_bytes_max,
};
