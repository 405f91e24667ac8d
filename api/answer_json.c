/* answer_json.c - the JSON answer: small parts member by member, arrays row by row straight from the floats.
 */
#include "api/answer_write.h"

#include <string.h>

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

/* Maps end early for who went away: what is there is thrown away then. */
static void write_array(hs__buffer *b, const hs__answer *a, const hs__output *output)
{
    size_t lengths[HS_AXES_MAX];
    const size_t n_walked = hs__output_n_walked(output);
    const size_t n_axes =
        hs__output_lengths(output, a->wanted, a->model->shape, a->encoding->n_tokens, lengths);
    const size_t n_heads = n_walked == 2 ? lengths[1] : 1;
    hs__buffer_add(b, "[", 1);
    for (size_t l = 0; l < lengths[0]; l++) {
        hs__json_comma(b, l);
        hs__buffer_add(b, "[", n_walked == 2);
        for (size_t h = 0; h < n_heads && !b->failed && !hs__answer_cancelled(a); h++) {
            hs__json_comma(b, h);
            hs__json_block(b, hs__output_part(output, a, l, h), n_axes - n_walked, lengths + n_walked,
                           (int)a->wanted->digits);
        }
        hs__buffer_add(b, "]", n_walked == 2);
    }
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
