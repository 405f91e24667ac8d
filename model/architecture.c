/* architecture.c - reads tensors: converts F32, F16 and BF16 weights to float and checks that they are
 * finite. The conversion is exact. */
#include "model/architecture.h"
#include "model/base/clones.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors is little-endian, and so are we");

/* Loads go through memcpy because data may be unaligned; gcc turns them into vector loads. */
static inline uint32_t load_u16(const unsigned char *bytes, size_t i)
{
    uint16_t value;
    memcpy(&value, bytes + 2 * i, sizeof value);
    return value;
}

static inline float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static HS_CLONES void read_bf16(const unsigned char *bytes, size_t n, float *restrict ret)
{
    for (size_t i = 0; i < n; i++)
        ret[i] = float_of_bits(load_u16(bytes, i) << 16);
}

/* Moves exponent and mantissa to their places in a float and adds 112 to the exponent, the difference of the
 * biases (127 - 15). Exponent 31 (infinity and NaN) gets 112 twice and becomes 255. Subnormal halves are
 * integers times 2^-24. No step computes with subnormal floats, which are many times slower. */
static HS_CLONES void read_f16(const unsigned char *bytes, size_t n, float *restrict ret)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t half = load_u16(bytes, i), magnitude = half & 0x7fffU;
        uint32_t bits = (magnitude << 13) + (112U << 23);
        uint32_t special = magnitude >= 0x7c00U ? 112U << 23 : 0;
        uint32_t subnormal = bits_of_float((float)(int32_t)magnitude * 0x1p-24F);
        bits = magnitude < 0x0400U ? subnormal : bits + special;
        ret[i] = float_of_bits(bits | (half & 0x8000U) << 16);
    }
}

/* Converts n adjacent values from value `first` on. */
static void read_values(const hs_tensor *tensor, size_t first, size_t n, float *ret)
{
    const unsigned char *bytes = tensor->data;
    switch (tensor->dtype) {
    case HS_F32:
        if (n > 0)
            memcpy(ret, bytes + first * sizeof *ret, n * sizeof *ret);
        break;
    case HS_F16:
        read_f16(bytes + 2 * first, n, ret);
        break;
    case HS_BF16:
        read_bf16(bytes + 2 * first, n, ret);
        break;
    }
}

/* Reads rows of a transposed matrix: pieces of its columns, which are adjacent in the file. */
static void read_transposed(const hs_tensor *tensor, size_t row_first, size_t n_rows, float *ret)
{
    enum { AT_ONCE = 64 };
    float piece[AT_ONCE];
    for (size_t row = 0; row < n_rows; row += AT_ONCE) {
        const size_t n = n_rows - row < AT_ONCE ? n_rows - row : AT_ONCE;
        for (size_t c = 0; c < tensor->n_columns; c++) {
            read_values(tensor, c * tensor->column_step + row_first + row, n, piece);
            for (size_t i = 0; i < n; i++)
                ret[(row + i) * tensor->n_columns + c] = piece[i];
        }
    }
}

/* Reads n values from value `first` on, group by group. */
static void read_groups(const hs_tensor *tensor, size_t first, size_t n, float *ret)
{
    for (size_t done = 0, at_once; done < n; done += at_once) {
        const size_t group = (first + done) / tensor->group, within = (first + done) % tensor->group;
        const size_t rest = tensor->group - within;
        at_once = n - done < rest ? n - done : rest;
        read_values(tensor, group * tensor->group_step + within, at_once, ret + done);
    }
}

void hs_tensor_read(const hs_tensor *tensor, size_t row_first, size_t n_rows, float *ret)
{
    if (tensor->column_step > 0)
        read_transposed(tensor, row_first, n_rows, ret);
    else if (tensor->group > 0)
        read_groups(tensor, row_first * tensor->n_columns, n_rows * tensor->n_columns, ret);
    else
        read_values(tensor, row_first * tensor->n_columns, n_rows * tensor->n_columns, ret);
    for (size_t i = 0; tensor->factor != 0 && i < n_rows * tensor->n_columns; i++)
        ret[i] *= tensor->factor;
}

/* Returns the largest magnitude as bits. Infinity has larger bits than any number, and NaN larger ones
 * still. */
static HS_CLONES uint32_t largest_f32(const unsigned char *bytes, size_t n)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, bytes + 4 * i, sizeof bits);
        bits &= 0x7fffffffU;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

static HS_CLONES uint32_t largest_u16(const unsigned char *bytes, size_t n)
{
    uint16_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, bytes + 2 * i, sizeof bits);
        bits &= 0x7fffU;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

bool hs_tensor_is_finite(const hs_tensor *tensor)
{
    const size_t n = tensor->n_rows * tensor->n_columns;
    switch (tensor->dtype) {
    case HS_F32:
        return largest_f32(tensor->data, n) < 0x7f800000U;
    case HS_F16:
        return largest_u16(tensor->data, n) < 0x7c00U;
    case HS_BF16:
        return largest_u16(tensor->data, n) < 0x7f80U;
    }
    return false;
}
