/* log.h - lines on stderr, as text for people or JSON for machines. Only server/ logs.
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

typedef struct hs_access {
    const char *id, *method, *path, *client;
    int status;
    uint64_t bytes_in, bytes_out;
    double total_ms;
    const char *stages; /* in Server-Timing's format, or "" */
} hs_access;

void hs__log_access(const hs_access *access);

uint64_t hs__log_dropped(void); /* lines */
