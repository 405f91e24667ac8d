/* charsmap.c - reads the double array. Every step is checked, because the table comes from an untrusted
 * file. */
#include "model/tokenizer/charsmap.h"

#include "model/base/utf8.h"

#include <nettle/base64.h>
#include <stdlib.h>
#include <string.h>

static uint32_t u32_at(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static hs_status decode(const char *base64, hs__charsmap *map, size_t *ret_n, hs_error *err)
{
    const size_t length = strlen(base64);
    struct base64_decode_ctx context;
    base64_decode_init(&context);
    *ret_n = BASE64_DECODE_LENGTH(length);
    map->bytes = malloc(*ret_n + 1);
    if (!map->bytes)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    if (!base64_decode_update(&context, ret_n, map->bytes, length, base64) || !base64_decode_final(&context))
        return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: precompiled_charsmap is not base64");
    map->bytes[*ret_n] = '\0';
    return HS_OK;
}

hs_status hs__charsmap_read(const char *base64, hs__charsmap *ret_map, hs_error *err)
{
    size_t n = 0;
    *ret_map = (hs__charsmap){0};
    const hs_status st = decode(base64, ret_map, &n, err);
    if (st)
        return st;
    const size_t n_array = n < 4 ? 0 : u32_at(ret_map->bytes);
    if (n_array < 4 || n_array % 4 || n_array > n - 4)
        return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: precompiled_charsmap is truncated or malformed");
    ret_map->units = ret_map->bytes + 4;
    ret_map->n_units = n_array / 4;
    ret_map->replacements = (const char *)ret_map->units + n_array;
    ret_map->n_replacement_bytes = n - 4 - n_array;
    if (hs_utf8_valid(ret_map->replacements, ret_map->n_replacement_bytes) < ret_map->n_replacement_bytes)
        return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: precompiled_charsmap has text that is not UTF-8");
    return HS_OK;
}

void hs__charsmap_finish(hs__charsmap *map)
{
    free(map->bytes);
    *map = (hs__charsmap){0};
}

/* ---- units ---- */

static uint32_t label(uint32_t unit)
{
    return unit & 0x800000FF;
}

static bool has_leaf(uint32_t unit)
{
    return unit >> 8 & 1;
}

static uint32_t offset(uint32_t unit)
{
    return unit >> 10 << ((unit & 0x200) >> 6);
}

static uint32_t value(uint32_t unit)
{
    return unit & 0x7FFFFFFF;
}

/* Returns the unit at a place. Outside the array, returns one that no transition reaches. */
static uint32_t unit_at(const hs__charsmap *map, uint32_t place)
{
    return place < map->n_units ? u32_at(map->units + 4 * (size_t)place) : 0x80000000;
}

const char *hs__charsmap_find(const hs__charsmap *map, const unsigned char *text, size_t n_bytes)
{
    uint32_t place = offset(unit_at(map, 0));
    for (size_t i = 0; i < n_bytes && text[i]; i++) {
        place ^= text[i];
        const uint32_t unit = unit_at(map, place);
        if (label(unit) != text[i])
            return NULL;
        place ^= offset(unit);
        if (has_leaf(unit)) {
            const uint32_t at = value(unit_at(map, place));
            const bool is =
                at < map->n_replacement_bytes && !hs_utf8_continues((unsigned char)map->replacements[at]);
            return is ? map->replacements + at : NULL;
        }
    }
    return NULL;
}
