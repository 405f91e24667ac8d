/* stream.h - an answer whose bytes are made by disk calls, piece by piece: a file, or events as they happen.
 */
#pragma once

#include "server/http/exchange.h"

#define HS_STREAM_END (-1)

/* What a stream asks; everything is called with its data. */
typedef struct hs_stream_source {
    /* In a disk call: up to n_max bytes into `to`; 0: none yet, ask again in a while; HS_STREAM_END. */
    ssize_t (*fill)(void *data, char *to, size_t n_max);
    void (*end)(void *data); /* on the loop: frees it; long waits are not for here */
    void *data;
} hs_stream_source;

/* The answer's body; n_bytes: how long it will be, MHD_SIZE_UNKNOWN for as long as it lasts. In a disk call
 * or on the loop. Takes the source's data, whatever comes; NULL when memory is short. */
struct MHD_Response *hs__stream_create(hs_exchange *exchange, uint64_t n_bytes,
                                       const hs_stream_source *source);
