/* corpus_npz.c - report.npz: arrays of any size, written as they are read.
 *
 * A zip of stored .npy files (numpy.lib.format 1.0, PKWARE's APPNOTE without zip64). Sizes are known
 * beforehand; each member's checksum is filled in once its bytes have passed. */
#include "server/corpus/corpus_report.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { LOCAL_BYTES = 30, CHUNK = 8192, NAME_MAX_BYTES = 60, NPY_MAX = 256 };

typedef struct member {
    char name[NAME_MAX_BYTES];
    uint32_t offset, size, crc;
} member;

typedef struct zip {
    FILE *file;
    member members[HS_CORPUS_ARRAYS_MAX + 1];
    size_t n;
} zip;

static void put(unsigned char *to, size_t n_bytes, size_t value)
{
    for (size_t i = 0; i < n_bytes; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

/* What local and central headers share, from "version needed" to "extra length": 26 bytes. Dated 1980-01-01:
 * the same arrays are the same bytes. */
static void fields_put(unsigned char *to, const member *m)
{
    memset(to, 0, 26);
    put(to, 2, 20);
    put(to + 8, 2, 0x21);
    put(to + 10, 4, m->crc);
    put(to + 14, 4, m->size);
    put(to + 18, 4, m->size);
    put(to + 22, 2, strlen(m->name));
}

static void local_write(zip *z, const member *m)
{
    unsigned char head[LOCAL_BYTES] = "PK\x03\x04";
    fields_put(head + 4, m);
    fwrite(head, 1, sizeof head, z->file);
    fputs(m->name, z->file);
}

static void member_bytes(zip *z, const void *bytes, size_t n)
{
    member *m = &z->members[z->n - 1];
    m->crc = (uint32_t)crc32_z(m->crc, bytes, n);
    fwrite(bytes, 1, n, z->file);
}

/* Begins the member with its .npy header; type is NumPy's, as in "<i8". */
static hs_status member_begin(zip *z, const char *name, const char *type, size_t n_axes, const size_t *axes,
                              uint64_t n_bytes, hs_error *err)
{
    char shape[120] = "", head[NPY_MAX] = "\x93NUMPY\x01";
    for (size_t i = 0; i < n_axes; i++) {
        const size_t n = strlen(shape);
        snprintf(shape + n, sizeof shape - n, "%zu%s", axes[i],
                 n_axes == 1      ? ","
                 : i + 1 < n_axes ? ", "
                                  : "");
    }
    int n = snprintf(head + 10, sizeof head - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                     type, shape);
    const size_t size = (10 + (size_t)n + 1 + 63) / 64 * 64;
    memset(head + 10 + n, ' ', size - 10 - (size_t)n - 1);
    head[size - 1] = '\n';
    put((unsigned char *)head + 8, 2, size - 10);
    const long long offset = ftello(z->file);
    if (offset < 0)
        return hs_fail(err, HS_IO, "cannot write the report");
    if ((uint64_t)offset + n_bytes + (1 << 16) >= UINT32_MAX)
        return hs_fail(err, HS_TOO_LARGE, "report.npz would pass 4 GB: choose fewer layers or fewer tokens");
    member *m = &z->members[z->n++];
    *m = (member){.offset = (uint32_t)offset, .size = (uint32_t)(size + n_bytes)};
    snprintf(m->name, sizeof m->name, "%s.npy", name);
    local_write(z, m);
    member_bytes(z, head, size);
    return HS_OK;
}

/* The bytes are there: now the checksum is known. */
static hs_status member_end(zip *z, hs_error *err)
{
    const member *m = &z->members[z->n - 1];
    if (fseeko(z->file, m->offset, SEEK_SET))
        return hs_fail(err, HS_IO, "cannot write the report");
    local_write(z, m);
    return fseeko(z->file, 0, SEEK_END) ? hs_fail(err, HS_IO, "cannot write the report") : HS_OK;
}

static hs_status array_write(zip *z, const hs_corpus_stats *stats, const hs_corpus_array *array,
                             hs_error *err)
{
    double chunk[CHUNK]; /* or int64_t */
    hs_status st = member_begin(z, array->name, array->is_float ? "<f8" : "<i8", array->n_axes, array->axes,
                                8 * (uint64_t)array->n_elements, err);
    for (size_t first = 0, n; !st && first < array->n_elements; first += n) {
        n = array->n_elements - first < CHUNK ? array->n_elements - first : CHUNK;
        hs_corpus_array_read(stats, array, first, n, chunk);
        member_bytes(z, chunk, 8 * n);
    }
    return st ? st : member_end(z, err);
}

/* Text as a scalar of UCS-4; it is JSON of jansson's, hence UTF-8. */
static hs_status text_write(zip *z, const char *name, const char *text, hs_error *err)
{
    char type[32];
    size_t n = 0;
    uint32_t *points = malloc((strlen(text) + 1) * sizeof *points);
    if (!points)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the report");
    for (const unsigned char *c = (const unsigned char *)text; *c; n++) {
        const int more = *c < 0x80 ? 0 : *c < 0xe0 ? 1 : *c < 0xf0 ? 2 : 3;
        points[n] = more ? *c & (0x3fu >> more) : *c;
        c++;
        for (int k = 0; k < more && *c; k++)
            points[n] = points[n] << 6 | (*c++ & 0x3f);
    }
    snprintf(type, sizeof type, "<U%zu", n);
    hs_status st = member_begin(z, name, type, 0, NULL, 4 * n, err);
    if (!st) {
        member_bytes(z, points, 4 * n);
        st = member_end(z, err);
    }
    free(points);
    return st;
}

static hs_status directory_write(zip *z, hs_error *err)
{
    const long long start = ftello(z->file);
    for (size_t i = 0; i < z->n; i++) {
        unsigned char entry[46] = "PK\x01\x02\x14";
        fields_put(entry + 6, &z->members[i]);
        put(entry + 42, 4, z->members[i].offset);
        fwrite(entry, 1, sizeof entry, z->file);
        fputs(z->members[i].name, z->file);
    }
    const long long end = ftello(z->file);
    unsigned char tail[22] = "PK\x05\x06";
    put(tail + 8, 2, z->n);
    put(tail + 10, 2, z->n);
    put(tail + 12, 4, (size_t)(end - start));
    put(tail + 16, 4, (size_t)start);
    fwrite(tail, 1, sizeof tail, z->file);
    return start < 0 || end < 0 || ferror(z->file) ? hs_fail(err, HS_IO, "cannot write the report") : HS_OK;
}

hs_status hs__corpus_npz_write(FILE *file, const hs_corpus_stats *stats, const char *provenance,
                               hs_error *err)
{
    hs_corpus_array arrays[HS_CORPUS_ARRAYS_MAX];
    const size_t n = hs_corpus_arrays(stats, arrays);
    zip *z = calloc(1, sizeof *z);
    if (!z)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the report");
    z->file = file;
    hs_status st = HS_OK;
    for (size_t i = 0; !st && i < n; i++)
        st = array_write(z, stats, &arrays[i], err);
    if (!st)
        st = text_write(z, "provenance", provenance, err);
    if (!st)
        st = directory_write(z, err);
    free(z);
    return st;
}
