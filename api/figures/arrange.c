/* arrange.c - puts a text into the order and the letter forms in which it is seen, for PDF, which shows
 * characters one after the other.
 *
 * A text with letters that run from right to left runs so as a whole; its numbers and Latin words keep their
 * order. An Arabic letter joins its neighbours: Unicode's presentation forms (FB50 to FEFF) have a character
 * for each form. */
#include "api/figures/picture.h"
#include "model/base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { ALONE = 1, JOINS_BEFORE = 2, JOINS_BOTH = 4 }; /* numbers of forms: alone, final, initial, medial */

typedef struct letter_forms {
    uint32_t first; /* form; the others follow it */
    unsigned n;     /* 0: the character has none */
} letter_forms;

/* Returns the forms of a letter, alone first. */
static letter_forms forms_of(uint32_t c)
{
    static const char arabic[] = "122224242444442222444444440000004444444224"; /* of 0621 to 064A */
    static const struct {
        uint32_t letter;
        letter_forms forms;
    } others[] = {{0x67e, {0xfb56, 4}}, {0x686, {0xfb7a, 4}}, {0x698, {0xfb8a, 2}},
                  {0x6a9, {0xfb8e, 4}}, {0x6af, {0xfb92, 4}}, {0x6cc, {0xfbfc, 4}}};
    letter_forms ret = {0xfe80, 0};
    if (c >= 0x621 && c <= 0x64a) {
        for (uint32_t k = 0x621; k < c; k++)
            ret.first += (uint32_t)(arabic[k - 0x621] - '0');
        ret.n = (unsigned)(arabic[c - 0x621] - '0');
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].letter == c)
            ret = others[i].forms;
    return ret;
}

static bool is_arabic_mark(uint32_t c)
{
    return (c >= 0x64b && c <= 0x65f) || c == 0x670;
}

static bool joins_next(uint32_t c)
{
    return c == 0x640 || forms_of(c).n == JOINS_BOTH;
}

static bool joins_previous(uint32_t c)
{
    return c == 0x640 || forms_of(c).n >= JOINS_BEFORE;
}

/* Returns the neighbour of a letter that is no mark, one step of -1 or 1 away or more; 0 at the text's end.
 */
static uint32_t neighbour(const uint32_t *text, size_t n, size_t at, int step)
{
    size_t i = at + (size_t)step; /* wraps below 0, and is then no index */
    while (i < n && is_arabic_mark(text[i]))
        i += (size_t)step;
    return i < n ? text[i] : 0;
}

/* Returns the form of lam with the alef that follows it, alone; 0 if none follows. */
static uint32_t lam_alef(const uint32_t *text, size_t n, size_t at)
{
    const uint32_t next = at + 1 < n ? text[at + 1] : 0;
    if (text[at] != 0x644)
        return 0;
    return next == 0x622   ? 0xfef5
           : next == 0x623 ? 0xfef7
           : next == 0x625 ? 0xfef9
           : next == 0x627 ? 0xfefb
                           : 0;
}

/* Writes the letters in the forms that join them. Returns how many are left: lam and alef become one. */
static size_t letters_join(const uint32_t *text, size_t n, uint32_t *ret)
{
    size_t n_left = 0;
    for (size_t i = 0; i < n; i++) {
        const letter_forms forms = forms_of(text[i]);
        const bool before = joins_previous(text[i]) && joins_next(neighbour(text, n, i, -1));
        const bool after = joins_next(text[i]) && joins_previous(neighbour(text, n, i, 1));
        const uint32_t pair = lam_alef(text, n, i);
        uint32_t form = pair ? pair + before : forms.first + before + (after ? 2 : 0);
        if (!(pair || forms.n) || hs__font_advance(form) < 0)
            form = text[i];
        else if (pair)
            i++;
        ret[n_left++] = form;
    }
    return n_left;
}

/* Returns true for letters that are written from right to left. */
static bool is_leftward(uint32_t c)
{
    return (c >= 0x590 && c <= 0x8ff) || (c >= 0xfb1d && c <= 0xfdff) || (c >= 0xfe70 && c <= 0xfeff);
}

/* Returns true for digits and Latin letters, which run from left to right within any text. */
static bool is_rightward(uint32_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c >= 0x660 && c <= 0x669) || (c >= 0x6f0 && c <= 0x6f9) || (c >= 0xc0 && c < 0x590);
}

/* Reverses a text, but not the runs of digits and Latin letters in it. */
static void order_reverse(uint32_t *text, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        const uint32_t c = text[i];
        text[i] = text[n - 1 - i];
        text[n - 1 - i] = c;
    }
    for (size_t i = 0; i < n; i++) {
        size_t end = i;
        while (end < n && is_rightward(text[end]))
            end++;
        for (size_t k = i; k + 1 < i + end - k; k++) {
            const uint32_t c = text[k];
            text[k] = text[i + end - 1 - k];
            text[i + end - 1 - k] = c;
        }
        i = end > i ? end - 1 : i;
    }
}

/* Writes characters, with a square for each that the font lacks. ret has 3 bytes for each, and one more. */
static void text_write(const uint32_t *text, size_t n, char *ret)
{
    unsigned char *to = (unsigned char *)ret;
    for (size_t i = 0; i < n; i++)
        to += hs_utf8_put(hs__font_advance(text[i]) < 0 ? 0x25a1 : text[i], to);
    *to = '\0';
}

char *hs__text_arrange(const char *text)
{
    const size_t n_bytes = strlen(text);
    const char *end = text + n_bytes;
    uint32_t *read = malloc((n_bytes + 1) * sizeof *read), *shown = malloc((n_bytes + 1) * sizeof *shown);
    char *ret = malloc(3 * n_bytes + 1);
    bool leftward = false;
    size_t n = 0;
    for (; read && text < end; n++) {
        read[n] = hs_utf8_read(&text, end);
        leftward |= is_leftward(read[n]);
    }
    if (read && shown && ret) {
        n = letters_join(read, n, shown);
        if (leftward)
            order_reverse(shown, n);
        text_write(shown, n, ret);
    } else {
        free(ret);
        ret = NULL;
    }
    free(read);
    free(shown);
    return ret;
}
