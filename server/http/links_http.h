/* links_http.h - the functions of /links, which keeps views of the viewer under short names. Disk calls. */
#pragma once

#include "server/http/exchange.h"

void hs__links_answer_add(hs_exchange *x);  /* POST /links */
void hs__links_answer_read(hs_exchange *x); /* GET /links/{id} */
