/* objects.c - reads the objects among a request's fields: interventions, effects_of, predictions, head_scores
 * and figure; target.c has one more.
 *
 * The members of each are a table of rows, so that a member's name stands once. */
#include "api/request/fields.h"

#include "engine/analysis/predictions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_ROWS(rows) (sizeof(rows) / sizeof *(rows))

/* ==== members ==== */

static const hs__row *find_member(const hs__row *members, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(members[i].field.name, name) == 0)
            return &members[i];
    return NULL;
}

/* Returns the name of the first member of the object that is no row; NULL if there is none. */
static const char *find_strange(const json_t *object, const hs__row *members, size_t n)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value)
    {
        if (!find_member(members, n, name))
            return name;
    }
    return NULL;
}

static int refuse_strange(const hs__reading *r, const hs__row *members, size_t n, const char *name)
{
    char names[128];
    return hs__refuse(r->problem, 422, r->pointer, "unknown member '%.*s'; allowed: %s",
                      hs__clip(name, strlen(name)), name,
                      hs__member_names(members, n, ", ", names, sizeof names));
}

/* Refuses what is no object, by the names of its members. */
static int refuse_type(const hs__reading *r, const hs__row *members, size_t n)
{
    char must[160], names[128];
    snprintf(must, sizeof must, "an object with %s", hs__member_names(members, n, ", ", names, sizeof names));
    return hs__reading_refuse(r, must);
}

/* Reads the members in the order of the rows. */
static int read_members(const hs__reading *r, const hs__row *members, size_t n, void *into)
{
    for (const hs__row *member = members; member < members + n; member++) {
        char pointer[64];
        const hs__reading m = hs__reading_member(r, member, into, pointer);
        if ((m.value || member->absent_too) && member->read(&m))
            return r->problem->status;
    }
    return 0;
}

/* Reads the members in the order of the body. All may be absent. */
static int read_options(const hs__reading *r, const hs__row *members, size_t n)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)r->value, name, value)
    {
        char pointer[64];
        const hs__row *member = find_member(members, n, name);
        if (!member)
            return refuse_strange(r, members, n, name);
        const hs__reading m = hs__reading_member(r, member, r->analysis, pointer);
        if (member->read(&m))
            return r->problem->status;
    }
    return 0;
}

/* Reads integers from low to high as ascending unique numbers, counted from low. ret has high - low + 1
 * elements. */
static int read_range(const hs__reading *r, long low, long high, size_t *ret, size_t *ret_n)
{
    char must[64];
    const size_t n = (size_t)(high - low + 1);
    bool *chosen = calloc(n, sizeof *chosen);
    if (!chosen)
        return hs__reading_refuse_memory(r);
    snprintf(must, sizeof must, "an integer from %ld to %ld", low, high);
    int status = 0;
    for (size_t i = 0; i < json_array_size(r->value) && !status; i++) {
        const json_t *element = json_array_get(r->value, i);
        if (hs__is_integer(element, (double)low, (double)high))
            chosen[(size_t)((long)json_number_value(element) - low)] = true;
        else
            status = hs__reading_refuse_element(r, i, must);
    }
    *ret_n = 0;
    for (size_t i = 0; i < n && !status; i++)
        if (chosen[i])
            ret[(*ret_n)++] = i;
    free(chosen);
    return status;
}

#define AT(name) offsetof(hs__analysis_request, name)

/* ==== predictions ==== */

int hs__predictor_check(const hs__served_model *model, const char *pointer, hs__problem *problem)
{
    if (model->architecture->predictor.decoder.data)
        return 0;
    if (*model->architecture->predictor.missing)
        return hs__refuse(
            problem, 422, pointer,
            "the checkpoint of %s has no tensor %s, and its config.json does not tie it to another "
            "one: predictions need it",
            model->name, model->architecture->predictor.missing);
    if (model->decoder)
        return hs__refuse(problem, 422, pointer,
                          "the encoder of %s predicts no tokens: send stack \"decoder\" or \"cross\" with "
                          "text_target for the target's next tokens",
                          model->name);
    return hs__refuse(
        problem, 422, pointer,
        "the checkpoint of %s has no masked-language-model head; mlm in %s shows which have one", model->name,
        model->list_command);
}

/* Reads positions in ascending order without duplicates. They are compared with the text later. */
static int read_positions(const hs__reading *r)
{
    hs__prediction_request *analysis = &r->analysis->predictions;
    const size_t n = json_array_size(r->value), last = r->model->shape->n_positions - 1;
    const int choice = hs__choice_find(r->value, "masked|all");
    if (choice < 0 && n == 0) /* or no list */
        return hs__reading_refuse(r, "\"masked\", \"all\" or a list of at least one position");
    analysis->where = choice < 0 ? HS__PREDICT_LISTED : (unsigned)choice;
    if (choice == HS__PREDICT_MASKED && r->model->architecture->predictor.next)
        return hs__reading_refuse(r, "\"all\" or a list of positions: this model predicts the next token");
    if (choice >= 0)
        return 0;
    analysis->positions = malloc((last + 1) * sizeof *analysis->positions);
    return analysis->positions ? read_range(r, 0, (long)last, analysis->positions, &analysis->n_positions)
                               : hs__reading_refuse_memory(r);
}

int hs__read_predictions(const hs__reading *r)
{
    static const hs__row members[] = {
        {.field = {.name = "positions"}, .read = read_positions},
        {.field = {.name = "top_k", .low = 1, .high = HS_TOP_MAX},
         .read = hs__read_integer,
         .offset = AT(predictions.top_k)},
        {.field = {.name = "lens"}, .read = hs__read_flag, .offset = AT(predictions.lens)},
    };
    if (!json_is_object(r->value))
        return refuse_type(r, members, N_ROWS(members));
    if (hs__predictor_check(r->model, r->pointer, r->problem))
        return r->problem->status;
    r->analysis->outputs |= HS__OUTPUT_BIT(predictions);
    return read_options(r, members, N_ROWS(members));
}

/* ==== head_scores ==== */

#define SEQUENCES_MAX 1000
#define SEED_MAX      9007199254740991.0 /* 2^53 - 1: exact in JSON */

size_t hs__head_scores_length_max(const hs__served_model *model)
{
    int32_t frame[HS_FRAME_MAX];
    size_t n_before;
    const size_t n = hs_tokenizer_frame(hs_model_tokenizer(model->model), frame, &n_before);
    return n < model->shape->n_positions ? (model->shape->n_positions - n) / 2 : 0;
}

static int read_length(const hs__reading *r)
{
    return hs__read_integer_within(r, 2, hs__head_scores_length_max(r->model));
}

int hs__read_head_scores(const hs__reading *r)
{
    static const hs__row members[] = {
        {.field = {.name = "length"}, .read = read_length, .offset = AT(head_scores.length)},
        {.field = {.name = "sequences", .low = 1, .high = SEQUENCES_MAX},
         .read = hs__read_integer,
         .offset = AT(head_scores.sequences)},
        {.field = {.name = "seed", .high = SEED_MAX},
         .read = hs__read_integer,
         .offset = AT(head_scores.seed)},
    };
    if (!json_is_object(r->value))
        return refuse_type(r, members, N_ROWS(members));
    r->analysis->outputs |= HS__OUTPUT_BIT(head_scores);
    return read_options(r, members, N_ROWS(members));
}

/* ==== figure ==== */

static const hs__row figure_members[] = {
    {.field = {.name = "kind",
               .kind = HS_FIELD_ENUM,
               .argument = "KIND",
               .help =
                   "head, layer, overview, distances, predictions, lens, effects, regions or pairs (head)",
               .choices = "head|layer|overview|distances|predictions|lens|effects|regions|pairs"},
     .read = hs__read_enum,
     .offset = AT(figure.kind)},
    {.field = {.name = "show",
               .kind = HS_FIELD_ENUM,
               .argument = "MAPS",
               .help = "attention, similarity or both (attention)",
               .choices = "attention|similarity|both"},
     .read = hs__read_enum,
     .offset = AT(figure.show)},
    {.field = {.name = "width_mm",
               .kind = HS_FIELD_REAL,
               .argument = "MM",
               .help = "width of the figure, 30 to 1000 (85)",
               .low = 30,
               .high = 1000},
     .read = hs__read_real,
     .offset = AT(figure.width_mm)},
    {.field = {.name = "font_pt",
               .kind = HS_FIELD_REAL,
               .argument = "PT",
               .help = "size of its text, 5 to 24 (7)",
               .low = 5,
               .high = 24},
     .read = hs__read_real,
     .offset = AT(figure.font_pt)},
    {.field = {.name = "dpi",
               .kind = HS_FIELD_REAL,
               .argument = "N",
               .help = "of a PNG: pixels per inch, 36 to 1200 (300)",
               .low = 36,
               .high = 1200},
     .read = hs__read_real,
     .offset = AT(figure.dpi)},
    {.field = {.name = "labels",
               .kind = HS_FIELD_ENUM,
               .argument = "HOW",
               .help = "token labels: auto, all or none (auto)",
               .choices = "auto|all|none"},
     .read = hs__read_enum,
     .offset = AT(figure.labels)},
    {.field = {.name = "scale",
               .kind = HS_FIELD_ENUM,
               .argument = "HOW",
               .help = "range of colours: own of each map, or shared (own)",
               .choices = "own|shared"},
     .read = hs__read_enum,
     .offset = AT(figure.scale)},
    {.field = {.name = "colour_scale",
               .kind = HS_FIELD_ENUM,
               .argument = "SCALE",
               .help = "from values to colours: linear, square_root, log or row; auto: square_root of an "
                       "overview (auto)",
               .choices = "auto|linear|square_root|log|row"},
     .read = hs__read_enum,
     .offset = AT(figure.colour_scale)},
    {.field = {.name = "merge_words", .kind = HS_FIELD_FLAG, .help = "draw words in place of their pieces"},
     .read = hs__read_flag,
     .offset = AT(figure.merge_words)},
    {.field = {.name = "footer", .kind = HS_FIELD_FLAG, .help = "add a line with the model"},
     .read = hs__read_flag,
     .offset = AT(figure.footer)},
    {.field = {.name = "csv_safe",
               .kind = HS_FIELD_FLAG,
               .help = "in CSV, put ' before text that a spreadsheet takes for a formula"},
     .read = hs__read_flag,
     .offset = AT(figure.csv_safe)},
};

const hs_field *hs_figure_field_at(size_t i)
{
    return i < N_ROWS(figure_members) ? &figure_members[i].field : NULL;
}

int hs__read_figure(const hs__reading *r)
{
    if (!json_is_object(r->value))
        return hs__reading_refuse(r, "an object such as {\"kind\": \"layer\", \"width_mm\": 170}");
    r->analysis->figure.requested = true;
    return read_options(r, figure_members, N_ROWS(figure_members));
}

/* ==== changes of heads and states: kind, factor, from ==== */

#define ALL_KINDS       "zero|scale|mean|uniform|identity|cut|patch|add" /* as hs_intervention_kind */
#define CHANGE_AT(name) offsetof(hs__change, name)

/* Returns the change that the member belongs to. */
static hs__change *change_of(const hs__reading *r)
{
    return r->into;
}

static bool is_patch(const hs__change *change)
{
    return change->kind == HS_INTERVENE_PATCH || change->kind == HS_INTERVENE_PATCH_STATE;
}

static int read_kind(const hs__reading *r)
{
    char must[128];
    hs__choices_quote(r->row->field.choices, " or ", must, sizeof must);
    if (!r->value)
        return hs__refuse(r->problem, 422, r->pointer, "%s is missing; it must be %s", r->pointer + 1, must);
    if (hs__choice_find(r->value, r->row->field.choices) < 0)
        return hs__reading_refuse(r, must);
    change_of(r)->kind = (hs_intervention_kind)hs__choice_find(r->value, ALL_KINDS);
    return 0;
}

static int read_factor(const hs__reading *r)
{
    hs__change *change = change_of(r);
    const bool adds = change->kind == HS_INTERVENE_ADD;
    change->factor = r->value ? (float)json_number_value(r->value) : (float)adds;
    const bool is_factor = isfinite(change->factor) && (!r->value || json_is_number(r->value));
    if (change->kind == HS_INTERVENE_SCALE && !(r->value && is_factor))
        return hs__refuse(r->problem, 422, r->pointer,
                          "scale requires a factor: a number in the range of floats");
    if (adds && !is_factor)
        return hs__reading_refuse(r, "a number in the range of floats");
    if (change->kind != HS_INTERVENE_SCALE && !adds && r->value)
        return hs__refuse(r->problem, 422, r->pointer, "only scale and the intervention add take a factor");
    return 0;
}

/* Refuses a member that belongs to other kinds, if it is there. */
static int refuse_unless(const hs__reading *r, const char *kinds)
{
    return r->value ? hs__refuse(r->problem, 422, r->pointer, "only %s '%s'", kinds, r->row->field.name) : 0;
}

static int read_source_ids(const hs__reading *r)
{
    hs__input *input = hs__reading_to(r);
    return hs__read_ids(r, &input->ids, &input->n_ids);
}

#define SOURCE_AT(name) offsetof(hs__source, name)

static int read_source(const hs__reading *r, hs__source *source)
{
    static const hs__row members[] = {
        {.field = {.name = "text"}, .read = hs__read_text, .offset = SOURCE_AT(input.text)},
        {.field = {.name = "text_pair"}, .read = hs__read_text, .offset = SOURCE_AT(input.text_pair)},
        {.field = {.name = "input_ids"}, .read = read_source_ids, .offset = SOURCE_AT(input)},
        {.field = {.name = "text_target"}, .read = hs__read_text, .offset = SOURCE_AT(decoder_input.text)},
        {.field = {.name = "target_ids"}, .read = read_source_ids, .offset = SOURCE_AT(decoder_input)},
    };
    const bool decoder = r->model->encoder;
    const size_t n = N_ROWS(members) - (decoder ? 0 : 2);
    const hs__input *input = &source->input, *target = &source->decoder_input;
    if (!decoder && (json_object_get(r->value, "text_target") || json_object_get(r->value, "target_ids")))
        return hs__refuse(r->problem, 422, r->pointer,
                          "from has a target, and only heads of a decoder and cross heads read one: leave it "
                          "out, or send stack \"decoder\" or \"cross\" if the model has them");
    if (read_members(r, members, n, source))
        return r->problem->status;
    if (find_strange(r->value, members, n) || !input->text.bytes == !input->ids ||
        (input->text_pair.bytes && !input->text.bytes) || (decoder && !target->text.bytes == !target->ids))
        return hs__reading_refuse(
            r, decoder ? "an object with text or input_ids, and with text_target or target_ids"
                       : "{\"text\": ...}, {\"text\": ..., \"text_pair\": ...} or {\"input_ids\": [...]}");
    return 0;
}

/* Finds or adds the source that the value names, as the next one of the change. */
static int add_source(const hs__reading *r)
{
    hs__analysis_request *analysis = r->analysis;
    hs__change *change = change_of(r);
    size_t k = 0;
    while (k < analysis->n_sources && !json_equal(analysis->sources[k].from, r->value))
        k++;
    if (k == HS__SOURCES_MAX)
        return hs__refuse(r->problem, 422, r->pointer,
                          "a request may take values from at most %d different texts: send several requests",
                          HS__SOURCES_MAX);
    hs__source *source = &analysis->sources[k];
    const bool is_new = k == analysis->n_sources, patches = is_patch(change) && !source->patches;
    change->sources[change->n_sources++] = (uint8_t)k;
    analysis->n_sources += is_new;
    source->from = r->value;
    source->patches |= patches;
    if (is_new || patches)
        snprintf(source->pointer, sizeof source->pointer, "%s", r->pointer);
    return is_new ? read_source(r, source) : 0;
}

/* Adds the two sources whose states' difference is to be added. */
static int add_two_sources(const hs__reading *r)
{
    static const char must[] = "a list of two texts, such as [{\"text\": \"...\"}, {\"text\": \"...\"}]";
    if (json_array_size(r->value) != 2)
        return hs__reading_refuse(r, must);
    for (size_t i = 0; i < 2; i++) {
        char pointer[64];
        hs__reading text = *r;
        snprintf(pointer, sizeof pointer, "%s/%zu", r->pointer, i);
        text.value = json_array_get(r->value, i);
        text.pointer = pointer;
        if (!json_is_object(text.value))
            return hs__reading_refuse(&text, "a text, such as {\"text\": \"...\"}");
        if (add_source(&text))
            return r->problem->status;
    }
    return 0;
}

/* Reads the text to patch from, or the two texts that a vector is made of. */
static int read_from(const hs__reading *r)
{
    const hs__change *change = change_of(r);
    if (change->kind == HS_INTERVENE_ADD)
        return r->value ? add_two_sources(r) : 0;
    if (!is_patch(change))
        return refuse_unless(r, "patch and the intervention add take");
    if (!json_is_object(r->value))
        return hs__refuse(r->problem, 422, r->pointer,
                          "patch requires from: the text to take values from, such as {\"text\": \"...\"}");
    return add_source(r);
}

/* ==== effects_of ==== */

static int read_estimate(const hs__reading *r)
{
    const int choice = hs__choice_find(r->value, r->row->field.choices);
    if (choice < 0)
        return hs__reading_refuse(r, "\"none\" or \"gradient\"");
    r->analysis->estimate = (unsigned)choice;
    return 0;
}

int hs__read_effects_of(const hs__reading *r)
{
    static const hs__row members[] = {
        {.field = {.name = "kind", .choices = "zero|scale|mean|patch"},
         .read = read_kind,
         .absent_too = true},
        {.field = {.name = "factor"}, .read = read_factor, .absent_too = true},
        {.field = {.name = "from"}, .read = read_from, .absent_too = true},
        {.field = {.name = "estimate", .choices = "none|gradient"}, .read = read_estimate},
    };
    if (!json_is_object(r->value) || find_strange(r->value, members, N_ROWS(members))) {
        char must[128], names[64];
        snprintf(must, sizeof must, "an object of %s, and nothing else",
                 hs__member_names(members, N_ROWS(members), " and ", names, sizeof names));
        return hs__reading_refuse(r, must);
    }
    r->analysis->has_effects_of = true;
    return read_members(r, members, N_ROWS(members), &r->analysis->effects_of);
}

int hs__effects_of_check(const hs__analysis_request *analysis, const hs_architecture *architecture,
                         hs__problem *problem)
{
    const bool has_map = analysis->outputs & HS__OUTPUT_BIT(patch_map);
    if (analysis->has_effects_of && !has_map && !(analysis->outputs & HS__OUTPUT_BIT(effects)))
        return hs__refuse(problem, 422, "/effects_of",
                          "effects_of belongs to the outputs effects and patch_map: ask for one of them");
    if (has_map && analysis->effects_of.kind != HS_INTERVENE_PATCH)
        return hs__refuse(problem, 422, "/effects_of",
                          "patch_map requires a text to patch from: effects_of {\"kind\": \"patch\", "
                          "\"from\": {\"text\": \"...\"}}");
    if (has_map && !hs__is_estimated(analysis, HS__OUTPUT_BIT(patch_map)) &&
        !hs__target_exists(analysis, architecture))
        return hs__refuse(problem, 422, "/target",
                          "patch_map requires target: the number to follow, such as {\"token\": \"...\", "
                          "\"position\": 1}");
    return 0;
}

/* ==== interventions ==== */

#define INTERVENTIONS_MAX 256

/* One intervention that is being read. The readers of kind, factor and from know its first member only. */
typedef struct changed_heads {
    hs__change change;
    unsigned stack; /* HS_STACK_... */
    hs_intervention *to;
    uint16_t *layers, *heads; /* [HS__NUMBERS_MAX] */
} changed_heads;

enum {
    STACK,
    LAYERS,
    HEADS,
    KIND,
    FACTOR,
    DISTANCE,
    WHAT,
    FROM,
    POSITIONS,
    VECTOR,
    POOLING,
    N_INTERVENTION_MEMBERS
};
static const hs__row intervention_members[N_INTERVENTION_MEMBERS];

/* Returns true if the object changes hidden states, whose layers have numbers of their own. */
static bool is_hidden(const json_t *object)
{
    return hs__choice_find(json_object_get(object, intervention_members[WHAT].field.name), "hidden") == 0;
}

/* Reads "all", the default, or a list of numbers below n. */
static int read_which(const hs__reading *r, size_t n, uint16_t *ret_numbers, size_t *ret_n)
{
    char what[16];
    *ret_n = hs__numbers_all(ret_numbers, n);
    if (!r->value || hs__choice_find(r->value, "all") == 0)
        return 0;
    snprintf(what, sizeof what, "%.*s", (int)strlen(r->row->field.name) - 1, r->row->field.name);
    if (json_array_size(r->value) == 0) {
        char must[64];
        snprintf(must, sizeof must, "\"all\" or a list of at least one %s number", what);
        return hs__reading_refuse(r, must);
    }
    return hs__read_numbers(r, what, n, ret_numbers, ret_n);
}

static int read_stack(const hs__reading *r)
{
    changed_heads *h = r->into;
    const hs__served_model *model = r->analysis->model;
    const int stack = hs__choice_find(r->value, r->row->field.choices);
    if (stack < 0)
        return hs__reading_refuse(r, "one of \"encoder\", \"decoder\", \"cross\"");
    if (!model->encoder && stack != HS_STACK_ENCODER)
        return hs__refuse(r->problem, 422, r->pointer,
                          "the request is about heads that no decoder changes: leave stack out%s",
                          model->decoder ? ", or send stack \"decoder\" or \"cross\" in the request" : "");
    h->stack = (unsigned)stack;
    return 0;
}

static int read_changed_layers(const hs__reading *r)
{
    changed_heads *h = r->into;
    return is_hidden(r->object->value)
               ? 0
               : read_which(r, r->model->shape->n_layers, h->layers, &h->to->n_layers);
}

static int read_changed_heads(const hs__reading *r)
{
    changed_heads *h = r->into;
    return read_which(r, r->model->shape->n_heads, h->heads, &h->to->n_heads);
}

/* Reads the layers of a change of hidden states as numbers of states: -1, the embeddings, is state 0. */
static int read_states(const hs__reading *object, changed_heads *h)
{
    char pointer[64];
    size_t states[HS__NUMBERS_MAX] = {0};
    const long last = (long)object->model->shape->n_layers - 1;
    const hs__reading r = hs__reading_member(object, &intervention_members[LAYERS], h, pointer);
    if (json_object_get(object->value, intervention_members[HEADS].field.name))
        return hs__refuse(r.problem, 422, object->pointer, "a change of hidden states has no heads");
    if (json_array_size(r.value) == 0)
        return hs__refuse(
            r.problem, 422, pointer,
            "a change of hidden states requires layers: a list of numbers from 0 to %ld, and -1 "
            "for the embeddings",
            last);
    if (read_range(&r, -1, last, states, &h->to->n_layers))
        return r.problem->status;
    for (size_t i = 0; i < h->to->n_layers; i++)
        h->layers[i] = (uint16_t)states[i];
    return 0;
}

static int read_what(const hs__reading *r)
{
    changed_heads *h = r->into;
    const bool adds = h->change.kind == HS_INTERVENE_ADD;
    if (adds && !is_hidden(r->object->value))
        return hs__refuse(r->problem, 422, r->pointer, "add requires what: \"hidden\", the hidden states");
    if (!is_patch(&h->change) && !adds)
        return refuse_unless(r, "patch and add take");
    if (is_hidden(r->object->value)) {
        h->change.kind = adds ? HS_INTERVENE_ADD : HS_INTERVENE_PATCH_STATE;
        return read_states(r->object, h);
    }
    return !r->value || hs__choice_find(r->value, "heads") == 0
               ? 0
               : hs__reading_refuse(r, "\"heads\" or \"hidden\"");
}

/* Reads how far the keys may be that a cut leaves. */
static int read_distance(const hs__reading *r)
{
    changed_heads *h = r->into;
    if (h->change.kind != HS_INTERVENE_CUT)
        return refuse_unless(r, "cut takes");
    char must[64];
    snprintf(must, sizeof must, "an integer from 1 to %d", HS_POSITIONS_MAX);
    if (!r->value)
        return hs__refuse(r->problem, 422, r->pointer, "cut requires a distance: %s", must);
    if (!hs__is_integer(r->value, 1, HS_POSITIONS_MAX))
        return hs__reading_refuse(r, must);
    h->to->distance = (size_t)json_number_value(r->value);
    return 0;
}

static int read_changed_positions(const hs__reading *r)
{
    changed_heads *h = r->into;
    const size_t n = r->model->shape->n_positions;
    if (!is_patch(&h->change) && h->change.kind != HS_INTERVENE_ADD)
        return refuse_unless(r, "patch and add take");
    if (hs__choice_find(r->value, "all") == 0)
        return 0;
    if (json_array_size(r->value) == 0)
        return hs__reading_refuse(r, "\"all\" or a list of at least one position");
    size_t *positions = malloc(n * sizeof *positions);
    if (!positions)
        return hs__refuse_memory(r->problem, "no memory for positions");
    h->to->positions = positions;
    return read_range(r, 0, (long)n - 1, positions, &h->to->n_positions);
}

/* Reads the vector to add: a number for each column of the hidden state. */
static int read_vector(const hs__reading *r)
{
    changed_heads *h = r->into;
    const size_t H = r->model->shape->hidden, n = json_array_size(r->value);
    if (h->change.kind != HS_INTERVENE_ADD)
        return refuse_unless(r, "add takes");
    if (!r->value == !h->change.n_sources)
        return hs__refuse(r->problem, 422, r->pointer,
                          "add requires either vector, %zu numbers, or from, two texts", H);
    if (!r->value)
        return 0;
    if (!json_is_array(r->value) || n != H)
        return hs__refuse(r->problem, 422, r->pointer,
                          "vector has %zu numbers; it must be a list of %zu, the hidden size of %s", n, H,
                          r->model->name);
    float *vector = malloc(H * sizeof *vector);
    if (!vector)
        return hs__refuse_memory(r->problem, "no memory for a vector");
    h->to->vector = vector;
    h->to->n_vector = H;
    for (size_t i = 0; i < H; i++) {
        const json_t *number = json_array_get(r->value, i);
        vector[i] = (float)json_number_value(number);
        if (!json_is_number(number) || !isfinite(vector[i]) || !isfinite(vector[i] * h->change.factor))
            return hs__reading_refuse_element(r, i,
                                              "a number that is in the range of floats, also times factor");
    }
    return 0;
}

/* Reads which state of a text `from` takes. A causal model's last token alone has read the whole text. */
static int read_source_pooling(const hs__reading *r)
{
    changed_heads *h = r->into;
    const int choice = hs__choice_find(r->value, r->row->field.choices);
    if (h->change.n_sources < 2)
        return refuse_unless(r, "add with from takes");
    h->change.last = r->value ? choice == 1 : r->model->architecture->causal;
    return r->value && choice < 0 ? hs__reading_refuse(r, "\"mean\" or \"last\"") : 0;
}

/* Refuses to take heads or states of another stack than the request's, whose passes keep nothing to take. */
static int check_source_stack(const hs__reading *r, const changed_heads *h)
{
    const bool heads = h->change.kind == HS_INTERVENE_PATCH;
    if (h->change.n_sources == 0 || h->stack == r->analysis->stack ||
        (!heads && h->stack != HS_STACK_ENCODER))
        return 0;
    return hs__refuse(r->problem, 422, r->pointer,
                      "from takes %s of the request's stack: leave stack out, or send the same stack in the "
                      "request%s",
                      heads ? "heads" : "states",
                      h->change.kind == HS_INTERVENE_ADD ? ", or vector in place of from" : "");
}

static const hs__row intervention_members[N_INTERVENTION_MEMBERS] = {
    [STACK] = {.field = {.name = "stack", .choices = "encoder|decoder|cross"}, .read = read_stack},
    [LAYERS] = {.field = {.name = "layers"}, .read = read_changed_layers, .absent_too = true},
    [HEADS] = {.field = {.name = "heads"}, .read = read_changed_heads, .absent_too = true},
    [KIND] = {.field = {.name = "kind", .choices = ALL_KINDS}, .read = read_kind, .absent_too = true},
    [FACTOR] = {.field = {.name = "factor"}, .read = read_factor, .absent_too = true},
    [DISTANCE] = {.field = {.name = "distance"}, .read = read_distance, .absent_too = true},
    [WHAT] = {.field = {.name = "what"}, .read = read_what, .absent_too = true},
    [FROM] = {.field = {.name = "from"}, .read = read_from, .absent_too = true},
    [POSITIONS] = {.field = {.name = "positions"}, .read = read_changed_positions},
    [VECTOR] = {.field = {.name = "vector"}, .read = read_vector, .absent_too = true},
    [POOLING] = {.field = {.name = "pooling", .choices = "mean|last"},
                 .read = read_source_pooling,
                 .absent_too = true},
};

/* Returns true if the i-th intervention is in the encoder that the request's decoder reads. */
static bool is_in_encoder(const hs__reading *list, size_t i)
{
    const hs__row *row = &intervention_members[STACK];
    const json_t *stack = json_object_get(json_array_get(list->value, i), row->field.name);
    return list->model->encoder && hs__choice_find(stack, row->field.choices) == HS_STACK_ENCODER;
}

/* Reads the i-th intervention as number `at` of the request's. */
static int read_intervention(const hs__reading *list, size_t i, size_t at)
{
    hs__analysis_request *analysis = list->analysis;
    hs_intervention *to = &analysis->interventions[at];
    changed_heads h = {.to = to,
                       .stack = analysis->stack,
                       .layers = analysis->numbers[2 * at],
                       .heads = analysis->numbers[2 * at + 1]};
    char pointer[32];
    hs__reading r = *list;
    snprintf(pointer, sizeof pointer, "%s/%zu", list->pointer, i);
    r.value = json_array_get(list->value, i);
    r.pointer = pointer;
    if (is_in_encoder(list, i))
        r.model = list->model->encoder;
    if (!json_is_object(r.value))
        return hs__reading_refuse(&r,
                                  "an object such as {\"layers\": [0], \"heads\": [1], \"kind\": \"zero\"}");
    const char *strange = find_strange(r.value, intervention_members, N_INTERVENTION_MEMBERS);
    if (strange)
        return refuse_strange(&r, intervention_members, N_INTERVENTION_MEMBERS, strange);
    if (read_members(&r, intervention_members, N_INTERVENTION_MEMBERS, &h) || check_source_stack(&r, &h))
        return r.problem->status;
    to->kind = h.change.kind;
    to->factor = h.change.factor;
    to->layers = h.layers;
    to->heads = h.heads;
    to->cross = h.stack == HS_STACK_CROSS;
    analysis->changes[at] = h.change;
    analysis->named_at[at] = (uint16_t)i;
    return 0;
}

int hs__read_interventions(const hs__reading *r)
{
    hs__analysis_request *analysis = r->analysis;
    const size_t n = json_array_size(r->value);
    if (!json_is_array(r->value) || n > INTERVENTIONS_MAX)
        return hs__reading_refuse(r, "a list of at most 256 objects");
    if (n == 0)
        return 0;
    analysis->interventions = calloc(n, sizeof *analysis->interventions);
    analysis->numbers = calloc(2 * n, sizeof *analysis->numbers);
    analysis->changes = calloc(n, sizeof *analysis->changes);
    analysis->named_at = calloc(n, sizeof *analysis->named_at);
    if (!analysis->interventions || !analysis->numbers || !analysis->changes || !analysis->named_at)
        return hs__reading_refuse_memory(r);
    analysis->n_interventions = n;
    for (size_t i = 0; i < n; i++)
        analysis->n_own_interventions += !is_in_encoder(r, i);
    for (size_t i = 0, own = 0, other = analysis->n_own_interventions; i < n; i++)
        if (read_intervention(r, i, is_in_encoder(r, i) ? other++ : own++))
            return r->problem->status;
    analysis->outputs |= HS__OUTPUT_BIT(changes);
    return 0;
}
