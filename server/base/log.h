/* log.h - log lines on standard error, as text or as one JSON object each. Only server/ logs.
 *
 * A line is one write of at most 4096 bytes (PIPE_BUF), so lines never mix. If the pipe is full, the line is
 * dropped and counted, and the server goes on. Any thread. */
#pragma once

#include "model/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void hs__log_start(bool json);

void hs__log(const char *level, const char *format, ...) HS_PRINTF(2, 3); /* "info", "warning", "error" */

/* One field of a line: name="text" or name=number; a member of the object in JSON. */
typedef struct hs_log_field {
    const char *name;
    const char *text; /* NULL: the field is the number */
    double number;
} hs_log_field;

/* Logs a message and its fields as "info". */
void hs__log_fields(const char *message, const hs_log_field *fields, size_t n_fields);

uint64_t hs__log_dropped(void); /* lines */
