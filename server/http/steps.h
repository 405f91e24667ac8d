/* steps.h - libmicrohttpd's callbacks, which move an exchange through its phases. */
#pragma once

#include "server/http/exchange.h"

#include <stdarg.h>

/* For MHD_OPTION_UNESCAPE_CALLBACK and MHD_OPTION_EXTERNAL_LOGGER. */
size_t hs__library_unescapes(void *server, struct MHD_Connection *connection, char *text);

void hs__library_logs(void *server, const char *format, va_list args) HS_PRINTF(2, 0);
/* Called when a socket was accepted or closed. */
void hs__step_connection(void *server, struct MHD_Connection *connection, void **socket_context,
                         enum MHD_ConnectionNotificationCode code);

/* Called when a request line was read. */
void *hs__step_open(void *server, const char *target, struct MHD_Connection *connection);

/* Called with the headers, each piece of the body, and at its end; and after a resume. */
enum MHD_Result hs__step_next(void *server, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **con_cls);

/* Called when the answer was sent or will never be sent. Logs the request and counts it. */
void hs__step_completed(void *server, struct MHD_Connection *connection, void **con_cls,
                        enum MHD_RequestTerminationCode code);
