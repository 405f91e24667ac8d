/* routes.h - the table of all routes. */
#pragma once

#include "server/http/exchange.h"
#include "server/http/route.h"

extern const hs_routes hs__routes;

/* Routes that are with what they answer: models_http.c, runs_http.c. */
extern const hs_route_table hs__model_routes, hs__run_routes;
