/* test_api_refusals.c - every case of the API's table of errors, as data. */
#include "tests/unit/api_fixture.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

/* Members that are left out are those of a valid POST of {"text":"a"} to /analyze. A body with NULs says its
 * size. */
typedef struct refusal {
    const char *name;
    const char *body;
    size_t body_bytes;
    int status;
    const char *pointer;    /* NULL: none */
    int line, column, byte; /* line 0: no position */
    const char *says;       /* part of the detail */
    hs_operation operation;
    const char *query, *content_type, *accept;
    bool no_content_type;
} refusal;

#define TEXT "{\"text\":\"a\","

static const refusal refusals[] = {
    /* Not JSON: where it stops being that. */
    {.name = "empty body", .body = "", .status = 400, .line = 1, .column = 0, .byte = 0, .says = "JSON"},
    {.name = "cut off", .body = "{\"text\":\"a\"", .status = 400, .line = 1, .column = 11, .byte = 11},
    {.name = "not JSON", .body = "hello", .status = 400, .line = 1, .column = 5, .byte = 5},
    {.name = "position counts lines",
     .body = "{\n  \"text\": \"\xc3\xa4\xc3\xb6\", x\n}",
     .status = 400,
     .line = 2,
     .column = 17,
     .byte = 21},
    {.name = "duplicate key",
     .body = TEXT "\"text\":\"b\"}",
     .status = 400,
     .line = 1,
     .column = 18,
     .byte = 18,
     .says = "duplicate"},
    {.name = "nested duplicate key",
     .body = TEXT "\"x\":{\"y\":1,\"y\":2}}",
     .status = 400,
     .line = 1,
     .column = 26,
     .byte = 26,
     .says = "duplicate"},
    {.name = "text behind", .body = "{\"text\":\"a\"} 1", .status = 400, .line = 1, .column = 14, .byte = 14},
    {.name = "two objects",
     .body = "{\"text\":\"a\"}{\"text\":\"a\"}",
     .status = 400,
     .line = 1,
     .column = 13,
     .byte = 13},
    {.name = "NUL behind",
     .body = "{\"text\":\"a\"}\0",
     .body_bytes = 13,
     .status = 400,
     .line = 1,
     .column = 13,
     .byte = 13},
    {.name = "not UTF-8",
     .body = "{\"text\":\"a\xff\"}",
     .status = 400,
     .line = 1,
     .column = 10,
     .byte = 10,
     .says = "UTF-8"},
    {.name = "UTF-16",
     .body = "{\0\"\0t\0",
     .body_bytes = 6,
     .status = 400,
     .line = 1,
     .column = 2,
     .byte = 2},
    {.name = "byte order mark",
     .body = "\xef\xbb\xbf{\"text\":\"a\"}",
     .status = 400,
     .line = 1,
     .column = 1,
     .byte = 3},
    {.name = "encoded surrogate",
     .body = "{\"text\":\"\xed\xa0\x80\"}",
     .status = 400,
     .line = 1,
     .column = 9,
     .byte = 9},
    {.name = "lone surrogate escape",
     .body = "{\"text\":\"\\ud800\"}",
     .status = 400,
     .line = 1,
     .column = 16,
     .byte = 16},
    {.name = "raw control character",
     .body = "{\"text\":\"a\nb\"}",
     .status = 400,
     .line = 1,
     .column = 10,
     .byte = 10},
    {.name = "single quotes", .body = "{'text':'a'}", .status = 400, .line = 1, .column = 2, .byte = 2},
    {.name = "NaN", .body = TEXT "\"threshold\":NaN}", .status = 400, .line = 1, .column = 27, .byte = 27},
    {.name = "leading zero",
     .body = TEXT "\"digits\":06}",
     .status = 400,
     .line = 1,
     .column = 22,
     .byte = 22},
    {.name = "number beyond double",
     .body = TEXT "\"threshold\":1e999}",
     .status = 400,
     .line = 1,
     .column = 29,
     .byte = 29},

    /* JSON, but another thing. */
    {.name = "list", .body = "[]", .status = 422, .pointer = "", .says = "object"},
    {.name = "string", .body = "\"a\"", .status = 422, .pointer = "", .says = "object"},
    {.name = "null", .body = "null", .status = 422, .pointer = "", .says = "object"},
    {.name = "no text", .body = "{}", .status = 422, .pointer = "/text", .says = "required"},
    {.name = "two inputs",
     .body = TEXT "\"words\":[\"a\"]}",
     .status = 422,
     .pointer = "/words",
     .says = "exclude"},
    {.name = "pair of words",
     .body = "{\"words\":[\"a\"],\"text_pair\":\"b\"}",
     .status = 422,
     .pointer = "/text_pair",
     .says = "'text' only"},
    {.name = "types of a text",
     .body = TEXT "\"token_type_ids\":[0]}",
     .status = 422,
     .pointer = "/token_type_ids",
     .says = "'input_ids' only"},
    {.name = "words is a string", .body = "{\"words\":\"a b\"}", .status = 422, .pointer = "/words"},
    {.name = "a word is a number", .body = "{\"words\":[\"a\",1]}", .status = 422, .pointer = "/words/1"},
    {.name = "no ids",
     .body = "{\"input_ids\":[]}",
     .status = 422,
     .pointer = "/input_ids",
     .says = "input_ids has 0 elements"},
    {.name = "an id beyond",
     .body = "{\"input_ids\":[2,8192]}",
     .status = 422,
     .pointer = "/input_ids/1",
     .says = "0 to 8191"},
    {.name = "an id below", .body = "{\"input_ids\":[-1]}", .status = 422, .pointer = "/input_ids/0"},
    {.name = "types too few",
     .body = "{\"input_ids\":[2,3],\"token_type_ids\":[0]}",
     .status = 422,
     .pointer = "/token_type_ids",
     .says = "list of 2"},
    {.name = "a type beyond",
     .body = "{\"input_ids\":[2,3],\"token_type_ids\":[0,2]}",
     .status = 422,
     .pointer = "/token_type_ids/1"},
    {.name = "interventions is an object",
     .body = "{\"text\":\"a\",\"interventions\":{\"kind\":\"zero\"}}",
     .status = 422,
     .pointer = "/interventions",
     .says = "list"},
    {.name = "an intervention is a word",
     .body = "{\"text\":\"a\",\"interventions\":[\"zero\"]}",
     .status = 422,
     .pointer = "/interventions/0",
     .says = "an object"},
    {.name = "unknown member",
     .body = "{\"text\":\"a\",\"interventions\":[{\"kind\":\"zero\"},{\"kind\":\"zero\",\"head\":1}]}",
     .status = 422,
     .pointer = "/interventions/1",
     .says = "unknown member 'head'; allowed: layers, heads"},
    {.name = "no kind",
     .body = "{\"text\":\"a\",\"interventions\":[{\"layers\":[0]}]}",
     .status = 422,
     .pointer = "/interventions/0/kind",
     .says = "identity"},
    {.name = "unknown kind",
     .body = "{\"text\":\"a\",\"interventions\":[{\"kind\":\"drop\"}]}",
     .status = 422,
     .pointer = "/interventions/0/kind",
     .says = "uniform"},
    {.name = "scale by nothing",
     .body = "{\"text\":\"a\",\"interventions\":[{\"kind\":\"scale\"}]}",
     .status = 422,
     .pointer = "/interventions/0/factor",
     .says = "factor"},
    {.name = "scale beyond floats",
     .body = "{\"text\":\"a\",\"interventions\":[{\"kind\":\"scale\",\"factor\":1e39}]}",
     .status = 422,
     .pointer = "/interventions/0/factor",
     .says = "floats"},
    {.name = "factor of zero",
     .body = "{\"text\":\"a\",\"interventions\":[{\"kind\":\"zero\",\"factor\":1}]}",
     .status = 422,
     .pointer = "/interventions/0/factor",
     .says = "only scale"},
    {.name = "layer that is not there",
     .body = "{\"text\":\"a\",\"interventions\":[{\"kind\":\"zero\",\"layers\":[0,12]}]}",
     .status = 422,
     .pointer = "/interventions/0/layers/1",
     .says = "layer of the model"},
    {.name = "no heads",
     .body = "{\"text\":\"a\",\"interventions\":[{\"kind\":\"zero\",\"heads\":[]}]}",
     .status = 422,
     .pointer = "/interventions/0/heads",
     .says = "head number"},
    {.name = "changes by name",
     .body = "{\"text\":\"a\",\"outputs\":[\"changes\"]}",
     .status = 422,
     .pointer = "/outputs/0",
     .says = "one of"},
    {.name = "uniform and identity",
     .body =
         "{\"text\":\"a\",\"interventions\":[{\"kind\":\"uniform\"},{\"kind\":\"identity\",\"heads\":[3]}]}",
     .status = 422,
     .says = "choose one"},
    {.name = "unknown field",
     .body = TEXT "\"layer\":1}",
     .status = 422,
     .pointer = "/layer",
     .says = "allowed: model, text,"},
    {.name = "unknown field, escaped", .body = TEXT "\"a/b~c\":1}", .status = 422, .pointer = "/a~1b~0c"},
    {.name = "field of the other path",
     .body = TEXT "\"layers\":\"all\"}",
     .operation = HS_TOKENIZE,
     .status = 422,
     .pointer = "/layers",
     .says = "max_tokens"},

    /* Values. */
    {.name = "text is a number",
     .body = "{\"text\":1}",
     .status = 422,
     .pointer = "/text",
     .says = "text is 1; it must be a string"},
    {.name = "text is null", .body = "{\"text\":null}", .status = 422, .pointer = "/text", .says = "null"},
    {.name = "pair is a list",
     .body = TEXT "\"text_pair\":[]}",
     .status = 422,
     .pointer = "/text_pair",
     .says = "a list"},
    {.name = "model is a number", .body = TEXT "\"model\":1}", .status = 422, .pointer = "/model"},
    {.name = "unknown model",
     .body = TEXT "\"model\":\"maxi\"}",
     .status = 404,
     .pointer = "/model",
     .says = "allowed: mini"},
    {.name = "model with a NUL",
     .body = TEXT "\"model\":\"mini\\u0000\"}",
     .status = 404,
     .pointer = "/model"},
    {.name = "too few tokens",
     .body = TEXT "\"max_tokens\":1}",
     .status = 422,
     .pointer = "/max_tokens",
     .says = "max_tokens is 1; it must be an integer from 2 to 512"},
    {.name = "too few for a pair",
     .body = TEXT "\"max_tokens\":2,\"text_pair\":\"b\"}",
     .status = 422,
     .pointer = "/max_tokens",
     .says = "from 3"},
    {.name = "too many tokens",
     .body = TEXT "\"max_tokens\":513}",
     .status = 422,
     .pointer = "/max_tokens",
     .says = "512"},
    {.name = "half a token",
     .body = TEXT "\"max_tokens\":2.5}",
     .status = 422,
     .pointer = "/max_tokens",
     .says = "integer"},
    {.name = "tokens in a string",
     .body = TEXT "\"max_tokens\":\"128\"}",
     .status = 422,
     .pointer = "/max_tokens",
     .says = "\"128\""},
    {.name = "huge integer",
     .body = TEXT "\"max_tokens\":99999999999999999999999}",
     .status = 422,
     .pointer = "/max_tokens"},
    {.name = "negative count",
     .body = TEXT "\"max_pairs\":-1}",
     .status = 422,
     .pointer = "/max_pairs",
     .says = "0 to 1000000"},
    {.name = "too many pairs", .body = TEXT "\"max_pairs\":1000001}", .status = 422, .pointer = "/max_pairs"},
    {.name = "layers is a number",
     .body = TEXT "\"layers\":3}",
     .status = 422,
     .pointer = "/layers",
     .says = "\"last\", \"all\" or a list"},
    {.name = "layers is another word",
     .body = TEXT "\"layers\":\"first\"}",
     .status = 422,
     .pointer = "/layers"},
    {.name = "no layers", .body = TEXT "\"layers\":[]}", .status = 422, .pointer = "/layers"},
    {.name = "layer beyond",
     .body = TEXT "\"layers\":[0,12]}",
     .status = 422,
     .pointer = "/layers/1",
     .says = "0 to 11, or -12 to -1"},
    {.name = "layer before", .body = TEXT "\"layers\":[-13]}", .status = 422, .pointer = "/layers/0"},
    {.name = "layer in a string", .body = TEXT "\"layers\":[\"1\"]}", .status = 422, .pointer = "/layers/0"},
    {.name = "half a layer", .body = TEXT "\"layers\":[0.5]}", .status = 422, .pointer = "/layers/0"},
    {.name = "true layer",
     .body = TEXT "\"layers\":[true]}",
     .status = 422,
     .pointer = "/layers/0",
     .says = "true"},
    {.name = "heads are last", .body = TEXT "\"heads\":\"last\"}", .status = 422, .pointer = "/heads"},
    {.name = "head beyond",
     .body = TEXT "\"heads\":[0,1,12]}",
     .status = 422,
     .pointer = "/heads/2",
     .says = "head"},
    {.name = "outputs is a word",
     .body = TEXT "\"outputs\":\"pairs\"}",
     .status = 422,
     .pointer = "/outputs",
     .says = "a list of"},
    {.name = "unknown output",
     .body = TEXT "\"outputs\":[\"pairs\",\"maps\"]}",
     .status = 422,
     .pointer = "/outputs/1",
     .says = "\"head_outputs\""},
    {.name = "normalize",
     .body = TEXT "\"normalize\":\"sum\"}",
     .status = 422,
     .pointer = "/normalize",
     .says = "\"none\", \"max\""},
    {.name = "normalize with a NUL",
     .body = TEXT "\"normalize\":\"max\\u0000\"}",
     .status = 422,
     .pointer = "/normalize"},
    {.name = "threshold 0",
     .body = TEXT "\"threshold\":0}",
     .status = 422,
     .pointer = "/threshold",
     .says = "(0, 1]"},
    {.name = "threshold beyond", .body = TEXT "\"threshold\":1.01}", .status = 422, .pointer = "/threshold"},
    {.name = "threshold below",
     .body = TEXT "\"attention_threshold\":-0.1}",
     .status = 422,
     .pointer = "/attention_threshold"},
    {.name = "threshold is false",
     .body = TEXT "\"threshold\":false}",
     .status = 422,
     .pointer = "/threshold",
     .says = "false"},
    {.name = "reduce",
     .body = TEXT "\"reduce\":\"max\"}",
     .status = 422,
     .pointer = "/reduce",
     .says = "\"mean\""},
    {.name = "bool as integer",
     .body = TEXT "\"split_special_tokens\":1}",
     .status = 422,
     .pointer = "/split_special_tokens",
     .says = "true or false"},
    {.name = "special tokens",
     .body = TEXT "\"special_tokens\":\"drop\"}",
     .status = 422,
     .pointer = "/special_tokens"},
    {.name = "no digits",
     .body = TEXT "\"digits\":0}",
     .status = 422,
     .pointer = "/digits",
     .says = "1 to 9"},
    {.name = "ten digits", .body = TEXT "\"digits\":10}", .status = 422, .pointer = "/digits"},
    {.name = "dtype", .body = TEXT "\"dtype\":\"f8\"}", .status = 422, .pointer = "/dtype", .says = "\"u1\""},
    {.name = "sentence ends is a string",
     .body = TEXT "\"sentence_ends\":\".\"}",
     .status = 422,
     .pointer = "/sentence_ends"},
    {.name = "unknown sentence end",
     .body = TEXT "\"sentence_ends\":[\".\",\"no such token\"]}",
     .status = 422,
     .pointer = "/sentence_ends/1",
     .says = "vocabulary"},
    {.name = "u1 of raw similarities",
     .body = TEXT "\"dtype\":\"u1\"}",
     .query = "format=npz",
     .status = 422,
     .pointer = "/dtype",
     .says = "normalize"},
    {.name = "u1 of sums",
     .body = TEXT "\"dtype\":\"u1\",\"normalize\":\"max\",\"reduce\":\"sum\"}",
     .query = "format=npz",
     .status = 422,
     .pointer = "/dtype",
     .says = "mean"},
    {.name = "u1 of hidden states",
     .body = TEXT "\"dtype\":\"u1\",\"outputs\":[\"hidden_states\"]}",
     .query = "format=safetensors",
     .status = 422,
     .pointer = "/dtype"},

    /* Too much. */
    {.name = "answer over the limit",
     .body = "{\"text\":\"a b c d e f g h i j k l m n o "
             "p\",\"layers\":\"all\",\"outputs\":[\"attentions\",\"similarities\"]}",
     .status = 422,
     .says = "the limit is"},

    /* Headers. */
    {.name = "no content type",
     .no_content_type = true,
     .status = 415,
     .says = "Content-Type: application/json"},
    {.name = "form", .content_type = "application/x-www-form-urlencoded", .status = 415},
    {.name = "plain text", .content_type = "text/plain", .status = 415},
    {.name = "other charset",
     .content_type = "application/json; charset=iso-8859-1",
     .status = 415,
     .says = "iso-8859-1"},
    {.name = "other format", .query = "format=xml", .status = 406, .says = "json, npz, safetensors"},
    {.name = "empty format", .query = "format=", .status = 406},
    {.name = "format twice",
     .query = "format=npz&format=json",
     .status = 422,
     .pointer = "/format",
     .says = "twice"},
    {.name = "unknown parameter",
     .query = "layers=all",
     .status = 422,
     .pointer = "/layers",
     .says = "'layers'"},
    {.name = "broken escape", .query = "format=np%7", .status = 406},
    {.name = "accepts images", .accept = "image/png", .status = 406},
    {.name = "accepts nothing we have", .accept = "*/*;q=0", .status = 406},
    {.name = "JSON excluded", .accept = "application/json;q=0", .operation = HS_TOKENIZE, .status = 406},
    {.name = "npz of tokens", .query = "format=npz", .operation = HS_TOKENIZE, .status = 406},
    {.name = "models as HTML", .operation = HS_MODELS, .accept = "text/html", .status = 406},
};

static void check_refusal(const refusal *c, int status, json_t *problem)
{
    const char *name = c->name, *detail = json_string_value(json_object_get(problem, "detail"));
    if (status != c->status || !detail)
        ck_abort_msg("%s: status %d, not %d: %s", name, status, c->status, detail ? detail : "(no detail)");
    ck_assert_msg(json_integer_value(json_object_get(problem, "status")) == status, "%s", name);
    ck_assert_msg(json_is_string(json_object_get(problem, "type")), "%s", name);
    ck_assert_msg(json_string_length(json_object_get(problem, "title")) > 0, "%s", name);
    if (c->says && !strstr(detail, c->says))
        ck_abort_msg("%s: '%s' does not say '%s'", name, detail, c->says);
    const char *pointer = json_string_value(json_object_get(problem, "pointer"));
    if (strcmp(pointer ? pointer : "none", c->pointer ? c->pointer : "none") != 0)
        ck_abort_msg("%s: pointer %s, not %s", name, pointer, c->pointer);
    int line = 0, column = 0, byte = 0;
    json_t *position = json_object_get(problem, "position");
    if (position)
        ck_assert_int_eq(
            json_unpack(position, "{s:i,s:i,s:i}", "line", &line, "column", &column, "byte", &byte), 0);
    if (line != c->line || column != c->column || byte != c->byte)
        ck_abort_msg("%s: position %d, %d, %d, not %d, %d, %d (%s)", name, line, column, byte, c->line,
                     c->column, c->byte, detail);
}

static api_fixture fixture;

static void open_fixture(void)
{
    api_open(&(hs_api_options){.answer_bytes_max = 500000}, &fixture);
}

static void close_fixture(void)
{
    api_close(&fixture);
}

START_TEST(refusals_say_where_and_what_is_allowed)
{
    const refusal *c = &refusals[_i];
    hs_request request = api_request(c->operation, c->body ? c->body : "{\"text\":\"a\"}");
    if (c->body_bytes)
        request.body_bytes = c->body_bytes;
    request.query = c->query;
    request.accept = c->accept;
    request.content_type = c->no_content_type ? NULL
                           : c->content_type  ? c->content_type
                                              : request.content_type;
    hs_response response;
    hs_api_handle(fixture.api, fixture.worker, &request, &response);
    const int status = response.status;
    ck_assert_str_eq(response.content_type, status < 400 ? "application/json" : "application/problem+json");
    json_t *problem = api_json(&response);
    check_refusal(c, status, problem);
    json_decref(problem);
}
END_TEST

int main(void)
{
    TCase *cases = tcase_create("refusals");
    tcase_add_unchecked_fixture(cases, open_fixture, close_fixture);
    tcase_add_loop_test(cases, refusals_say_where_and_what_is_allowed, 0, sizeof refusals / sizeof *refusals);
    Suite *suite = suite_create("api refusals");
    suite_add_tcase(suite, cases);
    return tests_run(suite);
}
