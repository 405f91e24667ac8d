/* corpus_unpack.c - zlib reads gzip, and hands on what is not as it is; what then begins as a frame of zstd
 * goes through that. */
#include "server/corpus/corpus_unpack.h"

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
    bool begun;
    ZSTD_DStream *zstd; /* NULL: it is not zstd's */
    char *packed;       /* [HS__UNPACK_BYTES], of zstd */
    ZSTD_inBuffer input;
    size_t due; /* 0: between two frames of zstd */
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

/* Through zlib. */
static hs_status bytes_read(hs__unpacked *s, char *bytes, size_t n, size_t *ret_n, hs_error *err)
{
    int code;
    const int n_read = gzread(s->file, bytes, (unsigned)n);
    const char *why = gzerror(s->file, &code);
    *ret_n = n_read > 0 ? (size_t)n_read : 0;
    if (n_read >= 0 && (n_read > 0 || code == Z_OK || code == Z_STREAM_END))
        return HS_OK;
    if (code == Z_ERRNO)
        return hs_fail(err, HS_IO, "cannot read '%s': %s", s->path, strerror(errno));
    return hs_fail(err, HS_INVALID, "cannot read '%s': %s", s->path,
                   code == Z_BUF_ERROR ? "gzip data cut short" : why);
}

/* One of zstd, or one that zstd skips (RFC 8878, 3.1.2): some packers begin with their own notes. */
static bool is_frame(const char *bytes, size_t n)
{
    return n >= 4 && (memcmp(bytes, "\x28\xb5\x2f\xfd", 4) == 0 ||
                      ((bytes[0] & 0xf0) == 0x50 && memcmp(bytes + 1, "\x2a\x4d\x18", 3) == 0));
}

/* The first bytes are looked at: those of zstd become its input. */
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

/* More of what is packed. */
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

hs_status hs__unpacked_read(hs__unpacked *s, char *bytes, size_t n, size_t *ret_n, hs_error *err)
{
    hs_status st = HS_OK;
    if (!s->zstd)
        st = bytes_read(s, bytes, n, ret_n, err);
    if (!st && !s->begun && is_frame(bytes, *ret_n))
        st = zstd_begin(s, bytes, *ret_n, err);
    s->begun = true;
    return !st && s->zstd ? zstd_read(s, bytes, n, ret_n, err) : st;
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
