#include "tests/unit/api_fixture.h"

#include <check.h>
#include <string.h>

void api_open(const hs_api_options *options, api_fixture *ret_fixture)
{
    api_open_cores(options, 1, ret_fixture);
}

void api_open_cores(const hs_api_options *options, size_t n_cores, api_fixture *ret_fixture)
{
    hs_error err = {0};
    api_fixture f = {0};
    if (hs_model_open_embedded(&f.model, &err) || hs_runtime_create(n_cores, &f.runtime, &err) ||
        hs_engine_create(f.runtime, hs_model_architecture(f.model), &(hs_engine_options){0}, &f.engine,
                         &err) ||
        hs_api_create(options, &f.api, &err) ||
        hs_api_model_put(f.api, &(hs_api_model){.name = "mini", .model = f.model, .engine = f.engine}, &err))
        ck_abort_msg("%s", err.text);
    *ret_fixture = f;
}

void api_close(api_fixture *fixture)
{
    hs_api_destroy(fixture->api);
    hs_engine_destroy(fixture->engine);
    hs_runtime_destroy(fixture->runtime);
    hs_model_close(fixture->model);
}

hs_request api_request(hs_operation operation, const char *body)
{
    return (hs_request){
        .operation = operation,
        .content_type = "application/json",
        .id = "test",
        .body = body,
        .body_bytes = strlen(body),
    };
}

hs_response api_post(api_fixture *fixture, hs_operation operation, const char *body)
{
    hs_request request = api_request(operation, body);
    hs_response response;
    hs_api_handle(fixture->api, &request, &response);
    return response;
}

json_t *api_json(hs_response *response)
{
    json_error_t error;
    json_t *json =
        json_loadb(response->body, response->body_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!json)
        ck_abort_msg("%s at byte %d of %.*s", error.text, error.position, (int)response->body_bytes,
                     response->body);
    hs_response_finish(response);
    return json;
}
