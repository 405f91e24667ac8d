/* record_text.h - finds the text of a record. */
#pragma once

#include "model/tokenizer/tokenizer.h"
#include "server/corpus/input/text_format.h"

#include <jansson.h>

typedef struct hs__record_text {
    hs_text text;
    json_t *json; /* owns the text of a JSON record */
    char *copy;   /* owns a text that was assembled; NULL: the text is in the record */
    char why[128];
} hs__record_text;

/* Finds the text of a record. field: its name in JSON objects; the layout names the column of a row.
 * HS_BAD_REQUEST: there is none; ret_value->why is the reason. HS_NO_MEMORY. The record must outlive the
 * value. Call hs__record_text_finish after a failure too. The text may be invalid UTF-8. */
HS_MUST_USE hs_status hs__record_text_find(const hs__record_layout *layout, const char *field,
                                           const char *record, size_t n_bytes, hs__record_text *ret_value);
/* Finds the label of a record whose text was found: a string or an integer, as text. Release *ret_label with
 * free. HS_BAD_REQUEST: there is none; value->why is the reason. HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__record_label_find(const hs__record_layout *layout, const char *field,
                                            const char *record, size_t n_bytes, hs__record_text *value,
                                            char **ret_label);
void hs__record_text_finish(hs__record_text *value);
