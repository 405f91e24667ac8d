/* fields.h - how values of a request are read: inside of api/request.
 *
 * A field of the body, or a member of an object in it, is a row: its name, its limits, its reader and where
 * the value goes. */
#pragma once

#include "api/request/request.h"

typedef struct hs__reading hs__reading;

/* Reads one value. Returns 0, or the status of the refusal. */
typedef int hs__reader(const hs__reading *r);

typedef struct hs__row {
    hs_field field;
    hs__reader *read;
    size_t offset;   /* of the value in hs__reading.into */
    bool absent_too; /* the reader is also called for an absent member, with value NULL */
} hs__row;

/* A value that is being read. */
struct hs__reading {
    const hs__row *row;
    const json_t *value;
    const char *pointer; /* JSON pointer to the value */
    void *into;
    const hs__reading *object; /* that the member belongs to; NULL for a field of the body */
    const hs__served_model *model;
    hs__analysis_request *analysis;
    hs__problem *problem;
};

/* Returns where the value goes. */
static inline void *hs__reading_to(const hs__reading *r)
{
    return (char *)r->into + r->row->offset;
}

/* ---- refusals ---- */

int hs__reading_refuse(const hs__reading *r, const char *must);
int hs__reading_refuse_element(const hs__reading *r, size_t i, const char *must);
int hs__reading_refuse_memory(const hs__reading *r);

/* Writes the list "a|b" for a message: each choice in quotes, with commas between and `last` before the last.
 */
const char *hs__choices_quote(const char *choices, const char *last, char *ret, size_t n_ret);

/* ---- readers by kind ---- */

hs__reader hs__read_text, hs__read_integer, hs__read_fraction, hs__read_real, hs__read_flag, hs__read_enum;

int hs__read_integer_within(const hs__reading *r, size_t low, size_t high);
/* Reads a list of layer or head numbers, negative ones from the end, as ascending unique numbers below n. */
int hs__read_numbers(const hs__reading *r, const char *what, size_t n, uint16_t *ret_numbers, size_t *ret_n);
/* Reads 1 to the model's positions token ids. The caller frees *ret_ids, also after a failure. */
int hs__read_ids(const hs__reading *r, int32_t **ret_ids, size_t *ret_n);

/* Returns true if the value is an integer from low to high. */
bool hs__is_integer(const json_t *value, double low, double high);
/* Returns the number of the value among "a|b"; -1: it is no such string. */
int hs__choice_find(const json_t *value, const char *choices);
/* Writes all numbers below n, and returns n. */
size_t hs__numbers_all(uint16_t *ret_numbers, size_t n);

/* Writes the members' names with commas between and `last` before the last. */
const char *hs__member_names(const hs__row *members, size_t n, const char *last, char *ret, size_t n_ret);
/* Returns the reading of a member of the object r. Writes its JSON pointer to pointer. */
hs__reading hs__reading_member(const hs__reading *r, const hs__row *member, void *into, char pointer[64]);

/* The objects among the fields: objects.c, target.c. */
hs__reader hs__read_interventions, hs__read_predictions, hs__read_head_scores, hs__read_target,
    hs__read_effects_of, hs__read_figure;

hs__reader hs__read_slice; /* reduced.c */

/* ---- all fields ---- */

/* Returns the largest length of the sequences that the model can read repeated. */
size_t hs__head_scores_length_max(const hs__served_model *model);

/* Sets *ret_analysis to the model's defaults. */
void hs__fields_default(const hs__served_model *model, hs__analysis_request *ret_analysis);

/* Reads every field of the body except `model`, in the table's order, over the defaults. */
int hs__fields_read(const hs__served_model *model, json_t *body, hs__analysis_request *ret_analysis,
                    hs__problem *problem);
