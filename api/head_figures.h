/* head_figures.h - figures of each requested head, one table for JSON and arrays. */
#pragma once

#include "api/answer.h"
#include "api/formats/arrays.h"
#include "api/formats/json_text.h"

/* A float of a head's struct. */
typedef struct hs__head_figure {
    const char *name, *array;                      /* in JSON, and as an array */
    size_t offset;                                 /* in the struct */
    bool (*is_answered)(const hs__answer *answer); /* NULL: always */
} hs__head_figure;

/* A row for a member of a head's struct: `name` in JSON, `output`_`name` as an array. */
#define HS__HEAD_FIGURE(output, type, name, is_answered)                                                     \
    {                                                                                                        \
#name, output "_" #name, offsetof(type, name), is_answered                                           \
    }

/* Writes `"name":number` for each of n figures of a head, with commas between. */
void hs__head_figures_write(hs_buffer *buffer, const hs__answer *answer, const hs__head_figure *figures,
                            size_t n, const void *head);

/* Adds an array [layers][heads] for each of n figures. heads holds structs of `size` bytes. */
void hs__head_figures_add(hs_arrays *arrays, const hs__answer *answer, const hs__head_figure *figures,
                          size_t n, const void *heads, size_t size);
