/* probes.h - health, readiness and metrics. */
#pragma once

#include "server/http/exchange.h"

/* Starts and stops the rounds through the loop and the thread pool, which /health and /ready check. */
void hs__probe_start(hs_server *server);
void hs__probe_stop(hs_server *server);

/* Answers at once; with 503 if no round ended for some seconds. */
void hs__probe_answer_health(hs_exchange *exchange);
void hs__probe_answer_ready(hs_exchange *exchange); /* also 503 while loading or draining */
void hs__probe_answer_metrics(hs_exchange *exchange);
