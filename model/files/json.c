/* json.c - parses JSON for model/. All JSON files of a checkpoint pass through here. */
#include "model/files/json.h"

#include <stdlib.h>

static hs_status parse(const hs_bytes *file, size_t flags, json_type type, const char *file_name,
                       json_t **ret_json, hs_error *err)
{
    json_error_t error = {0}; /* jansson leaves it alone when its first allocation fails */
    json_t *json = json_loadb(file->data, file->size, JSON_REJECT_DUPLICATES | flags, &error);
    /* jansson sometimes fails to allocate without setting an error code; then the text is empty */
    if (!json && (json_error_code(&error) == json_error_out_of_memory || !error.text[0]))
        return hs_fail(err, HS_NO_MEMORY, "%s: out of memory", file_name);
    if (!json)
        return hs_fail(err, HS_BAD_MODEL, "%s: not valid JSON at line %d, column %d: %s", file_name,
                       error.line, error.column, error.text);
    if (json_typeof(json) != type) {
        json_decref(json);
        return hs_fail(err, HS_BAD_MODEL, "%s: not a JSON %s", file_name,
                       type == JSON_OBJECT ? "object" : "list");
    }
    *ret_json = json;
    return HS_OK;
}

hs_status hs__json_parse(const hs_bytes *file, const char *file_name, json_t **ret_object, hs_error *err)
{
    return parse(file, 0, JSON_OBJECT, file_name, ret_object, err);
}

hs_status hs__json_parse_reals(const hs_bytes *file, const char *file_name, json_t **ret_object,
                               hs_error *err)
{
    return parse(file, JSON_DECODE_INT_AS_REAL, JSON_OBJECT, file_name, ret_object, err);
}

hs_status hs__json_parse_list(const hs_bytes *file, const char *file_name, json_t **ret_list, hs_error *err)
{
    return parse(file, 0, JSON_ARRAY, file_name, ret_list, err);
}

/* ---- memory ---- */

static _Thread_local size_t n_refusals;

static void *memory_take(size_t n_bytes)
{
    void *block = malloc(n_bytes);
    n_refusals += !block;
    return block;
}

/* Before main: jansson's functions must be set before it allocates anything. */
__attribute__((constructor)) static void memory_begin(void)
{
    json_set_alloc_funcs(memory_take, free);
}

size_t hs_json_refusals(void)
{
    return n_refusals;
}

json_t *hs_json_whole(json_t *value, size_t refusals)
{
    if (n_refusals == refusals)
        return value;
    json_decref(value);
    return NULL;
}

hs_status hs_json_write(const json_t *value, FILE *file, size_t digits, hs_error *err)
{
    const size_t refusals = n_refusals;
    if (json_dumpf(value, file, JSON_COMPACT | JSON_REAL_PRECISION(digits)) == 0)
        return HS_OK;
    return n_refusals != refusals ? hs_fail(err, HS_NO_MEMORY, "Out of memory.")
                                  : hs_fail(err, HS_IO, "the output cannot be written");
}

/* ---- optional members ---- */

hs_status hs__option_bool(const json_t *object, const char *file, const char *key, bool *value, hs_error *err)
{
    const json_t *member = json_object_get(object, key);
    if (!member || json_is_null(member))
        return HS_OK;
    if (!json_is_boolean(member))
        return hs_fail(err, HS_BAD_MODEL, "%s: '%s' must be true or false", file, key);
    *value = json_is_true(member);
    return HS_OK;
}

hs_status hs__option_text(const json_t *object, const char *file, const char *key, const char **value,
                          hs_error *err)
{
    const json_t *member = json_object_get(object, key);
    if (json_is_object(member))
        member = json_object_get(member, "content");
    if (!member || json_is_null(member))
        return HS_OK;
    if (!json_is_string(member))
        return hs_fail(err, HS_BAD_MODEL, "%s: '%s' must be a string", file, key);
    *value = json_string_value(member);
    return HS_OK;
}
