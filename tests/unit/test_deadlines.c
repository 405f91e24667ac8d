/* test_deadlines.c - the deadlines of a connection without its socket, with a clock that the test moves.
 *
 * The program stands before the functions that ask the system about a socket and that tell libmicrohttpd to
 * close one. */
#include "server/http/exchange.h"
#include "server/http/socket_info.h"
#include "tests/unit/moved_clock.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <linux/sockios.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

enum { NO_SOCKET = 100000 };

static hs_server server;
static hs_connection *connection;
static hs_client_memory all;
static hs_peer peer;

/* ---- the system ---- */

/* Bytes of answers that the client has not taken, and those that it has. */
static struct {
    int queued;
    uint64_t taken;
} socket_state;

hs_socket_bytes hs__socket_bytes(int fd)
{
    ck_assert_int_eq(fd, NO_SOCKET);
    return (hs_socket_bytes){.taken = socket_state.taken};
}

CLOCK_EXPORTED int ioctl(int fd, unsigned long request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (fd != NO_SOCKET)
        return (int)syscall(SYS_ioctl, fd, request, argument);
    ck_assert_uint_eq(request, SIOCOUTQ);
    *(int *)argument = socket_state.queued;
    return 0;
}

/* The client takes bytes of the answer. */
static void client_takes(int n)
{
    socket_state.queued -= n;
    socket_state.taken += (uint64_t)n;
}

/* ---- libmicrohttpd ---- */

static int n_cut;

enum MHD_Result MHD_set_connection_option(struct MHD_Connection *mhd, enum MHD_CONNECTION_OPTION option, ...)
{
    (void)mhd;
    ck_assert_int_eq(option, MHD_CONNECTION_OPTION_TIMEOUT);
    n_cut++;
    return MHD_YES;
}

/* ---- a connection ---- */

static void setup(void)
{
    memset(&server, 0, sizeof server); // a literal of 300 kB would stand on the stack without optimisation
    all = (hs_client_memory){.max = 1 << 20};
    peer = (hs_peer){.budget = {.all = &all, .max = 1 << 20}};
    memset(&socket_state, 0, sizeof socket_state);
    n_cut = 0;
    ck_assert_int_eq(uv_loop_init(&server.loop), 0);
    connection = calloc(1, sizeof *connection);
    ck_assert_ptr_nonnull(connection);
    *connection = (hs_connection){.server = &server, .fd = NO_SOCKET, .peer = &peer};
    uv_timer_init(&server.loop, &connection->deadline);
    connection->deadline.data = connection;
}

static void teardown(void)
{
    uv_close((uv_handle_t *)&connection->deadline, NULL);
    uv_run(&server.loop, UV_RUN_NOWAIT);
    ck_assert_int_eq(uv_loop_close(&server.loop), 0);
    free(connection);
}

/* Moves the clock in steps of at most 100 ms, and runs the loop after each. */
static void pass(uint64_t milliseconds)
{
    for (uint64_t step; milliseconds; milliseconds -= step) {
        step = milliseconds < 100 ? milliseconds : 100;
        clock_move_ms(step);
        uv_run(&server.loop, UV_RUN_NOWAIT);
    }
}

/* Begins an answer of which n bytes are in the system's queue. */
static void answer_begin(int n, uint64_t milliseconds)
{
    socket_state.queued = n;
    uv_update_time(&server.loop);
    hs__connection_expect_reader(connection, milliseconds);
}

static void check_cut(bool expected)
{
    ck_assert_int_eq(n_cut, expected);
    ck_assert_int_eq(connection->too_slow, expected);
    ck_assert_uint_eq(server.metrics.cut_off, expected);
}

/* ---- phases ---- */

START_TEST(a_phase_ends_at_its_deadline)
{
    hs__connection_expect(connection, 1000);
    pass(999);
    check_cut(false);
    pass(1);
    check_cut(true);
}
END_TEST

START_TEST(a_phase_replaces_the_one_before)
{
    hs__connection_expect(connection, 1000);
    pass(900);
    hs__connection_expect(connection, 1000);
    pass(900);
    check_cut(false);
    hs__connection_expect(connection, 0);
    pass(1000000);
    check_cut(false);
}
END_TEST

static int n_ended;

static void on_end(hs_exchange *exchange, hs_work_end why)
{
    ck_assert_ptr_null(exchange);
    ck_assert_int_eq(why, HS_WORK_TIMED_OUT);
    n_ended++;
}

START_TEST(work_is_ended_and_the_connection_stays)
{
    n_ended = 0;
    connection->end = on_end;
    hs__connection_expect(connection, 5000);
    pass(4999);
    ck_assert_int_eq(n_ended, 0);
    pass(10000);
    ck_assert_int_eq(n_ended, 1);
    check_cut(false);
}
END_TEST

/* ---- readers ---- */

START_TEST(a_client_that_takes_nothing_is_cut_off)
{
    answer_begin(1000, 100000);
    pass(7900);
    check_cut(false);
    pass(2100);
    check_cut(true);
}
END_TEST

START_TEST(a_client_that_takes_some_every_few_seconds_stays)
{
    answer_begin(1000, 100000);
    for (int i = 0; i < 12; i++) {
        pass(5900);
        client_takes(10);
        check_cut(false);
    }
    pass(10000);
    check_cut(true);
}
END_TEST

START_TEST(an_answer_that_is_not_yet_written_waits_for_nobody)
{
    answer_begin(0, 100000);
    pass(99900);
    check_cut(false);
    pass(100);
    check_cut(true);
}
END_TEST

START_TEST(a_slow_client_has_no_more_than_the_time_of_the_answer)
{
    answer_begin(1000, 20000);
    for (int i = 0; i < 19; i++) {
        pass(1000);
        client_takes(1);
    }
    check_cut(false);
    pass(1000);
    check_cut(true);
}
END_TEST

/* ---- after the answer ---- */

START_TEST(bytes_in_the_queue_are_reserved_until_they_are_taken)
{
    answer_begin(1000, 30000);
    hs__connection_flush(connection, 5000);
    ck_assert_uint_eq(atomic_load(&all.n_bytes), 1000);
    client_takes(400);
    pass(100);
    ck_assert_uint_eq(atomic_load(&all.n_bytes), 600);
    client_takes(600);
    pass(100);
    ck_assert_uint_eq(atomic_load(&all.n_bytes), 0);
    pass(4900); /* the time of the next request began when the answer was taken */
    check_cut(false);
    pass(100);
    check_cut(true);
}
END_TEST

START_TEST(a_client_that_leaves_an_answer_in_the_queue_is_cut_off)
{
    answer_begin(1000, 30000);
    hs__connection_flush(connection, 75000);
    pass(7900);
    check_cut(false);
    pass(200);
    check_cut(true);
    ck_assert_uint_eq(atomic_load(&all.n_bytes), 1000); /* until the connection is closed */
    socket_state.queued = 0;
    hs__connection_expect(connection, 0);
    ck_assert_uint_eq(atomic_load(&all.n_bytes), 0);
}
END_TEST

START_TEST(the_next_request_has_its_time_at_once_if_nothing_is_queued)
{
    answer_begin(0, 30000);
    hs__connection_flush(connection, 75000);
    pass(74900);
    check_cut(false);
    pass(100);
    check_cut(true);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("deadlines");
    TCase *tests = tcase_create("deadlines");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_phase_ends_at_its_deadline);
    tcase_add_test(tests, a_phase_replaces_the_one_before);
    tcase_add_test(tests, work_is_ended_and_the_connection_stays);
    tcase_add_test(tests, a_client_that_takes_nothing_is_cut_off);
    tcase_add_test(tests, a_client_that_takes_some_every_few_seconds_stays);
    tcase_add_test(tests, an_answer_that_is_not_yet_written_waits_for_nobody);
    tcase_add_test(tests, a_slow_client_has_no_more_than_the_time_of_the_answer);
    tcase_add_test(tests, bytes_in_the_queue_are_reserved_until_they_are_taken);
    tcase_add_test(tests, a_client_that_leaves_an_answer_in_the_queue_is_cut_off);
    tcase_add_test(tests, the_next_request_has_its_time_at_once_if_nothing_is_queued);
    suite_add_tcase(suite, tests);
    return tests_run(suite);
}
