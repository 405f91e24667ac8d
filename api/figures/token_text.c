/* token_text.c - puts token after token on a line, and begins another where one does not fit. */
#include "api/figures/token_text.h"

#include "api/figures/font.h"

#include <math.h>

#define INK  0x16191du
#define EDGE 4.0 /* around the page */
#define LINE 1.6
#define PAD  0.25 /* beside a token, in font sizes */

/* Light, so that dark words read on them. */
static const uint32_t grounds[] = {0xffd28a, 0xb9d4f5, 0xb8e6cd, 0xe6c8ee,
                                   0xf3b8ae, 0xe5e08a, 0xa9e3ea, 0xd9cbb8};
enum { N_GROUNDS = sizeof grounds / sizeof *grounds };

hs_status hs_token_text_draw(const hs_token_text *t, hs_picture *d, hs_error *err)
{
    const double font = t->font_pt, page = t->width_mm / 25.4 * 72, most = page - 2 * EDGE;
    double x = EDGE, y = EDGE + font;
    *d = (hs_picture){.width = page};
    hs_picture_describe(d, t->title, t->title);
    hs__draw_text(d, &(hs__mark){.x = x, .y = y, .size = font, .colour = INK}, t->title, most);
    y += LINE * font;
    for (size_t i = 0; i < t->n; i++) {
        const double width = fmin(most, (hs__font_width(t->tokens[i]) + 2 * PAD) * font);
        if (x + width > page - EDGE && x > EDGE) {
            x = EDGE;
            y += LINE * font;
        }
        if (t->marks[i])
            hs__draw_box(d, x, y - font, width, 1.3 * font, grounds[(t->marks[i] - 1) % N_GROUNDS], true);
        hs__draw_text(d, &(hs__mark){.x = x + PAD * font, .y = y, .size = font, .colour = INK}, t->tokens[i],
                      width - 2 * PAD * font + 0.01);
        x += width;
    }
    d->height = y + 0.5 * font + EDGE;
    return d->failed ? hs_fail(err, HS_NO_MEMORY, "no memory for the figure") : HS_OK;
}
