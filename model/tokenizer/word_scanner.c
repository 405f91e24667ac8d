/* word_scanner.c - the expressions, and a scanner that tries their alternatives in order. Each alternative
 * matches greedily, and the kind of the first characters decides which one it is. */
#include "model/tokenizer/tokenizer_internal.h"

#include "model/tokenizer/unicode.h"

/* The kinds of characters that the expressions distinguish. */
enum { SPACE, LETTER, NUMBER, OTHER };

#define GPT2_REST    " ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define OTHERS       "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *expression;
    hs__word_rules rules;
} published[] = {
    /* GPT-2 (Radford et al. 2019), in two spellings */
    {"'s|'t|'re|'ve|'m|'ll|'d|" GPT2_REST, {0}},
    {"'(?:[sdmt]|ll|ve|re)|" GPT2_REST, {0}},
    /* Llama 3, EuroBERT */
    {CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" OTHERS, {true, true, 3, true}},
    /* Qwen 2 and 3 */
    {CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" OTHERS, {true, true, 1, true}},
};

bool hs__word_rules_find(const char *expression, hs__word_rules *ret_rules)
{
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        if (strcmp(published[i].expression, expression) == 0) {
            *ret_rules = published[i].rules;
            return true;
        }
    return false;
}

hs__word_rules hs__word_rules_gpt2(void)
{
    return published[0].rules;
}

static uint8_t kind_of(uint32_t code_point)
{
    if (hs__unicode_class(code_point) & HS__SPACE)
        return SPACE;
    const unsigned kind = hs__unicode_kind(code_point);
    return kind & HS__LETTER ? LETTER : kind & HS__NUMBER ? NUMBER : OTHER;
}

hs__word_scanner hs__word_scanner_create(hs__word_rules rules)
{
    hs__word_scanner scanner = {.rules = rules};
    for (uint32_t c = 0; c < 128; c++)
        scanner.kinds[c] = kind_of(c);
    return scanner;
}

/* ---- words ---- */

typedef struct cursor {
    const hs__word_scanner *scanner;
    const unsigned char *at, *end;
} cursor;

/* Returns the kind of the character at c->at < c->end and sets *ret_next to its end. */
static uint8_t kind_at(const cursor *c, const unsigned char **ret_next)
{
    *ret_next = c->at;
    const uint32_t code_point = hs_utf8_next(ret_next);
    return code_point < 128 ? c->scanner->kinds[code_point] : kind_of(code_point);
}

/* Moves past at most n_max characters of one kind. Returns the start of the last of them. */
static const unsigned char *skip(cursor *c, uint8_t kind, size_t n_max)
{
    const unsigned char *last = c->at;
    const unsigned char *next;
    for (size_t n = 0; n < n_max && c->at < c->end && kind_at(c, &next) == kind; n++) {
        last = c->at;
        c->at = next;
    }
    return last;
}

static bool is_line_end(unsigned char byte)
{
    return byte == '\r' || byte == '\n';
}

/* Returns true if the bytes begin with the text, or with its upper case. */
static bool begins(const unsigned char *bytes, size_t n_bytes, const char *text, bool any_case)
{
    const size_t n = strlen(text);
    bool equal = n <= n_bytes;
    for (size_t i = 0; equal && i < n; i++) {
        const unsigned char letter = (unsigned char)text[i];
        equal = bytes[i] == letter || (any_case && (bytes[i] | 0x20) == letter);
    }
    return equal;
}

/* Returns the length of a contraction at the cursor, or 0. Without regard to case, U+017F is an s. */
static size_t contraction(const cursor *c)
{
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    const size_t n_bytes = (size_t)(c->end - c->at) - 1;
    const unsigned char *after = c->at + 1;
    const bool any_case = c->scanner->rules.any_case;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (begins(after, n_bytes, endings[i], any_case))
            return 1 + strlen(endings[i]);
    return any_case && n_bytes >= 2 && memcmp(after, "\u017F", 2) == 0 ? 3 : 0;
}

/* Moves past white space from c->at on. */
static void skip_spaces(cursor *c, bool after_space)
{
    const unsigned char *const start = c->at;
    const unsigned char *last = skip(c, SPACE, SIZE_MAX);
    if (c->scanner->rules.line_ends)
        for (const unsigned char *at = c->at; at-- > start;)
            if (is_line_end(*at)) {
                c->at = at + 1;
                return;
            }
    /* the last white space character belongs to the next word */
    if (c->at < c->end && (after_space || last > start))
        c->at = last;
}

/* Returns true if the first character, of this kind, may start a word of letters. */
static bool is_prefix(const cursor *c, uint8_t kind)
{
    return c->scanner->rules.any_prefix ? kind != NUMBER && !is_line_end(*c->at) : *c->at == ' ';
}

/* Moves past the characters of a kind that is not white space. */
static void skip_kind(cursor *c, uint8_t kind)
{
    const hs__word_rules *rules = &c->scanner->rules;
    skip(c, kind, kind == NUMBER && rules->digits_max ? rules->digits_max : SIZE_MAX);
    while (kind == OTHER && rules->line_ends && c->at < c->end && is_line_end(*c->at))
        c->at++;
}

/* Moves past one word. */
static void next_word(cursor *c, bool after_space)
{
    const unsigned char *const start = c->at;
    const unsigned char *next;
    const uint8_t kind = kind_at(c, &next);
    const size_t length = after_space || *start != '\'' ? 0 : contraction(c);
    if (length) {
        c->at += length;
        return;
    }
    if (!after_space && kind != LETTER && next < c->end && is_prefix(c, kind)) {
        const unsigned char *after;
        c->at = next;
        const uint8_t second = kind_at(c, &after);
        const bool joins =
            *start == ' ' && second != SPACE && !(second == NUMBER && c->scanner->rules.digits_max);
        if (second == LETTER || joins) {
            skip_kind(c, second);
            return;
        }
        c->at = start;
    }
    if (kind == SPACE)
        skip_spaces(c, after_space);
    else
        skip_kind(c, kind);
}

const unsigned char *hs__word_end(const hs__word_scanner *scanner, const unsigned char *at,
                                  const unsigned char *end, bool after_space)
{
    cursor c = {scanner, at, end};
    next_word(&c, after_space);
    return c.at;
}
