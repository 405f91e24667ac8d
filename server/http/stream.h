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

/* ---- answers with server-sent events: some JSON, again whenever it changed. */

/* Disk call: returns the JSON of what the id names, which the caller releases. Sets *ret_over if it will not
 * change again. NULL ends the events. */
typedef json_t *hs_event_read(hs_server *server, const char *id, bool *ret_over);

/* Answers with events, at most one in 250 ms and a comment after 15 s without one, until the JSON is over.
 * Refuses if memory is short. Copies id. Loop thread or disk call. */
void hs__events_answer(hs_exchange *exchange, hs_event_read *read, const char *id);

/* ---- answers a body of lines, each a request, with a stream of lines in the same order.
 *
 * The body is cut into chunks of some lines, each a task. One chunk more than there are workers is computed
 * ahead. So memory is bounded by the chunks, not by the body. The deadline applies to each chunk. If the
 * client leaves, all chunks are cancelled. */

/* Answers a complete request for which hs_request_is_lines returned true. */
void hs__line_stream_begin(hs_exchange *exchange);
