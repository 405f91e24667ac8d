/* answer_size.c - bounds the size of an answer before any pass. Counts numbers and strings by their longest
 * text and rounds up brackets, commas and names. */
#include "api/answer_write.h"

#include "api/answer_figure.h"
#include "api/formats/json_text.h"
#include "api/formats/npz.h"

#include <string.h>

static size_t longest_token(const hs__served_model *model, const hs_encoding *encoding)
{
    size_t longest = 0;
    for (size_t i = 0; i < encoding->n_tokens; i++) {
        const size_t n = strlen(hs_tokenizer_token(hs_model_tokenizer(model->model), encoding->ids[i]));
        longest = n > longest ? n : longest;
    }
    return longest;
}

/* Returns the numbers of an array output; *ret_lists is the number of their lists in JSON. */
static size_t count(const hs__output *output, const hs__measures *m, size_t *ret_lists)
{
    size_t lengths[HS_AXES_MAX], n = 1;
    const size_t n_axes = hs__output_lengths(output, m->analysis, m->shape, m->n_tokens, lengths);
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
        return format == HS__JSON ? output->structure->json_bytes_max(m)
                                  : output->structure->array_bytes_max(m);
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
                            const hs__served_model *model, const hs_encoding *encoding, size_t body_bytes)
{
    if (format == HS__SVG || format == HS__PDF)
        return hs__figure_bytes_max(analysis, model->shape, encoding->n_tokens);
    const size_t longest = longest_token(model, encoding), T = encoding->n_tokens;
    if (format == HS__CSV)
        return hs__figure_csv_bytes_max(analysis, model->shape, T, longest + 24);
    const hs__measures m = {.analysis = analysis,
                            .architecture = hs_model_architecture(model->model),
                            .shape = model->shape,
                            .n_tokens = T,
                            .n_heads = analysis->n_layers * analysis->n_heads,
                            .number = HS__FLOAT_TEXT_MAX(analysis->digits) + 1,
                            .token = 6 * longest + 3};
    /* A binary answer contains the request: as <U in npz (4 bytes a character), as an escaped string in
     * safetensors. */
    size_t n_bytes = format == HS__JSON
                         ? 8192 + T * (96 + m.token)
                         : HS__NPZ_OVERHEAD * arrays_max(analysis) + 6 * body_bytes + T * (64 + 6 * longest);
    if (analysis->prompt)
        n_bytes += 128 + 6 * (strlen(analysis->prompt->name) + strlen(analysis->prompt->text));
    for (size_t i = 0; hs__output_at(i); i++)
        if (analysis->outputs >> i & 1)
            n_bytes += output_bytes_max(hs__output_at(i), format, &m);
    return n_bytes;
}
