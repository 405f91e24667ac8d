/* runtime.c - the state that all engines of a process share. It is created once and passed down, so
 * engine/ has no global variables. */
#include "engine/pass/runtime_parts.h"

#include <stdlib.h>

hs_status hs_runtime_create(size_t n_cores, hs_runtime **ret_runtime, hs_error *err)
{
    const hs__kernels *kernels = hs__kernels_select();
    if (!kernels)
        return hs_fail(
            err, HS_UNSUPPORTED,
            HS_KERNELS_VARIABLE
            " names kernels that this CPU does not have: use avx512, avx2 or base, or leave it unset");
    hs_caches caches;
    if (!hs__caches_read(&caches))
        return hs_fail(err, HS_UNSUPPORTED,
                       HS_CACHES_VARIABLE
                       " is not three sizes as in 32K,1M,16M: write it so, or leave it unset");
    hs_runtime *runtime = calloc(1, sizeof *runtime);
    hs__thread_pool *threads = hs__thread_pool_create(n_cores > 0 ? n_cores : hs__cores_allowed());
    if (!runtime || !threads) {
        hs__thread_pool_destroy(threads);
        free(runtime);
        return hs_fail(err, HS_NO_MEMORY, "out of memory for a runtime");
    }
    runtime->threads = threads;
    runtime->kernels = kernels;
    runtime->caches = caches;
    hs__block_pool_init(&runtime->blocks);
    *ret_runtime = runtime;
    return HS_OK;
}

void hs_runtime_destroy(hs_runtime *runtime)
{
    if (!runtime)
        return;
    hs__thread_pool_destroy(runtime->threads);
    hs__block_pool_finish(&runtime->blocks);
    free(runtime);
}

size_t hs_runtime_cores(const hs_runtime *runtime)
{
    return hs__thread_pool_cores(runtime->threads);
}

hs_caches hs_runtime_caches(const hs_runtime *runtime)
{
    return runtime->caches;
}

const char *hs_runtime_kernels(const hs_runtime *runtime)
{
    return runtime->kernels->name;
}

void hs_runtime_share(hs_runtime *runtime, size_t n_threads, size_t n_tasks,
                      void (*task)(void *context, size_t i, size_t slot), void *context)
{
    hs__team team;
    hs__team_start(&team, runtime, n_threads);
    hs__team_share(&team, n_tasks, task, context);
    hs__team_finish(&team);
}

void hs_runtime_keep(hs_runtime *runtime, size_t n_bytes)
{
    hs__block_pool_limit(&runtime->blocks, n_bytes);
}

void *hs_runtime_block_take(hs_runtime *runtime, size_t n_bytes, size_t *ret_bytes)
{
    const hs__block block = hs__block_take(&runtime->blocks, n_bytes);
    *ret_bytes = block.bytes;
    return block.memory;
}

void hs_runtime_block_return(hs_runtime *runtime, void *block, size_t n_bytes)
{
    if (block)
        hs__block_return(&runtime->blocks, (hs__block){block, n_bytes});
}
