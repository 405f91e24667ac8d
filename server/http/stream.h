/* stream.h - an answer whose bytes come from disk calls, piece by piece: a file, or events. */
#pragma once

#include "server/http/exchange.h"

#define HS_STREAM_END (-1)

/* The source of a stream; each function gets its data. */
typedef struct hs_stream_source {
    /* Disk call: writes up to n_max bytes and returns their number, 0 if there are none yet, or
     * HS_STREAM_END. */
    ssize_t (*fill)(void *data, char *to, size_t n_max);
    void (*end)(void *data); /* called on the loop to free data; must not block */
    void *data;
} hs_stream_source;

/* Answers with the bytes of the source: sets exchange->prepared, or refuses if memory is short. n_bytes is
 * the length, or MHD_SIZE_UNKNOWN if the source decides. The buffer counts as the client's memory. Loop
 * thread or disk call. Always consumes the source's data. */
void hs__stream_begin(hs_exchange *exchange, uint64_t n_bytes, const hs_stream_source *source);
