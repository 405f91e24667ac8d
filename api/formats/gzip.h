/* gzip.h - compresses JSON answers if that takes little time. */
#pragma once

#include "api/formats/buffer.h"

/* Replaces the body by its gzip form. Returns false and leaves the body unchanged if compression would take
 * longer than budget_ms or would not make it smaller, and for bodies that fit into a network packet. */
bool hs__gzip(hs_buffer *body, double budget_ms);
