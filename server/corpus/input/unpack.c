/* unpack.c - zlib reads gzip and passes other bytes unchanged; if these begin a frame of zstd, zstd unpacks
 * them. */
#include "server/corpus/input/unpack.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

struct hs__unpacked {
    const char *path;
    gzFile file;
    bool cut; /* the file ends within its gzip data; zlib 1.3.2 says so only with the last bytes */
    bool begun;
    ZSTD_DStream *zstd; /* NULL: it is not zstd's */
    char *packed;       /* [HS__UNPACK_BYTES], of zstd */
    ZSTD_inBuffer input;
    size_t due;       /* 0: between two frames of zstd */
    uint64_t n_bytes; /* unpacked so far */
};

hs_status hs__unpacked_open(const char *path, hs__unpacked **ret_stream, hs_error *err)
{
    hs__unpacked *s = calloc(1, sizeof *s);
    if (!s)
        return hs_fail(err, HS_NO_MEMORY, "no memory to read '%s'", path);
    s->path = path;
    s->file = strcmp(path, "-") == 0 ? gzdopen(dup(STDIN_FILENO), "rb") : gzopen(path, "rbe");
    if (!s->file) {
        free(s);
        return hs_fail(err, HS_IO, "cannot read '%s': %s", path, strerror(errno));
    }
    gzbuffer(s->file, HS__UNPACK_BYTES);
    *ret_stream = s;
    return HS_OK;
}

void hs__unpacked_close(hs__unpacked *s)
{
    if (!s)
        return;
    gzclose_r(s->file);
    ZSTD_freeDStream(s->zstd);
    free(s->packed);
    free(s);
}

/* Reads through zlib. */
static hs_status bytes_read(hs__unpacked *s, char *bytes, size_t n, size_t *ret_n, hs_error *err)
{
    int code;
    const int n_read = gzread(s->file, bytes, (unsigned)n);
    const char *why = gzerror(s->file, &code);
    *ret_n = n_read > 0 ? (size_t)n_read : 0;
    s->cut |= code == Z_BUF_ERROR;
    if (n_read > 0 || (n_read == 0 && !s->cut && (code == Z_OK || code == Z_STREAM_END)))
        return HS_OK;
    if (code == Z_ERRNO)
        return hs_fail(err, HS_IO, "cannot read '%s': %s", s->path, strerror(errno));
    return hs_fail(err, HS_INVALID, "cannot read '%s': %s", s->path, s->cut ? "gzip data cut short" : why);
}

/* Returns true for a frame of zstd or a skippable frame (RFC 8878, 3.1.2), with which some packers begin. */
static bool is_frame(const char *bytes, size_t n)
{
    return n >= 4 && (memcmp(bytes, "\x28\xb5\x2f\xfd", 4) == 0 ||
                      ((bytes[0] & 0xf0) == 0x50 && memcmp(bytes + 1, "\x2a\x4d\x18", 3) == 0));
}

/* Starts zstd with the bytes already read as its input. */
static hs_status zstd_begin(hs__unpacked *s, const char *bytes, size_t n, hs_error *err)
{
    s->zstd = ZSTD_createDStream();
    s->packed = malloc(HS__UNPACK_BYTES);
    if (!s->zstd || !s->packed || n > HS__UNPACK_BYTES)
        return hs_fail(err, HS_NO_MEMORY, "no memory to read '%s'", s->path);
    (void)ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, HS__ZSTD_WINDOW_LOG);
    memcpy(s->packed, bytes, n);
    s->input = (ZSTD_inBuffer){s->packed, n, 0};
    return HS_OK;
}

/* Reads more packed bytes. */
static hs_status zstd_refill(hs__unpacked *s, bool *ret_ended, hs_error *err)
{
    size_t n = 0;
    const hs_status st = bytes_read(s, s->packed, HS__UNPACK_BYTES, &n, err);
    s->input = (ZSTD_inBuffer){s->packed, n, 0};
    *ret_ended = n == 0;
    if (st || n || !s->due)
        return st;
    return hs_fail(err, HS_INVALID, "cannot read '%s': zstd data cut short", s->path);
}

static hs_status zstd_read(hs__unpacked *s, char *bytes, size_t n, size_t *ret_n, hs_error *err)
{
    ZSTD_outBuffer output = {bytes, n, 0};
    hs_status st = HS_OK;
    bool ended = false, stalled = false;
    while (!st && output.pos < n) {
        if (s->input.pos == s->input.size && (stalled || !s->due)) {
            st = zstd_refill(s, &ended, err);
            if (st || ended)
                break;
        }
        const size_t before = output.pos;
        s->due = ZSTD_decompressStream(s->zstd, &output, &s->input);
        if (ZSTD_isError(s->due))
            st = hs_fail(err, HS_INVALID, "cannot read '%s': zstd: %s", s->path, ZSTD_getErrorName(s->due));
        stalled = output.pos == before;
    }
    *ret_n = output.pos;
    return st;
}

/* Two packings multiply their ratios, and no tool packs texts twice. */
static hs_status fail_twice(const hs__unpacked *s, hs_error *err)
{
    return hs_fail(err, HS_INVALID, "'%s' is packed twice, zstd inside gzip: unpack it once", s->path);
}

/* Checks the ratio of unpacked to packed bytes. A pipe has no position, so it is not checked. */
static hs_status growth_check(hs__unpacked *s, size_t n, hs_error *err)
{
    const uint64_t n_read = hs__unpacked_at(s);
    s->n_bytes += n;
    if (!hs__unpacked_packing(s) || s->n_bytes <= HS__UNPACK_FREE_BYTES || !n_read ||
        s->n_bytes / HS__UNPACK_TIMES_MAX <= n_read)
        return HS_OK;
    return hs_fail(err, HS_INVALID, "'%s' unpacks to more than %d times its size: unpack it first", s->path,
                   HS__UNPACK_TIMES_MAX);
}

hs_status hs__unpacked_read(hs__unpacked *s, char *bytes, size_t n, size_t *ret_n, hs_error *err)
{
    hs_status st = HS_OK;
    if (!s->zstd)
        st = bytes_read(s, bytes, n, ret_n, err);
    if (!st && !s->begun && is_frame(bytes, *ret_n))
        st = gzdirect(s->file) ? zstd_begin(s, bytes, *ret_n, err) : fail_twice(s, err);
    s->begun = true;
    if (!st && s->zstd)
        st = zstd_read(s, bytes, n, ret_n, err);
    return st ? st : growth_check(s, *ret_n, err);
}

const char *hs__unpacked_packing(const hs__unpacked *s)
{
    return s->zstd ? "zstd" : gzdirect(s->file) ? NULL : "gzip";
}

uint64_t hs__unpacked_at(const hs__unpacked *s)
{
    const z_off_t at = gzoffset(s->file);
    return at > 0 ? (uint64_t)at : 0;
}
