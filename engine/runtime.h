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
 * Any thread may use it. engine/ keeps no other state that changes. */
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
