/* thread_limit.h - says beforehand whether the process may start its threads. libuv ends a process that may
 * not, without a message. */
#pragma once

#include "model/base/status.h"

#include <stddef.h>

/* Starts n threads that wait for one another, and ends them. Fails with HS_NO_MEMORY if one cannot be
 * started; the message says to lower `option`, or to raise the limit. */
HS_MUST_USE hs_status hs__threads_check(size_t n, const char *option, hs_error *err);
