/* runtime_parts.h - the members of a runtime, for the files of engine/ that use them. */
#pragma once

#include "engine/kernels/caches.h"
#include "engine/kernels/kernels.h"
#include "engine/pass/block_pool.h"
#include "engine/pass/team.h"

struct hs_runtime {
    hs__thread_pool *threads;
    hs__block_pool blocks;      /* for large captures and answers */
    const hs__kernels *kernels; /* the fastest set of this CPU */
    hs_caches caches;
};
