/* corpus_html.c - report.html: the page built from static/report, with this run's data in it.
 *
 * Where the page says HEADSCOPE-DATA stands base64 of gzip of: the size of a JSON document (u32,
 * little-endian), that document, maps. The document is report.json with `maps`, which lists them in order:
 * name, layer index, head index or null, side, scale, signed, triangle. A map is side x side bytes, or only
 * those with i < j for a triangle. A byte b stands for scale * (b / 255)^2, for a signed map for scale * s *
 * |s| with s = (b - 128) / 127: the square root in between keeps the faint parts. Windows too wide are
 * averaged over squares of tokens. */
#include "server/base/viewer_files.h"
#include "server/corpus/corpus_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define MARKER "HEADSCOPE-DATA"
/* Of all maps; with base64 and what gzip gains on them, this keeps the page below 8 MB. */
#define MAP_BYTES_MAX 5e6

/* ---- gzip and base64, as bytes come ---- */

typedef struct packer {
    FILE *file;
    z_stream stream;
    unsigned char out[3 * 8192]; /* whole groups of base64 */
} packer;

static void base64_write(FILE *file, const unsigned char *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t b = (uint32_t)bytes[i] << 16 | (i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0) |
                           (i + 2 < n ? bytes[i + 2] : 0);
        const char group[4] = {digits[b >> 18], digits[b >> 12 & 63], i + 1 < n ? digits[b >> 6 & 63] : '=',
                               i + 2 < n ? digits[b & 63] : '='};
        fwrite(group, 1, 4, file);
    }
}

/* Everything given is in the file, or in out, once this returns; with Z_FINISH in the file. */
static void pack(packer *p, const void *bytes, size_t n, int flush)
{
    p->stream.next_in = (unsigned char *)bytes;
    p->stream.avail_in = (uInt)n;
    while (p->stream.avail_in || flush == Z_FINISH) {
        if (!p->stream.avail_out) {
            base64_write(p->file, p->out, sizeof p->out);
            p->stream.next_out = p->out;
            p->stream.avail_out = sizeof p->out;
        }
        if (deflate(&p->stream, flush) == Z_STREAM_END)
            break;
    }
    if (flush == Z_FINISH)
        base64_write(p->file, p->out, sizeof p->out - p->stream.avail_out);
}

/* ---- maps ---- */

typedef struct atlas {
    const hs_corpus_stats *stats;
    hs_corpus_options o;
    hs_corpus_array arrays[HS_CORPUS_ARRAYS_MAX];
    size_t n_arrays;
    size_t factor, side;   /* tokens of a pixel's edge; pixels of a map's */
    const double *reached; /* [T] texts with more than i tokens */
    double *values;        /* [T][T] */
    double *pooled;        /* [side][side] */
    unsigned char *bytes;  /* [side][side] */
} atlas;

/* One kind of map in the page. */
typedef struct chart {
    const char *array, *name;
    bool per_head, summed; /* summed: over the heads of a per-head array */
    bool is_signed, triangle;
} chart;

static const chart charts[] = {
    {"attention_sum", "attention", true, false, false, false},
    {"attention_sum", "attention_layer", true, true, false, false},
    {"attention_sum_no_columns", "attention_layer_no_columns", true, true, false, false},
    {"attention_sum_no_columns_no_diagonal", "attention_layer_no_columns_no_diagonal", true, true, false,
     false},
    {"location", "location", true, false, false, true},
    {"similarity_sum", "similarity", false, false, true, true},
    {"normalized_sum", "normalized", false, false, true, true},
};

static const hs_corpus_array *array_find(const atlas *a, const char *name)
{
    for (size_t k = 0; k < a->n_arrays; k++)
        if (strcmp(a->arrays[k].name, name) == 0)
            return &a->arrays[k];
    return NULL;
}

/* Adds map number `map` of an array to values. */
static void values_add(atlas *a, const hs_corpus_array *array, size_t map)
{
    const size_t T = a->o.tokens_max;
    union {
        double real[HS_CORPUS_WINDOW_MAX];
        int64_t count[HS_CORPUS_WINDOW_MAX];
    } row;
    for (size_t i = 0; i < T; i++) {
        hs_corpus_array_read(a->stats, array, (map * T + i) * T, T, &row);
        for (size_t j = 0; j < T; j++)
            a->values[i * T + j] += array->is_float ? row.real[j] : (double)row.count[j];
    }
}

/* Sums become means over the texts that reached the cell; squares of cells become pixels. Returns the largest
 * absolute value. */
static double pool(atlas *a)
{
    const size_t T = a->o.tokens_max;
    double scale = 0;
    for (size_t y = 0; y < a->side; y++)
        for (size_t x = 0; x < a->side; x++) {
            double sum = 0, texts = 0;
            for (size_t i = y * a->factor; i < (y + 1) * a->factor && i < T; i++)
                for (size_t j = x * a->factor; j < (x + 1) * a->factor && j < T; j++) {
                    sum += a->values[i * T + j];
                    texts += a->reached[i > j ? i : j];
                }
            const double mean = texts > 0 ? sum / texts : 0;
            a->pooled[y * a->side + x] = isfinite(mean) ? mean : 0;
            scale = fmax(scale, fabs(a->pooled[y * a->side + x]));
        }
    return scale;
}

/* Returns how many bytes the map takes. */
static size_t quantise(atlas *a, const chart *c, double scale)
{
    size_t n = 0;
    for (size_t y = 0; y < a->side; y++)
        for (size_t x = c->triangle ? y + (a->factor == 1) : 0; x < a->side; x++) {
            const double share = scale > 0 ? a->pooled[y * a->side + x] / scale : 0;
            const double root = copysign(sqrt(fabs(share)), share);
            a->bytes[n++] = (unsigned char)lround(c->is_signed ? 128 + 127 * root : 255 * fmax(root, 0));
        }
    return n;
}

static size_t chart_maps(const atlas *a, const chart *c)
{
    return a->o.n_layers * (c->per_head && !c->summed ? a->o.n_heads : 1);
}

/* Computes map k of a chart into bytes; appends its description to list when there is one. */
static size_t map_make(atlas *a, const chart *c, size_t k, json_t *list)
{
    const hs_corpus_array *array = array_find(a, c->array);
    const size_t T = a->o.tokens_max, n_parts = c->summed ? a->o.n_heads : 1;
    memset(a->values, 0, T * T * sizeof *a->values);
    for (size_t part = 0; array && part < n_parts; part++)
        values_add(a, array, k * n_parts + part);
    const double scale = pool(a);
    const bool headed = c->per_head && !c->summed;
    if (list)
        json_array_append_new(list,
                              json_pack("{ss sI so sI sf sb sb}", "name", c->name, "layer",
                                        (json_int_t)(headed ? k / a->o.n_heads : k), "head",
                                        headed ? json_integer((json_int_t)(k % a->o.n_heads)) : json_null(),
                                        "side", (json_int_t)a->side, "scale", scale, "signed", c->is_signed,
                                        "triangle", c->triangle && a->factor == 1));
    chart whole = *c;
    whole.triangle = c->triangle && a->factor == 1;
    return quantise(a, &whole, scale);
}

static hs_status atlas_init(atlas *a, const hs_corpus_stats *stats, hs_error *err)
{
    *a = (atlas){.stats = stats, .o = hs_corpus_stats_options(stats)};
    const size_t T = a->o.tokens_max, L = a->o.n_layers, A = a->o.n_heads;
    /* attention and half of location for each head; three maps and two halves for each layer */
    const double side_max = sqrt(MAP_BYTES_MAX / (1.5 * (double)(L * A) + 4 * (double)L));
    a->factor = (size_t)ceil((double)T / fmin((double)T, fmax(side_max, 16)));
    a->side = (T + a->factor - 1) / a->factor;
    a->n_arrays = hs_corpus_arrays(stats, a->arrays);
    a->values = malloc(T * T * sizeof *a->values);
    a->pooled = malloc(a->side * a->side * sizeof *a->pooled);
    a->bytes = malloc(a->side * a->side);
    double *reached = calloc(T, sizeof *reached);
    a->reached = reached;
    if (!a->values || !a->pooled || !a->bytes || !reached)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the report");
    int64_t counts[HS_CORPUS_WINDOW_MAX];
    hs_corpus_array_read(stats, array_find(a, "reached"), 0, T, counts);
    for (size_t i = 0; i < T; i++)
        reached[i] = (double)counts[i];
    return HS_OK;
}

static void atlas_finish(atlas *a)
{
    free(a->values);
    free(a->pooled);
    free(a->bytes);
    free((double *)a->reached);
}

/* ---- the page ---- */

static json_t *maps_describe(atlas *a)
{
    json_t *maps = json_array();
    for (size_t c = 0; c < sizeof charts / sizeof *charts; c++)
        for (size_t k = 0; k < chart_maps(a, &charts[c]); k++)
            map_make(a, &charts[c], k, maps);
    return maps;
}

static hs_status data_write(FILE *file, atlas *a, const char *document, hs_error *err)
{
    const size_t n = strlen(document);
    const unsigned char size[4] = {(unsigned char)n, (unsigned char)(n >> 8), (unsigned char)(n >> 16),
                                   (unsigned char)(n >> 24)};
    packer *p = calloc(1, sizeof *p);
    if (!p || deflateInit2(&p->stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(p);
        return hs_fail(err, HS_NO_MEMORY, "no memory for the report");
    }
    p->file = file;
    p->stream.next_out = p->out;
    p->stream.avail_out = sizeof p->out;
    pack(p, size, sizeof size, Z_NO_FLUSH);
    pack(p, document, n, Z_NO_FLUSH);
    for (size_t c = 0; c < sizeof charts / sizeof *charts; c++)
        for (size_t k = 0; k < chart_maps(a, &charts[c]); k++) {
            const size_t n_map = map_make(a, &charts[c], k, NULL);
            pack(p, a->bytes, n_map, Z_NO_FLUSH);
        }
    pack(p, NULL, 0, Z_FINISH);
    deflateEnd(&p->stream);
    free(p);
    return HS_OK;
}

hs_status hs__corpus_html_write(FILE *file, const hs_corpus_stats *stats, const json_t *report, hs_error *err)
{
    const hs_viewer_file *page = hs__viewer_find("/report.html");
    const char *marker = page ? memmem(page->data, page->size, MARKER, sizeof MARKER - 1) : NULL;
    if (!marker)
        return hs_fail(err, HS_UNSUPPORTED, "this build has no report page");
    atlas a;
    hs_status st = atlas_init(&a, stats, err);
    json_t *whole = st ? NULL : json_copy((json_t *)report);
    if (whole)
        json_object_set_new(whole, "maps", maps_describe(&a));
    char *document = whole ? json_dumps(whole, JSON_COMPACT | JSON_REAL_PRECISION(7)) : NULL;
    if (!st && !document)
        st = hs_fail(err, HS_NO_MEMORY, "no memory for the report");
    if (!st && document) {
        const size_t before = (size_t)(marker - (const char *)page->data);
        fwrite(page->data, 1, before, file);
        st = data_write(file, &a, document, err);
        fwrite(marker + sizeof MARKER - 1, 1, page->size - before - (sizeof MARKER - 1), file);
    }
    free(document);
    json_decref(whole);
    atlas_finish(&a);
    return st;
}
