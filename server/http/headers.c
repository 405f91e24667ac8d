#include "server/http/headers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

const char *hs__header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

typedef struct framing {
    int n_hosts, n_lengths, n_transfers;
    bool transfer_unknown, odd_name;
} framing;

static enum MHD_Result framing_count(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    framing *seen = cls;
    (void)kind;
    if (strcasecmp(name, "Host") == 0) {
        seen->n_hosts++;
    } else if (strcasecmp(name, "Content-Length") == 0) {
        seen->n_lengths++;
    } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        seen->n_transfers++;
        seen->transfer_unknown |= !value || strcasecmp(value, "chunked") != 0;
    }
    /* "Content-Length : 5" is another header here and may be the body's length elsewhere. */
    seen->odd_name |= !*name || name[strcspn(name, " \t\r\n\v\f\"(),/:;<=>?@[\\]{}")] != '\0';
    return MHD_YES;
}

const char *hs__headers_suspicious(struct MHD_Connection *connection, const char *version)
{
    framing seen = {0};
    MHD_get_connection_values(connection, MHD_HEADER_KIND, framing_count, &seen);
    if (seen.odd_name)
        return "a header's name is malformed";
    if (seen.n_hosts > 1 || (seen.n_hosts == 0 && strcmp(version, "HTTP/1.1") == 0))
        return "there must be exactly one Host header";
    if (seen.n_lengths > 1)
        return "there is more than one Content-Length header";
    if (seen.n_lengths && seen.n_transfers)
        return "Content-Length and Transfer-Encoding exclude each other";
    if (seen.n_transfers > 1 || seen.transfer_unknown)
        return "the only Transfer-Encoding is chunked";
    return NULL;
}

bool hs__request_id_valid(const char *id)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const size_t n = strspn(id, allowed);
    return n && n <= HS_REQUEST_ID_MAX && !id[n];
}

void hs__request_id_make(char ret_id[HS_REQUEST_ID_MAX + 1])
{
    unsigned long long number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        number = (unsigned long long)now.tv_sec * 1000000000ULL + (unsigned long long)now.tv_nsec;
    }
    snprintf(ret_id, HS_REQUEST_ID_MAX + 1, "%016llx", number);
}

bool hs__accepts_gzip(const char *accept_encoding)
{
    for (const char *at = accept_encoding; at && *at;) {
        at += strspn(at, ", \t");
        const size_t name = strcspn(at, ",; \t"), item = strcspn(at, ",");
        if ((name == 4 && strncasecmp(at, "gzip", 4) == 0) || (name == 1 && *at == '*')) {
            const char *weight = memchr(at, '=', item);
            return !weight || strtod(weight + 1, NULL) > 0;
        }
        at += item;
    }
    return false;
}

bool hs__etag_matches(const char *if_none_match, const char *etag)
{
    const size_t n = strlen(etag);
    for (const char *at = if_none_match; at && *at;) {
        at += strspn(at, ", \t");
        if (*at == '*')
            return true;
        at += strncmp(at, "W/", 2) == 0 ? 2 : 0;
        const size_t item = strcspn(at, ", \t");
        if (item == n && memcmp(at, etag, n) == 0)
            return true;
        at += item;
    }
    return false;
}

/* 0 when equal; always walks the whole of given. */
static unsigned difference(const char *given, size_t n_given, const char *token, size_t n_token)
{
    unsigned different = n_given != n_token;
    for (size_t i = 0; i < n_given; i++)
        different |= (unsigned char)given[i] ^ (unsigned char)token[i % n_token];
    return different;
}

bool hs__bearer_matches(const char *authorization, const char *tokens)
{
    bool matches = false;
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
        return false;
    const char *given = authorization + 7;
    const size_t n_given = strlen(given);
    for (const char *token = tokens; *token; token += strspn(token, " \t\r\n")) {
        const size_t n_token = strcspn(token, " \t\r\n");
        matches |= n_token && difference(given, n_given, token, n_token) == 0;
        token += n_token;
    }
    return matches;
}
