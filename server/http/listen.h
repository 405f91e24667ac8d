/* listen.h - from "HOST:PORT" to a listening socket. */
#pragma once

#include "model/status.h"

#include <stdbool.h>
#include <stddef.h>

/* "127.0.0.1:8080", "[::1]:0", "localhost:8080", ":8080" (every address). On success *ret_fd is a
 * non-blocking listening socket, the caller's to close, and ret_url the address it has, as a URL;
 * *ret_public tells that others than this machine can reach it. */
HS_MUST_USE hs_status hs__listen(const char *where, int *ret_fd, char *ret_url, size_t url_size,
                                 bool *ret_public, hs_error *err);
