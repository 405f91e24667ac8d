/* steps.h - callbacks of libmicrohttpd, which move an exchange through its phases. `cls` is the server. */
#pragma once

#include "server/http/service.h"

void hs__on_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
                       enum MHD_ConnectionNotificationCode code);

/* The request line was read: returns the new exchange, *con_cls of the other calls, or NULL. */
void *hs__on_request_line(void *cls, const char *target, struct MHD_Connection *mhd);

enum MHD_Result hs__on_step(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
                            const char *version, const char *upload, size_t *upload_bytes, void **con_cls);

/* The exchange ended: its answer was sent, or its client left. */
void hs__on_completed(void *cls, struct MHD_Connection *mhd, void **con_cls,
                      enum MHD_RequestTerminationCode code);
