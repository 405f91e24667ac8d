/* answer_arrays.c - writes the answer as npz or safetensors. Both have the same arrays; npz has texts and
 * scalars as arrays, safetensors as metadata. */
#include "api/answer/answer.h"

#include "api/formats/arrays.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const hs_element elements[] = {
    [HS__DTYPE_F4] = HS_ELEMENT_F4, [HS__DTYPE_F2] = HS_ELEMENT_F2, [HS__DTYPE_U1] = HS_ELEMENT_U1};

static void add_integers(hs_arrays *arrays, const char *name, const int32_t *values, size_t n)
{
    int64_t *to = hs_arrays_add(arrays, name, HS_ELEMENT_I8, 1, n, 0);
    for (size_t i = 0; i < n && to; i++)
        to[i] = values[i];
}

static void add_numbers(hs_arrays *arrays, const char *name, const uint16_t *values, size_t n)
{
    int64_t *to = hs_arrays_add(arrays, name, HS_ELEMENT_I8, 1, n, 0);
    for (size_t i = 0; i < n && to; i++)
        to[i] = values[i];
}

static void add_bytes(hs_arrays *arrays, const char *name, const uint8_t *values, size_t n)
{
    int64_t *to = hs_arrays_add(arrays, name, HS_ELEMENT_I8, 1, n, 0);
    for (size_t i = 0; i < n && to; i++)
        to[i] = values[i];
}

static void add_integer(hs_arrays *arrays, const char *name, uint64_t value)
{
    int64_t *to = hs_arrays_add(arrays, name, HS_ELEMENT_I8, 0, 0, 0);
    if (to)
        *to = (int64_t)value;
}

static void add_window(hs_arrays *arrays, const hs__answer *a)
{
    const hs__window_place place = hs__answer_window(a);
    add_integer(arrays, "window", a->analysis->window);
    add_integer(arrays, "windows", a->text->windows.n);
    add_integers(arrays, "window_tokens", place.tokens, 2);
    add_integers(arrays, "window_chars", place.chars, 2);
}

/* int64 like HuggingFace's, so that they index torch tensors. */
static void add_tokens(hs_arrays *arrays, const hs__answer *a)
{
    const hs_encoding *e = &a->text->rows;
    const size_t T = e->n_tokens;
    add_integers(arrays, "input_ids", e->ids, T);
    add_bytes(arrays, "token_type_ids", e->types, T);
    add_bytes(arrays, "special_tokens_mask", e->special, T);
    int64_t *generated = a->text->n_given ? hs_arrays_add(arrays, "generated", HS_ELEMENT_I8, 1, T, 0) : NULL;
    for (size_t i = 0; i < T && generated; i++)
        generated[i] = i >= a->text->n_given;
    if (a->analysis->prompt)
        add_integer(arrays, "prompt_tokens", a->text->n_prompt);
    if (a->text->windows.n)
        add_window(arrays, a);
    int64_t *offsets = hs_arrays_add(arrays, "offset_mapping", HS_ELEMENT_I8, 2, T, 2);
    for (size_t i = 0; i < T && offsets; i++) {
        offsets[2 * i] = hs__input_of_rows(a->analysis)->ids ? -1 : (int64_t)e->starts[i];
        offsets[2 * i + 1] = hs__input_of_rows(a->analysis)->ids ? -1 : (int64_t)e->ends[i];
    }
    add_integers(arrays, "sentence_ids", a->text->sentences, T);
    add_integers(arrays, "word_ids", e->word_ids, T);
    add_numbers(arrays, "layers", a->analysis->layers, a->analysis->n_layers);
    add_numbers(arrays, "heads", a->analysis->heads, a->analysis->n_heads);
}

static void put_floats(hs_element element, const float *from, size_t n, char *to)
{
    if (element == HS_ELEMENT_F4)
        memcpy(to, from, n * sizeof *from);
    else if (element == HS_ELEMENT_F2)
        hs__convert_f2(from, n, (uint16_t *)(void *)to);
    else
        hs__convert_u1(from, n, (uint8_t *)to);
}

/* An array and its place in the file. */
typedef struct array_fill {
    const hs_array *array;
    size_t n_heads;
    size_t n; /* numbers of a part, or of a row of a layer */
    char *to;
} array_fill;

static void fill_part(void *context, size_t i, size_t slot)
{
    const array_fill *f = context;
    const hs__answer *a = f->array->source;
    if (!hs__answer_cancelled(a))
        put_floats(f->array->element,
                   hs__output_part(f->array->part, a, i / f->n_heads, i % f->n_heads, slot), f->n,
                   f->to + i * f->n * hs_element_bytes(f->array->element));
}

static void fill(const hs_array *array, char *to)
{
    const size_t n_walked = hs__output_n_walked(array->part), n_heads = n_walked == 2 ? array->shape[1] : 1;
    const size_t n_parts = array->shape[0] * n_heads;
    array_fill f = {.array = array, .n_heads = n_heads, .n = 1, .to = to};
    for (size_t axis = n_walked; axis < array->n_dimensions; axis++)
        f.n *= array->shape[axis];
    hs__answer_share(array->source, hs__answer_threads(array->source, f.n * n_parts), n_parts, fill_part, &f);
}

static void add_array(hs_arrays *arrays, const hs__answer *a, size_t i)
{
    const hs__output *output = hs__output_at(i);
    size_t lengths[HS_AXES_MAX];
    const size_t n = hs__answer_lengths(output, a, lengths);
    hs_array *array =
        hs_arrays_describe(arrays, hs__output_names[i], elements[a->analysis->dtype], n, lengths);
    if (!array)
        return;
    array->fill = fill;
    array->source = a;
    array->part = output;
}

/* ---- as TransformerLens names and shapes them ---- */

static void fill_head(void *context, size_t h, size_t slot)
{
    const array_fill *f = context;
    const hs__answer *a = f->array->source;
    const hs__output *output = f->array->part;
    const bool vectors = output->axes[3] == HS_AXIS_HEAD_WIDTH;
    const size_t T = f->array->shape[vectors ? 0 : f->array->n_dimensions - 2],
                 row_bytes = f->n * hs_element_bytes(f->array->element);
    if (hs__answer_cancelled(a))
        return;
    const float *part = hs__output_part(output, a, f->array->index, h, slot);
    for (size_t t = 0; t < T; t++)
        put_floats(f->array->element, part + t * f->n, f->n,
                   f->to + (vectors ? t * f->n_heads + h : h * T + t) * row_bytes);
}

/* One layer of an output: maps [head][query][key], vectors [T][head][d], states [T][D]. */
static void fill_layer(const hs_array *array, char *to)
{
    const hs__answer *a = array->source;
    const hs__output *output = array->part;
    const bool vectors = output->axes[3] == HS_AXIS_HEAD_WIDTH;
    const size_t n_heads = hs__output_n_walked(output) < 2 ? 1 : array->shape[vectors ? 1 : 0];
    array_fill f = {.array = array, .n_heads = n_heads, .n = array->shape[array->n_dimensions - 1], .to = to};
    const size_t n_numbers = n_heads * a->text->rows.n_tokens * f.n;
    hs__answer_share(a, hs__answer_threads(a, n_numbers), n_heads, fill_head, &f);
}

/* The embeddings are what the first block reads. An encoder-decoder model has blocks of each stack, and those
 * of its decoder have two kinds of heads. */
static void name_layer(const hs__output *output, const hs__answer *a, size_t l, char *ret, size_t n_ret)
{
    const bool states = output->axes[0] == HS_AXIS_STATE;
    const char *blocks = !hs__answer_stack(a) ? "blocks" : a->model->encoder ? "decoder" : "encoder";
    const char *cross = a->analysis->stack == HS_STACK_CROSS && !states ? "cross_" : "";
    if (states && l == 0)
        snprintf(ret, n_ret, "%s.0.hook_resid_pre%s", blocks, output->hook + sizeof HS__HOOK_STATES - 1);
    else
        snprintf(ret, n_ret, "%s.%u.%s%s", blocks, (unsigned)a->analysis->layers[l - states], cross,
                 output->hook);
}

static void add_layers(hs_arrays *arrays, const hs__answer *a, const hs__output *output)
{
    size_t lengths[HS_AXES_MAX], shape[HS_AXES_MAX];
    const size_t n = hs__answer_lengths(output, a, lengths);
    memcpy(shape, lengths + 1, (n - 1) * sizeof *shape);
    if (output->axes[3] == HS_AXIS_HEAD_WIDTH) {
        shape[0] = lengths[2];
        shape[1] = lengths[1];
    }
    for (size_t l = 0; l < lengths[0]; l++) {
        hs_array *array = hs_arrays_describe(arrays, "", elements[a->analysis->dtype], n - 1, shape);
        if (!array)
            return;
        name_layer(output, a, l, array->name_buffer, sizeof array->name_buffer);
        array->name = array->name_buffer;
        array->fill = fill_layer;
        array->source = a;
        array->part = output;
        array->index = l;
    }
}

static void add_outputs(hs_arrays *arrays, const hs__answer *a)
{
    for (size_t i = 0; hs__output_at(i); i++) {
        const hs__output *output = hs__output_at(i);
        if (!(a->analysis->outputs >> i & 1))
            continue;
        if (output->structure)
            hs__table_add_arrays(arrays, a, output->structure->table, a->results[i]);
        else if (a->analysis->hooks && output->hook)
            add_layers(arrays, a, output);
        else
            add_array(arrays, a, i);
    }
}

/* ---- texts and scalars ---- */

/* Calls add for the total of each output. */
static void each_total(const hs__answer *a, void *to, void (*add)(void *to, const char *name, uint64_t total))
{
    for (size_t i = 0; hs__output_at(i); i++) {
        const hs__structure *structure = hs__output_at(i)->structure;
        if (structure && a->results[i] && structure->total)
            add(to, structure->total_name, structure->total(a->results[i]));
    }
}

static void add_total(void *to, const char *name, uint64_t total)
{
    add_integer(to, name, total);
}

/* ---- npz ---- */

/* tokens is scratch of as many elements as each text has tokens. */
static void add_texts(hs_arrays *arrays, const hs__answer *a, hs_bytes *tokens)
{
    char hex[HS_SHA256_HEX];
    hs_model_sha256(a->model->model, hex);
    const hs_bytes sha256 = hs_bytes_of(hex), name = hs_bytes_of(a->model->name);
    for (size_t i = 0; i < a->text->rows.n_tokens; i++)
        tokens[i] = hs_bytes_of(hs__answer_token(a, &a->text->rows, i));
    hs_arrays_add_texts(arrays, "tokens", tokens, a->text->rows.n_tokens, false);
    for (size_t i = 0; i < a->text->memory.n_tokens; i++)
        tokens[i] = hs_bytes_of(hs__answer_token(a, &a->text->memory, i));
    if (a->text->memory.n_tokens)
        hs_arrays_add_texts(arrays, "source_tokens", tokens, a->text->memory.n_tokens, false);
    if (hs__answer_stack(a))
        hs_arrays_add_texts(arrays, "stack", (hs_bytes[]){hs_bytes_of(hs__answer_stack(a))}, 1, true);
    hs_arrays_add_texts(arrays, "model", &name, 1, true);
    hs_arrays_add_texts(arrays, "model_sha256", &sha256, 1, true);
    hs_arrays_add_texts(arrays, "request", &(hs_bytes){a->request->body, a->request->body_bytes}, 1, true);
    if (a->analysis->prompt)
        hs_arrays_add_texts(arrays, "prompt", (hs_bytes[]){hs_bytes_of(a->analysis->prompt->name)}, 1, true);
    uint8_t *truncated = hs_arrays_add(arrays, "truncated", HS_ELEMENT_BOOL, 0, 0, 0);
    if (truncated)
        *truncated = hs__answer_truncated(a);
}

static hs_status write_npz(hs_buffer *b, const hs_arrays *arrays, hs_error *err)
{
    hs_npz npz = {.memory = b};
    size_t n_bytes = HS__NPZ_OVERHEAD;
    for (size_t i = 0; i < arrays->n; i++)
        n_bytes += HS__NPZ_OVERHEAD + arrays->items[i].n_bytes;
    hs_buffer_reserve(b, n_bytes); /* so that the buffer never grows */
    for (size_t i = 0; i < arrays->n; i++)
        hs_npz_array(&npz, &arrays->items[i]);
    return hs_npz_finish(&npz, err);
}

hs_status hs__answer_write_npz(hs_buffer *b, const hs__answer *a, hs_error *err)
{
    const size_t n_source = a->text->memory.n_tokens, T = a->text->rows.n_tokens;
    hs_bytes *tokens = calloc(n_source > T ? n_source : T, sizeof *tokens);
    hs_arrays *arrays = calloc(1, sizeof *arrays);
    hs_status st = HS_NO_MEMORY;
    if (tokens && arrays) {
        add_texts(arrays, a, tokens);
        each_total(a, arrays, add_total);
        add_tokens(arrays, a);
        add_outputs(arrays, a);
        if (!arrays->failed)
            st = write_npz(b, arrays, err);
        hs_arrays_finish(arrays);
    }
    free(tokens);
    free(arrays);
    return st ? hs_fail(err, st, "no memory for the answer") : HS_OK;
}

/* ---- safetensors ---- */

/* Strings of __metadata__; totals are printed into them. */
typedef struct metadata {
    hs__metadata items[8 + HS__OUTPUTS_COUNT];
    char totals[HS__OUTPUTS_COUNT][24];
    size_t n, n_totals;
} metadata;

static void metadata_add(metadata *m, const char *name, hs_bytes text)
{
    m->items[m->n++] = (hs__metadata){name, text};
}

static void metadata_add_total(void *to, const char *name, uint64_t total)
{
    metadata *m = to;
    char *text = m->totals[m->n_totals++];
    snprintf(text, sizeof *m->totals, "%llu", (unsigned long long)total);
    metadata_add(m, name, hs_bytes_of(text));
}

static void write_token_list(hs_buffer *b, const hs__answer *a, const hs_encoding *side)
{
    for (size_t i = 0; i < side->n_tokens; i++) {
        const hs_bytes token = hs_bytes_of(hs__answer_token(a, side, i));
        hs_buffer_add(b, i ? "," : "[", 1);
        hs__json_string(b, token.data, token.size);
    }
    hs_buffer_add(b, "]", 1);
}

hs_status hs__answer_write_safetensors(hs_buffer *b, const hs__answer *a, hs_error *err)
{
    metadata m = {.n = 0};
    char hex[HS_SHA256_HEX];
    hs_buffer tokens = {0}, source = {0};
    hs_arrays *arrays = calloc(1, sizeof *arrays);
    if (!arrays)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the answer");
    write_token_list(&tokens, a, &a->text->rows);
    if (a->text->memory.n_tokens)
        write_token_list(&source, a, &a->text->memory);
    metadata_add(&m, "model", hs_bytes_of(a->model->name));
    hs_model_sha256(a->model->model, hex);
    metadata_add(&m, "model_sha256", hs_bytes_of(hex));
    metadata_add(&m, "request", (hs_bytes){a->request->body, a->request->body_bytes});
    metadata_add(&m, "truncated", hs_bytes_of(hs__answer_truncated(a) ? "true" : "false"));
    if (hs__answer_stack(a))
        metadata_add(&m, "stack", hs_bytes_of(hs__answer_stack(a)));
    if (a->analysis->prompt)
        metadata_add(&m, "prompt", hs_bytes_of(a->analysis->prompt->name));
    metadata_add(&m, "tokens", (hs_bytes){tokens.data, tokens.size});
    if (a->text->memory.n_tokens)
        metadata_add(&m, "source_tokens", (hs_bytes){source.data, source.size});
    each_total(a, &m, metadata_add_total);
    add_tokens(arrays, a);
    add_outputs(arrays, a);
    b->failed |= tokens.failed || source.failed || arrays->failed;
    if (!b->failed)
        hs__tensors_write(b, arrays, m.items, m.n);
    hs_buffer_finish(&tokens);
    hs_buffer_finish(&source);
    hs_arrays_finish(arrays);
    free(arrays);
    return b->failed ? hs_fail(err, HS_NO_MEMORY, "no memory for the answer") : HS_OK;
}
