/* tables.h - writes the text and the tables of a report as HTML. */
#pragma once

#include "server/corpus/report/figures.h"
#include "server/corpus/report/html.h"

/* Writes the run's provenance, and how many of the paper's claims hold. */
void hs__header_write(const json_t *report, FILE *out);
/* Writes the claims, each with its verdict. */
void hs__findings_write(const json_t *report, FILE *out);
/* Writes the figures of a layer's heads at a threshold. */
void hs__heads_write(const hs__drawing *drawing, hs__place at, FILE *out);
