/* answer_json.c - writes the JSON answer. Threads share the work on large arrays. */
#include "api/answer_write.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Numbers that all threads format at once, some 40 MB of text: enough for 16 threads and maps of 512 tokens.
 */
#define SLOTS_NUMBERS_MAX ((size_t)4 << 20)

static void write_token(hs_buffer *b, const hs__answer *a, size_t i)
{
    const char *token = hs__answer_token(a, i);
    hs__json_string(b, token, strlen(token));
}

static void write_id(hs_buffer *b, const hs__answer *a, size_t i)
{
    hs__json_integer(b, a->encoding->ids[i]);
}

static void write_type(hs_buffer *b, const hs__answer *a, size_t i)
{
    hs__json_integer(b, a->encoding->types[i]);
}

static void write_special(hs_buffer *b, const hs__answer *a, size_t i)
{
    hs__json_integer(b, a->encoding->special[i]);
}

static void write_offsets(hs_buffer *b, const hs__answer *a, size_t i)
{
    hs__json_range(b, a->encoding->starts[i], a->encoding->ends[i]);
}

static void write_sentence(hs_buffer *b, const hs__answer *a, size_t i)
{
    hs__json_integer(b, a->sentences[i]);
}

static void write_word(hs_buffer *b, const hs__answer *a, size_t i)
{
    if (a->encoding->word_ids[i] < 0)
        hs_buffer_text(b, "null");
    else
        hs__json_integer(b, a->encoding->word_ids[i]);
}

typedef void element_writer(hs_buffer *b, const hs__answer *a, size_t i);

/* `,"name":[..]` with n elements. */
static void write_each(hs_buffer *b, const hs__answer *a, const char *name, size_t n, element_writer *write)
{
    hs__json_key(b, name);
    hs_buffer_add(b, "[", 1);
    for (size_t i = 0; i < n; i++) {
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
    hs__json_integer(b, (int64_t)a->n_prompt);
    hs_buffer_text(b, "}");
}

static void write_tokens(hs_buffer *b, const hs__answer *a)
{
    const size_t T = a->encoding->n_tokens;
    hs_buffer_text(b, "{\"model\":");
    hs__json_string(b, a->model->name, strlen(a->model->name));
    hs__json_key(b, "truncated");
    hs__json_bool(b, a->encoding->truncated);
    if (a->analysis->prompt)
        write_prompt(b, a);
    write_each(b, a, "input_ids", T, write_id);
    write_each(b, a, "tokens", T, write_token);
    write_each(b, a, "token_type_ids", T, write_type);
    write_each(b, a, "special_tokens_mask", T, write_special);
    if (a->analysis->input.ids)
        hs_buffer_text(b, ",\"offset_mapping\":null");
    else
        write_each(b, a, "offset_mapping", T, write_offsets);
    write_each(b, a, "sentence_ids", T, write_sentence);
    write_each(b, a, "word_ids", T, write_word);
}

static void write_layer_number(hs_buffer *b, const hs__answer *a, size_t i)
{
    hs__json_integer(b, a->analysis->layers[i]);
}

static void write_head_number(hs_buffer *b, const hs__answer *a, size_t i)
{
    hs__json_integer(b, a->analysis->heads[i]);
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
    t.n_axes = hs__output_lengths(output, a->analysis, a->model->shape, a->encoding->n_tokens, t.lengths);
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

static void write_heads(hs_buffer *b, const hs__answer *a, const hs__structure *structure, const void *result)
{
    hs_buffer_add(b, "[", 1);
    for (size_t l = 0; l < a->analysis->n_layers; l++) {
        hs__json_comma(b, l);
        hs_buffer_add(b, "[", 1);
        for (size_t h = 0; h < a->analysis->n_heads; h++) {
            hs__json_comma(b, h);
            structure->write_head(b, a, result, l * a->analysis->n_heads + h);
        }
        hs_buffer_add(b, "]", 1);
    }
    hs_buffer_add(b, "]", 1);
}

static void write_output(hs_buffer *b, const hs__answer *a, size_t i)
{
    const hs__output *output = hs__output_at(i);
    const hs__structure *structure = output->structure;
    hs__json_key(b, hs__output_names[i]);
    if (!structure)
        write_array(b, a, output);
    else if (structure->write_head)
        write_heads(b, a, structure, a->results[i]);
    else
        structure->write_json(b, a, a->results[i]);
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
    write_each(b, a, "layers", a->analysis->n_layers, write_layer_number);
    write_each(b, a, "heads", a->analysis->n_heads, write_head_number);
    for (size_t i = 0; hs__output_at(i); i++)
        if (a->analysis->outputs >> i & 1)
            write_output(b, a, i);
    hs_buffer_text(b, "}");
}
