/* crc.h - the zip file's checksum, at the speed of memory. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* As zlib's crc32, of which it is a continuation: crc is 0 at first, then what the last call returned. */
uint32_t hs__crc32(uint32_t crc, const void *data, size_t n);
