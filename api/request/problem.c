/* problem.c - writes refusals as problem+json. A static body serves when memory is short. */
#include "api/request/request.h"

#include "api/formats/json_text.h"
#include "model/base/utf8.h"

#include <stdarg.h>
#include <stdio.h>

int hs__refuse(hs__problem *problem, int status, const char *pointer, const char *format, ...)
{
    problem->status = status;
    problem->has_pointer = pointer != NULL;
    snprintf(problem->pointer, sizeof problem->pointer, "%s", pointer ? pointer : "");
    va_list args;
    va_start(args, format);
    vsnprintf(problem->detail, sizeof problem->detail, format, args);
    va_end(args);
    return status;
}

int hs__refuse_value(hs__problem *problem, const char *pointer, const json_t *value, const char *must)
{
    char is[128];
    switch (json_typeof(value)) {
    case JSON_ARRAY:
        snprintf(is, sizeof is, "a list of %zu elements", json_array_size(value));
        break;
    case JSON_REAL:
    case JSON_INTEGER:
        snprintf(is, sizeof is, "%.17g", json_number_value(value));
        break;
    case JSON_STRING:
        snprintf(is, sizeof is, "\"%.*s\"", hs__clip(json_string_value(value), json_string_length(value)),
                 json_string_value(value));
        break;
    default:
        snprintf(is, sizeof is, "%s",
                 json_is_object(value) ? "an object"
                 : json_is_null(value) ? "null"
                 : json_is_true(value) ? "true"
                                       : "false");
    }
    return hs__refuse(problem, 422, pointer, "%s is %s; it must be %s", pointer + 1, is, must);
}

int hs__refuse_memory(hs__problem *problem, const char *text)
{
    problem->no_memory = true;
    return hs__refuse(problem, 503, NULL, "%s: the server is short of memory, so send it again later", text);
}

static int http_status(hs_status status)
{
    switch (status) {
    case HS_TOO_LARGE:
    case HS_INVALID:
        return 422;
    case HS_UNSUPPORTED:
        return 501;
    case HS_CANCELLED:
        return 504;
    default:
        return 500;
    }
}

int hs__refuse_error(hs__problem *problem, const hs_error *err)
{
    return err->status == HS_NO_MEMORY ? hs__refuse_memory(problem, err->text)
                                       : hs__refuse(problem, http_status(err->status), NULL, "%s", err->text);
}

int hs__clip(const char *text, size_t n_bytes)
{
    enum { CLIPPED_BYTES = 64 };
    return (int)(n_bytes <= CLIPPED_BYTES ? n_bytes : hs_utf8_whole(text, CLIPPED_BYTES));
}

static const char *title(int status)
{
    switch (status) {
    case 400:
        return "Bad Request";
    case 401:
        return "Unauthorized";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 406:
        return "Not Acceptable";
    case 408:
        return "Request Timeout";
    case 409:
        return "Conflict";
    case 411:
        return "Length Required";
    case 413:
        return "Content Too Large";
    case 414:
        return "URI Too Long";
    case 415:
        return "Unsupported Media Type";
    case 422:
        return "Unprocessable Content";
    case 431:
        return "Request Header Fields Too Large";
    case 500:
        return "Internal Server Error";
    case 501:
        return "Not Implemented";
    case 503:
        return "Service Unavailable";
    case 504:
        return "Gateway Timeout";
    case 507:
        return "Insufficient Storage";
    default:
        return status < 500 ? "Request Refused" : "Server Error";
    }
}

static void write_member(hs_buffer *bytes, const char *name, const char *text)
{
    hs_buffer_text(bytes, name);
    hs__json_string(bytes, text, strlen(text));
}

void hs__problem_write(const hs__problem *problem, const char *request_id, hs_response *ret_response)
{
    static char no_memory[] = "{\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,"
                              "\"detail\":\"the server is short of memory, so send it again later\"}";
    hs_buffer body = {0};
    write_member(&body, "{\"type\":\"about:blank\",\"title\":", title(problem->status));
    hs_buffer_text(&body, ",\"status\":");
    hs__json_integer(&body, problem->status);
    write_member(&body, ",\"detail\":", problem->detail);
    if (problem->request_line) {
        hs_buffer_text(&body, ",\"line\":");
        hs__json_integer(&body, (int64_t)problem->request_line);
    }
    if (problem->has_pointer)
        write_member(&body, ",\"pointer\":", problem->pointer);
    if (problem->line) {
        hs_buffer_text(&body, ",\"position\":{\"line\":");
        hs__json_integer(&body, (int64_t)problem->line);
        hs_buffer_text(&body, ",\"column\":");
        hs__json_integer(&body, (int64_t)problem->column);
        hs_buffer_text(&body, ",\"byte\":");
        hs__json_integer(&body, (int64_t)problem->byte);
        hs_buffer_text(&body, "}");
    }
    if (request_id && problem->status >= 500)
        write_member(&body, ",\"request_id\":", request_id);
    hs_buffer_text(&body, "}");
    ret_response->status = body.failed ? 503 : problem->status;
    ret_response->content_type = "application/problem+json";
    if (body.failed) {
        hs_buffer_finish(&body);
        ret_response->body = no_memory;
        ret_response->body_bytes = sizeof no_memory - 1;
        ret_response->body_static = true;
        return;
    }
    ret_response->body = body.data;
    ret_response->body_bytes = body.size;
}

void hs_response_problem(hs_response *ret_response, int status, const char *pointer, const char *format, ...)
{
    hs__problem problem = {.status = status, .has_pointer = pointer != NULL};
    snprintf(problem.pointer, sizeof problem.pointer, "%s", pointer ? pointer : "");
    va_list args;
    va_start(args, format);
    vsnprintf(problem.detail, sizeof problem.detail, format, args);
    va_end(args);
    *ret_response = (hs_response){0};
    hs__problem_write(&problem, NULL, ret_response);
}
