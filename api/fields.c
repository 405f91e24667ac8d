/* fields.c - the table of a request's fields, and a reader for each kind of value.
 *
 * A row has a field's name, kind and member. Fields that depend on the model or on each other have a reader
 * of their own. */
#include "api/fields.h"

#include "api/field_effects_of.h"
#include "api/field_patch.h"
#include "api/field_target.h"
#include "api/field_texts.h"
#include "api/field_values.h"
#include "api/output_structures.h"
#include "engine/analysis/predictions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reading reading;
typedef int field_reader(const reading *r);

typedef struct row {
    hs_field field;
    field_reader *read;
    size_t offset; /* of its member */
} row;

/* One field being read. */
struct reading {
    const row *row;
    const json_t *value;
    const char *pointer;
    const hs__served_model *model;
    hs__analysis_request *analysis;
    hs__problem *problem;
};

static void *member(const reading *r)
{
    return (char *)r->analysis + r->row->offset;
}

/* ---- values ---- */

static int refuse(const reading *r, const char *must)
{
    return hs__refuse_value(r->problem, r->pointer, r->value, must);
}

static int refuse_element(const reading *r, size_t i, const char *must)
{
    return hs__refuse_element(r->problem, r->pointer, r->value, i, must);
}

/* Refuses the object at a pointer for a member that it must not have. */
static int refuse_member(const reading *r, const char *pointer, const char *name, const char *allowed)
{
    return hs__refuse(r->problem, 422, pointer, "unknown member '%.*s'; allowed: %s",
                      hs__clip(name, strlen(name)), name, allowed);
}

/* Writes the list "a|b" for a message: each choice in quotes, with commas between. */
static const char *quoted(const char *choices, char *ret, size_t n_ret)
{
    size_t used = 0;
    while (used < n_ret) {
        const size_t n = strcspn(choices, "|");
        used +=
            (size_t)snprintf(ret + used, n_ret - used, "\"%.*s\"%s", (int)n, choices, choices[n] ? ", " : "");
        if (!choices[n])
            break;
        choices += n + 1;
    }
    return ret;
}

static int find_choice(const json_t *value, const char *choices)
{
    return hs_choice_find(choices, json_string_value(value), json_string_length(value));
}

static int read_integer_within(const reading *r, size_t low, size_t high)
{
    if (!hs__is_integer(r->value, (double)low, (double)high)) {
        char must[64];
        snprintf(must, sizeof must, "an integer from %zu to %zu", low, high);
        return refuse(r, must);
    }
    *(size_t *)member(r) = (size_t)json_number_value(r->value);
    return 0;
}

/* ---- readers by kind ---- */

static int read_text(const reading *r)
{
    if (!json_is_string(r->value))
        return refuse(r, "a string");
    *(hs_text *)member(r) = (hs_text){json_string_value(r->value), json_string_length(r->value)};
    return 0;
}

static int read_integer(const reading *r)
{
    return read_integer_within(r, (size_t)r->row->field.low, (size_t)r->row->field.high);
}

static int read_fraction(const reading *r)
{
    const double number = json_number_value(r->value);
    /* A positive double may round to 0 as a float, which is no valid threshold. */
    if (!json_is_number(r->value) || !((float)number > 0) || !(number <= 1))
        return refuse(r, "a number in (0, 1]");
    *(float *)member(r) = (float)number;
    return 0;
}

static int read_real(const reading *r)
{
    const hs_field *field = &r->row->field;
    const double number = json_number_value(r->value);
    if (!json_is_number(r->value) || !(number >= field->low && number <= field->high)) {
        char must[64];
        snprintf(must, sizeof must, "a number from %g to %g", field->low, field->high);
        return refuse(r, must);
    }
    *(float *)member(r) = (float)number;
    return 0;
}

static int read_flag(const reading *r)
{
    if (!json_is_boolean(r->value))
        return refuse(r, "true or false");
    *(bool *)member(r) = json_is_true(r->value);
    return 0;
}

static int read_enum(const reading *r)
{
    const int choice = find_choice(r->value, r->row->field.choices);
    if (choice < 0) {
        char must[160], choices[128];
        snprintf(must, sizeof must, "one of %s", quoted(r->row->field.choices, choices, sizeof choices));
        return refuse(r, must);
    }
    *(unsigned *)member(r) = (unsigned)choice;
    return 0;
}

/* ---- readers of one field ---- */

static int refuse_memory(const reading *r)
{
    return hs__refuse(r->problem, 500, NULL, "no memory for %s", r->row->field.name);
}

static int read_words(const reading *r)
{
    const size_t n = json_array_size(r->value);
    if (!json_is_array(r->value))
        return refuse(r, "a list of strings");
    hs_text *words = r->analysis->input.words = calloc(n + 1, sizeof *words);
    if (!words)
        return refuse_memory(r);
    for (size_t i = 0; i < n; i++) {
        const json_t *word = json_array_get(r->value, i);
        if (!json_is_string(word))
            return refuse_element(r, i, "a string");
        words[i] = (hs_text){json_string_value(word), json_string_length(word)};
    }
    r->analysis->input.n_words = n;
    return 0;
}

static int read_input_ids(const reading *r)
{
    const hs_shape *shape = r->model->shape;
    const size_t n = json_array_size(r->value);
    if (json_is_array(r->value) && (n < 1 || n > shape->n_positions))
        return hs__refuse(r->problem, 422, r->pointer,
                          "input_ids has %zu elements; it must be a list of 1 to %zu token ids", n,
                          shape->n_positions);
    return hs__ids_read(r->problem, r->pointer, r->value, shape->n_positions, shape->vocab_size,
                        &r->analysis->input.ids, &r->analysis->input.n_ids);
}

/* Models without token types accept types 0 and 1 too: a sentence ends where the type changes. */
static int read_token_type_ids(const reading *r)
{
    const size_t n = r->analysis->input.n_ids, n_types = r->model->shape->n_types;
    if (!json_is_array(r->value) || json_array_size(r->value) != n)
        return hs__refuse(r->problem, 422, r->pointer,
                          "token_type_ids must be a list of %zu integers, one for each of input_ids", n);
    uint8_t *types = r->analysis->input.types = malloc(n);
    if (!types)
        return refuse_memory(r);
    for (size_t i = 0; i < n; i++) {
        const json_t *type = json_array_get(r->value, i);
        if (!hs__is_integer(type, 0, n_types == 1 ? 0 : 1))
            return refuse_element(r, i, n_types == 1 ? "an integer from 0 to 0" : "an integer from 0 to 1");
        types[i] = (uint8_t)json_number_value(type);
    }
    return 0;
}

static int read_max_tokens(const reading *r)
{
    /* [CLS] text [SEP] pair [SEP] needs one more than [CLS] text [SEP]. */
    return read_integer_within(r, r->analysis->input.text_pair.bytes ? 3 : 2, r->model->shape->n_positions);
}

/* Reads a list of layer or head numbers, negative ones from the end, as ascending unique numbers below n. */
static int read_numbers(const reading *r, const char *what, size_t n, uint16_t *ret_numbers, size_t *ret_n)
{
    _Static_assert(HS_LAYERS_MAX >= HS_HEADS_MAX, "chosen holds either");
    bool chosen[HS_LAYERS_MAX] = {false};
    for (size_t i = 0; i < json_array_size(r->value); i++) {
        const json_t *element = json_array_get(r->value, i);
        if (!hs__is_integer(element, -(double)n, (double)n - 1)) {
            char must[128];
            snprintf(must, sizeof must, "a %s of the model: 0 to %zu, or -%zu to -1 from the end", what,
                     n - 1, n);
            return refuse_element(r, i, must);
        }
        const double number = json_number_value(element);
        chosen[(size_t)(number < 0 ? number + (double)n : number)] = true;
    }
    *ret_n = 0;
    for (size_t i = 0; i < n; i++) {
        if (chosen[i])
            ret_numbers[(*ret_n)++] = (uint16_t)i;
    }
    return 0;
}

static size_t choose_all(uint16_t *ret_numbers, size_t n)
{
    memcpy(ret_numbers, hs_all_numbers, n * sizeof *ret_numbers);
    return n;
}

static int read_layers(const reading *r)
{
    hs__analysis_request *analysis = r->analysis;
    const size_t n = r->model->shape->n_layers;
    analysis->has_layers = true;
    const int choice = find_choice(r->value, r->row->field.choices);
    if (choice == 1)
        analysis->n_layers = choose_all(analysis->layers, n);
    else if (choice < 0 && json_array_size(r->value) == 0) /* or no list */
        return refuse(r, "\"last\", \"all\" or a list of at least one layer number");
    else if (choice < 0)
        return read_numbers(r, "layer", n, analysis->layers, &analysis->n_layers);
    return 0; /* last: the default */
}

static int read_heads(const reading *r)
{
    hs__analysis_request *analysis = r->analysis;
    if (find_choice(r->value, r->row->field.choices) == 0)
        return 0; /* all: the default */
    if (json_array_size(r->value) == 0)
        return refuse(r, "\"all\" or a list of at least one head number");
    return read_numbers(r, "head", r->model->shape->n_heads, analysis->heads, &analysis->n_heads);
}

int hs__predictor_check(const hs__served_model *model, const char *pointer, hs__problem *problem)
{
    if (hs_model_architecture(model->model)->predictor.decoder.data)
        return 0;
    return hs__refuse(
        problem, 422, pointer,
        "the checkpoint of %s has no masked-language-model head; mlm in %s shows which have one", model->name,
        model->list_command);
}

/* Refuses with 422 if the output is a term that the model's scores do not have. */
static int refuse_without_term(const reading *r, const hs__output *output)
{
    const hs_relative *relative = &hs_model_architecture(r->model->model)->relative;
    const bool any = relative->c2p || relative->p2c;
    if (!(output->taps & HS_KEEP(SCORES_C2C) && !any) &&
        !(output->taps & HS_KEEP(SCORES_C2P) && !relative->c2p) &&
        !(output->taps & HS_KEEP(SCORES_P2C) && !relative->p2c))
        return 0;
    return hs__refuse(
        r->problem, 422, r->pointer,
        "the scores of %s have no term %s: only models with relative positions have it (%s lists them); "
        "request scores instead",
        r->model->name, output->name, r->model->list_command);
}

/* Refuses with 422 if output i of the list reads a task head that the checkpoint lacks. */
static int refuse_without_head(const reading *r, size_t i, const hs__output *output)
{
    char pointer[64];
    if (!output->has_head || output->has_head(hs_model_architecture(r->model->model)))
        return 0;
    const char *task = hs_model_task(r->model->model);
    snprintf(pointer, sizeof pointer, "%s/%zu", r->pointer, i);
    return hs__refuse(r->problem, 422, pointer,
                      "the checkpoint of %s has no head for the output %s: its task is %s; task in %s shows "
                      "which models have one",
                      r->model->name, output->name, task ? task : "none", r->model->list_command);
}

/* Reads positions in ascending order without duplicates. check_positions compares them with the text. */
static int read_positions(const reading *r)
{
    hs__prediction_request *analysis = &r->analysis->predictions;
    const size_t n = json_array_size(r->value), last = r->model->shape->n_positions - 1;
    const int choice = find_choice(r->value, "masked|all");
    if (choice < 0 && n == 0) /* or no list */
        return refuse(r, "\"masked\", \"all\" or a list of at least one position");
    analysis->where = choice < 0 ? HS__PREDICT_LISTED : (unsigned)choice;
    if (choice == HS__PREDICT_MASKED && hs_model_architecture(r->model->model)->predictor.next)
        return refuse(r, "\"all\" or a list of positions: this model predicts the next token");
    if (choice >= 0)
        return 0;
    analysis->positions = malloc((last + 1) * sizeof *analysis->positions);
    return analysis->positions ? hs__numbers_read(r->problem, r->pointer, r->value, 0, (long)last,
                                                  analysis->positions, &analysis->n_positions)
                               : refuse_memory(r);
}

/* ---- members of an object ---- */

/* Refuses a member that is no row. */
static int refuse_strange(const reading *r, const row *members, size_t n, const char *name)
{
    char names[128] = "";
    for (size_t i = 0, used = 0; i < n && used < sizeof names; i++)
        used +=
            (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", members[i].field.name);
    return refuse_member(r, r->pointer, name, names);
}

/* Reads an object whose members are rows. */
static int read_members(const reading *r, const row *members, size_t n)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)r->value, name, value)
    {
        char pointer[64];
        const row *of = members;
        while (of < members + n && strcmp(of->field.name, name) != 0)
            of++;
        if (of == members + n)
            return refuse_strange(r, members, n, name);
        snprintf(pointer, sizeof pointer, "%s/%s", r->pointer, name);
        if (of->read(&(reading){of, value, pointer, r->model, r->analysis, r->problem}))
            return r->problem->status;
    }
    return 0;
}

#define AT(name) offsetof(hs__analysis_request, name)

static int read_predictions(const reading *r)
{
    static const row members[] = {
        {{.name = "positions"}, read_positions, 0},
        {{.name = "top_k", .low = 1, .high = HS_TOP_MAX}, read_integer, AT(predictions.top_k)},
        {{.name = "lens"}, read_flag, AT(predictions.lens)},
    };
    if (!json_is_object(r->value))
        return refuse(r, "an object with positions, top_k, lens");
    if (hs__predictor_check(r->model, r->pointer, r->problem))
        return r->problem->status;
    r->analysis->outputs |= HS__OUTPUT(hs__output_find("predictions", strlen("predictions")));
    r->analysis->predictions.requested = true;
    return read_members(r, members, sizeof members / sizeof *members);
}

static int read_length(const reading *r)
{
    return read_integer_within(r, 2, hs__head_scores_length_max(r->model));
}

static int read_head_scores(const reading *r)
{
    static const row members[] = {
        {{.name = "length"}, read_length, AT(head_scores.length)},
        {{.name = "sequences", .low = 1, .high = HS__SEQUENCES_MAX}, read_integer, AT(head_scores.sequences)},
        {{.name = "seed", .high = HS__SEED_MAX}, read_integer, AT(head_scores.seed)},
    };
    if (!json_is_object(r->value))
        return refuse(r, "an object with length, sequences, seed");
    r->analysis->outputs |= HS__OUTPUT(hs__output_find("head_scores", strlen("head_scores")));
    return read_members(r, members, sizeof members / sizeof *members);
}

/* ---- figure ---- */

static const row figure_members[] = {
    {{"kind", HS_FIELD_ENUM, "KIND", "head, layer, overview, distances, predictions, lens or effects (head)",
      .choices = "head|layer|overview|distances|predictions|lens|effects"},
     read_enum,
     AT(figure.kind)},
    {{"show", HS_FIELD_ENUM, "MAPS", "attention, similarity or both (attention)",
      .choices = "attention|similarity|both"},
     read_enum,
     AT(figure.show)},
    {{"width_mm", HS_FIELD_REAL, "MM", "width of the figure, 30 to 1000 (85)", .low = 30, .high = 1000},
     read_real,
     AT(figure.width_mm)},
    {{"font_pt", HS_FIELD_REAL, "PT", "size of its text, 5 to 24 (7)", .low = 5, .high = 24},
     read_real,
     AT(figure.font_pt)},
    {{"labels", HS_FIELD_ENUM, "HOW", "token labels: auto, all or none (auto)", .choices = "auto|all|none"},
     read_enum,
     AT(figure.labels)},
    {{"scale", HS_FIELD_ENUM, "HOW", "range of colours: own of each map, or shared (own)",
      .choices = "own|shared"},
     read_enum,
     AT(figure.scale)},
    {{"footer", HS_FIELD_FLAG, NULL, "add a line with the model", .choices = NULL},
     read_flag,
     AT(figure.footer)},
};
#define N_FIGURE_MEMBERS (sizeof figure_members / sizeof *figure_members)

const hs_field *hs_figure_field_at(size_t i)
{
    return i < N_FIGURE_MEMBERS ? &figure_members[i].field : NULL;
}

static int read_figure(const reading *r)
{
    if (!json_is_object(r->value))
        return refuse(r, "an object such as {\"kind\": \"layer\", \"width_mm\": 170}");
    if (read_members(r, figure_members, N_FIGURE_MEMBERS))
        return r->problem->status;
    r->analysis->figure.requested = true;
    return 0;
}

/* Writes the names of the model's prompts in quotes, and "" for none, as many as fit. */
static void list_prompts(const hs_sentence_head *head, char *ret, size_t n_ret)
{
    size_t used = (size_t)snprintf(ret, n_ret, head->n_prompts ? "\"\" for no prompt, or one of" : "\"\"");
    for (size_t i = 0; i < head->n_prompts; i++) {
        if (used + strlen(head->prompts[i].name) + sizeof ", \"\", ..." >= n_ret) {
            snprintf(ret + used, n_ret - used, ", ...");
            return;
        }
        used += (size_t)snprintf(ret + used, n_ret - used, "%s \"%s\"", i ? "," : "", head->prompts[i].name);
    }
}

static int read_prompt_name(const reading *r)
{
    const hs_sentence_head *head = &hs_model_architecture(r->model->model)->sentence;
    const char *name = json_string_value(r->value);
    r->analysis->prompt = NULL;
    if (name && !name[0] && json_string_length(r->value) == 0)
        return 0;
    for (size_t i = 0; name && i < head->n_prompts; i++)
        if (strcmp(head->prompts[i].name, name) == 0 && strlen(name) == json_string_length(r->value))
            r->analysis->prompt = &head->prompts[i];
    if (r->analysis->prompt)
        return 0;
    char names[400], must[500];
    list_prompts(head, names, sizeof names);
    snprintf(must, sizeof must, head->n_prompts ? "%s" : "%s: this model has no prompts", names);
    return refuse(r, must);
}

/* The dense layers of a sentence encoder may fit its own pooling only. */
static int read_pooling(const reading *r)
{
    static const hs_pool ways[] = {HS_POOL_MEAN, HS_POOL_CLS, HS_POOL_MAX}; /* as the row's choices */
    const int choice = find_choice(r->value, r->row->field.choices);
    if (choice < 0)
        return refuse(r, "one of \"mean\", \"cls\", \"max\"");
    r->analysis->pooling = (hs_pooling){.n = 1, .ways = {ways[choice]}};
    if (hs_sentence_width(hs_model_architecture(r->model->model), &r->analysis->pooling))
        return 0;
    return hs__refuse(
        r->problem, 422, r->pointer,
        "the dense layers of %s read another width than one way of pooling has; leave pooling out",
        r->model->name);
}

static int read_target(const reading *r)
{
    return hs__target_read(r->model, r->value, r->analysis, r->problem);
}

static int read_effects_of(const reading *r)
{
    return hs__effects_of_read(r->model, r->value, r->analysis, r->problem);
}

static int read_outputs(const reading *r)
{
    char names[1024], must[1100];
    hs__outputs_list(names, sizeof names, "\"");
    if (!json_is_array(r->value)) {
        snprintf(must, sizeof must, "a list of %s", names);
        return refuse(r, must);
    }
    r->analysis->outputs = 0;
    for (size_t i = 0; i < json_array_size(r->value); i++) {
        const json_t *name = json_array_get(r->value, i);
        const size_t output = hs__output_find(json_string_value(name), json_string_length(name));
        snprintf(must, sizeof must, "one of %s", names);
        if (output == HS__OUTPUTS_MAX)
            return refuse_element(r, i, must);
        if (hs__output_at(output)->needs_predictor && hs__predictor_check(r->model, r->pointer, r->problem))
            return r->problem->status;
        if (refuse_without_term(r, hs__output_at(output)) || refuse_without_head(r, i, hs__output_at(output)))
            return r->problem->status;
        r->analysis->predictions.requested |= hs__output_at(output)->needs_predictor;
        r->analysis->task_outputs |= hs__output_at(output)->task_output;
        r->analysis->outputs |= HS__OUTPUT(output);
    }
    return 0;
}

static int compare_ids(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Reads tokens of the vocabulary and sorts them by id, so that their order does not matter. */
static int read_sentence_ends(const reading *r)
{
    hs__analysis_request *analysis = r->analysis;
    const hs_tokenizer *tokenizer = hs_model_tokenizer(r->model->model);
    if (!json_is_array(r->value) || json_array_size(r->value) > HS__SENTENCE_ENDS_MAX)
        return refuse(r, "a list of at most 64 tokens");
    analysis->has_sentence_ends = true;
    for (size_t i = 0; i < json_array_size(r->value); i++) {
        const json_t *token = json_array_get(r->value, i);
        const int32_t id = json_is_string(token) ? hs_tokenizer_id(tokenizer, json_string_value(token),
                                                                   json_string_length(token))
                                                 : -1;
        if (id < 0)
            return refuse_element(r, i, "a token of the model's vocabulary");
        analysis->sentence_ends[analysis->n_sentence_ends++] = id;
    }
    qsort(analysis->sentence_ends, analysis->n_sentence_ends, sizeof *analysis->sentence_ends, compare_ids);
    return 0;
}

/* ---- interventions ---- */

/* Returns a reading of one member of intervention i. Writes the member's JSON pointer to pointer. */
static reading member_reading(const reading *r, size_t i, const char *name, char pointer[64])
{
    reading m = *r;
    m.value = json_object_get(json_array_get(r->value, i), name);
    snprintf(pointer, 64, "%s/%zu/%s", r->pointer, i, name);
    m.pointer = pointer;
    return m;
}

/* Reads "all", the default, or a list of numbers below n. */
static int read_which(const reading *r, size_t i, const char *name, size_t n, uint16_t *ret_numbers,
                      size_t *ret_n)
{
    char pointer[64], what[16];
    const reading m = member_reading(r, i, name, pointer);
    *ret_n = choose_all(ret_numbers, n);
    if (!m.value || find_choice(m.value, "all") == 0)
        return 0;
    snprintf(what, sizeof what, "%.*s", (int)strlen(name) - 1, name);
    if (json_array_size(m.value) == 0) {
        char must[64];
        snprintf(must, sizeof must, "\"all\" or a list of at least one %s number", what);
        return refuse(&m, must);
    }
    return read_numbers(&m, what, n, ret_numbers, ret_n);
}

static int read_intervention(const reading *r, size_t i)
{
    hs__analysis_request *analysis = r->analysis;
    json_t *object = json_array_get(r->value, i);
    uint16_t *layers = analysis->numbers[2 * i], *heads = analysis->numbers[2 * i + 1];
    hs_intervention *intervention = &analysis->interventions[i];
    char pointer[32];
    const char *name;
    json_t *value;
    snprintf(pointer, sizeof pointer, "%s/%zu", r->pointer, i);
    if (!json_is_object(object))
        return refuse_element(r, i,
                              "an object such as {\"layers\": [0], \"heads\": [1], \"kind\": \"zero\"}");
    json_object_foreach(object, name, value)
    {
        if (hs_choice_find("layers|heads|kind|factor|what|from|positions", name, strlen(name)) < 0)
            return refuse_member(r, pointer, name, "layers, heads, kind, factor, what, from, positions");
    }
    const hs__patch_reading change = {object, pointer, r->model, analysis, r->problem};
    const bool hidden = hs__patch_is_hidden(object);
    if (!hidden && read_which(r, i, "layers", r->model->shape->n_layers, layers, &intervention->n_layers))
        return r->problem->status;
    if (read_which(r, i, "heads", r->model->shape->n_heads, heads, &intervention->n_heads) ||
        hs__kind_read(&change, NULL, "\"zero\", \"scale\", \"mean\", \"uniform\", \"identity\" or \"patch\"",
                      &intervention->kind, &intervention->factor) ||
        hs__patch_read(&change, i))
        return r->problem->status;
    intervention->layers = layers;
    intervention->heads = heads;
    return 0;
}

static int read_interventions(const reading *r)
{
    hs__analysis_request *analysis = r->analysis;
    const size_t n = json_array_size(r->value);
    if (!json_is_array(r->value) || n > HS__INTERVENTIONS_MAX)
        return refuse(r, "a list of at most 256 objects");
    if (n == 0)
        return 0;
    analysis->interventions = calloc(n, sizeof *analysis->interventions);
    analysis->numbers = calloc(2 * n, sizeof *analysis->numbers);
    analysis->source_of = calloc(n, sizeof *analysis->source_of);
    if (!analysis->interventions || !analysis->numbers || !analysis->source_of)
        return refuse_memory(r);
    analysis->n_interventions = n;
    for (size_t i = 0; i < n; i++)
        if (read_intervention(r, i))
            return r->problem->status;
    analysis->outputs |= hs__outputs_implied(r->row->field.name);
    return 0;
}

/* ---- the table ---- */

/* In the order of reading: text_pair decides about max_tokens, input_ids about token_type_ids, and
 * interventions add to outputs. api/analysis_request.c reads `model` before, because all depend on it. */
static const row rows[] = {
    {{"text", HS_FIELD_TEXT, "TEXT", "what to analyse", .tokenize = true}, read_text, AT(input.text)},
    {{"text_pair", HS_FIELD_TEXT, "TEXT", "second segment", .tokenize = true},
     read_text,
     AT(input.text_pair)},
    {{"prompt_name", HS_FIELD_TEXT, "NAME",
      "prompt of a sentence encoder, put before the text; \"\": none (the model's default)",
      .tokenize = true},
     read_prompt_name,
     0},
    {{"words", HS_FIELD_STRINGS, "LIST", "instead of a text: a list of its words", .tokenize = true},
     read_words,
     0},
    {{"input_ids", HS_FIELD_IDS, "LIST", "instead of a text: token ids, including special ones",
      .tokenize = true},
     read_input_ids,
     0},
    {{"token_type_ids", HS_FIELD_IDS, "LIST", "0 or 1 for each of the input ids (0)", .tokenize = true},
     read_token_type_ids,
     0},
    {{"max_tokens", HS_FIELD_INTEGER, "N", "truncate the text to this many tokens (128)", .low = 2,
      .tokenize = true},
     read_max_tokens,
     AT(max_tokens)},
    {{"split_special_tokens", HS_FIELD_FLAG, NULL, "treat [MASK] in the text as ordinary text",
      .tokenize = true},
     read_flag,
     AT(split_special_tokens)},
    {{"sentence_ends", HS_FIELD_STRINGS, "LIST", "tokens that end a sentence (.,!,?)", .tokenize = true},
     read_sentence_ends,
     0},
    {{"layers", HS_FIELD_NUMBERS, "LIST", "last, all, or numbers like 0,3,-1 (last)", .choices = "last|all"},
     read_layers,
     0},
    {{"heads", HS_FIELD_NUMBERS, "LIST", "all, or numbers like 0,3 (all)", .choices = "all"}, read_heads, 0},
    {{"outputs", HS_FIELD_STRINGS, "LIST", "outputs, see below (attentions,similarities,pairs)",
      .choices = NULL},
     read_outputs,
     0},
    {{"interventions", HS_FIELD_OBJECTS, "JSON", "changes to heads; adds the output changes",
      .choices = NULL},
     read_interventions,
     0},
    {{"predictions", HS_FIELD_OBJECTS, "JSON",
      "at masked tokens: {} or {\"positions\": \"all\", \"top_k\": 5, \"lens\": true}", .choices = NULL},
     read_predictions,
     0},
    {{"pooling", HS_FIELD_ENUM, "HOW", "for embedding: mean, cls or max (the model's own, or mean)",
      .choices = "mean|cls|max"},
     read_pooling,
     0},
    {{"head_scores", HS_FIELD_OBJECTS, "JSON",
      "on random repeated sequences: {} or {\"length\": 50, \"sequences\": 10, \"seed\": 0}",
      .choices = NULL},
     read_head_scores,
     0},
    {{"target", HS_FIELD_OBJECTS, "JSON",
      "number that effects and changes follow: {\"class\": \"LABEL\"} (the predicted class)",
      .choices = NULL},
     read_target,
     0},
    {{"effects_of", HS_FIELD_OBJECTS, "JSON",
      "change of each head: {\"kind\": \"patch\", \"from\": {\"text\": \"...\"}} (zero)", .choices = NULL},
     read_effects_of,
     0},
    {{"similarity_space", HS_FIELD_ENUM, "SPACE",
      "similarities of outputs or of what heads write: head or residual (head)", .choices = "head|residual"},
     read_enum,
     AT(similarity_space)},
    {{"head_distance", HS_FIELD_ENUM, "KIND", "for head_distances: cka of outputs or js of attention (cka)",
      .choices = "cka|js"},
     read_enum,
     AT(head_distance)},
    {{"normalize", HS_FIELD_ENUM, "HOW", "similarities as they are or as N = S / max: none or max (none)",
      .choices = "none|max"},
     read_enum,
     AT(normalize)},
    {{"threshold", HS_FIELD_FRACTION, "T", "threshold of high similarity, in (0, 1] (0.3)", .high = 1},
     read_fraction,
     AT(threshold)},
    {{"attention_threshold", HS_FIELD_FRACTION, "T", "threshold of high attention, in (0, 1] (0.3)",
      .high = 1},
     read_fraction,
     AT(attention_threshold)},
    {{"max_pairs", HS_FIELD_INTEGER, "N", "maximum number of pairs, strongest first (10000)",
      .high = 1000000},
     read_integer,
     AT(max_pairs)},
    {{"reduce", HS_FIELD_ENUM, "HOW", "reduction over the heads: none, sum or mean (none)",
      .choices = "none|sum|mean"},
     read_enum,
     AT(reduce)},
    {{"special_tokens", HS_FIELD_ENUM, "HOW",
      "mask: leave special tokens out of figures; keep or mask (keep)", .choices = "keep|mask"},
     read_enum,
     AT(special_tokens)},
    {{"digits", HS_FIELD_INTEGER, "N", "significant digits of JSON numbers, 1 to 9 (6)", .low = 1, .high = 9},
     read_integer,
     AT(digits)},
    {{"dtype", HS_FIELD_ENUM, "TYPE", "element type of binary array outputs: f4, f2 or u1 (f4)",
      .choices = "f4|f2|u1"},
     read_enum,
     AT(dtype)},
    {{"figure", HS_FIELD_OBJECTS, "JSON",
      "with format svg, pdf or csv: {\"kind\": \"layer\", \"width_mm\": 170}", .choices = NULL},
     read_figure,
     0},
};
#define N_ROWS (sizeof rows / sizeof *rows)

const hs_field *hs_field_at(size_t i)
{
    return i < N_ROWS ? &rows[i].field : NULL;
}

const hs_field *hs_field_find(const char *name)
{
    for (size_t i = 0; hs_field_at(i); i++)
        if (strcmp(hs_field_at(i)->name, name) == 0)
            return hs_field_at(i);
    return NULL;
}

void hs__fields_default(const hs__served_model *model, hs__analysis_request *ret_analysis)
{
    const hs_shape *shape = model->shape;
    const hs_sentence_head *sentence = &hs_model_architecture(model->model)->sentence;
    if (sentence->default_prompt < sentence->n_prompts)
        ret_analysis->prompt = &sentence->prompts[sentence->default_prompt];
    ret_analysis->max_tokens = shape->n_positions < 128 ? shape->n_positions : 128;
    ret_analysis->outputs = hs__outputs_default();
    ret_analysis->layers[0] = (uint16_t)(shape->n_layers - 1);
    ret_analysis->n_layers = 1;
    ret_analysis->n_heads = choose_all(ret_analysis->heads, shape->n_heads);
    ret_analysis->threshold = 0.3f;
    ret_analysis->attention_threshold = 0.3f;
    ret_analysis->max_pairs = 10000;
    ret_analysis->digits = 6;
    ret_analysis->predictions.top_k = 5;
    const size_t length = hs__head_scores_length_max(model);
    ret_analysis->head_scores =
        (hs__head_scores_request){.length = length < 50 ? length : 50, .sequences = 10};
    ret_analysis->figure.width_mm = 85;
    ret_analysis->figure.font_pt = 7;
}

int hs__fields_read(const hs__served_model *model, json_t *body, hs__analysis_request *ret_analysis,
                    hs__problem *problem)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        char pointer[32];
        const json_t *value = json_object_get(body, rows[i].field.name);
        snprintf(pointer, sizeof pointer, "/%s", rows[i].field.name);
        const reading r = {&rows[i], value, pointer, model, ret_analysis, problem};
        if (value && rows[i].read(&r))
            return problem->status;
    }
    return 0;
}
