/* admission.h - what a request's headers decide before its body is looked at: is it framed in one way only,
 * is it meant for this server, does it come from where it may, is there somebody to answer it. */
#pragma once

#include "server/http/exchange.h"

/* Finds exchange->route or refuses. True: answer now and close, for the rest of the request cannot be trusted
 * or is not worth reading. method and version are libmicrohttpd's, as they stand in the request line. */
bool hs__admission_refuses(hs_exchange *exchange, const char *method, const char *version);

/* Of the exchange's route; and the refusal of more. */
size_t hs__admission_body_max(const hs_exchange *exchange);
void hs__admission_refuse_large(hs_exchange *exchange);

/* A body is still to come that is not worth reading: too long, or the client waits for "100 Continue". */
bool hs__admission_body_unwanted(const hs_exchange *exchange);
