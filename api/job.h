/* job.h - what the rest of api/ reads of a job; its three steps are in api.h. */
#pragma once

#include "api/api.h"

/* Returns the number of tokens that the job's passes still compute; 0 if none is needed (an error, another
 * operation, cached heads). A job with `effects` or `head_scores` counts as one text of the model's maximum
 * length. */
size_t hs__job_tokens(const hs_job *job);
/* Returns an upper bound of the memory that the job and its answer take. */
size_t hs__job_bytes(const hs_job *job);
/* Returns true if request.hold refused the job's answer: the request may be tried again later. */
bool hs__job_over_budget(const hs_job *job);
