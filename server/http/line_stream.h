/* line_stream.h - answers a body of lines, each a request, with a stream of lines in the same order.
 *
 * The body is cut into chunks of some lines, each a task. One chunk more than there are workers is computed
 * ahead. So memory is bounded by the chunks, not by the body. The deadline applies to each chunk. If the
 * client leaves, all chunks are cancelled. */
#pragma once

#include "server/http/exchange.h"

/* Answers a complete request for which hs_request_is_lines returned true. */
void hs__line_stream_begin(hs_exchange *exchange);
