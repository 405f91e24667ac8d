/* one_text.c - makes figures of "one_text". Leaves out what is missing or damaged. */
#include "server/corpus/report/one_text.h"

#include "api/figures/figure.h"
#include "api/figures/token_text.h"
#include "model/tokenizer/readable_token.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FONT 8.0   /* points */
#define WIDE 200.0 /* mm */

enum { MAPS_MAX = 6, NAME_BYTES = 96, CELLS = HS__ONE_TEXT_TOKENS * HS__ONE_TEXT_TOKENS };

/* Memory of one figure. */
typedef struct scene {
    char names[HS__ONE_TEXT_TOKENS][NAME_BYTES];
    const char *tokens[HS__ONE_TEXT_TOKENS];
    size_t marks[HS__ONE_TEXT_TOKENS];
    unsigned char marked[HS__ONE_TEXT_TOKENS];
    size_t n_tokens;
    hs__panel panels[MAPS_MAX];
    size_t n_panels;
    float values[MAPS_MAX][CELLS];
} scene;

static const json_t *one_text(const hs__drawing *d)
{
    return json_object_get(d->report, "one_text");
}

/* Reads the tokens. Returns false if there is no text. */
static bool tokens_read(const hs__drawing *d, scene *r)
{
    const json_t *model = json_object_get(json_object_get(d->report, "provenance"), "model");
    const char *kind = json_string_value(json_object_get(model, "tokenizer"));
    const json_t *tokens = json_object_get(one_text(d), "tokens");
    r->n_tokens = json_array_size(tokens);
    if (!r->n_tokens || r->n_tokens > HS__ONE_TEXT_TOKENS)
        return false;
    for (size_t i = 0; i < r->n_tokens; i++) {
        const char *token = json_string_value(json_array_get(tokens, i));
        hs_token_readable(kind, token ? token : "?", r->names[i], NAME_BYTES);
        r->tokens[i] = r->names[i];
    }
    return true;
}

/* Returns the memory of a figure with the text's tokens. NULL: there is no text, or no memory, which is then
 * the status. */
static scene *scene_create(const hs__drawing *d, hs_status *ret_st, hs_error *err)
{
    scene *r = one_text(d) ? calloc(1, sizeof *r) : NULL;
    *ret_st = r || !one_text(d) ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for the report");
    if (r && !tokens_read(d, r)) {
        free(r);
        return NULL;
    }
    return r;
}

/* ---- maps ---- */

static bool values_read(const json_t *values, size_t n, float *ret, hs__panel *panel)
{
    if (json_array_size(values) != n)
        return false;
    panel->high = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        ret[i] = (float)json_number_value(json_array_get(values, i));
        panel->low = fminf(panel->low, ret[i]);
        panel->high = fmaxf(panel->high, ret[i]);
    }
    if (!(panel->high > panel->low))
        panel->high = panel->low + 1;
    return isfinite(panel->low) && isfinite(panel->high);
}

static void map_add(scene *r, const json_t *map)
{
    const json_t *head = json_object_get(map, "head"), *kind = json_object_get(map, "kind");
    const bool attends = json_is_string(kind) && strcmp(json_string_value(kind), "attention") == 0;
    const long long layer = (long long)json_integer_value(json_object_get(map, "layer"));
    hs__panel *p = &r->panels[r->n_panels];
    *p = (hs__panel){.n_rows = r->n_tokens,
                     .n_columns = r->n_tokens,
                     .values = r->values[r->n_panels],
                     .row_labels = r->tokens,
                     .column_labels = r->tokens,
                     .row_title = attends ? "from" : NULL,
                     .column_title = attends ? "to" : NULL,
                     .palette = attends ? HS__PALETTE_BLUE : HS__PALETTE_ORANGE};
    if (!values_read(json_object_get(map, "values"), r->n_tokens * r->n_tokens, r->values[r->n_panels], p))
        return;
    r->n_panels++;
    int n = snprintf(p->title, sizeof p->title, "Layer %lld, ", layer);
    n += json_is_integer(head) ? snprintf(p->title + n, sizeof p->title - (size_t)n,
                                          "head %lld: ", (long long)json_integer_value(head))
                               : snprintf(p->title + n, sizeof p->title - (size_t)n, "all heads: ");
    snprintf(p->title + n, sizeof p->title - (size_t)n, "%s, max %.2g", attends ? "attention" : "similarity",
             (double)p->high);
}

static hs_status maps_draw(const scene *r, const char *title, size_t n_across, hs__picture *ret,
                           hs_error *err)
{
    const hs__figure figure = {.title = title,
                               .caption = title,
                               .panels = r->panels,
                               .n_panels = r->n_panels,
                               .n_across = n_across,
                               .width_mm = fmin(WIDE, 90 * (double)n_across),
                               .font_pt = FONT};
    return hs__figure_draw(&figure, ret, err);
}

hs_status hs__one_text_attention(hs__drawing *d, const hs__report_panel *panel, hs__place at,
                                 hs__picture *ret, hs_error *err)
{
    (void)at;
    hs_status st;
    scene *r = scene_create(d, &st, err);
    if (!r)
        return st;
    const json_t *maps = json_object_get(one_text(d), "maps");
    const size_t n = json_array_size(maps) / 2; /* a head and all heads of each layer */
    for (size_t k = 0; k < 2 * n && k < MAPS_MAX; k++)
        map_add(r, json_array_get(maps, k));
    if (r->n_panels)
        st = maps_draw(r, panel->title, n < r->n_panels ? n : r->n_panels, ret, err);
    free(r);
    return st;
}

static void high_read(const hs__drawing *d, scene *r)
{
    const json_t *high = json_object_get(one_text(d), "high");
    for (size_t k = 0; k < json_array_size(high); k++) {
        const json_int_t i = json_integer_value(json_array_get(high, k));
        if (i >= 0 && (size_t)i < r->n_tokens)
            r->marked[i] = 1;
    }
}

hs_status hs__one_text_marked(hs__drawing *d, const hs__report_panel *panel, hs__place at, hs__picture *ret,
                              hs_error *err)
{
    (void)at;
    hs_status st;
    scene *r = scene_create(d, &st, err);
    if (!r)
        return st;
    const json_t *maps = json_object_get(one_text(d), "maps");
    const size_t n = json_array_size(maps) / 2;
    high_read(d, r);
    if (n) {
        map_add(r, json_array_get(maps, n - 1));
        map_add(r, json_array_get(maps, 2 * n));
    }
    for (size_t k = 0; k < r->n_panels; k++)
        r->panels[k].marked = r->marked;
    if (r->n_panels)
        st = maps_draw(r, panel->title, r->n_panels, ret, err);
    free(r);
    return st;
}

/* ---- tokens ---- */

/* Gives a marked token the number of its first appearance among the marked ones. */
static void colours_number(scene *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_tokens; i++)
        for (size_t k = 0; r->marked[i] && !r->marks[i] && k <= i; k++)
            if (r->marked[k] && strcmp(r->names[k], r->names[i]) == 0)
                r->marks[i] = k < i ? r->marks[k] : ++n;
}

static void pairs_read(const json_t *pairs, scene *r)
{
    for (size_t k = 0; k < json_array_size(pairs); k++)
        for (size_t side = 0; side < 2; side++) {
            const json_int_t i = json_integer_value(json_array_get(json_array_get(pairs, k), side));
            if (i >= 0 && (size_t)i < r->n_tokens)
                r->marked[i] = 1;
        }
}

hs_status hs__one_text_tokens(hs__drawing *d, const hs__report_panel *panel, hs__place at, hs__picture *ret,
                              hs_error *err)
{
    (void)at;
    hs_status st;
    char title[128];
    scene *r = scene_create(d, &st, err);
    if (!r)
        return st;
    const size_t k = (size_t)panel->which;
    const json_t *heads = json_object_get(one_text(d), "heads"), *head = json_array_get(heads, k - 1);
    const int layer = d->o.layers[d->o.n_layers - 1];
    if (k == 0) {
        high_read(d, r);
        snprintf(title, sizeof title, "Layer %d, head 0: %s", layer, panel->title);
    } else {
        pairs_read(json_object_get(head, "pairs"), r);
        snprintf(title, sizeof title, "Layer %d, head %lld: %s", layer,
                 (long long)json_integer_value(json_object_get(head, "head")), panel->title);
    }
    colours_number(r);
    const hs__token_text text = {.title = title,
                                 .tokens = r->tokens,
                                 .marks = r->marks,
                                 .n = r->n_tokens,
                                 .width_mm = WIDE,
                                 .font_pt = FONT};
    if (k == 0 || head)
        st = hs__token_text_draw(&text, ret, err);
    free(r);
    return st;
}
