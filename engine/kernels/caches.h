/* caches.h - the sizes of a core's caches, by which matrix products are cut. They affect speed only,
 * never results. */
#pragma once

#include "engine/runtime.h"

#include <stdbool.h>

/* Three sizes, "32K,1M,16M", that replace those found: for tests and measurements. */
#define HS_CACHES_VARIABLE "HEADSCOPE_CACHES"

/* Reads the sizes from the environment, else from the system, else assumes what most servers have. Limits
 * them to a sensible range. Returns false if the environment's text is not three sizes. */
bool hs__caches_read(hs_caches *ret_caches);
