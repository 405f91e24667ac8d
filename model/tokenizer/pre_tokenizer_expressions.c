/* pre_tokenizer_expressions.c - pre-tokenizers that cut at the matches of a regular expression: Split and
 * ByteLevel. */
#include "model/tokenizer/tokenizer_internal.h"

#include "model/tokenizer/unicode.h"

#include <stdlib.h>

/* ---- the expressions ----
 *
 * The published expressions are alike, so one scanner reads them all, in linear time. It is faster than a
 * general engine, and its letters and numbers are the oracle's. The scanner tries the alternatives of an
 * expression in order. Each one matches greedily, and the kind of the first characters decides which one it
 * is. */

/* A run of characters: \s?[...]{min,max}. */
typedef struct run {
    unsigned kinds;        /* of hs__unicode_kind; others are in ranges */
    uint32_t ranges[3][2]; /* first and last character; 0 and 0: none */
    const char *outside;   /* or any characters but these and white space; NULL: none */
    size_t min, max;
    bool after_space; /* white space may precede it */
    bool after_blank; /* U+0020 may precede it */
} run;

typedef enum word_form {
    PLAIN_WORDS,
    CASED_WORDS, /* a capital begins a word */
    MARKED_WORDS /* letters with their marks, after other characters than punctuation and symbols */
} word_form;

/* The rules, in the order in which they are tried:
 *     a contraction, such as 's
 *     letters, after a space
 *     numbers, after a space
 *     other characters, after a space
 *     white space; its last character belongs to the next word */
typedef struct word_rules {
    bool any_case;     /* contractions count in upper case too */
    bool any_prefix;   /* any character but a number and a line end may precede letters */
    size_t digits_max; /* numbers of at most this length, without a space; 0: of any length, with one */
    bool end_spaces;   /* white space at the end of a text is one word, line ends or not */
    bool line_ends;    /* line ends belong to what is before them, white space included */
    word_form form;
    bool contracted; /* cased words: a contraction ends a word of letters */
    bool slashes;    /* slashes count as line ends behind other characters */
    const run *run;  /* in place of all of these, or NULL */
} word_rules;

typedef struct word_scanner {
    word_rules rules;
    uint8_t kinds[128];         /* kinds of ASCII characters */
    uint8_t unicode_kinds[128]; /* hs__unicode_kind of them */
} word_scanner;

/* The kinds of characters that the expressions distinguish. */
enum { SPACE, LETTER, NUMBER, OTHER };

#define GPT2_REST    " ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES       "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define OTHERS       "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES
#define UPPER        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(ending, numbers)                                                                               \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" ending "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" ending \
    "|" numbers "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES

#define TIKTOKEN(numbers)                                                                                    \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|" numbers                                          \
    "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"

#define RUN(...)                                                                                             \
    {                                                                                                        \
        .run = &(const run)                                                                                  \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }
#define ANY SIZE_MAX
#define CJK                                                                                                  \
    {                                                                                                        \
        0x4E00, 0x9FA5                                                                                       \
    }

static const struct {
    const char *expression;
    word_rules rules;
} published[] = {
    /* GPT-2 (Radford et al. 2019), in three spellings */
    {"'s|'t|'re|'ve|'m|'ll|'d|" GPT2_REST, {0}},
    {"'(?:[sdmt]|ll|ve|re)|" GPT2_REST, {0}},
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++$|\\s+(?!\\S)|\\s", {0}},
    /* Llama 3, EuroBERT */
    {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" OTHERS,
     {.any_case = true, .any_prefix = true, .digits_max = 3, .line_ends = true}},
    /* Qwen 2 and 3 */
    {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" OTHERS,
     {.any_case = true, .any_prefix = true, .digits_max = 1, .line_ends = true}},
    /* cl100k as tiktoken spelled it first, with the numbers of GPT-4, nanochat and Ling */
    {TIKTOKEN("\\p{N}{1,3}"), {.any_case = true, .any_prefix = true, .digits_max = 3, .line_ends = true}},
    {TIKTOKEN("\\p{N}{1,2}"), {.any_case = true, .any_prefix = true, .digits_max = 2, .line_ends = true}},
    {TIKTOKEN("\\p{N}"), {.any_case = true, .any_prefix = true, .digits_max = 1, .line_ends = true}},
    /* cl100k as tiktoken spells it since 0.8. The library reads {1,3}+ as a repetition of {1,3} */
    {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+"
     "|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
     {.any_case = true, .any_prefix = true, .digits_max = ANY, .end_spaces = true, .line_ends = true}},
    /* o200k: GPT-4o, Phi-4-mini */
    {CASED(CONTRACTIONS "?", "\\p{N}{1,3}"),
     {.any_case = true,
      .any_prefix = true,
      .digits_max = 3,
      .line_ends = true,
      .form = CASED_WORDS,
      .contracted = true,
      .slashes = true}},
    /* Tekken: Mistral since 2024 */
    {CASED("", "\\p{N}"),
     {.any_prefix = true, .digits_max = 1, .line_ends = true, .form = CASED_WORDS, .slashes = true}},
    /* DeepSeek V3 and R1, three in a Sequence; their line ends are not escaped */
    {"\\p{N}{1,3}", RUN(.kinds = HS__NUMBER, .min = 1, .max = 3)},
    {"[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+",
     RUN(.ranges = {CJK, {0x3040, 0x309F}, {0x30A0, 0x30FF}}, .min = 1, .max = ANY)},
    {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
     "?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
     {.line_ends = true, .form = MARKED_WORDS}},
    /* DeepSeek Coder, four in a Sequence with Digits */
    {"[\r\n]", RUN(.ranges = {{'\r', '\r'}, {'\n', '\n'}}, .min = 1, .max = 1)},
    {"\\s?\\p{L}+", RUN(.kinds = HS__LETTER, .min = 1, .max = ANY, .after_space = true)},
    {"\\s?\\p{P}+", RUN(.kinds = HS__PUNCT, .min = 1, .max = ANY, .after_space = true)},
    {"[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+",
     RUN(.ranges = {CJK, {0x800, 0x4E00}, {0xAC00, 0xD7FF}}, .min = 1, .max = ANY)},
    /* Falcon, behind Punctuation, ByteLevel and Digits; and numbers, as some Sequences begin */
    {"[0-9][0-9][0-9]", RUN(.ranges = {{'0', '9'}}, .min = 3, .max = 3)},
    {"[0-9]", RUN(.ranges = {{'0', '9'}}, .min = 1, .max = 1)},
    {"\\p{N}", RUN(.kinds = HS__NUMBER, .min = 1, .max = 1)},
    {"\\p{N}+", RUN(.kinds = HS__NUMBER, .min = 1, .max = ANY)},
    /* BLOOM. Inside of brackets, the library takes other brackets for more characters */
    {" ?[^(\\s|[.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C])]+",
     RUN(.outside = "(|.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C)", .min = 1, .max = ANY,
         .after_blank = true)},
};

/* Finds the rules of a published regular expression. Returns false for any other expression. */
static bool find_rules(const char *expression, word_rules *ret_rules)
{
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        if (strcmp(published[i].expression, expression) == 0) {
            *ret_rules = published[i].rules;
            return true;
        }
    return false;
}

/* Returns the rules of GPT-2's expression. */
static word_rules rules_of_gpt2(void)
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

static word_scanner create_scanner(word_rules rules)
{
    word_scanner scanner = {.rules = rules};
    for (uint32_t c = 0; c < 128; c++) {
        scanner.kinds[c] = kind_of(c);
        scanner.unicode_kinds[c] = (uint8_t)hs__unicode_kind(c);
    }
    return scanner;
}

/* ---- words ---- */

typedef struct cursor {
    const word_scanner *scanner;
    const unsigned char *at, *end;
} cursor;

/* Returns the kind of the character at c->at < c->end and sets *ret_next to its end. */
static uint8_t kind_at(const cursor *c, const unsigned char **ret_next)
{
    *ret_next = c->at;
    const uint32_t code_point = hs_utf8_next(ret_next);
    return code_point < 128 ? c->scanner->kinds[code_point] : kind_of(code_point);
}

/* Returns hs__unicode_kind of the character at `at` and sets *ret_next to its end. */
static unsigned unicode_kind_at(const cursor *c, const unsigned char *at, const unsigned char **ret_next)
{
    *ret_next = at;
    const uint32_t code_point = hs_utf8_next(ret_next);
    return code_point < 128 ? c->scanner->unicode_kinds[code_point] : hs__unicode_kind(code_point);
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
    if (c->scanner->rules.end_spaces && c->at == c->end)
        return;
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

/* Moves past the characters of a kind that is not white space. */
static void skip_kind(cursor *c, uint8_t kind)
{
    const word_rules *rules = &c->scanner->rules;
    skip(c, kind, kind == NUMBER && rules->digits_max ? rules->digits_max : SIZE_MAX);
    while (kind == OTHER && rules->line_ends && c->at < c->end &&
           (is_line_end(*c->at) || (rules->slashes && *c->at == '/')))
        c->at++;
}

/* Returns true if the first character, of this kind, may start a word of letters. */
static bool is_prefix(const cursor *c, uint8_t kind)
{
    return c->scanner->rules.any_prefix ? kind != NUMBER && !is_line_end(*c->at) : *c->at == ' ';
}

/* ---- words by case ----
 *
 * Letters without case and marks count as capitals and as small letters. */

/* Returns the end of [capitals]*[small]+ at `at`, or NULL. With any_end, of [capitals]+[small]*. */
static const unsigned char *find_case_end(const cursor *c, const unsigned char *at, bool any_end)
{
    const unsigned char *const start = at;
    const unsigned char *next = at, *last_small = NULL;
    unsigned kind = 0;
    for (; at < c->end; at = next) {
        kind = unicode_kind_at(c, at, &next);
        if (!(kind & (HS__LETTER | HS__ACCENT)) || kind & HS__LOWER)
            break;
        if (!(kind & HS__UPPER))
            last_small = next;
    }
    if (at == c->end || !(kind & HS__LOWER))
        return any_end && at > start ? at : last_small;
    for (; at < c->end; at = next) {
        kind = unicode_kind_at(c, at, &next);
        if (!(kind & (HS__LETTER | HS__ACCENT)) || kind & HS__UPPER)
            break;
    }
    return at;
}

/* Moves past letters, after any prefix, and a contraction. Returns false if there are no letters. */
static bool cased_word(cursor *c)
{
    const unsigned char *after = c->at, *end = NULL;
    const uint8_t kind = kind_at(c, &after);
    const bool has_prefix = kind != LETTER && is_prefix(c, kind);
    for (int any_end = 0; any_end < 2 && !end; any_end++) {
        if (has_prefix)
            end = find_case_end(c, after, any_end);
        if (!end)
            end = find_case_end(c, c->at, any_end);
    }
    if (!end)
        return false;
    c->at = end;
    if (c->scanner->rules.contracted && end < c->end && *end == '\'')
        c->at += contraction(c);
    return true;
}

/* ---- words with marks ---- */

/* Moves past characters of these Unicode kinds. Returns false if there are none. */
static bool skip_kinds(cursor *c, unsigned kinds)
{
    const unsigned char *const start = c->at;
    for (const unsigned char *next; c->at < c->end && unicode_kind_at(c, c->at, &next) & kinds;)
        c->at = next;
    return c->at > start;
}

static bool is_ascii_letter(unsigned char byte)
{
    return (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
}

/* Moves past one word, if there is one: some characters, such as numbers, belong to none. */
static void marked_word(cursor *c)
{
    const unsigned char *const start = c->at;
    const unsigned char *next;
    const unsigned kind = unicode_kind_at(c, start, &next), signs = HS__PUNCT | HS__SYMBOL;
    if (*start < 128 && kind & signs && next < c->end && is_ascii_letter(*next)) {
        for (c->at = next; c->at < c->end && is_ascii_letter(*c->at);)
            c->at++;
        return;
    }
    if (!(kind & (HS__LETTER | signs)) && !is_line_end(*start)) {
        c->at = next;
        if (skip_kinds(c, HS__LETTER | HS__ACCENT))
            return;
        c->at = start;
    }
    if (skip_kinds(c, HS__LETTER | HS__ACCENT))
        return;
    c->at = *start == ' ' ? next : start;
    if (skip_kinds(c, signs)) {
        while (c->at < c->end && is_line_end(*c->at))
            c->at++;
        return;
    }
    c->at = start;
    if (kind_at(c, &next) == SPACE)
        skip_spaces(c, false);
}

/* ---- runs ---- */

/* Returns true if the text, which is valid UTF-8, has the character. */
static bool has_character(const char *text, uint32_t code_point)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at)
        if (hs_utf8_next(&at) == code_point)
            return true;
    return false;
}

static bool is_in_run(const run *r, unsigned kind, uint32_t code_point)
{
    if (r->outside)
        return kind_of(code_point) != SPACE && !has_character(r->outside, code_point);
    bool in = kind & r->kinds;
    for (size_t i = 0; !in && i < sizeof r->ranges / sizeof *r->ranges; i++)
        in = r->ranges[i][1] && code_point >= r->ranges[i][0] && code_point <= r->ranges[i][1];
    return in;
}

/* Moves to the end of a run that starts at `at`. Returns false if there is none. */
static bool skip_run(cursor *c, const unsigned char *at)
{
    const run *r = c->scanner->rules.run;
    size_t n = 0;
    for (const unsigned char *next; at < c->end && n < r->max; at = next, n++) {
        const unsigned kind = unicode_kind_at(c, at, &next);
        const unsigned char *character = at;
        if (!is_in_run(r, kind, hs_utf8_next(&character)))
            break;
    }
    if (n < r->min)
        return false;
    c->at = at;
    return true;
}

/* Moves past a run, if there is one. */
static void next_run(cursor *c)
{
    const unsigned char *next;
    const run *r = c->scanner->rules.run;
    const bool space = kind_at(c, &next) == SPACE,
               joins = (r->after_space && space) || (r->after_blank && *c->at == ' ');
    if (!joins || !skip_run(c, next))
        skip_run(c, c->at);
}

/* ---- any word ---- */

/* Moves past one word. */
static void next_word(cursor *c, bool after_space)
{
    const unsigned char *const start = c->at;
    const unsigned char *next;
    const uint8_t kind = kind_at(c, &next);
    const bool plain = c->scanner->rules.form == PLAIN_WORDS;
    const size_t length = after_space || *start != '\'' || !plain ? 0 : contraction(c);
    if (!plain && cased_word(c))
        return;
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

/* Returns the end of the word that starts at `at` < end, or `at` if none does. after_space: a space is before
 * the text, and the word starts with it; then the word may have no character of its own. */
static const unsigned char *find_word_end(const word_scanner *scanner, const unsigned char *at,
                                          const unsigned char *end, bool after_space)
{
    cursor c = {scanner, at, end};
    if (scanner->rules.run)
        next_run(&c);
    else if (scanner->rules.form == MARKED_WORDS)
        marked_word(&c);
    else
        next_word(&c, after_space);
    return c.at;
}

/* ---- Split ----
 *
 * Cuts words at the matches of a pattern: a text, or a published expression. */

#define TEXT_BYTES_MAX 64

typedef struct pattern {
    char text[TEXT_BYTES_MAX]; /* NUL-terminated; empty: the scanner's words */
    size_t n_bytes;
    word_scanner words;
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
    word_rules rules;
    if (!find_rules(expression, &rules))
        return hs_fail(
            err, HS_BAD_MODEL,
            "tokenizer.json: Split has the regular expression '%.200s'; supported: those of GPT-2, "
            "Llama 3, Qwen, cl100k, o200k, Tekken, DeepSeek, Falcon and BLOOM",
            expression);
    made->words = create_scanner(rules);
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
        while (start < end && (stop = find_word_end(&p->words, start, end, false)) == start)
            hs_utf8_next(&start);
        if (start == end)
            return false;
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

typedef struct split_part {
    hs__part part;
    pattern *pattern;
    hs__cut_behavior behavior;
    bool invert;
} split_part;

static hs_status configure_split(hs__part *part, const json_t *options, hs_error *err)
{
    split_part *self = (split_part *)part;
    self->behavior = HS__CUT_BEHAVIORS;
    hs_status st = hs__cut_behavior_read(options, "Split", &self->behavior, err);
    if (!st)
        st = hs__option_bool(options, "tokenizer.json", "invert", &self->invert, err);
    return st ? st : create_pattern(json_object_get(options, "pattern"), &self->pattern, err);
}

static void finish(hs__part *part)
{
    destroy_pattern(((split_part *)part)->pattern);
}

static bool split_at_matches(const hs__part *part, const hs__aligned_text *from, hs__span word,
                             hs__aligned_text *to, hs__spans *words)
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
                                               .configure = configure_split,
                                               .finish = finish,
                                               .split = split_at_matches};

/* ---- ByteLevel ----
 *
 * Cuts words with the space before them, then writes every byte as a character, so that a vocabulary of 256
 * characters can write any text (Radford et al. 2019, GPT-2).
 *
 * Words are the matches of GPT-2's regular expression, unless use_regex is false. Printable bytes of Latin-1
 * are written as themselves. The other 68 are written, in order, as U+0100 and up; a space is U+0120. */

#define FILE_NAME "tokenizer.json"

typedef struct byte_level {
    hs__part part;
    bool add_prefix_space, use_regex;
    word_scanner words;
    uint16_t characters[256]; /* the character that stands for each byte */
} byte_level;

static void fill_characters(byte_level *self)
{
    uint16_t next = 0x100;
    for (unsigned byte = 0; byte < 256; byte++) {
        const bool printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
        self->characters[byte] = printable ? (uint16_t)byte : next++;
    }
}

static hs_status configure_byte_level(hs__part *part, const json_t *options, hs_error *err)
{
    byte_level *self = (byte_level *)part;
    self->add_prefix_space = self->use_regex = true;
    self->words = create_scanner(rules_of_gpt2());
    fill_characters(self);
    hs_status st = hs__option_bool(options, FILE_NAME, "add_prefix_space", &self->add_prefix_space, err);
    if (!st)
        st = hs__option_bool(options, FILE_NAME, "use_regex", &self->use_regex, err);
    return st;
}

static bool put_byte(const byte_level *self, unsigned char byte, hs__range source, hs__aligned_text *to)
{
    return hs__aligned_text_put(to, self->characters[byte], source);
}

/* Cuts one span into words and writes them to the rewritten text. */
static bool split_byte_level(const hs__part *part, const hs__aligned_text *from, hs__span span,
                             hs__aligned_text *to, hs__spans *words)
{
    const byte_level *self = (const byte_level *)part;
    const unsigned char *next = from->bytes + span.start;
    const unsigned char *const stop = from->bytes + span.end;
    bool prefix = self->add_prefix_space && *next != ' ';
    bool ok = hs__aligned_text_reserve(to, span.end - span.start);
    for (size_t at = span.start; ok && next < stop; prefix = false) {
        const size_t start = to->n_bytes;
        next = self->use_regex ? find_word_end(&self->words, next, stop, prefix) : stop;
        if (prefix)
            ok = put_byte(self, ' ', from->sources[at], to);
        for (const size_t end = (size_t)(next - from->bytes); ok && at < end; at++)
            ok = put_byte(self, from->bytes[at], from->sources[at], to);
        ok = ok && hs__spans_put(words, start, to->n_bytes);
    }
    return ok;
}

const hs__part_type hs__byte_level_pre_tokenizer = {.stage = HS__PRE_TOKENIZER,
                                                    .name = "ByteLevel",
                                                    .size = sizeof(byte_level),
                                                    .configure = configure_byte_level,
                                                    .rewrites = true,
                                                    .split = split_byte_level};
