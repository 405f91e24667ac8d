/* part_options.c - reads options. A member is absent, null, or of the required type; anything else is
 * refused. */
#include "model/tokenizer/part_options.h"

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
