/* stream.c - libmicrohttpd reads from a buffer; when that is empty the connection sleeps until a disk call
 * has filled it again. Returning nothing without sleeping would spin. */
#include "server/http/stream.h"

#include "server/http/loop.h"

#include <stdlib.h>
#include <string.h>

enum { STREAM_BYTES = 128 << 10, AGAIN_MS = 250, PIECE_MS = 30000 };

typedef struct stream {
    hs_exchange *x;
    hs_stream_source source;
    hs_disk_call call;
    uv_timer_t timer; /* until it is asked again */
    bool timed;       /* the timer was made */
    ssize_t n_filled; /* of buffer, or HS_STREAM_END */
    size_t n_sent;    /* of these */
    char buffer[STREAM_BYTES];
} stream;

static void work(hs_disk_call *call)
{
    stream *s = call->data;
    s->n_filled = s->source.fill(s->source.data, s->buffer, sizeof s->buffer);
}

static void on_again(uv_timer_t *timer)
{
    stream *s = timer->data;
    hs__disk_submit(&s->x->server->disk, &s->call);
}

static void done(hs_disk_call *call)
{
    stream *s = call->data;
    hs_server *server = s->x->server;
    if (!s->n_filled && server->state >= HS_DRAINING)
        s->n_filled = HS_STREAM_END;
    if (!s->n_filled) {
        uv_timer_start(&s->timer, on_again, AGAIN_MS, 0);
        return;
    }
    hs__exchange_resume(s->x);
    hs__connection_expect_reader(s->x->connection, PIECE_MS);
}

static void refill(stream *s)
{
    s->n_sent = 0;
    s->n_filled = 0;
    s->call = (hs_disk_call){.work = work, .done = done, .data = s};
    if (!s->timed) {
        uv_timer_init(&s->x->server->loop, &s->timer);
        s->timer.data = s;
        s->timed = true;
    }
    hs__exchange_suspend(s->x);
    hs__disk_submit(&s->x->server->disk, &s->call);
}

static ssize_t on_read(void *cls, uint64_t position, char *to, size_t n_max)
{
    stream *s = cls;
    (void)position;
    hs__loop_progress(s->x->server);
    if (s->n_filled == HS_STREAM_END)
        return MHD_CONTENT_READER_END_OF_STREAM;
    const size_t left = (size_t)s->n_filled - s->n_sent, n = left < n_max ? left : n_max;
    if (!left) {
        refill(s);
        return 0;
    }
    memcpy(to, s->buffer + s->n_sent, n);
    s->n_sent += n;
    return (ssize_t)n;
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* No call is under way: the connection would be suspended. */
static void on_end(void *cls)
{
    stream *s = cls;
    s->source.end(s->source.data);
    if (s->timed)
        uv_close((uv_handle_t *)&s->timer, on_timer_closed);
    else
        free(s);
}

struct MHD_Response *hs__stream_create(hs_exchange *x, uint64_t n_bytes, const hs_stream_source *source)
{
    stream *s = calloc(1, sizeof *s);
    struct MHD_Response *response =
        s ? MHD_create_response_from_callback(n_bytes, STREAM_BYTES, on_read, s, on_end) : NULL;
    if (!response) {
        free(s);
        source->end(source->data);
        return NULL;
    }
    s->x = x;
    s->source = *source;
    return response;
}
