/* runs_http.h - the functions of /corpora's routes. All are disk calls, and answer the exchange. */
#pragma once

#include "server/http/exchange.h"

/* POST /corpora: before the body, for each piece of it, and after it. */
void hs__runs_upload_begin(hs_exchange *x);
void hs__runs_upload_receive(hs_exchange *x);
void hs__runs_upload_finish(hs_exchange *x);

void hs__runs_answer_list(hs_exchange *x);

/* /corpora/{id} and what is below it. 404 without such a run. */
void hs__runs_answer_run(hs_exchange *x);
void hs__runs_answer_events(hs_exchange *x);
void hs__runs_answer_report(hs_exchange *x);
void hs__runs_answer_comparison(hs_exchange *x);
void hs__runs_answer_examples(hs_exchange *x);
void hs__runs_answer_search(hs_exchange *x);
void hs__runs_answer_cancel(hs_exchange *x);
void hs__runs_answer_restart(hs_exchange *x);
void hs__runs_answer_delete(hs_exchange *x);
