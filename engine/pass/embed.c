/* embed.c - token ids to the rows that the first layer reads, or the projection before it. Rows of the tables
 * are read where they lie in the model's file, so a vocabulary costs no memory of ours. */
#include "engine/pass/cpu.h"

#include <string.h>

static void add_row(const hs_tensor *table, size_t row, float *scratch, float *x)
{
    hs_tensor_read(table, row, 1, scratch);
    for (size_t j = 0; j < table->n_columns; j++)
        x[j] += scratch[j];
}

/* What every word row is scaled by; 1 without token dropout. A text of nothing but masks has no rows to
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
    const hs_recipe *recipe = engine->base.recipe;
    const hs_embedding *weights = &recipe->embedding;
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
        engine->kernels->add_norm(T, E, x, NULL, engine->embedding_norm.gamma, engine->embedding_norm.beta,
                                  recipe->norm_eps, x);
}
