/* report_value.c - follows a path from member to member, and writes numbers. */
#include "server/corpus/report/report_value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const json_t *hs__report_value(const json_t *json, const char *path, hs__indices at)
{
    while (json && *path) {
        char name[64];
        const size_t n = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        json = strcmp(name, "T") == 0   ? json_array_get(json, at.t)
               : strcmp(name, "L") == 0 ? json_array_get(json, at.l)
               : strcmp(name, "H") == 0 ? json_array_get(json, at.h)
                                        : json_object_get(json, name);
        path += n + (path[n] == '.');
    }
    return json;
}

bool hs__report_has(const json_t *report, const char *path)
{
    return json_object_getn(report, path, strcspn(path, ".")) != NULL;
}

double hs__report_number_at(const json_t *report, const char *path, hs__indices at)
{
    const json_t *value = path ? hs__report_value(report, path, at) : NULL;
    return json_is_number(value) ? json_number_value(value) : NAN;
}

double hs__report_decimal(float value)
{
    char shortest[32];
    snprintf(shortest, sizeof shortest, "%.6g", (double)value);
    return strtod(shortest, NULL);
}

json_t *hs__report_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}
