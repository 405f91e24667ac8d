/* line_stream.h - a body of lines, each a request, answered as a stream of lines in their order.
 *
 * The body is cut into chunks of some lines, each a task. Several are computed ahead, one beyond what all
 * workers do, and wait until what is before them was sent; so memory is bounded by them and not by the body.
 * The deadline is each chunk's; a client that leaves ends all of it. */
#pragma once

#include "server/http/exchange.h"

/* The request is whole and hs_lines_asked says that it is one: leaves the exchange answered. */
void hs__line_stream_begin(hs_exchange *exchange);
