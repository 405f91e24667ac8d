/* normalizer_replace.c - Replace: one text by another wherever it stands, or runs of spaces. Of the regular
 * expressions that a pattern may be, only the one that published tokenizers have is known: " {2,}". */
#include "model/tokenizer/part_options.h"
#include "model/tokenizer/parts.h"

#include <stdlib.h>

#define TEXT_BYTES_MAX 64

typedef struct replace {
    hs__part part;
    char pattern[TEXT_BYTES_MAX]; /* empty: two spaces or more */
    char content[TEXT_BYTES_MAX];
} replace;

static hs_status copy(const char *text, const char *key, char ret[TEXT_BYTES_MAX], hs_error *err)
{
    if (!text || strlen(text) >= TEXT_BYTES_MAX)
        return hs_fail(err, HS_BAD_MODEL,
                       "tokenizer.json: Replace: '%s' must be a string of less than %d bytes", key,
                       TEXT_BYTES_MAX);
    memcpy(ret, text, strlen(text) + 1);
    return HS_OK;
}

static hs_status read_pattern(const json_t *pattern, replace *self, hs_error *err)
{
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    if (regex && strcmp(regex, " {2,}") == 0)
        return HS_OK;
    if (regex)
        return hs_fail(err, HS_BAD_MODEL,
                       "tokenizer.json: Replace has the regular expression '%.64s'; supported: ' {2,}'",
                       regex);
    const char *text = json_string_value(json_object_get(pattern, "String"));
    if (text && !*text)
        return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: Replace: 'pattern' is empty");
    return copy(text, "pattern", self->pattern, err);
}

static hs_status create(const json_t *options, hs__part **ret_part, hs_error *err)
{
    replace made = {.part.type = &hs__replace};
    hs_status st = read_pattern(json_object_get(options, "pattern"), &made, err);
    if (!st)
        st = copy(json_string_value(json_object_get(options, "content")), "content", made.content, err);
    if (st)
        return st;
    replace *self = malloc(sizeof *self);
    if (!self)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    *self = made;
    *ret_part = &self->part;
    return HS_OK;
}

static void destroy(hs__part *part)
{
    free(part);
}

/* The length of the match at `at`, 0 when there is none. */
static size_t match(const replace *self, const unsigned char *at, const unsigned char *end)
{
    size_t n = strlen(self->pattern);
    if (n > 0)
        return (size_t)(end - at) >= n && memcmp(at, self->pattern, n) == 0 ? n : 0;
    while (at + n < end && at[n] == ' ')
        n++;
    return n >= 2 ? n : 0;
}

static bool put_content(const replace *self, hs__range source, hs__aligned_text *text)
{
    bool ok = true;
    for (const unsigned char *at = (const unsigned char *)self->content; *at && ok;)
        ok = hs__aligned_text_put(text, hs_utf8_next(&at), source);
    return ok;
}

/* What is put in stands for the last character of what it replaces, as in the oracle. */
static bool normalize(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
{
    const replace *self = (const replace *)part;
    const unsigned char *end = view->bytes + view->n_bytes;
    hs__range source = {0};
    uint32_t index = view->first;
    bool ok = true;
    for (const unsigned char *at = view->bytes; at < end && ok;) {
        const size_t n = match(self, at, end);
        if (n == 0) {
            source = hs__text_view_source(view, at, index++);
            ok = hs__aligned_text_put(ret_text, hs_utf8_next(&at), source);
            continue;
        }
        for (const unsigned char *stop = at + n; at < stop; (void)hs_utf8_next(&at))
            source = hs__text_view_source(view, at, index++);
        ok = put_content(self, source, ret_text);
    }
    return ok;
}

const hs__part_type hs__replace = {
    .stage = HS__NORMALIZER, .name = "Replace", .create = create, .destroy = destroy, .normalize = normalize};
