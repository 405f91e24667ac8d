/* windows.h - the number of texts of a run that cuts them into windows. */
#pragma once

#include "server/corpus/corpus.h"

/* Returns the number of texts in results with statistics; all windows of a text are one. */
uint64_t hs__texts_counted(const hs__corpus_results *results);
