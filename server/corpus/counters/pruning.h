/* pruning.h - the pruning curve of a run as charts and as a table, from the member `pruning` of report.json.
 */
#pragma once

#include "server/corpus/counters/counter.h"
#include "server/corpus/counters/pruning_passes.h"

/* Lays out the curves of a kind, HS__PRUNING_ZERO or HS__PRUNING_MEAN. The picture stays empty without a
 * curve. Release it with hs_picture_finish, also on failure. HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__pruning_chart_draw(const json_t *pruning, size_t kind, hs_picture *ret,
                                             hs_error *err);
/* Writes a row for each order of heads. */
void hs__pruning_table_write(const json_t *pruning, FILE *out);
