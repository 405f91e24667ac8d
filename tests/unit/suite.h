/* suite.h - runs the cases of a test program and returns its exit status. */
#pragma once

#include <check.h>
#include <stdlib.h>

/* Gives each test ten minutes, before any case is made: only a test that hangs takes as long. Check's own
 * limit of four seconds fails healthy tests on a busy machine. */
__attribute__((constructor)) static void timeout_set(void)
{
    setenv("CK_DEFAULT_TIMEOUT", "600", 0);
}

/* Runs the suite, which is released, and returns what main returns. */
static inline int tests_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
