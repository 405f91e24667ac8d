/* place_name.c - splits a path into components from its end. */
#include "server/base/place_name.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct part {
    const char *text;
    size_t n;
} part;

/* Returns the last component of path[n], and the length of the rest. Empty if there is none. */
static part split_last(const char *path, size_t n, size_t *ret_n_before)
{
    while (n > 0 && path[n - 1] == '/')
        n--;
    size_t start = n;
    while (start > 0 && path[start - 1] != '/')
        start--;
    *ret_n_before = start;
    return (part){path + start, n - start};
}

static bool is(part p, const char *text)
{
    return p.n == strlen(text) && memcmp(p.text, text, p.n) == 0;
}

/* Returns the NAME of models--ORG--NAME, a repository's folder in HuggingFace's cache; empty for other
 * folders. */
static part repository_of(part folder)
{
    static const char before[] = "models--";
    const char *const end = folder.text + folder.n;
    if (folder.n < sizeof before || memcmp(folder.text, before, sizeof before - 1) != 0)
        return (part){0};
    const char *name = folder.text + sizeof before - 1;
    for (const char *c = name; c + 2 < end; c++)
        if (c[0] == '-' && c[1] == '-')
            name = c + 2;
    return (part){name, (size_t)(end - name)};
}

static part name_of(const char *path, size_t n)
{
    size_t n_before, n_above;
    const part last = split_last(path, n, &n_before), above = split_last(path, n_before, &n_above);
    if (is(above, "snapshots")) {
        const part repository = repository_of(split_last(path, n_above, &n_above));
        if (repository.n)
            return repository;
    }
    return above.n && (is(last, "model") || is(last, "checkpoint")) ? above : last;
}

/* Makes a relative path absolute only if the name is not in it, so that symbolic links keep their own names.
 */
void hs__place_name(const char *path, size_t n, char ret_name[HS_MODEL_NAME_BYTES])
{
    char given[PATH_MAX], whole[PATH_MAX];
    const int n_given = snprintf(given, sizeof given, "%.*s", (int)n, path);
    part name = name_of(path, n);
    const bool is_outside = is(name, ".") || is(name, "..") || is(name, "model") || is(name, "checkpoint");
    if (is_outside && n_given < PATH_MAX && realpath(given, whole))
        name = name_of(whole, strlen(whole));
    snprintf(ret_name, HS_MODEL_NAME_BYTES, "%.*s", (int)name.n, name.n ? name.text : "");
}
