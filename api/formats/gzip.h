/* gzip.h - compressed JSON answers, where that pays. */
#pragma once

#include "api/formats/buffer.h"

/* Replaces the body by its gzip form when that can be had within budget_ms and is smaller; else leaves it as
 * it is and returns false. Small bodies are left alone: a frame of network holds them anyway. */
bool hs__gzip(hs__buffer *body, double budget_ms);
