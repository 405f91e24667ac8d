/* parts.c - the parts there are. A file's object names one of its stage; any other is refused by name. */
#include "model/tokenizer/parts.h"

#include <stdio.h>

/* clang-format off */
static const hs__part_type *const types[] = {
    &hs__bert_normalizer,
    &hs__bert_pre_tokenizer,
    &hs__wordpiece,
    &hs__bert_processing,
    &hs__template_processing,
    NULL,
};
/* clang-format on */

static bool is_of(const hs__part_type *type, const json_t *options, const char *name)
{
    return name ? strcmp(type->name, name) == 0 : type->recognize && type->recognize(options);
}

static hs_status refuse(hs__stage stage, const char *name, hs_error *err)
{
    static const char *const keys[] = {"normalizer", "pre_tokenizer", "model.type", "post_processor"};
    char supported[256] = "";
    size_t used = 0;
    for (size_t i = 0; types[i] && used < sizeof supported; i++)
        if (types[i]->stage == stage)
            used += (size_t)snprintf(supported + used, sizeof supported - used, "%s%s", used ? ", " : "",
                                     types[i]->name);
    return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: %s is '%.64s'; supported: %s", keys[stage],
                   name ? name : "none", supported);
}

hs_status hs__part_create(hs__stage stage, const json_t *options, hs__part **ret_part, hs_error *err)
{
    const char *name = json_string_value(json_object_get(options, "type"));
    for (size_t i = 0; types[i]; i++)
        if (types[i]->stage == stage && is_of(types[i], options, name))
            return types[i]->create(options, ret_part, err);
    return refuse(stage, name, err);
}

void hs__part_destroy(hs__part *part)
{
    if (part)
        part->type->destroy(part);
}
