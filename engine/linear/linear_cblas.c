/* linear_cblas.c - linear with CBLAS: weights are rows in our own memory, bias and activation a second
 * loop. OpenBLAS is loaded when an engine uses it and not before: it reserves 128 MiB of addresses or more.
 */
#include "engine/linear/linear.h"

#include <cblas.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* The library's functions that are used. */
typedef struct openblas {
    __typeof__(cblas_sgemm) *sgemm;
    __typeof__(openblas_get_num_threads) *get_num_threads;
    __typeof__(openblas_set_num_threads) *set_num_threads;
    __typeof__(openblas_get_config) *get_config;
    __typeof__(openblas_get_corename) *get_corename;
} openblas;

typedef struct cblas_linear {
    hs__linear base;
    openblas library;
    float *weight; /* [n_out][n_in] */
    float *bias;   /* [n_out] */
} cblas_linear;

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
                {"openblas_set_num_threads", (void **)&ret->set_num_threads},
                {"openblas_get_config", (void **)&ret->get_config},
                {"openblas_get_corename", (void **)&ret->get_corename}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!library || !(*list[i].function = dlsym(library, list[i].name)))
            return hs_fail(err, HS_UNSUPPORTED,
                           "the cblas backend needs OpenBLAS (%s): install Debian's package "
                           "libopenblas0-pthread, or use native",
                           dlerror());
    /* More BLAS threads are wrong, not only slow: concurrent calls of several threads can corrupt each
     * other (OpenBLAS issue 5836). Teams share the cores instead. */
    if (ret->get_num_threads() > 1)
        ret->set_num_threads(1);
    return HS_OK;
}

void hs__cblas_describe(char *ret_text, size_t n_bytes)
{
    openblas library;
    hs_error err = {0};
    if (library_load(&library, &err)) {
        snprintf(ret_text, n_bytes, "%s", err.text);
        return;
    }
    /* The configuration begins "OpenBLAS 0.3.21 NO_LAPACKE ...". */
    const char *config = library.get_config(), *space = strchr(config, ' ');
    const int length = (int)(space ? strcspn(space + 1, " ") + (size_t)(space + 1 - config) : strlen(config));
    snprintf(ret_text, n_bytes, "%.*s, %s", length, config, library.get_corename());
}

static void cblas_layout(hs__linear *base, hs__arena *arena)
{
    cblas_linear *linear = (cblas_linear *)base;
    linear->weight = hs__arena_floats(arena, base->n_out * base->n_in);
    linear->bias = hs__arena_floats(arena, base->n_out);
}

static void cblas_fill(hs__linear *base, const hs__linear_source *source, float *rows)
{
    cblas_linear *linear = (cblas_linear *)base;
    (void)rows;
    hs__linear_read_weights(source, 0, base->n_out, linear->weight);
    hs__linear_read_biases(source, linear->bias);
}

static hs_status cblas_create(const hs__linear_source *source, const hs__kernels *kernels,
                              hs_precision precision, hs__linear **ret_linear, hs_error *err)
{
    (void)precision; /* always fp32 here: the engine checks it */
    cblas_linear plan = {0};
    const hs_status st = library_load(&plan.library, err);
    if (st)
        return st;
    hs__linear_init(&plan.base, &hs__linear_cblas, source, kernels);
    return hs__linear_build(&plan.base, 0, source, ret_linear, err);
}

/* Divides by rows only: the library blocks the rest. */
static hs__linear_split cblas_split(const hs__linear *linear, size_t n_rows, size_t n_threads)
{
    (void)linear;
    return (hs__linear_split){.n_row_chunks = n_threads < n_rows ? n_threads : n_rows, .n_column_chunks = 1};
}

static void cblas_run(const hs__linear *base, hs__linear_split split, size_t n_rows, const void *x, float *y,
                      size_t row_chunk, size_t column_chunk)
{
    (void)column_chunk;
    const cblas_linear *linear = (const cblas_linear *)base;
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

const hs__linear_kind hs__linear_cblas = {
    .name = "openblas",
    .create = cblas_create,
    .bytes = sizeof(cblas_linear),
    .layout = cblas_layout,
    .fill = cblas_fill,
    .split = cblas_split,
    .run = cblas_run,
};
