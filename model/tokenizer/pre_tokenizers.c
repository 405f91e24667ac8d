/* pre_tokenizers.c - pre-tokenizers that look at one character at a time. */
#include "model/tokenizer/tokenizer_internal.h"

#include "model/tokenizer/unicode.h"

/* ---- WhitespaceSplit, PythonWhitespace ----
 *
 * Split at white space and drop it. That of Python's str.split has four more characters. */

static bool is_space(uint32_t code_point)
{
    return hs__unicode_class(code_point) & HS__SPACE;
}

static bool is_python_space(uint32_t code_point)
{
    return (code_point >= 0x1C && code_point <= 0x1F) || is_space(code_point);
}

static inline bool split_at(const hs__aligned_text *from, hs__span word, hs__spans *words,
                            bool (*is_between)(uint32_t code_point))
{
    const unsigned char *bytes = from->bytes;
    size_t start = word.start;
    bool ok = true;
    for (const unsigned char *at = bytes + word.start; at < bytes + word.end && ok;) {
        const size_t stop = (size_t)(at - bytes);
        if (is_between(hs_utf8_next(&at))) {
            ok = hs__spans_put(words, start, stop);
            start = (size_t)(at - bytes);
        }
    }
    return ok && hs__spans_put(words, start, word.end);
}

static bool split_whitespace(const hs__part *part, const hs__aligned_text *from, hs__span word,
                             hs__aligned_text *to, hs__spans *words)
{
    (void)part, (void)to;
    return split_at(from, word, words, is_space);
}

static bool split_python(const hs__part *part, const hs__aligned_text *from, hs__span word,
                         hs__aligned_text *to, hs__spans *words)
{
    (void)part, (void)to;
    return split_at(from, word, words, is_python_space);
}

const hs__part_type hs__whitespace_split = {.stage = HS__PRE_TOKENIZER,
                                            .name = "WhitespaceSplit",
                                            .size = sizeof(hs__part),
                                            .split = split_whitespace};

const hs__part_type hs__python_whitespace = {
    .stage = HS__PRE_TOKENIZER, .name = "PythonWhitespace", .size = sizeof(hs__part), .split = split_python};

/* ---- BertPreTokenizer ----
 *
 * Splits at white space and drops it; each punctuation character is
 * a separate word. */

/* The class of a character by its first byte. */
enum { IN_WORD, SPACE, PUNCTUATION, NOT_ASCII };

typedef struct bert_pre_tokenizer {
    hs__part part;
    uint8_t kinds[256];
} bert_pre_tokenizer;

static uint8_t kind_of(unsigned class)
{
    return class & HS__SPACE ? SPACE : class & HS__PUNCTUATION ? PUNCTUATION : IN_WORD;
}

static hs_status configure_bert(hs__part *part, const json_t *options, hs_error *err)
{
    (void)options;
    (void)err;
    bert_pre_tokenizer *self = (bert_pre_tokenizer *)part;
    for (unsigned byte = 0; byte < 256; byte++)
        self->kinds[byte] = byte < 0x80 ? kind_of(hs__unicode_class(byte)) : NOT_ASCII;
    return HS_OK;
}

static bool split_bert(const hs__part *part, const hs__aligned_text *from, hs__span word,
                       hs__aligned_text *to, hs__spans *words)
{
    (void)to;
    const uint8_t *kinds = ((const bert_pre_tokenizer *)part)->kinds;
    const unsigned char *bytes = from->bytes;
    size_t start = word.start;
    bool ok = true;
    for (size_t at = word.start; ok;) {
        while (at < word.end && kinds[bytes[at]] == IN_WORD)
            at++;
        if (at == word.end)
            break;
        const unsigned char *next = bytes + at + 1;
        uint8_t kind = kinds[bytes[at]];
        if (kind == NOT_ASCII) {
            next = bytes + at;
            kind = kind_of(hs__unicode_class(hs_utf8_next(&next)));
        }
        const size_t end = (size_t)(next - bytes);
        if (kind != IN_WORD) {
            ok = hs__spans_put(words, start, at) && (kind == SPACE || hs__spans_put(words, at, end));
            start = end;
        }
        at = end;
    }
    return ok && hs__spans_put(words, start, word.end);
}

const hs__part_type hs__bert_pre_tokenizer = {.stage = HS__PRE_TOKENIZER,
                                              .name = "BertPreTokenizer",
                                              .size = sizeof(bert_pre_tokenizer),
                                              .configure = configure_bert,
                                              .cuts_at_punctuation = true,
                                              .split = split_bert};

/* Cuts characters of a kind from the rest of a word. Returns false without memory. */
static bool cut_characters(const unsigned char *bytes, hs__span word, hs__cut_behavior behavior,
                           bool (*is_kind)(uint32_t c), hs__spans *words)
{
    hs__cutter cutter = hs__cutter_start(behavior, false, words);
    size_t rest = word.start; /* the end of the last such character */
    for (const unsigned char *at = bytes + word.start; at < bytes + word.end;) {
        const size_t start = (size_t)(at - bytes);
        if (!is_kind(hs_utf8_next(&at)))
            continue;
        if (start > rest)
            hs__cutter_put(&cutter, rest, start, false);
        rest = (size_t)(at - bytes);
        hs__cutter_put(&cutter, start, rest, true);
    }
    if (rest < word.end)
        hs__cutter_put(&cutter, rest, word.end, false);
    return hs__cutter_finish(&cutter);
}

/* ---- Digits ----
 *
 * Cuts numbers from the rest, as a whole or each digit by itself. */

typedef struct digits {
    hs__part part;
    hs__cut_behavior behavior;
} digits;

static hs_status configure_digits(hs__part *part, const json_t *options, hs_error *err)
{
    bool individual = false;
    const hs_status st = hs__option_bool(options, "tokenizer.json", "individual_digits", &individual, err);
    ((digits *)part)->behavior = individual ? HS__CUT_ISOLATED : HS__CUT_CONTIGUOUS;
    return st;
}

/* Returns true for numbers of any kind. The oracle's are those of Unicode 17 here, and those of Unicode 16 in
 * regular expressions. */
static bool is_digit(uint32_t c)
{
    if (c < 0x80)
        return c >= '0' && c <= '9';
    return (hs__unicode_kind(c) & HS__NUMBER) || (c >= 0x11DE0 && c <= 0x11DE9) ||
           (c >= 0x16FF4 && c <= 0x16FF6);
}

static bool split_digits(const hs__part *part, const hs__aligned_text *from, hs__span word,
                         hs__aligned_text *to, hs__spans *words)
{
    (void)to;
    return cut_characters(from->bytes, word, ((const digits *)part)->behavior, is_digit, words);
}

const hs__part_type hs__digits = {.stage = HS__PRE_TOKENIZER,
                                  .name = "Digits",
                                  .size = sizeof(digits),
                                  .configure = configure_digits,
                                  .split = split_digits};

/* ---- Punctuation ----
 *
 * Cuts punctuation from the rest, by default each character by itself. */

typedef struct punctuation {
    hs__part part;
    hs__cut_behavior behavior;
} punctuation;

static hs_status configure_punctuation(hs__part *part, const json_t *options, hs_error *err)
{
    punctuation *self = (punctuation *)part;
    self->behavior = HS__CUT_ISOLATED;
    return hs__cut_behavior_read(options, "Punctuation", &self->behavior, err);
}

static bool is_punctuation(uint32_t c)
{
    return hs__unicode_class(c) & HS__PUNCTUATION;
}

static bool split_punctuation(const hs__part *part, const hs__aligned_text *from, hs__span word,
                              hs__aligned_text *to, hs__spans *words)
{
    (void)to;
    return cut_characters(from->bytes, word, ((const punctuation *)part)->behavior, is_punctuation, words);
}

const hs__part_type hs__punctuation = {.stage = HS__PRE_TOKENIZER,
                                       .name = "Punctuation",
                                       .size = sizeof(punctuation),
                                       .configure = configure_punctuation,
                                       .split = split_punctuation};

/* ---- Whitespace ----
 *
 * Words are \w+ and [^\w\s]+; white space is dropped. */

static bool split_words(const hs__part *part, const hs__aligned_text *from, hs__span word,
                        hs__aligned_text *to, hs__spans *words)
{
    (void)part, (void)to;
    enum { BLANK, WORD, SIGN } last = BLANK;
    const unsigned char *bytes = from->bytes;
    size_t start = word.start;
    bool ok = true;
    for (const unsigned char *at = bytes + word.start; at < bytes + word.end && ok;) {
        const size_t stop = (size_t)(at - bytes);
        const uint32_t c = hs_utf8_next(&at);
        const int kind = hs__unicode_class(c) & HS__SPACE ? BLANK
                         : hs__unicode_kind(c) & HS__WORD ? WORD
                                                          : SIGN;
        if (kind == (int)last)
            continue;
        ok = last == BLANK || hs__spans_put(words, start, stop);
        start = stop;
        last = kind;
    }
    return ok && (last == BLANK || hs__spans_put(words, start, word.end));
}

const hs__part_type hs__whitespace = {
    .stage = HS__PRE_TOKENIZER, .name = "Whitespace", .size = sizeof(hs__part), .split = split_words};

/* ---- Metaspace ----
 *
 * Replaces a space by a visible mark, "\u2581", at the start of the
 * next word. A text without a leading space gets a mark too. */

/* The words that get a mark. FIRST: only a word at the start of the given text. */
typedef enum prepend_scheme { NEVER, FIRST, ALWAYS } prepend_scheme;

typedef struct metaspace {
    hs__part part;
    uint32_t mark;
    prepend_scheme prepend;
    bool split;
} metaspace;

/* Reads "prepend_scheme", or else the older "add_prefix_space". The oracle refuses a false add_prefix_space
 * that contradicts the scheme. */
static hs_status read_prepend(const json_t *options, prepend_scheme *ret_prepend, hs_error *err)
{
    static const char file[] = "tokenizer.json";
    static const char *const names[] = {[NEVER] = "never", [FIRST] = "first", [ALWAYS] = "always"};
    bool add_prefix_space = true;
    const char *scheme = NULL;
    hs_status st = hs__option_bool(options, file, "add_prefix_space", &add_prefix_space, err);
    if (!st)
        st = hs__option_text(options, file, "prepend_scheme", &scheme, err);
    if (st)
        return st;
    if (!scheme)
        scheme = add_prefix_space ? "always" : "never";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(scheme, names[i]) == 0) {
            *ret_prepend = (prepend_scheme)i;
            return HS_OK;
        }
    return hs_fail(err, HS_BAD_MODEL,
                   "tokenizer.json: Metaspace has prepend_scheme '%.64s'; supported: never, first, always",
                   scheme);
}

static hs_status read_mark(const json_t *options, uint32_t *ret_mark, hs_error *err)
{
    const char *text = "\u2581";
    const hs_status st = hs__option_text(options, "tokenizer.json", "replacement", &text, err);
    if (st)
        return st;
    const unsigned char *at = (const unsigned char *)text;
    *ret_mark = *text ? hs_utf8_next(&at) : 0;
    if (!*ret_mark || *at)
        return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: Metaspace: replacement must be one character");
    return HS_OK;
}

static hs_status configure_metaspace(hs__part *part, const json_t *options, hs_error *err)
{
    metaspace *self = (metaspace *)part;
    self->split = true;
    hs_status st = read_mark(options, &self->mark, err);
    if (!st)
        st = read_prepend(options, &self->prepend, err);
    if (!st)
        st = hs__option_bool(options, "tokenizer.json", "split", &self->split, err);
    return st;
}

static bool is_prepended(const metaspace *self, hs__range source)
{
    return self->prepend == ALWAYS || (self->prepend == FIRST && source.start == 0);
}

/* Puts the word with its marks, cut before each mark. */
static bool split_metaspace(const hs__part *part, const hs__aligned_text *from, hs__span word,
                            hs__aligned_text *to, hs__spans *words)
{
    const metaspace *self = (const metaspace *)part;
    const unsigned char *at = from->bytes + word.start;
    const unsigned char *end = from->bytes + word.end;
    size_t start = to->n_bytes;
    bool ok = true;
    for (bool first = true; at < end && ok; first = false) {
        const hs__range source = from->sources[at - from->bytes];
        uint32_t code_point = hs_utf8_next(&at);
        if (code_point == ' ')
            code_point = self->mark;
        if (code_point == self->mark && self->split) {
            ok = hs__spans_put(words, start, to->n_bytes);
            start = to->n_bytes;
        }
        if (first && is_prepended(self, source) && code_point != self->mark)
            ok = hs__aligned_text_put(to, self->mark, source);
        ok = ok && hs__aligned_text_put(to, code_point, source);
    }
    return ok && hs__spans_put(words, start, to->n_bytes);
}

const hs__part_type hs__metaspace = {.stage = HS__PRE_TOKENIZER,
                                     .name = "Metaspace",
                                     .size = sizeof(metaspace),
                                     .configure = configure_metaspace,
                                     .rewrites = true,
                                     .split = split_metaspace};
