/* routes.h - the table of all routes. */
#pragma once

#include "server/http/exchange.h"
#include "server/http/route.h"

/* Starts and stops the rounds through the loop and the thread pool, which /health and /ready check. */
void hs__probe_start(hs_server *server);

void hs__probe_stop(hs_server *server);
extern const hs_routes hs__routes;
