/* reply.h - sets an answer's headers and hands it to libmicrohttpd. */
#pragma once

#include "server/http/exchange.h"

/* Returns the value of Access-Control-Allow-Origin by --cors: the request's origin, "*", or NULL. */
const char *hs__reply_origin(const hs_exchange *exchange);

/* Queues exchange->prepared if it is set, else exchange->response. libmicrohttpd then owns the body. */
enum MHD_Result hs__reply(hs_exchange *exchange);
