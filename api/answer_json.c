/* answer_json.c - the JSON answer: small parts member by member, arrays row by row straight from the floats.
 */
#include "api/answer_write.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* In the memory of all threads, some 40 MB: as many as 16 write maps of 512 tokens. */
#define OWN_NUMBERS_MAX ((size_t)4 << 20)

enum {
    SPINS = 4000
}; /* some us: a part takes longer, but those at work on several end one after the other */

static void write_token(hs__buffer *b, const hs__answer *a, size_t i)
{
    const char *token = hs__answer_token(a, i);
    hs__json_string(b, token, strlen(token));
}

static void write_id(hs__buffer *b, const hs__answer *a, size_t i)
{
    hs__json_integer(b, a->encoding->ids[i]);
}

static void write_type(hs__buffer *b, const hs__answer *a, size_t i)
{
    hs__json_integer(b, a->encoding->types[i]);
}

static void write_special(hs__buffer *b, const hs__answer *a, size_t i)
{
    hs__json_integer(b, a->encoding->special[i]);
}

static void write_offsets(hs__buffer *b, const hs__answer *a, size_t i)
{
    hs__json_range(b, a->encoding->starts[i], a->encoding->ends[i]);
}

static void write_sentence(hs__buffer *b, const hs__answer *a, size_t i)
{
    hs__json_integer(b, a->sentences[i]);
}

static void write_word(hs__buffer *b, const hs__answer *a, size_t i)
{
    if (a->encoding->word_ids[i] < 0)
        hs__buffer_text(b, "null");
    else
        hs__json_integer(b, a->encoding->word_ids[i]);
}

typedef void element_writer(hs__buffer *b, const hs__answer *a, size_t i);

/* `,"name":[..]` with n elements. */
static void write_each(hs__buffer *b, const hs__answer *a, const char *name, size_t n, element_writer *write)
{
    hs__json_key(b, name);
    hs__buffer_add(b, "[", 1);
    for (size_t i = 0; i < n; i++) {
        hs__json_comma(b, i);
        write(b, a, i);
    }
    hs__buffer_add(b, "]", 1);
}

static void write_tokens(hs__buffer *b, const hs__answer *a)
{
    const size_t T = a->encoding->n_tokens;
    hs__buffer_text(b, "{\"model\":");
    hs__json_string(b, a->model->name, strlen(a->model->name));
    hs__json_key(b, "truncated");
    hs__json_bool(b, a->encoding->truncated);
    write_each(b, a, "input_ids", T, write_id);
    write_each(b, a, "tokens", T, write_token);
    write_each(b, a, "token_type_ids", T, write_type);
    write_each(b, a, "special_tokens_mask", T, write_special);
    if (a->wanted->input_ids)
        hs__buffer_text(b, ",\"offset_mapping\":null");
    else
        write_each(b, a, "offset_mapping", T, write_offsets);
    write_each(b, a, "sentence_ids", T, write_sentence);
    write_each(b, a, "word_ids", T, write_word);
}

static void write_layer_number(hs__buffer *b, const hs__answer *a, size_t i)
{
    hs__json_integer(b, a->wanted->layers[i]);
}

static void write_head_number(hs__buffer *b, const hs__answer *a, size_t i)
{
    hs__json_integer(b, a->wanted->heads[i]);
}

/* ---- arrays ---- */

/* An array's text is made part by part (a layer's, or a head's), in memory of whoever makes one. When all
 * parts before have their place in the answer, one takes its own and is copied there: only the order is
 * waited for, and no text depends on who wrote it. */
typedef struct array_text {
    hs__buffer *body; /* with room for all of it */
    const hs__answer *answer;
    const hs__output *output;
    size_t n_walked, n_heads, n_axes, lengths[HS_AXES_MAX];
    atomic_size_t n_placed; /* parts that have their place; body->size is the next one's to change */
    hs__buffer *own;        /* [n_slots] */
} array_text;

/* What is there for who went away is thrown away: it may end early. */
static void write_part(hs__buffer *b, const array_text *t, size_t i, size_t slot)
{
    const size_t l = i / t->n_heads, h = i % t->n_heads;
    hs__json_comma(b, i);
    hs__buffer_add(b, "[", t->n_walked == 2 && h == 0);
    if (!b->failed && !hs__answer_cancelled(t->answer))
        hs__json_block(b, hs__output_part(t->output, t->answer, l, h, slot), t->n_axes - t->n_walked,
                       t->lengths + t->n_walked, (int)t->answer->wanted->digits);
    hs__buffer_add(b, "]", t->n_walked == 2 && h + 1 == t->n_heads);
}

/* Whoever has the parts before is at work on them, for they were begun in order. */
static void wait_for_turn(atomic_size_t *n_placed, size_t i)
{
    for (size_t n = 0; atomic_load_explicit(n_placed, memory_order_acquire) < i; n++)
        if (n > SPINS)
            sched_yield();
}

static void part_text(void *context, size_t i, size_t slot)
{
    array_text *t = context;
    hs__buffer *own = &t->own[slot], *body = t->body;
    own->size = 0;
    write_part(own, t, i, slot);
    wait_for_turn(&t->n_placed, i);
    char *to = body->data + body->size;
    body->failed |= own->failed || own->size > body->capacity - body->size;
    const size_t n = body->failed ? 0 : own->size;
    body->size += n;
    atomic_store_explicit(&t->n_placed, i + 1, memory_order_release);
    if (n > 0)
        memcpy(to, own->data, n);
}

static void write_parts_shared(array_text *t, size_t n_threads, size_t n_parts)
{
    t->own = calloc(n_threads, sizeof *t->own);
    t->body->failed |= !t->own;
    if (t->own)
        hs__answer_share(t->answer, n_threads, n_parts, part_text, t);
    for (size_t slot = 0; t->own && slot < n_threads; slot++)
        hs__buffer_finish(&t->own[slot]);
    free(t->own);
}

/* On one thread nothing is waited for, and nothing copied. */
static void write_array(hs__buffer *b, const hs__answer *a, const hs__output *output)
{
    array_text t = {.body = b, .answer = a, .output = output, .n_walked = hs__output_n_walked(output)};
    t.n_axes = hs__output_lengths(output, a->wanted, a->model->shape, a->encoding->n_tokens, t.lengths);
    t.n_heads = t.n_walked == 2 ? t.lengths[1] : 1;
    const size_t n_parts = t.lengths[0] * t.n_heads;
    size_t n = 1; /* numbers of a part */
    for (size_t axis = t.n_walked; axis < t.n_axes; axis++)
        n *= t.lengths[axis];
    size_t n_threads = hs__answer_threads(a, n * n_parts);
    while (n_threads > 1 && n_threads * n > OWN_NUMBERS_MAX)
        n_threads--;
    hs__buffer_add(b, "[", 1);
    if (n_threads > 1 && !b->failed)
        write_parts_shared(&t, n_threads, n_parts);
    else
        for (size_t i = 0; i < n_parts; i++)
            write_part(b, &t, i, 0);
    hs__buffer_add(b, "]", 1);
}

static void write_output(hs__buffer *b, const hs__answer *a, size_t i)
{
    const hs__output *output = hs__output_at(i);
    const hs__structure *structure = output->structure;
    hs__json_key(b, output->name);
    if (!structure)
        write_array(b, a, output);
    else
        structure->write_json(b, a, a->results[i]);
    if (structure && structure->total) {
        hs__json_key(b, structure->total_name);
        hs__json_integer(b, (int64_t)structure->total(a->results[i]));
    }
}

void hs__answer_write_tokens(hs__buffer *b, const hs__answer *a)
{
    write_tokens(b, a);
    hs__buffer_text(b, "}");
}

void hs__answer_write_json(hs__buffer *b, const hs__answer *a)
{
    write_tokens(b, a);
    write_each(b, a, "layers", a->wanted->n_layers, write_layer_number);
    write_each(b, a, "heads", a->wanted->n_heads, write_head_number);
    for (size_t i = 0; hs__output_at(i); i++)
        if (a->wanted->outputs >> i & 1)
            write_output(b, a, i);
    hs__buffer_text(b, "}");
}
