/* counters.c - the list of all counters. */
#include "server/corpus/counters/counter.h"

#define POINTER(name) &hs__counter_##name,
#define NUMBER(name)  NUMBER_OF_##name,
const hs__counter *const hs__counters[] = {HS__COUNTERS(POINTER)};
enum { HS__COUNTERS(NUMBER) N_COUNTERS };
const size_t hs__n_counters = N_COUNTERS;
