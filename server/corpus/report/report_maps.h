/* report_maps.h - the maps of a report, a byte for each pixel: what its page carries and draws.
 *
 * A byte b stands for middle + scale * s * |s| with s = (b - 128) / 127, middle being the map's median: the
 * square root in between keeps what is faint. Byte 0 stands for a pixel that no text reaches. A symmetric
 * map, which is 0 on its diagonal, is kept as its pixels with i < j. Windows too wide are averaged over
 * squares of tokens; then pixels with i = j are kept too. */
#pragma once

#include "api/figures/figure.h"
#include "engine/statistics/statistics.h"

#include <jansson.h>

/* Ranges for colours: everything, all but the lowest and highest hundredth, all but the twentieths. */
enum { HS__RANGE_ALL, HS__RANGE_99, HS__RANGE_95, HS__RANGES };

typedef struct hs__report_map {
    const char *name; /* "attention"; static */
    size_t layer;     /* index */
    size_t head;      /* index, HS__NO_HEAD for a whole layer's */
    bool triangle;    /* the mirrored half is left out */
    hs_palette palette;
    double middle, scale;
    double ranges[HS__RANGES][2];
    const unsigned char *bytes;
    size_t n_bytes;
} hs__report_map;
#define HS__NO_HEAD  ((size_t)-1)
#define HS__NO_PIXEL 0

typedef struct hs__report_maps {
    hs__report_map *maps;
    size_t n;
    size_t side;     /* pixels of an edge */
    size_t n_tokens; /* of a pixel's edge */
    bool pooled;     /* a pixel is more than one token */
    unsigned char *bytes;
} hs__report_maps;

/* Computes all of them. HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__report_maps_init(hs__report_maps *maps, const hs_corpus_stats *stats,
                                           hs_error *err);
void hs__report_maps_finish(hs__report_maps *maps);

/* Writes the values of the map as [side][side]; NAN where no text reaches. bytes: [side][side], for work. */
void hs__report_map_values(const hs__report_maps *maps, const hs__report_map *map, unsigned char *bytes,
                           float *ret);

/* Adds two members to an object. `maps` is [{name, layer, head, side, palette, middle, scale, triangle,
 * diagonal, ranges}] in the order of the bytes. `palettes` has the colours, "#rrggbb" for each byte from low
 * to high. */
void hs__report_maps_describe(const hs__report_maps *maps, json_t *object);
