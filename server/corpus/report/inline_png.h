/* inline_png.h - pictures inside of a page: PNG as base64. */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* bytes as base64, padded; pieces that are to follow each other are multiples of three. */
void hs__base64_write(FILE *out, const void *bytes, size_t n);

/* A PNG of side x side pixels, each an index into the palette, as base64; index 0 is clear. A picture that
 * there is no memory for is left out. */
void hs__png_write(FILE *out, const unsigned char *pixels, size_t side, unsigned char palette[256][3]);
