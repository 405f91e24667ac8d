/* crc.c - folds with carry-less multiplication, which is faster than zlib and Debian 12's libdeflate
 * (docs/explanation/decisions.md). Other CPUs use zlib.
 *
 * A CRC is the remainder of the message, a polynomial over GF(2), modulo P. Folding (Gopal et al., "Fast CRC
 * Computation for Generic Polynomials Using PCLMULQDQ", Intel 2009) keeps a remainder's worth of message in
 * wide registers. It multiplies the part D bits ahead of the next piece by x^D mod P and adds it to that
 * piece. The piece left at the end has the same remainder as all of the message had, and zlib finishes it. */
#include "api/formats/crc.h"

#include <zlib.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define PIECE 256 /* four registers of 64 bytes */

/* n is a multiple of PIECE and not 0. */
__attribute__((target("avx512f,vpclmulqdq"))) static uint32_t fold(uint32_t crc, const unsigned char *data,
                                                                   size_t n)
{
    /* x^(2048 + 32) and x^(2048 - 32) mod P, reflected: for the low and the high half of each 128 bits. */
    const __m512i power = _mm512_broadcast_i32x4(_mm_set_epi64x(0x1322d1430, 0x11542778a));
    __m512i r[4];
    for (size_t i = 0; i < 4; i++)
        r[i] = _mm512_loadu_si512(data + 64 * i);
    r[0] = _mm512_xor_si512(r[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~crc)));
    for (size_t at = PIECE; at < n; at += PIECE) {
        for (size_t i = 0; i < 4; i++) {
            const __m512i next = _mm512_loadu_si512(data + at + 64 * i);
            const __m512i low = _mm512_clmulepi64_epi128(r[i], power, 0x00);
            const __m512i high = _mm512_clmulepi64_epi128(r[i], power, 0x11);
            r[i] = _mm512_ternarylogic_epi64(low, high, next, 0x96); /* xor of three */
        }
    }
    unsigned char rest[PIECE];
    for (size_t i = 0; i < 4; i++)
        _mm512_storeu_si512(rest + 64 * i, r[i]);
    return (uint32_t)crc32_z(0xffffffff, rest, PIECE); /* zlib inverts: this starts from a remainder of 0 */
}

uint32_t hs__crc32(uint32_t crc, const void *data, size_t n)
{
    const unsigned char *bytes = data;
    const size_t n_folded = n - n % PIECE;
    if (n_folded && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq"))
        crc = fold(crc, bytes, n_folded);
    else
        return (uint32_t)crc32_z(crc, bytes, n);
    return (uint32_t)crc32_z(crc, bytes + n_folded, n - n_folded);
}

#else

uint32_t hs__crc32(uint32_t crc, const void *data, size_t n)
{
    return (uint32_t)crc32_z(crc, data, n);
}

#endif
