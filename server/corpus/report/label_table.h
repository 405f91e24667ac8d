/* label_table.h - the page's section on labelled texts. */
#pragma once

#include <jansson.h>
#include <stdio.h>

/* Writes the section from the members `labels` and `label_confusion` of report.json; nothing without them. */
void hs__label_table_write(const json_t *report, FILE *out);
