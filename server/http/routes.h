/* routes.h - the whole HTTP surface in one table. */
#pragma once

#include "server/http/route.h"

extern const hs_routes hs__routes;
