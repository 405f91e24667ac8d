/* load.c - clients that ask as fast as they are answered: load PORT PATH CLIENTS SECONDS [BODIES [RATE]]
 *
 * Each of CLIENTS connections to 127.0.0.1 sends a request, reads the answer, sends the next. BODIES is a
 * file with a JSON body a line, taken in turn; without it the requests are GET. With RATE, so many requests
 * are sent each second, whether or not others were answered. A client that waits for no answer sends them.
 * Requests for which no client was free are `unsent`. The first fifth of the time warms up and is not
 * counted. One thread and one epoll, so that little is taken from the server that shares the machine;
 * `own_cpu` tells how much of one core it was. Prints one line of JSON. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEADERS_MAX = 8192, CLIENTS_MAX = 4096, REQUESTS_MAX = 4096, READ_BYTES = 1 << 18 };

typedef struct client {
    int fd;
    double sent_at;
    char headers[HEADERS_MAX + 1]; /* of the answer under way */
    size_t n_headers;
    size_t body_left;
    bool in_body;
} client;

typedef struct load {
    char *requests[REQUESTS_MAX];
    size_t n_requests, next;
    double *latencies_ms; /* of answers within the measured time */
    size_t n_latencies, capacity;
    uint64_t bytes, failures; /* failures: answers that are not 200 */
    double measure_from;
    double rate, due;          /* 0: as fast as they are answered; when the next one is to be sent */
    client *idle[CLIENTS_MAX]; /* a ring: each is used in turn, so that none is closed for idleness */
    size_t n_idle, first_idle;
    uint64_t unsent;
} load;

static void die(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, errno ? strerror(errno) : "not what was expected");
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the CPU time of this process in seconds. */
static double cpu_used(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void add_request(load *l, const char *path, const char *body)
{
    if (l->n_requests == REQUESTS_MAX)
        return;
    const int n =
        body ? asprintf(&l->requests[l->n_requests],
                        "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        "Content-Length: %zu\r\n\r\n%s",
                        path, strlen(body), body)
             : asprintf(&l->requests[l->n_requests], "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    if (n < 0)
        die("memory");
    l->n_requests++;
}

static void read_requests(load *l, const char *path, const char *file_name)
{
    char *line = NULL;
    size_t capacity = 0;
    FILE *file = file_name ? fopen(file_name, "re") : NULL;
    if (!file_name)
        add_request(l, path, NULL);
    else if (!file)
        die(file_name);
    while (file && getline(&line, &capacity, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        add_request(l, path, line);
    }
    free(line);
    if (file)
        fclose(file);
    if (l->n_requests == 0)
        die(file_name);
}

static void client_connect(client *c, int port, int epoll, uint32_t index)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof to))
        die("connect");
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = index};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event))
        die("epoll_ctl");
}

/* Requests are small: they fit into the socket's buffer. */
static void client_send(load *l, client *c)
{
    const char *request = l->requests[l->next++ % l->n_requests];
    const size_t n = strlen(request);
    *c = (client){.fd = c->fd, .sent_at = now()};
    if (send(c->fd, request, n, MSG_NOSIGNAL) != (ssize_t)n)
        die("send");
}

static client *idle_take(load *l)
{
    client *c = l->idle[l->first_idle];
    l->first_idle = (l->first_idle + 1) % CLIENTS_MAX;
    l->n_idle--;
    return c;
}

static void client_next(load *l, client *c)
{
    if (l->rate > 0)
        l->idle[(l->first_idle + l->n_idle++) % CLIENTS_MAX] = c;
    else
        client_send(l, c);
}

/* Sends what is due; returns how many ms nothing will be. */
static int send_due(load *l)
{
    const double at = now();
    for (; l->rate > 0 && l->due <= at; l->due += 1 / l->rate)
        if (l->n_idle)
            client_send(l, idle_take(l));
        else
            l->unsent += at >= l->measure_from;
    return l->rate > 0 ? (int)(1e3 * (l->due - at)) : 100;
}

static void client_answered(load *l, client *c)
{
    const double end = now();
    if (end >= l->measure_from) {
        l->failures += strncmp(c->headers, "HTTP/1.1 200 ", 13) != 0;
        if (l->n_latencies == l->capacity) {
            l->capacity = l->capacity ? 2 * l->capacity : 1024;
            l->latencies_ms = realloc(l->latencies_ms, l->capacity * sizeof *l->latencies_ms);
            if (!l->latencies_ms)
                die("memory");
        }
        l->latencies_ms[l->n_latencies++] = 1e3 * (end - c->sent_at);
    }
    client_next(l, c);
}

/* Takes the headers out of what arrived; returns how much of it they were. */
static size_t headers_read(client *c, const char *bytes, size_t n)
{
    const size_t before = c->n_headers, take = n < HEADERS_MAX - before ? n : HEADERS_MAX - before;
    memcpy(c->headers + before, bytes, take);
    c->headers[before + take] = '\0';
    const char *end = strstr(c->headers, "\r\n\r\n");
    if (!end && before + take == HEADERS_MAX)
        die("headers");
    c->n_headers += take;
    if (!end)
        return take;
    const char *length = strcasestr(c->headers, "\r\nContent-Length:");
    if (!length || length > end)
        die("an answer without Content-Length");
    c->body_left = strtoull(length + 17, NULL, 10);
    c->in_body = true;
    return (size_t)(end + 4 - c->headers) - before;
}

static void client_read(load *l, client *c, char *buffer)
{
    const ssize_t n = recv(c->fd, buffer, READ_BYTES, 0);
    if (n <= 0)
        die("the server closed a connection");
    size_t at = c->in_body ? 0 : headers_read(c, buffer, (size_t)n);
    const size_t rest = (size_t)n - at;
    if (now() >= l->measure_from)
        l->bytes += (uint64_t)n;
    if (!c->in_body)
        return;
    if (rest > c->body_left)
        die("more bytes than announced");
    c->body_left -= rest;
    if (c->body_left == 0)
        client_answered(l, c);
}

static int compare_values(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void tell(const load *l, double seconds, double cpu)
{
    const size_t n = l->n_latencies;
    qsort(l->latencies_ms, n, sizeof *l->latencies_ms, compare_values);
    printf("{\"requests\": %zu, \"failures\": %llu, \"unsent\": %llu, \"per_second\": %.2f, "
           "\"mb_per_second\": %.2f, \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"own_cpu\": %.3f}\n",
           n, (unsigned long long)l->failures, (unsigned long long)l->unsent, (double)n / seconds,
           (double)l->bytes / seconds / 1e6, n ? l->latencies_ms[n / 2] : 0,
           n ? l->latencies_ms[n - 1 - n / 100] : 0, cpu / seconds);
}

int main(int argc, char **argv)
{
    static load l;
    static char buffer[READ_BYTES];
    const long n_clients = argc > 4 ? strtol(argv[3], NULL, 10) : 0;
    const double seconds = argc > 4 ? strtod(argv[4], NULL) : 0;
    if (n_clients < 1 || n_clients > CLIENTS_MAX || seconds <= 0) {
        fprintf(stderr, "usage: load PORT PATH CLIENTS SECONDS [BODIES [RATE]]\n");
        return 2;
    }
    read_requests(&l, argv[2], argc > 5 ? argv[5] : NULL);
    client *clients = calloc((size_t)n_clients, sizeof *clients);
    const int epoll = epoll_create1(0);
    if (!clients || epoll < 0)
        die("start");
    for (long i = 0; i < n_clients; i++)
        client_connect(&clients[i], (int)strtol(argv[1], NULL, 10), epoll, (uint32_t)i);
    l.rate = argc > 6 ? strtod(argv[6], NULL) : 0;
    l.due = now();
    l.measure_from = l.due + seconds / 5;
    const double end = l.measure_from + seconds;
    double cpu = cpu_used();
    bool measuring = false;
    for (long i = 0; i < n_clients; i++)
        client_next(&l, &clients[i]);
    while (now() < end) {
        struct epoll_event events[64];
        const int n = epoll_wait(epoll, events, 64, send_due(&l));
        if (!measuring && now() >= l.measure_from) {
            measuring = true;
            cpu = cpu_used();
        }
        for (int i = 0; i < n; i++)
            client_read(&l, &clients[events[i].data.u32], buffer);
    }
    tell(&l, now() - l.measure_from, cpu_used() - cpu);
    return 0;
}
