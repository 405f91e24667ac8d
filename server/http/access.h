/* access.h - records the outcome of a request in the log and in the metrics. */
#pragma once

#include "server/http/exchange.h"

/* Writes the stages' times so far into exchange->stages, in the format of Server-Timing. */
void hs__access_stages(hs_exchange *exchange);

/* Records a request whose answer was sent or will never be sent. */
void hs__access_record(const hs_exchange *exchange);
/* Returns the status that libmicrohttpd answered with by itself, or 0. */
int hs__access_status_of_library(const hs_exchange *exchange);
/* Records a request that libmicrohttpd refused before its headers were read. path is "" if it could not read
 * the request line either. */
void hs__access_record_unread(const hs_connection *connection, const char *path, int status);
