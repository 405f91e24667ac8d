/* field_patch.c - reads what a patch takes, from where, and at which positions. */
#include "api/field_patch.h"

#include "api/field_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes the JSON pointer of a member, and returns its value. */
static const json_t *member(const hs__patch_reading *r, const char *name, char pointer[64])
{
    snprintf(pointer, 64, "%.40s/%s", r->pointer, name);
    return json_object_get(r->object, name);
}

static int refuse_memory(const hs__patch_reading *r)
{
    return hs__refuse(r->problem, 500, NULL, "no memory for a patch");
}

/* Refuses element i of a list. */
static int refuse_element(const hs__patch_reading *r, const char *pointer, size_t i, const json_t *element,
                          const char *must)
{
    char at[96];
    snprintf(at, sizeof at, "%s/%zu", pointer, i);
    return hs__refuse_value(r->problem, at, element, must);
}

bool hs__patch_is_hidden(const json_t *object)
{
    const char *what = json_string_value(json_object_get(object, "what"));
    return what && strcmp(what, "hidden") == 0;
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

static int read_source_ids(const hs__patch_reading *r, hs__source *source)
{
    char pointer[64], must[96];
    const json_t *value = member(r, "input_ids", pointer);
    const hs_shape *shape = r->model->shape;
    const size_t n = json_array_size(value);
    if (!value)
        return 0;
    snprintf(must, sizeof must, "a list of 1 to %zu token ids", shape->n_positions);
    if (n < 1 || n > shape->n_positions)
        return hs__refuse_value(r->problem, pointer, value, must);
    source->input_ids = malloc(n * sizeof *source->input_ids);
    if (!source->input_ids)
        return refuse_memory(r);
    snprintf(must, sizeof must, "an integer from 0 to %zu", shape->vocab_size - 1);
    for (; source->n_ids < n; source->n_ids++) {
        const json_t *id = json_array_get(value, source->n_ids);
        if (!hs__is_integer(id, 0, (double)shape->vocab_size - 1))
            return refuse_element(r, pointer, source->n_ids, id, must);
        source->input_ids[source->n_ids] = (int32_t)json_number_value(id);
    }
    return 0;
}

static int read_source(const hs__patch_reading *r, hs__source *source)
{
    if (read_source_text(r, "text", &source->text) || read_source_text(r, "text_pair", &source->text_pair) ||
        read_source_ids(r, source))
        return r->problem->status;
    const size_t n_known =
        (source->text.bytes != NULL) + (source->text_pair.bytes != NULL) + (source->input_ids != NULL);
    if (n_known != json_object_size(r->object) || !source->text.bytes == !source->input_ids ||
        (source->text_pair.bytes && !source->text.bytes))
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
    return read_source(&(hs__patch_reading){from, pointer, r->model, analysis, r->problem}, source);
}

/* ---- positions and states ---- */

/* Reads integers from low to high as ascending unique numbers, counted from low. ret has high - low + 1
 * elements. */
static int read_list(const hs__patch_reading *r, const char *pointer, const json_t *value, long low,
                     long high, size_t *ret, size_t *ret_n)
{
    char must[64];
    const size_t n = (size_t)(high - low + 1);
    bool *chosen = calloc(n, sizeof *chosen);
    if (!chosen)
        return refuse_memory(r);
    snprintf(must, sizeof must, "an integer from %ld to %ld", low, high);
    int status = 0;
    for (size_t i = 0; i < json_array_size(value) && !status; i++) {
        const json_t *element = json_array_get(value, i);
        if (hs__is_integer(element, (double)low, (double)high))
            chosen[(size_t)((long)json_number_value(element) - low)] = true;
        else
            status = refuse_element(r, pointer, i, element, must);
    }
    *ret_n = 0;
    for (size_t i = 0; i < n && !status; i++)
        if (chosen[i])
            ret[(*ret_n)++] = i;
    free(chosen);
    return status;
}

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
        return refuse_memory(r);
    patch->positions = positions;
    return read_list(r, pointer, value, 0, (long)n - 1, positions, &patch->n_positions);
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
    if (read_list(r, pointer, value, -1, (long)r->model->shape->n_layers - 1, states, ret_n))
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
