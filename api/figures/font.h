/* font.h - the embedded font of figures: DejaVu Sans, with its widths.
 *
 * Both writers lay text out by these widths. The PDF writer embeds the font; SVG names its family. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The TrueType file. */
extern const unsigned char hs__font[];
extern const uint64_t hs__font_bytes;

/* Returns the width of a character in em, or a negative number if the font lacks it. */
double hs__font_advance(uint32_t code_point);

/* Returns the width of UTF-8 text in em. Counts a character that the font lacks as 1 em. */
double hs__font_width(const char *text);
