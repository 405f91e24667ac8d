/* token_text.h - the tokens of a text as lines of words, some of them on a coloured ground. */
#pragma once

#include "api/figures/picture.h"

typedef struct hs_token_text {
    const char *title;
    const char *const *tokens; /* [n] */
    const size_t *marks;       /* [n]; 0: none, else the number of a colour, which repeats from 8 on */
    size_t n;
    double width_mm, font_pt;
} hs_token_text;

/* Lays the text out. Release with hs_picture_finish, also on failure. HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_token_text_draw(const hs_token_text *text, hs_picture *ret_drawing, hs_error *err);
