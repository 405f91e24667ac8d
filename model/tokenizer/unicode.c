/* unicode.c - looks up Unicode properties. Classes are needed often and use a two-level table, because most
 * blocks of code points are alike. The other properties use binary search. */
#include "model/tokenizer/unicode.h"

#include "model/tokenizer/unicode_tables.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Looks up a table of ranges, sorted `code point << 8 | value`: the last entry at or before the code point
 * counts. */
static unsigned range_value(const uint32_t *ranges, size_t n_ranges, uint32_t code_point)
{
    const uint32_t key = code_point << 8 | 0xFF;
    const uint32_t *base = ranges;
    while (n_ranges > 1) {
        const size_t half = n_ranges / 2;
        base += base[half] <= key ? half : 0;
        n_ranges -= half;
    }
    return *base & 0xFF;
}

unsigned hs__unicode_class(uint32_t code_point)
{
    return class_blocks[class_block_of[code_point >> 7] << 7 | (code_point & 127)];
}

unsigned hs__unicode_kind(uint32_t code_point)
{
    return range_value(kind_ranges, COUNT(kind_ranges), code_point);
}

uint8_t hs__unicode_combining(uint32_t code_point)
{
    return (uint8_t)range_value(combining_ranges, COUNT(combining_ranges), code_point);
}

uint32_t hs__unicode_lower(uint32_t code_point)
{
    if (code_point == 0x130)
        return 'i';
    size_t low = 0;
    size_t high = COUNT(lower_ranges);
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (lower_ranges[middle].last < code_point)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == COUNT(lower_ranges) || code_point < lower_ranges[low].first ||
        (code_point - lower_ranges[low].first) % (uint32_t)lower_ranges[low].step)
        return code_point;
    return (uint32_t)((int32_t)code_point + lower_ranges[low].delta);
}

/* Decomposes a Hangul syllable (Unicode Standard, section 3.12): (leading * 21 + vowel) * 28 + trailing. */
static size_t decompose_hangul(uint32_t syllable, uint32_t *ret)
{
    const uint32_t trailing = syllable % 28;
    ret[0] = 0x1100 + syllable / (21 * 28);
    ret[1] = 0x1161 + syllable / 28 % 21;
    ret[2] = 0x11A7 + trailing;
    return trailing ? 3 : 2;
}

/* Copies the decomposition of a code point to ret, by binary search in the table. Returns its length, or 0 if
 * there is none. */
static size_t find_decomposition(const decomposition *table, size_t n_rows, uint32_t code_point,
                                 uint32_t *ret)
{
    size_t low = 0;
    size_t high = n_rows;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (table[middle].code_point < code_point)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == n_rows || table[low].code_point != code_point)
        return 0;
    memcpy(ret, decomposition_pool + table[low].start, table[low].length * sizeof *decomposition_pool);
    return table[low].length;
}

size_t hs__unicode_decompose(uint32_t code_point, uint32_t ret[HS__DECOMPOSITION_MAX])
{
    if (code_point >= 0xAC00 && code_point <= 0xD7A3)
        return decompose_hangul(code_point - 0xAC00, ret);
    const size_t n = find_decomposition(decompositions, COUNT(decompositions), code_point, ret);
    if (n > 0)
        return n;
    ret[0] = code_point;
    return 1;
}

size_t hs__unicode_decompose_compatible(uint32_t code_point, uint32_t ret[HS__COMPATIBLE_MAX])
{
    const size_t n =
        find_decomposition(compatible_decompositions, COUNT(compatible_decompositions), code_point, ret);
    return n > 0 ? n : hs__unicode_decompose(code_point, ret);
}

/* Composes a Hangul syllable. Returns 0 if the pair does not compose. */
static uint32_t compose_hangul(uint32_t first, uint32_t second)
{
    const uint32_t leading = first - 0x1100;
    const uint32_t vowel = second - 0x1161;
    const uint32_t syllable = first - 0xAC00;
    const uint32_t trailing = second - 0x11A7;
    if (leading < 19 && vowel < 21)
        return 0xAC00 + (leading * 21 + vowel) * 28;
    return syllable < 19 * 21 * 28 && syllable % 28 == 0 && trailing < 28 && trailing ? first + trailing : 0;
}

/* Compares parts with those of a decomposition, in lexicographic order. */
static int compare_parts(const uint32_t *parts, size_t n, const decomposition *d)
{
    for (size_t i = 0; i < n && i < d->length; i++)
        if (parts[i] != decomposition_pool[d->start + i])
            return parts[i] < decomposition_pool[d->start + i] ? -1 : 1;
    return (n > d->length) - (n < d->length);
}

/* the parts of a composite are those of the first character, then the second character */
uint32_t hs__unicode_compose(uint32_t first, uint32_t second)
{
    uint32_t parts[HS__DECOMPOSITION_MAX + 1];
    const uint32_t syllable = compose_hangul(first, second);
    if (syllable || second < 0x300)
        return syllable;
    const size_t n = hs__unicode_decompose(first, parts);
    parts[n] = second;
    size_t low = 0;
    size_t high = COUNT(compositions);
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const int order = compare_parts(parts, n + 1, &decompositions[compositions[middle]]);
        if (order == 0)
            return decompositions[compositions[middle]].code_point;
        if (order > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

unsigned hs__unicode_cluster(uint32_t code_point)
{
    return range_value(cluster_ranges, COUNT(cluster_ranges), code_point);
}
