/* stream.c - answers that come piece by piece: bytes, events, lines. */
#include "server/http/stream.h"

#include "model/base/clock.h"
#include "model/files/json.h"
#include "server/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- stream ----
 *
 * A buffer between disk calls and libmicrohttpd's reader.
 *
 * The connection is suspended while a disk call fills the buffer and while the source has no data; otherwise
 * libmicrohttpd would ask again at once.
 *
 * libmicrohttpd ignores suspended connections, so the stream itself detects a client that left between two
 * calls. */

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

/* ---- events ----
 *
 * A stream that compares the JSON with the last event. */

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
    char *text = json ? hs_json_text(json, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
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

/* ---- line stream ----
 *
 * A ring of chunks between the workers and libmicrohttpd's reader.
 *
 * Memory that a worker uses outlives the exchange, because no thread waits for a worker when a client leaves.
 */

enum {
    CHUNKS_MAX = 8,
    BLOCK_BYTES = 64 << 10, /* buffer of libmicrohttpd */
    READER_MS = 30000,
    READER_BYTES_PER_S = 262144,
};

typedef struct line_stream line_stream;

/* A group of lines; body[at, end) is still to be answered. */
typedef struct chunk {
    line_stream *stream;
    hs_task task; /* its response is being sent */
    size_t at, end;
    size_t number; /* line number of `at`, from 1 */
    bool running;
    size_t n_sent;
    size_t n_reserved; /* owned by the worker while it runs */
} chunk;

struct line_stream {
    hs_server *server;
    hs_exchange *x; /* NULL after the exchange ended */
    hs_peer *peer;
    char id[HS_REQUEST_ID_MAX + 1];
    char *body;
    size_t n_body, n_reserved; /* reserved for the body */
    size_t at, number;         /* of the first line without a chunk */
    size_t n_chunks_max, first, n_chunks, n_running;
    bool sleeping; /* the connection is suspended until the first chunk is answered */
    bool broken;
    bool released; /* libmicrohttpd released the response; the last running chunk frees the stream */
    chunk chunks[CHUNKS_MAX];
};

static void stream_destroy(line_stream *s)
{
    for (size_t i = 0; i < CHUNKS_MAX; i++) {
        hs_response_finish(&s->chunks[i].task.response);
        hs__client_memory_replace(&s->peer->budget, &s->chunks[i].n_reserved, 0);
    }
    hs__client_memory_replace(&s->peer->budget, &s->n_reserved, 0);
    hs__peer_leave(&s->server->peers, s->peer);
    free(s->body);
    free(s);
}

/* ---- chunks ---- */

static bool is_first(const chunk *c)
{
    return c == &c->stream->chunks[c->stream->first];
}

/* Replaces what is reserved for the answer. */
static void chunk_reserve_only(chunk *c, size_t n_bytes)
{
    hs__client_memory_replace(&c->stream->peer->budget, &c->n_reserved, n_bytes);
}

/* Reserves memory for an answer; called on the worker. Chunks computed ahead may use half of the client's
 * limit, so that the first chunk can always go on. */
static bool chunk_reserve(void *data, size_t n_bytes)
{
    chunk *c = data;
    hs_client_memory *budget = &c->stream->peer->budget;
    if (!hs__client_memory_take(budget, n_bytes))
        return false;
    c->n_reserved += n_bytes;
    if (!c->task.patient || atomic_load(&budget->n_bytes) <= budget->max / 2)
        return true;
    chunk_reserve_only(c, c->n_reserved - n_bytes);
    return false;
}

static void wake(line_stream *s)
{
    if (!s->sleeping)
        return;
    s->sleeping = false;
    hs__exchange_resume(s->x);
    hs__connection_expect_reader(s->x->connection, READER_MS);
}

/* The worker or the queue returned the task. */
static void on_chunk_done(hs_task *task)
{
    chunk *c = task->data;
    line_stream *s = c->stream;
    const hs_response *r = &task->response;
    c->running = false;
    s->n_running--;
    for (size_t i = 0; i < task->n_bytes; i++)
        c->number += s->body[c->at + i] == '\n';
    c->at += task->n_bytes;
    s->server->metrics.tokens += r->n_tokens;
    if (*r->error.text)
        hs__log("error", "request %s: %s", s->id, r->error.text);
    s->broken |= r->status == MHD_HTTP_INTERNAL_SERVER_ERROR || task->work.end == HS_WORK_ABANDONED;
    chunk_reserve_only(c, r->body_bytes); /* instead of an upper bound */
    if (s->released && s->n_running == 0)
        stream_destroy(s);
    else if (s->x && (s->broken || is_first(c)))
        wake(s);
}

/* Submits a chunk. Returns false if the queue is full and nothing of the stream was admitted before. */
static bool chunk_submit(chunk *c)
{
    line_stream *s = c->stream;
    c->n_sent = 0;
    c->task.n_bytes = 0;
    c->task.patient = !is_first(c);
    c->task.request = (hs_request){.operation = HS_ANALYZE,
                                   .id = s->id,
                                   .line = c->number,
                                   .body = s->body + c->at,
                                   .body_bytes = c->end - c->at,
                                   .hold = chunk_reserve,
                                   .hold_data = c};
    c->running = hs__tasks_submit(&s->server->tasks, &c->task);
    c->task.work.admitted |= c->running; /* the rest of its lines is never refused */
    s->n_running += c->running;
    return c->running;
}

/* Makes a chunk of the next lines if there are any and the ring has a free place. Returns false as
 * chunk_submit. */
static bool chunk_add(line_stream *s, bool admitted)
{
    if (s->at == s->n_body || s->n_chunks == s->n_chunks_max)
        return true;
    chunk *c = &s->chunks[(s->first + s->n_chunks) % s->n_chunks_max];
    *c = (chunk){.stream = s,
                 .task = {.done = on_chunk_done,
                          .data = c,
                          .lines = true,
                          .work = {.client = &s->peer->tasks, .admitted = admitted}},
                 .at = s->at,
                 .number = s->number};
    for (size_t n = 0; n < HS_CHUNK_LINES && s->at < s->n_body && s->at - c->at < HS_CHUNK_BYTES; n++) {
        const char *end = memchr(s->body + s->at, '\n', s->n_body - s->at);
        s->at = end ? (size_t)(end - s->body) + 1 : s->n_body;
        s->number++;
    }
    c->end = s->at;
    s->n_chunks++;
    return chunk_submit(c);
}

/* ---- the reader ---- */

static void end(hs_exchange *x, hs_work_end why);

static void sleep_until_first(line_stream *s)
{
    s->sleeping = true;
    hs__exchange_suspend(s->x);
    hs__connection_watch(s->x->connection, end);
    hs__connection_expect(s->x->connection, s->server->options->deadline_ms);
}

/* Copies a piece of the first chunk's answers and extends the reader's deadline accordingly. Returns its
 * size; 0 if the chunk has nothing to send. */
static size_t chunk_send(chunk *c, char *to, size_t n_max)
{
    hs_response *r = &c->task.response;
    const size_t left = c->running ? 0 : r->body_bytes - c->n_sent, n = left < n_max ? left : n_max;
    if (n == 0)
        return 0;
    memcpy(to, r->body + c->n_sent, n);
    c->n_sent += n;
    c->stream->x->connection->sent_by_ms += 1000 * (uint64_t)n / READER_BYTES_PER_S;
    c->stream->x->response.body_bytes += n; /* for the log */
    if (n == left) {
        hs_response_finish(r);
        c->n_sent = 0;
        chunk_reserve_only(c, 0);
    }
    return n;
}

static ssize_t on_lines_read(void *cls, uint64_t position, char *to, size_t n_max)
{
    line_stream *s = cls;
    (void)position;
    while (!s->broken && s->n_chunks > 0) {
        chunk *c = &s->chunks[s->first];
        const size_t n = chunk_send(c, to, n_max);
        if (n > 0)
            return (ssize_t)n;
        if (!c->running && c->at < c->end)
            chunk_submit(c);
        if (c->running) {
            sleep_until_first(s);
            return 0;
        }
        s->first = (s->first + 1) % s->n_chunks_max;
        s->n_chunks--;
        chunk_add(s, true);
    }
    return s->broken ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM;
}

/* Ends the wait for the first chunk. If the client left, the stream breaks. At the deadline a running chunk
 * is cancelled, so that its remaining lines get 504; a queued one keeps waiting. */
static void end(hs_exchange *x, hs_work_end why)
{
    line_stream *s = x->user_data;
    chunk *c = &s->chunks[s->first];
    if (why == HS_WORK_ABANDONED) {
        x->task.work.end = why;
        s->broken = true;
        wake(s);
        return;
    }
    hs__connection_expect(x->connection, s->server->options->deadline_ms);
    if (c->task.work.state == HS_WORK_RUNNING)
        hs__tasks_cancel(&c->task, why);
}

/* The exchange ended, before or after libmicrohttpd released the response. */
static void on_lines_exchange_end(void *user_data)
{
    line_stream *s = user_data;
    s->x = NULL;
}

/* libmicrohttpd released the response: it was sent, or the connection is closed. */
static void on_lines_end(void *cls)
{
    line_stream *s = cls;
    if (s->x)
        s->x->user_data = NULL;
    s->x = NULL;
    for (size_t i = 0; i < CHUNKS_MAX; i++)
        hs__tasks_cancel(&s->chunks[i].task, HS_WORK_ABANDONED); /* returns queued chunks at once */
    s->released = true;
    if (s->n_running == 0)
        stream_destroy(s);
}

/* ---- the beginning ---- */

/* Takes the exchange's body. Returns NULL if memory is short. */
static line_stream *line_stream_create(hs_exchange *x)
{
    line_stream *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    const size_t n_ahead = x->server->options->n_workers + 1;
    s->server = x->server;
    s->x = x;
    s->peer = x->connection->peer;
    s->n_chunks_max = n_ahead < CHUNKS_MAX ? n_ahead : CHUNKS_MAX;
    s->number = 1;
    memcpy(s->id, x->id, sizeof s->id);
    s->body = x->body;
    s->n_body = x->body_bytes;
    x->body = NULL;
    /* The exchange returns its own reservation when it replies. */
    hs__client_memory_replace(&s->peer->budget, &s->n_reserved, x->body_capacity);
    hs__peer_join_again(s->peer);
    return s;
}

void hs__line_stream_begin(hs_exchange *x)
{
    hs_response refused;
    if (hs_lines_refused(&x->task.request, &refused)) {
        x->response = refused;
        x->answered = true;
        return;
    }
    line_stream *s = line_stream_create(x);
    if (!s) {
        hs__exchange_refuse_memory(x);
        return;
    }
    if (!chunk_add(s, false)) {
        hs__exchange_refuse_now(x, HS_QUEUE_IS_FULL);
        stream_destroy(s);
        return;
    }
    while (s->n_chunks < s->n_chunks_max && s->at < s->n_body)
        chunk_add(s, true);
    x->user_data = s;
    x->user_data_free = on_lines_exchange_end;
    x->prepared =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, on_lines_read, s, on_lines_end);
    if (x->prepared) {
        hs__exchange_answer(x, MHD_HTTP_OK, "application/x-ndjson", NULL, 0, true);
    } else {
        on_lines_end(s);
        hs__exchange_refuse_memory(x);
    }
}
