/* linear.c - functions that all implementations share: reading weights from the model's file. */
#include "engine/linear/linear.h"

#include <stdlib.h>
#include <string.h>

void hs__linear_init(hs__linear *linear, const hs__linear_kind *kind, const hs__linear_source *source,
                     const hs__kernels *kernels)
{
    *linear = (hs__linear){.kind = kind, .kernels = kernels, .activate = source->activate};
    linear->n_in = source->parts[0]->weight.n_columns;
    for (size_t p = 0; p < source->n_parts; p++)
        linear->n_out += source->parts[p]->weight.n_rows;
}

hs_status hs__linear_build(hs__linear *plan, size_t panel, const hs__linear_source *source,
                           hs__linear **ret_linear, hs_error *err)
{
    const hs__linear_kind *kind = plan->kind;
    hs__arena arena = {0};
    hs__arena_take(&arena, kind->bytes);
    kind->layout(plan, &arena);
    arena = (hs__arena){.base = hs_memory_create(arena.used)};
    float *rows = malloc((panel * plan->n_in + 1) * sizeof *rows); /* of one panel, as in the file */
    if (!arena.base || !rows) {
        free(arena.base);
        free(rows);
        return hs_fail(err, HS_NO_MEMORY, "out of memory for weights of %zu x %zu", plan->n_out, plan->n_in);
    }
    hs__linear *linear = *ret_linear = hs__arena_take(&arena, kind->bytes);
    memcpy(linear, plan, kind->bytes);
    kind->layout(linear, &arena);
    kind->fill(linear, source, rows);
    free(rows);
    return HS_OK;
}

void hs__linear_read_weights(const hs__linear_source *source, size_t first, size_t n_rows, float *ret)
{
    for (size_t p = 0; p < source->n_parts && n_rows > 0; p++) {
        const hs_tensor *weight = &source->parts[p]->weight;
        if (first < weight->n_rows) {
            const size_t n = n_rows < weight->n_rows - first ? n_rows : weight->n_rows - first;
            hs_tensor_read(weight, first, n, ret);
            ret += n * weight->n_columns;
            n_rows -= n;
            first = 0;
        } else {
            first -= weight->n_rows;
        }
    }
}

void hs__linear_read_biases(const hs__linear_source *source, float *ret)
{
    for (size_t p = 0; p < source->n_parts; p++) {
        const hs_tensor *bias = &source->parts[p]->bias;
        const size_t n = source->parts[p]->weight.n_rows;
        if (bias->data)
            hs_tensor_read(bias, 0, 1, ret);
        else
            memset(ret, 0, n * sizeof *ret);
        ret += n;
    }
}

hs__linear_split hs__linear_split_panels(size_t n_out, size_t panel, size_t tile_rows, size_t n_rows,
                                         size_t n_threads)
{
    const size_t n_tasks_target = 12 * n_threads, rows_min = 2 * tile_rows;
    const size_t n_panels = (n_out + panel - 1) / panel;
    size_t n_row_chunks = n_threads > 1 ? (n_tasks_target + n_panels - 1) / n_panels : 1;
    if (n_row_chunks > n_rows / rows_min)
        n_row_chunks = n_rows / rows_min;
    if (n_row_chunks == 0)
        n_row_chunks = 1;
    return (hs__linear_split){.n_row_chunks = n_row_chunks,
                              .n_column_chunks = n_panels,
                              .n_ahead = n_threads > n_row_chunks ? n_threads / n_row_chunks : 1};
}

size_t hs__linear_tasks(const hs__linear *linear, size_t n_rows, size_t n_threads)
{
    const hs__linear_split split = linear->kind->split(linear, n_rows, n_threads);
    return split.n_row_chunks * split.n_column_chunks;
}

void hs__linear_run(const hs__linear *linear, size_t n_rows, size_t n_threads, const void *x, float *y,
                    size_t task)
{
    const hs__linear_split split = linear->kind->split(linear, n_rows, n_threads);
    const size_t row_chunk = split.rows_outside ? task / split.n_column_chunks : task % split.n_row_chunks;
    const size_t column_chunk = split.rows_outside ? task % split.n_column_chunks : task / split.n_row_chunks;
    linear->kind->run(linear, split, n_rows, x, y, row_chunk, column_chunk);
}

void hs__linear_destroy(hs__linear *linear)
{
    free(linear);
}
