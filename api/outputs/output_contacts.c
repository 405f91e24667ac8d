/* output_contacts.c - contacts of residues, by the contact head of ESM. */
#include "api/outputs/structures.h"

#include "engine/analysis/contacts.h"

#include <stdlib.h>

/* Adds the maps of a layer's heads. map: scratch for maps that are computed again. */
static hs_status layer_add(const hs__answer *a, size_t layer, float *map, hs_contacts *contacts,
                           hs_error *err)
{
    const size_t T = a->capture->n_tokens, n_heads = a->capture->n_heads;
    for (size_t h = 0; h < n_heads && !hs__answer_cancelled(a); h++) {
        const float *attention;
        const hs_status st = hs__answer_attention_rows(a, layer, h, 0, T, map, &attention, err);
        if (st)
            return st;
        hs_contacts_add(contacts, attention, layer * n_heads + h);
    }
    return HS_OK;
}

/* Every layer is captured, and every head of it. */
static hs_status contacts_compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    const size_t T = a->capture->n_tokens;
    const bool again = !a->capture->arrays[HS_TAP_ATTENTION];
    hs_contacts *contacts = hs_contacts_create(a->model->architecture, a->text->rows.ids, T);
    float *map = again ? malloc(T * T * sizeof *map) : NULL;
    hs_status st = HS_OK;
    *ret_result = contacts;
    if (!contacts || (again && !map))
        st = hs_fail(err, HS_NO_MEMORY, "no memory for contacts");
    for (size_t l = 0; l < a->model->shape->n_layers && !st && !hs__answer_cancelled(a); l++)
        st = layer_add(a, l, map, contacts, err);
    if (!st)
        hs_contacts_finish(contacts);
    free(map);
    return st;
}

static size_t contacts_bytes(const hs__measures *m)
{
    return hs_contacts_bytes(m->shape, m->n_tokens) +
           (m->again ? m->n_tokens * m->n_tokens * sizeof(float) : 0);
}

/* ---- columns ---- */

static void contacts_block(const hs__table_row *row, hs__cell *ret)
{
    const hs_contacts *contacts = row->item;
    ret->block = (hs__cell_block){contacts->values, 2, {contacts->n, contacts->n}};
}

static void contacts_most(const hs__measures *m, size_t ret_lengths[2])
{
    ret_lengths[0] = ret_lengths[1] = m->n_tokens;
}

static const hs__table contact_table = {
    .kind = HS__TABLE_ONE,
    .arrays = "contacts",
    .columns = (const hs__table_column[]){
        {"", .type = HS__CELL_BLOCK, .get = contacts_block, .most = contacts_most}, {0}}};

static const hs__structure contacts_structure = {
    .compute = contacts_compute,
    .destroy = free,
    .table = &contact_table,
};

const hs__output hs__output_row_contacts = {.taps = HS_KEEP(ATTENTION),
                                            .structure = &contacts_structure,
                                            .bytes = contacts_bytes,
                                            .again = HS__AGAIN_SQUARE,
                                            .every_head = true,
                                            .every_layer = true};
