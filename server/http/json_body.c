/* json_body.c - checks the media type, the size, the syntax and the field, in this order. */
#include "server/http/json_body.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

json_t *hs__json_body_read(hs_exchange *x, const char *field, size_t bytes_max, const char *expected)
{
    const char *type = hs__header(x->mhd, MHD_HTTP_HEADER_CONTENT_TYPE);
    json_error_t error;
    if (!type || strncasecmp(type, "application/json", 16) != 0) {
        hs__exchange_refuse(x, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "The Content-Type must be application/json.");
        return NULL;
    }
    if (x->body_bytes > bytes_max) {
        hs__exchange_refuse(x, MHD_HTTP_CONTENT_TOO_LARGE, "The body has %zu bytes; at most %zu are allowed.",
                            x->body_bytes, bytes_max);
        return NULL;
    }
    json_t *body = json_loadb(x->body_bytes ? x->body : "", x->body_bytes, JSON_REJECT_DUPLICATES, &error);
    if (!body) {
        hs__exchange_refuse(x, MHD_HTTP_BAD_REQUEST, "The body is not JSON: %s", expected);
        return NULL;
    }
    const json_t *text = json_object_get(body, field);
    if (json_object_size(body) == 1 && json_is_string(text) &&
        strlen(json_string_value(text)) == json_string_length(text))
        return body;
    char pointer[64];
    snprintf(pointer, sizeof pointer, "/%s", field);
    hs__exchange_refuse_at(x, MHD_HTTP_UNPROCESSABLE_CONTENT, text ? pointer : "", "%s", expected);
    json_decref(body);
    return NULL;
}
