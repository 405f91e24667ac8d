/* one_text.c - makes figures of "one_text". Leaves out what is missing or damaged. */
#include "server/corpus/report/one_text.h"

#include "api/figures/figure.h"
#include "model/tokenizer/tokenizer.h"

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
    hs_panel panels[MAPS_MAX];
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

/* ---- maps ---- */

static void map_add(scene *r, const json_t *map)
{
    const json_t *head = json_object_get(map, "head"), *kind = json_object_get(map, "kind");
    const json_t *list = json_object_get(map, "values");
    const bool attends = json_is_string(kind) && strcmp(json_string_value(kind), "attention") == 0;
    const long long layer = (long long)json_integer_value(json_object_get(map, "layer"));
    const size_t n = r->n_tokens;
    float *values = r->values[r->n_panels];
    hs_panel *p = &r->panels[r->n_panels];
    if (json_array_size(list) != n * n)
        return;
    for (size_t i = 0; i < n * n; i++)
        values[i] = (float)json_number_value(json_array_get(list, i));
    *p = hs_panel_of_map(values, r->tokens, n, !attends);
    if (!isfinite(p->low) || !isfinite(p->high))
        return;
    char name[32] = "all heads";
    if (json_is_integer(head))
        snprintf(name, sizeof name, "head %lld", (long long)json_integer_value(head));
    snprintf(p->title, sizeof p->title, "Layer %lld, %s: %s, max %.2g", layer, name,
             attends ? "attention" : "similarity", (double)p->high);
    r->n_panels++;
}

static hs_status maps_draw(const scene *r, const char *title, size_t n_across, hs_picture *ret, hs_error *err)
{
    const hs_figure figure = {.title = title,
                              .caption = title,
                              .panels = r->panels,
                              .n_panels = r->n_panels,
                              .n_across = n_across < r->n_panels ? n_across : r->n_panels,
                              .width_mm = fmin(WIDE, 90 * (double)n_across),
                              .font_pt = FONT};
    return r->n_panels ? hs_figure_draw(&figure, ret, err) : HS_OK;
}

static hs_status attention_draw(const hs__drawing *d, scene *r, const char *title, hs_picture *ret,
                                hs_error *err)
{
    const json_t *maps = json_object_get(one_text(d), "maps");
    const size_t n = json_array_size(maps) / 2; /* a head and all heads of each layer */
    for (size_t k = 0; k < 2 * n && k < MAPS_MAX; k++)
        map_add(r, json_array_get(maps, k));
    return maps_draw(r, title, n, ret, err);
}

static void token_mark(scene *r, const json_t *number)
{
    const json_int_t i = json_integer_value(number);
    if (i >= 0 && (size_t)i < r->n_tokens)
        r->marked[i] = 1;
}

static void high_read(const hs__drawing *d, scene *r)
{
    const json_t *high = json_object_get(one_text(d), "high");
    for (size_t k = 0; k < json_array_size(high); k++)
        token_mark(r, json_array_get(high, k));
}

static hs_status marked_draw(const hs__drawing *d, scene *r, const char *title, hs_picture *ret,
                             hs_error *err)
{
    const json_t *maps = json_object_get(one_text(d), "maps");
    const size_t n = json_array_size(maps) / 2;
    high_read(d, r);
    if (n) {
        map_add(r, json_array_get(maps, n - 1));
        map_add(r, json_array_get(maps, 2 * n));
    }
    for (size_t k = 0; k < r->n_panels; k++)
        r->panels[k].marked = r->marked;
    return maps_draw(r, title, r->n_panels, ret, err);
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
        for (size_t side = 0; side < 2; side++)
            token_mark(r, json_array_get(json_array_get(pairs, k), side));
}

/* Marks the tokens of high attention, or those of the strongest pairs of the kth head. */
static hs_status tokens_draw(const hs__drawing *d, scene *r, const hs__report_panel *panel, hs_picture *ret,
                             hs_error *err)
{
    const json_t *heads = json_object_get(one_text(d), "heads"), *head = NULL;
    char title[128];
    if (panel->which == HS__ONE_TEXT_HIGH)
        high_read(d, r);
    else {
        head = json_array_get(heads, (size_t)panel->which - HS__ONE_TEXT_MOST);
        pairs_read(json_object_get(head, "pairs"), r);
    }
    snprintf(title, sizeof title, "Layer %d, head %lld: %s", d->o.layers[d->o.n_layers - 1],
             (long long)json_integer_value(json_object_get(head, "head")), panel->title);
    colours_number(r);
    const hs_token_text text = {.title = title,
                                .tokens = r->tokens,
                                .marks = r->marks,
                                .n = r->n_tokens,
                                .width_mm = WIDE,
                                .font_pt = FONT};
    return panel->which == HS__ONE_TEXT_HIGH || head ? hs_token_text_draw(&text, ret, err) : HS_OK;
}

hs_status hs__one_text_draw(hs__drawing *d, const hs__report_panel *panel, hs__place at, hs_picture *ret,
                            hs_error *err)
{
    (void)at;
    hs_status st = HS_OK;
    scene *r = one_text(d) ? calloc(1, sizeof *r) : NULL;
    if (one_text(d) && !r)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the report");
    if (r && tokens_read(d, r))
        st = panel->which == HS__ONE_TEXT_ATTENTION ? attention_draw(d, r, panel->title, ret, err)
             : panel->which == HS__ONE_TEXT_MARKED  ? marked_draw(d, r, panel->title, ret, err)
                                                    : tokens_draw(d, r, panel, ret, err);
    free(r);
    return st;
}
