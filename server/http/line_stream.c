/* line_stream.c - a ring of chunks between the workers and libmicrohttpd's reader.
 *
 * Memory that a worker uses outlives the exchange, because no thread waits for a worker when a client leaves.
 */
#include "server/http/line_stream.h"

#include "server/base/log.h"

#include <stdlib.h>
#include <string.h>

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
        hs__client_memory_return(&s->peer->budget, s->chunks[i].n_reserved);
    }
    hs__client_memory_return(&s->peer->budget, s->n_reserved);
    hs__peer_leave(&s->server->peers, s->peer);
    free(s->body);
    free(s);
}

/* ---- chunks ---- */

static bool is_first(const chunk *c)
{
    return c == &c->stream->chunks[c->stream->first];
}

/* Reserves memory for an answer; called on the worker. Chunks computed ahead may use half of the client's
 * limit, so that the first chunk can always go on. */
static bool chunk_reserve(void *data, size_t n_bytes)
{
    chunk *c = data;
    hs_client_memory *budget = &c->stream->peer->budget;
    if (!hs__client_memory_take(budget, n_bytes))
        return false;
    if (c->task.patient && atomic_load(&budget->n_bytes) > budget->max / 2) {
        hs__client_memory_return(budget, n_bytes);
        return false;
    }
    c->n_reserved += n_bytes;
    return true;
}

/* Replaces the reserved upper bound by the actual size. */
static void chunk_reserve_only(chunk *c, size_t n_bytes)
{
    hs__client_memory_replace(&c->stream->peer->budget, &c->n_reserved, n_bytes);
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
    chunk_reserve_only(c, r->body_bytes);
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
    hs__connection_extend_reader(c->stream->x->connection, 1000 * (uint64_t)n / READER_BYTES_PER_S);
    c->stream->x->response.body_bytes += n; /* for the log */
    if (n == left) {
        hs_response_finish(r);
        c->n_sent = 0;
        chunk_reserve_only(c, 0);
    }
    return n;
}

static ssize_t on_read(void *cls, uint64_t position, char *to, size_t n_max)
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
static void on_exchange_end(void *user_data)
{
    line_stream *s = user_data;
    s->x = NULL;
}

/* libmicrohttpd released the response: it was sent, or the connection is closed. */
static void on_end(void *cls)
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
    s->n_reserved = x->body_capacity;
    x->body = NULL;
    hs__client_memory_exceed(&s->peer->budget,
                             s->n_reserved); /* the exchange returns its own when it replies */
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
    x->user_data_free = on_exchange_end;
    x->prepared = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, on_read, s, on_end);
    if (x->prepared) {
        hs__exchange_answer(x, MHD_HTTP_OK, "application/x-ndjson", NULL, 0, true);
    } else {
        on_end(s);
        hs__exchange_refuse_memory(x);
    }
}
