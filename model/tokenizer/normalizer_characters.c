/* normalizer_characters.c - normalizers that look at one character at a time, or at the ends of a text. */
#include "model/tokenizer/tokenizer_internal.h"

#include "model/tokenizer/unicode.h"

/* ---- Lowercase ---- */

static bool put_lower(hs__aligned_text *text, uint32_t code_point, hs__range source)
{
    return hs__aligned_text_put(text, hs__unicode_lower(code_point), source) &&
           (code_point != 0x130 || hs__aligned_text_put(text, 0x307, source));
}

static bool lowercase(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
{
    (void)part;
    return hs__text_view_map(view, put_lower, ret_text);
}

const hs__part_type hs__lowercase = {.stage = HS__NORMALIZER,
                                     .name = "Lowercase",
                                     .size = sizeof(hs__part),
                                     .cuts_at_punctuation = true,
                                     .normalize = lowercase};

/* ---- StripAccents: marks of every kind, not only those that BertNormalizer drops ---- */

static bool put_without_mark(hs__aligned_text *text, uint32_t code_point, hs__range source)
{
    return (hs__unicode_cluster(code_point) & HS__ANY_MARK) || hs__aligned_text_put(text, code_point, source);
}

static bool strip_accents(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
{
    (void)part;
    return hs__text_view_map(view, put_without_mark, ret_text);
}

const hs__part_type hs__strip_accents = {.stage = HS__NORMALIZER,
                                         .name = "StripAccents",
                                         .size = sizeof(hs__part),
                                         .cuts_at_punctuation = true,
                                         .normalize = strip_accents};

/* ---- Nmt: SentencePiece's own clean-up; controls are dropped, separators become spaces ---- */

static bool nmt_drops(uint32_t c)
{
    return (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
           c == 0x9F;
}

static bool nmt_spaces(uint32_t c)
{
    return c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
           c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}

static bool put_clean(hs__aligned_text *text, uint32_t code_point, hs__range source)
{
    return nmt_drops(code_point) ||
           hs__aligned_text_put(text, nmt_spaces(code_point) ? ' ' : code_point, source);
}

static bool clean(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
{
    (void)part;
    return hs__text_view_map(view, put_clean, ret_text);
}

const hs__part_type hs__nmt = {
    .stage = HS__NORMALIZER, .name = "Nmt", .size = sizeof(hs__part), .normalize = clean};

/* ---- Strip ----
 *
 * Removes white space at the start or the end. */

typedef struct strip {
    hs__part part;
    bool left, right;
} strip;

static hs_status configure_strip(hs__part *part, const json_t *options, hs_error *err)
{
    strip *self = (strip *)part;
    self->left = self->right = true;
    hs_status st = hs__option_bool(options, "tokenizer.json", "strip_left", &self->left, err);
    if (!st)
        st = hs__option_bool(options, "tokenizer.json", "strip_right", &self->right, err);
    return st;
}

/* Holds white space back until another character follows it. */
static bool normalize_strip(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
{
    const strip *self = (const strip *)part;
    const unsigned char *at = view->bytes;
    const size_t start = ret_text->n_bytes;
    size_t kept = start;
    bool ok = true;
    for (uint32_t index = view->first; at < view->bytes + view->n_bytes && ok; index++) {
        const hs__range source = hs__text_view_source(view, at, index);
        const uint32_t code_point = hs_utf8_next(&at);
        const bool space = hs__unicode_class(code_point) & HS__SPACE;
        if (space && self->left && ret_text->n_bytes == start)
            continue;
        ok = hs__aligned_text_put(ret_text, code_point, source);
        if (!space || !self->right)
            kept = ret_text->n_bytes;
    }
    ret_text->n_bytes = kept;
    return ok;
}

const hs__part_type hs__strip = {.stage = HS__NORMALIZER,
                                 .name = "Strip",
                                 .size = sizeof(strip),
                                 .configure = configure_strip,
                                 .normalize = normalize_strip};

/* ---- Prepend ----
 *
 * Puts a text before every text that is not empty. */

#define PREPEND_TEXT_BYTES_MAX 64

typedef struct prepend {
    hs__part part;
    char text[PREPEND_TEXT_BYTES_MAX]; /* NUL-terminated */
} prepend;

static hs_status configure_prepend(hs__part *part, const json_t *options, hs_error *err)
{
    const char *text = NULL;
    const hs_status st = hs__option_text(options, "tokenizer.json", "prepend", &text, err);
    if (st)
        return st;
    if (!text || strlen(text) >= PREPEND_TEXT_BYTES_MAX)
        return hs_fail(err, HS_BAD_MODEL,
                       "tokenizer.json: Prepend: 'prepend' must be a string of less than %d bytes",
                       PREPEND_TEXT_BYTES_MAX);
    memcpy(((prepend *)part)->text, text, strlen(text) + 1);
    return HS_OK;
}

/* Puts the text with the source of the first character, as the oracle does. */
static bool put_before(const prepend *self, const hs__text_view *view, hs__aligned_text *ret_text)
{
    const hs__range source = hs__text_view_source(view, view->bytes, view->first);
    bool ok = true;
    for (const unsigned char *at = (const unsigned char *)self->text; *at && ok;)
        ok = hs__aligned_text_put(ret_text, hs_utf8_next(&at), source);
    return ok;
}

static bool normalize_prepend(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
{
    return (!view->n_bytes || put_before((const prepend *)part, view, ret_text)) &&
           hs__text_view_map(view, hs__aligned_text_put, ret_text);
}

const hs__part_type hs__prepend = {.stage = HS__NORMALIZER,
                                   .name = "Prepend",
                                   .size = sizeof(prepend),
                                   .configure = configure_prepend,
                                   .normalize = normalize_prepend};

/* ---- Replace ----
 *
 * Replaces every occurrence of a text, or of a regular expression. Only the expressions of published
 * tokenizers are supported: " {2,}", and those of transformers 5 for DeBERTa and PEGASUS. */

#define REPLACE_TEXT_BYTES_MAX 64

#define SPACES       " {2,}"
#define WHITE_SPACES "\\s{2,}|[\\n\\r\\t]"
#define LINE_END     "\\n" /* a text, but for its spelling */

typedef struct replace {
    hs__part part;
    size_t (*match)(const struct replace *self, const unsigned char *at, const unsigned char *end);
    char pattern[REPLACE_TEXT_BYTES_MAX]; /* for match_text */
    char content[REPLACE_TEXT_BYTES_MAX];
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

static hs_status copy(const char *text, const char *key, char ret[REPLACE_TEXT_BYTES_MAX], hs_error *err)
{
    if (!text || strlen(text) >= REPLACE_TEXT_BYTES_MAX)
        return hs_fail(err, HS_BAD_MODEL,
                       "tokenizer.json: Replace: '%s' must be a string of less than %d bytes", key,
                       REPLACE_TEXT_BYTES_MAX);
    memcpy(ret, text, strlen(text) + 1);
    return HS_OK;
}

static hs_status read_pattern(const json_t *pattern, replace *self, hs_error *err)
{
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    self->match = match_text;
    if (regex && strcmp(regex, LINE_END) == 0)
        return copy("\n", "pattern", self->pattern, err);
    if (regex && strcmp(regex, SPACES) != 0 && strcmp(regex, WHITE_SPACES) != 0)
        return hs_fail(err, HS_BAD_MODEL,
                       "tokenizer.json: Replace has the regular expression '%.64s'; supported: '" SPACES
                       "', '" WHITE_SPACES "', '" LINE_END "'",
                       regex);
    self->match = !regex ? match_text : strcmp(regex, SPACES) == 0 ? match_spaces : match_white_spaces;
    if (regex)
        return HS_OK;
    const char *text = json_string_value(json_object_get(pattern, "String"));
    if (text && !*text)
        return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: Replace: 'pattern' is empty");
    return copy(text, "pattern", self->pattern, err);
}

static hs_status configure_replace(hs__part *part, const json_t *options, hs_error *err)
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
static bool normalize_replace(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
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
                                   .configure = configure_replace,
                                   .normalize = normalize_replace};
