/* base64.h - bytes as text (RFC 4648, section 4). */
#pragma once

#include <stddef.h>

/* Returns the number of characters that n bytes become. */
size_t hs__base64_bytes(size_t n);
/* Writes n bytes as text and returns the number of characters. */
size_t hs__base64_write(const void *bytes, size_t n, char *ret);
