/* pairs_filter.c - chooses pairs by their head and by a random draw. */
#include "server/corpus/run/pairs_filter.h"

#include "model/base/bytes.h"

#include <stdlib.h>
#include <string.h>

static bool number_take(const char **at, long *ret)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    *ret = strtol(*at, &end, 10);
    *at = end;
    return true;
}

static bool is_listed(const uint16_t *layers, size_t n_layers, long layer)
{
    for (size_t l = 0; l < n_layers; l++)
        if (layers[l] == layer)
            return true;
    return false;
}

hs_status hs__pairs_filter_heads(const char *text, const uint16_t *layers, size_t n_layers, size_t n_heads,
                                 hs__pairs_filter *filter, hs_error *err)
{
    filter->n_heads = 0;
    for (const char *at = text;; at++) {
        long layer, head;
        bool ok = number_take(&at, &layer) && *at++ == '.' && number_take(&at, &head);
        ok = ok && (!*at || *at == ',') && filter->n_heads < HS__PAIRS_HEADS_MAX;
        if (!ok || !is_listed(layers, n_layers, layer) || head >= (long)n_heads)
            return hs_fail(err, HS_INVALID,
                           "must be up to %d heads like 5.3,7.0: a layer of the run (%d to %d), a point, and "
                           "a head from 0 to %zu; it is \"%.40s\"",
                           HS__PAIRS_HEADS_MAX, layers[0], layers[n_layers - 1], n_heads - 1, text);
        filter->heads[filter->n_heads][0] = (uint16_t)layer;
        filter->heads[filter->n_heads++][1] = (uint16_t)head;
        if (!*at)
            return HS_OK;
    }
}

bool hs__pairs_filter_has_head(const hs__pairs_filter *filter, uint16_t layer, uint16_t head)
{
    for (size_t k = 0; k < filter->n_heads; k++)
        if (filter->heads[k][0] == layer && filter->heads[k][1] == head)
            return true;
    return !filter->n_heads;
}

bool hs__pairs_filter_draws(const hs__pairs_filter *filter, uint64_t text, uint16_t layer, uint16_t head,
                            size_t i, size_t j)
{
    if (!(filter->sample > 0))
        return true;
    uint64_t x = hs_mix(filter->seed + HS_MIX_STEP);
    x = hs_mix(x ^ (text + HS_MIX_STEP));
    x = hs_mix(x ^ ((((uint64_t)layer << 16) | head) + HS_MIX_STEP));
    x = hs_mix(x ^ ((((uint64_t)i << 32) | j) + HS_MIX_STEP));
    return hs_fraction_of(x) < filter->sample;
}
