/* api_fixture.h - opens an api over the embedded model and sends it requests in one line. */
#pragma once

#include "api/api.h"

#include <jansson.h>

typedef struct api_fixture {
    hs_model *model;
    hs_runtime *runtime;
    hs_engine *engine;
    hs_api *api;
} api_fixture;

/* Aborts the test when it cannot be had. The model is named "mini". */
void api_open(const hs_api_options *options, api_fixture *ret_fixture);
/* With threads, which do not follow a fork: within a test. */
void api_open_cores(const hs_api_options *options, size_t n_cores, api_fixture *ret_fixture);
void api_close(api_fixture *fixture);

/* A JSON request as a client would send it. body is NUL-terminated. */
hs_request api_request(hs_operation operation, const char *body);

/* The caller finishes the response. */
hs_response api_post(api_fixture *fixture, hs_operation operation, const char *body);

/* The body as JSON, which it must be; finishes the response. The caller releases the result. */
json_t *api_json(hs_response *response);
