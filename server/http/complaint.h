/* complaint.h - requests that libmicrohttpd refuses by itself, before anybody here is asked. */
#pragma once

#include "server/http/service.h"

#include <stdarg.h>

/* libmicrohttpd's log (MHD_OPTION_EXTERNAL_LOGGER): what it refuses is counted and logged here, as 4xx of no
 * route. */
void hs__complaint_hear(void *server, const char *format, va_list args) HS_PRINTF(2, 0);

/* Its decoder of percent signs (MHD_OPTION_UNESCAPE_CALLBACK): as its own, and tells when the target is
 * through. */
size_t hs__complaint_unescape(void *server, struct MHD_Connection *connection, char *text);
