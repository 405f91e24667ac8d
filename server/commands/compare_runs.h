/* compare_runs.h - compares finished runs in folders, for `corpus` with several models, `study` and `report`.
 */
#pragma once

#include "model/base/status.h"

#include <jansson.h>

/* Compares the runs in n folders, in the order of hs__comparison_sort. names: what the comparison and
 * messages call them. Release *ret_comparison with json_decref. Errors are those of hs__comparison_add_file,
 * or HS_NOT_FOUND for a folder without a report. */
HS_MUST_USE hs_status hs__folders_compare(const char *const *dirs, const char *const *names, size_t n,
                                          json_t **ret_comparison, hs_error *err);

/* Writes a comparison to a path: JSON or CSV if it ends in .json or .csv, else the page. */
HS_MUST_USE hs_status hs__comparison_write(const json_t *comparison, const char *path, hs_error *err);

/* Prints the warnings of a comparison on standard error. command: the program's subcommand. */
void hs__comparison_warnings_print(const json_t *comparison, const char *command);
