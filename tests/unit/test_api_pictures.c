/* test_api_pictures.c - what SVG writes of a path; where figures put their marks. */
#include "api/figures/figure.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Draws a dashed line from (1, 2) to (30.5, 4.25) on a page that is 100 points high. */
static hs_picture dashed_line(void)
{
    hs_picture d = {.width = 50, .height = 100};
    hs__draw_line(&d, &(hs__mark){.x = 1, .y = 2, .line = 0.5, .dash = 3}, 30.5, 4.25);
    ck_assert(!d.failed);
    return d;
}

START_TEST(svg_has_the_points_and_dashes_of_a_line)
{
    hs_picture d = dashed_line();
    hs_buffer b = {0};
    ck_assert_int_eq(hs_picture_svg(&d, &b, NULL), HS_OK);
    hs_buffer_add(&b, "", 1);
    ck_assert(!b.failed);
    ck_assert_ptr_nonnull(strstr(b.data, "<path d=\"M1 2L30.5 4.25\""));
    ck_assert_ptr_nonnull(strstr(b.data, "stroke-dasharray=\"3.00 3.00\""));
    hs_buffer_finish(&b);
    hs_picture_finish(&d);
}
END_TEST

/* ---- layout ---- */

/* Returns the first mark of a kind, of texts the first with this text. */
static const hs__mark *mark_of(const hs_picture *d, hs__mark_kind kind, const char *text)
{
    for (size_t i = 0; i < d->n; i++)
        if (d->marks[i].kind == kind && (kind != HS__MARK_TEXT || strcmp(d->marks[i].text, text) == 0))
            return &d->marks[i];
    ck_abort_msg("the figure has no such mark: %s", text);
}

/* Draws a map of n_rows rows and n_columns columns, all 0 but the last. */
static hs_picture map_draw(hs_panel panel, double font)
{
    float *values = calloc(panel.n_rows * panel.n_columns, sizeof *values);
    ck_assert_ptr_nonnull(values);
    values[panel.n_rows * panel.n_columns - 1] = 1;
    panel.values = values;
    hs__panel_range(&panel);
    const hs_figure figure = {.title = "",
                              .caption = "",
                              .panels = &panel,
                              .n_panels = 1,
                              .n_across = 1,
                              .width_mm = 85,
                              .font_pt = font};
    hs_picture d;
    ck_assert_int_eq(hs_figure_draw(&figure, &d, NULL), HS_OK);
    free(values);
    return d;
}

/* The bar of a map with one flat row is taller than the map. */
START_TEST(a_page_holds_the_bar_beside_its_map)
{
    hs_picture d = map_draw((hs_panel){.n_rows = 1, .n_columns = 40}, 20);
    const hs__mark *map = mark_of(&d, HS__MARK_IMAGE, ""), *bar = NULL;
    for (size_t i = 0; i < d.n; i++)
        bar = d.marks[i].kind == HS__MARK_IMAGE ? &d.marks[i] : bar;
    ck_assert_double_gt(bar->height, map->height);
    ck_assert_double_le(bar->y + bar->height, d.height);
    hs_picture_finish(&d);
}
END_TEST

START_TEST(a_bar_says_what_it_measures)
{
    hs_picture d = map_draw((hs_panel){.n_rows = 9, .n_columns = 9, .name = "0 1", .unit = "attention"}, 7);
    const hs__mark *words = mark_of(&d, HS__MARK_TEXT, "attention");
    ck_assert(words->upright);
    hs_picture_finish(&d);
}
END_TEST

/* A pixel shows the strongest of its cells; those of the last row and column stand alone here. */
START_TEST(a_pixel_stands_for_several_cells)
{
    hs_picture d = map_draw((hs_panel){.n_rows = 2051, .n_columns = 2053}, 7);
    const hs__mark *map = mark_of(&d, HS__MARK_IMAGE, "");
    ck_assert_uint_eq(map->n_down, 1026);
    ck_assert_uint_eq(map->n_across, 1027);
    const size_t last = map->n_down * map->n_across - 1;
    ck_assert_uint_eq(map->pixels[0], 1);
    ck_assert_uint_eq(map->pixels[last - 1], 1);
    ck_assert_uint_eq(map->pixels[last], 255);
    hs_picture_finish(&d);
}
END_TEST

/* The title of the y axis may be taller than a low plot, but not as tall as the page. */
START_TEST(titles_are_cut_only_where_they_reach_too_far)
{
    enum { FONT = 10, PAGE = 72 };
    static const double values[] = {0, 1};
    for (int tall = 0; tall < 2; tall++) {
        char title[64] = "";
        while (hs__font_width(title) * FONT < (tall ? PAGE : PAGE / 2))
            strcat(title, "i");
        const hs_chart chart = {.kind = HS_CHART_BARS,
                                .title = "",
                                .x_title = "",
                                .y_title = title,
                                .xs = values,
                                .values = values,
                                .n = 2,
                                .n_series = 1,
                                .y_high = 1,
                                .mark_x = (double)NAN,
                                .mark_y = (double)NAN,
                                .width_mm = 85,
                                .height_mm = PAGE / 72.0 * 25.4,
                                .font_pt = FONT};
        hs_picture d;
        ck_assert_int_eq(hs_chart_draw(&chart, &d, NULL), HS_OK);
        size_t whole = 0, cut = 0;
        for (size_t i = 0; i < d.n; i++)
            if (d.marks[i].kind == HS__MARK_TEXT && d.marks[i].upright) {
                whole += strcmp(d.marks[i].text, title) == 0;
                cut += strstr(d.marks[i].text, "\u2026") != NULL;
            }
        ck_assert_uint_eq(whole, !tall);
        ck_assert_uint_eq(cut, tall);
        hs_picture_finish(&d);
    }
}
END_TEST

START_TEST(layers_have_ticks_at_layers)
{
    static const double layers[] = {2, 3, 4}, bins[] = {0.25, 0.75}, values[3] = {0};
    static const struct {
        const double *xs;
        size_t n;
        const char *ticks;
    } rows[] = {{layers, 1, " 2"}, {layers, 3, " 2 3 4"}, {bins, 2, " 0 0.5 1"}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const hs_chart chart = {.kind = HS_CHART_LINES,
                                .title = "",
                                .x_title = "",
                                .xs = rows[k].xs,
                                .values = values,
                                .n = rows[k].n,
                                .n_series = 1,
                                .y_high = 1,
                                .mark_x = (double)NAN,
                                .mark_y = (double)NAN,
                                .width_mm = 85,
                                .height_mm = 40,
                                .font_pt = 8};
        hs_picture d;
        char ticks[128] = "";
        ck_assert_int_eq(hs_chart_draw(&chart, &d, NULL), HS_OK);
        for (size_t i = 0; i < d.n; i++)
            if (d.marks[i].kind == HS__MARK_TEXT && d.marks[i].anchor == HS__ANCHOR_MIDDLE &&
                *d.marks[i].text)
                strcat(strcat(ticks, " "), d.marks[i].text);
        ck_assert_str_eq(ticks, rows[k].ticks);
        hs_picture_finish(&d);
    }
}
END_TEST

START_TEST(marked_tokens_stand_on_a_ground)
{
    static const char *const tokens[] = {"one", "two", "six"};
    static const size_t marks[] = {0, 1, 2};
    const hs_token_text text = {
        .title = "", .tokens = tokens, .marks = marks, .n = 3, .width_mm = 85, .font_pt = 8};
    hs_picture d;
    ck_assert_int_eq(hs_token_text_draw(&text, &d, NULL), HS_OK);
    const hs__mark *grounds[3] = {0};
    size_t n = 0;
    for (size_t i = 0; i < d.n && n < 3; i++)
        if (d.marks[i].kind == HS__MARK_BOX)
            grounds[n++] = &d.marks[i];
    ck_assert_uint_eq(n, 2);
    ck_assert_uint_ne(grounds[0]->colour, grounds[1]->colour);
    for (size_t k = 0; k < n; k++) {
        const hs__mark *word = mark_of(&d, HS__MARK_TEXT, tokens[1 + k]);
        ck_assert(grounds[k]->filled && grounds[k] < word);
        ck_assert_double_le(grounds[k]->x, word->x);
        ck_assert_double_ge(grounds[k]->x + grounds[k]->width, word->x + 8 * hs__font_width(word->text));
        ck_assert(grounds[k]->y < word->y && word->y < grounds[k]->y + grounds[k]->height);
    }
    hs_picture_finish(&d);
}
END_TEST

int main(void)
{
    TCase *writers = tcase_create("writers");
    tcase_add_test(writers, svg_has_the_points_and_dashes_of_a_line);
    TCase *layout = tcase_create("layout");
    tcase_add_test(layout, a_page_holds_the_bar_beside_its_map);
    tcase_add_test(layout, a_bar_says_what_it_measures);
    tcase_add_test(layout, a_pixel_stands_for_several_cells);
    tcase_add_test(layout, titles_are_cut_only_where_they_reach_too_far);
    tcase_add_test(layout, layers_have_ticks_at_layers);
    tcase_add_test(layout, marked_tokens_stand_on_a_ground);
    Suite *suite = suite_create("api pictures");
    suite_add_tcase(suite, writers);
    suite_add_tcase(suite, layout);
    return tests_run(suite);
}
