/* test_amx.c - products by AMX. The CPU's have the bits of the same code with tiles in plain C. These are
 * compared with sums in doubles, on any machine. Products of bfloat16 of every instruction set that this
 * CPU has are compared with doubles too. */
#include "engine/kernels/int8.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LANES     4
#define AMX_BF16  emulated_bf16_kernels
#define AMX_INT8  emulated_int8_kernels
#define AMX_INT24 emulated_int24_kernels
#include "engine/kernels/kernels_vec.h"
#include "tests/unit/amx_emulated.h"

static INLINE vec fused(vec a, vec b, vec c)
{
    for (size_t i = 0; i < LANES; i++)
        c[i] = fmaf(a[i], b[i], c[i]);
    return c;
}

static INLINE ivec rounded(vec v)
{
    ivec n = {0};
    for (size_t i = 0; i < LANES; i++)
        n[i] = (int32_t)lrintf(v[i]);
    return n;
}

static INLINE void store_bytes(uint8_t *p, ivec v)
{
    for (size_t i = 0; i < LANES; i++)
        p[i] = (uint32_t)v[i] > 255 ? 255 : (uint8_t)v[i];
}

static INLINE void store_digits(int8_t *p, ivec v)
{
    for (size_t i = 0; i < LANES; i++)
        p[i] = (int8_t)v[i];
}

/* Subnormal numbers become 0. */
static INLINE void store_bf16(uint16_t *p, vec v)
{
    for (size_t i = 0; i < LANES; i++) {
        const float x = flushed(v[i]);
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        p[i] = (uint16_t)(isnan(x) ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

#include "engine/kernels/int8_rows.h"

#include "engine/kernels/amx_body.h"

static uint32_t next_bits(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static float next_float(void) /* in [-1, 1) */
{
    return (float)(int32_t)next_bits() * 0x1p-31F;
}

/* Memory of zeros that begins on a cache line, as arenas do. */
static void *make(size_t n, size_t size)
{
    const size_t bytes = (n * size + 64) / 64 * 64;
    void *made = aligned_alloc(64, bytes);
    ck_assert_ptr_nonnull(made);
    return memset(made, 0, bytes);
}

static float *make_floats(size_t n)
{
    float *floats = make(n, sizeof *floats);
    for (size_t i = 0; i < n; i++)
        floats[i] = next_float();
    return floats;
}

/* Sets that go with the emulated tables' panels, whether this CPU has them or not. */
static const hs__kernels shape = {.panel = AMX_PANEL, .lanes = AMX_LANES};

static const hs__bf16_kernels *amx_bf16(void)
{
    const hs__bf16_kernels *bf16 = hs__bf16_kernels_select();
    return bf16 && strcmp(bf16->name, "amx") == 0 ? bf16 : NULL;
}

static const hs__int8_kernels *amx_int8(void)
{
    const hs__int8_kernels *int8 = hs__int8_kernels_select();
    return int8 && strcmp(int8->name, "amx") == 0 ? int8 : NULL;
}

/* ---- permission ---- */

/* Runs in a process of its own, whose signal stack is too small for tiles: 0 if AMX is refused and others are
 * taken. */
static int refused_code(void)
{
    static char small[8192]; /* above every minimum, below a frame with 8 KiB of tiles */
    const stack_t stack = {.ss_sp = small, .ss_size = sizeof small};
    if (sigaltstack(&stack, NULL))
        return 2;
    return hs__amx_permitted() || amx_bf16() || amx_int8() || !hs__kernels_select();
}

/* Stands first: a process that has the permission keeps it. */
START_TEST(what_the_system_refuses_is_not_used)
{
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        _exit(refused_code());
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

START_TEST(the_environment_forbids_and_demands)
{
    setenv(HS_KERNELS_VARIABLE, "avx512", 1);
    ck_assert(!hs__amx_permitted() && !amx_bf16() && !amx_int8());
    setenv(HS_KERNELS_VARIABLE, "amx", 1);
    const bool has = hs__amx_permitted();
    ck_assert_int_eq(hs__kernels_select() != NULL, has);
    ck_assert(!has || (amx_bf16() && amx_int8()));
    unsetenv(HS_KERNELS_VARIABLE);
    ck_assert_int_eq(hs__amx_permitted(), has);
}
END_TEST

/* ---- bits ---- */

/* Draws a finite bfloat16 whose exponent is `middle`, give or take `spread`. */
static uint32_t draw_half(int middle, int spread)
{
    int e = middle + (int)(next_bits() % (uint32_t)(2 * spread + 1)) - spread;
    e = e < 0 ? 0 : e > 254 ? 254 : e;
    return (next_bits() & 0x807f) | (uint32_t)e << 7;
}

static bool same_bits(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

/* Operands of all sizes, as no conversion makes them: one tile times one tile. */
START_TEST(tiles_have_the_bits_of_the_cpu)
{
    static const struct {
        const char *name;
        int middle, spread;
    } ranges[] = {{"about 1", 127, 3}, {"2^-20 to 2^20", 127, 20}, {"the smallest products", 64, 6},
                  {"subnormal", 2, 3}, {"overflowing", 190, 4},    {"any", 127, 127}};
    const hs__bf16_kernels *cpu = amx_bf16();
    uint32_t *x = make(256, sizeof *x), *b = make(256, sizeof *b);
    float *bias = make(16, sizeof *bias), *expected = make(256, sizeof *bias), *got = make(256, sizeof *bias);
    for (size_t r = 0; cpu && r < sizeof ranges / sizeof *ranges; r++)
        for (size_t round = 0; round < 200; round++) {
            const int middle = ranges[r].middle, spread = ranges[r].spread;
            for (size_t i = 0; i < 256; i++) {
                x[i] = draw_half(middle, spread) | draw_half(middle, spread) << 16;
                b[i] = draw_half(middle, spread) | draw_half(middle, spread) << 16;
            }
            for (size_t i = 0; i < 16; i++) {
                const uint32_t bits = draw_half(2 * middle - 127, spread) << 16 | (next_bits() & 0xffff);
                memcpy(&bias[i], &bits, sizeof bits);
            }
            emulated_bf16_kernels.product(16, 16, x, 16, b, 16, bias, NULL, expected, 16);
            cpu->product(16, 16, x, 16, b, 16, bias, NULL, got, 16);
            ck_assert_msg(same_bits(got, expected, 256), "%s", ranges[r].name);
        }
    free(x), free(b), free(bias), free(expected), free(got);
}
END_TEST

typedef struct problem {
    size_t n_rows, K, n;
    float *x, *w, *bias; /* [n_rows][K], [n][K], [n] rounded up */
} problem;

static problem make_problem(size_t n_rows, size_t K, size_t n)
{
    return (problem){n_rows, K, n, make_floats(n_rows * K), make_floats(n * K), make_floats(n + 64)};
}

static void free_problem(const problem *p)
{
    free(p->x), free(p->w), free(p->bias);
}

enum { BESIDE = 3, MARK = 7 }; /* numbers beside a row of y, which stay as they were */

static float *make_y(const problem *p)
{
    float *y = make(p->n_rows * (p->n + BESIDE), sizeof *y);
    for (size_t i = 0; i < p->n_rows * (p->n + BESIDE); i++)
        y[i] = MARK;
    return y;
}

static float *multiply_bf16(const hs__bf16_kernels *bf16, const problem *p)
{
    const size_t depth = bf16->depth(p->K), step = bf16->conversion.words(p->K);
    uint32_t *panels = make(depth * (p->n + AMX_LANES), sizeof *panels);
    uint32_t *x = make(p->n_rows * step, sizeof *x);
    float *y = make_y(p);
    hs__bf16_pack(bf16, &shape, p->K, p->n, p->w, panels);
    bf16->conversion.convert(p->n_rows, p->K, p->x, p->K, NULL, x);
    bf16->product(p->n_rows, depth, x, step, panels, p->n, p->bias, panels, y, p->n + BESIDE);
    free(panels), free(x);
    return y;
}

static float *multiply_int8(const hs__int8_kernels *int8, const problem *p)
{
    const size_t depth = int8->depth(p->K), step = int8->conversion.words(p->K), end = p->n + 64;
    uint32_t *panels = make(depth * end, sizeof *panels), *x = make(p->n_rows * step, sizeof *x);
    int32_t *sums = make(end, sizeof *sums);
    float *scales = make(end, sizeof *scales), *y = make_y(p);
    int8->conversion.convert(p->n_rows, p->K, p->x, p->K, NULL, x);
    for (size_t c = 0; c < p->n; c += int8->panel) {
        const size_t n = p->n - c < int8->panel ? p->n - c : int8->panel;
        hs__int8_pack(int8, p->K, n, p->w + c * p->K, panels + c * depth, scales + c, sums + c);
        int8->product(p->n_rows, depth, x, step, panels + c * depth, n, scales + c, sums + c, p->bias + c,
                      panels, y + c, p->n + BESIDE);
    }
    free(panels), free(x), free(sums), free(scales);
    return y;
}

/* Powers of two, as a linear makes them of its weights. */
static float *make_factors(const problem *p)
{
    float *factors = make(p->K + LANES, sizeof *factors);
    for (size_t k = 0; k < p->K; k++) {
        float most = 0;
        for (size_t c = 0; c < p->n; c++)
            most = fmaxf(most, fabsf(p->w[c * p->K + k]));
        factors[k] = most > 0 ? ldexpf(1, ilogbf(most)) : 1;
    }
    return factors;
}

static float *multiply_int24(const hs__int8_kernels *int24, const problem *p)
{
    const size_t depth = int24->depth(p->K), step = int24->conversion.words(p->K), end = p->n + 64;
    uint32_t *panels = make(depth * end, sizeof *panels), *x = make(p->n_rows * step, sizeof *x);
    float *scales = make(end, sizeof *scales), *factors = make_factors(p), *y = make_y(p);
    int24->conversion.convert(p->n_rows, p->K, p->x, p->K, factors, x);
    for (size_t c = 0; c < p->n; c += int24->panel) {
        const size_t n = p->n - c < int24->panel ? p->n - c : int24->panel;
        hs__int24_pack(p->K, n, p->w + c * p->K, factors, panels + c * depth, scales + c);
        int24->product(p->n_rows, depth, x, step, panels + c * depth, n, scales + c, NULL, p->bias + c,
                       panels, y + c, p->n + BESIDE);
    }
    free(panels), free(x), free(scales), free(factors);
    return y;
}

static const size_t sizes[][3] = {{1, 1, 1},    {7, 20, 5},     {16, 32, 16}, {17, 33, 48}, {31, 64, 47},
                                  {33, 65, 49}, {40, 144, 100}, {65, 96, 17}, {50, 768, 96}};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

START_TEST(products_have_the_bits_of_the_cpu)
{
    const problem p = make_problem(sizes[_i][0], sizes[_i][1], sizes[_i][2]);
    const size_t n = p.n_rows * (p.n + BESIDE);
    if (amx_bf16()) {
        float *expected = multiply_bf16(&emulated_bf16_kernels, &p), *got = multiply_bf16(amx_bf16(), &p);
        ck_assert(same_bits(got, expected, n));
        free(expected), free(got);
    }
    const hs__int8_kernels *int8; /* exact sums, so those of VNNI have the same bits */
    for (size_t set = 0; (int8 = hs__int8_kernels_at(set)); set++) {
        float *expected = multiply_int8(&emulated_int8_kernels, &p), *got = multiply_int8(int8, &p);
        ck_assert_msg(same_bits(got, expected, n), "%s", int8->name);
        free(expected), free(got);
    }
    if (hs__int24_kernels_select()) {
        float *expected = multiply_int24(&emulated_int24_kernels, &p);
        float *got = multiply_int24(hs__int24_kernels_select(), &p);
        ck_assert(same_bits(got, expected, n));
        free(expected), free(got);
    }
    free_problem(&p);
}
END_TEST

/* ---- numbers ---- */

/* Checks y, within `tolerance` of the sum of magnitudes, and what stands beside its rows. */
static void check_doubles(const char *name, const problem *p, const float *y, double tolerance)
{
    for (size_t i = 0; i < p->n_rows; i++) {
        for (size_t c = 0; c < p->n; c++) {
            double sum = p->bias[c], magnitude = fabs(sum);
            for (size_t k = 0; k < p->K; k++) {
                const double product = (double)p->x[i * p->K + k] * p->w[c * p->K + k];
                sum += product;
                magnitude += fabs(product);
            }
            const float got = y[i * (p->n + BESIDE) + c];
            ck_assert_msg(fabs(got - sum) <= tolerance * magnitude,
                          "%s: %zu %zu of %zu x %zu x %zu: %g, not %g", name, i, c, p->n_rows, p->K, p->n,
                          got, sum);
        }
        for (size_t c = p->n; c < p->n + BESIDE; c++)
            ck_assert(y[i * (p->n + BESIDE) + c] == MARK);
    }
}

/* Keeps 8 bits of each number, which bfloat16 has. */
static void shorten(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)lrintf(x[i] * 128) / 128;
}

START_TEST(products_are_near_those_of_doubles)
{
    const problem p = make_problem(sizes[_i][0], sizes[_i][1], sizes[_i][2]);
    float *y = multiply_int8(&emulated_int8_kernels, &p);
    check_doubles("int8", &p, y, 0.05);
    free(y);
    y = multiply_int24(&emulated_int24_kernels, &p);
    check_doubles("int24", &p, y, 5e-7);
    free(y);
    shorten(p.x, p.n_rows * p.K);
    shorten(p.w, p.n * p.K);
    const hs__bf16_kernels *bf16 = &emulated_bf16_kernels;
    for (size_t set = 0; bf16; bf16 = hs__bf16_kernels_at(set++)) {
        y = multiply_bf16(bf16, &p);
        check_doubles(bf16->name, &p, y, 4e-7);
        free(y);
    }
    free_problem(&p);
}
END_TEST

/* Large numbers with small weights, as trained models have them, leave the others their digits. */
START_TEST(factors_keep_digits_beside_outliers)
{
    const problem p = make_problem(20, 300, 50);
    for (size_t i = 0; i < p.n_rows; i++)
        p.x[i * p.K + 7] *= 1e4F;
    for (size_t c = 0; c < p.n; c++)
        p.w[c * p.K + 7] *= 1e-4F;
    float *y = multiply_int24(&emulated_int24_kernels, &p);
    check_doubles("int24", &p, y, 5e-7);
    free(y);
    free_problem(&p);
}
END_TEST

START_TEST(int24_rows_stand_alone)
{
    const problem p = make_problem(75, 300, 70);
    p.x[20 * p.K + 299] = NAN;
    p.x[40 * p.K] = -INFINITY;
    memset(p.x + 50 * p.K, 0, p.K * sizeof *p.x);
    float *together = multiply_int24(&emulated_int24_kernels, &p);
    for (size_t i = 0; i < p.n_rows; i++) {
        const problem one = {1, p.K, p.n, p.x + i * p.K, p.w, p.bias};
        float *alone = multiply_int24(&emulated_int24_kernels, &one);
        ck_assert(same_bits(alone, together + i * (p.n + BESIDE), p.n));
        for (size_t c = 0; c < p.n; c++)
            ck_assert_int_eq(isnan(alone[c]) != 0, i == 20 || i == 40);
        ck_assert(i != 50 || same_bits(alone, p.bias, p.n));
        free(alone);
    }
    free(together);
    free_problem(&p);
}
END_TEST

START_TEST(a_wider_row_never_has_fewer_words)
{
    const hs__bf16_kernels *bf16 = &emulated_bf16_kernels;
    for (size_t set = 0; bf16; bf16 = hs__bf16_kernels_at(set++))
        for (size_t n = 1; n < 5000; n++)
            ck_assert_uint_le(bf16->conversion.words(n), bf16->conversion.words(n + 1));
    const hs__int8_kernels *int8 = hs__int8_kernels_at(0);
    for (size_t set = 1; int8; int8 = hs__int8_kernels_at(set++))
        for (size_t n = 1; n < 5000; n++)
            ck_assert_uint_le(int8->conversion.words(n), int8->conversion.words(n + 1));
}
END_TEST

START_TEST(bf16_rows_do_not_depend_on_their_neighbours)
{
    const problem p = make_problem(75, 300, 70);
    const hs__bf16_kernels *bf16 = &emulated_bf16_kernels;
    for (size_t set = 0; bf16; bf16 = hs__bf16_kernels_at(set++)) {
        float *together = multiply_bf16(bf16, &p);
        for (size_t n = 1; n < p.n_rows; n += 11) {
            const size_t first = p.n_rows - n;
            const problem some = {n, p.K, p.n, p.x + first * p.K, p.w, p.bias};
            float *alone = multiply_bf16(bf16, &some);
            ck_assert(same_bits(alone, together + first * (p.n + BESIDE), n * (p.n + BESIDE)));
            free(alone);
        }
        free(together);
    }
    free_problem(&p);
}
END_TEST

START_TEST(numbers_that_are_not_finite_stay_so)
{
    const problem p = make_problem(20, 40, 20);
    const hs__bf16_kernels *bf16 = &emulated_bf16_kernels;
    p.x[3 * p.K + 5] = NAN;
    p.x[7 * p.K + 39] = INFINITY;
    for (size_t set = 0; bf16; bf16 = hs__bf16_kernels_at(set++)) {
        float *y = multiply_bf16(bf16, &p);
        for (size_t i = 0; i < p.n_rows; i++)
            for (size_t c = 0; c < p.n; c++)
                ck_assert_int_eq(isfinite(y[i * (p.n + BESIDE) + c]) != 0, i != 3 && i != 7);
        free(y);
    }
    free_problem(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("amx");
    TCase *tcase = tcase_create("against plain C");
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, what_the_system_refuses_is_not_used);
    tcase_add_test(tcase, the_environment_forbids_and_demands);
    tcase_add_test(tcase, a_wider_row_never_has_fewer_words);
    tcase_add_test(tcase, tiles_have_the_bits_of_the_cpu);
    tcase_add_loop_test(tcase, products_have_the_bits_of_the_cpu, 0, N_SIZES);
    tcase_add_loop_test(tcase, products_are_near_those_of_doubles, 0, N_SIZES);
    tcase_add_test(tcase, factors_keep_digits_beside_outliers);
    tcase_add_test(tcase, int24_rows_stand_alone);
    tcase_add_test(tcase, bf16_rows_do_not_depend_on_their_neighbours);
    tcase_add_test(tcase, numbers_that_are_not_finite_stay_so);
    suite_add_tcase(suite, tcase);
    return tests_run(suite);
}
