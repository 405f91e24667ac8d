/* field_patch.c - reads how heads change, and what a patch takes, from where, and at which positions. */
#include "api/field_patch.h"

#include "api/field_texts.h"
#include "api/field_values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes the JSON pointer of a member, and returns its value. */
static const json_t *member(const hs__patch_reading *r, const char *name, char pointer[64])
{
    snprintf(pointer, 64, "%.40s/%s", r->pointer, name);
    return json_object_get(r->object, name);
}

bool hs__patch_is_hidden(const json_t *object)
{
    const char *what = json_string_value(json_object_get(object, "what"));
    return what && strcmp(what, "hidden") == 0;
}

/* ---- kind and factor ---- */

int hs__kind_read(const hs__patch_reading *r, const char *kinds, const char *must,
                  hs_intervention_kind *ret_kind, float *ret_factor)
{
    static const char all[] = "zero|scale|mean|uniform|identity|patch"; /* as hs_intervention_kind */
    char pointer[64];
    const json_t *kind = member(r, "kind", pointer);
    const char *name = json_string_value(kind);
    if (!kind)
        return hs__refuse(r->problem, 422, pointer, "%s is missing; it must be %s", pointer + 1, must);
    if (!name || hs_choice_find(kinds ? kinds : all, name, json_string_length(kind)) < 0)
        return hs__refuse_value(r->problem, pointer, kind, must);
    *ret_kind = (hs_intervention_kind)hs_choice_find(all, name, json_string_length(kind));
    const json_t *factor = member(r, "factor", pointer);
    *ret_factor = (float)json_number_value(factor);
    if (*ret_kind == HS_INTERVENE_SCALE && !(json_is_number(factor) && isfinite(*ret_factor)))
        return hs__refuse(r->problem, 422, pointer,
                          "scale requires a factor: a number in the range of floats");
    if (*ret_kind != HS_INTERVENE_SCALE && factor)
        return hs__refuse(r->problem, 422, pointer, "only scale takes a factor");
    return 0;
}

/* ---- from ---- */

static int read_source_text(const hs__patch_reading *r, const char *name, hs_text *ret)
{
    char pointer[64];
    const json_t *value = member(r, name, pointer);
    if (!value)
        return 0;
    if (!json_is_string(value))
        return hs__refuse_value(r->problem, pointer, value, "a string");
    *ret = (hs_text){json_string_value(value), json_string_length(value)};
    return 0;
}

static int read_source_ids(const hs__patch_reading *r, hs__input *input)
{
    char pointer[64];
    const json_t *value = member(r, "input_ids", pointer);
    const hs_shape *shape = r->model->shape;
    return value ? hs__ids_read(r->problem, pointer, value, shape->n_positions, shape->vocab_size,
                                &input->ids, &input->n_ids)
                 : 0;
}

static int read_source(const hs__patch_reading *r, hs__input *input)
{
    if (read_source_text(r, "text", &input->text) || read_source_text(r, "text_pair", &input->text_pair) ||
        read_source_ids(r, input))
        return r->problem->status;
    const size_t n_known =
        (input->text.bytes != NULL) + (input->text_pair.bytes != NULL) + (input->ids != NULL);
    if (n_known != json_object_size(r->object) || !input->text.bytes == !input->ids ||
        (input->text_pair.bytes && !input->text.bytes))
        return hs__refuse_value(
            r->problem, r->pointer, r->object,
            "{\"text\": ...}, {\"text\": ..., \"text_pair\": ...} or {\"input_ids\": [...]}");
    return 0;
}

int hs__patch_source(const hs__patch_reading *r, uint8_t *ret_source)
{
    hs__analysis_request *analysis = r->analysis;
    char pointer[64];
    const json_t *from = member(r, "from", pointer);
    if (!json_is_object(from))
        return hs__refuse(r->problem, 422, pointer,
                          "patch requires from: the text to take values from, such as {\"text\": \"...\"}");
    for (size_t i = 0; i < analysis->n_sources; i++)
        if (json_equal(analysis->sources[i].from, from)) {
            *ret_source = (uint8_t)i;
            return 0;
        }
    if (analysis->n_sources == HS__SOURCES_MAX)
        return hs__refuse(r->problem, 422, pointer,
                          "a request may patch from at most %d different texts: send several requests",
                          HS__SOURCES_MAX);
    hs__source *source = &analysis->sources[analysis->n_sources];
    *ret_source = (uint8_t)analysis->n_sources++;
    source->from = from;
    snprintf(source->pointer, sizeof source->pointer, "%s", pointer);
    return read_source(&(hs__patch_reading){from, pointer, r->model, analysis, r->problem}, &source->input);
}

/* ---- positions and states ---- */

static int read_positions(const hs__patch_reading *r, hs_intervention *patch)
{
    char pointer[64];
    const json_t *value = member(r, "positions", pointer);
    const size_t n = r->model->shape->n_positions;
    if (!value || (json_is_string(value) && strcmp(json_string_value(value), "all") == 0))
        return 0;
    if (json_array_size(value) == 0)
        return hs__refuse_value(r->problem, pointer, value, "\"all\" or a list of at least one position");
    size_t *positions = malloc(n * sizeof *positions);
    if (!positions)
        return hs__refuse(r->problem, 500, NULL, "no memory for a patch");
    patch->positions = positions;
    return hs__numbers_read(r->problem, pointer, value, 0, (long)n - 1, positions, &patch->n_positions);
}

/* Reads layers as numbers of states: -1, the embeddings, is state 0. */
static int read_states(const hs__patch_reading *r, uint16_t *ret_states, size_t *ret_n)
{
    char pointer[64];
    size_t states[HS__NUMBERS_MAX] = {0};
    const json_t *value = member(r, "layers", pointer);
    if (json_object_get(r->object, "heads"))
        return hs__refuse(r->problem, 422, r->pointer, "a patch of hidden states has no heads");
    if (json_array_size(value) == 0)
        return hs__refuse(r->problem, 422, pointer,
                          "a patch of hidden states requires layers: a list of numbers from 0 to %zu, and -1 "
                          "for the embeddings",
                          r->model->shape->n_layers - 1);
    if (hs__numbers_read(r->problem, pointer, value, -1, (long)r->model->shape->n_layers - 1, states, ret_n))
        return r->problem->status;
    for (size_t i = 0; i < *ret_n; i++)
        ret_states[i] = (uint16_t)states[i];
    return 0;
}

/* ---- all ---- */

/* Refuses the members of a patch in an intervention of another kind. */
static int refuse_members(const hs__patch_reading *r)
{
    static const char *const members[] = {"what", "from", "positions"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        char pointer[64];
        if (member(r, members[i], pointer))
            return hs__refuse(r->problem, 422, pointer, "only patch takes '%s'", members[i]);
    }
    return 0;
}

int hs__patch_read(const hs__patch_reading *r, size_t i)
{
    hs__analysis_request *analysis = r->analysis;
    hs_intervention *patch = &analysis->interventions[i];
    char pointer[64];
    const json_t *what = member(r, "what", pointer);
    const bool hidden = hs__patch_is_hidden(r->object);
    if (patch->kind != HS_INTERVENE_PATCH)
        return refuse_members(r);
    if (what && !hidden && !(json_is_string(what) && strcmp(json_string_value(what), "heads") == 0))
        return hs__refuse_value(r->problem, pointer, what, "\"heads\" or \"hidden\"");
    if (hidden) {
        patch->kind = HS_INTERVENE_PATCH_STATE;
        if (read_states(r, analysis->numbers[2 * i], &patch->n_layers))
            return r->problem->status;
    }
    return hs__patch_source(r, &analysis->source_of[i]) || read_positions(r, patch) ? r->problem->status : 0;
}
