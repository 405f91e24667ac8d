/* stream.c - a buffer between disk calls and libmicrohttpd's reader.
 *
 * The connection is suspended while a disk call fills the buffer and while the source has no data; otherwise
 * libmicrohttpd would ask again at once.
 *
 * libmicrohttpd ignores suspended connections, so the stream itself detects a client that left between two
 * calls. */
#include "server/http/stream.h"

#include <stdlib.h>
#include <string.h>

enum { STREAM_BYTES = 128 << 10, AGAIN_MS = 250, PIECE_MS = 30000 };

typedef struct stream {
    hs_exchange *x;
    hs_stream_source source;
    hs_disk_call call;
    uv_timer_t timer; /* until the next call of `fill` */
    bool timed;       /* the timer is initialised */
    bool abandoned;   /* the client left */
    ssize_t n_filled; /* bytes in the buffer, or HS_STREAM_END */
    size_t n_sent;    /* of n_filled */
    char buffer[STREAM_BYTES];
} stream;

static void run(hs_disk_call *call)
{
    stream *s = call->data;
    s->n_filled = s->source.fill(s->source.data, s->buffer, sizeof s->buffer);
}

static void on_again(uv_timer_t *timer)
{
    stream *s = timer->data;
    hs__connection_unwatch(s->x->connection);
    hs__disk_continue(&s->x->server->disk, &s->call);
}

/* Ends the stream if the client leaves between two disk calls. */
static void on_departure(hs_exchange *x, hs_work_end why)
{
    stream *s = x->user_data;
    (void)why;
    s->abandoned = true;
    uv_timer_stop(&s->timer);
    hs__exchange_resume(x);
}

static void done(hs_disk_call *call)
{
    stream *s = call->data;
    hs_server *server = s->x->server;
    if (!s->n_filled && server->state >= HS_SERVER_DRAINING)
        s->n_filled = HS_STREAM_END;
    if (!s->n_filled) {
        uv_timer_start(&s->timer, on_again, AGAIN_MS, 0);
        hs__connection_watch(s->x->connection, on_departure);
        return;
    }
    hs__exchange_resume(s->x);
    hs__connection_expect_reader(s->x->connection, PIECE_MS);
}

static void refill(stream *s)
{
    s->n_sent = 0;
    s->n_filled = 0;
    s->call = (hs_disk_call){
        .work.client = &s->x->connection->peer->disk_calls, .run = run, .done = done, .data = s};
    if (!s->timed) {
        uv_timer_init(&s->x->server->loop, &s->timer);
        s->timer.data = s;
        s->timed = true;
    }
    hs__exchange_suspend(s->x);
    hs__disk_continue(&s->x->server->disk, &s->call);
}

static ssize_t on_read(void *cls, uint64_t position, char *to, size_t n_max)
{
    stream *s = cls;
    (void)position;
    if (s->abandoned)
        return MHD_CONTENT_READER_END_WITH_ERROR;
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

/* The exchange ended, before or after libmicrohttpd released the response. */
static void on_exchange_end(void *user_data)
{
    stream *s = user_data;
    s->x = NULL;
}

/* libmicrohttpd released the response. No disk call is running, because it would have suspended the
 * connection. */
static void on_end(void *cls)
{
    stream *s = cls;
    if (s->x)
        s->x->user_data = NULL;
    s->source.end(s->source.data);
    if (s->timed)
        uv_close((uv_handle_t *)&s->timer, on_timer_closed);
    else
        free(s);
}

/* Returns NULL if it refused the exchange. */
static stream *stream_create(hs_exchange *x, const hs_stream_source *source)
{
    if (!hs__exchange_reserve(x, sizeof(stream))) {
        hs__exchange_refuse_now(x, HS_MEMORY_IN_USE);
        return NULL;
    }
    stream *s = calloc(1, sizeof *s);
    if (!s) {
        hs__exchange_refuse_memory(x);
        return NULL;
    }
    s->x = x;
    s->source = *source;
    return s;
}

void hs__stream_begin(hs_exchange *x, uint64_t n_bytes, const hs_stream_source *source)
{
    stream *s = stream_create(x, source);
    if (!s) {
        source->end(source->data);
        return;
    }
    x->prepared = MHD_create_response_from_callback(n_bytes, STREAM_BYTES, on_read, s, on_end);
    if (!x->prepared) {
        source->end(source->data);
        free(s);
        hs__exchange_refuse_memory(x);
        return;
    }
    x->prepared_bytes = sizeof *s;
    x->user_data = s;
    x->user_data_free = on_exchange_end;
    /* Without chunked encoding: libmicrohttpd 0.9.75 sends the last, empty chunk even in the answer to HEAD.
     */
    if (x->head && n_bytes == MHD_SIZE_UNKNOWN)
        MHD_set_response_options(x->prepared, MHD_RF_HTTP_VERSION_1_0_ONLY, MHD_RO_END);
}
