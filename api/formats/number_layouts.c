/* number_layouts.c - the table of layouts, written by the compiler from three rules. */
#include "api/formats/number_list.h"

/* Byte i of the text of first.rest[0..n), then the comma. Below 1: "0.", zeros zeros, first, rest. */
#define BELOW(zeros, n, i)                                                                                   \
    ((i) == 15                 ? (zeros) + (n) + 4                                                           \
     : (i) == 1                ? HS__AT_POINT                                                                \
     : (i) < (zeros) + 2       ? HS__AT_ZERO                                                                 \
     : (i) == (zeros) + 2      ? HS__AT_FIRST                                                                \
     : (i) < (zeros) + 3 + (n) ? (i) - (zeros)-3                                                             \
                               : HS__AT_COMMA)
/* From 1 on: the point stands before rest[decade], where there is that. */
#define WHOLE(decade, n, i)                                                                                  \
    ((i) == 15                               ? ((n) > (decade) ? (n) + 3 : (decade) + 2)                     \
     : (i) == 0                              ? HS__AT_FIRST                                                  \
     : (i) <= (decade)                       ? (i)-1                                                         \
     : (n) > (decade) && (i) == (decade) + 1 ? HS__AT_POINT                                                  \
     : (n) > (decade) && (i) < (n) + 2       ? (i)-2                                                         \
                                             : HS__AT_COMMA)
/* With an exponent behind `before` bytes. */
#define POWER_AT(before, minus, tens, i)                                                                     \
    ((i) == 15                                 ? (before) + (minus) + (tens) + 3                             \
     : (i) == (before)                         ? HS__AT_E                                                    \
     : (minus) && (i) == (before) + 1          ? HS__AT_MINUS                                                \
     : (tens) && (i) == (before) + 1 + (minus) ? HS__AT_TENS                                                 \
     : (i) == (before) + 1 + (minus) + (tens)  ? HS__AT_ONES                                                 \
                                               : HS__AT_COMMA)
#define POWER(kind, n, i)                                                                                    \
    ((i) == 0               ? HS__AT_FIRST                                                                   \
     : (n) && (i) == 1      ? HS__AT_POINT                                                                   \
     : (i) < (n) + 2 && (n) ? (i)-2                                                                          \
                            : POWER_AT((n) ? (n) + 2 : 1, (kind) < 2, (kind)&1, i))

#define ROW(layout, a, n)                                                                                    \
    {                                                                                                        \
        layout(a, n, 0), layout(a, n, 1), layout(a, n, 2), layout(a, n, 3), layout(a, n, 4),                 \
            layout(a, n, 5), layout(a, n, 6), layout(a, n, 7), layout(a, n, 8), layout(a, n, 9),             \
            layout(a, n, 10), layout(a, n, 11), layout(a, n, 12), layout(a, n, 13), layout(a, n, 14),        \
            layout(a, n, 15)                                                                                 \
    }
#define ROWS(layout, a)                                                                                      \
    ROW(layout, a, 0), ROW(layout, a, 1), ROW(layout, a, 2), ROW(layout, a, 3), ROW(layout, a, 4),           \
        ROW(layout, a, 5), ROW(layout, a, 6), ROW(layout, a, 7), ROW(layout, a, 8)

const uint8_t hs__number_layouts[HS__LAYOUTS * HS__LAYOUT_ROWS][16] = {
    ROWS(BELOW, 3), ROWS(BELOW, 2), ROWS(BELOW, 1), ROWS(BELOW, 0), ROWS(WHOLE, 0), ROWS(WHOLE, 1),
    ROWS(WHOLE, 2), ROWS(WHOLE, 3), ROWS(WHOLE, 4), ROWS(WHOLE, 5), ROWS(WHOLE, 6), ROWS(WHOLE, 7),
    ROWS(WHOLE, 8), ROWS(POWER, 0), ROWS(POWER, 1), ROWS(POWER, 2), ROWS(POWER, 3),
};
