/* palette.c - the colours of figures: palettes shared with the viewer, and the scales from values to colours.
 *
 * palettes.json names the colours that a palette passes through, from 0 outwards. Between them it runs in
 * OKLab (Ottosson 2020) with even steps of lightness, as in the viewer (static/src/maps/colour.ts). */
#include "api/figures/figure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECADES 4.0 /* the logarithmic scale spans the maximum / 10^4 to the maximum */

extern const char hs__palettes[]; /* palettes.json */

/* ---- OKLab ---- */

static double to_linear(double c)
{
    return c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4);
}

static unsigned char to_srgb(double v)
{
    const double c = v <= 0.0031308 ? 12.92 * v : 1.055 * pow(v, 1 / 2.4) - 0.055;
    return (unsigned char)lround(255 * fmin(1, fmax(0, c)));
}

static void multiply(const double matrix[3][3], const double v[3], double ret[3])
{
    for (int i = 0; i < 3; i++)
        ret[i] = matrix[i][0] * v[0] + matrix[i][1] * v[1] + matrix[i][2] * v[2];
}

/* Converts 0xRRGGBB to OKLab. */
static void to_oklab(uint32_t colour, double ret[3])
{
    static const double to_cones[3][3] = {{0.4122214708, 0.5363325363, 0.0514459929},
                                          {0.2119034982, 0.6806995451, 0.1073969566},
                                          {0.0883024619, 0.2817188376, 0.6299787005}};
    static const double to_lab[3][3] = {{0.2104542553, 0.793617785, -0.0040720468},
                                        {1.9779984951, -2.428592205, 0.4505937099},
                                        {0.0259040371, 0.7827717662, -0.808675766}};
    double rgb[3], cones[3];
    for (int i = 0; i < 3; i++)
        rgb[i] = to_linear((double)(colour >> (16 - 8 * i) & 255) / 255);
    multiply(to_cones, rgb, cones);
    for (int i = 0; i < 3; i++)
        cones[i] = cbrt(cones[i]);
    multiply(to_lab, cones, ret);
}

static void from_oklab(const double lab[3], unsigned char ret[3])
{
    static const double to_cones[3][3] = {
        {1, 0.3963377774, 0.2158037573}, {1, -0.1055613458, -0.0638541728}, {1, -0.0894841775, -1.291485548}};
    static const double to_rgb[3][3] = {{4.0767416621, -3.3077115913, 0.2309699292},
                                        {-1.2684380046, 2.6097574011, -0.3413193965},
                                        {-0.0041960863, -0.7034186147, 1.707614701}};
    double cones[3], rgb[3];
    multiply(to_cones, lab, cones);
    for (int i = 0; i < 3; i++)
        cones[i] = cones[i] * cones[i] * cones[i];
    multiply(to_rgb, cones, rgb);
    for (int i = 0; i < 3; i++)
        ret[i] = to_srgb(rgb[i]);
}

/* ---- palettes ---- */

enum { ANCHORS_MAX = 16 };

/* The colours that a list of palettes.json names. */
typedef struct ramp {
    size_t n;
    double labs[ANCHORS_MAX][3];
} ramp;

/* Reads the member `name` of palettes.json, a list on the line of its name. */
static void ramp_read(const char *name, ramp *ret)
{
    char member[32];
    snprintf(member, sizeof member, "\n  \"%s\": [", name);
    const char *at = strstr(hs__palettes, member);
    const char *end = at ? strchr(at, ']') : NULL;
    *ret = (ramp){0};
    for (; end && ret->n < ANCHORS_MAX && (at = strchr(at, '#')) && at < end; at++)
        to_oklab((uint32_t)strtoul(at + 1, NULL, 16), ret->labs[ret->n++]);
}

/* Writes the colour at a share in [0, 1] of the ramp's way in lightness. */
static void ramp_mix(const ramp *r, double share, unsigned char ret[3])
{
    const double first = r->labs[0][0], last = r->labs[r->n - 1][0],
                 lightness = first + share * (last - first);
    size_t k = 0;
    while (k + 2 < r->n && (lightness - r->labs[k + 1][0]) * (last - first) > 0)
        k++;
    const double *a = r->labs[k], *b = r->labs[k + 1], mix = (lightness - a[0]) / (b[0] - a[0]);
    from_oklab((double[]){lightness, a[1] + mix * (b[1] - a[1]), a[2] + mix * (b[2] - a[2])}, ret);
}

void hs_palette_colours(hs_palette palette, hs_colours ret)
{
    static const char *const names[] = {[HS_PALETTE_BLUE] = "attention",
                                        [HS_PALETTE_ORANGE] = "similarity",
                                        [HS_PALETTE_GREEN] = "figure",
                                        [HS_PALETTE_SIGNED] = "similarity"};
    ramp above, below;
    ramp_read(names[palette], &above);
    ramp_read("below", &below);
    memset(ret[0], 255, sizeof ret[0]);
    for (int i = 1; i < 256; i++)
        if (palette != HS_PALETTE_SIGNED)
            ramp_mix(&above, (i - 1) / 254.0, ret[i]);
        else
            ramp_mix(i < 128 ? &below : &above, abs(i - 128) / 127.0, ret[i]);
}

uint32_t hs__ink_on(const unsigned char rgb[3])
{
    const double luminance = 0.2126 * to_linear(rgb[0] / 255.0) + 0.7152 * to_linear(rgb[1] / 255.0) +
                             0.0722 * to_linear(rgb[2] / 255.0);
    return luminance > 0.179 ? 0x000000u : 0xffffffu;
}

/* ---- scales ---- */

/* Returns the share of a side's colours at a fraction of the largest value. */
static double share_of(hs_scale scale, double fraction)
{
    if (!(fraction > 0))
        return 0;
    const double share = scale == HS_SCALE_SQUARE_ROOT ? sqrt(fraction)
                         : scale == HS_SCALE_LOG       ? 1 + log10(fraction) / DECADES
                                                       : fraction;
    return fmin(1, fmax(0, share));
}

/* Inverts share_of. */
static double fraction_of(hs_scale scale, double share)
{
    return scale == HS_SCALE_SQUARE_ROOT ? share * share
           : scale == HS_SCALE_LOG       ? pow(10, DECADES * (share - 1))
                                         : share;
}

double hs__scale_value(const hs_panel *p, double share)
{
    if (p->palette != HS_PALETTE_SIGNED)
        return (double)p->low + fraction_of(p->scale, share) * ((double)p->high - (double)p->low);
    const double side = 2 * share - 1;
    return side == 0 ? 0 : copysign(fraction_of(p->scale, fabs(side)), side) * (double)p->high;
}

unsigned char hs__colour_index(const hs_panel *p, float value, float low, float high)
{
    const double range = (double)high - low;
    if (!isfinite(value))
        return 0;
    if (p->palette != HS_PALETTE_SIGNED)
        return (unsigned char)(1 + lround(254 * (range > 0 ? share_of(p->scale, ((double)value - low) / range)
                                                           : 0)));
    const double share = high > 0 ? share_of(p->scale, fabs((double)value) / (double)high) : 0;
    return (unsigned char)(128 + lround(copysign(127 * share, (double)value)));
}
