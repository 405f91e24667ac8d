/* crc.h - CRC-32 of zip files, at memory speed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Returns the CRC-32 of n more bytes, as zlib's crc32 does. crc is 0 at first, then the previous result. */
uint32_t hs__crc32(uint32_t crc, const void *data, size_t n);
