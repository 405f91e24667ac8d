/* routes.h - the table of all routes. */
#pragma once

#include "server/http/exchange.h"
#include "server/http/route.h"

/* Starts and stops the rounds through the loop and the thread pool, which /health and /ready check. */
void hs__probe_start(hs_server *server);

void hs__probe_stop(hs_server *server);
extern const hs_routes hs__routes;

/* Routes that are with what they answer: models_http.c, runs_http.c. */
extern const hs_route_table hs__model_routes, hs__run_routes;
