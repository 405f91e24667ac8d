/* fuzz_comparison.c - a report.json is refused with a reason, or can be compared with itself. The comparison
 * has every run, and can be written in every form. If its model is called step 1, the second run is step 2.
 *
 * If the first byte of the input is 'p', the page is drawn too, which takes most of the time: few seeds begin
 * so. */
#include "server/corpus/report/comparison.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void comparison_write(const json_t *json, bool with_page)
{
    FILE *out = fopen("/dev/null", "we");
    hs_error err = {0};
    require(out);
    require(hs__comparison_csv_write(out, json, &err) == HS_OK);
    require(!json_dumpf(json, out, JSON_COMPACT | JSON_REAL_PRECISION(12)));
    if (with_page)
        require(hs__comparison_html_write(out, json, NULL, &err) == err.status);
    fclose(out);
}

/* Makes step 1 of a training step 2. */
static void step_change(char *bytes, size_t n)
{
    static const char name[] = "-step1\",\"sha256\"";
    char *at = memmem(bytes, n, name, sizeof name - 1);
    if (at)
        at[strlen("-step")] = '2';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    char *bytes = malloc(size);
    require(bytes);
    memcpy(bytes, data + 1, size - 1);
    hs__comparison *comparison = hs__comparison_create(NAN);
    hs_error err = {0};
    require(comparison);
    const hs_status st = hs__comparison_add(comparison, "first", bytes, size - 1, &err);
    require(st == err.status && (st != HS_OK) == (*err.text != '\0'));
    step_change(bytes, size - 1);
    require(hs__comparison_add(comparison, "second", bytes, size - 1, &err) == st);
    free(bytes);
    hs__comparison_sort(comparison);
    json_t *json = hs__comparison_json(comparison);
    require((json != NULL) == (st == HS_OK));
    if (json) {
        require(json_array_size(json_object_get(json, "runs")) == 2);
        comparison_write(json, *data == 'p');
    }
    json_decref(json);
    hs__comparison_destroy(comparison);
    return 0;
}
