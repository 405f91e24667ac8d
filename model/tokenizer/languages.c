/* languages.c - the languages of translation models whose texts begin or end with the token of a language:
 * mBART ("en_XX"), M2M100 ("__en__") and NLLB ("eng_Latn").
 *
 * The template has the token of one language, in whose place a text may have another one. */
#include "model/tokenizer/tokenizer_internal.h"

#include <stdio.h>
#include <string.h>

/* ---- tokenizer_config.json ---- */

/* Classes of transformers that make the template themselves, whatever tokenizer.json has. */
typedef struct language_class {
    const char *name; /* tokenizer_class, without "Fast" at its end */
    const char *source;
    bool first;  /* the language stands before the text */
    bool marked; /* its token is "__en__" */
} language_class;

/* The last one has no tokenizer.json in transformers; others made it. */
static const language_class classes[] = {{"NllbTokenizer", "eng_Latn", true, false},
                                         {"MBartTokenizer", "en_XX", false, false},
                                         {"MBart50Tokenizer", "en_XX", true, false},
                                         {"M2M100Tokenizer", "en", true, true}};

static const language_class *class_of(const hs__description *d)
{
    const char *name = json_string_value(json_object_get(d->config, "tokenizer_class"));
    for (size_t i = 0; name && i < sizeof classes / sizeof *classes; i++) {
        const size_t n = strlen(classes[i].name);
        if (strncmp(name, classes[i].name, n) == 0 && (!name[n] || strcmp(name + n, "Fast") == 0))
            return &classes[i];
    }
    return NULL;
}

/* Returns the template with the language before the texts, or behind their end. */
static json_t *template_of(bool first, const char *language, const char *end)
{
    json_t *const forms[2] = {json_array(), json_array()};
    for (size_t k = 0; k < 2; k++) {
        const char *const steps[] = {first ? language : NULL, "A", k ? "B" : NULL, end,
                                     first ? NULL : language};
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
            if (steps[i] &&
                json_array_append_new(forms[k], json_pack("{s:{s:s, s:i}}",
                                                          i == 1 || i == 2 ? "Sequence" : "SpecialToken",
                                                          "id", steps[i], "type_id", 0)))
                return json_decref(forms[0]), json_decref(forms[1]), NULL;
    }
    return json_pack("{s:s, s:o, s:o}", "type", "TemplateProcessing", "single", forms[0], "pair", forms[1]);
}

hs_status hs__languages_configure(const hs__description *d, hs_error *err)
{
    const language_class *class = class_of(d);
    const char *source = class ? class->source : NULL, *end = "</s>";
    char token[HS_LANGUAGE_BYTES + 4];
    bool legacy = false;
    if (!class)
        return HS_OK;
    hs_status st = hs__option_text(d->config, HS__TOKENIZER_CONFIG, "src_lang", &source, err);
    if (!st)
        st = hs__special_name(d, "eos_token", end, &end, err);
    if (!st && class == classes)
        st = hs__option_bool(d->config, HS__TOKENIZER_CONFIG, "legacy_behaviour", &legacy, err);
    if (!st && strlen(source) >= HS_LANGUAGE_BYTES)
        st = hs_fail(err, HS_BAD_MODEL, "%s: src_lang must be a language such as \"%s\"",
                     HS__TOKENIZER_CONFIG, class->source);
    snprintf(token, sizeof token, class->marked ? "__%.15s__" : "%.15s", source);
    if (!st &&
        json_object_set_new(d->json, "post_processor", template_of(class->first && !legacy, token, end)))
        st = hs_fail(err, HS_NO_MEMORY, "out of memory");
    return st;
}

/* ---- the vocabulary ---- */

#define SMALL "abcdefghijklmnopqrstuvwxyz"
#define LARGE "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* Returns true for the code of a language as a token: en_XX, eng_Latn or __en__. */
static bool is_code(const char *text)
{
    const bool marked = strncmp(text, "__", 2) == 0;
    const char *at = text + 2 * marked;
    const size_t n = strspn(at, SMALL);
    at += n;
    if (marked)
        return n >= 2 && n <= 3 && strcmp(at, "__") == 0;
    const size_t n_large = *at == '_' ? strspn(at + 1, LARGE) : 0;
    const char *rest = at + 1 + n_large;
    return (n == 2 && n_large == 2 && !*rest) ||
           (n == 3 && n_large == 1 && strspn(rest, SMALL) == 3 && !rest[3]);
}

/* Returns the template's step that is a language, or NULL. */
static const hs__template_step *language_step(const hs_tokenizer *tokenizer)
{
    const hs__template_form *form = &tokenizer->template->forms[0];
    for (size_t k = 0; k < form->n_steps; k++)
        if (hs__is_language(tokenizer, form->steps[k].id))
            return &form->steps[k];
    return NULL;
}

static int32_t find_language(const hs_tokenizer *tokenizer, const char *code, size_t n_bytes)
{
    const hs__vocabulary *vocabulary = &tokenizer->vocabulary;
    char marked[HS_LANGUAGE_BYTES + 4];
    int32_t id = hs__vocabulary_id(vocabulary, code, n_bytes);
    if (!hs__is_language(tokenizer, id) && n_bytes < HS_LANGUAGE_BYTES && !memchr(code, 0, n_bytes)) {
        const int n = snprintf(marked, sizeof marked, "__%.*s__", (int)n_bytes, code);
        id = hs__vocabulary_id(vocabulary, marked, (size_t)n);
    }
    return hs__is_language(tokenizer, id) ? id : -1;
}

hs_status hs__languages_find(hs_tokenizer *tokenizer, const hs__description *d, hs_error *err)
{
    const hs__vocabulary *vocabulary = &tokenizer->vocabulary;
    hs_languages *languages = &tokenizer->languages;
    const char *target = NULL;
    for (size_t id = 0; id < tokenizer->n_rows; id++)
        if (vocabulary->added.flags[id] & HS__ADDED_SPECIAL &&
            is_code(vocabulary->texts + vocabulary->text_at[id]))
            vocabulary->added.flags[id] |= HS__ADDED_LANGUAGE;
    const hs__template_step *step = language_step(tokenizer);
    *languages = (hs_languages){.source = -1, .target = -1};
    if (!step)
        return HS_OK;
    languages->source = step->id;
    languages->last = step > tokenizer->template->forms[0].steps;
    const hs_status st = hs__option_text(d->config, HS__TOKENIZER_CONFIG, "tgt_lang", &target, err);
    if (st || !target)
        return st;
    languages->target = find_language(tokenizer, target, strlen(target));
    return languages->target >= 0
               ? HS_OK
               : hs_fail(err, HS_BAD_MODEL,
                         HS__TOKENIZER_CONFIG ": tgt_lang '%.40s' is no special token of the vocabulary",
                         target);
}

const hs_languages *hs_tokenizer_languages(const hs_tokenizer *tokenizer)
{
    return &tokenizer->languages;
}

int32_t hs_tokenizer_language(const hs_tokenizer *tokenizer, const char *code, size_t n_bytes)
{
    return tokenizer->languages.source >= 0 ? find_language(tokenizer, code, n_bytes) : -1;
}

bool hs_tokenizer_language_code(const hs_tokenizer *tokenizer, int32_t id, char ret_code[HS_LANGUAGE_BYTES])
{
    if (tokenizer->languages.source < 0 || !hs__is_language(tokenizer, id))
        return false;
    const char *token = tokenizer->vocabulary.texts + tokenizer->vocabulary.text_at[id];
    const size_t n_mark = token[0] == '_' ? 2 : 0, n = strlen(token) - 2 * n_mark;
    snprintf(ret_code, HS_LANGUAGE_BYTES, "%.*s", (int)n, token + n_mark);
    return true;
}
