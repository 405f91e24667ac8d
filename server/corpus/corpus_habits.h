/* corpus_habits.h - in report.html: every head's profile over the texts, Clark et al.'s table. */
#pragma once

#include "server/corpus/corpus_figures.h"

void hs__habits_write(const hs__drawing *drawing, FILE *out);
