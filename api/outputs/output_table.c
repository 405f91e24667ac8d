/* output_table.c - writes rows of declared columns as JSON and as arrays, and bounds both. */
#include "api/outputs/output_table.h"

#include "api/outputs/outputs.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ==== rows and values ==== */

static bool is_answered(const hs__table_column *column, const hs__analysis_request *analysis)
{
    return !column->is_answered || column->is_answered(analysis);
}

static void cell_get(const hs__table_column *column, const hs__table_row *row, hs__cell *ret)
{
    const void *member = (const char *)row->item + column->offset;
    ret->null = false;
    if (column->get)
        column->get(row, ret);
    else if (column->member == HS__MEMBER_FLOAT)
        ret->number = *(const float *)member;
    else if (column->member == HS__MEMBER_U16)
        ret->integer = *(const uint16_t *)member;
    else if (column->member == HS__MEMBER_I32)
        ret->integer = *(const int32_t *)member;
    else if (column->member == HS__MEMBER_SIZE)
        ret->integer = (int64_t) * (const size_t *)member;
    else
        ret->item = row->item;
    assert(!ret->null || column->nullable);
}

/* Returns the number of lists of rows: one, or one for each layer. */
static size_t n_groups(const hs__table *table, const hs__answer *a)
{
    assert(a);
    return table->kind == HS__TABLE_HEADS || table->kind == HS__TABLE_BY_LAYER ? a->analysis->n_layers : 1;
}

/* Returns the rows of a group. outer->item is what they come from. */
static hs__table_rows rows_of(const hs__table *table, const hs__table_row *outer, size_t group)
{
    assert(outer->answer);
    const size_t n_heads = outer->answer->analysis->n_heads;
    if (table->kind == HS__TABLE_ONE)
        return (hs__table_rows){outer->item, 1, 0};
    if (table->kind == HS__TABLE_HEADS)
        return (hs__table_rows){(const char *)outer->item + table->offset + group * n_heads * table->stride,
                                n_heads, table->stride};
    return table->rows(outer, group);
}

/* Returns row i of a group. An object is the row that it comes from. */
static hs__table_row row_at(const hs__table *table, const hs__table_row *outer, hs__table_rows rows,
                            size_t group, size_t i)
{
    if (table->kind == HS__TABLE_ONE)
        return *outer;
    const size_t at = table->kind == HS__TABLE_HEADS      ? group * rows.n + i
                      : table->kind == HS__TABLE_BY_LAYER ? group
                                                          : i;
    return (hs__table_row){outer->answer, outer, (const char *)rows.items + i * rows.stride, at};
}

/* Returns the row that the rows of a nested table come from. */
static hs__table_row nested(const hs__table_column *column, const hs__table_row *row)
{
    hs__cell cell;
    hs__table_row inner = *row;
    cell_get(column, row, &cell);
    inner.item = cell.item;
    return inner;
}

/* ==== JSON ==== */

static void table_write(hs_buffer *b, const hs__table *table, const hs__table_row *outer);

static void cell_write(hs_buffer *b, const hs__table_column *column, const hs__table_row *row)
{
    const int digits = (int)row->answer->analysis->digits;
    hs__cell cell;
    cell_get(column, row, &cell);
    if (cell.null) {
        hs_buffer_text(b, "null");
        return;
    }
    switch (column->type) {
    case HS__CELL_NUMBER:
        hs__json_float(b, cell.number, digits);
        break;
    case HS__CELL_POSITION:
    case HS__CELL_ID:
    case HS__CELL_COUNT:
        hs__json_integer(b, cell.integer);
        break;
    case HS__CELL_FLAG:
        hs__json_bool(b, cell.integer);
        break;
    case HS__CELL_LABEL:
        hs__json_string(b, column->choices[cell.integer], strlen(column->choices[cell.integer]));
        break;
    case HS__CELL_RANGE:
        hs__json_range(b, (size_t)cell.range[0], (size_t)cell.range[1]);
        break;
    case HS__CELL_BLOCK:
        hs__json_block(b, cell.block.values, cell.block.n_axes, cell.block.lengths, digits);
        break;
    case HS__CELL_TOKEN:
    case HS__CELL_ENTRY:
    case HS__CELL_TEXT:
        hs__json_string(b, cell.text.data, cell.text.size);
        break;
    case HS__CELL_TABLE:
        table_write(b, column->table, &(hs__table_row){row->answer, row->outer, cell.item, row->at});
        break;
    case HS__CELL_END:
        break;
    }
}

/* The columns of objects, with what stands before their values. */
enum { KEYS_MAX = 16, KEY_BYTES = 40 };
typedef struct key {
    const hs__table_column *column;
    size_t n_bytes;
    char text[KEY_BYTES]; /* `{"name":` or `,"name":`; of values nothing */
} key;

/* Finds the columns that are answered. Returns their number. */
static size_t keys_find(const hs__table *table, const hs__analysis_request *analysis, key ret_keys[KEYS_MAX])
{
    size_t n = 0;
    for (const hs__table_column *column = table->columns; column->type; column++) {
        if (column->place == HS__IN_ARRAYS || !is_answered(column, analysis))
            continue;
        assert(n < KEYS_MAX && strlen(column->name) < KEY_BYTES - 5);
        key *to = &ret_keys[n];
        const size_t n_name = strlen(column->name);
        to->column = column;
        to->n_bytes = n_name > 0 ? n_name + 4 : 0;
        memcpy(to->text, n > 0 ? ",\"" : "{\"", 2);
        memcpy(to->text + 2, column->name, n_name);
        memcpy(to->text + 2 + n_name, "\":", 2);
        n++;
    }
    return n;
}

static void row_write(hs_buffer *b, const key *keys, size_t n_keys, const hs__table_row *row)
{
    hs_buffer_add(b, "{", n_keys == 0);
    for (size_t i = 0; i < n_keys; i++) {
        hs_buffer_add(b, keys[i].text, keys[i].n_bytes);
        cell_write(b, keys[i].column, row);
    }
    hs_buffer_add(b, "}", n_keys == 0 || keys[0].n_bytes > 0);
}

static void table_write(hs_buffer *b, const hs__table *table, const hs__table_row *outer)
{
    const bool by_layer = table->kind == HS__TABLE_HEADS || table->kind == HS__TABLE_BY_LAYER;
    const size_t n = n_groups(table, outer->answer);
    key keys[KEYS_MAX];
    const size_t n_keys = keys_find(table, outer->answer->analysis, keys);
    hs_buffer_add(b, "[", by_layer);
    for (size_t group = 0; group < n; group++) {
        const hs__table_rows rows = rows_of(table, outer, group);
        hs__json_comma(b, group);
        hs_buffer_add(b, "[", table->kind != HS__TABLE_ONE);
        for (size_t i = 0; i < rows.n; i++) {
            const hs__table_row row = row_at(table, outer, rows, group, i);
            hs__json_comma(b, i);
            row_write(b, keys, n_keys, &row);
        }
        hs_buffer_add(b, "]", table->kind != HS__TABLE_ONE);
    }
    hs_buffer_add(b, "]", by_layer);
}

void hs__table_write_json(hs_buffer *b, const hs__answer *a, const hs__table *table, const void *result)
{
    table_write(b, table, &(hs__table_row){.answer = a, .item = result});
}

/* ==== arrays ==== */

static const hs_element elements[] = {
    [HS__CELL_NUMBER] = HS_ELEMENT_F4, [HS__CELL_POSITION] = HS_ELEMENT_I4, [HS__CELL_ID] = HS_ELEMENT_I4,
    [HS__CELL_COUNT] = HS_ELEMENT_I8,  [HS__CELL_FLAG] = HS_ELEMENT_BOOL,   [HS__CELL_LABEL] = HS_ELEMENT_U1,
    [HS__CELL_RANGE] = HS_ELEMENT_I4,  [HS__CELL_BLOCK] = HS_ELEMENT_F4,
};

enum { NESTED_MAX = 4, NAME_BYTES = sizeof((hs_array *)0)->name_buffer };

/* The columns from an output's table down to the one whose array is made, and where its values go. */
typedef struct walk {
    hs_arrays *arrays;
    const hs__table *table;
    hs__table_row outermost;
    const hs__table_column *path[NESTED_MAX];
    size_t depth; /* columns of the path */
    void *to;
    size_t n; /* elements written */
} walk;

static bool has_array(const hs__table_column *column, const hs__analysis_request *analysis)
{
    const bool is_text =
        column->type == HS__CELL_TOKEN || column->type == HS__CELL_ENTRY || column->type == HS__CELL_TEXT;
    return column->place != HS__IN_JSON && !is_text && is_answered(column, analysis);
}

static size_t block_numbers(const hs__cell *cell)
{
    size_t n = 1;
    for (size_t axis = 0; axis < cell->block.n_axes; axis++)
        n *= cell->block.lengths[axis];
    return n;
}

/* Appends the numbers of a block, or both of a range. */
static void cell_append(walk *w, const hs__table_column *column, const hs__cell *cell)
{
    const bool block = column->type == HS__CELL_BLOCK;
    const size_t n = block ? block_numbers(cell) : 2;
    memcpy((int32_t *)w->to + w->n, block ? (const void *)cell->block.values : cell->range,
           n * sizeof(int32_t));
    w->n += n;
}

/* Appends the member of all rows that a column of numbers or positions names. Returns false if the column has
 * no such member. */
static bool members_append(walk *w, const hs__table_column *column, hs__table_rows rows)
{
    const bool is_number = column->type == HS__CELL_NUMBER && column->member == HS__MEMBER_FLOAT;
    const char *item = rows.items;
    float *numbers = (float *)w->to + w->n;
    int32_t *integers = (int32_t *)w->to + w->n;
    if (!is_number && !(column->type == HS__CELL_POSITION && column->member == HS__MEMBER_U16))
        return false;
    for (size_t i = 0; i < rows.n; i++, item += rows.stride) {
        const void *member = item + column->offset;
        if (is_number)
            numbers[i] = *(const float *)member;
        else
            integers[i] = *(const uint16_t *)member;
    }
    w->n += rows.n;
    return true;
}

/* Appends the values of a column in all rows from `row` on, which may be 100,000. */
static void values_append(walk *w, const hs__table_column *column, hs__table_row row, hs__table_rows rows,
                          size_t step)
{
    float *numbers = (float *)w->to + w->n;
    int32_t *integers = (int32_t *)w->to + w->n;
    int64_t *counts = (int64_t *)w->to + w->n;
    uint8_t *bytes = (uint8_t *)w->to + w->n;
    if (members_append(w, column, rows))
        return;
    for (size_t i = 0; i < rows.n; i++, row.at += step) {
        hs__cell cell;
        row.item = (const char *)rows.items + i * rows.stride;
        cell_get(column, &row, &cell);
        if (column->type == HS__CELL_NUMBER)
            numbers[i] = cell.number;
        else if (column->type == HS__CELL_POSITION || column->type == HS__CELL_ID)
            integers[i] = (int32_t)cell.integer;
        else if (column->type == HS__CELL_COUNT)
            counts[i] = cell.integer;
        else if (column->type == HS__CELL_FLAG || column->type == HS__CELL_LABEL)
            bytes[i] = (uint8_t)cell.integer;
        else
            cell_append(w, column, &cell);
    }
    if (column->type != HS__CELL_BLOCK && column->type != HS__CELL_RANGE)
        w->n += rows.n;
}

/* Writes the values of all rows of a table; path has n_nested columns before the one with the values. */
static void rows_put(walk *w, const hs__table_column *const *path, size_t n_nested, const hs__table *table,
                     const hs__table_row *outer)
{
    for (size_t group = 0; group < n_groups(table, outer->answer); group++) {
        const hs__table_rows rows = rows_of(table, outer, group);
        if (n_nested == 0 && rows.n > 0)
            values_append(w, *path, row_at(table, outer, rows, group, 0), rows,
                          table->kind != HS__TABLE_BY_LAYER);
        for (size_t i = 0; i < rows.n && n_nested > 0; i++) {
            const hs__table_row row = row_at(table, outer, rows, group, i);
            const hs__table_row inner = nested(*path, &row);
            rows_put(w, path + 1, n_nested - 1, (*path)->table, &inner);
        }
    }
}

/* Adds the axes of a table's rows. Returns their number. */
static size_t axes_of(const hs__table *table, const hs__table_row *outer, size_t *shape)
{
    assert(outer->answer);
    const size_t groups = n_groups(table, outer->answer);
    if (table->kind == HS__TABLE_ONE)
        return 0;
    if (table->kind == HS__TABLE_HEADS) {
        shape[0] = groups;
        shape[1] = outer->answer->analysis->n_heads;
        return 2;
    }
    shape[0] = 0;
    for (size_t group = 0; group < groups; group++)
        shape[0] += rows_of(table, outer, group).n;
    return 1;
}

/* Finds the shape of the array by the first row of each table: unless they are ragged, all have the same
 * lengths. Without a row, lengths are 0. Returns the number of axes, or SIZE_MAX if the block is null. */
static size_t shape_find(const walk *w, size_t shape[HS__DIMENSIONS_MAX])
{
    hs__table_row outer[NESTED_MAX + 1] = {w->outermost}, row = {0};
    const hs__table *table = w->table;
    const hs__table_column *last = w->path[w->depth - 1];
    bool empty = false;
    size_t n = 0;
    for (size_t level = 0; level < w->depth; level++) {
        if (empty)
            shape[n++] = table->length ? table->length(w->outermost.answer) : 0;
        else {
            const size_t first = n;
            n += axes_of(table, &outer[level], shape + n);
            empty = n > first && shape[first] == 0;
        }
        if (!empty) {
            row = row_at(table, &outer[level], rows_of(table, &outer[level], 0), 0, 0);
            if (level + 1 < w->depth)
                outer[level + 1] = nested(w->path[level], &row);
        }
        table = w->path[level]->table;
    }
    if (last->type == HS__CELL_RANGE)
        shape[n++] = 2;
    if (last->type == HS__CELL_BLOCK && !empty) {
        hs__cell cell;
        cell_get(last, &row, &cell);
        if (cell.null)
            return SIZE_MAX;
        for (size_t axis = 0; axis < cell.block.n_axes; axis++)
            shape[n++] = cell.block.lengths[axis];
    }
    return n;
}

/* Adds an array, which keeps its name itself. */
static void *array_add(walk *w, const char *name, const char *ending, hs_element element, size_t n_axes,
                       const size_t *shape)
{
    hs_arrays *arrays = w->arrays;
    void *data = hs_arrays_add_block(arrays, "", element, n_axes, shape);
    if (data) {
        hs_array *array = &arrays->items[arrays->n - 1];
        snprintf(array->name_buffer, sizeof array->name_buffer, "%.*s%s",
                 (int)(NAME_BYTES - 1 - strlen(ending)), name, ending);
        array->name = array->name_buffer;
    }
    return data;
}

/* Returns the elements of a ragged column in a row. */
static size_t ragged_count(const hs__table_column *column, const hs__table_row *row)
{
    if (column->type != HS__CELL_BLOCK) {
        const hs__table_row inner = nested(column, row);
        return rows_of(column->table, &inner, 0).n;
    }
    hs__cell cell;
    cell_get(column, row, &cell);
    return block_numbers(&cell);
}

/* Adds the values of a column of heads that is ragged, one head after the other, and their offsets. */
static void ragged_add(walk *w, const char *name)
{
    const hs__table_column *column = w->path[0], *last = w->path[w->depth - 1];
    const hs__analysis_request *analysis = w->outermost.answer->analysis;
    const size_t n = analysis->n_layers * analysis->n_heads, n_ends = n + 1;
    const hs__table_rows rows = {(const char *)w->outermost.item + w->table->offset, n, w->table->stride};
    size_t shape[] = {0, 2};
    for (size_t i = 0; i < n; i++) {
        const hs__table_row row = row_at(w->table, &w->outermost, rows, 0, i);
        shape[0] += ragged_count(column, &row);
    }
    w->to = array_add(w, name, "", elements[last->type], last->type == HS__CELL_RANGE ? 2 : 1, shape);
    int64_t *ends = array_add(w, name, "_offsets", HS_ELEMENT_I8, 1, &n_ends);
    for (size_t i = 0; i < n && ends; i++) {
        const hs__table_row row = row_at(w->table, &w->outermost, rows, 0, i);
        ends[i + 1] = ends[i] + (int64_t)ragged_count(column, &row);
    }
}

static void column_add(walk *w, const char *name)
{
    size_t shape[HS__DIMENSIONS_MAX], n_axes;
    w->to = NULL;
    w->n = 0;
    if (w->path[0]->ragged)
        ragged_add(w, name);
    else if ((n_axes = shape_find(w, shape)) != SIZE_MAX)
        w->to = array_add(w, name, "", elements[w->path[w->depth - 1]->type], n_axes, shape);
    if (w->to)
        rows_put(w, w->path, w->depth - 1, w->table, &w->outermost);
}

/* Adds the arrays of a table's columns. `before` begins their names. */
static void columns_add(walk *w, const hs__table *table, const char *before)
{
    for (int last = 0; last < 2; last++)
        for (const hs__table_column *column = table->columns; column->type; column++) {
            char name[NAME_BYTES];
            if (column->array_last != last || !has_array(column, w->outermost.answer->analysis))
                continue;
            const bool nests = column->type == HS__CELL_TABLE;
            w->path[w->depth++] = column;
            snprintf(name, sizeof name, "%s%s%s", before, table->arrays,
                     nests           ? ""
                     : column->array ? column->array
                                     : column->name);
            if (nests)
                columns_add(w, column->table, name);
            else
                column_add(w, name);
            w->depth--;
        }
}

void hs__table_add_arrays(hs_arrays *arrays, const hs__answer *a, const hs__table *table, const void *result)
{
    walk w = {.arrays = arrays, .table = table, .outermost = {.answer = a, .item = result}};
    columns_add(&w, table, "");
}

/* ==== bounds ==== */

/* Longest texts of integers in JSON. */
enum { POSITION_BYTES = 5, ID_BYTES = 11, COUNT_BYTES = 20, RANGE_BYTES = 2 * ID_BYTES + 3, NULL_BYTES = 4 };

static size_t rows_max(const hs__table *table, const hs__measures *m)
{
    return table->kind == HS__TABLE_ONE     ? 1
           : table->kind == HS__TABLE_HEADS ? m->n_heads
                                            : table->rows_max(m);
}

/* Returns the numbers of a block; *ret_lists is the number of its lists in JSON. */
static size_t block_max(const hs__table_column *column, const hs__measures *m, size_t *ret_lists)
{
    size_t lengths[2] = {0};
    column->most(m, lengths);
    *ret_lists = lengths[1] ? 1 + lengths[0] : 1;
    return lengths[1] ? lengths[0] * lengths[1] : lengths[0];
}

static size_t longest_choice(const hs__table_column *column)
{
    size_t longest = 0;
    for (const char *const *choice = column->choices; *choice; choice++)
        longest = strlen(*choice) > longest ? strlen(*choice) : longest;
    return longest;
}

/* Returns the bytes of a value in JSON, with quotes but without a text's own bytes. */
static size_t cell_json_max(const hs__table_column *column, const hs__measures *m)
{
    static const size_t fixed[] = {
        [HS__CELL_POSITION] = POSITION_BYTES, [HS__CELL_ID] = ID_BYTES,       [HS__CELL_COUNT] = COUNT_BYTES,
        [HS__CELL_FLAG] = sizeof "false" - 1, [HS__CELL_RANGE] = RANGE_BYTES, [HS__CELL_TEXT] = NULL_BYTES};
    size_t n_lists, n;
    switch (column->type) {
    case HS__CELL_NUMBER:
        return m->number;
    case HS__CELL_LABEL:
        return longest_choice(column) + 2;
    case HS__CELL_TOKEN:
        return m->token;
    case HS__CELL_ENTRY:
        return m->entry;
    case HS__CELL_BLOCK:
        n = block_max(column, m, &n_lists);
        return n * m->number + 3 * n_lists + NULL_BYTES;
    case HS__CELL_TABLE:
        return hs__table_json_max(column->table, m);
    default:
        return fixed[column->type];
    }
}

size_t hs__table_json_max(const hs__table *table, const hs__measures *m)
{
    size_t n_bytes = 3; /* of a row: brackets and a comma */
    for (const hs__table_column *column = table->columns; column->type; column++)
        if (column->place != HS__IN_ARRAYS && is_answered(column, m->analysis))
            n_bytes += strlen(column->name) + 4 + cell_json_max(column, m);
    return rows_max(table, m) * n_bytes + 3 * (m->analysis->n_layers + 1) +
           (table->texts_max ? table->texts_max(m) : 0);
}

size_t hs__table_arrays_max(const hs__table *table, const hs__measures *m)
{
    const size_t n = rows_max(table, m);
    size_t n_bytes = 0;
    for (const hs__table_column *column = table->columns; column->type; column++) {
        size_t n_lists;
        if (!has_array(column, m->analysis))
            continue;
        if (column->ragged)
            n_bytes += (n + 1) * sizeof(int64_t);
        if (column->type == HS__CELL_TABLE)
            n_bytes += n * hs__table_arrays_max(column->table, m);
        else
            n_bytes += n * hs_element_bytes(elements[column->type]) *
                       (column->type == HS__CELL_RANGE   ? 2
                        : column->type == HS__CELL_BLOCK ? block_max(column, m, &n_lists)
                                                         : 1);
    }
    return n_bytes;
}
