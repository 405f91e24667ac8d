/* test_service.c - the whole service when memory runs out: allocations of each kind of request fail in turn,
 * at ever larger steps. The answer is whole or an error, the service goes on, and nothing leaks.
 *
 * `headscope serve` runs on a thread. The test is its client, over the loopback, and allocates nothing. */
#include "server/commands/commands.h"
#include "tests/unit/chaos.h"
#include "tests/unit/suite.h"

#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ALLOCATIONS_MAX = 10000000, ANSWER_BYTES_MAX = 1 << 22, ARGUMENTS_MAX = 24 };

#define BODY(text) "Content-Type: application/json\r\n", text
#define TEXT       "\"text\":\"The old bridge closed.\""

/* A request. The first and second %s are the ids of runs that are done. */
typedef struct question {
    const char *line, *headers, *body;
    int status;  /* of the answer when memory does not run out */
    bool varies; /* two answers are not the same */
} question;

static const question questions[] = {
    {"GET /health", "", "", 200, false},
    {"GET /ready/", "", "", 200, false},
    {"GET /nothing", "", "", 404, false},
    {"PUT /analyze", "", "", 405, false},
    {"OPTIONS /analyze", "Origin: http://a.example\r\nAccess-Control-Request-Method: POST\r\n", "", 204,
     false},
    {"GET /?embed=1", "", "", 200, false},
    {"GET /docs/", "", "", 308, false},
    {"GET /opened/none.npz", "", "", 404, false},
    {"GET /metrics", "", "", 200, true},
    {"GET /models", "", "", 200, true},
    {"GET /openapi.json", "", "", 200, false},
    {"POST /tokenize", BODY("{" TEXT "}"), 200, true},
    {"POST /analyze", BODY("{" TEXT ",\"outputs\":[\"summary\"]}"), 200, true},
    {"POST /analyze", BODY("{" TEXT ",\"outputs\":[\"attentions\"]}"), 200, true},
    {"POST /analyze", BODY("{" TEXT ",\"unknown\":1}"), 422, false},
    {"POST /analyze", BODY("{"), 400, false},
    {"POST /analyze", "Content-Type: text/plain\r\n", "{}", 415, false},
    {"POST /analyze", "Content-Type: application/x-ndjson\r\nAccept: application/x-ndjson\r\n",
     "{" TEXT ",\"outputs\":[\"summary\"]}\n{\n{\"text\":\"a b\",\"outputs\":[\"summary\"]}\n", 200, true},
    {"GET /corpora", "", "", 200, false},
    {"GET /corpora/%s", "", "", 200, false},
    {"GET /corpora/%s/events", "", "", 200, true},
    {"GET /corpora/%s/report", "", "", 200, false},
    {"GET /corpora/%s/report", "Accept: text/html\r\n", "", 200, false},
    {"GET /corpora/%s/comparison?with=%s", "", "", 200, false},
    {"GET /corpora/%s/search?layer=0&head=0&from=text=the", "", "", 200, false},
    {"GET /corpora/%s/examples?layer=0&head=0&by=self", "", "", 200, false},
    {"POST /corpora/%s/cancel", "", "", 202, true},
    {"POST /corpora/%s/restart", "", "", 409, false},
    {"POST /corpora?max_tokens=8&layers=0", "Content-Type: text/plain\r\n", "\n\n", 422, false},
    {"POST /corpora?max_tokens=1", "Content-Type: text/plain\r\n", "a b\n", 422, false},
    {"DELETE /corpora/0123456789abcdef", "", "", 404, false},
    {"DELETE /models/none", "", "", 404, false},
    {"POST /models", BODY("{\"name\":1}"), 422, false},
    {"GET /pull", "", "", 200, true},
    {"GET /pull/events", "", "", 200, true},
    {"POST /pull/cancel", "", "", 200, true},
};
enum { N_QUESTIONS = sizeof questions / sizeof *questions };

static char answer[ANSWER_BYTES_MAX], expected[ANSWER_BYTES_MAX], run_ids[2][64];
static char top[] = "/tmp/headscope-service-XXXXXX";
static char state[64];
static int port, standard_output, standard_error, exit_code;
static size_t live_before;
static pthread_t thread;

/* ---- the service ---- */

/* Runs the command, and ends its standard output. */
static void *serve(void *arguments)
{
    char **argv = arguments;
    int argc = 0;
    while (argv[argc])
        argc++;
    exit_code = hs__command_serve.main(&hs__command_serve, argc, argv);
    dprintf(STDOUT_FILENO, "\n");
    return NULL;
}

/* Starts the service and waits until it prints its address. Its messages are dropped. Returns false if it
 * ended instead, and then service_stop is called, too. */
static bool service_start(void)
{
    /* Without a cache, memory is refused to every pass, too. */
    static char *arguments[] = {"serve",   "--listen", "127.0.0.1:0", "--state", state,    "--workers", "1",
                                "--cache", "0",        "--cors",      "*",       "--pull", NULL};
    int ends[2] = {-1, -1};
    char line[200] = "";
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    bool good = nowhere >= 0 && pipe(ends) == 0;
    standard_error = dup(STDERR_FILENO);
    standard_output = dup(STDOUT_FILENO);
    good = good && dup2(ends[1], STDOUT_FILENO) >= 0 && dup2(nowhere, STDERR_FILENO) >= 0 &&
           pthread_create(&thread, NULL, serve, arguments) == 0 && read(ends[0], line, sizeof line - 1) > 0;
    const char *address = strstr(line, "http://127.0.0.1:");
    port = address ? atoi(address + strlen("http://127.0.0.1:")) : 0;
    close(nowhere);
    close(ends[0]);
    close(ends[1]);
    return good && address;
}

/* Waits until the service has ended. */
static void service_stop(void)
{
    pthread_join(thread, NULL);
    dup2(standard_error, STDERR_FILENO);
    dup2(standard_output, STDOUT_FILENO);
    close(standard_error);
    close(standard_output);
}

/* ---- its client ---- */

/* Sends a request and reads the answer to the end of the connection. Returns the status, 0 if none came. */
static int ask(const question *q)
{
    static char target[400], text[4096];
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    snprintf(target, sizeof target, q->line, run_ids[0], run_ids[1]);
    const int n = snprintf(text, sizeof text,
                           "%s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nX-Request-Id: one\r\n"
                           "%sContent-Length: %zu\r\n\r\n%s",
                           target, q->headers, strlen(q->body), q->body);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t n_read = 0; /* Check's macros allocate */
    if (!connect(fd, (const struct sockaddr *)&to, sizeof to) && send(fd, text, (size_t)n, MSG_NOSIGNAL) == n)
        for (ssize_t more; (more = recv(fd, answer + n_read, sizeof answer - 1 - n_read, 0)) > 0;)
            n_read += (size_t)more;
    close(fd);
    answer[n_read] = '\0';
    return n_read > 12 ? atoi(answer + 9) : 0;
}

static const char *body_of(const char *text)
{
    const char *end = strstr(text, "\r\n\r\n");
    return end ? end + 4 : "";
}

/* Returns true if the answer has the length that it announces, or ends as a chunked one does. */
static bool is_whole(void)
{
    const char *body = body_of(answer), *length = strstr(answer, "Content-Length: ");
    if (!length || length > body)
        return !strstr(answer, "Transfer-Encoding: chunked") || strstr(body, "0\r\n\r\n");
    return strtoul(length + strlen("Content-Length: "), NULL, 10) == strlen(body);
}

/* Requests a run with texts to search and examples, and waits for its end. */
static void run_await(char ret_id[64])
{
    static const question begin = {"POST /corpora?max_tokens=8&layers=0&search_texts=3&examples=2",
                                   "Content-Type: text/plain\r\n",
                                   "The river flows past the town.\nA bank of the river.\n", 202, true},
                          look = {"GET /corpora/%s", "", "", 200, true};
    const int status = ask(&begin);
    const char *id = strstr(answer, "\"id\":\"");
    ck_assert_msg(status == 202 && id, "%s", answer);
    id += strlen("\"id\":\"");
    snprintf(ret_id, 64, "%.*s", (int)strcspn(id, "\""), id);
    memmove(run_ids[0], ret_id, 64);
    do
        ck_assert_int_eq(ask(&look), 200);
    while (strstr(answer, "\"state\":\"queued\"") || strstr(answer, "\"state\":\"running\""));
    ck_assert_msg(strstr(answer, "\"state\":\"done\""), "%s", answer);
}

/* ---- memory runs out ---- */

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(top));
    snprintf(state, sizeof state, "%s/state", top);
    ck_assert(setenv("HF_HUB_CACHE", top, 1) == 0 && setenv("HF_ENDPOINT", "http://127.0.0.1:1", 1) == 0);
    fflush(stdout);
    ck_assert(service_start()); /* libuv keeps its pool and a pipe for signals */
    ck_assert_int_eq(kill(getpid(), SIGTERM), 0);
    service_stop();
    live_before = chaos_live();
}

static void teardown(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", top);
    ck_assert_int_eq(system(command), 0);
}

/* Sends the request again and again, with a later one of its allocations refused. */
static void chaos_ask(const question *q)
{
    bool refused = true;
    ck_assert_msg(ask(q) == q->status && is_whole(), "%s: %s", q->line, answer);
    memcpy(expected, answer, sizeof expected);
    for (size_t nth = 0; refused; nth += 1 + nth / 8) {
        ck_assert_msg(nth < ALLOCATIONS_MAX, "%s", q->line);
        chaos_refuse(nth);
        const int status = ask(q);
        refused = chaos_stop();
        ck_assert_msg(status == q->status || (refused && (!status || status == 500 || status == 503)),
                      "%s, allocation %zu: %s", q->line, nth, answer);
        ck_assert_msg(!status || is_whole(), "%s, allocation %zu: not whole: %s", q->line, nth, answer);
        ck_assert_msg(status != q->status || q->varies || strcmp(body_of(answer), body_of(expected)) == 0,
                      "%s, allocation %zu: another answer: %s", q->line, nth, answer);
    }
    ck_assert_int_eq(ask(&questions[0]), 200);
}

START_TEST(answers_are_whole_or_errors_and_the_service_goes_on)
{
    ck_assert(service_start());
    run_await(run_ids[1]);
    run_await(run_ids[0]);
    for (size_t k = 0; k < N_QUESTIONS; k++)
        chaos_ask(&questions[k]);
    ck_assert_int_eq(kill(getpid(), SIGTERM), 0);
    service_stop();
    ck_assert_int_eq(exit_code, 0);
    ck_assert_msg(chaos_live() == live_before, "%zu blocks and descriptors before, %zu after", live_before,
                  chaos_live());
}
END_TEST

START_TEST(it_starts_or_ends_with_an_error)
{
    bool refused = true;
    for (size_t nth = 0; refused; nth += 1 + nth / 8) {
        ck_assert_uint_lt(nth, ALLOCATIONS_MAX);
        chaos_refuse(nth);
        const bool started = service_start();
        refused = chaos_stop();
        if (started)
            kill(getpid(), SIGTERM);
        service_stop();
        ck_assert_msg(started ? exit_code == 0 : refused && exit_code == 1, "allocation %zu: %d", nth,
                      exit_code);
        ck_assert_msg(chaos_live() == live_before, "allocation %zu refused: %zu blocks before, %zu after",
                      nth, live_before, chaos_live());
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("service");
    TCase *chaos = tcase_create("memory runs out");
    tcase_add_checked_fixture(chaos, setup, teardown);
    tcase_add_test(chaos, it_starts_or_ends_with_an_error);
    tcase_add_test(chaos, answers_are_whole_or_errors_and_the_service_goes_on);
    suite_add_tcase(suite, chaos);
    return tests_run(suite);
}
