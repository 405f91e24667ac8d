/* gzip.c - a compression level is chosen by what it costs beside what was computed. */
#include "api/formats/gzip.h"

#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

/* Below what one core did with JSON numbers in our measurements: level 1 130 MB/s to 44 % of the size,
 * Huffman codes alone 180 MB/s to 46 %; level 6 needs six times as long for 39 %. Digits repeat too little
 * for matches to pay, tokens and names repeat well: so level 1 where there is time, Huffman where there is
 * some. */
#define LEVEL_1_BYTES_PER_MS (80 * 1000.0)
#define HUFFMAN_BYTES_PER_MS (130 * 1000.0)

#define BYTES_MIN     1024
#define BUDGET_MS_MIN 1.0

bool hs__gzip(hs__buffer *body, double budget_ms)
{
    const double bytes = (double)body->size;
    budget_ms = budget_ms > BUDGET_MS_MIN ? budget_ms : BUDGET_MS_MIN;
    if (body->size < BYTES_MIN || body->size > UINT32_MAX / 2 || bytes > budget_ms * HUFFMAN_BYTES_PER_MS)
        return false;
    const int strategy = bytes > budget_ms * LEVEL_1_BYTES_PER_MS ? Z_HUFFMAN_ONLY : Z_DEFAULT_STRATEGY;
    z_stream stream = {0};
    if (deflateInit2(&stream, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, strategy) != Z_OK)
        return false;
    /* An answer that does not shrink is not worth sending so: the output ends where the input's size does. */
    hs__buffer packed = {0};
    char *to = hs__buffer_room(&packed, body->size);
    stream.next_in = (unsigned char *)body->data;
    stream.avail_in = (uInt)body->size;
    stream.next_out = (unsigned char *)to;
    stream.avail_out = to ? (uInt)body->size : 0;
    const bool done = to && deflate(&stream, Z_FINISH) == Z_STREAM_END;
    packed.size = stream.total_out;
    deflateEnd(&stream);
    if (done) {
        hs__buffer_finish(body);
        *body = packed;
    } else {
        hs__buffer_finish(&packed);
    }
    return done;
}
