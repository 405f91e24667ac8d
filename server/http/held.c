/* held.c - a sum that is raised first and looked at then: two that come at once are both refused at worst. */
#include "server/http/held.h"

bool hs__held_take(hs_held *held, size_t n_bytes)
{
    const size_t before = atomic_fetch_add(&held->n_bytes, n_bytes);
    if (before <= held->max && n_bytes <= held->max - before &&
        (!held->all || hs__held_take(held->all, n_bytes)))
        return true;
    atomic_fetch_sub(&held->n_bytes, n_bytes);
    return false;
}

void hs__held_take_anyway(hs_held *held, size_t n_bytes)
{
    for (; held; held = held->all)
        atomic_fetch_add(&held->n_bytes, n_bytes);
}

void hs__held_give_back(hs_held *held, size_t n_bytes)
{
    for (; held; held = held->all)
        atomic_fetch_sub(&held->n_bytes, n_bytes);
}
