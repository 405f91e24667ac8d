/* batch_limits.h - how many requests and lines are computed together, in one place. decisions.md ("Short
 * texts share passes where that pays") has the measurements. */
#pragma once

#include <stddef.h>

enum {
    /* Tokens of a pass that several texts share (job.c), and so its limit of texts. Larger passes are no
     * faster, and slower for models with small hidden states. */
    HS_SHARED_TOKENS = 64,

    /* Requests that a worker takes at once (server/http/tasks.c), and the bytes of their bodies if there are
     * several: the number of tokens is unknown before parsing. */
    HS_BATCH_MAX = 8,
    HS_BATCH_BYTES = 1536,

    /* Lines, and bytes of the body, of one task (server/http/stream.c); a longer line is a task of its
       own. */
    HS_CHUNK_LINES = 16,
    HS_CHUNK_BYTES = 16 << 10,

    /* Lines whose maps one worker holds at once (lines.c): their number, their tokens to compute, and the
     * bytes of their maps and answers. The last line may exceed the latter two. */
    HS_LINES_MAX = 32,
    HS_LINES_TOKENS = 512,
    HS_LINES_BYTES = 64 << 20,
};
