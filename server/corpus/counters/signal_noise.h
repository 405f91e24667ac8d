/* signal_noise.h - what others take from the signal-to-noise ratio: rows of its terms, and the control's
 * sums.
 */
#pragma once

#include "server/corpus/counters/counter.h"
#include "server/corpus/report/html.h"

/* The kind of sums of the network with random weights. */
extern const hs_sums_kind hs__untrained_noise_sums;

/* Add a text, or one of its heads in that network, to the sums of the counter untrained_noise. states:
 * of a worker's counters, of which signal_noise has begun the text. */
void hs__untrained_noise_text(void *const *states, const hs__text *text);
void hs__untrained_noise_head(void *const *states, const hs__text *text, const hs__text_head *head);

/* The columns of a table of terms, and the cells of a row: a member of signal_noise.terms in report.json. */
enum { HS__NOISE_COLUMNS = 9 };
extern const hs__column hs__noise_columns[HS__NOISE_COLUMNS];
void hs__noise_cells_write(FILE *out, const json_t *term);
