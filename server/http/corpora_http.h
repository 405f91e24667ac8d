/* corpora_http.h - /corpora: what its routes do. All of them in disk calls. */
#pragma once

#include "server/http/exchange.h"

/* POST /corpora: before the body, for each piece of it, and after it. */
void hs__corpora_begin(hs_exchange *x);
void hs__corpora_receive(hs_exchange *x);
void hs__corpora_queue(hs_exchange *x);

void hs__corpora_answer_list(hs_exchange *x);
void hs__corpora_answer_run(hs_exchange *x);
void hs__corpora_answer_events(hs_exchange *x);
void hs__corpora_answer_report(hs_exchange *x);
void hs__corpora_answer_cancel(hs_exchange *x);
void hs__corpora_answer_delete(hs_exchange *x);
