/* amx_tiles.h - AMX's eight tiles, registers of up to 16 rows of 64 bytes. Tile numbers are literals 0 .. 7,
 * because they are part of the instruction. tests/unit/amx_emulated.h has the same in plain C, with the same
 * bits.
 *
 *     tiles_begin(n, first)    tiles get n rows, those from `first` on 16, as B has. All become 0
 *     tiles_end()              releases them: a thread that holds tiles saves 8 KiB when it is interrupted
 *     TILE_LOAD(t, p, step)    rows of 64 bytes, `step` bytes apart; step 0 repeats one row
 *     TILE_STORE(t, p, step)
 *     TILE_ZERO(t)
 *     TILE_BF16(c, a, b)       c [n][16] floats += a [n][16] pairs of bfloat16 times b [16][16] pairs
 *     TILE_U8S8(c, a, b)       c [n][16] int32 += a [n][16] quads of unsigned bytes times b, signed bytes
 *     TILE_S8S8(c, a, b)       the same with signed bytes in a
 *
 * Tiles are used after hs__amx_permitted and between tiles_begin and tiles_end. Elsewhere the instructions
 * end the process with SIGILL. */
#pragma once

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tiles_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16]; /* of each tile */
    uint8_t n_rows[16];
} tiles_config;

static inline void tiles_begin(size_t n_rows, size_t first)
{
    _Alignas(64) tiles_config config = {.palette = 1};
    for (size_t t = 0; t < 8; t++) {
        config.row_bytes[t] = 64;
        config.n_rows[t] = t < first ? (uint8_t)n_rows : 16;
    }
    /* gcc 12 does not know that _tile_loadconfig reads 64 bytes and _tile_loadd its rows. Without a barrier
     * it may drop the stores before them. */
    __asm__ volatile("" ::: "memory");
    _tile_loadconfig(&config);
}

static inline void tiles_end(void)
{
    _tile_release();
}

#define TILE_LOAD(t, p, step)  _tile_loadd(t, p, step)
#define TILE_STORE(t, p, step) _tile_stored(t, p, step)
#define TILE_ZERO(t)           _tile_zero(t)
#define TILE_BF16(c, a, b)     _tile_dpbf16ps(c, a, b)
#define TILE_U8S8(c, a, b)     _tile_dpbusd(c, a, b)
#define TILE_S8S8(c, a, b)     _tile_dpbssd(c, a, b)
