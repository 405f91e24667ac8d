/* test_api_tables.c - the tables of fields and outputs against api/openapi.json, in both directions. */
#include "api/internal.h"
#include "api/outputs/outputs.h"
#include "api/request/texts.h"
#include "server/corpus/run/settings.h"
#include "tests/unit/api_fixture.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <string.h>

static json_t *document;

static void open_document(void)
{
    document = json_loadb(hs__openapi_json, hs__openapi_json_bytes, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(document);
}

static void close_document(void)
{
    json_decref(document);
}

static json_t *member(json_t *from, const char *name)
{
    json_t *found = json_object_get(from, name);
    ck_assert_msg(found != NULL, "api/openapi.json lacks %s", name);
    return found;
}

/* The properties of a schema of components. */
static json_t *properties(const char *schema)
{
    return member(member(member(member(document, "components"), "schemas"), schema), "properties");
}

static bool is_type(json_t *schema, const char *type)
{
    const char *is = json_string_value(json_object_get(schema, "type"));
    return is && strcmp(is, type) == 0;
}

/* The enum says what choices say, in their order. */
static void check_choices(const hs_field *field, json_t *list)
{
    size_t i = 0;
    ck_assert_msg(json_is_array(list), "%s has no enum", field->name);
    for (const char *choice = field->choices; choice; choice = strchr(choice, '|')) {
        choice += *choice == '|';
        const char *listed = json_string_value(json_array_get(list, i++));
        const size_t n = strcspn(choice, "|");
        ck_assert_msg(listed && strlen(listed) == n && memcmp(listed, choice, n) == 0, "%s: choice %zu",
                      field->name, i);
    }
    ck_assert_uint_eq(json_array_size(list), i);
}

static void check_integer(const hs_field *field, json_t *schema)
{
    ck_assert_msg(is_type(schema, "integer"), "%s", field->name);
    ck_assert_msg(json_number_value(member(schema, "minimum")) == field->low, "%s: minimum", field->name);
    if (field->high > 0)
        ck_assert_msg(json_number_value(member(schema, "maximum")) == field->high, "%s: maximum",
                      field->name);
}

static void check_field(const hs_field *field, json_t *schema)
{
    json_t *words;
    switch (field->kind) {
    case HS_FIELD_TEXT:
        ck_assert_msg(is_type(schema, "string"), "%s", field->name);
        break;
    case HS_FIELD_ENUM:
        check_choices(field, json_object_get(schema, "enum"));
        break;
    case HS_FIELD_STRINGS:
    case HS_FIELD_IDS:
        ck_assert_msg(is_type(schema, "array"), "%s", field->name);
        break;
    case HS_FIELD_OBJECTS:
        ck_assert_msg(json_object_get(schema, "$ref") || is_type(schema, "object") ||
                          is_type(schema, "array"),
                      "%s", field->name);
        break;
    case HS_FIELD_NUMBERS:
        words = json_array_get(member(schema, "oneOf"), 0);
        if (json_object_get(words, "enum"))
            check_choices(field, json_object_get(words, "enum"));
        else
            ck_assert_str_eq(json_string_value(member(words, "const")), field->choices);
        break;
    case HS_FIELD_INTEGER:
        check_integer(field, schema);
        break;
    case HS_FIELD_FRACTION:
        ck_assert_msg(json_number_value(member(schema, "exclusiveMinimum")) == 0, "%s", field->name);
        ck_assert_msg(json_number_value(member(schema, "maximum")) == 1, "%s", field->name);
        break;
    case HS_FIELD_REAL:
        ck_assert_msg(json_number_value(member(schema, "minimum")) == field->low, "%s", field->name);
        ck_assert_msg(json_number_value(member(schema, "maximum")) == field->high, "%s", field->name);
        break;
    case HS_FIELD_FLAG:
        ck_assert_msg(is_type(schema, "boolean"), "%s", field->name);
        break;
    }
}

static void check_request(const char *schema, bool tokens_only)
{
    json_t *documented = properties(schema), *value;
    const char *name;
    for (size_t i = 0; hs_field_at(i); i++)
        if (hs_field_at(i)->tokenize || !tokens_only)
            check_field(hs_field_at(i), member(documented, hs_field_at(i)->name));
    json_object_foreach(documented, name, value)
    {
        const hs_field *field = hs_field_find(name);
        ck_assert_msg(strcmp(name, "model") == 0 || (field && (field->tokenize || !tokens_only)),
                      "%s tells of %s, which is not read", schema, name);
    }
}

START_TEST(every_field_is_documented)
{
    check_request("AnalyzeRequest", false);
    check_request("TokenizeRequest", true);
}
END_TEST

START_TEST(every_member_of_a_figure_is_documented)
{
    json_t *figure = member(member(properties("AnalyzeRequest"), "figure"), "properties");
    size_t n = 0;
    for (; hs_figure_field_at(n); n++)
        check_field(hs_figure_field_at(n), member(figure, hs_figure_field_at(n)->name));
    ck_assert_uint_eq(json_object_size(figure), n);
}
END_TEST

/* Settings of a run are texts, so their lists are strings; interventions are JSON in a string. */
static void check_parameter(const hs_field *setting, json_t *parameter)
{
    const hs_field *field = hs_field_find(setting->name);
    json_t *schema = json_object_get(parameter, "schema");
    ck_assert_str_eq(json_string_value(member(parameter, "name")), setting->name);
    ck_assert_ptr_nonnull(setting->help);
    if (field) {
        ck_assert_msg(field->kind == setting->kind, "%s has the kind of the field", setting->name);
        ck_assert_pstr_eq(field->choices, setting->choices);
    }
    if (setting->kind == HS_FIELD_OBJECTS)
        member(member(parameter, "content"), "application/json");
    else if (setting->kind == HS_FIELD_NUMBERS || setting->kind == HS_FIELD_STRINGS)
        ck_assert_msg(is_type(schema, "string"), "%s", setting->name);
    else if (setting->kind != HS_FIELD_TEXT) /* a number that no field has is a text */
        check_field(setting, schema);
}

START_TEST(every_setting_is_documented)
{
    json_t *post = member(member(member(document, "paths"), "/corpora"), "post");
    json_t *parameters = member(post, "parameters");
    const size_t n = hs__settings_count();
    ck_assert_uint_le(n, HS__SETTINGS_MAX);
    for (size_t k = 0; k < n; k++) /* model before them, name behind */
        check_parameter(hs__setting_field(k), json_array_get(parameters, k + 1));
    ck_assert_ptr_null(hs__setting_field(n));
    ck_assert_uint_eq(json_array_size(parameters), n + 2);
}
END_TEST

/* Returns the depth of nested lists in the schema. */
static size_t depth(json_t *schema)
{
    size_t n = 0;
    for (; is_type(schema, "array"); n++)
        schema = json_object_get(schema, "items");
    return n;
}

static bool is_total(const char *name)
{
    for (size_t i = 0; hs__output_at(i); i++) {
        const hs__structure *structure = hs__output_at(i)->structure;
        if (structure && structure->total && strcmp(structure->total_name, name) == 0)
            return true;
    }
    return false;
}

static bool is_output(const char *name)
{
    for (size_t i = 0; hs__output_at(i); i++)
        if (strcmp(hs__output_names[i], name) == 0)
            return true;
    return false;
}

START_TEST(every_output_is_documented)
{
    json_t *outputs = member(properties("AnalyzeRequest"), "outputs");
    json_t *names = member(member(outputs, "items"), "enum"), *defaults = member(outputs, "default");
    json_t *answer = properties("AnalyzeAnswer"), *tokens = properties("Tokens"), *value;
    const char *name;
    size_t n_named = 0, n_default = 0;
    for (size_t i = 0; hs__output_at(i); i++) {
        const hs__output *output = hs__output_at(i);
        json_t *schema = member(answer, hs__output_names[i]);
        if (HS__OUTPUTS_BROUGHT >> i & 1)
            continue;
        ck_assert_str_eq(json_string_value(json_array_get(names, n_named)), hs__output_names[i]);
        ck_assert_str_eq(hs_output_name(n_named++), hs__output_names[i]);
        for (size_t axes = 0; !output->structure; axes++) {
            if (output->axes[axes])
                continue;
            ck_assert_msg(depth(schema) == axes, "%s has %zu axes", hs__output_names[i], axes);
            break;
        }
        if (HS__OUTPUTS_DEFAULT >> i & 1)
            ck_assert_str_eq(json_string_value(json_array_get(defaults, n_default++)), hs__output_names[i]);
    }
    ck_assert_uint_eq(json_array_size(defaults), n_default);
    ck_assert_uint_eq(json_array_size(names), n_named);
    ck_assert_ptr_null(hs_output_name(n_named));
    json_object_foreach(answer, name, value)
    {
        const bool known = json_object_get(tokens, name) || strcmp(name, "layers") == 0 ||
                           strcmp(name, "heads") == 0 || strcmp(name, "generated") == 0 || is_output(name) ||
                           is_total(name);
        ck_assert_msg(known, "AnalyzeAnswer tells of %s, which is not answered", name);
    }
}
END_TEST

START_TEST(every_row_is_whole)
{
    for (size_t i = 0; hs__output_at(i); i++) {
        const hs__output *output = hs__output_at(i);
        const hs__structure *s = output->structure;
        ck_assert_msg(output->taps || output->own || (s && s->compute), "%s", hs__output_names[i]);
        ck_assert_msg(s ? !output->part : output->axes[0] != HS_AXIS_NONE, "%s", hs__output_names[i]);
        ck_assert_msg(s || output->part || __builtin_popcount(output->taps) == 1, "%s", hs__output_names[i]);
        ck_assert_msg(!s || (!(s->compute || s->begin) == (output->own != NULL) &&
                             !s->begin == !s->add_head && !(s->compute || s->begin) == !s->destroy &&
                             s->table && !s->total == !s->total_name),
                      "%s", hs__output_names[i]);
    }
}
END_TEST

/* ---- the columns of structures ---- */

/* The schema that a $ref names, or the schema itself. */
static json_t *resolved(json_t *schema)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    return ref ? member(member(member(document, "components"), "schemas"), strrchr(ref, '/') + 1) : schema;
}

/* Returns true if the schema or one of its choices has the type. */
static bool has_type(json_t *schema, const char *type)
{
    size_t i;
    json_t *choice, *types = json_object_get(schema, "type");
    if (is_type(schema, type))
        return true;
    json_array_foreach(types, i, choice)
    {
        if (strcmp(json_string_value(choice), type) == 0)
            return true;
    }
    json_array_foreach(json_object_get(schema, "oneOf"), i, choice)
    {
        if (has_type(choice, type))
            return true;
    }
    return false;
}

/* The items of a list, also of one that may be null. */
static json_t *items(const char *name, json_t *schema)
{
    ck_assert_msg(has_type(schema, "array"), "%s is a list", name);
    json_t *list =
        json_object_get(schema, "oneOf") ? json_array_get(json_object_get(schema, "oneOf"), 0) : schema;
    return resolved(member(list, "items"));
}

static void check_table(const char *name, const hs__table *table, json_t *schema);

static void check_column(const hs__table_column *column, json_t *schema)
{
    const char *name = column->name;
    json_t *choice;
    size_t i;
    ck_assert_msg(!column->nullable || has_type(schema, "null"), "%s may be null", name);
    ck_assert_msg(!column->get || column->member == HS__MEMBER_NONE, "%s has one source", name);
    switch (column->type) {
    case HS__CELL_NUMBER:
        ck_assert_msg(has_type(schema, "number"), "%s is a number", name);
        break;
    case HS__CELL_POSITION:
    case HS__CELL_ID:
    case HS__CELL_COUNT:
        ck_assert_msg(has_type(schema, "integer"), "%s is an integer", name);
        break;
    case HS__CELL_FLAG:
        ck_assert_msg(has_type(schema, "boolean"), "%s is a flag", name);
        break;
    case HS__CELL_LABEL:
        json_array_foreach(member(schema, "enum"), i, choice)
        {
            ck_assert_str_eq(json_string_value(choice), column->choices[i]);
        }
        ck_assert_ptr_null(column->choices[i]);
        break;
    case HS__CELL_RANGE:
        ck_assert_msg(has_type(items(name, schema), "integer"), "%s is a range", name);
        break;
    case HS__CELL_BLOCK:
        for (schema = items(name, schema); !has_type(schema, "number"); schema = items(name, schema))
            ;
        ck_assert_msg(column->most != NULL, "%s has a bound", name);
        break;
    case HS__CELL_TOKEN:
    case HS__CELL_ENTRY:
    case HS__CELL_TEXT:
        ck_assert_msg(has_type(schema, "string") || json_object_get(schema, "enum"), "%s is a text", name);
        break;
    case HS__CELL_TABLE:
        check_table(name, column->table, schema);
        break;
    case HS__CELL_END:
        break;
    }
}

static bool has_member(const hs__table *table, const char *name)
{
    for (const hs__table_column *column = table->columns; column->type; column++)
        if (column->place != HS__IN_ARRAYS && strcmp(column->name, name) == 0)
            return true;
    return false;
}

/* An object has the columns, and no other members. Those that are always answered are required. */
static void check_row(const char *name, const hs__table *table, json_t *schema)
{
    const char *documented;
    json_t *value, *required = json_object_get(schema, "required");
    if (!table->columns->name[0]) {
        check_column(table->columns, schema);
        return;
    }
    for (const hs__table_column *column = table->columns; column->type; column++) {
        size_t i, n_required = 0;
        if (column->place == HS__IN_ARRAYS)
            continue;
        check_column(column, resolved(member(member(schema, "properties"), column->name)));
        json_array_foreach(required, i, value)
        {
            n_required += strcmp(json_string_value(value), column->name) == 0;
        }
        ck_assert_msg(n_required == 1 || column->is_answered, "%s: %s is required", name, column->name);
    }
    json_object_foreach(member(schema, "properties"), documented, value)
    {
        ck_assert_msg(has_member(table, documented), "%s tells of %s, which is not answered", name,
                      documented);
    }
}

static void check_table(const char *name, const hs__table *table, json_t *schema)
{
    ck_assert_msg(!table->rows == (table->kind == HS__TABLE_ONE || table->kind == HS__TABLE_HEADS), "%s",
                  name);
    ck_assert_msg(!table->rows == !table->rows_max, "%s", name);
    schema = resolved(schema);
    if (table->kind != HS__TABLE_ONE)
        schema = items(name, schema);
    if (table->kind == HS__TABLE_HEADS || table->kind == HS__TABLE_BY_LAYER)
        schema = items(name, schema);
    check_row(name, table, schema);
}

START_TEST(every_column_is_documented)
{
    for (size_t i = 0; hs__output_at(i); i++)
        if (hs__output_at(i)->structure)
            check_table(hs__output_names[i], hs__output_at(i)->structure->table,
                        member(properties("AnalyzeAnswer"), hs__output_names[i]));
}
END_TEST

/* Outputs that the fixture's model cannot answer alone: those of task heads, of a text to patch from, and of
 * models with norms before their blocks. */
#define OTHERS                                                                                               \
    (HS__OUTPUT_BIT(classes) | HS__OUTPUT_BIT(next_sentence) | HS__OUTPUT_BIT(answer) |                      \
     HS__OUTPUT_BIT(loss) | HS__OUTPUT_BIT(patch_map) | HS__OUTPUT_BIT(logit_attributions) |                 \
     HS__OUTPUT_BIT(contacts))

/* Every output alone, in every format: what was named is there, and nothing else of the table. */
START_TEST(outputs_are_answered_one_by_one)
{
    api_fixture f;
    api_open(&(hs_api_options){0}, &f);
    for (size_t i = 0; hs__output_at(i); i++) {
        char body[200];
        const unsigned addends = HS_KEEP(SCORES_C2C) | HS_KEEP(SCORES_C2P) | HS_KEEP(SCORES_P2C);
        if (HS__OUTPUTS_BROUGHT >> i & 1)
            continue;
        snprintf(body, sizeof body, "{\"text\":\"The cat sat. The [MASK] slept.\",\"outputs\":[\"%s\"]}",
                 hs__output_names[i]);
        hs_response response = api_post(&f, HS_ANALYZE, body);
        /* of another family than the fixture's model, or of a text to patch from */
        if (hs__output_at(i)->taps & addends || OTHERS >> i & 1) {
            ck_assert_int_eq(response.status, 422);
            free(response.body);
            continue;
        }
        ck_assert_int_eq(response.status, 200);
        json_t *answer = api_json(&response);
        for (size_t k = 0; hs__output_at(k); k++)
            ck_assert_msg((json_object_get(answer, hs__output_names[k]) != NULL) ==
                              (k == i || (k == HS__OUTPUT_target && HS__OUTPUTS_OF_GRADIENTS >> i & 1) ||
                               (k == HS__OUTPUT_word_tokens && HS__OUTPUTS_OF_WORDS >> i & 1)),
                          "%s and %s", hs__output_names[i], hs__output_names[k]);
        json_decref(answer);
    }
    api_close(&f);
}
END_TEST

/* No structure of all heads, with all digits, takes more bytes than were reserved for its answer. */
START_TEST(answers_keep_their_bounds)
{
    static const char *const queries[] = {"", "format=safetensors"};
    api_fixture f;
    api_open(&(hs_api_options){0}, &f);
    for (size_t i = 0; hs__output_at(i); i++) {
        char body[300];
        const hs__structure *structure = hs__output_at(i)->structure;
        if (!structure || (HS__OUTPUTS_BROUGHT | OTHERS) >> i & 1)
            continue;
        snprintf(
            body, sizeof body,
            "{\"text\":\"The cat sat. The [MASK] slept.\",\"layers\":\"all\",\"digits\":9,\"threshold\":0.01,"
            "\"outputs\":[\"%s\"],\"predictions\":{\"positions\":\"all\",\"lens\":true}}",
            hs__output_names[i]);
        for (size_t k = 0; k < 2; k++) {
            hs_request request = api_request(HS_ANALYZE, body);
            hs_response response;
            request.query = queries[k];
            hs_job *job = hs_job_create(f.api, &request);
            ck_assert_ptr_nonnull(job);
            hs_job_run(&job, 1, NULL);
            const size_t bound = job->answer_bytes_max;
            hs_job_answer(job, &response);
            ck_assert_int_eq(response.status, 200);
            ck_assert_msg(response.body_bytes <= bound, "%s: %zu of %zu", hs__output_names[i],
                          response.body_bytes, bound);
            hs_response_finish(&response);
            hs_job_destroy(job);
        }
    }
    api_close(&f);
}
END_TEST

/* Predicted tokens come from the whole vocabulary, so they may be longer than those of the text. */
START_TEST(predicted_tokens_keep_their_bound)
{
    hs__analysis_request analysis = {.predictions = {.where = HS__PREDICT_ALL, .top_k = 100}};
    const hs__measures short_entries = {.analysis = &analysis, .n_tokens = 4, .token = 4, .entry = 4},
                       long_entries = {.analysis = &analysis, .n_tokens = 4, .token = 4, .entry = 304};
    const hs__table *table = hs__output_at(HS__OUTPUT_predictions)->structure->table;
    ck_assert_uint_eq(hs__table_json_max(table, &long_entries) - hs__table_json_max(table, &short_entries),
                      300 * 100 * 4);
    api_fixture f;
    api_open(&(hs_api_options){0}, &f);
    hs_response response =
        api_post(&f, HS_ANALYZE,
                 "{\"text\":\"a b\",\"outputs\":[],\"predictions\":{\"positions\":\"all\",\"top_k\":100}}");
    ck_assert_int_eq(response.status, 200);
    json_t *answer = api_json(&response), *prediction, *entry;
    size_t i, k, longest = 0;
    json_array_foreach(member(answer, "predictions"), i, prediction)
    {
        json_array_foreach(member(prediction, "top"), k, entry)
        {
            char *token = json_dumps(member(entry, "token"), JSON_ENCODE_ANY);
            longest = strlen(token) > longest ? strlen(token) : longest;
            free(token);
        }
    }
    hs_served_model *served = hs_api_model_use(f.api, NULL);
    ck_assert_uint_gt(longest, strlen("\"[CLS]\""));
    ck_assert_uint_le(longest, served->entry_bytes);
    hs_api_model_release(f.api, served);
    json_decref(answer);
    api_close(&f);
}
END_TEST

/* Texts of options and queries that are not UTF-8 are refused by that name. */
START_TEST(texts_of_fields_must_be_utf8)
{
    static const hs_field fields[] = {{.kind = HS_FIELD_TEXT}, {.kind = HS_FIELD_STRINGS}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        hs_error err = {0};
        json_t *value = hs_field_json(&fields[i], "a\u00e4,b", &err);
        ck_assert_ptr_nonnull(value);
        json_decref(value);
        ck_assert_ptr_null(hs_field_json(&fields[i], "a,\xff", &err));
        ck_assert_int_eq(err.status, HS_INVALID);
        ck_assert_ptr_nonnull(strstr(err.text, "UTF-8"));
    }
}
END_TEST

int main(void)
{
    TCase *cases = tcase_create("tables");
    tcase_add_checked_fixture(cases, open_document, close_document);
    tcase_add_test(cases, every_field_is_documented);
    tcase_add_test(cases, every_member_of_a_figure_is_documented);
    tcase_add_test(cases, every_setting_is_documented);
    tcase_add_test(cases, every_output_is_documented);
    tcase_add_test(cases, every_row_is_whole);
    tcase_add_test(cases, every_column_is_documented);
    tcase_add_test(cases, outputs_are_answered_one_by_one);
    tcase_add_test(cases, answers_keep_their_bounds);
    tcase_add_test(cases, predicted_tokens_keep_their_bound);
    tcase_add_test(cases, texts_of_fields_must_be_utf8);
    Suite *suite = suite_create("api tables");
    suite_add_tcase(suite, cases);
    return tests_run(suite);
}
