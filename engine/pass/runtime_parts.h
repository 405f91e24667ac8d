/* runtime_parts.h - what a runtime is made of, for the files of engine/ that create it or draw on it. */
#pragma once

#include "engine/kernels/caches.h"
#include "engine/kernels/kernels.h"
#include "engine/pass/block_pool.h"
#include "engine/pass/team.h"

struct hs_runtime {
    hs__thread_pool *threads;
    hs__block_pool blocks;      /* of large captures and answers */
    const hs__kernels *kernels; /* the fastest that this CPU has */
    hs_caches caches;
};
