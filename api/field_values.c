/* field_values.c - checks that readers of fields share. */
#include "api/field_values.h"

#include <math.h>
#include <stdio.h>

int hs__refuse_value(hs__problem *problem, const char *pointer, const json_t *value, const char *must)
{
    char is[128];
    switch (json_typeof(value)) {
    case JSON_REAL:
    case JSON_INTEGER:
        snprintf(is, sizeof is, "%.17g", json_number_value(value));
        break;
    case JSON_STRING:
        snprintf(is, sizeof is, "\"%.*s\"", hs__clip(json_string_value(value), json_string_length(value), 64),
                 json_string_value(value));
        break;
    default:
        snprintf(is, sizeof is, "%s",
                 json_is_object(value)  ? "an object"
                 : json_is_array(value) ? "a list"
                 : json_is_null(value)  ? "null"
                 : json_is_true(value)  ? "true"
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
