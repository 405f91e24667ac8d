/* probes.h - what supervisors and collectors ask: alive, ready, how it goes. */
#pragma once

#include "server/http/exchange.h"

/* Both need the loop and a thread of the workers' pool to go round once; nothing is computed. */
void hs__probe_answer_health(hs_exchange *exchange);
void hs__probe_answer_ready(hs_exchange *exchange); /* 503 while loading or draining */
void hs__probe_answer_metrics(hs_exchange *exchange);
