/* listen.h - opens a listening socket for "HOST:PORT". */
#pragma once

#include "model/base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Listens on "127.0.0.1:8080", "[::1]:0", "localhost:8080" or ":8080" (all addresses). On success *ret_fd is
 * a non-blocking socket that the caller closes, ret_url its URL, and *ret_public is true if other machines
 * can reach it. */
HS_MUST_USE hs_status hs__listen(const char *where, int *ret_fd, char *ret_url, size_t url_size,
                                 bool *ret_public, hs_error *err);
