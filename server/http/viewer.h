/* viewer.h - the web viewer's files, which are embedded in the program. */
#pragma once

#include "server/http/exchange.h"

bool hs__viewer_has(const char *path); /* "/" is its index */
void hs__viewer_answer(hs_exchange *exchange);
