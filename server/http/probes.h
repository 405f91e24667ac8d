/* probes.h - what supervisors and collectors ask: alive, ready, how it goes. */
#pragma once

#include "server/http/exchange.h"

/* The rounds through the loop and a thread of the workers' pool that the first two answers tell of. */
void hs__probe_start(hs_server *server);
void hs__probe_stop(hs_server *server);

/* Nothing is computed and nothing waited for; 503 when there was no round for some seconds. */
void hs__probe_answer_health(hs_exchange *exchange);
void hs__probe_answer_ready(hs_exchange *exchange); /* and while loading or draining */
void hs__probe_answer_metrics(hs_exchange *exchange);
