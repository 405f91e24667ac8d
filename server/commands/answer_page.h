/* answer_page.h - an answer of /analyze as a page for a terminal: the tokens, an attention map for each
 * requested layer, the strongest pairs, and predictions. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Fields that the page needs are set in a request without outputs. False: it did, and
 * its answer is for machines. */
bool hs__answer_page_ask(json_t *fields);

/* Prints the JSON answer to such a request, whose fields describe the request. tokenizer is
 * hs_tokenizer_kind's: it makes tokens readable. */
void hs__answer_page_print(const json_t *answer, const json_t *fields, const char *tokenizer, FILE *out);
