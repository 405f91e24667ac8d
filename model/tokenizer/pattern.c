/* pattern.c - searches for a text, or reads a published expression with the scanner that knows it. */
#include "model/tokenizer/pattern.h"

#include "model/tokenizer/word_scanner.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX 64

struct hs__pattern {
    char text[TEXT_BYTES_MAX]; /* NUL-terminated; empty: the scanner's words */
    size_t n_bytes;
    hs__word_scanner words;
};

static hs_status read_text(const char *text, hs__pattern *made, hs_error *err)
{
    made->n_bytes = strlen(text);
    if (made->n_bytes == 0 || made->n_bytes >= TEXT_BYTES_MAX)
        return hs_fail(err, HS_BAD_MODEL,
                       "tokenizer.json: Split: the pattern's String has %zu bytes; it must have 1 to %d",
                       made->n_bytes, TEXT_BYTES_MAX - 1);
    memcpy(made->text, text, made->n_bytes + 1);
    return HS_OK;
}

static hs_status read_expression(const char *expression, hs__pattern *made, hs_error *err)
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

hs_status hs__pattern_create(const json_t *json, hs__pattern **ret_pattern, hs_error *err)
{
    hs__pattern made = {.n_bytes = 0};
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

void hs__pattern_destroy(hs__pattern *pattern)
{
    free(pattern);
}

/* Returns the start of the text's next occurrence, or NULL. */
static const unsigned char *find_text(const hs__pattern *p, const unsigned char *at, const unsigned char *end)
{
    while ((size_t)(end - at) >= p->n_bytes) {
        const unsigned char *hit = memchr(at, p->text[0], (size_t)(end - at) - p->n_bytes + 1);
        if (!hit || memcmp(hit, p->text, p->n_bytes) == 0)
            return hit;
        at = hit + 1;
    }
    return NULL;
}

bool hs__pattern_next(hs__pattern_search *search, hs__span *ret_match)
{
    const hs__pattern *p = search->pattern;
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
