/* embed.c - looks up the embeddings of token ids.
 *
 * Rows of the tables are read from the model's file, so the vocabulary takes no memory of the engine. */
#include "engine/pass/cpu.h"

#include <string.h>

static void add_row(const hs_tensor *table, size_t row, float *scratch, float *x)
{
    hs_tensor_read(table, row, 1, scratch);
    for (size_t j = 0; j < table->n_columns; j++)
        x[j] += scratch[j];
}

/* Returns the factor of all word rows; 1 without token dropout (ESM). A text of masks only has no rows to
 * scale. */
static float dropout_scale(const hs_embedding *weights, const hs_sequence *sequence)
{
    size_t n_kept = 0;
    for (size_t i = 0; i < sequence->n_tokens; i++)
        n_kept += sequence->ids[i] != weights->mask_id;
    if (weights->token_dropout <= 0 || n_kept == 0)
        return 1;
    return (float)((1 - weights->token_dropout) * (double)sequence->n_tokens / (double)n_kept);
}

static void read_words(const hs_embedding *weights, const hs_sequence *sequence, float *x)
{
    const size_t E = weights->width;
    const float scale = dropout_scale(weights, sequence);
    for (size_t i = 0; i < sequence->n_tokens; i++, x += E) {
        if (weights->token_dropout > 0 && sequence->ids[i] == weights->mask_id)
            memset(x, 0, E * sizeof *x);
        else
            hs_tensor_read(&weights->word, (size_t)sequence->ids[i], 1, x);
        for (size_t j = 0; scale != 1 && j < E; j++)
            x[j] *= scale;
    }
}

void hs__embed(const hs__cpu_engine *engine, const hs_sequence *sequence, float *scratch, float *x)
{
    const hs_architecture *architecture = engine->base.architecture;
    const hs_embedding *weights = &architecture->embedding;
    const size_t E = weights->width, T = sequence->n_tokens, offset = weights->position_offset;
    size_t position = offset;
    read_words(weights, sequence, x);
    for (size_t i = 0; i < T; i++) {
        const bool padding = offset > 0 && (size_t)sequence->ids[i] == offset - 1;
        if (weights->position.data)
            add_row(&weights->position, padding ? offset - 1 : position, scratch, x + i * E);
        position += !padding;
        if (weights->type.data)
            add_row(&weights->type, sequence->types ? sequence->types[i] : 0, scratch, x + i * E);
    }
    if (weights->norm.gamma.data)
        engine->add_norm(T, E, x, NULL, engine->embedding_norm.gamma, engine->embedding_norm.beta,
                         architecture->norm_eps, x);
}
