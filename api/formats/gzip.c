/* gzip.c - chooses the compression level by the time that it may take. */
#include "api/formats/gzip.h"

#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

/* Speeds below those measured on one core for JSON numbers: level 1 compresses 130 MB/s to 44 % of the size,
 * Huffman codes alone 180 MB/s to 46 %. Level 6 takes six times as long for 39 %. Digits rarely repeat;
 * tokens and names do. */
#define LEVEL_1_BYTES_PER_MS (80 * 1000.0)
#define HUFFMAN_BYTES_PER_MS (130 * 1000.0)

#define BYTES_MIN     1024
#define BUDGET_MS_MIN 1.0

bool hs__gzip(hs_buffer *body, double budget_ms)
{
    const double bytes = (double)body->size;
    budget_ms = budget_ms > BUDGET_MS_MIN ? budget_ms : BUDGET_MS_MIN;
    if (body->size < BYTES_MIN || body->size > UINT32_MAX / 2 || bytes > budget_ms * HUFFMAN_BYTES_PER_MS)
        return false;
    const int strategy = bytes > budget_ms * LEVEL_1_BYTES_PER_MS ? Z_HUFFMAN_ONLY : Z_DEFAULT_STRATEGY;
    z_stream stream = {0};
    if (deflateInit2(&stream, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, strategy) != Z_OK)
        return false;
    /* The output may take as much as the input: compression that does not shrink the body fails. */
    hs_buffer packed = {0};
    char *to = hs_buffer_reserve(&packed, body->size);
    stream.next_in = (unsigned char *)body->data;
    stream.avail_in = (uInt)body->size;
    stream.next_out = (unsigned char *)to;
    stream.avail_out = to ? (uInt)body->size : 0;
    const bool done = to && deflate(&stream, Z_FINISH) == Z_STREAM_END;
    packed.size = stream.total_out;
    deflateEnd(&stream);
    if (done) {
        hs_buffer_finish(body);
        *body = packed;
    } else {
        hs_buffer_finish(&packed);
    }
    return done;
}
