/* client_memory.c - adds first and checks the sum afterwards. In a race hs__client_memory_take may refuse
 * both requests, but it never exceeds the limit. */
#include "server/http/client_memory.h"

bool hs__client_memory_take(hs_client_memory *budget, size_t n_bytes)
{
    const size_t before = atomic_fetch_add(&budget->n_bytes, n_bytes);
    if (before <= budget->max && n_bytes <= budget->max - before &&
        (!budget->all || hs__client_memory_take(budget->all, n_bytes)))
        return true;
    atomic_fetch_sub(&budget->n_bytes, n_bytes);
    return false;
}

void hs__client_memory_exceed(hs_client_memory *budget, size_t n_bytes)
{
    for (; budget; budget = budget->all)
        atomic_fetch_add(&budget->n_bytes, n_bytes);
}

void hs__client_memory_return(hs_client_memory *budget, size_t n_bytes)
{
    for (; budget; budget = budget->all)
        atomic_fetch_sub(&budget->n_bytes, n_bytes);
}

void hs__client_memory_replace(hs_client_memory *budget, size_t *n_reserved, size_t n_bytes)
{
    hs__client_memory_exceed(budget, n_bytes);
    hs__client_memory_return(budget, *n_reserved);
    *n_reserved = n_bytes;
}
