/* conllu.h - the lines of a CoNLL-U sentence and their ten columns. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A part of a record: a line, or a column. */
typedef struct hs__conllu_part {
    const char *bytes;
    size_t n;
} hs__conllu_part;

/* Takes the next line, without its end, from *at on, which is before `end`. */
hs__conllu_part hs__conllu_line_take(const char **at, const char *end);

/* Returns column k of 10; empty where there are fewer. */
hs__conllu_part hs__conllu_column(const hs__conllu_part *line, size_t k);

/* The words that a line stands for: 8, or the range 8-9. */
typedef struct hs__conllu_range {
    unsigned long first, last;
} hs__conllu_range;

/* Reads column 1. Returns false for comments, empty nodes such as 8.1, and anything else. */
bool hs__conllu_range_read(const hs__conllu_part *line, hs__conllu_range *ret_range);

/* Returns true if the column is the number of a word; 0 is the root. */
bool hs__conllu_number_read(const hs__conllu_part *column, unsigned long *ret_number);
