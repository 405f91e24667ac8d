/* suite.h - runs the cases of a test program and returns its exit status. */
#pragma once

#include <check.h>

/* Runs the suite, which is released, and returns what main returns. */
static inline int tests_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
