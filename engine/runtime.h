/* runtime.h - what all engines of a process share: its cores, the memory of captures, the choice of kernels.
 *
 * Cores belong to the process, not to an engine, so whoever owns the process makes one runtime and hands it
 * down:
 *
 *     st = hs_runtime_create(n_cores, &runtime, &err);
 *     st = hs_engine_create(runtime, model, &options, &engine, &err);
 *     ...
 *     hs_engine_destroy(engine);
 *     hs_runtime_destroy(runtime);
 *
 * Any thread may use it. engine/ keeps no other state that changes. Who makes something large of what engines
 * computed may use its cores and its memory too. */
#pragma once

#include "model/status.h"

#include <stddef.h>

typedef struct hs_runtime hs_runtime;

/* Sizes in bytes. The first two are a core's own, the third is shared by all cores that have it; 0: there is
 * none. */
typedef struct hs_caches {
    size_t first, second, third;
} hs_caches;

/* n_cores threads may compute at once, the callers' own included; 0: as many as the cores that the process
 * may run on. Starts n_cores - 1 threads, or as many as the system allows, which sleep until there is work.
 */
HS_MUST_USE hs_status hs_runtime_create(size_t n_cores, hs_runtime **ret_runtime, hs_error *err);
/* After everything that was made with it. NULL is fine. */
void hs_runtime_destroy(hs_runtime *runtime);

size_t hs_runtime_cores(const hs_runtime *runtime);
hs_caches hs_runtime_caches(const hs_runtime *runtime);
const char *hs_runtime_kernels(const hs_runtime *runtime); /* instruction set: "avx512", "avx2" or "base" */

/* Does task(context, i, slot) for each i < n_tasks, on this thread and on cores that are idle, n_threads (0
 * is 1) at most in all; returns when all are done. They are begun in the order of i. slot < n_threads is the
 * doer's alone while it does one. */
void hs_runtime_share(hs_runtime *runtime, size_t n_threads, size_t n_tasks,
                      void (*task)(void *context, size_t i, size_t slot), void *context);

/* At least n_bytes, from a block that was returned where there is one of about this size: fresh pages cost
 * more than filling them. Its size goes into *ret_bytes. free() may take it as well. NULL when there is no
 * memory. */
void *hs_runtime_block_take(hs_runtime *runtime, size_t n_bytes, size_t *ret_bytes);
/* Keeps a block for the next, within bounds, or frees it: any from malloc will do. NULL is fine. */
void hs_runtime_block_return(hs_runtime *runtime, void *block, size_t n_bytes);
