/* log.h - lines on stderr, as text for people or a JSON object each for machines. Only server/ logs.
 *
 * A line is one write of at most 4096 bytes (PIPE_BUF, so lines never mix). When nobody reads the pipe the
 * line is dropped and counted instead of stopping the server. Any thread. */
#pragma once

#include "model/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void hs__log_start(bool json);

void hs__log(const char *level, const char *format, ...) HS_PRINTF(2, 3); /* "info", "warning", "error" */

/* One more thing that a line tells: name="text" or name=number, members of the object in JSON. */
typedef struct hs_log_field {
    const char *name;
    const char *text; /* NULL: the number */
    double number;
} hs_log_field;

void hs__log_fields(const char *level, const char *message, const hs_log_field *fields, size_t n_fields);

uint64_t hs__log_dropped(void); /* lines */
