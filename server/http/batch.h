/* batch.h - a few requests answered by one worker, short texts in one pass.
 *
 * A short text alone reads every weight from memory for a few rows; several side by side read them once.
 * Texts of the same model that run through the same layers share a pass of up to HS_SHARED_TOKENS. A longer
 * text has a pass of its own. No text sees another, and the default backend sums each row in the same order
 * whatever stands beside it: the answers are those of one by one. */
#pragma once

#include "server/http/tasks.h"

/* Fills the responses of n <= HS_BATCH_MAX tasks, but for those that are cancelled by then. control is the
 * passes'; each task's own `cancelled` ends what is its own. Returns how many tasks shared a pass. Any
 * thread. */
size_t hs__batch_answer(hs_api *api, hs_api_worker *worker, hs_task *const *tasks, size_t n,
                        const hs_run_control *control);
