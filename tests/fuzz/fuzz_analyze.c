/* fuzz_analyze.c - every request gets a sound answer: valid JSON, a file of the requested format, or a
 * problem with a status from 400 to 499.
 *
 * The input is a query (with an Accept header behind a space), a line feed, and the body. */
#include "api/api.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/checkpoint.h"

#include <jansson.h>
#include <string.h>

/* Answers are small in the first, which refuses larger ones; figures take more. */
enum { SMALL, FIGURES, N_APIS };
static hs_api *apis[N_APIS];

static void start(void)
{
    hs_runtime *runtime = NULL;
    hs_model *model = NULL;
    hs_engine *engine = NULL;
    char dir[64];
    require(!setenv("PATH", "/nowhere", 1)); /* no process for each PDF and PNG */
    folder_create(dir); /* a pass through the embedded model would be most of an execution's time */
    checkpoint_write(&(checkpoint){0}, dir);
    require(!hs_model_open(dir, NULL, &model, NULL) && !hs_runtime_create(1, &runtime, NULL) &&
            !hs_engine_create(runtime, hs_model_architecture(model), &(hs_engine_options){0}, &engine, NULL));
    for (int k = 0; k < N_APIS; k++) {
        const hs_api_options options = {.answer_bytes_max = k == SMALL ? 100 << 10 : 32 << 20,
                                        .cache_bytes_max = 64 << 10};
        require(!hs_api_create(&options, &apis[k], NULL) &&
                !hs_api_model_put(apis[k], &(hs_api_model){.name = "mini", .model = model, .engine = engine},
                                  NULL));
    }
    folder_remove(dir); /* it is mapped */
}

static void check_json(const hs_response *response)
{
    json_error_t error;
    json_t *json =
        json_loadb(response->body, response->body_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    require(json_is_object(json));
    if (response->status != 200)
        require(json_integer_value(json_object_get(json, "status")) == response->status);
    json_decref(json);
}

static void check_safetensors(const hs_response *response)
{
    uint64_t n = 0, end = 0;
    require(response->body_bytes >= sizeof n);
    memcpy(&n, response->body, sizeof n);
    require(n % 8 == 0 && n <= response->body_bytes - 8);
    json_t *header = json_loadb(response->body + 8, n, JSON_REJECT_DUPLICATES, NULL);
    const char *name;
    json_t *tensor;
    require(json_is_object(header));
    json_object_foreach(header, name, tensor)
    {
        json_t *offsets = json_object_get(tensor, "data_offsets");
        if (strcmp(name, "__metadata__") == 0)
            continue;
        require(json_integer_value(json_array_get(offsets, 0)) == (json_int_t)end);
        end = (uint64_t)json_integer_value(json_array_get(offsets, 1));
    }
    require(end == response->body_bytes - 8 - n);
    json_decref(header);
}

static void check_npz(const hs_response *response)
{
    const size_t n = response->body_bytes;
    require(n > 22 && memcmp(response->body, "PK\x03\x04", 4) == 0);
    require(memcmp(response->body + n - 22, "PK\x05\x06", 4) == 0);
}

/* A figure ends as its format does. Text of the request stays within its element or field. */
static void check_figure(const hs_response *response)
{
    static const struct {
        const char *media_type, *begin, *end;
    } figures[] = {
        {"image/svg+xml", "<svg ", "</svg>\n"},
        {"text/csv", "panel,row,column,", "\n"},
    };
    for (size_t k = 0; k < sizeof figures / sizeof *figures; k++) {
        const size_t n_begin = strlen(figures[k].begin), n_end = strlen(figures[k].end);
        if (strcmp(response->content_type, figures[k].media_type) != 0)
            continue;
        require(response->body_bytes > n_begin + n_end);
        require(memcmp(response->body, figures[k].begin, n_begin) == 0);
        require(memcmp(response->body + response->body_bytes - n_end, figures[k].end, n_end) == 0);
        require(strcmp(figures[k].media_type, "image/svg+xml") != 0 ||
                !memmem(response->body, response->body_bytes, "<script", 7));
        return;
    }
    require(false); /* a media type that nobody knows */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!apis[SMALL])
        start();
    char head[256] = "";
    const uint8_t *line = memchr(data, '\n', size);
    const size_t n_head = line ? (size_t)(line - data) : 0;
    if (n_head < sizeof head)
        memcpy(head, data, n_head);
    char *accept = strchr(head, ' ');
    if (accept)
        *accept++ = '\0';
    const size_t n_skip = line ? n_head + 1 : 0;
    const hs_request request = {
        .operation = HS_ANALYZE,
        .query = head,
        .accept = accept,
        .content_type = "application/json",
        .id = "fuzz",
        .body = (const char *)data + n_skip,
        .body_bytes = size - n_skip,
    };
    const int k = size && memmem(data, size, "figure", 6) ? FIGURES : SMALL;
    hs_response response;
    hs_api_handle(apis[k], &request, &response);
    require(response.status == 200 || (response.status >= 400 && response.status < 500) ||
            response.status == 501);
    if (strcmp(response.content_type, "application/x-npz") == 0)
        check_npz(&response);
    else if (strcmp(response.content_type, "application/x-safetensors") == 0)
        check_safetensors(&response);
    else if (strstr(response.content_type, "json"))
        check_json(&response);
    else
        check_figure(&response);
    hs_response_finish(&response);
    return 0;
}
