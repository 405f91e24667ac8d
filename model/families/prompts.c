/* prompts.c - checks the names and texts of prompts, and copies them into one block. */
#include "model/families/prompts.h"

#include "model/base/files.h"
#include "model/files/json.h"

#include <stdlib.h>
#include <string.h>

#define PROMPTS_FILE "config_sentence_transformers.json"

/* Returns the text of a prompt, or NULL if it is too long or no text. */
static const char *text_of(const json_t *value)
{
    if (json_is_null(value))
        return "";
    return json_is_string(value) && json_string_length(value) <= HS_PROMPT_TEXT_BYTES_MAX &&
                   !memchr(json_string_value(value), '\0', json_string_length(value))
               ? json_string_value(value)
               : NULL;
}

/* Refuses prompts of the wrong type. Adds the bytes of their block to *n_bytes. */
static hs_status check(json_t *prompts, size_t *n_bytes, hs_error *err)
{
    const char *name;
    json_t *value;
    if (!json_is_object(prompts) || json_object_size(prompts) > HS_PROMPTS_MAX)
        return hs_fail(err, HS_BAD_MODEL,
                       PROMPTS_FILE ": prompts must be an object with at most %d texts by name",
                       HS_PROMPTS_MAX);
    json_object_foreach(prompts, name, value)
    {
        const size_t n_name = strlen(name);
        const char *text = text_of(value);
        if (n_name < 1 || n_name > HS_PROMPT_NAME_BYTES_MAX)
            return hs_fail(err, HS_BAD_MODEL,
                           PROMPTS_FILE ": a prompt's name has %zu bytes; allowed are 1 to %d", n_name,
                           HS_PROMPT_NAME_BYTES_MAX);
        if (!text)
            return hs_fail(err, HS_BAD_MODEL,
                           PROMPTS_FILE ": the prompt %s must be a string of at most %d bytes without NUL",
                           name, HS_PROMPT_TEXT_BYTES_MAX);
        *n_bytes += sizeof(hs_prompt) + n_name + 1 + strlen(text) + 1;
    }
    return HS_OK;
}

/* Copies a string to *at and moves *at behind it. */
static const char *put(char **at, const char *text)
{
    const size_t n = strlen(text) + 1;
    char *copy = memcpy(*at, text, n);
    *at += n;
    return copy;
}

/* Copies the prompts, and finds the default one by its name, which may be NULL. */
static hs_status copy(json_t *prompts, size_t n_bytes, const char *default_name, hs_sentence_head *head,
                      hs_error *err)
{
    const size_t n = json_object_size(prompts);
    hs_prompt *block = malloc(n_bytes);
    if (!block)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    char *at = (char *)(block + n);
    size_t i = 0;
    const char *name;
    json_t *value;
    head->prompts = block;
    head->n_prompts = head->default_prompt = n;
    json_object_foreach(prompts, name, value)
    {
        if (default_name && strcmp(name, default_name) == 0)
            head->default_prompt = i;
        block[i].name = put(&at, name);
        block[i++].text = put(&at, text_of(value));
    }
    return HS_OK;
}

/* Refuses a default that is given and not among the prompts. */
static hs_status check_default(const json_t *value, const hs_sentence_head *head, hs_error *err)
{
    const char *name = json_string_value(value);
    if (!value || json_is_null(value) || head->default_prompt < head->n_prompts)
        return HS_OK;
    return hs_fail(err, HS_BAD_MODEL,
                   PROMPTS_FILE ": default_prompt_name is %.200s; it must be one of the prompts",
                   name ? name : "no string");
}

static hs_status read_keys(const json_t *keys, hs_sentence_head *head, hs_error *err)
{
    hs_sentence_head found = *head;
    json_t *prompts = json_object_get(keys, "prompts");
    const json_t *default_name = json_object_get(keys, "default_prompt_name");
    size_t n_bytes = 0;
    hs_status st = HS_OK;
    if (prompts && !json_is_null(prompts))
        st = check(prompts, &n_bytes, err);
    if (!st && n_bytes > 0)
        st = copy(prompts, n_bytes, json_string_value(default_name), &found, err);
    if (!st)
        st = check_default(default_name, &found, err);
    if (!st)
        *head = found;
    else
        free(found.prompts);
    return st;
}

hs_status hs__prompts_parse(const hs_bytes *file, hs_sentence_head *head, hs_error *err)
{
    json_t *keys = NULL;
    hs_status st = hs__json_parse(file, PROMPTS_FILE, &keys, err);
    if (!st)
        st = read_keys(keys, head, err);
    json_decref(keys);
    return st;
}

hs_status hs__prompts_open(const char *dir, hs_sentence_head *head, hs_error *err)
{
    hs_bytes file = {0};
    hs_status st = hs__file_read(dir, PROMPTS_FILE, true, &file, err);
    if (st || !file.data)
        return st;
    st = hs__prompts_parse(&file, head, err);
    free((void *)file.data);
    return st;
}
