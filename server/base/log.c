/* log.c - formats each line on the stack and writes it with one call, or drops it. */
#include "server/base/log.h"

#include "server/base/printable.h"

#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 4096, FIELD_BYTES = 1024, END_BYTES = 3 /* of a line: "}", its end, NUL */ };

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

typedef struct line {
    char text[LINE_BYTES];
    size_t n_bytes;
} line;

/* Appends formatted text. Leaves out text that does not fit as a whole. */
static void line_add(line *l, const char *format, ...) HS_PRINTF(2, 3);
static void line_add(line *l, const char *format, ...)
{
    const size_t capacity = sizeof l->text - END_BYTES - l->n_bytes;
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(l->text + l->n_bytes, capacity, format, args);
    va_end(args);
    if (n > 0 && (size_t)n < capacity)
        l->n_bytes += (size_t)n;
}

static void line_write(line *l)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (log_json)
        l->text[l->n_bytes++] = '}';
    l->text[l->n_bytes++] = '\n';
    /* A pipe polls writable when PIPE_BUF bytes fit, so this write cannot block. */
    if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT) || write(STDERR_FILENO, l->text, l->n_bytes) < 0)
        atomic_fetch_add(&lines_dropped, 1);
}

/* Copies printable ASCII and writes all other bytes as \u00XX: valid in JSON and harmless on a terminal. */
static const char *escaped(const char *text, char ret_text[FIELD_BYTES])
{
    char *out = ret_text;
    for (; *text && out < ret_text + FIELD_BYTES - 7; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < ' ' || c > '~' || c == '"' || c == '\\')
            out += sprintf(out, "\\u%04x", c);
        else
            *out++ = (char)c;
    }
    *out = '\0';
    return ret_text;
}

/* Begins a line with the time, the level and the message. The message may quote a client: a line end in it
 * must not begin another line. */
static void line_begin(line *l, const char *level, const char *message)
{
    struct timespec t;
    struct tm parts;
    char seconds[24], safe[FIELD_BYTES];
    l->n_bytes = 0;
    clock_gettime(CLOCK_REALTIME, &t);
    strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", gmtime_r(&t.tv_sec, &parts));
    line_add(l, log_json ? "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"message\":\"%s\"" : "%s.%03ldZ %s %s",
             seconds, t.tv_nsec / 1000000, level,
             log_json ? escaped(message, safe) : hs__printable(message, safe, sizeof safe));
}

/* Appends a field. Prints integers without, other numbers with three decimal places. */
static void field_add(line *l, const hs_log_field *field)
{
    char safe[FIELD_BYTES];
    if (field->text)
        line_add(l, log_json ? ",\"%s\":\"%s\"" : " %s=%s", field->name, escaped(field->text, safe));
    else
        line_add(l, log_json ? ",\"%s\":%.*f" : " %s=%.*f", field->name,
                 field->number == floor(field->number) ? 0 : 3, field->number);
}

void hs__log(const char *level, const char *format, ...)
{
    char message[FIELD_BYTES];
    line l;
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    line_begin(&l, level, message);
    line_write(&l);
}

void hs__log_fields(const char *message, const hs_log_field *fields, size_t n_fields)
{
    line l;
    line_begin(&l, "info", message);
    for (size_t i = 0; i < n_fields; i++)
        field_add(&l, &fields[i]);
    line_write(&l);
}
