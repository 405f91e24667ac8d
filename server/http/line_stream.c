/* line_stream.c - a ring of chunks between the workers and libmicrohttpd's reader. What a worker touches
 * outlives the exchange, for nobody waits for a worker when a client leaves. */
#include "server/http/line_stream.h"

#include "server/base/log.h"
#include "server/http/loop.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHUNKS_MAX = 8,
    CHUNK_LINES = 16,
    CHUNK_BYTES = 16 << 10, /* of the body: a longer line is a chunk of its own */
    BLOCK_BYTES = 64 << 10, /* that libmicrohttpd reads at once */
    READER_MS = 30000,
    READER_BYTES_PER_S = 262144,
};

typedef struct line_stream line_stream;

/* Some lines: [at, end) of the body are still to be answered. */
typedef struct chunk {
    line_stream *stream;
    hs_task task; /* its response is what is being sent */
    size_t at, end;
    size_t number; /* of the line at `at`, from 1 */
    bool running;
    size_t n_sent;
    size_t n_held; /* the worker's while it runs */
} chunk;

struct line_stream {
    hs_server *server;
    hs_exchange *x; /* NULL: it is gone */
    hs_peer *peer;
    char id[HS_REQUEST_ID_MAX + 1];
    char *body;
    size_t n_body, n_held; /* held for it */
    size_t at, number;     /* of the first line that is no chunk's yet */
    size_t n_chunks_max, first, n_chunks, n_running;
    bool sleeping; /* the connection, until the first chunk has something */
    bool broken;
    chunk chunks[CHUNKS_MAX];
};

static void stream_destroy(line_stream *s)
{
    for (size_t i = 0; i < CHUNKS_MAX; i++) {
        hs_response_finish(&s->chunks[i].task.response);
        hs__held_give_back(&s->peer->held, s->chunks[i].n_held);
    }
    hs__held_give_back(&s->peer->held, s->n_held);
    hs__peer_leave(&s->server->peers, s->peer);
    free(s->body);
    free(s);
}

/* ---- chunks ---- */

static bool is_first(const chunk *c)
{
    return c == &c->stream->chunks[c->stream->first];
}

/* On the worker: may an answer of at most so many bytes be held? What is computed ahead leaves half of the
 * client's room to what is sent first. */
static bool chunk_hold(void *data, size_t n_bytes)
{
    chunk *c = data;
    hs_held *held = &c->stream->peer->held;
    if (!hs__held_take(held, n_bytes))
        return false;
    if (c->task.patient && atomic_load(&held->n_bytes) > held->max / 2) {
        hs__held_give_back(held, n_bytes);
        return false;
    }
    c->n_held += n_bytes;
    return true;
}

/* What was held for bounds is now held for what there is. */
static void chunk_hold_only(chunk *c, size_t n_bytes)
{
    hs_held *held = &c->stream->peer->held;
    hs__held_take_anyway(held, n_bytes);
    hs__held_give_back(held, c->n_held);
    c->n_held = n_bytes;
}

static void wake(line_stream *s)
{
    const chunk *c = &s->chunks[s->first];
    if (!s->sleeping)
        return;
    s->sleeping = false;
    hs__exchange_resume(s->x);
    const uint64_t n_bytes = c->running ? 0 : c->task.response.body_bytes; /* the worker's while it runs */
    hs__connection_expect_reader(s->x->connection, READER_MS + 1000 * n_bytes / READER_BYTES_PER_S);
}

/* A worker, or the queue, gave it back. */
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
    s->broken |= r->status == MHD_HTTP_INTERNAL_SERVER_ERROR || task->end == HS_TASK_ABANDONED;
    chunk_hold_only(c, r->body_bytes);
    if (!s->x && s->n_running == 0)
        stream_destroy(s);
    else if (s->x && (s->broken || is_first(c)))
        wake(s);
}

/* False: the queue is full, and nothing of the stream was admitted yet. */
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
                                   .hold = chunk_hold,
                                   .hold_data = c};
    c->running = hs__tasks_submit(&s->server->tasks, &c->task);
    c->task.admitted |= c->running; /* what is left of its lines goes on, however full the queue is */
    s->n_running += c->running;
    return c->running;
}

/* The next lines, if there are any and there is room for another chunk. False as above. */
static bool chunk_add(line_stream *s, bool admitted)
{
    if (s->at == s->n_body || s->n_chunks == s->n_chunks_max)
        return true;
    chunk *c = &s->chunks[(s->first + s->n_chunks) % s->n_chunks_max];
    *c = (chunk){.stream = s,
                 .task = {.done = on_chunk_done, .data = c, .lines = true, .admitted = admitted},
                 .at = s->at,
                 .number = s->number};
    for (size_t n = 0; n < CHUNK_LINES && s->at < s->n_body && s->at - c->at < CHUNK_BYTES; n++) {
        const char *end = memchr(s->body + s->at, '\n', s->n_body - s->at);
        s->at = end ? (size_t)(end - s->body) + 1 : s->n_body;
        s->number++;
    }
    c->end = s->at;
    s->n_chunks++;
    return chunk_submit(c);
}

/* ---- the reader ---- */

static void end(hs_exchange *x, hs_task_end why);

static void sleep_until_first(line_stream *s)
{
    s->sleeping = true;
    hs__exchange_suspend(s->x);
    hs__connection_watch(s->x->connection, end);
    hs__connection_expect(s->x->connection, s->server->options->deadline_ms);
}

/* Some of the first chunk's answers; 0: there are none to send. */
static size_t chunk_send(chunk *c, char *to, size_t n_max)
{
    hs_response *r = &c->task.response;
    const size_t left = c->running ? 0 : r->body_bytes - c->n_sent, n = left < n_max ? left : n_max;
    if (n > 0)
        memcpy(to, r->body + c->n_sent, n);
    c->n_sent += n;
    c->stream->x->response.body_bytes += n; /* for the log */
    if (left > 0 && n == left) {
        hs_response_finish(r);
        c->n_sent = 0;
        chunk_hold_only(c, 0);
    }
    return n;
}

static ssize_t on_read(void *cls, uint64_t position, char *to, size_t n_max)
{
    line_stream *s = cls;
    (void)position;
    hs__loop_progress(s->server);
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

/* The exchange sleeps. Its client left; or the deadline has come: the worker answers the rest of the lines
 * with 504, and what is in the queue waits on. */
static void end(hs_exchange *x, hs_task_end why)
{
    line_stream *s = x->own;
    chunk *c = &s->chunks[s->first];
    if (why == HS_TASK_ABANDONED) {
        x->task.end = why;
        s->broken = true;
        wake(s);
        return;
    }
    hs__connection_expect(x->connection, s->server->options->deadline_ms);
    if (c->task.state == HS_TASK_RUNNING)
        hs__tasks_cancel(&c->task, why);
}

/* Before or after the reader's end. */
static void on_exchange_end(void *own)
{
    line_stream *s = own;
    s->x = NULL;
}

/* libmicrohttpd has sent it, or cannot. */
static void on_end(void *cls)
{
    line_stream *s = cls;
    if (s->x)
        s->x->own = NULL;
    s->x = NULL;
    s->n_running++; /* nobody destroys it meanwhile */
    for (size_t i = 0; i < CHUNKS_MAX; i++)
        hs__tasks_cancel(&s->chunks[i].task, HS_TASK_ABANDONED);
    if (--s->n_running == 0)
        stream_destroy(s);
}

/* ---- the beginning ---- */

/* Takes the exchange's body. NULL when memory is short. */
static line_stream *stream_create(hs_exchange *x)
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
    s->n_held = x->body_capacity;
    x->body = NULL;
    hs__held_take_anyway(&s->peer->held, s->n_held); /* the exchange gives its own back when it is replied */
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
    line_stream *s = stream_create(x);
    if (!s) {
        hs__exchange_refuse(x, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory");
        return;
    }
    if (!chunk_add(s, false)) {
        x->retry_after = "1";
        hs__exchange_refuse(x, MHD_HTTP_SERVICE_UNAVAILABLE,
                            "Every worker is busy and the queue is full. Try again shortly.");
        stream_destroy(s);
        return;
    }
    while (s->n_chunks < s->n_chunks_max && s->at < s->n_body)
        chunk_add(s, true);
    x->own = s;
    x->own_end = on_exchange_end;
    x->prepared = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, on_read, s, on_end);
    if (x->prepared) {
        hs__exchange_answer(x, MHD_HTTP_OK, "application/x-ndjson", NULL, 0, true);
    } else {
        on_end(s);
        hs__exchange_refuse(x, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory");
    }
}
