/* answer_page.h - an answer of /analyze as a page for a person at a terminal: the tokens, where each looks in
 * the mean of the heads, the strongest pairs. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Fields that the page needs are set in a request that asked for no outputs of its own. False: it did, and
 * its answer is for machines. */
bool hs__answer_page_ask(json_t *fields);

/* answer is the JSON answer to such a request; tokenizer is hs_tokenizer_kind's, for tokens to be read. */
void hs__answer_page_print(const json_t *answer, const char *tokenizer, FILE *out);
