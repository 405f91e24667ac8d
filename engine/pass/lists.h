/* lists.h - ascending lists of layers or heads, as selections and interventions hold them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns true if the items are ascending, unique and below limit. */
static inline bool hs__list_is_sound(const uint16_t *items, size_t n_items, size_t limit)
{
    for (size_t i = 0; i < n_items; i++)
        if (items[i] >= limit || (i > 0 && items[i] <= items[i - 1]))
            return false;
    return true;
}

/* Returns the position of item, or -1. */
static inline ptrdiff_t hs__list_find(const uint16_t *items, size_t n_items, size_t item)
{
    for (size_t i = 0; i < n_items && items[i] <= item; i++)
        if (items[i] == item)
            return (ptrdiff_t)i;
    return -1;
}
