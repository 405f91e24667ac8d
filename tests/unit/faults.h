/* faults.h - makes one call to the system after the other fail, as chaos.h does with allocations.
 *
 * The unit tests are linked with -Wl,--wrap for the calls of FAILING in tests.mk. So calls of headscope pass
 * through here; those of libraries do not. tests/faults/failing_calls.c does the same to a whole program. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* From now on the nth call, counted from 0 and over all threads, fails with errno `why`; those after it
 * succeed again. */
void faults_begin(size_t nth, int why);
/* No more failures. Returns true if there was one since faults_begin. */
bool faults_end(void);
