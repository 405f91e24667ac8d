/* attention_profile.h - in report.html: every head's profile over the texts, Clark et al.'s table. */
#pragma once

#include "server/corpus/report/figures.h"

void hs__attention_profile_write(const hs__drawing *drawing, FILE *out);
