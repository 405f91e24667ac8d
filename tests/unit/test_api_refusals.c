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
    int status;          /* 0: 400 with a position, else 422 */
    const char *pointer; /* NULL: none */
    int at[3];           /* line, column and byte; line 0: no position */
    const char *says;    /* part of the detail */
    hs_operation operation;
    const char *query, *content_type, *accept;
    bool no_content_type;
} refusal;

#define TEXT    "{\"text\":\"a\","
#define TEN     "abcdefghij"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

static const refusal refusals[] = {
    /* Not JSON: where it stops being that. */
    {.name = "empty body", .body = "", .at = {1, 0, 0}, .says = "the body is empty; send"},
    {.name = "byte order mark",
     .body = "\xef\xbb\xbf{\"text\":\"a\"}",
     .at = {1, 1, 3},
     .says = "byte order mark"},
    {.name = "cut off", .body = "{\"text\":\"a\"", .at = {1, 11, 11}},
    {.name = "not JSON", .body = "hello", .at = {1, 5, 5}},
    {.name = "position counts lines", .body = "{\n  \"text\": \"\xc3\xa4\xc3\xb6\", x\n}", .at = {2, 17, 21}},
    {.name = "duplicate key", .body = TEXT "\"text\":\"b\"}", .at = {1, 18, 18}, .says = "duplicate"},
    {.name = "nested duplicate key",
     .body = TEXT "\"x\":{\"y\":1,\"y\":2}}",
     .at = {1, 26, 26},
     .says = "duplicate"},
    {.name = "text behind", .body = "{\"text\":\"a\"} 1", .at = {1, 14, 14}},
    {.name = "two objects", .body = "{\"text\":\"a\"}{\"text\":\"a\"}", .at = {1, 13, 13}},
    {.name = "NUL behind", .body = "{\"text\":\"a\"}\0", .body_bytes = 13, .at = {1, 13, 13}},
    {.name = "not UTF-8", .body = "{\"text\":\"a\xff\"}", .at = {1, 10, 10}, .says = "UTF-8"},
    {.name = "UTF-16", .body = "{\0\"\0t\0", .body_bytes = 6, .at = {1, 2, 2}},
    {.name = "encoded surrogate", .body = "{\"text\":\"\xed\xa0\x80\"}", .at = {1, 9, 9}},
    {.name = "lone surrogate escape", .body = "{\"text\":\"\\ud800\"}", .at = {1, 16, 16}},
    {.name = "raw control character", .body = "{\"text\":\"a\nb\"}", .at = {1, 10, 10}},
    {.name = "single quotes", .body = "{'text':'a'}", .at = {1, 2, 2}},
    {.name = "NaN", .body = TEXT "\"threshold\":NaN}", .at = {1, 27, 27}},
    {.name = "leading zero", .body = TEXT "\"digits\":06}", .at = {1, 22, 22}},
    {.name = "number beyond double", .body = TEXT "\"threshold\":1e999}", .at = {1, 29, 29}},

    /* JSON, but another thing. */
    {.name = "list", .body = "[]", .pointer = "", .says = "object"},
    {.name = "string", .body = "\"a\"", .pointer = "", .says = "object"},
    {.name = "null", .body = "null", .pointer = "", .says = "object"},
    {.name = "no text", .body = "{}", .pointer = "/text", .says = "required"},
    {.name = "two inputs", .body = TEXT "\"words\":[\"a\"]}", .pointer = "/words", .says = "exclude"},
    {.name = "pair of words",
     .body = "{\"words\":[\"a\"],\"text_pair\":\"b\"}",
     .pointer = "/text_pair",
     .says = "'text' only"},
    {.name = "types of a text",
     .body = TEXT "\"token_type_ids\":[0]}",
     .pointer = "/token_type_ids",
     .says = "'input_ids' only"},
    {.name = "words is a string", .body = "{\"words\":\"a b\"}", .pointer = "/words"},
    {.name = "a word is a number", .body = "{\"words\":[\"a\",1]}", .pointer = "/words/1"},
    {.name = "no ids",
     .body = "{\"input_ids\":[]}",
     .pointer = "/input_ids",
     .says = "input_ids has 0 elements"},
    {.name = "an id beyond",
     .body = "{\"input_ids\":[2,8192]}",
     .pointer = "/input_ids/1",
     .says = "0 to 8191"},
    {.name = "an id below", .body = "{\"input_ids\":[-1]}", .pointer = "/input_ids/0"},
    {.name = "types too few",
     .body = "{\"input_ids\":[2,3],\"token_type_ids\":[0]}",
     .pointer = "/token_type_ids",
     .says = "list of 2"},
    {.name = "a type beyond",
     .body = "{\"input_ids\":[2,3],\"token_type_ids\":[0,2]}",
     .pointer = "/token_type_ids/1"},
    {.name = "figure is a number",
     .body = TEXT "\"figure\":3}",
     .pointer = "/figure",
     .says = "an object such as {\"kind\": \"layer\", \"width_mm\": 170}"},
    {.name = "patch from nothing",
     .body = TEXT "\"interventions\":[{\"kind\":\"patch\",\"from\":{}}]}",
     .pointer = "/interventions/0/from",
     .says = "{\"text\": ...}, {\"text\": ..., \"text_pair\": ...} or {\"input_ids\": [...]}"},
    {.name = "patch from a text and ids",
     .body = TEXT "\"interventions\":[{\"kind\":\"patch\",\"from\":{\"text\":\"b\",\"input_ids\":[2]}}]}",
     .pointer = "/interventions/0/from"},
    {.name = "patch from a second text alone",
     .body = TEXT "\"interventions\":[{\"kind\":\"patch\",\"from\":{\"text_pair\":\"b\"}}]}",
     .pointer = "/interventions/0/from"},
    {.name = "patch of what",
     .body = TEXT "\"interventions\":[{\"kind\":\"patch\",\"from\":{\"text\":\"b\"},\"what\":\"keys\"}]}",
     .pointer = "/interventions/0/what",
     .says = "\"heads\" or \"hidden\""},
    {.name = "patches from nine texts",
     .body = TEXT "\"interventions\":["
                  "{\"kind\":\"patch\",\"from\":{\"text\":\"b\"}},"
                  "{\"kind\":\"patch\",\"from\":{\"text\":\"c\"}},"
                  "{\"kind\":\"patch\",\"from\":{\"text\":\"d\"}},"
                  "{\"kind\":\"patch\",\"from\":{\"text\":\"e\"}},"
                  "{\"kind\":\"patch\",\"from\":{\"text\":\"f\"}},"
                  "{\"kind\":\"patch\",\"from\":{\"text\":\"g\"}},"
                  "{\"kind\":\"patch\",\"from\":{\"text\":\"h\"}},"
                  "{\"kind\":\"patch\",\"from\":{\"text\":\"i\"}},"
                  "{\"kind\":\"patch\",\"from\":{\"text\":\"j\"}}"
                  "]}",
     .pointer = "/interventions/8/from",
     .says = "at most 8 different texts"},
    {.name = "patch_map without a target",
     .body =
         TEXT "\"outputs\":[\"patch_map\"],\"effects_of\":{\"kind\":\"patch\",\"from\":{\"text\":\"b\"}}}",
     .pointer = "/target",
     .says = "patch_map requires target"},
    {.name = "interventions is an object",
     .body = "{\"text\":\"a\",\"interventions\":{\"kind\":\"zero\"}}",
     .pointer = "/interventions",
     .says = "list"},
    {.name = "an intervention is a word",
     .body = "{\"text\":\"a\",\"interventions\":[\"zero\"]}",
     .pointer = "/interventions/0",
     .says = "an object"},
    {.name = "unknown member",
     .body = "{\"text\":\"a\",\"interventions\":[{\"kind\":\"zero\"},{\"kind\":\"zero\",\"head\":1}]}",
     .pointer = "/interventions/1",
     .says = "unknown member 'head'; allowed: stack, layers, heads"},
    {.name = "no kind",
     .body = "{\"text\":\"a\",\"interventions\":[{\"layers\":[0]}]}",
     .pointer = "/interventions/0/kind",
     .says = "interventions/0/kind is missing; it must be \"zero\""},
    {.name = "unknown kind",
     .body = "{\"text\":\"a\",\"interventions\":[{\"kind\":\"drop\"}]}",
     .pointer = "/interventions/0/kind",
     .says = "interventions/0/kind is \"drop\"; it must be \"zero\""},
    {.name = "scale by nothing",
     .body = "{\"text\":\"a\",\"interventions\":[{\"kind\":\"scale\"}]}",
     .pointer = "/interventions/0/factor",
     .says = "factor"},
    {.name = "scale beyond floats",
     .body = "{\"text\":\"a\",\"interventions\":[{\"kind\":\"scale\",\"factor\":1e39}]}",
     .pointer = "/interventions/0/factor",
     .says = "floats"},
    {.name = "factor of zero",
     .body = "{\"text\":\"a\",\"interventions\":[{\"kind\":\"zero\",\"factor\":1}]}",
     .pointer = "/interventions/0/factor",
     .says = "only scale"},
    {.name = "layer that is not there",
     .body = "{\"text\":\"a\",\"interventions\":[{\"kind\":\"zero\",\"layers\":[0,12]}]}",
     .pointer = "/interventions/0/layers/1",
     .says = "layer of the model"},
    {.name = "no heads",
     .body = "{\"text\":\"a\",\"interventions\":[{\"kind\":\"zero\",\"heads\":[]}]}",
     .pointer = "/interventions/0/heads",
     .says = "head number"},
    {.name = "changes by name",
     .body = "{\"text\":\"a\",\"outputs\":[\"changes\"]}",
     .pointer = "/outputs/0",
     .says = "one of"},
    {.name = "uniform and identity",
     .body =
         "{\"text\":\"a\",\"interventions\":[{\"kind\":\"uniform\"},{\"kind\":\"identity\",\"heads\":[3]}]}",
     .pointer = "/interventions",
     .says = "choose one"},
    {.name = "unknown field",
     .body = TEXT "\"layer\":1}",
     .pointer = "/layer",
     .says = "unknown field 'layer'; did you mean 'layers'; allowed: model, text,"},
    {.name = "unknown field like no other",
     .body = TEXT "\"temperatures\":1}",
     .pointer = "/temperatures",
     .says = "unknown field 'temperatures'; allowed: model, text,"},
    {.name = "chat messages",
     .body = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
     .pointer = "/messages",
     .says = "chat template, which is not rendered here. transformers makes the field input_ids of them"},
    {.name = "unknown field, escaped", .body = TEXT "\"a/b~c\":1}", .pointer = "/a~1b~0c"},
    {.name = "field of the other path",
     .body = TEXT "\"layers\":\"all\"}",
     .operation = HS_TOKENIZE,
     .pointer = "/layers",
     .says = "max_tokens"},

    /* Values. */
    {.name = "text is a number",
     .body = "{\"text\":1}",
     .pointer = "/text",
     .says = "text is 1; it must be a string"},
    {.name = "text is null", .body = "{\"text\":null}", .pointer = "/text", .says = "null"},
    {.name = "pair is a list", .body = TEXT "\"text_pair\":[]}", .pointer = "/text_pair", .says = "a list"},
    {.name = "model is a number", .body = TEXT "\"model\":1}", .pointer = "/model"},
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
     .pointer = "/max_tokens",
     .says = "max_tokens is 1; it must be an integer from 2 to 512"},
    {.name = "too few for a pair",
     .body = TEXT "\"max_tokens\":2,\"text_pair\":\"b\"}",
     .pointer = "/max_tokens",
     .says = "from 3"},
    {.name = "too many tokens", .body = TEXT "\"max_tokens\":513}", .pointer = "/max_tokens", .says = "512"},
    {.name = "half a token", .body = TEXT "\"max_tokens\":2.5}", .pointer = "/max_tokens", .says = "integer"},
    {.name = "tokens in a string",
     .body = TEXT "\"max_tokens\":\"128\"}",
     .pointer = "/max_tokens",
     .says = "\"128\""},
    {.name = "huge integer",
     .body = TEXT "\"max_tokens\":99999999999999999999999}",
     .pointer = "/max_tokens"},
    {.name = "window that the text lacks",
     .body = TEXT "\"window\":1}",
     .pointer = "/window",
     .says = "window is 1; this text has 1 window of 128 tokens: allowed are 0 to 0"},
    {.name = "window beyond", .body = TEXT "\"window\":262144}", .pointer = "/window", .says = "0 to 262143"},
    {.name = "window of ids",
     .body = "{\"input_ids\":[2,50,3],\"window\":0}",
     .pointer = "/window",
     .says = "'text' and 'words' only"},
    {.name = "stride without windows",
     .body = TEXT "\"stride\":3}",
     .pointer = "/stride",
     .says = "allowed with 'window' only"},
    {.name = "stride beyond",
     .body = TEXT "\"stride\":8,\"max_tokens\":8,\"window\":0}",
     .pointer = "/stride",
     .says = "0 to 7"},
    {.name = "windows without capacity",
     .body = "{\"text\":\"a b c d e f g h i j\",\"stride\":6,\"max_tokens\":8,\"window\":0}",
     .pointer = "/window",
     .says = "too few for a stride of 6"},
    {.name = "negative count",
     .body = TEXT "\"max_pairs\":-1}",
     .pointer = "/max_pairs",
     .says = "0 to 1000000"},
    {.name = "blocks of nothing", .body = TEXT "\"pool\":0}", .pointer = "/pool"},
    {.name = "pool without a pooled map",
     .body = TEXT "\"pool\":8}",
     .pointer = "/pool",
     .says = "mean_pooled_attentions"},
    {.name = "columns without a slice",
     .body = TEXT "\"columns\":[0,1]}",
     .pointer = "/columns",
     .says = "sliced_attentions"},
    {.name = "a slice of no rows",
     .body = TEXT "\"rows\":[1,1],\"outputs\":[\"sliced_attentions\"]}",
     .pointer = "/rows",
     .says = "from and to"},
    {.name = "rows behind the text",
     .body = TEXT "\"rows\":[0,99],\"outputs\":[\"sliced_similarities\"]}",
     .pointer = "/rows",
     .says = "rows end at 99"},
    {.name = "bytes of pooled similarities",
     .body = TEXT "\"dtype\":\"u1\",\"outputs\":[\"max_pooled_similarities\"]}",
     .query = "format=npz",
     .pointer = "/dtype"},
    {.name = "too many pairs", .body = TEXT "\"max_pairs\":1000001}", .pointer = "/max_pairs"},
    {.name = "layers is a number",
     .body = TEXT "\"layers\":3}",
     .pointer = "/layers",
     .says = "\"last\", \"all\" or a list"},
    {.name = "layers is another word", .body = TEXT "\"layers\":\"first\"}", .pointer = "/layers"},
    {.name = "no layers", .body = TEXT "\"layers\":[]}", .pointer = "/layers"},
    {.name = "layer beyond",
     .body = TEXT "\"layers\":[0,12]}",
     .pointer = "/layers/1",
     .says = "0 to 11, or -12 to -1"},
    {.name = "layer before", .body = TEXT "\"layers\":[-13]}", .pointer = "/layers/0"},
    {.name = "layer in a string", .body = TEXT "\"layers\":[\"1\"]}", .pointer = "/layers/0"},
    {.name = "half a layer", .body = TEXT "\"layers\":[0.5]}", .pointer = "/layers/0"},
    {.name = "true layer", .body = TEXT "\"layers\":[true]}", .pointer = "/layers/0", .says = "true"},
    {.name = "heads are last", .body = TEXT "\"heads\":\"last\"}", .pointer = "/heads"},
    {.name = "head beyond", .body = TEXT "\"heads\":[0,1,12]}", .pointer = "/heads/2", .says = "head"},
    {.name = "outputs is a word",
     .body = TEXT "\"outputs\":\"pairs\"}",
     .pointer = "/outputs",
     .says = "a list of"},
    {.name = "unknown output",
     .body = TEXT "\"outputs\":[\"pairs\",\"maps\"]}",
     .pointer = "/outputs/1",
     .says = "\"head_outputs\""},
    {.name = "normalize",
     .body = TEXT "\"normalize\":\"sum\"}",
     .pointer = "/normalize",
     .says = "\"none\", \"max\""},
    {.name = "normalize with a NUL", .body = TEXT "\"normalize\":\"max\\u0000\"}", .pointer = "/normalize"},
    {.name = "threshold 0", .body = TEXT "\"threshold\":0}", .pointer = "/threshold", .says = "(0, 1]"},
    {.name = "threshold beyond", .body = TEXT "\"threshold\":1.01}", .pointer = "/threshold"},
    {.name = "threshold below",
     .body = TEXT "\"attention_threshold\":-0.1}",
     .pointer = "/attention_threshold"},
    {.name = "threshold is false",
     .body = TEXT "\"threshold\":false}",
     .pointer = "/threshold",
     .says = "false"},
    {.name = "reduce", .body = TEXT "\"reduce\":\"max\"}", .pointer = "/reduce", .says = "\"mean\""},
    {.name = "bool as integer",
     .body = TEXT "\"split_special_tokens\":1}",
     .pointer = "/split_special_tokens",
     .says = "true or false"},
    {.name = "special tokens", .body = TEXT "\"special_tokens\":\"drop\"}", .pointer = "/special_tokens"},
    {.name = "no digits", .body = TEXT "\"digits\":0}", .pointer = "/digits", .says = "1 to 9"},
    {.name = "ten digits", .body = TEXT "\"digits\":10}", .pointer = "/digits"},
    {.name = "dtype", .body = TEXT "\"dtype\":\"f8\"}", .pointer = "/dtype", .says = "\"u1\""},
    {.name = "sentence ends is a string",
     .body = TEXT "\"sentence_ends\":\".\"}",
     .pointer = "/sentence_ends"},
    {.name = "unknown sentence end",
     .body = TEXT "\"sentence_ends\":[\".\",\"no such token\"]}",
     .pointer = "/sentence_ends/1",
     .says = "vocabulary"},
    {.name = "u1 of raw similarities",
     .body = TEXT "\"dtype\":\"u1\"}",
     .query = "format=npz",
     .pointer = "/dtype",
     .says = "normalize"},
    {.name = "u1 of sums",
     .body = TEXT "\"dtype\":\"u1\",\"normalize\":\"max\",\"reduce\":\"sum\"}",
     .query = "format=npz",
     .pointer = "/dtype",
     .says = "mean"},
    {.name = "u1 of hidden states",
     .body = TEXT "\"dtype\":\"u1\",\"outputs\":[\"hidden_states\"]}",
     .query = "format=safetensors",
     .pointer = "/dtype"},

    /* Too much. */
    {.name = "answer over the limit",
     .body = "{\"text\":\"a b c d e f g h i j k l m n o "
             "p\",\"layers\":\"all\",\"outputs\":[\"attentions\",\"similarities\"]}",
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
    {.name = "other format",
     .query = "format=xml",
     .status = 406,
     .says = "unknown format 'xml'; allowed: json, npz, safetensors"},
    {.name = "unknown names",
     .query = "format=npz&names=mine",
     .status = 422,
     .says = "unknown names 'mine'; allowed: hooks"},
    {.name = "empty format", .query = "format=", .status = 406},
    {.name = "format twice", .query = "format=npz&format=json", .pointer = "/format", .says = "twice"},
    {.name = "unknown parameter", .query = "layers=all", .pointer = "/layers", .says = "'layers'"},
    {.name = "broken escape", .query = "format=np%7", .status = 406},
    {.name = "a NUL in the query", .query = "format=npz%00", .says = "the query has a NUL, %00"},
    {.name = "a NUL in a name", .query = "form%00at=npz", .says = "the query has a NUL, %00"},
    {.name = "an unknown name longer than a pointer",
     .body = "{\"" HUNDRED HUNDRED HUNDRED "\":1}",
     .pointer = "",
     .says = "unknown field"},
    {.name = "accepts images", .accept = "image/gif", .status = 406},
    {.name = "accepts a type as long as a range", .accept = "application/x", .status = 406},
    {.name = "accepts nothing we have", .accept = "*/*;q=0", .status = 406},
    {.name = "JSON excluded by a quoted weight",
     .accept = "application/json; q=\"0\" ;x=1",
     .operation = HS_TOKENIZE,
     .status = 406},
    {.name = "JSON within a quoted string",
     .accept = "text/plain;a=\"\\\", application/json;b=\"",
     .operation = HS_TOKENIZE,
     .status = 406},
    {.name = "JSON excluded", .accept = "application/json;q=0", .operation = HS_TOKENIZE, .status = 406},
    {.name = "npz of tokens", .query = "format=npz", .operation = HS_TOKENIZE, .status = 406},
    {.name = "models as HTML", .operation = HS_MODELS, .accept = "text/html", .status = 406},
};

static void check_refusal(const refusal *c, int status, json_t *problem)
{
    const char *name = c->name, *detail = json_string_value(json_object_get(problem, "detail"));
    const int expected = c->status ? c->status : c->at[0] ? 400 : 422;
    if (status != expected || !detail)
        ck_abort_msg("%s: status %d, not %d: %s", name, status, expected, detail ? detail : "(no detail)");
    ck_assert_msg(json_integer_value(json_object_get(problem, "status")) == status, "%s", name);
    ck_assert_msg(json_is_string(json_object_get(problem, "type")), "%s", name);
    ck_assert_msg(json_string_length(json_object_get(problem, "title")) > 0, "%s", name);
    if (c->says && !strstr(detail, c->says))
        ck_abort_msg("%s: '%s' does not say '%s'", name, detail, c->says);
    const char *pointer = json_string_value(json_object_get(problem, "pointer"));
    if (strcmp(pointer ? pointer : "none", c->pointer ? c->pointer : "none") != 0)
        ck_abort_msg("%s: pointer %s, not %s", name, pointer, c->pointer);
    int at[3] = {0};
    json_t *position = json_object_get(problem, "position");
    if (position)
        ck_assert_int_eq(
            json_unpack(position, "{s:i,s:i,s:i}", "line", &at[0], "column", &at[1], "byte", &at[2]), 0);
    if (memcmp(at, c->at, sizeof at) != 0)
        ck_abort_msg("%s: position %d, %d, %d, not %d, %d, %d (%s)", name, at[0], at[1], at[2], c->at[0],
                     c->at[1], c->at[2], detail);
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
    hs_api_handle(fixture.api, &request, &response);
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
