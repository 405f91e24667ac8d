/* counters.c - the list of all counters. */
#include "server/corpus/counters/counter.h"

#include "model/base/bytes.h"

#define POINTER(name) &hs__counter_##name,
const hs__counter *const hs__counters[HS__N_COUNTERS] = {HS__COUNTERS(POINTER)};

void hs__counters_digest(char ret[17])
{
    uint64_t digest = hs_corpus_rows_digest(HS_HASH_START);
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        if (hs__counters[c]->sums)
            digest = hs_rows_digest(digest, hs__counters[c]->sums->rows, hs__counters[c]->sums->n_rows);
    snprintf(ret, 17, "%016llx", (unsigned long long)digest);
}
