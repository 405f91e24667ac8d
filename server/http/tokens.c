/* tokens.c - the tokens of clients: one on each line of a file. Comments and passphrases with blanks are not
 * tokens. */
#include "server/http/tokens.h"

#include "server/base/log.h"
#include "server/base/system_errors.h"

#include <errno.h>
#include <nettle/memops.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { FILE_BYTES_MAX = 65536, TOKEN_BYTES_MIN = 6, TOKEN_BYTES_GOOD = 16 };

/* Checks a token of n bytes. */
static hs_status token_check(const char *path, size_t line, const char *token, size_t n, hs_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (token[i] <= ' ' || token[i] > '~')
            return hs_fail(err, HS_INVALID,
                           "--token-file '%s', line %zu: a token must be printable ASCII without "
                           "blanks, on a line of its own; a comment begins with #",
                           path, line);
    if (n < TOKEN_BYTES_MIN)
        return hs_fail(err, HS_INVALID, "--token-file '%s', line %zu: a token has at least %d characters",
                       path, line, TOKEN_BYTES_MIN);
    if (n < TOKEN_BYTES_GOOD)
        hs__log("warning",
                "--token-file '%s', line %zu: a token of %zu characters can be guessed; `openssl rand "
                "-hex 16` makes a better one",
                path, line, n);
    return HS_OK;
}

/* Removes everything but the tokens from text, in place, with a line end after each. */
static hs_status tokens_keep(const char *path, char *text, hs_error *err)
{
    char *end = text;
    size_t line = 0;
    hs_status st = HS_OK;
    for (char *at = text, *next; !st && *at; at = next) {
        const size_t n_line = strcspn(at, "\n");
        next = at + n_line + (at[n_line] == '\n');
        char *token = at + strspn(at, " \t\r");
        size_t n = token < at + n_line ? (size_t)(at + n_line - token) : 0;
        line++;
        while (n && strchr(" \t\r", token[n - 1]))
            n--;
        if (!n || *token == '#')
            continue;
        st = token_check(path, line, token, n, err);
        memmove(end, token, n);
        end += n;
        *end++ = '\n'; /* never beyond this line's own end */
    }
    *end = '\0';
    if (!st && end == text)
        st = hs_fail(err, HS_INVALID, "--token-file '%s' holds no token; write one into it", path);
    return st;
}

static hs_status text_read(const char *path, char *ret_text, hs_error *err)
{
    struct stat about;
    FILE *file = fopen(path, "re");
    if (!file)
        return hs_fail(err, HS_IO, "cannot read --token-file '%s': %s", path, hs__errno_text(errno));
    const size_t n = fread(ret_text, 1, FILE_BYTES_MAX + 1, file);
    const bool failed = ferror(file);
    if (fstat(fileno(file), &about) == 0 && about.st_mode & S_IROTH)
        hs__log("warning", "--token-file '%s' can be read by all users of this machine; run chmod o-r on it",
                path);
    fclose(file);
    if (failed || n > FILE_BYTES_MAX || memchr(ret_text, '\0', n))
        return hs_fail(err, HS_IO, "--token-file '%s' is not a text file of at most %d bytes", path,
                       FILE_BYTES_MAX);
    return HS_OK;
}

hs_status hs__tokens_read(const char *path, char **ret_tokens, hs_error *err)
{
    char *text = calloc(1, FILE_BYTES_MAX + 2);
    if (!text)
        return hs_fail(err, HS_NO_MEMORY, "no memory to read '%s'", path);
    hs_status st = text_read(path, text, err);
    if (!st)
        st = tokens_keep(path, text, err);
    if (st)
        free(text);
    else
        *ret_tokens = text;
    return st;
}

bool hs__tokens_match(const char *authorization, const char *tokens)
{
    bool matches = false;
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
        return false;
    const char *given = authorization + 7;
    const size_t n_given = strlen(given);
    for (const char *token = tokens; *token; token += *token == '\n') {
        const size_t n_token = strcspn(token, "\n");
        matches |= n_token == n_given && memeql_sec(given, token, n_token);
        token += n_token;
    }
    return matches;
}
