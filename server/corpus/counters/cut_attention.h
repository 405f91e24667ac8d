/* cut_attention.h - the table of what predictions lose without attention to far tokens. */
#pragma once

#include <jansson.h>
#include <stdio.h>

/* Writes the rows of a report's member cut_attention, which may be damaged. */
void hs__cut_attention_table_write(const json_t *cut_attention, FILE *out);
