/* answer_size.c - how large an answer can become, before anything is computed. */
#include "api/answer.h"

#include "api/formats/number.h"

#include <string.h>

/* No product below can overflow: shapes are within HS_..._MAX, T within HS_POSITIONS_MAX. */
typedef struct sizes {
    size_t T, longest_token, pairs_max, n_maps, n_heads, map_numbers;
} sizes;

static void measure(const hs__ask *ask, const hs__served_model *model, const hs_encoding *encoding,
                    sizes *ret_sizes)
{
    const size_t T = encoding->n_tokens;
    sizes s = {.T = T};
    for (size_t i = 0; i < T; i++) {
        const size_t n = strlen(hs_tokenizer_token(hs_model_tokenizer(model->model), encoding->ids[i]));
        s.longest_token = n > s.longest_token ? n : s.longest_token;
    }
    s.n_heads = ask->n_layers * ask->n_heads;
    s.n_maps = ask->n_layers * hs__answer_map_heads(ask);
    const size_t pairs = s.n_heads * (T * (T - 1) / 2);
    s.pairs_max = pairs < ask->max_pairs ? pairs : ask->max_pairs;
    if (ask->outputs & HS__ATTENTIONS)
        s.map_numbers += s.n_maps * T * T;
    if (ask->outputs & HS__SIMILARITIES)
        s.map_numbers += s.n_maps * T * T;
    if (ask->outputs & HS__HEAD_OUTPUTS)
        s.map_numbers += s.n_maps * T * model->shape->head_width;
    if (ask->outputs & HS__HIDDEN_STATES)
        s.map_numbers += (ask->n_layers + 1) * T * model->shape->hidden;
    *ret_sizes = s;
}

/* Brackets, commas and names are counted generously; numbers and strings by their longest text. */
static size_t json_bytes_max(const hs__ask *ask, const sizes *s)
{
    const size_t number = HS__FLOAT_TEXT_MAX(ask->digits) + 1, token = 6 * s->longest_token + 3;
    size_t bytes = 4096 + s->T * (96 + token) + s->map_numbers * number;
    bytes += 5 * (s->n_maps + ask->n_layers + 1) * (3 * s->T + 3 + HS__NUMBER_ROOM);
    if (ask->outputs & HS__PAIRS)
        bytes += s->pairs_max * (170 + 2 * token + 2 * number);
    if (ask->outputs & HS__REGIONS)
        bytes += s->n_heads * (64 + s->T * (7 + 14 + 3) + s->T * s->T * number);
    if (ask->outputs & HS__SEGMENTS)
        bytes += ask->n_layers * (s->T * (160 + 2 * number) + 6 * (ask->text.n_bytes + ask->pair.n_bytes));
    if (ask->outputs & HS__SUMMARY)
        bytes += s->n_heads * (400 + token + 9 * number);
    return bytes;
}

static size_t binary_bytes_max(const hs__ask *ask, const sizes *s, size_t body_bytes)
{
    const size_t item = ask->dtype == HS__F4 ? 4 : ask->dtype == HS__F2 ? 2 : 1;
    /* The request comes along: as <U in npz (4 bytes a character), as an escaped string in safetensors. */
    size_t bytes = 65536 + 6 * body_bytes + s->map_numbers * item;
    bytes += s->T * (64 + 6 * s->longest_token);
    if (ask->outputs & HS__PAIRS)
        bytes += s->pairs_max * 32;
    if (ask->outputs & HS__REGIONS)
        bytes += s->n_heads * (32 + s->T * 12 + s->T * s->T * 4);
    if (ask->outputs & HS__SEGMENTS)
        bytes += ask->n_layers * s->T * 40;
    if (ask->outputs & HS__SUMMARY)
        bytes += s->n_heads * 64;
    return bytes;
}

size_t hs__answer_bytes_max(const hs__ask *ask, hs__format format, const hs__served_model *model,
                            const hs_encoding *encoding, size_t body_bytes)
{
    sizes s;
    measure(ask, model, encoding, &s);
    return format == HS__JSON ? json_bytes_max(ask, &s) : binary_bytes_max(ask, &s, body_bytes);
}
