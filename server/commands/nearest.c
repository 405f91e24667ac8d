/* nearest.c - by meaning, by spelling, by beginning. */
#include "server/commands/nearest.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Names that other programs use, and our options for the same, the first that a command has. */
static const struct {
    const char *word, *options[2];
} synonyms[] = {
    {"port", {"listen"}},
    {"host", {"listen", "allow-host"}},
    {"bind", {"listen"}},
    {"address", {"listen"}},
    {"addr", {"listen"}},
    {"threads", {"workers", "cores"}},
    {"jobs", {"workers", "cores"}},
    {"processes", {"workers"}},
    {"cpus", {"workers", "cores"}},
    {"cores", {"workers"}},
    {"thread", {"workers", "cores"}},
    {"parallel", {"workers", "cores"}},
    {"batch", {"together"}},
    {"batch-size", {"together"}},
    {"timeout", {"deadline"}},
    {"memory", {"max-held"}},
    {"ram", {"max-held"}},
    {"auth", {"token-file"}},
    {"token", {"token-file"}},
    {"api-key", {"token-file"}},
    {"password", {"token-file"}},
    {"origin", {"cors"}},
    {"cors-origin", {"cors"}},
    {"allow-origin", {"cors"}},
    {"data", {"state"}},
    {"storage", {"state"}},
    {"verbose", {"log"}},
    {"quiet", {"log"}},
    {"device", {"backend"}},
    {"kernels", {"backend"}},
    {"dtype", {"dtype", "precision"}},
    {"quantize", {"precision"}},
    {"checkpoint", {"model"}},
    {"weights", {"model"}},
    {"folder", {"model"}},
    {"revision", {"model"}},
    {"out", {"output"}},
    {"outfile", {"output"}},
    {"out-dir", {"output"}},
    {"file", {"output"}},
    {"max-length", {"max-tokens"}},
    {"length", {"max-tokens"}},
    {"truncate", {"max-tokens"}},
    {"predict", {"predictions", "masked-share"}},
    {"top-k", {"predictions"}},
    {"lens", {"predictions"}},
    {"mask", {"predictions", "masked-share"}},
    {"ablate", {"interventions"}},
    {"switch-off", {"interventions"}},
    {"tokens", {"input-ids"}},
    {"ids", {"input-ids"}},
    {"second", {"text-pair"}},
    {"column", {"field"}},
    {"key", {"field"}},
    {"type", {"input-format", "format"}},
    {"json", {"format"}},
    {"continue", {"resume"}},
    {"seed", {"mask-seed"}},
    {"part", {"shard"}},
    {"csv", {"pairs"}},
    {"usage", {"help"}},
    {"start", {"serve"}},
    {"run", {"serve"}},
    {"server", {"serve"}},
    {"download", {"pull"}},
    {"fetch", {"pull"}},
    {"list", {"models"}},
    {"join", {"merge"}},
    {"benchmark", {"bench"}},
};

static const char *find(const char *word, const char *const *words)
{
    for (; word && *words; words++)
        if (strcmp(word, *words) == 0)
            return *words;
    return NULL;
}

static const char *find_synonym(const char *word, const char *const *words)
{
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++) {
        const char *found = NULL;
        for (size_t k = 0; k < 2 && !found && strcmp(synonyms[i].word, word) == 0; k++)
            found = find(synonyms[i].options[k], words);
        if (found)
            return found;
    }
    return NULL;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

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
            d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n_a][n_b];
}

/* Returns true if other programs use the word: it is no misspelling then. */
static bool is_known(const char *word)
{
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (strcmp(synonyms[i].word, word) == 0)
            return true;
    return false;
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

const char *hs__nearest(const char *word, const char *const *words)
{
    if (is_known(word))
        return find_synonym(word, words);
    const char *nearest = find_misspelled(word, words);
    return nearest ? nearest : find_abbreviated(word, words);
}
