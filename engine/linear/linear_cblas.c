/* linear_cblas.c - linear with CBLAS: weights are rows in our own memory, bias and activation a second
 * loop. OpenBLAS is loaded when an engine uses it and not before: it reserves 128 MiB of addresses or more.
 */
#include "engine/linear/linear.h"

#include <cblas.h>
#include <dlfcn.h>
#include <sys/resource.h>

/* The library's functions that are used. */
typedef struct openblas {
    __typeof__(cblas_sgemm) *sgemm;
    __typeof__(openblas_get_num_threads) *get_num_threads;
    __typeof__(openblas_set_num_threads) *set_num_threads;
} openblas;

typedef struct openblas_linear {
    hs__linear base;
    openblas library;
    float *weight; /* [n_out][n_in] */
    float *bias;   /* [n_out] */
} openblas_linear;

/* Loads the library, which stays until the program ends. HS_UNSUPPORTED says what to do. */
static hs_status library_load(openblas *ret, hs_error *err)
{
    struct rlimit addresses;
    if (getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY)
        return hs_fail(err, HS_UNSUPPORTED,
                       "OpenBLAS never ends if it gets no addresses, and ulimit -v limits them: use the "
                       "native backend, or lift the limit");
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    const struct {
        const char *name;
        void **function;
    } list[] = {{"cblas_sgemm", (void **)&ret->sgemm},
                {"openblas_get_num_threads", (void **)&ret->get_num_threads},
                {"openblas_set_num_threads", (void **)&ret->set_num_threads}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!library || !(*list[i].function = dlsym(library, list[i].name)))
            return hs_fail(err, HS_UNSUPPORTED,
                           "the openblas backend needs OpenBLAS (%s): install Debian's package "
                           "libopenblas0-pthread, or use native",
                           dlerror());
    /* More BLAS threads are wrong, not only slow: concurrent calls of several threads can corrupt each
     * other (OpenBLAS issue 5836). Teams share the cores instead. */
    if (ret->get_num_threads() > 1)
        ret->set_num_threads(1);
    return HS_OK;
}

static void layout(hs__linear *base, hs__arena *arena)
{
    openblas_linear *linear = (openblas_linear *)base;
    linear->weight = hs__arena_floats(arena, base->n_out * base->n_in);
    linear->bias = hs__arena_floats(arena, base->n_out);
}

static void fill(hs__linear *base, const hs__linear_source *source, float *rows)
{
    openblas_linear *linear = (openblas_linear *)base;
    (void)rows;
    hs__linear_read_weights(source, 0, base->n_out, linear->weight);
    hs__linear_read_biases(source, linear->bias);
}

static hs_status openblas_create(const hs__linear_source *source, const hs__kernels *kernels,
                                 hs_precision precision, hs__linear **ret_linear, hs_error *err)
{
    (void)precision; /* always fp32 here: the engine checks it */
    openblas_linear plan = {0};
    const hs_status st = library_load(&plan.library, err);
    if (st)
        return st;
    hs__linear_init(&plan.base, &hs__linear_openblas, source, kernels);
    return hs__linear_build(&plan.base, 0, source, ret_linear, err);
}

/* Divides by rows only: the library blocks the rest. */
static hs__linear_split openblas_split(const hs__linear *linear, size_t n_rows, size_t n_threads)
{
    (void)linear;
    return (hs__linear_split){.n_row_chunks = n_threads < n_rows ? n_threads : n_rows, .n_column_chunks = 1};
}

static void openblas_run(const hs__linear *base, hs__linear_split split, size_t n_rows, const void *x,
                         float *y, size_t row_chunk, size_t column_chunk)
{
    (void)column_chunk;
    const openblas_linear *linear = (const openblas_linear *)base;
    const size_t n_out = base->n_out, row = hs__chunk_start(n_rows, split.n_row_chunks, row_chunk);
    const size_t rows = hs__chunk_start(n_rows, split.n_row_chunks, row_chunk + 1) - row;
    const int m = (int)rows, n = (int)n_out, k = (int)base->n_in;
    float *out = y + row * n_out;

    linear->library.sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1,
                          (const float *)x + row * base->n_in, k, linear->weight, k, 0, out, n); /* x W' */
    base->kernels->add_bias(rows, n_out, linear->bias, out, n_out);
    if (base->activate)
        base->activate(rows, n_out, out, n_out);
}

const hs__linear_kind hs__linear_openblas = {
    .name = "openblas",
    .create = openblas_create,
    .bytes = sizeof(openblas_linear),
    .layout = layout,
    .fill = fill,
    .split = openblas_split,
    .run = openblas_run,
};
