/* corpus_paths.h - refuses a corpus run whose outputs would replace what it reads, or each other. */
#pragma once

#include "server/base/catalog.h"
#include "server/corpus/run/corpus_run.h"

/* Checks job->pairs and the files of job->dir against job->inputs, the model's files and `interventions` (a
 * path, or NULL). HS_INVALID names both files. A link counts as the file that it leads to. */
HS_MUST_USE hs_status hs__corpus_paths_check(const hs__corpus_job *job, const hs_model_place *model,
                                             const char *interventions, hs_error *err);
