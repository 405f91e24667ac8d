/* values.c - readers by kind of value, and the members of an object. */
#include "api/request/fields.h"

#include "engine/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- refusals ---- */

int hs__reading_refuse(const hs__reading *r, const char *must)
{
    return hs__refuse_value(r->problem, r->pointer, r->value, must);
}

int hs__reading_refuse_element(const hs__reading *r, size_t i, const char *must)
{
    char at[96];
    snprintf(at, sizeof at, "%s/%zu", r->pointer, i);
    return hs__refuse_value(r->problem, at, json_array_get(r->value, i), must);
}

int hs__reading_refuse_memory(const hs__reading *r)
{
    char text[96];
    snprintf(text, sizeof text, "no memory for %s", r->row->field.name);
    return hs__refuse_memory(r->problem, text);
}

const char *hs__choices_quote(const char *choices, const char *last, char *ret, size_t n_ret)
{
    size_t used = 0;
    while (used < n_ret) {
        const size_t n = strcspn(choices, "|");
        const char *next = choices[n] ? choices + n + 1 : NULL;
        used += (size_t)snprintf(ret + used, n_ret - used, "\"%.*s\"%s", (int)n, choices,
                                 !next               ? ""
                                 : strchr(next, '|') ? ", "
                                                     : last);
        if (!next)
            break;
        choices = next;
    }
    return ret;
}

/* ---- checks ---- */

bool hs__is_integer(const json_t *value, double low, double high)
{
    /* Integers are read as reals: 1.0 and 1e1 are integers in JSON Schema too, and none is too large to read.
     */
    const double number = json_number_value(value);
    return json_is_number(value) && number == floor(number) && number >= low && number <= high;
}

int hs_choice_find(const char *choices, const char *text, size_t n)
{
    for (int i = 0; choices && text; i++) {
        const size_t n_choice = strcspn(choices, "|");
        if (n_choice == n && memcmp(text, choices, n) == 0)
            return i;
        choices = choices[n_choice] ? choices + n_choice + 1 : NULL;
    }
    return -1;
}

int hs__choice_find(const json_t *value, const char *choices)
{
    return hs_choice_find(choices, json_string_value(value), json_string_length(value));
}

size_t hs__numbers_all(uint16_t *ret_numbers, size_t n)
{
    memcpy(ret_numbers, hs_all_numbers, n * sizeof *ret_numbers);
    return n;
}

/* ---- readers ---- */

int hs__read_integer_within(const hs__reading *r, size_t low, size_t high)
{
    if (!hs__is_integer(r->value, (double)low, (double)high)) {
        char must[64];
        snprintf(must, sizeof must, "an integer from %zu to %zu", low, high);
        return hs__reading_refuse(r, must);
    }
    *(size_t *)hs__reading_to(r) = (size_t)json_number_value(r->value);
    return 0;
}

int hs__read_text(const hs__reading *r)
{
    if (!json_is_string(r->value))
        return hs__reading_refuse(r, "a string");
    *(hs_text *)hs__reading_to(r) = (hs_text){json_string_value(r->value), json_string_length(r->value)};
    return 0;
}

int hs__read_integer(const hs__reading *r)
{
    return hs__read_integer_within(r, (size_t)r->row->field.low, (size_t)r->row->field.high);
}

int hs__read_fraction(const hs__reading *r)
{
    const double number = json_number_value(r->value);
    /* A positive double may round to 0 as a float, which is no valid threshold. */
    if (!json_is_number(r->value) || !((float)number > 0) || !(number <= 1))
        return hs__reading_refuse(r, "a number in (0, 1]");
    *(float *)hs__reading_to(r) = (float)number;
    return 0;
}

int hs__read_real(const hs__reading *r)
{
    const hs_field *field = &r->row->field;
    const double number = json_number_value(r->value);
    if (!json_is_number(r->value) || !(number >= field->low && number <= field->high)) {
        char must[64];
        snprintf(must, sizeof must, "a number from %g to %g", field->low, field->high);
        return hs__reading_refuse(r, must);
    }
    *(float *)hs__reading_to(r) = (float)number;
    return 0;
}

int hs__read_flag(const hs__reading *r)
{
    if (!json_is_boolean(r->value))
        return hs__reading_refuse(r, "true or false");
    *(bool *)hs__reading_to(r) = json_is_true(r->value);
    return 0;
}

int hs__read_enum(const hs__reading *r)
{
    const int choice = hs__choice_find(r->value, r->row->field.choices);
    if (choice < 0) {
        char must[160], choices[128];
        snprintf(must, sizeof must, "one of %s",
                 hs__choices_quote(r->row->field.choices, ", ", choices, sizeof choices));
        return hs__reading_refuse(r, must);
    }
    *(unsigned *)hs__reading_to(r) = (unsigned)choice;
    return 0;
}

int hs__read_numbers(const hs__reading *r, const char *what, size_t n, uint16_t *ret_numbers, size_t *ret_n)
{
    _Static_assert(HS_LAYERS_MAX >= HS_HEADS_MAX, "chosen holds either");
    bool chosen[HS_LAYERS_MAX] = {false};
    for (size_t i = 0; i < json_array_size(r->value); i++) {
        const json_t *element = json_array_get(r->value, i);
        if (!hs__is_integer(element, -(double)n, (double)n - 1)) {
            char must[128];
            snprintf(must, sizeof must, "a %s of the model: 0 to %zu, or -%zu to -1 from the end", what,
                     n - 1, n);
            return hs__reading_refuse_element(r, i, must);
        }
        const double number = json_number_value(element);
        chosen[(size_t)(number < 0 ? number + (double)n : number)] = true;
    }
    *ret_n = 0;
    for (size_t i = 0; i < n; i++) {
        if (chosen[i])
            ret_numbers[(*ret_n)++] = (uint16_t)i;
    }
    return 0;
}

int hs__read_ids(const hs__reading *r, int32_t **ret_ids, size_t *ret_n)
{
    char must[96];
    const hs_shape *shape = r->model->shape;
    const size_t n = json_array_size(r->value);
    snprintf(must, sizeof must, "a list of 1 to %zu token ids", shape->n_positions);
    if (n < 1 || n > shape->n_positions)
        return hs__reading_refuse(r, must);
    int32_t *ids = *ret_ids = malloc(n * sizeof *ids);
    if (!ids)
        return hs__reading_refuse_memory(r);
    snprintf(must, sizeof must, "an integer from 0 to %zu", shape->vocab_size - 1);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(r->value, i);
        if (!hs__is_integer(id, 0, (double)shape->vocab_size - 1))
            return hs__reading_refuse_element(r, i, must);
        ids[i] = (int32_t)json_number_value(id);
    }
    *ret_n = n;
    return 0;
}

/* ---- members of an object ---- */

const char *hs__member_names(const hs__row *members, size_t n, const char *last, char *ret, size_t n_ret)
{
    for (size_t i = 0, used = 0; i < n && used < n_ret; i++)
        used += (size_t)snprintf(ret + used, n_ret - used, "%s%s",
                                 i == 0      ? ""
                                 : i < n - 1 ? ", "
                                             : last,
                                 members[i].field.name);
    return ret;
}

hs__reading hs__reading_member(const hs__reading *r, const hs__row *member, void *into, char pointer[64])
{
    hs__reading m = *r;
    m.row = member;
    m.value = json_object_get(r->value, member->field.name);
    m.pointer = pointer;
    m.into = into;
    m.object = r;
    snprintf(pointer, 64, "%.40s/%s", r->pointer, member->field.name);
    return m;
}
