/* syntax_table.h - the page's table of relations: Clark et al. (2019), table 1. */
#pragma once

#include <jansson.h>
#include <stdio.h>

/* Writes the section from the member `syntax` of report.json; nothing without it. */
void hs__syntax_table_write(const json_t *report, FILE *out);
