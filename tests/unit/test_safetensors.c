/* test_safetensors.c - hostile headers: a table of cases, each with its error message. */
#include "model/files/shards.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* A file of its own heap block, exactly as long as its contents: reading past it is seen by the sanitizers.
 */
static hs_bytes make_file(const char *header, size_t data_bytes)
{
    size_t n = strlen(header), size = 8 + n + data_bytes;
    unsigned char *file = malloc(size);
    ck_assert_ptr_nonnull(file);
    uint64_t n_le = n;
    memcpy(file, &n_le, 8);
    for (size_t i = 0; i < n; i++)
        file[8 + i] = (unsigned char)header[i];
    for (size_t i = 0; i < data_bytes; i++)
        file[8 + n + i] = (unsigned char)i;
    return (hs_bytes){file, size};
}

#define TENSOR(name, dtype, shape, begin, end)                                                               \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

static const struct {
    const char *header;
    size_t data_bytes;
    const char *message; /* NULL: accepted */
} headers[] = {
    {"{}", 0, NULL},
    {"{}      ", 0, NULL},
    {"{\"__metadata__\":{\"format\":\"pt\"}}", 0, NULL},
    {"{" TENSOR("a", "F32", "[2,3]", 0, 24) "}", 24, NULL},
    {"{" TENSOR("a", "I64", "[]", 0, 8) "," TENSOR("b", "U8", "[0,7]", 8, 8) "}", 8, NULL},
    {"{" TENSOR("b", "F16", "[3]", 4, 10) "," TENSOR("a", "F32", "[1]", 0, 4) "}", 10, NULL},
    {"{" TENSOR("b", "U8", "[0]", 0, 0) "," TENSOR("a", "U8", "[0]", 0, 0) "}", 0, NULL},
    {"{" TENSOR("a", "U8", "[1,1,1,1,1]", 0, 1) "}", 1, NULL},
    {"", 0, "does not begin with {"},
    {" {}", 0, "does not begin with {"},
    {"[]", 0, "does not begin with {"},
    {"{", 0, "not valid JSON"},
    {"{}{}", 0, "not valid JSON"},
    {"{\"a\":{}}", 0, "unknown dtype of tensor a"},
    {"{\"a\":7}", 0, "unknown dtype of tensor a"},
    {"{\"a\":null}", 0, "unknown dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "bad shape of tensor a"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "bad data_offsets of tensor a"},
    {"{" TENSOR("a", "F128", "[1]", 0, 16) "}", 16, "unknown dtype of tensor a"},
    {"{" TENSOR("a", "f32", "[1]", 0, 4) "}", 4, "unknown dtype of tensor a"},
    {"{" TENSOR("a", "F32", "[-1]", 0, 4) "}", 4, "bad shape"},
    {"{" TENSOR("a", "F32", "[1.0]", 0, 4) "}", 4, "bad shape"},
    {"{" TENSOR("a", "F32", "[\"1\"]", 0, 4) "}", 4, "bad shape"},
    {"{" TENSOR("a", "F32", "1", 0, 4) "}", 4, "bad shape"},
    {"{" TENSOR("a", "F32", "{}", 0, 4) "}", 4, "bad shape"},
    {"{" TENSOR("a", "F32", "[4611686018427387904]", 0, 0) "}", 0, "bad shape"},
    {"{" TENSOR("a", "F32", "[4294967296,4294967296]", 0, 0) "}", 0, "bad shape"},
    {"{" TENSOR("a", "F32", "[9223372036854775807,9223372036854775807,0]", 0, 0) "}", 0, "bad shape"},
    {"{" TENSOR("a", "F32", "[2,3]", 0, 23) "}", 23, "do not fit"},
    {"{" TENSOR("a", "F32", "[2,3]", 0, 25) "}", 25, "do not fit"},
    {"{" TENSOR("a", "F32", "[2,3]", 24, 0) "}", 24, "bad data_offsets"},
    {"{" TENSOR("a", "F32", "[1]", -4, 0) "}", 4, "bad data_offsets"},
    {"{" TENSOR("a", "F32", "[1]", 0.0, 4) "}", 4, "bad data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "bad data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":4}}", 4, "bad data_offsets"},
    {"{" TENSOR("a", "F32", "[1]", 9223372036854775803, 9223372036854775807) "}", 4, "gap or an overlap"},
    {"{" TENSOR("a", "F32", "[1]", 4, 8) "}", 8, "gap or an overlap at data offset 0"},
    {"{" TENSOR("a", "F32", "[1]", 0, 4) "," TENSOR("b", "F32", "[1]", 8, 12) "}", 12,
     "a gap or an overlap at data offset 4"},
    {"{" TENSOR("a", "F32", "[2]", 0, 8) "," TENSOR("b", "F32", "[1]", 4, 8) "}", 8, "overlap"},
    {"{" TENSOR("a", "F32", "[1]", 0, 4) "," TENSOR("b", "F32", "[1]", 0, 4) "}", 4, "overlap"},
    {"{" TENSOR("a", "F32", "[1]", 0, 4) "," TENSOR("a", "F32", "[1]", 4, 8) "}", 8, "duplicate object key"},
    {"{" TENSOR("a", "F32", "[1]", 0, 4) "}", 5, "has 5 bytes, but the header describes 4"},
    {"{" TENSOR("a", "F32", "[1]", 0, 4) "}", 3, "has 3 bytes, but the header describes 4"},
    {"{}", 1, "has 1 bytes"},
};

START_TEST(header)
{
    hs_bytes file = make_file(headers[_i].header, headers[_i].data_bytes);
    hs__safetensors tensors = {0};
    hs_error err = {0};
    hs_status st = hs__safetensors_parse(&file, "x.safetensors", &tensors, &err);
    if (!headers[_i].message) {
        ck_assert_msg(st == HS_OK, "%s\n gave: %s", headers[_i].header, err.text);
    } else {
        ck_assert_int_eq(st, HS_BAD_MODEL);
        ck_assert_ptr_eq(strstr(err.text, "x.safetensors: "), err.text);
        ck_assert_msg(strstr(err.text, headers[_i].message) != NULL, "%s\n gave: %s", headers[_i].header,
                      err.text);
        ck_assert_ptr_null(tensors.header);
    }
    hs__safetensors_finish(&tensors);
    free((void *)file.data);
}
END_TEST

/* The first eight bytes, over 16 bytes of file. */
static const struct {
    uint64_t header_bytes;
    const char *message;
} lengths[] = {
    {0, "does not begin with {"},
    {9, "the header ends after the file"},
    {100000000, "ends after the file"},
    {UINT64_MAX, "ends after the file"},
    {UINT64_MAX - 7, "ends after the file"},
    {(uint64_t)1 << 63, "ends after the file"},
};

START_TEST(header_length)
{
    char bytes[] = "        {}      ";
    memcpy(bytes, &lengths[_i].header_bytes, 8);
    hs__safetensors tensors = {0};
    hs_error err = {0};
    ck_assert_int_eq(
        hs__safetensors_parse(&(hs_bytes){(const unsigned char *)bytes, 16}, "x", &tensors, &err),
        HS_BAD_MODEL);
    ck_assert_msg(strstr(err.text, lengths[_i].message) != NULL, "%s", err.text);
}
END_TEST

START_TEST(huge_header_is_refused_before_it_is_parsed)
{
    size_t n = (size_t)16 << 20;
    unsigned char *bytes = malloc(8 + n + 1);
    ck_assert_ptr_nonnull(bytes);
    memset(bytes, ' ', 8 + n + 1);
    bytes[8] = '{';
    bytes[9] = '}';
    hs__safetensors tensors = {0};
    hs_error err = {0};
    uint64_t length = n;
    memcpy(bytes, &length, 8);
    ck_assert_int_eq(hs__safetensors_parse(&(hs_bytes){bytes, 8 + n}, "x", &tensors, &err), HS_OK);
    hs__safetensors_finish(&tensors);
    length = n + 1;
    memcpy(bytes, &length, 8);
    ck_assert_int_eq(hs__safetensors_parse(&(hs_bytes){bytes, 8 + n + 1}, "x", &tensors, &err), HS_BAD_MODEL);
    ck_assert_ptr_nonnull(strstr(err.text, "larger than 16 MB"));
    free(bytes);
}
END_TEST

START_TEST(every_shorter_file_is_refused)
{
    hs_bytes whole =
        make_file("{" TENSOR("a", "F32", "[1]", 0, 4) "," TENSOR("b", "F16", "[2]", 4, 8) "}", 8);
    for (size_t size = 0; size < whole.size; size++) {
        unsigned char *copy = malloc(size + !size);
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, whole.data, size);
        hs__safetensors tensors = {0};
        ck_assert_int_eq(hs__safetensors_parse(&(hs_bytes){copy, size}, "x", &tensors, NULL), HS_BAD_MODEL);
        free(copy);
    }
    free((void *)whole.data);
}
END_TEST

START_TEST(tensors_are_found_by_name)
{
    hs_bytes file = make_file("{\"__metadata__\":{\"data_offsets\":[0,99]}," TENSOR(
                                  "b", "BF16", "[2,3,4]", 8, 56) "," TENSOR("a", "F64", "[]", 0, 8) "}",
                              56);
    hs__safetensors tensors = {0};
    hs__entry entry;
    ck_assert_int_eq(hs__safetensors_parse(&file, "x", &tensors, NULL), HS_OK);
    ck_assert(hs__safetensors_find(&tensors, "b", &entry));
    ck_assert_ptr_eq(entry.data, (const char *)file.data + file.size - 48);
    ck_assert_uint_eq(entry.n_bytes, 48);
    ck_assert_uint_eq(entry.n_dimensions, 3);
    ck_assert_uint_eq(entry.dimensions[0], 2);
    ck_assert_uint_eq(entry.dimensions[1], 3);
    ck_assert_uint_eq(entry.dimensions[2], 4);
    ck_assert_str_eq(entry.dtype, "BF16");
    ck_assert(hs__safetensors_find(&tensors, "a", &entry));
    ck_assert_uint_eq(entry.n_dimensions, 0);
    ck_assert(!hs__safetensors_find(&tensors, "c", &entry));
    ck_assert(!hs__safetensors_find(&tensors, "__metadata__", &entry));
    hs__safetensors_finish(&tensors);
    hs__safetensors_finish(&tensors);
    free((void *)file.data);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("safetensors");
    tcase_add_loop_test(tests, header, 0, sizeof headers / sizeof *headers);
    tcase_add_loop_test(tests, header_length, 0, sizeof lengths / sizeof *lengths);
    tcase_add_test(tests, huge_header_is_refused_before_it_is_parsed);
    tcase_add_test(tests, every_shorter_file_is_refused);
    tcase_add_test(tests, tensors_are_found_by_name);
    Suite *suite = suite_create("safetensors");
    suite_add_tcase(suite, tests);
    return tests_run(suite);
}
