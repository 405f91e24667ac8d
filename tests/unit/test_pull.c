/* test_pull.c - `headscope pull` when memory runs out or a call to the system fails: allocations fail in
 * turn, at ever larger steps, and calls. The model is complete in the cache, or the command fails with a
 * message and a second one completes it. Nothing leaks.
 *
 * The hub is another process with libmicrohttpd, which sends the files of a small checkpoint. */
#include "server/commands/commands.h"
#include "tests/unit/chaos.h"
#include "tests/unit/checkpoint.h"
#include "tests/unit/command_output.h"
#include "tests/unit/faults.h"
#include "tests/unit/suite.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ALLOCATIONS_MAX = 10000 };

#define COMMIT "c0ffee"

static const char *const files[] = {"config.json", "vocab.txt", "model.safetensors"};
enum { N_FILES = sizeof files / sizeof *files };

static char top[64], checkpoint_dir[64];
static pid_t hub;

/* ---- the hub ---- */

/* Answers with a list of the files, or with one file. An ETag that is no checksum is not checked. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_bytes,
                                  void **context)
{
    static const char list[] =
        "{\"sha\":\"" COMMIT "\",\"siblings\":[{\"rfilename\":\"config.json\"},{\"rfilename\":\"vocab.txt\"},"
        "{\"rfilename\":\"model.safetensors\"},{\"rfilename\":\"README.md\"}]}";
    char path[200], tag[16];
    struct stat about;
    (void)cls, (void)method, (void)version, (void)upload, (void)upload_bytes, (void)context;
    struct MHD_Response *reply = NULL;
    if (strcmp(url, "/api/models/org/model/revision/main") == 0)
        reply = MHD_create_response_from_buffer(sizeof list - 1, (void *)list, MHD_RESPMEM_PERSISTENT);
    for (int i = 0; !reply && i < N_FILES; i++) {
        snprintf(path, sizeof path, "/org/model/resolve/" COMMIT "/%s", files[i]);
        if (strcmp(url, path) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", checkpoint_dir, files[i]);
        snprintf(tag, sizeof tag, "\"a-%d\"", i);
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &about))
            return MHD_NO;
        reply = MHD_create_response_from_fd((size_t)about.st_size, fd);
        MHD_add_response_header(reply, "ETag", tag);
    }
    const enum MHD_Result result = reply ? MHD_queue_response(mhd, MHD_HTTP_OK, reply) : MHD_NO;
    MHD_destroy_response(reply);
    return result;
}

/* Removes what the environment says of another hub, cache or proxy. */
static void environment_clear(void)
{
    static const char *const names[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE", "HF_TOKEN",
                                        "HF_TOKEN_PATH"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_int_eq(unsetenv(names[i]), 0);
    ck_assert(setenv("no_proxy", "127.0.0.1", 1) == 0 && setenv("NO_PROXY", "127.0.0.1", 1) == 0);
}

/* Starts the hub and names it in the environment. */
static void hub_start(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    char endpoint[64];
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert(bind(fd, (const struct sockaddr *)&at, size) == 0 && listen(fd, 64) == 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", ntohs(at.sin_port));
    ck_assert_int_eq(setenv("HF_ENDPOINT", endpoint, 1), 0);
    hub = fork();
    ck_assert_int_ge(hub, 0);
    if (hub == 0) {
        if (MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, on_request, NULL,
                             MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_END))
            pause();
        _exit(1);
    }
    close(fd);
}

static void setup(void)
{
    folder_create(top);
    folder_create(checkpoint_dir);
    checkpoint_write(&(checkpoint){0}, checkpoint_dir);
    environment_clear();
    hub_start();
}

static void teardown(void)
{
    char command[100];
    kill(hub, SIGKILL);
    waitpid(hub, NULL, 0);
    snprintf(command, sizeof command, "rm -r %s", top);
    ck_assert_int_eq(system(command), 0);
    folder_remove(checkpoint_dir);
}

/* ---- memory runs out ---- */

/* Pulls the model into a cache of its own for each number. */
static int pull(size_t cache)
{
    char *argv[] = {"pull", "org/model", NULL};
    char home[100], printed[100], messages[100];
    snprintf(home, sizeof home, "%s/%zu", top, cache);
    snprintf(printed, sizeof printed, "%s/printed", top);
    snprintf(messages, sizeof messages, "%s/messages", top);
    setenv("HF_HOME", home, 1);
    return command_run(&hs__command_pull, 2, argv, printed, messages);
}

/* Returns true if the cache has all files of the checkpoint. */
static bool is_complete(size_t cache)
{
    char command[300];
    for (int i = 0; i < N_FILES; i++) {
        snprintf(command, sizeof command,
                 "cmp -s %s/%s %s/%zu/hub/models--org--model/snapshots/" COMMIT "/%s", checkpoint_dir,
                 files[i], top, cache, files[i]);
        if (system(command))
            return false;
    }
    return true;
}

START_TEST(a_model_is_complete_or_completed_later)
{
    bool refused = true;
    ck_assert_int_eq(pull(ALLOCATIONS_MAX), 0);
    ck_assert(is_complete(ALLOCATIONS_MAX));
    const size_t live = chaos_live();
    for (size_t nth = 0; refused; nth += 1 + nth / 16) {
        ck_assert_uint_lt(nth, ALLOCATIONS_MAX);
        chaos_refuse(nth);
        const int exit_code = pull(nth);
        refused = chaos_stop();
        ck_assert_msg(exit_code == 0 || (refused && exit_code == HS_EXIT_FAILED),
                      "allocation %zu: exit code %d", nth, exit_code);
        ck_assert_msg(!exit_code || command_says_why(true), "allocation %zu: the message is: %s", nth,
                      command_messages);
        ck_assert_msg(exit_code || is_complete(nth), "allocation %zu: a file is missing or damaged", nth);
        ck_assert_msg(chaos_live() == live, "allocation %zu refused: something leaked", nth);
        ck_assert_int_eq(pull(nth), 0);
        ck_assert_msg(is_complete(nth), "allocation %zu: not completed later", nth);
    }
}
END_TEST

START_TEST(a_call_that_fails_is_reported_and_made_again)
{
    bool failed = true;
    ck_assert_int_eq(pull(ALLOCATIONS_MAX), 0);
    const size_t live = chaos_live();
    for (size_t nth = 0; failed; nth++) {
        ck_assert_uint_lt(nth, ALLOCATIONS_MAX);
        faults_begin(nth, ENOSPC);
        const int exit_code = pull(nth);
        failed = faults_end();
        ck_assert_msg(exit_code == 0 || (failed && exit_code == HS_EXIT_FAILED), "call %zu: exit code %d",
                      nth, exit_code);
        ck_assert_msg(!exit_code || *command_messages, "call %zu: no message", nth);
        ck_assert_msg(chaos_live() == live, "call %zu: something leaked", nth);
        ck_assert_msg(!exit_code || pull(nth) == 0, "call %zu: %s", nth, command_messages);
        ck_assert_msg(is_complete(nth), "call %zu: not complete", nth);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pull");
    TCase *chaos = tcase_create("memory runs out");
    tcase_add_checked_fixture(chaos, setup, teardown);
    tcase_add_test(chaos, a_model_is_complete_or_completed_later);
    tcase_add_test(chaos, a_call_that_fails_is_reported_and_made_again);
    suite_add_tcase(suite, chaos);
    return tests_run(suite);
}
