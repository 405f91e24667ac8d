/* corpus_bad.h - lines that hold no text: all counted, the first ones listed. Any thread. */
#pragma once

#include "model/status.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define HS__CORPUS_BAD_LISTED_MAX 1000

typedef struct hs__bad_line {
    size_t file;
    uint64_t line;
    char why[128];
} hs__bad_line;

typedef struct hs__corpus_bad hs__corpus_bad;

hs__corpus_bad *hs__corpus_bad_create(void);      /* NULL when memory is short */
void hs__corpus_bad_destroy(hs__corpus_bad *bad); /* NULL is fine */

/* In any order: those with the lowest file and line stay listed. */
void hs__corpus_bad_add(hs__corpus_bad *bad, const hs__bad_line *line);
uint64_t hs__corpus_bad_count(hs__corpus_bad *bad);

/* {"count": n, "lines": [{"file": name, "line": 7, "why": "..."}]}; files by their index when names is NULL.
 * NULL when memory is short. */
json_t *hs__corpus_bad_save(hs__corpus_bad *bad, const json_t *names);
/* Adds what was saved with indices. */
HS_MUST_USE hs_status hs__corpus_bad_load(hs__corpus_bad *bad, const json_t *saved, hs_error *err);
