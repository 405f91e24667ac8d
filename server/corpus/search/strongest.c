/* strongest.c - inserts into a short sorted list. */
#include "server/corpus/search/strongest.h"

void hs__strongest_insert(hs__strong_pair *list, size_t *n, size_t n_most, hs__strong_pair pair)
{
    if (*n == n_most && !(pair.value > list[*n - 1].value))
        return;
    size_t at = *n < n_most ? (*n)++ : *n - 1;
    for (; at && list[at - 1].value < pair.value; at--)
        list[at] = list[at - 1];
    list[at] = pair;
}

size_t hs__strongest_partners(const float *map, size_t n, const uint8_t *skip, bool upper, size_t n_most,
                              hs__strong_pair *ret_pairs)
{
    size_t n_found = 0;
    for (size_t i = 0; i < n; i++) {
        hs__strong_pair best = {.i = (uint32_t)i, .j = (uint32_t)i};
        for (size_t j = 0; !skip[i] && j < n; j++) {
            const float value = upper && j < i ? map[j * n + i] : map[i * n + j];
            if (j != i && !skip[j] && (best.j == i || value > best.value))
                best = (hs__strong_pair){(uint32_t)i, (uint32_t)j, value};
        }
        if (best.j != i)
            hs__strongest_insert(ret_pairs, &n_found, n_most, best);
    }
    return n_found;
}
