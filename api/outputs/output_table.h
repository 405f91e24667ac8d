/* output_table.h - structured outputs as rows of declared columns.
 *
 * An output that is more than one array is a table: rows, and the columns of a row. A column has a name, a
 * type, and where its value is. JSON, the arrays of npz and safetensors and the bounds on their bytes follow
 * from the columns. tests/unit/test_api_tables.c compares them with the schemas of api/openapi.json, and
 * tests/api/test_methods.py with the arrays that docs/reference/arrays.md names. */
#pragma once

#include "api/formats/arrays.h"
#include "api/request/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hs__answer;
struct hs__measures;
typedef struct hs__table hs__table;

/* A row, as the functions of columns read it. The outermost one is no row of the answer: its item is the
 * output's result, and the rows of the output come from it. */
typedef struct hs__table_row {
    const struct hs__answer *answer;
    const struct hs__table_row *outer; /* the row that this one comes from; NULL: the outermost */
    const void *item;                  /* the row's struct */
    size_t at;                         /* number of the row: of HEADS l * n_heads + h, of BY_LAYER l */
} hs__table_row;

/* Numbers with one axis or two. */
typedef struct hs__cell_block {
    const float *values;
    size_t n_axes, lengths[2];
} hs__cell_block;

/* A value. The column's type says which member holds it. */
typedef struct hs__cell {
    bool null; /* null in JSON; an array has what the members hold */
    union {
        float number;    /* NUMBER; NAN is null in JSON */
        int64_t integer; /* POSITION, ID, COUNT, FLAG, LABEL */
        int32_t range[2];
        hs_bytes text;    /* TOKEN, ENTRY, TEXT */
        const void *item; /* TABLE: the item that its rows come from */
        hs__cell_block block;
    };
} hs__cell;

/* Types of columns, with those of their arrays. A column without an array is in JSON only. */
typedef enum hs__table_column_type {
    HS__CELL_END,      /* after the last column */
    HS__CELL_NUMBER,   /* float32 */
    HS__CELL_POSITION, /* int32: of a token, layer or head */
    HS__CELL_ID,       /* int32: of a token in the vocabulary */
    HS__CELL_COUNT,    /* int64 */
    HS__CELL_FLAG,     /* bool */
    HS__CELL_LABEL,    /* uint8: index in `choices`; in JSON its name */
    HS__CELL_RANGE,    /* int32 [2]: [start, end) */
    HS__CELL_BLOCK,    /* float32 with one axis or two */
    HS__CELL_TOKEN,    /* in JSON only: token of the text */
    HS__CELL_ENTRY,    /* in JSON only: any entry of the vocabulary */
    HS__CELL_TEXT,     /* in JSON only; the table's texts_max bounds all of its texts */
    HS__CELL_TABLE     /* rows of another table */
} hs__table_column_type;

typedef enum hs__table_column_place { HS__EVERYWHERE, HS__IN_JSON, HS__IN_ARRAYS } hs__table_column_place;

/* Types of the members that columns name. */
typedef enum hs__member_type {
    HS__MEMBER_NONE,
    HS__MEMBER_FLOAT,
    HS__MEMBER_U16,
    HS__MEMBER_I32,
    HS__MEMBER_SIZE
} hs__member_type;

/* The value is a member of the row's struct. */
#define HS__MEMBER(type, name)                                                                               \
    .offset = offsetof(type, name), .member = _Generic(((const type *)0)->name, float                        \
                                                       : HS__MEMBER_FLOAT, uint16_t                          \
                                                       : HS__MEMBER_U16, int32_t                             \
                                                       : HS__MEMBER_I32, size_t                              \
                                                       : HS__MEMBER_SIZE)

/* A column of numbers, which has the name of its member. */
#define HS__NUMBER_OF(row, field) #field, .type = HS__CELL_NUMBER, HS__MEMBER(row, field)

/* A column. Has either a member or `get`, except for a TABLE without both: its rows come from the row's own
 * item. */
typedef struct hs__table_column {
    const char *name;  /* in JSON; "" of a table's only column: values, not objects */
    const char *array; /* if its array has another name; see hs__table.arrays */
    hs__table_column_type type;
    hs__table_column_place place;
    bool nullable;   /* `get` may set null */
    bool array_last; /* its array follows those of the columns without this */
    bool ragged;     /* BLOCK, TABLE: of other lengths in each row. Its array has one row after the other, and
                      * NAME_offsets where each begins, and where the last one ends */
    size_t offset;
    hs__member_type member;
    void (*get)(const hs__table_row *row, hs__cell *ret_cell);
    const char *const *choices; /* LABEL: ends with NULL */
    const hs__table *table;     /* TABLE */
    /* BLOCK: sets an upper bound of its lengths; 0 is no axis. */
    void (*most)(const struct hs__measures *measures, size_t ret_lengths[2]);
    bool (*is_answered)(const hs__analysis_request *analysis); /* NULL: always */
} hs__table_column;

/* How rows are nested in JSON, and the axes of their arrays. */
typedef enum hs__table_kind {
    HS__TABLE_ONE,     /* an object: no axis */
    HS__TABLE_LIST,    /* a list: an axis of rows */
    HS__TABLE_HEADS,   /* [l][h]: rows of all requested heads */
    HS__TABLE_BY_LAYER /* [l][rows of the layer]: an axis of all rows */
} hs__table_kind;

typedef struct hs__table_rows {
    const void *items;
    size_t n, stride; /* bytes from one item to the next */
} hs__table_rows;

struct hs__table {
    hs__table_kind kind;
    const char *arrays; /* begins the names of its arrays, after those of the tables around it */
    const hs__table_column *columns;
    size_t offset, stride; /* HEADS: where the item of the first head is, and how far apart they are */
    /* LIST, BY_LAYER: returns the rows in the item of the row, or those of its layer l. */
    hs__table_rows (*rows)(const hs__table_row *outer, size_t l);
    /* The same: returns an upper bound of the number of rows, of all layers together. */
    size_t (*rows_max)(const struct hs__measures *measures);
    /* Nested LIST: returns the length of its axis if the answer has no row around it; NULL: 0. */
    size_t (*length)(const struct hs__answer *answer);
    /* Returns an upper bound of the bytes of all its texts in JSON, without quotes; NULL: it has none. */
    size_t (*texts_max)(const struct hs__measures *measures);
};

void hs__table_write_json(hs_buffer *buffer, const struct hs__answer *answer, const hs__table *table,
                          const void *result);
void hs__table_add_arrays(hs_arrays *arrays, const struct hs__answer *answer, const hs__table *table,
                          const void *result);
/* Return upper bounds of their bytes. */
size_t hs__table_json_max(const hs__table *table, const struct hs__measures *measures);
size_t hs__table_arrays_max(const hs__table *table, const struct hs__measures *measures);
