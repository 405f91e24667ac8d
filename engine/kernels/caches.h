/* caches.h - the sizes of the caches that a core works in: what products are cut by. No result depends on
 * them, only where each number is when it is wanted. */
#pragma once

#include "engine/runtime.h"

#include <stdbool.h>

/* Three sizes, "32K,1M,16M", in place of those found: for tests and measurements. */
#define HS_CACHES_VARIABLE "HEADSCOPE_CACHES"

/* As the environment says, else the system, else what most servers have at least. Sizes that no cache has
 * are brought within reason. False when the environment's text is not three sizes. */
bool hs__caches_read(hs_caches *ret_caches);
