/* routes.h - the table of all routes. */
#pragma once

#include "server/http/route.h"

extern const hs_routes hs__routes;
