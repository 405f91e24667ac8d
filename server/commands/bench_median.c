/* bench_median.c - the figure of several rounds: their median, which a disturbed round does not move. */
#include "server/commands/bench.h"

#include <stdlib.h>

static int compare_values(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double hs__bench_median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare_values);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}
