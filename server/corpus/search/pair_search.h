/* pair_search.h - answers from the database of a run (text_index.h): the typical texts of a head, and its
 * pairs of tokens that meet conditions.
 *
 * Parameters are text, as a query or a command line has them. HS_INVALID: *ret_wrong is the name of the wrong
 * parameter, and the message says what it must be. HS_NOT_FOUND: the run keeps no such texts. */
#pragma once

#include "server/base/read_check.h"

#include <jansson.h>
#include <stddef.h>

#define HS__SEARCH_LIMIT     100
#define HS__SEARCH_LIMIT_MAX 1000

typedef struct hs__search_query {
    const char *layer, *head; /* numbers of the model; required */
    /* Members of a search. */
    const char *from,
        *to;              /* conditions with commas between: pos=NOUN, rel=nsubj, text=war; NULL: any token */
    const char *of;       /* "attention" or "similarity"; NULL: attention */
    const char *min;      /* smallest weight; NULL: 0 */
    const char *distance; /* j - i: "2" or "-5..-1"; NULL: any */
    /* Members of examples. */
    const char *by;              /* one of hs__top_names */
    const char *limit;           /* NULL: HS__SEARCH_LIMIT */
    const hs__read_check *check; /* NULL: none */
} hs__search_query;

/* Finds pairs from token i to token j among the strongest of each text (hs__index_pair), the strongest first:
 * {"pairs": [...], "total": n, "texts": n}. DIR is the run's folder. */
HS_MUST_USE hs_status hs__search_pairs(const char *dir, const hs__search_query *query, json_t **ret_answer,
                                       const char **ret_wrong, hs_error *err);

/* Finds the texts where a figure of the head is highest: {"by": name, "examples": [...]}. The list is empty
 * if the figure is undefined in all texts of this head. HS_INVALID also if it is so for all heads, as the
 * attention of cross heads to neighbours. */
HS_MUST_USE hs_status hs__search_examples(const char *dir, const hs__search_query *query, json_t **ret_answer,
                                          const char **ret_wrong, hs_error *err);
