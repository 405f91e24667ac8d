/* reply.h - an answer on its way out: its headers, and handing it to libmicrohttpd. */
#pragma once

#include "server/http/exchange.h"

/* What --cors lets the request's Origin see: that origin, "*" when all may, or NULL. */
const char *hs__reply_origin(const hs_exchange *exchange);

/* Queues exchange->response, or exchange->prepared in its place; the body is libmicrohttpd's afterwards. */
enum MHD_Result hs__reply(hs_exchange *exchange);
