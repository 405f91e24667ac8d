/* spelling.c - finds the name that a misspelled or abbreviated one may mean. */
#include "api/request/texts.h"

#include "model/base/sizes.h"

#include <string.h>

/* Returns how many characters must be inserted, deleted, changed or swapped with the next to lead from a to b
 * (optimal string alignment). */
static size_t distance(const char *a, const char *b)
{
    enum { LETTERS_MAX = 40 };
    size_t d[LETTERS_MAX + 1][LETTERS_MAX + 1]; /* of the first i letters of a and j of b */
    const size_t n_a = strlen(a), n_b = strlen(b);
    if (n_a > LETTERS_MAX || n_b > LETTERS_MAX)
        return LETTERS_MAX;
    for (size_t i = 0; i <= n_a; i++)
        for (size_t j = 0; j <= n_b; j++) {
            d[i][j] = i + j;
            if (i == 0 || j == 0)
                continue;
            d[i][j] = hs_min(hs_min(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = hs_min(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n_a][n_b];
}

/* Returns the word of the fewest changes: at most one of up to four letters, and a third of longer ones. */
static const char *find_misspelled(const char *word, const char *const *words)
{
    const char *nearest = NULL;
    const size_t n = strlen(word);
    size_t fewest = n < 5 ? 2 : n / 3 + 2;
    for (; *words; words++) {
        const size_t d = distance(word, *words);
        if (d < fewest) {
            fewest = d;
            nearest = *words;
        }
    }
    return nearest;
}

static const char *find_abbreviated(const char *word, const char *const *words)
{
    const size_t n = strlen(word);
    for (; n > 2 && *words; words++)
        if (strncmp(word, *words, n) == 0)
            return *words;
    return NULL;
}

const char *hs_spelled_like(const char *word, const char *const *words)
{
    const char *nearest = find_misspelled(word, words);
    return nearest ? nearest : find_abbreviated(word, words);
}
