/* tables.h - the page of a report: its template, its text and its tables as HTML. */
#pragma once

#include "model/base/status.h"
#include "server/corpus/report/drawing.h"
#include "server/corpus/report/html.h"

#include <stdio.h>

typedef enum hs__page_piece {
    HS__PAGE_HEAD,   /* up to the report, which reads without a script */
    HS__PAGE_MIDDLE, /* from there up to the data of the page's script, which may be empty */
    HS__PAGE_TAIL
} hs__page_piece;

/* Writes a piece of the page. The caller checks the file for failed writes. HS_UNSUPPORTED: this build has no
 * page. */
HS_MUST_USE hs_status hs__page_write(FILE *file, hs__page_piece piece, hs_error *err);

/* Writes the run's provenance, and how many of the paper's claims hold. Fails with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__header_write(const json_t *report, FILE *out, hs_error *err);

/* Writes the claims, each with its verdict. */
void hs__findings_write(const json_t *report, FILE *out);

/* Writes the figures of a layer's heads at a threshold. */
void hs__heads_write(const hs__drawing *drawing, hs__indices at, FILE *out);
