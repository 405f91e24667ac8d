/* libmicrohttpd_0_9_75.h - strictness that versions of libmicrohttpd before 1.0 do not have.
 *
 * From MHD_VERSION 0x00097701 on, MHD_OPTION_CLIENT_DISCIPLINE_LVL refuses requests with two readings.
 * Nothing here is compiled then. A program built with an older version may still run with a newer one, for
 * both have the same soname: the functions below do nothing then. */
#pragma once

#include "server/http/exchange.h"

#define HS_MHD_IS_LENIENT (MHD_VERSION < 0x00097701)

#if HS_MHD_IS_LENIENT
/* Returns true if the library that runs is as old as the one that this program was built with. */
bool hs__mhd_0_9_75_runs(void);

/* Refuses a head with two readings (400) and a body in chunks (411). The parameters are those of the access
 * handler in its first call. Returns true if the request was refused. */
bool hs__mhd_0_9_75_refuses(hs_exchange *exchange, const char *method, const char *target,
                            const char *version);
#endif
