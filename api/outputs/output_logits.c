/* output_logits.c - logit attributions: the columns of what output_gradients.c computes. */
#include "api/outputs/structures.h"

static void heads_block(const hs__table_row *row, hs__cell *ret)
{
    const hs__logit_attributions *logits = row->item;
    const hs__analysis_request *analysis = row->answer->analysis;
    ret->block = (hs__cell_block){logits->heads, 2, {analysis->n_layers, analysis->n_heads}};
}

static void heads_most(const hs__measures *m, size_t ret_lengths[2])
{
    ret_lengths[0] = m->analysis->n_layers;
    ret_lengths[1] = m->analysis->n_heads;
}

static void feed_forward_block(const hs__table_row *row, hs__cell *ret)
{
    const hs__logit_attributions *logits = row->item;
    ret->block = (hs__cell_block){logits->feed_forward, 1, {row->answer->analysis->n_layers}};
}

static void feed_forward_most(const hs__measures *m, size_t ret_lengths[2])
{
    ret_lengths[0] = m->analysis->n_layers;
}

#define SUM(field) #field, .type = HS__CELL_NUMBER, HS__MEMBER(hs__logit_attributions, sums.field)

static const hs__table_column columns[] = {
    {SUM(value)},
    {"heads", .type = HS__CELL_BLOCK, .get = heads_block, .most = heads_most},
    {"feed_forward", .type = HS__CELL_BLOCK, .get = feed_forward_block, .most = feed_forward_most},
    {SUM(embedding)},
    {SUM(bias)},
    {SUM(other)},
    {SUM(sum)},
    {SUM(rest)},
    {0},
};

static const hs__table table = {.kind = HS__TABLE_ONE, .arrays = "logit_attributions_", .columns = columns};
static const hs__structure structure = {.table = &table};

const hs__output hs__output_row_logit_attributions = {.structure = &structure, .own = &hs__own_gradients};
