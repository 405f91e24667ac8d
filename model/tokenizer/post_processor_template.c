/* post_processor_template.c - TemplateProcessing and BertProcessing: special tokens around the texts.
 *
 * Both come down to the same steps; BertProcessing names its two tokens and leaves the order to its name.
 * Only BERT's order is supported: the types of a pair tell the engine's texts apart. */
#include "model/tokenizer/parts.h"

#include <stdlib.h>

typedef struct template_processing {
    hs__part part;
    const char *first, *separator; /* until bound */
    hs__template template;
} template_processing;

static hs_status create(const hs__part_type *type, const char *first, const char *separator,
                        hs__part **ret_part, hs_error *err)
{
    template_processing *self = calloc(1, sizeof *self);
    if (!self)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    *self = (template_processing){.part.type = type, .first = first, .separator = separator};
    *ret_part = &self->part;
    return HS_OK;
}

static void destroy(hs__part *part)
{
    free(part);
}

static const hs__template *template_of(const hs__part *part)
{
    return &((const template_processing *)part)->template;
}

/* [CLS] A [SEP], [CLS] A [SEP] B [SEP] */
static hs_status bind(hs__part *part, const hs__vocabulary *vocabulary, hs_error *err)
{
    template_processing *self = (template_processing *)part;
    hs__template *template = &self->template;
    hs_status st = hs__vocabulary_need(vocabulary, self->first, &template->first, err);
    if (!st)
        st = hs__vocabulary_need(vocabulary, self->separator, &template->separator, err);
    self->first = self->separator = NULL;
    if (st)
        return st;
    const hs__template_step steps[] = {
        {template->first, 0, 0},     {-1, 0, 0}, {template->separator, 0, 0}, {-1, 1, 1},
        {template->separator, 0, 1},
    };
    for (size_t form = 0; form < 2; form++) {
        template->forms[form] = (hs__template_form){.n_steps = 3 + 2 * form, .n_special = 2 + form};
        memcpy(template->forms[form].steps, steps, (3 + 2 * form) * sizeof *steps);
    }
    return HS_OK;
}

/* ---- BertProcessing: "cls": ["[CLS]", 101], "sep": ["[SEP]", 102] ---- */

static hs_status bert_create(const json_t *options, hs__part **ret_part, hs_error *err)
{
    const char *cls = json_string_value(json_array_get(json_object_get(options, "cls"), 0));
    const char *sep = json_string_value(json_array_get(json_object_get(options, "sep"), 0));
    if (!cls || !sep)
        return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: post_processor needs 'cls' and 'sep'");
    return create(&hs__bert_processing, cls, sep, ret_part, err);
}

const hs__part_type hs__bert_processing = {.stage = HS__POST_PROCESSOR,
                                           .name = "BertProcessing",
                                           .create = bert_create,
                                           .bind = bind,
                                           .destroy = destroy,
                                           .template = template_of};

/* ---- TemplateProcessing ---- */

/* One step: {"SpecialToken": {"id": "[CLS]", "type_id": 0}} or {"Sequence": {"id": "A", ...}}. With *text
 * NULL, any special token will do and is told; otherwise it must be this one. */
static bool step_is(const json_t *step, const char *kind, const char **text, json_int_t type)
{
    const json_t *body = json_object_get(step, kind);
    const char *id = json_string_value(json_object_get(body, "id"));
    const json_t *type_id = json_object_get(body, "type_id");
    if (!id || !json_is_integer(type_id) || json_integer_value(type_id) != type)
        return false;
    if (!*text)
        *text = id;
    return strcmp(*text, id) == 0;
}

static hs_status template_create(const json_t *options, hs__part **ret_part, hs_error *err)
{
    const json_t *single = json_object_get(options, "single");
    const json_t *pair = json_object_get(options, "pair");
    const char *cls = NULL;
    const char *sep = NULL;
    const char *first = "A";
    const char *second = "B";
    const bool known = json_array_size(single) == 3 && json_array_size(pair) == 5 &&
                       step_is(json_array_get(single, 0), "SpecialToken", &cls, 0) &&
                       step_is(json_array_get(single, 1), "Sequence", &first, 0) &&
                       step_is(json_array_get(single, 2), "SpecialToken", &sep, 0) &&
                       step_is(json_array_get(pair, 0), "SpecialToken", &cls, 0) &&
                       step_is(json_array_get(pair, 1), "Sequence", &first, 0) &&
                       step_is(json_array_get(pair, 2), "SpecialToken", &sep, 0) &&
                       step_is(json_array_get(pair, 3), "Sequence", &second, 1) &&
                       step_is(json_array_get(pair, 4), "SpecialToken", &sep, 1);
    if (!known)
        return hs_fail(
            err, HS_BAD_MODEL,
            "tokenizer.json: post_processor: only '[CLS] A [SEP]' and '[CLS] A [SEP] B [SEP]' with "
            "types 0 0 0 and 0 0 0 1 1 are supported");
    return create(&hs__template_processing, cls, sep, ret_part, err);
}

const hs__part_type hs__template_processing = {.stage = HS__POST_PROCESSOR,
                                               .name = "TemplateProcessing",
                                               .create = template_create,
                                               .bind = bind,
                                               .destroy = destroy,
                                               .template = template_of};
