/* token_text.h - the tokens of a text as lines of words, some of them on a coloured ground. */
#pragma once

#include "api/figures/picture.h"

typedef struct hs__token_text {
    const char *title;
    const char *const *tokens; /* [n] */
    const size_t *marks;       /* [n]; 0: none, else the number of a colour, which repeats from 8 on */
    size_t n;
    double width_mm, font_pt;
} hs__token_text;

/* Lays the text out. Release with hs__picture_finish, also on failure. HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__token_text_draw(const hs__token_text *text, hs__picture *ret_drawing,
                                          hs_error *err);
