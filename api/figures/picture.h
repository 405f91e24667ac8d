/* picture.h - a page of marks: what a layout makes and the writer of SVG reads; and its font.
 *
 * Lengths are in points (1/72 inch), from the top left. */
#pragma once

#include "api/formats/json_text.h"
#include "model/base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum hs__mark_kind { HS__MARK_TEXT, HS__MARK_BOX, HS__MARK_PATH, HS__MARK_IMAGE } hs__mark_kind;
typedef enum hs__anchor { HS__ANCHOR_START, HS__ANCHOR_MIDDLE, HS__ANCHOR_END } hs__anchor;
typedef unsigned char hs_colours[256][3];

typedef struct hs__mark {
    hs__mark_kind kind;
    double x, y;          /* of a text: where its baseline is anchored */
    double width, height; /* of boxes and images */
    uint32_t colour;      /* 0xRRGGBB */
    bool filled;          /* a box or a closed path, else its outline */
    double line;          /* width of an outline or path */
    double dash;          /* length of dashes and of the gaps between them; 0: an unbroken line */
    char name[48];        /* by which a script finds the mark in SVG; may be empty */
    union {
        void *owned;
        char *text;            /* UTF-8 without control characters */
        unsigned char *pixels; /* of an image: [n_down][n_across] indices into the colours of a palette */
        double (*points)[2];   /* of a path */
    };
    double size; /* of a text */
    hs__anchor anchor;
    bool upright; /* turned by 90 degrees: reads upwards */
    size_t n_across, n_down;
    unsigned palette;
    size_t n_points;
} hs__mark;

#define HS_PALETTES       4
#define HS__CAPTION_BYTES 256

typedef struct hs_picture {
    double width, height;
    char title[HS__CAPTION_BYTES], caption[HS__CAPTION_BYTES]; /* metadata */
    hs_colours colours[HS_PALETTES];
    hs__mark *marks; /* owned */
    size_t n, capacity;
    bool failed; /* memory was short */
} hs_picture;

/* Sets title and caption; longer ones are cut. */
void hs_picture_describe(hs_picture *drawing, const char *title, const char *caption);
/* Adds a text. Replaces control characters and invalid bytes by U+FFFD, and shortens the text to max_width
 * with an ellipsis. */
void hs__draw_text(hs_picture *drawing, const hs__mark *where, const char *text, double max_width);
/* Adds a box, filled or as a thin outline. */
void hs__draw_box(hs_picture *drawing, double x, double y, double width, double height, uint32_t colour,
                  bool filled);
void hs__draw_line(hs_picture *drawing, const hs__mark *where, double x2, double y2);
/* Adds a path of n points and returns them, zeroed; NULL if memory is short. */
double (*hs__draw_path(hs_picture *drawing, const hs__mark *where, size_t n))[2];
/* Adds an image of n_across x n_down pixels and returns them, zeroed; NULL if memory is short. */
unsigned char *hs__draw_image(hs_picture *drawing, const hs__mark *where);
void hs_picture_finish(hs_picture *drawing);

/* Returns the smallest of 1, 2 and 5 times a power of ten that is not below a positive number. */
double hs__round_step(double least);

/* Writes a number with three digits, whole from a thousand to a million. */
const char *hs__figure_number(double value, char ret[32]);

/* Returns the way XML and HTML write a character that means something there; NULL for all others. */
const char *hs_xml_entity(char c);

#define HS__PNG_PIXELS_MAX   ((size_t)50000000)
#define HS__IMAGES_BYTES_MAX ((size_t)21 << 20) /* of all images in SVG, and of a whole PDF or PNG */

/* Writes the drawing. HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_picture_svg(const hs_picture *drawing, hs_buffer *buffer, hs_error *err);
/* The same by a program that may be missing (HS_UNSUPPORTED) or fail (HS_IO). Ends it when *cancelled becomes
 * non-zero (HS_CANCELLED); cancelled may be NULL. HS_TOO_LARGE for a page of PDF, or for the pixels of a PNG,
 * of which dpi are an inch. */
HS_MUST_USE hs_status hs_picture_pdf(const hs_picture *drawing, const atomic_int *cancelled,
                                     hs_buffer *buffer, hs_error *err);
HS_MUST_USE hs_status hs_picture_png(const hs_picture *drawing, double dpi, const atomic_int *cancelled,
                                     hs_buffer *buffer, hs_error *err);

/* ==== the font ==== */

/* The widths of the font of figures, DejaVu Sans, whose file is linked in. Text is laid out by them; SVG
 * names the font's family. */

/* The TrueType file. */
extern const unsigned char hs__font[];
extern const uint64_t hs__font_bytes;

/* Returns the width of UTF-8 text in em. Counts a character that the font lacks as 1 em. */
double hs__font_width(const char *text);
