/* The queue in front of threads: turns, bounds and cancellation; and disk calls, which run from it. */
#include "server/http/tasks.h"
#include "server/http/work_queue.h"
#include "suite.h"

#include <pthread.h>
#include <stdlib.h>

enum { ITEMS = 64, CLIENTS = 4 };

/* Items with a name, and what became of them. */
typedef struct item {
    hs_work work;
    int name;
    bool dropped;
} item;

static int n_dropped;

static void on_dropped(hs_work *work)
{
    item *i = (item *)work; /* its first member */
    ck_assert_int_eq(i->work.state, HS_WORK_OUTSIDE);
    ck_assert(!i->dropped);
    i->dropped = true;
    n_dropped++;
}

static hs_work_queue queue_of(size_t waiting_max, size_t client_running_max)
{
    n_dropped = 0;
    return (hs_work_queue){
        .waiting_max = waiting_max, .client_running_max = client_running_max, .dropped = on_dropped};
}

static bool add(hs_work_queue *queue, item *i, hs_work_client *client)
{
    i->work.client = client;
    return hs__work_queue_add(queue, &i->work, false);
}

static item *take(hs_work_queue *queue)
{
    hs_work *next = hs__work_queue_next(queue);
    if (next)
        hs__work_queue_take(queue, next);
    return (item *)next;
}

/* ---- turns ---- */

START_TEST(one_client_is_served_in_its_order)
{
    hs_work_client client = {0};
    hs_work_queue queue = queue_of(ITEMS, 0);
    item items[ITEMS] = {0};
    for (int i = 0; i < ITEMS; i++)
        ck_assert(add(&queue, &items[i], &client));
    for (int i = 0; i < ITEMS; i++) {
        ck_assert_ptr_eq(take(&queue), &items[i]);
        hs__work_finish(&queue, &items[i].work);
    }
    ck_assert_ptr_null(take(&queue));
    ck_assert_uint_eq(client.n_waiting + client.n_running, 0);
}
END_TEST

START_TEST(a_client_with_one_item_does_not_wait_for_all_of_another)
{
    hs_work_client many = {0}, few = {0};
    hs_work_queue queue = queue_of(ITEMS, 0);
    item items[32] = {0}, late = {0}, later = {0};
    for (int i = 0; i < 32; i++)
        ck_assert(add(&queue, &items[i], &many));
    ck_assert_ptr_eq(take(&queue), &items[0]);
    ck_assert(add(&queue, &late, &few));
    ck_assert(add(&queue, &later, &few));
    ck_assert_ptr_eq(take(&queue), &late);
    ck_assert_ptr_eq(take(&queue), &items[1]); /* they take turns */
    ck_assert_ptr_eq(take(&queue), &later);
    ck_assert_ptr_eq(take(&queue), &items[2]);
}
END_TEST

START_TEST(a_client_that_always_has_one_more_takes_turns_too)
{
    hs_work_client often = {0}, many = {0};
    hs_work_queue queue = queue_of(ITEMS, 0);
    item items[16] = {0}, again = {0};
    for (int i = 0; i < 16; i++)
        ck_assert(add(&queue, &items[i], &many));
    for (int i = 0; i < 16; i++) {
        ck_assert(add(&queue, &again, &often));
        item *first = take(&queue), *second = take(&queue);
        ck_assert((first == &again) != (second == &again));
        ck_assert(first == &items[i] || second == &items[i]);
        hs__work_finish(&queue, &again.work);
    }
}
END_TEST

/* ---- bounds ---- */

START_TEST(a_full_queue_refuses_the_client_that_fills_it)
{
    hs_work_client client = {0};
    hs_work_queue queue = queue_of(2, 0);
    item items[4] = {0};
    ck_assert(add(&queue, &items[0], &client));
    ck_assert(add(&queue, &items[1], &client));
    ck_assert(!add(&queue, &items[2], &client));
    ck_assert_int_eq(items[2].work.state, HS_WORK_OUTSIDE);
    items[3].work = (hs_work){.client = &client, .admitted = true};
    ck_assert(hs__work_queue_add(&queue, &items[3].work, false));
    ck_assert_uint_eq(queue.n_waiting, 3);
    ck_assert_int_eq(n_dropped, 0);
}
END_TEST

START_TEST(an_idle_thread_needs_no_place)
{
    hs_work_client client = {0}, other = {0};
    hs_work_queue queue = queue_of(0, 1);
    item items[3] = {0};
    items[0].work.client = items[1].work.client = &client;
    ck_assert(!hs__work_queue_add(&queue, &items[0].work, false));
    ck_assert(hs__work_queue_add(&queue, &items[0].work, true));
    ck_assert_ptr_eq(take(&queue), &items[0]);
    ck_assert(!hs__work_queue_add(&queue, &items[1].work, true)); /* it has all that it may run */
    items[2].work.client = &other;
    ck_assert(hs__work_queue_add(&queue, &items[2].work, true));
    ck_assert_ptr_eq(take(&queue), &items[2]);
}
END_TEST

START_TEST(a_full_queue_drops_the_newest_of_the_client_with_most)
{
    hs_work_client many = {0}, some = {0}, new = {0};
    hs_work_queue queue = queue_of(6, 0);
    item items[8] = {0};
    for (int i = 0; i < 4; i++)
        ck_assert(add(&queue, &items[i], &many));
    ck_assert(add(&queue, &items[4], &some));
    ck_assert(add(&queue, &items[5], &some));
    ck_assert(add(&queue, &items[6], &new));
    ck_assert(items[3].dropped && items[3].work.end == HS_WORK_CROWDED && n_dropped == 1);
    ck_assert(add(&queue, &items[7], &new));
    ck_assert(items[2].dropped && n_dropped == 2);
    items[2] = items[3] = (item){0};
    ck_assert(!add(&queue, &items[2], &new)); /* all have two */
    ck_assert(!add(&queue, &items[3], &some));
    ck_assert_uint_eq(queue.n_waiting, 6);
    ck_assert_uint_eq(queue.n_dropped, 2);
}
END_TEST

START_TEST(admitted_items_stay_and_still_keep_nobody_out)
{
    hs_work_client many = {0}, new = {0};
    hs_work_queue queue = queue_of(3, 0);
    item items[5] = {0};
    for (int i = 0; i < 3; i++) {
        items[i].work.admitted = true;
        ck_assert(add(&queue, &items[i], &many));
    }
    ck_assert(add(&queue, &items[3], &new));
    ck_assert_int_eq(n_dropped, 0);
    ck_assert_ptr_eq(take(&queue), &items[0]);
    ck_assert_ptr_eq(take(&queue), &items[3]);
}
END_TEST

START_TEST(a_client_with_all_that_it_may_run_is_passed_over)
{
    hs_work_client many = {0}, other = {0};
    hs_work_queue queue = queue_of(8, 2);
    item items[4] = {0};
    for (int i = 0; i < 3; i++)
        ck_assert(add(&queue, &items[i], &many));
    ck_assert_ptr_eq(take(&queue), &items[0]);
    ck_assert_ptr_eq(take(&queue), &items[1]);
    ck_assert_ptr_null(take(&queue));
    ck_assert(add(&queue, &items[3], &other));
    ck_assert_ptr_eq(take(&queue), &items[3]);
    hs__work_finish(&queue, &items[0].work);
    ck_assert_ptr_eq(take(&queue), &items[2]);
}
END_TEST

/* ---- borrowing ---- */

START_TEST(items_that_come_back_keep_their_turns)
{
    hs_work_client many = {0}, few = {0};
    hs_work_queue queue = queue_of(ITEMS, 0);
    item items[5] = {0}, late = {0};
    for (int i = 0; i < 5; i++)
        ck_assert(add(&queue, &items[i], &many));
    ck_assert_ptr_eq(take(&queue), &items[0]);
    for (int i = 1; i < 4; i++)
        hs__work_queue_borrow(&queue, &items[i].work);
    ck_assert_uint_eq(many.n_running, 4);
    ck_assert_uint_eq(queue.n_waiting, 1);
    ck_assert(add(&queue, &late, &few));
    hs__work_finish(&queue, &items[1].work);
    for (int i = 3; i > 1; i--)
        hs__work_queue_return(&queue, &items[i].work);
    ck_assert_uint_eq(many.n_running, 1);
    item *const order[] = {&late, &items[2], &items[3], &items[4]};
    for (int i = 0; i < 4; i++)
        ck_assert_ptr_eq(take(&queue), order[i]);
    ck_assert_uint_eq(many.n_waiting + few.n_waiting, 0);
}
END_TEST

START_TEST(an_item_that_was_ended_does_not_come_back)
{
    hs_work_client client = {0};
    hs_work_queue queue = queue_of(ITEMS, 0);
    item one = {0};
    ck_assert(add(&queue, &one, &client));
    hs__work_queue_borrow(&queue, &one.work);
    ck_assert(hs__work_cancel(&queue, &one.work, HS_WORK_TIMED_OUT));
    hs__work_queue_return(&queue, &one.work);
    ck_assert(one.dropped && one.work.end == HS_WORK_TIMED_OUT);
    ck_assert_uint_eq(client.n_waiting + client.n_running + queue.n_waiting, 0);
}
END_TEST

/* ---- cancelling ---- */

START_TEST(a_waiting_item_is_dropped_and_a_running_one_is_flagged)
{
    hs_work_client client = {0};
    hs_work_queue queue = queue_of(8, 0);
    item items[3] = {0};
    for (int i = 0; i < 3; i++)
        ck_assert(add(&queue, &items[i], &client));
    ck_assert(!hs__work_cancel(&queue, &items[1].work, HS_WORK_ABANDONED));
    ck_assert(items[1].dropped && items[1].work.end == HS_WORK_ABANDONED);
    ck_assert_ptr_eq(take(&queue), &items[0]);
    ck_assert_int_eq(atomic_load(&items[0].work.cancelled), 0);
    ck_assert(hs__work_cancel(&queue, &items[0].work, HS_WORK_TIMED_OUT));
    ck_assert(!hs__work_cancel(&queue, &items[0].work, HS_WORK_ABANDONED)); /* the first counts */
    ck_assert_int_eq(atomic_load(&items[0].work.cancelled), 1);
    ck_assert_int_eq(items[0].work.end, HS_WORK_TIMED_OUT);
    hs__work_finish(&queue, &items[0].work);
    ck_assert(!hs__work_cancel(&queue, &items[0].work, HS_WORK_ABANDONED)); /* it is outside */
    ck_assert_int_eq(n_dropped, 1);
    ck_assert(add(&queue, &items[0], &client)); /* anew */
    ck_assert_int_eq(atomic_load(&items[0].work.cancelled), 0);
    ck_assert_int_eq(items[0].work.end, HS_WORK_DONE);
}
END_TEST

/* Checks the list against the counts. */
static void check_counts(const hs_work_queue *queue, const hs_work_client *clients, const item items[ITEMS])
{
    size_t n = 0, n_borrowed = 0, of_clients = 0;
    bool sound = true;
    for (const hs_work *work = queue->first; work; work = work->next, n++)
        sound &= work->state == HS_WORK_WAITING &&
                 (!work->next || (work->next->previous == work && work->next->turn >= work->turn));
    ck_assert(sound);
    for (int c = 0; c < CLIENTS; c++)
        of_clients += clients[c].n_waiting;
    ck_assert_uint_eq(queue->n_waiting, n);
    for (int i = 0; i < ITEMS; i++)
        n_borrowed += items[i].work.borrowed;
    ck_assert_uint_eq(of_clients, n + n_borrowed);
}

/* Adds, takes, ends and cancels at random. Every accepted item runs or is dropped, once. */
START_TEST(random_orders_lose_nothing)
{
    enum { STEPS = 20000, MAX = 10 };
    hs_work_client clients[CLIENTS] = {0};
    hs_work_queue queue = queue_of(MAX, 3);
    item items[ITEMS] = {0};
    int n_added = 0, n_taken = 0;
    srand((unsigned)_i + 1);
    for (int step = 0; step < STEPS; step++) {
        item *i = &items[rand() % ITEMS];
        const int what = rand() % 6;
        if (i->work.state == HS_WORK_OUTSIDE) {
            *i = (item){.name = step};
            n_added += add(&queue, i, &clients[rand() % CLIENTS * (rand() % 2)]); /* the first has most */
        } else if (what == 0) {
            (void)hs__work_cancel(&queue, &i->work, HS_WORK_ABANDONED);
        } else if (what == 1) {
            n_taken += take(&queue) != NULL;
        } else if (what == 2 && hs__work_queue_next(&queue)) {
            hs__work_queue_borrow(&queue, hs__work_queue_next(&queue));
        } else if (what == 3 && i->work.borrowed) {
            hs__work_queue_return(&queue, &i->work);
        } else if (i->work.state == HS_WORK_RUNNING) {
            n_taken += i->work.borrowed;
            hs__work_finish(&queue, &i->work);
        }
        ck_assert_uint_le(queue.n_waiting, ITEMS);
        check_counts(&queue, clients, items);
    }
    int n_borrowed = 0;
    for (int i = 0; i < ITEMS; i++)
        n_borrowed += items[i].work.borrowed;
    ck_assert_int_eq(n_added, n_taken + n_dropped + n_borrowed + (int)queue.n_waiting);
    ck_assert_int_gt(n_taken, STEPS / 20);
    ck_assert_uint_gt(queue.n_dropped, 0);
}
END_TEST

/* ---- disk calls ---- */

/* A gate that calls wait at, on their threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int n_inside, n_done;
static bool open_gate;

static void wait_at_gate(hs_disk_call *call)
{
    pthread_mutex_lock(&lock);
    n_inside++;
    pthread_cond_broadcast(&changed);
    while (!open_gate)
        pthread_cond_wait(&changed, &lock);
    n_inside--;
    pthread_mutex_unlock(&lock);
    *(bool *)call->data = true;
}

/* Waits as a search does, until it is cancelled. */
static void wait_for_cancel(hs_disk_call *call)
{
    pthread_mutex_lock(&lock);
    n_inside++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    while (!atomic_load(&call->work.cancelled))
        uv_sleep(1);
}

static void count_done(hs_disk_call *call)
{
    n_done += call->work.state == HS_WORK_OUTSIDE;
}

static void gate_open(void)
{
    pthread_mutex_lock(&lock);
    open_gate = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void gate_close(void)
{
    n_inside = n_done = 0;
    open_gate = false;
}

static void wait_inside(int n)
{
    pthread_mutex_lock(&lock);
    while (n_inside < n)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

START_TEST(disk_calls_leave_a_thread_to_others_and_end_early)
{
    enum { N = 8 };
    uv_loop_t loop;
    hs_disk disk;
    hs_work_client busy = {0}, other = {0};
    hs_disk_call calls[N], guest;
    bool ran[N] = {0}, guest_ran = false;
    gate_close();
    setenv("UV_THREADPOOL_SIZE", "8", 1);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    hs__disk_init(&disk, &loop);
    for (int i = 0; i < N; i++) {
        calls[i] =
            (hs_disk_call){.work.client = &busy, .run = wait_at_gate, .done = count_done, .data = &ran[i]};
        ck_assert(hs__disk_submit(&disk, &calls[i]));
    }
    guest =
        (hs_disk_call){.work.client = &other, .run = wait_at_gate, .done = count_done, .data = &guest_ran};
    ck_assert(hs__disk_submit(&disk, &guest));
    ck_assert(guest.ran && calls[2].ran && !calls[3].ran);
    wait_inside(HS_DISK_THREADS);
    for (int i = 4; i < N; i++)
        (void)hs__work_cancel(&disk.queue, &calls[i].work, HS_WORK_ABANDONED);
    ck_assert_int_eq(n_done, N - 4); /* without a thread */
    gate_open();
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(n_done, N + 1);
    for (int i = 0; i < N; i++)
        ck_assert(ran[i] == (i < 4) && ran[i] == calls[i].ran);
    ck_assert(guest_ran);
    uv_loop_close(&loop);
}
END_TEST

START_TEST(a_running_disk_call_sees_that_it_is_cancelled)
{
    uv_loop_t loop;
    hs_disk disk;
    gate_close();
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    hs__disk_init(&disk, &loop);
    hs_disk_call call = {.run = wait_for_cancel, .done = count_done},
                 more = {.run = wait_for_cancel, .done = count_done};
    ck_assert(hs__disk_submit(&disk, &call));
    hs__disk_continue(&disk, &more);
    wait_inside(2);
    (void)hs__work_cancel(&disk.queue, &call.work, HS_WORK_TIMED_OUT);
    (void)hs__work_cancel(&disk.queue, &more.work, HS_WORK_ABANDONED);
    ck_assert_int_eq(n_done, 0); /* their threads have them */
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(n_done, 2);
    ck_assert_int_eq(call.work.end, HS_WORK_TIMED_OUT);
    uv_loop_close(&loop);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("work queue");
    TCase *queue = tcase_create("queue"), *disk = tcase_create("disk");
    tcase_add_test(queue, one_client_is_served_in_its_order);
    tcase_add_test(queue, a_client_with_one_item_does_not_wait_for_all_of_another);
    tcase_add_test(queue, a_client_that_always_has_one_more_takes_turns_too);
    tcase_add_test(queue, a_full_queue_refuses_the_client_that_fills_it);
    tcase_add_test(queue, an_idle_thread_needs_no_place);
    tcase_add_test(queue, a_full_queue_drops_the_newest_of_the_client_with_most);
    tcase_add_test(queue, admitted_items_stay_and_still_keep_nobody_out);
    tcase_add_test(queue, a_client_with_all_that_it_may_run_is_passed_over);
    tcase_add_test(queue, items_that_come_back_keep_their_turns);
    tcase_add_test(queue, an_item_that_was_ended_does_not_come_back);
    tcase_add_test(queue, a_waiting_item_is_dropped_and_a_running_one_is_flagged);
    tcase_add_loop_test(queue, random_orders_lose_nothing, 0, 4);
    tcase_add_test(disk, disk_calls_leave_a_thread_to_others_and_end_early);
    tcase_add_test(disk, a_running_disk_call_sees_that_it_is_cancelled);
    suite_add_tcase(suite, queue);
    suite_add_tcase(suite, disk);
    return tests_run(suite);
}
