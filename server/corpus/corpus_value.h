/* corpus_value.h - a record's text. */
#pragma once

#include "model/tokenizer/tokenizer.h"
#include "server/corpus/corpus_format.h"

#include <jansson.h>

typedef struct hs__corpus_value {
    hs_text text;
    json_t *json; /* what text lies in, of JSON */
    char *copy;   /* and of what had to be put together; NULL: in the record itself */
    char why[128];
} hs__corpus_value;

/* field: of objects; columns are in the layout. HS_BAD_REQUEST: there is no text, and why says so;
 * HS_NO_MEMORY. The record must outlive the value; release that with hs__corpus_value_finish, whatever came.
 * The text need not be UTF-8. */
HS_MUST_USE hs_status hs__corpus_value_find(const hs__record_layout *layout, const char *field,
                                            const char *record, size_t n_bytes, hs__corpus_value *ret_value);
void hs__corpus_value_finish(hs__corpus_value *value);
