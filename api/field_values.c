/* field_values.c - checks that readers of fields share. */
#include "api/field_values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int hs__refuse_value(hs__problem *problem, const char *pointer, const json_t *value, const char *must)
{
    char is[128];
    switch (json_typeof(value)) {
    case JSON_ARRAY:
        snprintf(is, sizeof is, "a list of %zu elements", json_array_size(value));
        break;
    case JSON_REAL:
    case JSON_INTEGER:
        snprintf(is, sizeof is, "%.17g", json_number_value(value));
        break;
    case JSON_STRING:
        snprintf(is, sizeof is, "\"%.*s\"", hs__clip(json_string_value(value), json_string_length(value)),
                 json_string_value(value));
        break;
    default:
        snprintf(is, sizeof is, "%s",
                 json_is_object(value) ? "an object"
                 : json_is_null(value) ? "null"
                 : json_is_true(value) ? "true"
                                       : "false");
    }
    return hs__refuse(problem, 422, pointer, "%s is %s; it must be %s", pointer + 1, is, must);
}

bool hs__is_integer(const json_t *value, double low, double high)
{
    /* Integers are read as reals: 1.0 and 1e1 are integers in JSON Schema too, and none is too large to read.
     */
    const double number = json_number_value(value);
    return json_is_number(value) && number == floor(number) && number >= low && number <= high;
}

int hs__refuse_element(hs__problem *problem, const char *pointer, const json_t *value, size_t i,
                       const char *must)
{
    char at[96];
    snprintf(at, sizeof at, "%s/%zu", pointer, i);
    return hs__refuse_value(problem, at, json_array_get(value, i), must);
}

static int refuse_memory(hs__problem *problem, const char *pointer)
{
    return hs__refuse(problem, 500, NULL, "no memory for %s", pointer + 1);
}

int hs__numbers_read(hs__problem *problem, const char *pointer, const json_t *value, long low, long high,
                     size_t *ret, size_t *ret_n)
{
    char must[64];
    const size_t n = (size_t)(high - low + 1);
    bool *chosen = calloc(n, sizeof *chosen);
    if (!chosen)
        return refuse_memory(problem, pointer);
    snprintf(must, sizeof must, "an integer from %ld to %ld", low, high);
    int status = 0;
    for (size_t i = 0; i < json_array_size(value) && !status; i++) {
        const json_t *element = json_array_get(value, i);
        if (hs__is_integer(element, (double)low, (double)high))
            chosen[(size_t)((long)json_number_value(element) - low)] = true;
        else
            status = hs__refuse_element(problem, pointer, value, i, must);
    }
    *ret_n = 0;
    for (size_t i = 0; i < n && !status; i++)
        if (chosen[i])
            ret[(*ret_n)++] = i;
    free(chosen);
    return status;
}

int hs__ids_read(hs__problem *problem, const char *pointer, const json_t *value, size_t n_most,
                 size_t vocab_size, int32_t **ret_ids, size_t *ret_n)
{
    char must[96];
    const size_t n = json_array_size(value);
    snprintf(must, sizeof must, "a list of 1 to %zu token ids", n_most);
    if (n < 1 || n > n_most)
        return hs__refuse_value(problem, pointer, value, must);
    int32_t *ids = *ret_ids = malloc(n * sizeof *ids);
    if (!ids)
        return refuse_memory(problem, pointer);
    snprintf(must, sizeof must, "an integer from 0 to %zu", vocab_size - 1);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(value, i);
        if (!hs__is_integer(id, 0, (double)vocab_size - 1))
            return hs__refuse_element(problem, pointer, value, i, must);
        ids[i] = (int32_t)json_number_value(id);
    }
    *ret_n = n;
    return 0;
}
