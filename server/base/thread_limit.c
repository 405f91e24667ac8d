/* thread_limit.c - starts the threads at a closed gate, so that all are there at once. */
#include "server/base/thread_limit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void *pass(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

hs_status hs__threads_check(size_t n, const char *option, hs_error *err)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t *threads = calloc(n, sizeof *threads);
    size_t started = 0;
    int code = threads ? 0 : ENOMEM;
    pthread_mutex_lock(&gate);
    while (started < n && !code) {
        code = pthread_create(&threads[started], NULL, pass, &gate);
        started += !code;
    }
    pthread_mutex_unlock(&gate);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    return code ? hs_fail(err, HS_NO_MEMORY,
                          "%zu of %zu threads can be started: %s; lower %s, or raise the limit of threads "
                          "(ulimit -u, or that of the container or service)",
                          started, n, strerror(code), option)
                : HS_OK;
}
