/* client_memory.h - bounds the memory for request bodies and unsent answers, for each peer and in total. Any
 * thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct hs_client_memory hs_client_memory;
struct hs_client_memory {
    hs_client_memory *all; /* the total, which includes these bytes; NULL: this is the total */
    size_t max;
    atomic_size_t n_bytes;
};

/* Reserves n_bytes. Returns false, without effect, if the limit would be exceeded. */
bool hs__client_memory_take(hs_client_memory *budget, size_t n_bytes);
/* Reserves n_bytes even over the limit, for memory that exists already. */
void hs__client_memory_exceed(hs_client_memory *budget, size_t n_bytes);
/* Ends a reservation of n_bytes. */
void hs__client_memory_return(hs_client_memory *budget, size_t n_bytes);
/* Replaces a reservation of *n_reserved bytes by n_bytes, even over the limit. */
void hs__client_memory_replace(hs_client_memory *budget, size_t *n_reserved, size_t n_bytes);
