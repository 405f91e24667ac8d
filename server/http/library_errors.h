/* library_errors.h - answers in place of libmicrohttpd's own, for heads that it refuses by itself.
 *
 * The library answers with a page of HTML. Version 0.9.75 also forgets that it has answered while it reads
 * the target's arguments or judges the whole head. The answer's header goes out twice then, or the connection
 * never ends. A head that is refused before its end, such as one with a malformed line, gets the library's
 * page. */
#pragma once

#include "server/http/exchange.h"

#include <stdarg.h>

/* To be called when a request line is read. `target` is the library's string. */
void hs__library_opens(hs_exchange *exchange, const char *target);
/* For MHD_OPTION_UNESCAPE_CALLBACK and MHD_OPTION_EXTERNAL_LOGGER. */
size_t hs__library_unescapes(void *server, struct MHD_Connection *connection, char *text);
void hs__library_logs(void *server, const char *format, va_list args) HS_PRINTF(2, 0);
