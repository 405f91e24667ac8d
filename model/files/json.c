/* json.c - parses JSON for model/. All JSON files of a checkpoint pass through here. */
#include "model/files/json.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* ---- memory ---- */

/* jansson 2.14 ignores that its buffer for a token could not grow: it goes on without the byte, and then
 * reads past the buffer (a string) or ends the program (a number). So once a parser was refused memory it
 * gets no more, and ends at the token's value. The buffer grows to powers of two; for these there is a
 * reserve. */
static _Thread_local size_t n_refusals;
static _Thread_local struct {
    bool is_parsing, is_short; /* it was refused memory */
    size_t n_used;
    alignas(max_align_t) char bytes[4096];
} reserve;

static void *reserve_take(size_t n_bytes)
{
    const bool may_be_buffer = n_bytes >= 32 && (n_bytes & (n_bytes - 1)) == 0;
    if (!reserve.is_parsing || !may_be_buffer || n_bytes > sizeof reserve.bytes - reserve.n_used) {
        reserve.n_used = sizeof reserve.bytes; /* nothing more: the token may lack a byte */
        return NULL;
    }
    void *block = reserve.bytes + reserve.n_used;
    reserve.n_used += n_bytes;
    return block;
}

static void *memory_take(size_t n_bytes)
{
    void *block = reserve.is_parsing && reserve.is_short ? NULL : malloc(n_bytes);
    if (block)
        return block;
    n_refusals++;
    reserve.is_short = true;
    return reserve_take(n_bytes);
}

static void memory_give(void *block)
{
    const uintptr_t at = (uintptr_t)block, begin = (uintptr_t)reserve.bytes;
    if (at < begin || at >= begin + sizeof reserve.bytes)
        free(block);
}

/* Before main: jansson's functions must be set before it allocates anything. */
__attribute__((constructor)) static void memory_begin(void)
{
    json_set_alloc_funcs(memory_take, memory_give);
}

size_t hs_json_refusals(void)
{
    return n_refusals;
}

void *hs_json_memory(size_t n, size_t size)
{
    void *block = calloc(n, size);
    n_refusals += !block;
    return block;
}

json_t *hs_json_whole(json_t *value, size_t refusals)
{
    if (n_refusals == refusals)
        return value;
    json_decref(value);
    return NULL;
}

char *hs_json_text(const json_t *value, size_t flags)
{
    const size_t refusals = hs_json_refusals();
    char *text = json_dumps(value, flags);
    if (hs_json_refusals() == refusals)
        return text;
    free(text);
    return NULL;
}

hs_status hs_json_load(const char *bytes, size_t n_bytes, size_t flags, json_t **ret_json,
                       json_error_t *ret_error)
{
    const size_t refusals = n_refusals;
    reserve.is_parsing = true;
    reserve.is_short = false;
    reserve.n_used = 0;
    json_t *json = json_loadb(bytes, n_bytes, flags, ret_error);
    *ret_json = hs_json_whole(json, refusals);
    reserve.is_parsing = false;
    return n_refusals != refusals ? HS_NO_MEMORY : json ? HS_OK : HS_INVALID;
}

hs_status hs_json_write(const json_t *value, FILE *file, size_t digits, hs_error *err)
{
    const size_t refusals = n_refusals;
    if (json_dumpf(value, file, JSON_COMPACT | JSON_REAL_PRECISION(digits)) == 0)
        return HS_OK;
    return n_refusals != refusals ? hs_fail(err, HS_NO_MEMORY, "Out of memory.")
                                  : hs_fail(err, HS_IO, "the output cannot be written");
}

/* ---- files ---- */

static hs_status parse(const hs_bytes *file, size_t flags, json_type type, const char *file_name,
                       json_t **ret_json, hs_error *err)
{
    json_error_t error = {0};
    json_t *json;
    const hs_status st =
        hs_json_load((const char *)file->data, file->size, JSON_REJECT_DUPLICATES | flags, &json, &error);
    if (st == HS_NO_MEMORY)
        return hs_fail(err, HS_NO_MEMORY, "%s: out of memory", file_name);
    if (st)
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
