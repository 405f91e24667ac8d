/* answer_json.c - bounds an answer's size before any pass, and writes the JSON answer. */
#include "api/answer/answer.h"

#include "api/formats/arrays.h"
#include "api/formats/json_text.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ==== sizes ==== */

/* Bounds the size of an answer before any pass. Counts numbers and strings by their longest
 * text and rounds up brackets, commas and names. */

/* Returns the bytes of the longest token, or of the longest word's tokens. */
static size_t longest_label(const hs__served_model *model, const hs_encoding *side, bool words)
{
    const hs_tokenizer *tokenizer = hs_model_tokenizer(model->model);
    size_t longest = 0;
    for (size_t i = 0; i < side->n_tokens;) {
        const size_t end = words ? hs__word_end(tokenizer, side, i) : i + 1;
        size_t n = 0;
        for (; i < end; i++)
            n += strlen(hs_tokenizer_token(tokenizer, side->ids[i]));
        longest = n > longest ? n : longest;
    }
    return longest;
}

/* Returns the numbers of an array output; *ret_lists is the number of their lists in JSON. */
static size_t count(const hs__output *output, const hs__measures *m, size_t *ret_lists)
{
    size_t lengths[HS_AXES_MAX], n = 1;
    const size_t n_axes = hs__output_lengths(output, m->analysis, m->shape, m->text, lengths);
    *ret_lists = 0;
    for (size_t axis = 0; axis < n_axes; axis++) {
        *ret_lists += n;
        n *= lengths[axis];
    }
    return n;
}

static size_t output_bytes_max(const hs__output *output, hs__answer_format format, const hs__measures *m)
{
    static const size_t item[] = {[HS__DTYPE_F4] = 4, [HS__DTYPE_F2] = 2, [HS__DTYPE_U1] = 1};
    size_t n_lists;
    if (output->structure)
        return format == HS__JSON ? hs__table_json_max(output->structure->table, m)
                                  : hs__table_arrays_max(output->structure->table, m);
    const size_t n = count(output, m, &n_lists);
    return format == HS__JSON ? n * m->number + 3 * n_lists : n * item[m->analysis->dtype];
}

/* Returns an upper bound of the number of arrays in a binary answer. */
static size_t arrays_max(const hs__analysis_request *analysis)
{
    size_t n = 128;
    for (size_t i = 0; analysis->hooks && hs__output_at(i); i++)
        n += hs__output_at(i)->hook && analysis->outputs >> i & 1 ? analysis->n_layers + 1 : 0;
    return n;
}

size_t hs__answer_bytes_max(const hs__analysis_request *analysis, hs__answer_format format,
                            const hs__served_model *model, const hs__text_read *text, size_t body_bytes)
{
    const bool words = analysis->figure.merge_words;
    const size_t row = longest_label(model, &text->rows, words),
                 column = longest_label(model, &text->memory, words);
    const size_t longest = row > column ? row : column;
    const size_t T = text->rows.n_tokens, S = text->memory.n_tokens, K = text->keys->n_tokens;
    const hs_tokenizer *tokenizer = hs_model_tokenizer(model->model);
    if (format == HS__CSV && words) /* a row for each pair of words */
        return hs__figure_bytes_max(analysis, true, model->shape, hs__words_count(tokenizer, &text->rows),
                                    hs__words_count(tokenizer, text->keys), longest + 24);
    if (hs__format_is_figure(format))
        return hs__figure_bytes_max(analysis, format == HS__CSV, model->shape, T, K, longest + 24);
    const hs__measures m = {.analysis = analysis,
                            .architecture = model->architecture,
                            .shape = model->shape,
                            .text = text,
                            .n_tokens = T,
                            .n_keys = K,
                            .n_source = S,
                            .n_heads = analysis->n_layers * analysis->n_heads,
                            .number = HS__FLOAT_TEXT_MAX(analysis->digits) + 1,
                            .token = 6 * longest + 3,
                            .entry = model->entry_bytes + 1};
    /* A binary answer contains the request: as <U in npz (4 bytes a character), as an escaped string in
     * safetensors. */
    size_t n_bytes = format == HS__JSON ? 8192 + T * (96 + m.token) + S * m.token
                                        : HS__NPZ_OVERHEAD * arrays_max(analysis) + 6 * body_bytes + T * 64 +
                                              (T + S) * (16 + 6 * longest);
    if (analysis->prompt)
        n_bytes += 128 + 6 * (strlen(analysis->prompt->name) + strlen(analysis->prompt->text));
    for (size_t i = 0; hs__output_at(i); i++)
        if (analysis->outputs >> i & 1)
            n_bytes += output_bytes_max(hs__output_at(i), format, &m);
    return n_bytes;
}

/* ==== JSON ==== */

/* Writes the JSON answer. Threads share the work on large arrays. */

/* Numbers that all threads format at once, some 40 MB of text: enough for 16 threads and maps of 512 tokens.
 */
#define SLOTS_NUMBERS_MAX ((size_t)4 << 20)

/* Numbers of one of three widths; the others are NULL. */
typedef struct integers {
    const uint8_t *u8;
    const uint16_t *u16;
    const int32_t *i32;
} integers;

/* `,"name":[1,2,3]` with n elements. */
static void write_integers(hs_buffer *b, const char *name, size_t n, integers list)
{
    assert(list.u8 || list.u16 || list.i32);
    hs__json_key(b, name);
    hs_buffer_add(b, "[", 1);
    for (size_t i = 0; i < n; i++) {
        hs__json_comma(b, i);
        hs__json_integer(b, list.u8 ? list.u8[i] : list.u16 ? list.u16[i] : list.i32[i]);
    }
    hs_buffer_add(b, "]", 1);
}

/* `,"name":["a","b"]`: the tokens of a side of the text. */
static void write_texts(hs_buffer *b, const hs__answer *a, const char *name, const hs_encoding *side)
{
    hs__json_key(b, name);
    hs_buffer_add(b, "[", 1);
    for (size_t i = 0; i < side->n_tokens; i++) {
        const char *token = hs__answer_token(a, side, i);
        hs__json_comma(b, i);
        hs__json_string(b, token, strlen(token));
    }
    hs_buffer_add(b, "]", 1);
}

static void write_generated(hs_buffer *b, const hs__answer *a, size_t i)
{
    hs__json_integer(b, i >= a->text->n_given);
}

static void write_offsets(hs_buffer *b, const hs__answer *a, size_t i)
{
    hs__json_range(b, a->text->rows.starts[i], a->text->rows.ends[i]);
}

static void write_word(hs_buffer *b, const hs__answer *a, size_t i)
{
    if (a->text->rows.word_ids[i] < 0)
        hs_buffer_text(b, "null");
    else
        hs__json_integer(b, a->text->rows.word_ids[i]);
}

/* `,"name":[..]` with an element for each row. */
static void write_each(hs_buffer *b, const hs__answer *a, const char *name,
                       void (*write)(hs_buffer *b, const hs__answer *a, size_t i))
{
    hs__json_key(b, name);
    hs_buffer_add(b, "[", 1);
    for (size_t i = 0; i < a->text->rows.n_tokens; i++) {
        hs__json_comma(b, i);
        write(b, a, i);
    }
    hs_buffer_add(b, "]", 1);
}

static void write_prompt(hs_buffer *b, const hs__answer *a)
{
    const hs_prompt *prompt = a->analysis->prompt;
    hs_buffer_text(b, ",\"prompt\":{\"name\":");
    hs__json_string(b, prompt->name, strlen(prompt->name));
    hs__json_key(b, "text");
    hs__json_string(b, prompt->text, strlen(prompt->text));
    hs__json_key(b, "tokens");
    hs__json_integer(b, (int64_t)a->text->n_prompt);
    hs_buffer_text(b, "}");
}

static void write_window(hs_buffer *b, const hs__answer *a)
{
    const hs__window_place place = hs__answer_window(a);
    hs_buffer_text(b, ",\"window\":{\"index\":");
    hs__json_integer(b, (int64_t)a->analysis->window);
    hs__json_key(b, "tokens");
    hs__json_range(b, (size_t)place.tokens[0], (size_t)place.tokens[1]);
    hs__json_key(b, "chars");
    if (place.chars[0] < 0)
        hs_buffer_text(b, "null");
    else
        hs__json_range(b, (size_t)place.chars[0], (size_t)place.chars[1]);
    hs_buffer_text(b, "}");
    hs__json_key(b, "windows");
    hs__json_integer(b, (int64_t)a->text->windows.n);
}

static void write_stack(hs_buffer *b, const hs__answer *a)
{
    hs__json_key(b, "stack");
    hs__json_string(b, hs__answer_stack(a), strlen(hs__answer_stack(a)));
}

static void write_tokens(hs_buffer *b, const hs__answer *a)
{
    const hs_encoding *rows = &a->text->rows;
    const size_t T = rows->n_tokens;
    hs_buffer_text(b, "{\"model\":");
    hs__json_string(b, a->model->name, strlen(a->model->name));
    hs__json_key(b, "truncated");
    hs__json_bool(b, hs__answer_truncated(a));
    if (hs__answer_stack(a))
        write_stack(b, a);
    if (a->text->windows.n)
        write_window(b, a);
    if (a->analysis->prompt)
        write_prompt(b, a);
    write_integers(b, "input_ids", T, (integers){.i32 = rows->ids});
    write_texts(b, a, "tokens", rows);
    write_integers(b, "token_type_ids", T, (integers){.u8 = rows->types});
    write_integers(b, "special_tokens_mask", T, (integers){.u8 = rows->special});
    if (a->text->n_given)
        write_each(b, a, "generated", write_generated);
    if (hs__input_of_rows(a->analysis)->ids)
        hs_buffer_text(b, ",\"offset_mapping\":null");
    else
        write_each(b, a, "offset_mapping", write_offsets);
    write_integers(b, "sentence_ids", T, (integers){.i32 = a->text->sentences});
    write_each(b, a, "word_ids", write_word);
    if (a->text->memory.n_tokens)
        write_texts(b, a, "source_tokens", &a->text->memory);
}

/* ---- arrays ---- */

typedef struct array_slot {
    hs_buffer text;      /* of the part that the slot's thread formats */
    pthread_cond_t turn; /* for the thread of a part i where i % n_slots is this slot's number */
} array_slot;

/* An array that threads write together. A part is one layer, or one head of a layer. Threads take parts in
 * ascending order, format them apart and copy each to its place, once all parts before have theirs. */
typedef struct array_text {
    hs_buffer *body; /* has capacity for the array */
    const hs__answer *answer;
    const hs__output *output;
    size_t n_walked, n_heads, n_axes, lengths[HS_AXES_MAX];
    pthread_mutex_t mutex;
    size_t n_placed; /* parts that have their place; guarded by mutex, as body is */
    size_t n_slots;
    array_slot *slots; /* [n_slots] */
} array_text;

/* Appends part i. Appends less if the request was cancelled: its output is discarded. */
static void write_part(hs_buffer *b, const array_text *t, size_t i, size_t slot)
{
    const size_t l = i / t->n_heads, h = i % t->n_heads;
    hs__json_comma(b, i);
    hs_buffer_add(b, "[", t->n_walked == 2 && h == 0);
    if (!b->failed && !hs__answer_cancelled(t->answer))
        hs__json_block(b, hs__output_part(t->output, t->answer, l, h, slot), t->n_axes - t->n_walked,
                       t->lengths + t->n_walked, (int)t->answer->analysis->digits);
    hs_buffer_add(b, "]", t->n_walked == 2 && h + 1 == t->n_heads);
}

/* Waits until parts [0, i) have their place, then reserves the place of part i. At most n_slots successive
 * parts are in work, so no two threads wait for the same condition. */
static char *place_part(array_text *t, size_t i, hs_buffer *text)
{
    hs_buffer *body = t->body;
    pthread_mutex_lock(&t->mutex);
    while (t->n_placed < i)
        pthread_cond_wait(&t->slots[i % t->n_slots].turn, &t->mutex);
    char *to = body->data + body->size;
    body->failed |= text->failed || text->size > body->capacity - body->size;
    text->size = body->failed ? 0 : text->size;
    body->size += text->size;
    t->n_placed++;
    pthread_cond_signal(&t->slots[t->n_placed % t->n_slots].turn);
    pthread_mutex_unlock(&t->mutex);
    return to;
}

static void part_text(void *context, size_t i, size_t slot)
{
    array_text *t = context;
    hs_buffer *text = &t->slots[slot].text;
    text->size = 0;
    write_part(text, t, i, slot);
    char *to = place_part(t, i, text);
    if (text->size > 0)
        memcpy(to, text->data, text->size);
}

static void write_parts_shared(array_text *t, size_t n_parts)
{
    t->slots = calloc(t->n_slots, sizeof *t->slots);
    if (!t->slots) {
        t->body->failed = true;
        return;
    }
    pthread_mutex_init(&t->mutex, NULL); /* cannot fail with glibc's default attributes, nor can conditions */
    for (size_t slot = 0; slot < t->n_slots; slot++)
        pthread_cond_init(&t->slots[slot].turn, NULL);
    hs__answer_share(t->answer, t->n_slots, n_parts, part_text, t);
    for (size_t slot = 0; slot < t->n_slots; slot++) {
        pthread_cond_destroy(&t->slots[slot].turn);
        hs_buffer_finish(&t->slots[slot].text);
    }
    pthread_mutex_destroy(&t->mutex);
    free(t->slots);
}

/* A single thread writes straight into b: it neither waits nor copies. */
static void write_array(hs_buffer *b, const hs__answer *a, const hs__output *output)
{
    array_text t = {.body = b, .answer = a, .output = output, .n_walked = hs__output_n_walked(output)};
    t.n_axes = hs__answer_lengths(output, a, t.lengths);
    t.n_heads = t.n_walked == 2 ? t.lengths[1] : 1;
    const size_t n_parts = t.lengths[0] * t.n_heads;
    size_t n = 1; /* numbers of a part */
    for (size_t axis = t.n_walked; axis < t.n_axes; axis++)
        n *= t.lengths[axis];
    t.n_slots = hs__answer_threads(a, n * n_parts);
    while (t.n_slots > 1 && t.n_slots * n > SLOTS_NUMBERS_MAX)
        t.n_slots--;
    hs_buffer_add(b, "[", 1);
    if (t.n_slots > 1 && !b->failed)
        write_parts_shared(&t, n_parts);
    else
        for (size_t i = 0; i < n_parts; i++)
            write_part(b, &t, i, 0);
    hs_buffer_add(b, "]", 1);
}

static void write_output(hs_buffer *b, const hs__answer *a, size_t i)
{
    const hs__output *output = hs__output_at(i);
    const hs__structure *structure = output->structure;
    hs__json_key(b, hs__output_names[i]);
    if (!structure)
        write_array(b, a, output);
    else
        hs__table_write_json(b, a, structure->table, a->results[i]);
    if (structure && structure->total) {
        hs__json_key(b, structure->total_name);
        hs__json_integer(b, (int64_t)structure->total(a->results[i]));
    }
}

void hs__answer_write_tokens(hs_buffer *b, const hs__answer *a)
{
    write_tokens(b, a);
    hs_buffer_text(b, "}");
}

void hs__answer_write_json(hs_buffer *b, const hs__answer *a)
{
    write_tokens(b, a);
    write_integers(b, "layers", a->analysis->n_layers, (integers){.u16 = a->analysis->layers});
    write_integers(b, "heads", a->analysis->n_heads, (integers){.u16 = a->analysis->heads});
    for (size_t i = 0; hs__output_at(i); i++)
        if (a->analysis->outputs >> i & 1)
            write_output(b, a, i);
    hs_buffer_text(b, "}");
}
