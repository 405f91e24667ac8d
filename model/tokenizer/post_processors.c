/* post_processors.c - TemplateProcessing, BertProcessing and RobertaProcessing: put special tokens
 * around the texts.
 *
 * All three become the same steps. The latter two name their tokens, and their type implies the order. */
#include "model/tokenizer/tokenizer_internal.h"

#define FILE_NAME "tokenizer.json"

typedef struct template_processing {
    hs__part part;
    hs__template template;
    hs__trim trim;
    /* until bound */
    const char *names[2][HS__TEMPLATE_STEPS_MAX]; /* names of the steps' special tokens; NULL: a text */
    const json_t *special_tokens;                 /* the file's ids of special tokens, or NULL: */
    const json_t *cls, *sep;                      /* or ["[CLS]", 101] and ["[SEP]", 102], or NULL */
} template_processing;

static const hs__template *template_of(const hs__part *part)
{
    return &((const template_processing *)part)->template;
}

static hs__trim trim_of(const hs__part *part)
{
    return ((const template_processing *)part)->trim;
}

static void add_special(template_processing *self, size_t form, const char *name, uint8_t type)
{
    hs__template_form *f = &self->template.forms[form];
    const uint8_t text = f->n_steps && f->steps[f->n_steps - 1].text;
    self->names[form][f->n_steps] = name;
    f->steps[f->n_steps++] = (hs__template_step){.text = text, .type = type};
    f->n_special++;
}

static void add_text(template_processing *self, size_t form, uint8_t text, uint8_t type)
{
    hs__template_form *f = &self->template.forms[form];
    f->steps[f->n_steps++] = (hs__template_step){.id = -1, .text = text, .type = type};
}

/* Returns true if the pair has this name and another id. A pair without an id is ignored. */
static bool contradicts(const json_t *pair, const char *name, int32_t id)
{
    const json_t *number = json_array_get(pair, 1);
    const char *named = json_string_value(json_array_get(pair, 0));
    return number && named && strcmp(named, name) == 0 &&
           (!json_is_integer(number) || json_integer_value(number) != id);
}

/* Checks that the file gives a special token the same id as the vocabulary. Another id means another
 * tokenizer. */
static hs_status check_ids(const template_processing *self, const char *name, int32_t id, hs_error *err)
{
    const json_t *ids = json_object_get(json_object_get(self->special_tokens, name), "ids");
    const bool others =
        ids && (json_array_size(ids) != 1 || json_integer_value(json_array_get(ids, 0)) != id);
    if (others || contradicts(self->cls, name, id) || contradicts(self->sep, name, id))
        return hs_fail(err, HS_BAD_MODEL,
                       FILE_NAME ": post_processor: the special token '%.64s' must stand for its own id, %d",
                       name, id);
    return HS_OK;
}

static hs_status bind(hs__part *part, const hs__vocabulary *vocabulary, hs_error *err)
{
    template_processing *self = (template_processing *)part;
    hs__template *template = &self->template;
    hs_status st = HS_OK;
    for (size_t form = 0; form < 2; form++)
        for (size_t i = 0; !st && i < template->forms[form].n_steps; i++) {
            const char *name = self->names[form][i];
            int32_t *id = &template->forms[form].steps[i].id;
            if (name)
                st = hs__vocabulary_need(vocabulary, name, id, err);
            if (!st && name)
                st = check_ids(self, name, *id, err);
        }
    /* a step that is a text has id -1 */
    template->first = template->forms[0].steps[0].id;
    template->separator = template->forms[0].steps[template->forms[0].n_steps - 1].id;
    return st;
}

/* ---- BertProcessing, RobertaProcessing: "cls": ["[CLS]", 101], "sep": ["[SEP]", 102] ---- */

/* Reads the names and begins both forms with cls A sep. */
static hs_status read_first_text(template_processing *self, const json_t *options, const char **ret_sep,
                                 hs_error *err)
{
    self->cls = json_object_get(options, "cls");
    self->sep = json_object_get(options, "sep");
    const char *cls = json_string_value(json_array_get(self->cls, 0));
    const char *sep = *ret_sep = json_string_value(json_array_get(self->sep, 0));
    if (!cls || !sep)
        return hs_fail(err, HS_BAD_MODEL, FILE_NAME ": post_processor needs 'cls' and 'sep'");
    for (size_t form = 0; form < 2; form++) {
        add_special(self, form, cls, 0);
        add_text(self, form, 0, 0);
        add_special(self, form, sep, 0);
    }
    return HS_OK;
}

/* Creates [CLS] A [SEP], [CLS] A [SEP] B [SEP]. */
static hs_status bert_configure(hs__part *part, const json_t *options, hs_error *err)
{
    template_processing *self = (template_processing *)part;
    const char *sep;
    const hs_status st = read_first_text(self, options, &sep, err);
    if (st)
        return st;
    add_text(self, 1, 1, 1);
    add_special(self, 1, sep, 1);
    return HS_OK;
}

const hs__part_type hs__bert_processing = {.stage = HS__POST_PROCESSOR,
                                           .name = "BertProcessing",
                                           .size = sizeof(template_processing),
                                           .configure = bert_configure,
                                           .bind = bind,
                                           .template = template_of};

/* Creates <s> A </s>, <s> A </s> </s> B </s>; all of type 0. */
static hs_status roberta_configure(hs__part *part, const json_t *options, hs_error *err)
{
    template_processing *self = (template_processing *)part;
    const char *sep;
    self->trim = (hs__trim){true, true};
    hs_status st = read_first_text(self, options, &sep, err);
    if (!st)
        st = hs__option_bool(options, FILE_NAME, "trim_offsets", &self->trim.spaces, err);
    if (!st)
        st = hs__option_bool(options, FILE_NAME, "add_prefix_space", &self->trim.keeps_first, err);
    if (st)
        return st;
    add_special(self, 1, sep, 0);
    add_text(self, 1, 1, 0);
    add_special(self, 1, sep, 0);
    return HS_OK;
}

const hs__part_type hs__roberta_processing = {.stage = HS__POST_PROCESSOR,
                                              .name = "RobertaProcessing",
                                              .size = sizeof(template_processing),
                                              .configure = roberta_configure,
                                              .bind = bind,
                                              .template = template_of,
                                              .trim = trim_of};

/* ---- TemplateProcessing ---- */

/* Reads {"SpecialToken": {"id": "[CLS]", "type_id": 0}} or {"Sequence": {"id": "A", "type_id": 0}}. */
static bool read_step(template_processing *self, size_t form, const json_t *step)
{
    const json_t *special = json_object_get(step, "SpecialToken");
    const json_t *body = special ? special : json_object_get(step, "Sequence");
    const char *id = json_string_value(json_object_get(body, "id"));
    const json_t *type_id = json_object_get(body, "type_id");
    const json_int_t type = json_is_integer(type_id) ? json_integer_value(type_id) : -1;
    if (!id || type < 0 || type > 1)
        return false;
    if (special)
        add_special(self, form, id, (uint8_t)type);
    else if (strcmp(id, "A") == 0 || strcmp(id, "B") == 0)
        add_text(self, form, id[0] == 'B', (uint8_t)type);
    else
        return false;
    return true;
}

/* Reads a form: each text once and in order, special tokens anywhere. */
static bool read_form(template_processing *self, size_t form, const json_t *list)
{
    const size_t n = json_array_size(list);
    if (n > HS__TEMPLATE_STEPS_MAX)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!read_step(self, form, json_array_get(list, i)))
            return false;
    const hs__template_form *f = &self->template.forms[form];
    uint8_t n_texts = 0;
    for (size_t i = 0; i < n; i++)
        if (!self->names[form][i] && f->steps[i].text != n_texts++)
            return false;
    return n_texts == form + 1;
}

static hs_status template_configure(hs__part *part, const json_t *options, hs_error *err)
{
    template_processing *self = (template_processing *)part;
    self->special_tokens = json_object_get(options, "special_tokens");
    if (!read_form(self, 0, json_object_get(options, "single")) ||
        !read_form(self, 1, json_object_get(options, "pair")))
        return hs_fail(err, HS_BAD_MODEL,
                       FILE_NAME ": post_processor: a template must have each text once and in order, as in "
                                 "'[CLS] A [SEP] B [SEP]', at most %d steps, and types 0 and 1",
                       HS__TEMPLATE_STEPS_MAX);
    return HS_OK;
}

const hs__part_type hs__template_processing = {.stage = HS__POST_PROCESSOR,
                                               .name = "TemplateProcessing",
                                               .size = sizeof(template_processing),
                                               .configure = template_configure,
                                               .bind = bind,
                                               .template = template_of};

/* ---- ByteLevel ----
 *
 * ByteLevel as a post-processor: leaves white space out of the offsets of
 * tokens that include it. It adds no special tokens. */

typedef struct byte_level {
    hs__part part;
    hs__trim trim;
} byte_level;

static hs_status configure(hs__part *part, const json_t *options, hs_error *err)
{
    static const char file[] = "tokenizer.json";
    hs__trim *trim = &((byte_level *)part)->trim;
    *trim = (hs__trim){true, true};
    const hs_status st = hs__option_bool(options, file, "trim_offsets", &trim->spaces, err);
    return st ? st : hs__option_bool(options, file, "add_prefix_space", &trim->keeps_first, err);
}

static hs__trim trim_of_byte_level(const hs__part *part)
{
    return ((const byte_level *)part)->trim;
}

const hs__part_type hs__byte_level_post_processor = {.stage = HS__POST_PROCESSOR,
                                                     .name = "ByteLevel",
                                                     .size = sizeof(byte_level),
                                                     .configure = configure,
                                                     .trim = trim_of_byte_level};
