#include "server/base/log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096, FIELD_MAX_BYTES = 1024 };

static bool log_json;
static atomic_uint_fast64_t lines_dropped;

void hs__log_start(bool json)
{
    log_json = json;
}

uint64_t hs__log_dropped(void)
{
    return atomic_load(&lines_dropped);
}

static void line_write(const char *line, int n_bytes)
{
    const size_t size = n_bytes < LINE_MAX_BYTES ? (size_t)n_bytes : LINE_MAX_BYTES - 1;
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    /* A pipe polls writable when PIPE_BUF bytes fit, so this write cannot block. */
    if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT) || write(STDERR_FILENO, line, size) < 0)
        atomic_fetch_add(&lines_dropped, 1);
}

static const char *now(char ret_time[40])
{
    struct timespec t;
    struct tm parts;
    char seconds[24];
    clock_gettime(CLOCK_REALTIME, &t);
    strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", gmtime_r(&t.tv_sec, &parts));
    snprintf(ret_time, 40, "%s.%03ldZ", seconds, t.tv_nsec / 1000000);
    return ret_time;
}

/* Printable ASCII as it is, everything else as \u00XX: valid in JSON, and harmless on a terminal. */
static const char *escaped(const char *text, char ret_text[FIELD_MAX_BYTES])
{
    char *out = ret_text;
    for (; *text && out < ret_text + FIELD_MAX_BYTES - 7; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < ' ' || c > '~' || c == '"' || c == '\\')
            out += sprintf(out, "\\u%04x", c);
        else
            *out++ = (char)c;
    }
    *out = '\0';
    return ret_text;
}

void hs__log(const char *level, const char *format, ...)
{
    char message[FIELD_MAX_BYTES], safe[FIELD_MAX_BYTES], time[40], line[LINE_MAX_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    line_write(line,
               snprintf(line, sizeof line,
                        log_json ? "{\"time\":\"%s\",\"level\":\"%s\",\"message\":\"%s\"}\n" : "%s %s %s\n",
                        now(time), level, log_json ? escaped(message, safe) : message));
}

void hs__log_access(const hs_access *access)
{
    static const char json[] = "{\"time\":\"%s\",\"level\":\"info\",\"client\":\"%s\",\"method\":\"%s\","
                               "\"path\":\"%s\",\"status\":%d,\"bytes_in\":%llu,\"bytes_out\":%llu,"
                               "\"ms\":%.3f,\"stages\":\"%s\",\"id\":\"%s\"}\n";
    static const char text[] = "%s %s %s %s %d in=%llu out=%llu ms=%.3f%s%s id=%s\n";
    char method[FIELD_MAX_BYTES], path[FIELD_MAX_BYTES], time[40], line[LINE_MAX_BYTES];
    const unsigned long long in = access->bytes_in, out = access->bytes_out;
    int n;
    now(time);
    escaped(access->method, method);
    escaped(access->path, path);
    if (log_json)
        n = snprintf(line, sizeof line, json, time, access->client, method, path, access->status, in, out,
                     access->total_ms, access->stages, access->id);
    else
        n = snprintf(line, sizeof line, text, time, access->client, method, path, access->status, in, out,
                     access->total_ms, *access->stages ? " " : "", access->stages, access->id);
    line_write(line, n);
}
