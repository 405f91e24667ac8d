/* held.h - memory of request bodies and of answers until they are sent: bounded in all and for each peer, and
 * reserved before it is taken. Any thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct hs_held hs_held;
struct hs_held {
    hs_held *all; /* what is held here is held there too; NULL: this is all */
    size_t max;
    atomic_size_t n_bytes;
};

/* False, and nothing happened, when it would be too much. */
bool hs__held_take(hs_held *held, size_t n_bytes);
/* What cannot be refused any more. */
void hs__held_take_anyway(hs_held *held, size_t n_bytes);
void hs__held_give_back(hs_held *held, size_t n_bytes);
