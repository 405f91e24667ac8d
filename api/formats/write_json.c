/* write_json.c - the JSON answer: small parts member by member, maps row by row straight from the floats. */
#include "api/answer.h"

#include "api/formats/number.h"

#include <string.h>

static void key(hs__bytes *b, const char *name)
{
    hs__bytes_text(b, ",\"");
    hs__bytes_text(b, name);
    hs__bytes_text(b, "\":");
}

static void comma(hs__bytes *b, size_t i)
{
    if (i)
        hs__bytes_add(b, ",", 1);
}

static void write_range(hs__bytes *b, size_t start, size_t end)
{
    hs__bytes_add(b, "[", 1);
    hs__json_integer(b, (long long)start);
    hs__bytes_add(b, ",", 1);
    hs__json_integer(b, (long long)end);
    hs__bytes_add(b, "]", 1);
}

static void write_token(hs__bytes *b, const hs__answer *a, size_t i)
{
    const char *token = hs_tokenizer_token(hs_model_tokenizer(a->model->model), a->encoding->ids[i]);
    hs__json_string(b, token, strlen(token));
}

static void write_id(hs__bytes *b, const hs__answer *a, size_t i)
{
    hs__json_integer(b, a->encoding->ids[i]);
}

static void write_type(hs__bytes *b, const hs__answer *a, size_t i)
{
    hs__json_integer(b, a->encoding->types[i]);
}

static void write_special(hs__bytes *b, const hs__answer *a, size_t i)
{
    hs__json_integer(b, a->encoding->special[i]);
}

static void write_offsets(hs__bytes *b, const hs__answer *a, size_t i)
{
    write_range(b, a->encoding->starts[i], a->encoding->ends[i]);
}

static void write_sentence(hs__bytes *b, const hs__answer *a, size_t i)
{
    hs__json_integer(b, a->sentences[i]);
}

static void write_word(hs__bytes *b, const hs__answer *a, size_t i)
{
    if (a->encoding->word_ids[i] < 0)
        hs__bytes_text(b, "null");
    else
        hs__json_integer(b, a->encoding->word_ids[i]);
}

typedef void element_writer(hs__bytes *b, const hs__answer *a, size_t i);

/* `,"name":[..]` with n elements. */
static void write_each(hs__bytes *b, const hs__answer *a, const char *name, size_t n, element_writer *write)
{
    key(b, name);
    hs__bytes_add(b, "[", 1);
    for (size_t i = 0; i < n; i++) {
        comma(b, i);
        write(b, a, i);
    }
    hs__bytes_add(b, "]", 1);
}

void hs__json_write_tokens(hs__bytes *b, const hs__answer *a)
{
    const size_t T = a->encoding->n_tokens;
    hs__bytes_text(b, "{\"model\":");
    hs__json_string(b, a->model->name, strlen(a->model->name));
    key(b, "truncated");
    hs__json_bool(b, a->encoding->truncated);
    write_each(b, a, "input_ids", T, write_id);
    write_each(b, a, "tokens", T, write_token);
    write_each(b, a, "token_type_ids", T, write_type);
    write_each(b, a, "special_tokens_mask", T, write_special);
    write_each(b, a, "offset_mapping", T, write_offsets);
    write_each(b, a, "sentence_ids", T, write_sentence);
    write_each(b, a, "word_ids", T, write_word);
}

static void write_layer_number(hs__bytes *b, const hs__answer *a, size_t i)
{
    hs__json_integer(b, a->ask->layers[i]);
}

static void write_head_number(hs__bytes *b, const hs__answer *a, size_t i)
{
    hs__json_integer(b, a->ask->heads[i]);
}

static void write_matrix(hs__bytes *b, const float *values, size_t n_rows, size_t n_columns, int digits)
{
    hs__bytes_add(b, "[", 1);
    for (size_t row = 0; row < n_rows; row++) {
        comma(b, row);
        hs__json_floats(b, values + row * n_columns, n_columns, digits);
    }
    hs__bytes_add(b, "]", 1);
}

static void write_maps(hs__bytes *b, const hs__answer *a, const char *name, unsigned output)
{
    const size_t T = a->encoding->n_tokens, n_heads = hs__answer_map_heads(a->ask);
    const size_t n_columns = output == HS__HEAD_OUTPUTS ? a->capture->head_width : T;
    key(b, name);
    hs__bytes_add(b, "[", 1);
    for (size_t l = 0; l < a->ask->n_layers; l++) {
        comma(b, l);
        for (size_t h = 0; h < n_heads && !b->failed && !hs__answer_cancelled(a); h++) {
            hs__bytes_add(b, h ? "," : "[", 1);
            write_matrix(b, hs__answer_map(a, output, l, h), T, n_columns, a->ask->digits);
        }
        hs__bytes_add(b, "]", 1);
    }
    hs__bytes_add(b, "]", 1);
}

static void write_hidden_states(hs__bytes *b, const hs__answer *a)
{
    key(b, "hidden_states");
    hs__bytes_add(b, "[", 1);
    for (size_t s = 0; s <= a->ask->n_layers && !hs__answer_cancelled(a); s++) {
        comma(b, s);
        write_matrix(b, hs__answer_hidden_state(a, s), a->encoding->n_tokens, a->capture->hidden,
                     a->ask->digits);
    }
    hs__bytes_add(b, "]", 1);
}

static void write_pair(hs__bytes *b, const hs__answer *a, size_t at)
{
    const hs_pair *pair = &a->pairs[at];
    hs__bytes_text(b, "{\"layer\":");
    hs__json_integer(b, pair->layer);
    key(b, "head");
    hs__json_integer(b, pair->head);
    key(b, "i");
    hs__json_integer(b, pair->i);
    key(b, "j");
    hs__json_integer(b, pair->j);
    key(b, "token_i");
    write_token(b, a, pair->i);
    key(b, "token_j");
    write_token(b, a, pair->j);
    key(b, "similarity");
    hs__json_float(b, pair->similarity, a->ask->digits);
    key(b, "normalized");
    hs__json_float(b, pair->normalized, a->ask->digits);
    key(b, "distance");
    hs__json_integer(b, pair->j - pair->i);
    key(b, "same_token");
    hs__json_bool(b, a->encoding->ids[pair->i] == a->encoding->ids[pair->j]);
    key(b, "same_sentence");
    hs__json_bool(b, a->sentences[pair->i] == a->sentences[pair->j]);
    hs__bytes_add(b, "}", 1);
}

/* `,"name":[l][h]` with one value for each head asked for. */
static void write_heads(hs__bytes *b, const hs__answer *a, const char *name, element_writer *write)
{
    key(b, name);
    hs__bytes_add(b, "[", 1);
    for (size_t l = 0; l < a->ask->n_layers; l++) {
        comma(b, l);
        for (size_t h = 0; h < a->ask->n_heads; h++) {
            hs__bytes_add(b, h ? "," : "[", 1);
            write(b, a, l * a->ask->n_heads + h);
        }
        hs__bytes_add(b, "]", 1);
    }
    hs__bytes_add(b, "]", 1);
}

static void write_regions(hs__bytes *b, const hs__answer *a, size_t at)
{
    const hs__regions *r = &a->regions[at];
    hs__bytes_text(b, "{\"high_attention\":[");
    for (size_t i = 0; i < r->n_high; i++) {
        comma(b, i);
        hs__json_integer(b, r->high[i]);
    }
    hs__bytes_text(b, "],\"runs\":[");
    for (size_t i = 0; i < r->n_runs; i++) {
        comma(b, i);
        write_range(b, r->runs[i].start, r->runs[i].end);
    }
    hs__bytes_text(b, "],\"means\":");
    write_matrix(b, r->means, r->n_runs, r->n_runs, a->ask->digits);
    hs__bytes_add(b, "}", 1);
}

static void write_chars(hs__bytes *b, const char *name, const hs__slice *slice)
{
    key(b, name);
    if (slice->present)
        write_range(b, slice->start, slice->end);
    else
        hs__bytes_text(b, "null");
}

static void write_segment(hs__bytes *b, const hs__answer *a, const hs_segment *segment)
{
    hs__slice slices[2];
    hs__answer_slices(a, segment, slices);
    hs__bytes_text(b, "{\"start\":");
    hs__json_integer(b, segment->start);
    key(b, "end");
    hs__json_integer(b, segment->end);
    write_chars(b, "chars", &slices[0]);
    key(b, "text");
    hs__json_string(b, slices[0].bytes, slices[0].n_bytes);
    if (a->ask->has_pair) {
        write_chars(b, "pair_chars", &slices[1]);
        key(b, "pair_text");
        hs__json_string(b, slices[1].bytes, slices[1].n_bytes);
    }
    key(b, "cohesion");
    hs__json_float(b, segment->cohesion, a->ask->digits);
    key(b, "contrast");
    hs__json_float(b, segment->contrast, a->ask->digits);
    hs__bytes_add(b, "}", 1);
}

static void write_segments(hs__bytes *b, const hs__answer *a)
{
    key(b, "segments");
    hs__bytes_add(b, "[", 1);
    for (size_t l = 0; l < a->ask->n_layers; l++) {
        comma(b, l);
        hs__bytes_add(b, "[", 1);
        for (size_t i = 0; i < a->segments[l].n; i++) {
            comma(b, i);
            write_segment(b, a, &a->segments[l].items[i]);
        }
        hs__bytes_add(b, "]", 1);
    }
    hs__bytes_add(b, "]", 1);
}

static void write_figure(hs__bytes *b, const hs__answer *a, const char *name, float value)
{
    key(b, name);
    hs__json_float(b, value, a->ask->digits);
}

static void write_summary(hs__bytes *b, const hs__answer *a, size_t at)
{
    const hs_head_summary *s = &a->summaries[at];
    hs__bytes_text(b, "{\"max_similarity\":");
    hs__json_float(b, s->max_similarity, a->ask->digits);
    key(b, "high_pairs");
    hs__json_integer(b, (long long)s->high_pairs);
    write_figure(b, a, "repeated_share", s->repeated_share);
    write_figure(b, a, "same_sentence_share", s->same_sentence_share);
    write_figure(b, a, "repeated_same_sentence_share", s->repeated_same_sentence_share);
    write_figure(b, a, "mean_distance", s->mean_distance);
    key(b, "focal_token");
    if (s->focal_token < 0)
        hs__bytes_text(b, "null,\"focal_position\":null");
    else {
        write_token(b, a, (size_t)s->focal_token);
        key(b, "focal_position");
        hs__json_integer(b, s->focal_token);
    }
    write_figure(b, a, "focal_share", s->focal_share);
    write_figure(b, a, "attention_entropy", s->attention_entropy);
    write_figure(b, a, "separator_attention", s->separator_attention);
    write_figure(b, a, "snr_dprime", s->snr_dprime);
    hs__bytes_add(b, "}", 1);
}

void hs__json_write(hs__bytes *b, const hs__answer *a)
{
    const unsigned outputs = a->ask->outputs;
    hs__json_write_tokens(b, a);
    write_each(b, a, "layers", a->ask->n_layers, write_layer_number);
    write_each(b, a, "heads", a->ask->n_heads, write_head_number);
    if (outputs & HS__ATTENTIONS)
        write_maps(b, a, "attentions", HS__ATTENTIONS);
    if (outputs & HS__SIMILARITIES)
        write_maps(b, a, "similarities", HS__SIMILARITIES);
    if (outputs & HS__HEAD_OUTPUTS)
        write_maps(b, a, "head_outputs", HS__HEAD_OUTPUTS);
    if (outputs & HS__HIDDEN_STATES)
        write_hidden_states(b, a);
    if (outputs & HS__PAIRS) {
        write_each(b, a, "pairs", a->n_pairs, write_pair);
        key(b, "pairs_total");
        hs__json_integer(b, (long long)a->pairs_total);
    }
    if (outputs & HS__REGIONS)
        write_heads(b, a, "regions", write_regions);
    if (outputs & HS__SEGMENTS)
        write_segments(b, a);
    if (outputs & HS__SUMMARY)
        write_heads(b, a, "summary", write_summary);
    hs__bytes_add(b, "}", 1);
}
