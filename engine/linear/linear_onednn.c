/* linear_onednn.c - linear on oneDNN's inner product: weights reordered once into the layout it likes best,
 * bias added by it, activations by our own sweep, which is faster than its post-op and closer to exact.
 *
 * A primitive of oneDNN is compiled for one number of rows. Any number is made up of those we keep, so that
 * nothing is compiled while texts are served. Their scratch is ours, per call: the library's own belongs to
 * the thread that created the primitive, and other threads would silently compute nonsense in it. Unlike our
 * own kernels, the library allocates in a pass. */
#include "engine/arena.h"
#include "engine/linear/linear.h"

#if defined HS_WITH_ONEDNN

#include <dnnl.h>

void omp_set_num_threads(int n); /* of the OpenMP library that oneDNN runs on; for the calling thread only */

enum { SIZES = 8, ROWS_MAX = 1 << (SIZES - 1) }; /* primitives for 128, 64, ... 1 rows */

typedef struct onednn_linear {
    hs__linear base;
    dnnl_engine_t engine;
    dnnl_data_type_t type; /* of weights and input */
    size_t n_in;           /* base.n_in, made even for bf16 as the input's rows are */
    dnnl_memory_t weights, bias;
    dnnl_primitive_t products[SIZES]; /* [s] takes ROWS_MAX >> s rows */
    dnnl_memory_desc_t scratch[SIZES];
} onednn_linear;

static void onednn_destroy(hs__linear *base)
{
    onednn_linear *linear = (onednn_linear *)base;
    for (size_t s = 0; s < SIZES; s++)
        if (linear->products[s])
            dnnl_primitive_destroy(linear->products[s]);
    if (linear->weights)
        dnnl_memory_destroy(linear->weights);
    if (linear->bias)
        dnnl_memory_destroy(linear->bias);
    if (linear->engine)
        dnnl_engine_destroy(linear->engine);
    free(linear);
}

static dnnl_status_t describe(dnnl_memory_desc_t *ret_desc, size_t n_rows, size_t n_columns,
                              dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    const dnnl_dims_t dims = {(dnnl_dim_t)n_rows, (dnnl_dim_t)n_columns};
    return dnnl_memory_desc_init_by_tag(ret_desc, 2, dims, type, tag);
}

/* The product for n_rows rows; weights as described, where the tag may be any. */
static dnnl_status_t product_describe(const onednn_linear *linear, size_t n_rows,
                                      const dnnl_memory_desc_t *weights, dnnl_primitive_desc_t *ret_desc)
{
    const dnnl_dims_t n_out = {(dnnl_dim_t)linear->base.n_out};
    dnnl_memory_desc_t x, y, bias;
    dnnl_inner_product_desc_t product;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t st = describe(&x, n_rows, linear->n_in, linear->type, dnnl_ab);
    if (!st)
        st = describe(&y, n_rows, linear->base.n_out, dnnl_f32, dnnl_ab);
    if (!st)
        st = dnnl_memory_desc_init_by_tag(&bias, 1, n_out, dnnl_f32, dnnl_a);
    if (!st)
        st = dnnl_inner_product_forward_desc_init(&product, dnnl_forward_inference, &x, weights, &bias, &y);
    if (!st)
        st = dnnl_primitive_attr_create(&attr);
    if (!st)
        st = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (!st)
        st = dnnl_primitive_desc_create(ret_desc, &product, attr, linear->engine, NULL);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return st;
}

/* Chooses the layout of the weights by the largest product, and makes room for them and the bias. */
static dnnl_status_t make_room(onednn_linear *linear)
{
    const dnnl_dims_t n_out = {(dnnl_dim_t)linear->base.n_out};
    dnnl_memory_desc_t any, bias;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t st = describe(&any, linear->base.n_out, linear->n_in, linear->type, dnnl_format_tag_any);
    if (!st)
        st = product_describe(linear, ROWS_MAX, &any, &desc);
    if (!st)
        st =
            dnnl_memory_create(&linear->weights, dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0),
                               linear->engine, DNNL_MEMORY_ALLOCATE);
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    if (!st)
        st = dnnl_memory_desc_init_by_tag(&bias, 1, n_out, dnnl_f32, dnnl_a);
    return st ? st : dnnl_memory_create(&linear->bias, &bias, linear->engine, DNNL_MEMORY_ALLOCATE);
}

static dnnl_status_t make_products(onednn_linear *linear)
{
    const dnnl_memory_desc_t *weights;
    dnnl_status_t st = dnnl_memory_get_memory_desc(linear->weights, &weights);
    for (size_t s = 0; s < SIZES && !st; s++) {
        dnnl_primitive_desc_t desc = NULL;
        st = product_describe(linear, ROWS_MAX >> s, weights, &desc);
        if (!st)
            st = dnnl_primitive_create(&linear->products[s], desc);
        if (!st)
            linear->scratch[s] = *dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
        if (desc)
            dnnl_primitive_desc_destroy(desc);
    }
    return st;
}

/* Reorders rows [n_out][n_in] of floats into the weights. */
static dnnl_status_t reorder(const onednn_linear *linear, float *rows)
{
    const dnnl_memory_desc_t *weights;
    dnnl_memory_desc_t plain;
    dnnl_memory_t source = NULL;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_status_t st = dnnl_memory_get_memory_desc(linear->weights, &weights);
    if (!st)
        st = describe(&plain, linear->base.n_out, linear->n_in, dnnl_f32, dnnl_ab);
    if (!st)
        st = dnnl_memory_create(&source, &plain, linear->engine, rows);
    if (!st)
        st = dnnl_reorder_primitive_desc_create(&desc, &plain, linear->engine, weights, linear->engine, NULL);
    if (!st)
        st = dnnl_primitive_create(&primitive, desc);
    if (!st)
        st = dnnl_stream_create(&stream, linear->engine, dnnl_stream_default_flags);
    if (!st) {
        const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, linear->weights}};
        st = dnnl_primitive_execute(primitive, stream, 2, args);
    }
    if (stream)
        dnnl_stream_destroy(stream);
    if (primitive)
        dnnl_primitive_destroy(primitive);
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    if (source)
        dnnl_memory_destroy(source);
    return st;
}

static dnnl_status_t fill(onednn_linear *linear, const hs__linear_source *source, float *rows)
{
    const size_t n_out = linear->base.n_out;
    void *bias;
    for (size_t i = 0; i < n_out; i++) {
        rows[(i + 1) * linear->n_in - 1] = 0;
        hs__linear_read_weights(source, i, 1, rows + i * linear->n_in);
    }
    dnnl_status_t st = reorder(linear, rows);
    if (!st)
        st = dnnl_memory_get_data_handle(linear->bias, &bias);
    if (!st)
        hs__linear_read_biases(source, bias);
    return st;
}

static hs_status onednn_create(const hs__linear_source *source, const hs__kernels *kernels,
                               hs_precision precision, hs__linear **ret_linear, hs_error *err)
{
    onednn_linear *linear = calloc(1, sizeof *linear);
    if (!linear)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for weights");
    hs__linear_init(&linear->base, &hs__linear_onednn, source, kernels);
    linear->type = precision == HS_PRECISION_BF16 ? dnnl_bf16 : dnnl_f32;
    linear->n_in = precision == HS_PRECISION_BF16 ? hs__bf16_width(linear->base.n_in) : linear->base.n_in;

    float *rows = malloc(linear->base.n_out * linear->n_in * sizeof *rows);
    omp_set_num_threads(1);
    dnnl_status_t st = rows ? dnnl_engine_create(&linear->engine, dnnl_cpu, 0) : dnnl_out_of_memory;
    if (!st)
        st = make_room(linear);
    if (!st)
        st = make_products(linear);
    if (!st)
        st = fill(linear, source, rows);
    free(rows);
    if (st) {
        onednn_destroy(&linear->base);
        return st == dnnl_out_of_memory
                   ? hs_fail(err, HS_NO_MEMORY, "out of memory for weights")
                   : hs_fail(err, HS_UNSUPPORTED, "oneDNN cannot multiply here (%d)", st);
    }
    *ret_linear = &linear->base;
    return HS_OK;
}

/* Rows only, in chunks that the largest product likes. */
static hs__linear_split onednn_split(const hs__linear *linear, size_t n_rows, size_t n_threads)
{
    (void)linear;
    return (hs__linear_split){.n_row_chunks = n_threads < n_rows ? n_threads : n_rows, .n_column_chunks = 1};
}

/* products[s] for the rows at x. */
static dnnl_status_t multiply(const onednn_linear *linear, dnnl_stream_t stream, size_t s, const void *x,
                              float *y)
{
    const size_t n_rows = (size_t)ROWS_MAX >> s;
    dnnl_memory_desc_t x_desc, y_desc;
    dnnl_memory_t x_memory = NULL, y_memory = NULL, scratch = NULL;
    dnnl_status_t st = describe(&x_desc, n_rows, linear->n_in, linear->type, dnnl_ab);
    if (!st)
        st = describe(&y_desc, n_rows, linear->base.n_out, dnnl_f32, dnnl_ab);
    if (!st)
        st = dnnl_memory_create(&x_memory, &x_desc, linear->engine, (void *)x);
    if (!st)
        st = dnnl_memory_create(&y_memory, &y_desc, linear->engine, y);
    if (!st)
        st = dnnl_memory_create(&scratch, &linear->scratch[s], linear->engine, DNNL_MEMORY_ALLOCATE);
    if (!st) {
        const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, x_memory},
                                        {DNNL_ARG_WEIGHTS, linear->weights},
                                        {DNNL_ARG_BIAS, linear->bias},
                                        {DNNL_ARG_DST, y_memory},
                                        {DNNL_ARG_SCRATCHPAD, scratch}};
        st = dnnl_primitive_execute(linear->products[s], stream, 5, args);
    }
    if (x_memory)
        dnnl_memory_destroy(x_memory);
    if (y_memory)
        dnnl_memory_destroy(y_memory);
    if (scratch)
        dnnl_memory_destroy(scratch);
    return st;
}

static hs_status onednn_run(const hs__linear *base, hs__linear_split split, size_t n_rows, const void *x,
                            float *y, size_t row_chunk, size_t column_chunk)
{
    (void)column_chunk;
    const onednn_linear *linear = (const onednn_linear *)base;
    const size_t end = hs__chunk_start(n_rows, split.n_row_chunks, row_chunk + 1), n_out = base->n_out;
    const size_t x_row_bytes = linear->n_in * (linear->type == dnnl_bf16 ? sizeof(uint16_t) : sizeof(float));
    size_t row = hs__chunk_start(n_rows, split.n_row_chunks, row_chunk);
    dnnl_stream_t stream;

    omp_set_num_threads(1); /* cores are shared out by us */
    dnnl_status_t st = dnnl_stream_create(&stream, linear->engine, dnnl_stream_default_flags);
    if (st)
        return HS_NO_MEMORY;
    for (size_t s = 0; row < end && !st;) {
        const size_t n = (size_t)ROWS_MAX >> s;
        if (n > end - row) {
            s++;
            continue;
        }
        st = multiply(linear, stream, s, (const char *)x + row * x_row_bytes, y + row * n_out);
        if (base->activate)
            base->activate(n, n_out, y + row * n_out, n_out);
        row += n;
    }
    dnnl_stream_destroy(stream);
    return st ? HS_NO_MEMORY : HS_OK;
}

const hs__linear_kind hs__linear_onednn = {
    .name = "onednn",
    .create = onednn_create,
    .destroy = onednn_destroy,
    .split = onednn_split,
    .run = onednn_run,
};

#endif
