/* runtime.h - what all engines of a process share: its cores, the memory of captures, the choice of
 * kernels.
 *
 * Cores belong to the process, not to an engine. The owner of the process creates one runtime and passes
 * it down:
 *
 *     st = hs_runtime_create(n_cores, &runtime, &err);
 *     st = hs_engine_create(runtime, architecture, &options, &engine, &err);
 *     ...
 *     hs_engine_destroy(engine);
 *     hs_runtime_destroy(runtime);
 *
 * Any thread may use it. The engine has no other state that changes. Callers that build large answers
 * from captures may use its cores and its memory too. */
#pragma once

#include "model/base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct hs_runtime hs_runtime;

/* Sizes in bytes. The first two belong to one core, the third is shared by several cores. 0: there is
 * none. */
typedef struct hs_caches {
    size_t first, second, third;
} hs_caches;

/* Creates a runtime. n_cores threads may compute at once, the callers' included; 0: as many as the cores
 * that the process may run on. Starts n_cores - 1 threads, or as many as the system allows, which sleep
 * until there is work. Fails with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_runtime_create(size_t n_cores, hs_runtime **ret_runtime, hs_error *err);
/* Destroys a runtime after everything that was created with it. NULL is fine. */
void hs_runtime_destroy(hs_runtime *runtime);

size_t hs_runtime_cores(const hs_runtime *runtime);
hs_caches hs_runtime_caches(const hs_runtime *runtime);
const char *
hs_runtime_kernels(const hs_runtime *runtime); /* instruction set: "avx512", "avx2", "neon" or "base" */

/* Calls task(context, i, slot) for each i < n_tasks, on this thread and on idle cores, with at most
 * n_threads threads (0 is 1). Returns when all calls have returned. Tasks begin in the order of i. No two
 * tasks that run at the same time have the same slot < n_threads. */
void hs_runtime_share(hs_runtime *runtime, size_t n_threads, size_t n_tasks,
                      void (*task)(void *context, size_t i, size_t slot), void *context);

/* Sets the most bytes that hs_runtime_block_return keeps, 384 MiB by default. Call it before the
 * first capture is created. */
void hs_runtime_keep(hs_runtime *runtime, size_t n_bytes);

/* Returns a block of at least n_bytes, or NULL if there is no memory. Reuses a returned block of about
 * this size if there is one: the system's zeroed pages cost more than filling a reused block. *ret_bytes
 * is the block's size. The caller returns it with hs_runtime_block_return or free(). */
void *hs_runtime_block_take(hs_runtime *runtime, size_t n_bytes, size_t *ret_bytes);
/* Keeps a block for the next caller or frees it. Takes any block from malloc. NULL is fine. */
void hs_runtime_block_return(hs_runtime *runtime, void *block, size_t n_bytes);
/* Frees the kept blocks that were returned before this time of hs_clock_ns (model/base/clock.h). */
void hs_runtime_trim(hs_runtime *runtime, uint64_t before_ns);
