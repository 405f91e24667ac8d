/* head_figures.c - writes the figures of heads. */
#include "api/head_figures.h"

static bool is_answered(const hs__head_figure *figure, const hs__answer *a)
{
    return !figure->is_answered || figure->is_answered(a);
}

static float value(const hs__head_figure *figure, const void *head)
{
    return *(const float *)(const void *)((const char *)head + figure->offset);
}

void hs__head_figures_write(hs_buffer *b, const hs__answer *a, const hs__head_figure *figures, size_t n,
                            const void *head)
{
    bool first = true;
    for (const hs__head_figure *figure = figures; figure < figures + n; figure++) {
        if (!is_answered(figure, a))
            continue;
        hs_buffer_text(b, first ? "\"" : ",\"");
        hs_buffer_text(b, figure->name);
        hs_buffer_text(b, "\":");
        hs__json_float(b, value(figure, head), (int)a->analysis->digits);
        first = false;
    }
}

void hs__head_figures_add(hs_arrays *arrays, const hs__answer *a, const hs__head_figure *figures, size_t n,
                          const void *heads, size_t size)
{
    const size_t n_layers = a->analysis->n_layers, n_heads = a->analysis->n_heads;
    for (const hs__head_figure *figure = figures; figure < figures + n; figure++) {
        if (!is_answered(figure, a))
            continue;
        float *to = hs_arrays_add(arrays, figure->array, HS_ELEMENT_F4, 2, n_layers, n_heads);
        for (size_t i = 0; i < n_layers * n_heads && to; i++)
            to[i] = value(figure, (const char *)heads + i * size);
    }
}
