/* pre_tokenizer_split.c - Split: cuts words at the matches of a text or a regular expression. */
#include "model/tokenizer/tokenizer_internal.h"

#include <stdlib.h>

/* ---- the pattern ----
 *
 * Searches for a text, or reads a published expression with the scanner that knows it. */

#define TEXT_BYTES_MAX 64

typedef struct pattern {
    char text[TEXT_BYTES_MAX]; /* NUL-terminated; empty: the scanner's words */
    size_t n_bytes;
    hs__word_scanner words;
} pattern;

/* A search in bytes [from, end) of a text. A zeroed struct with these set starts it. */
typedef struct pattern_search {
    const pattern *pattern;
    const unsigned char *bytes;
    size_t from, end;
} pattern_search;

static hs_status read_text(const char *text, pattern *made, hs_error *err)
{
    made->n_bytes = strlen(text);
    if (made->n_bytes == 0 || made->n_bytes >= TEXT_BYTES_MAX)
        return hs_fail(err, HS_BAD_MODEL,
                       "tokenizer.json: Split: the pattern's String has %zu bytes; it must have 1 to %d",
                       made->n_bytes, TEXT_BYTES_MAX - 1);
    memcpy(made->text, text, made->n_bytes + 1);
    return HS_OK;
}

static hs_status read_expression(const char *expression, pattern *made, hs_error *err)
{
    hs__word_rules rules;
    if (!hs__word_rules_find(expression, &rules))
        return hs_fail(
            err, HS_BAD_MODEL,
            "tokenizer.json: Split has the regular expression '%.200s'; supported: those of GPT-2, "
            "Llama 3 and Qwen",
            expression);
    made->words = hs__word_scanner_create(rules);
    return HS_OK;
}

/* Creates a pattern from {"String": "..."} or {"Regex": "..."}. Fails with HS_BAD_MODEL if it is
 * neither, empty or not supported. */
static hs_status create_pattern(const json_t *json, pattern **ret_pattern, hs_error *err)
{
    pattern made = {.n_bytes = 0};
    const char *text = json_string_value(json_object_get(json, "String"));
    const char *expression = json_string_value(json_object_get(json, "Regex"));
    if (json_object_size(json) != 1 || (!text && !expression))
        return hs_fail(err, HS_BAD_MODEL,
                       "tokenizer.json: Split: 'pattern' must be {\"String\": ...} or {\"Regex\": ...}");
    const hs_status st = text ? read_text(text, &made, err) : read_expression(expression, &made, err);
    if (st)
        return st;
    *ret_pattern = malloc(sizeof **ret_pattern);
    if (!*ret_pattern)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    **ret_pattern = made;
    return HS_OK;
}

static void destroy_pattern(pattern *made)
{
    free(made);
}

/* Returns the start of the text's next occurrence, or NULL. */
static const unsigned char *find_text(const pattern *p, const unsigned char *at, const unsigned char *end)
{
    while ((size_t)(end - at) >= p->n_bytes) {
        const unsigned char *hit = memchr(at, p->text[0], (size_t)(end - at) - p->n_bytes + 1);
        if (!hit || memcmp(hit, p->text, p->n_bytes) == 0)
            return hit;
        at = hit + 1;
    }
    return NULL;
}

/* Finds the next match, which does not overlap those before it. Returns false at the end. */
static bool find_next(pattern_search *search, hs__span *ret_match)
{
    const pattern *p = search->pattern;
    const unsigned char *from = search->bytes + search->from;
    const unsigned char *end = search->bytes + search->end;
    if (from == end)
        return false;
    const unsigned char *start = from;
    const unsigned char *stop = NULL;
    if (!p->n_bytes) {
        stop = hs__word_end(&p->words, from, end, false);
    } else {
        start = find_text(p, from, end);
        if (!start)
            return false;
        stop = start + p->n_bytes;
    }
    *ret_match = (hs__span){(size_t)(start - search->bytes), (size_t)(stop - search->bytes)};
    search->from = ret_match->end;
    return true;
}

/* ---- the part ---- */

typedef struct split_part {
    hs__part part;
    pattern *pattern;
    hs__cut_behavior behavior;
    bool invert;
} split_part;

static hs_status read_behavior(const json_t *options, hs__cut_behavior *ret_behavior, hs_error *err)
{
    static const char *const names[HS__CUT_BEHAVIORS] = {[HS__CUT_REMOVED] = "Removed",
                                                         [HS__CUT_ISOLATED] = "Isolated",
                                                         [HS__CUT_WITH_PREVIOUS] = "MergedWithPrevious",
                                                         [HS__CUT_WITH_NEXT] = "MergedWithNext",
                                                         [HS__CUT_CONTIGUOUS] = "Contiguous"};
    const char *name = NULL;
    const hs_status st = hs__option_text(options, "tokenizer.json", "behavior", &name, err);
    for (size_t i = 0; !st && name && i < HS__CUT_BEHAVIORS; i++)
        if (strcmp(name, names[i]) == 0) {
            *ret_behavior = (hs__cut_behavior)i;
            return HS_OK;
        }
    return st ? st
              : hs_fail(err, HS_BAD_MODEL,
                        "tokenizer.json: Split has the behavior '%.64s'; supported: Removed, Isolated, "
                        "MergedWithPrevious, MergedWithNext, Contiguous",
                        name ? name : "none");
}

static hs_status configure(hs__part *part, const json_t *options, hs_error *err)
{
    split_part *self = (split_part *)part;
    hs_status st = read_behavior(options, &self->behavior, err);
    if (!st)
        st = hs__option_bool(options, "tokenizer.json", "invert", &self->invert, err);
    return st ? st : create_pattern(json_object_get(options, "pattern"), &self->pattern, err);
}

static void finish(hs__part *part)
{
    destroy_pattern(((split_part *)part)->pattern);
}

static bool split(const hs__part *part, const hs__aligned_text *from, hs__span word, hs__aligned_text *to,
                  hs__spans *words)
{
    (void)to;
    const split_part *self = (const split_part *)part;
    hs__cutter cutter = hs__cutter_start(self->behavior, self->invert, words);
    pattern_search search = {self->pattern, from->bytes, word.start, word.end};
    size_t at = word.start;
    hs__span match;
    while (find_next(&search, &match)) {
        if (match.start > at)
            hs__cutter_put(&cutter, at, match.start, false);
        hs__cutter_put(&cutter, match.start, match.end, true);
        at = match.end;
    }
    if (at < word.end)
        hs__cutter_put(&cutter, at, word.end, false);
    return hs__cutter_finish(&cutter);
}

const hs__part_type hs__split_pre_tokenizer = {.stage = HS__PRE_TOKENIZER,
                                               .name = "Split",
                                               .size = sizeof(split_part),
                                               .configure = configure,
                                               .finish = finish,
                                               .split = split};
