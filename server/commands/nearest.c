/* nearest.c - by meaning, else by spelling. */
#include "server/commands/nearest.h"

#include "api/spelling.h"

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

/* Returns true if other programs use the word: it is no misspelling then. */
static bool is_known(const char *word)
{
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (strcmp(synonyms[i].word, word) == 0)
            return true;
    return false;
}

const char *hs__nearest(const char *word, const char *const *words)
{
    return is_known(word) ? find_synonym(word, words) : hs_spelled_like(word, words);
}
