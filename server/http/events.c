/* events.c - a stream (stream.h) that compares the JSON with the last event. */
#include "server/http/events.h"

#include "model/base/clock.h"
#include "server/http/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENT_MS = 250, HEARTBEAT_MS = 15000 };

/* State of one client that watches. */
typedef struct watcher {
    hs_server *server;
    hs_event_read *read;
    char *last; /* last event; NULL: none yet */
    uint64_t sent_ns;
    bool over;
    char id[];
} watcher;

/* Writes the next event if the JSON changed and the last event is EVENT_MS ago. */
static ssize_t fill(void *data, char *to, size_t n_max)
{
    watcher *w = data;
    const uint64_t now = hs_clock_ns(), quiet_ms = (now - w->sent_ns) / 1000000;
    if (w->over)
        return HS_STREAM_END;
    if (w->last && quiet_ms < EVENT_MS)
        return 0;
    json_t *json = w->read(w->server, w->id, &w->over);
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    int n = 0;
    if (text && (!w->last || strcmp(text, w->last) != 0))
        n = snprintf(to, n_max, "data: %s\n\n", text);
    else if (!text || w->over)
        n = HS_STREAM_END;
    else if (quiet_ms >= HEARTBEAT_MS) /* detects clients that left */
        n = snprintf(to, n_max, ":\n\n");
    json_decref(json);
    free(w->last);
    w->last = text;
    if (n > 0)
        w->sent_ns = now;
    return n < (int)n_max ? n : HS_STREAM_END;
}

static void watcher_end(void *data)
{
    watcher *w = data;
    free(w->last);
    free(w);
}

void hs__events_answer(hs_exchange *x, hs_event_read *read, const char *id)
{
    const size_t n = strlen(id) + 1;
    const hs_stream_source source = {fill, watcher_end, calloc(1, sizeof(watcher) + n)};
    watcher *w = source.data;
    if (!w) {
        hs__exchange_refuse_memory(x);
        return;
    }
    w->server = x->server;
    w->read = read;
    memcpy(w->id, id, n);
    hs__stream_begin(x, MHD_SIZE_UNKNOWN, &source);
    if (!x->prepared)
        return;
    x->close = true; /* the stream ends with the connection */
    hs__exchange_answer(x, MHD_HTTP_OK, "text/event-stream", NULL, 0, true);
}
