/* steps.h - libmicrohttpd's callbacks: they move an exchange from one phase to the next. */
#pragma once

#include "server/http/exchange.h"

/* A socket was accepted or closed. */
void hs__step_connection(void *server, struct MHD_Connection *connection, void **socket_context,
                         enum MHD_ConnectionNotificationCode code);
/* A request line is in. */
void *hs__step_open(void *server, const char *target, struct MHD_Connection *connection);
/* The headers are in, a piece of the body, or all of it; or the exchange was resumed. */
enum MHD_Result hs__step_next(void *server, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **con_cls);
/* The answer was sent, or never will be: into the log and the metrics. */
void hs__step_completed(void *server, struct MHD_Connection *connection, void **con_cls,
                        enum MHD_RequestTerminationCode code);
