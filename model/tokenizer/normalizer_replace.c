/* normalizer_replace.c - Replace: replaces every occurrence of a text, or of a regular expression. Only the
 * expressions of published tokenizers are supported: " {2,}", and that of transformers 5 for DeBERTa. */
#include "model/tokenizer/tokenizer_internal.h"

#include "model/tokenizer/unicode.h"

#define TEXT_BYTES_MAX 64

#define SPACES       " {2,}"
#define WHITE_SPACES "\\s{2,}|[\\n\\r\\t]"

typedef struct replace {
    hs__part part;
    size_t (*match)(const struct replace *self, const unsigned char *at, const unsigned char *end);
    char pattern[TEXT_BYTES_MAX]; /* for match_text */
    char content[TEXT_BYTES_MAX];
} replace;

/* Returns the length of the match at `at`, or 0. */
static size_t match_text(const replace *self, const unsigned char *at, const unsigned char *end)
{
    const size_t n = strlen(self->pattern);
    return (size_t)(end - at) >= n && memcmp(at, self->pattern, n) == 0 ? n : 0;
}

static size_t match_spaces(const replace *self, const unsigned char *at, const unsigned char *end)
{
    (void)self;
    size_t n = 0;
    while (at + n < end && at[n] == ' ')
        n++;
    return n >= 2 ? n : 0;
}

/* Matches two or more characters of white space, or one tab or line end. */
static size_t match_white_spaces(const replace *self, const unsigned char *at, const unsigned char *end)
{
    (void)self;
    const unsigned char *stop = at, *next = at;
    size_t n = 0;
    while (next < end && hs__unicode_class(hs_utf8_next(&next)) & HS__SPACE) {
        stop = next;
        n++;
    }
    const bool alone = n == 1 && (*at == '\n' || *at == '\r' || *at == '\t');
    return n >= 2 || alone ? (size_t)(stop - at) : 0;
}

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
    if (regex && strcmp(regex, SPACES) != 0 && strcmp(regex, WHITE_SPACES) != 0)
        return hs_fail(err, HS_BAD_MODEL,
                       "tokenizer.json: Replace has the regular expression '%.64s'; supported: '" SPACES
                       "', '" WHITE_SPACES "'",
                       regex);
    self->match = !regex ? match_text : strcmp(regex, SPACES) == 0 ? match_spaces : match_white_spaces;
    if (regex)
        return HS_OK;
    const char *text = json_string_value(json_object_get(pattern, "String"));
    if (text && !*text)
        return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: Replace: 'pattern' is empty");
    return copy(text, "pattern", self->pattern, err);
}

static hs_status configure(hs__part *part, const json_t *options, hs_error *err)
{
    replace *self = (replace *)part;
    hs_status st = read_pattern(json_object_get(options, "pattern"), self, err);
    if (!st)
        st = copy(json_string_value(json_object_get(options, "content")), "content", self->content, err);
    return st;
}

static bool put_content(const replace *self, hs__range source, hs__aligned_text *text)
{
    bool ok = true;
    for (const unsigned char *at = (const unsigned char *)self->content; *at && ok;)
        ok = hs__aligned_text_put(text, hs_utf8_next(&at), source);
    return ok;
}

/* Replaces all matches. As in the oracle, the replacement's source is the last character of the match. */
static bool normalize(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
{
    const replace *self = (const replace *)part;
    const unsigned char *end = view->bytes + view->n_bytes;
    hs__range source = {0};
    uint32_t index = view->first;
    bool ok = true;
    for (const unsigned char *at = view->bytes; at < end && ok;) {
        const size_t n = self->match(self, at, end);
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

const hs__part_type hs__replace = {.stage = HS__NORMALIZER,
                                   .name = "Replace",
                                   .size = sizeof(replace),
                                   .configure = configure,
                                   .normalize = normalize};
