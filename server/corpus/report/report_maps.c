/* report_maps.c - sums become means over the texts that reached a position, squares of positions become
 * pixels, and pixels bytes. */
#include "server/corpus/report/report_maps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bound of all maps together. With base64 and gzip it keeps the page below 8 MB. */
#define MAP_BYTES_MAX 5e6

/* One kind of map in the page. */
typedef struct map_kind {
    const char *array, *name;
    bool attends;          /* of attention, which may be over another text */
    bool per_head, summed; /* summed: over the heads of a per-head array */
    bool triangle;
    bool single; /* of one text, not a mean */
    hs_palette palette;
} map_kind;

static const map_kind kinds[] = {
    {.array = "attention_sum",
     .name = "attention",
     .attends = true,
     .per_head = true,
     .palette = HS_PALETTE_BLUE},
    {.array = "attention_sum",
     .name = "attention_layer",
     .attends = true,
     .per_head = true,
     .summed = true,
     .palette = HS_PALETTE_BLUE},
    {.array = "attention_sum_no_columns",
     .name = "without_columns",
     .attends = true,
     .per_head = true,
     .summed = true,
     .palette = HS_PALETTE_BLUE},
    {.array = "attention_sum_no_columns_no_diagonal",
     .name = "without_diagonal",
     .attends = true,
     .per_head = true,
     .summed = true,
     .palette = HS_PALETTE_BLUE},
    {.array = "location",
     .name = "location",
     .per_head = true,
     .triangle = true,
     .palette = HS_PALETTE_ORANGE},
    {.array = "similarity_sum", .name = "similarity", .triangle = true, .palette = HS_PALETTE_ORANGE},
    {.array = "normalized_sum", .name = "normalized", .triangle = true, .palette = HS_PALETTE_ORANGE},
    {.array = "first_similarity",
     .name = "first_text",
     .triangle = true,
     .single = true,
     .palette = HS_PALETTE_ORANGE},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

typedef struct maker {
    const hs_corpus_stats *stats;
    hs_corpus_options o;
    size_t cells;        /* of an array's edge, each of o.map_step positions */
    size_t factor, side; /* factor: tokens of a pixel's edge, a multiple of map_step */
    double *reached;     /* [T] texts with more than i tokens */
    double *along;       /* [side] their sum over a pixel's positions */
    double *corner;      /* [side] their sum over the cells of a pixel on the diagonal */
    double *attended; /* [cells][cells] positions that attention over another text reaches; NULL: it is over
                         the text itself */
    union number {
        double real;
        int64_t count;
    } * row;        /* [T]: elements of an array */
    double *values; /* [cells][cells] */
    double *pooled; /* [side][side]; NAN where nothing is */
    double *sorted; /* [side * side] */
} maker;

/* Adds map number `map` of an array to values, [cells][cells]. */
static void values_add(maker *m, const hs_corpus_array *array, size_t map, double *values)
{
    const size_t n = m->cells;
    for (size_t i = 0; i < n; i++) {
        hs_corpus_array_read(m->stats, array, (map * n + i) * n, n, m->row);
        for (size_t j = 0; j < n; j++)
            values[i * n + j] += array->is_float ? m->row[j].real : (double)m->row[j].count;
    }
}

/* The length of the text whose values these are: beyond it all are 0. */
static size_t first_length(const maker *m)
{
    for (size_t n = m->cells; n > 1 && m->o.map_step == 1; n--)
        for (size_t i = 0; i + 1 < n; i++)
            if (m->values[i * m->cells + n - 1] != 0)
                return n;
    return hs_corpus_first_tokens(m->stats);
}

static double pixel_sum(const maker *m, const double *values, size_t y, size_t x)
{
    const size_t n = m->cells, cells = m->factor / m->o.map_step;
    double sum = 0;
    for (size_t i = y * cells; i < (y + 1) * cells && i < n; i++)
        for (size_t j = x * cells; j < (x + 1) * cells && j < n; j++)
            sum += values[i * n + j];
    return sum;
}

/* Sums up the texts that reach the positions of each pixel. A text reaches a cell if it reaches the later one
 * of its two positions. So position t decides 2 k + 1 cells of a pixel on the diagonal that it is the k-th
 * of, and one for each row of the other pixels. n_first is the length of a single text. */
static void texts_sum(maker *m, size_t n_first)
{
    memset(m->along, 0, m->side * sizeof *m->along);
    memset(m->corner, 0, m->side * sizeof *m->corner);
    for (size_t t = 0; t < m->o.tokens_max; t++) {
        const double texts = n_first ? t < n_first : m->reached[t];
        m->along[t / m->factor] += texts;
        m->corner[t / m->factor] += texts * (double)(2 * (t % m->factor) + 1);
    }
}

/* Returns the mean over one pixel's cells and the texts that reached them. */
static double pixel(const maker *m, const map_kind *k, size_t y, size_t x)
{
    const double sum = pixel_sum(m, m->values, y, x);
    if (k->attends && m->attended) {
        const double reached = pixel_sum(m, m->attended, y, x);
        return reached > 0 ? sum / reached : NAN;
    }
    const size_t before = (y < x ? y : x) * m->factor, rest = m->o.tokens_max - before;
    const double n_rows = (double)(rest < m->factor ? rest : m->factor);
    const double texts = y == x ? m->corner[y] : n_rows * m->along[y > x ? y : x];
    return texts > 0 ? sum / texts : NAN;
}

/* The first pixel of row y that is kept: pixels of one token have nothing on the diagonal. */
static size_t row_begin(bool triangle, bool pooled, size_t y)
{
    return triangle ? y + !pooled : 0;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Computes middle, scale and ranges of the kept pixels. */
static void spread_find(maker *m, hs__report_map *map)
{
    static const double cut[HS__RANGES] = {0, 0.01, 0.05};
    size_t n = 0;
    for (size_t y = 0; y < m->side; y++)
        for (size_t x = row_begin(map->triangle, m->factor > 1, y); x < m->side; x++)
            if (isfinite(m->pooled[y * m->side + x]))
                m->sorted[n++] = m->pooled[y * m->side + x];
    if (!n)
        return;
    qsort(m->sorted, n, sizeof *m->sorted, ascending);
    map->middle = m->sorted[n / 2];
    map->scale = fmax(m->sorted[n - 1] - map->middle, map->middle - m->sorted[0]);
    for (int r = 0; r < HS__RANGES; r++) {
        map->ranges[r][0] = m->sorted[(size_t)(cut[r] * (double)(n - 1))];
        map->ranges[r][1] = m->sorted[n - 1 - (size_t)(cut[r] * (double)(n - 1))];
    }
}

static unsigned char byte_of(const hs__report_map *map, double value)
{
    if (!isfinite(value))
        return HS__NO_PIXEL;
    const double share = map->scale > 0 ? (value - map->middle) / map->scale : 0;
    const double root = copysign(sqrt(fmin(fabs(share), 1)), share);
    return (unsigned char)lround(128 + 127 * root);
}

/* Makes map number `number` of a kind; its bytes are written to `bytes`. */
static hs__report_map map_make(maker *m, const map_kind *k, size_t number, unsigned char *bytes)
{
    hs_corpus_array array;
    const bool there = hs_corpus_array_find(m->stats, k->array, &array); /* else it has no maps */
    const size_t n_parts = k->summed ? m->o.n_heads : 1;
    const bool headed = k->per_head && !k->summed;
    hs__report_map map = {.name = k->name, .triangle = k->triangle, .bytes = bytes};
    map.layer = headed ? number / m->o.n_heads : number;
    map.head = headed ? number % m->o.n_heads : HS__NO_HEAD;
    memset(m->values, 0, m->cells * m->cells * sizeof *m->values);
    for (size_t part = 0; there && part < n_parts; part++)
        values_add(m, &array, number * n_parts + part, m->values);
    texts_sum(m, k->single ? first_length(m) : 0);
    for (size_t p = 0; p < m->side * m->side; p++)
        m->pooled[p] = pixel(m, k, p / m->side, p % m->side);
    spread_find(m, &map);
    map.palette = map.ranges[HS__RANGE_ALL][0] < 0 ? HS_PALETTE_SIGNED : k->palette;
    for (size_t y = 0; y < m->side; y++)
        for (size_t x = row_begin(map.triangle, m->factor > 1, y); x < m->side; x++)
            bytes[map.n_bytes++] = byte_of(&map, m->pooled[y * m->side + x]);
    return map;
}

static size_t n_maps(const maker *m, const map_kind *k)
{
    hs_corpus_array array;
    if (!hs_corpus_array_find(m->stats, k->array, &array))
        return 0;
    return m->o.n_layers * (k->per_head && !k->summed ? m->o.n_heads : 1);
}

/* Reads the positions that attention over another text reaches. */
static hs_status attended_read(maker *m)
{
    hs_corpus_array array;
    if (!hs_corpus_array_find(m->stats, "attention_reached", &array))
        return HS_OK;
    m->attended = calloc(m->cells * m->cells, sizeof *m->attended);
    if (!m->attended)
        return HS_NO_MEMORY;
    values_add(m, &array, 0, m->attended);
    return HS_OK;
}

static hs_status maker_init(maker *m, const hs_corpus_stats *stats)
{
    *m = (maker){.stats = stats, .o = hs_corpus_stats_options(stats)};
    const size_t T = m->o.tokens_max, L = m->o.n_layers, A = m->o.n_heads, step = m->o.map_step;
    /* attention and half of location for each head; three maps and three halves for each layer */
    const double side_max = sqrt(MAP_BYTES_MAX / (1.5 * (double)(L * A) + 4.5 * (double)L));
    const size_t least = (size_t)ceil((double)T / fmin((double)T, fmax(side_max, 16)));
    m->factor = (least + step - 1) / step * step;
    m->cells = (T + step - 1) / step;
    m->side = (T + m->factor - 1) / m->factor;
    m->values = malloc(m->cells * m->cells * sizeof *m->values);
    m->pooled = malloc(m->side * m->side * sizeof *m->pooled);
    m->sorted = malloc(m->side * m->side * sizeof *m->sorted);
    m->reached = calloc(T, sizeof *m->reached);
    m->along = malloc(m->side * sizeof *m->along);
    m->corner = malloc(m->side * sizeof *m->corner);
    m->row = calloc(T, sizeof *m->row);
    if (!m->values || !m->pooled || !m->sorted || !m->reached || !m->along || !m->corner || !m->row)
        return HS_NO_MEMORY;
    hs_corpus_array reached;
    if (hs_corpus_array_find(stats, "reached", &reached))
        hs_corpus_array_read(stats, &reached, 0, T, m->row);
    for (size_t i = 0; i < T; i++)
        m->reached[i] = (double)m->row[i].count;
    return attended_read(m);
}

static void maker_finish(maker *m)
{
    free(m->values);
    free(m->pooled);
    free(m->sorted);
    free(m->reached);
    free(m->along);
    free(m->corner);
    free(m->attended);
    free(m->row);
}

static hs_status all_make(maker *m, hs__report_maps *maps)
{
    size_t n = 0, at = 0;
    for (size_t k = 0; k < N_KINDS; k++)
        n += n_maps(m, &kinds[k]);
    maps->maps = malloc(n * sizeof *maps->maps);
    maps->bytes = malloc(n * m->side * m->side);
    maps->side = m->side;
    maps->n_tokens = m->factor;
    maps->pooled = m->factor > 1;
    if (!maps->maps || !maps->bytes)
        return HS_NO_MEMORY;
    for (size_t k = 0; k < N_KINDS; k++)
        for (size_t number = 0; number < n_maps(m, &kinds[k]); number++) {
            maps->maps[maps->n] = map_make(m, &kinds[k], number, maps->bytes + at);
            at += maps->maps[maps->n++].n_bytes;
        }
    return HS_OK;
}

hs_status hs__report_maps_init(hs__report_maps *maps, const hs_corpus_stats *stats, hs_error *err)
{
    maker m;
    *maps = (hs__report_maps){0};
    hs_status st = maker_init(&m, stats);
    if (!st)
        st = all_make(&m, maps);
    maker_finish(&m);
    return st ? hs_fail(err, st, "no memory for the report") : HS_OK;
}

void hs__report_maps_finish(hs__report_maps *maps)
{
    free(maps->maps);
    free(maps->bytes);
    *maps = (hs__report_maps){0};
}

/* Returns the value of a byte; NAN: no text reaches it. */
static double value_of(const hs__report_map *map, unsigned char byte)
{
    if (byte == HS__NO_PIXEL)
        return NAN;
    const double root = (byte - 128) / 127.0;
    return map->middle + map->scale * root * fabs(root);
}

/* Writes the bytes of the map as [side][side]. */
static void bytes_spread(const hs__report_maps *maps, const hs__report_map *map, unsigned char *ret)
{
    const size_t side = maps->side;
    const unsigned char *bytes = map->bytes;
    for (size_t y = 0; y < side; y++) {
        const bool reached = !y || ret[(y - 1) * side + y] != HS__NO_PIXEL;
        ret[y * side + y] = reached ? byte_of(map, 0) : HS__NO_PIXEL;
        for (size_t x = row_begin(map->triangle, maps->pooled, y); x < side; x++) {
            ret[y * side + x] = *bytes++;
            if (map->triangle)
                ret[x * side + y] = ret[y * side + x];
        }
    }
}

void hs__report_map_values(const hs__report_maps *maps, const hs__report_map *map, unsigned char *bytes,
                           float *ret)
{
    bytes_spread(maps, map, bytes);
    for (size_t i = 0; i < maps->side * maps->side; i++)
        ret[i] = (float)value_of(map, bytes[i]);
}

/* Returns [{name, layer, head, side, palette, middle, scale, triangle, diagonal, ranges}] in the order of the
 * bytes; NULL without memory. */
static json_t *maps_json(const hs__report_maps *maps)
{
    json_t *list = json_array();
    for (size_t k = 0; k < maps->n; k++) {
        const hs__report_map *map = &maps->maps[k];
        json_t *ranges = json_array();
        for (int r = 0; r < HS__RANGES; r++)
            json_array_append_new(ranges, json_pack("[f f]", map->ranges[r][0], map->ranges[r][1]));
        json_array_append_new(
            list, json_pack("{ss sI so sI sI si sf sf sb sb so}", "name", map->name, "layer",
                            (json_int_t)map->layer, "head",
                            map->head == HS__NO_HEAD ? json_null() : json_integer((json_int_t)map->head),
                            "side", (json_int_t)maps->side, "tokens", (json_int_t)maps->n_tokens, "palette",
                            (int)map->palette, "middle", map->middle, "scale", map->scale, "triangle",
                            map->triangle, "diagonal", maps->pooled, "ranges", ranges));
    }
    return list;
}

/* Returns the colours of palettes, "#rrggbb" for each byte from low to high; NULL without memory. */
static json_t *palettes_json(void)
{
    json_t *palettes = json_array();
    for (int p = 0; p < HS_PALETTES; p++) {
        hs_colours colours;
        json_t *list = json_array();
        hs_palette_colours((hs_palette)p, colours);
        for (int i = 1; i < 256; i++) {
            char colour[8];
            snprintf(colour, sizeof colour, "#%02x%02x%02x", colours[i][0], colours[i][1], colours[i][2]);
            json_array_append_new(list, json_string(colour));
        }
        json_array_append_new(palettes, list);
    }
    return palettes;
}

void hs__report_maps_describe(const hs__report_maps *maps, json_t *object)
{
    json_object_set_new(object, "maps", maps_json(maps));
    json_object_set_new(object, "palettes", palettes_json());
}
