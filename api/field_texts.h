/* field_texts.h - values of fields as texts, which command lines and query strings have. */
#pragma once

#include "api/api.h"

#include <jansson.h>

/* Returns the index of text[n] in the list "a|b"; -1 if it is not there, or choices or text is NULL. */
int hs_choice_find(const char *choices, const char *text, size_t n);

/* Parses a text into the JSON value of a field: "0,3,-1" into a list, "true" or "1" into true. Does not check
 * what depends on the model. Returns NULL if the text is no such value; err says what was expected. */
json_t *hs_field_json(const hs_field *field, const char *text, hs_error *err);

/* Words a problem's detail as the continuation of the field's name. Messages that spell the name as an option
 * need this: " is 9999; it must be ..." or " 0/factor: only scale takes a factor". */
void hs_field_problem(const char *pointer, const char *detail, char *ret_text, size_t n_ret);
