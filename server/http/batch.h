/* batch.h - answers several requests on one worker, short texts in one pass.
 *
 * A short text alone reads every weight from memory for a few rows. Texts in one pass read them once.
 * hs_job_run decides which texts share one.
 *
 * No text attends to another, and the default backend sums each row in the same order in every pass. So the
 * answers do not depend on the batch. */
#pragma once

#include "server/http/tasks.h"

/* Fills the responses of n <= HS_BATCH_MAX tasks, except cancelled ones. control is that of shared passes;
 * each task's `cancelled` ends its own work. Returns the number of tasks that shared a pass. Any thread. */
size_t hs__batch_answer(hs_api *api, hs_task *const *tasks, size_t n, const hs_run_control *control);
