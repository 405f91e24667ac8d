/* answer_figure.c - makes a figure of an answer: its panels from the captured maps, or from the arrays that a
 * binary answer would have. */
#include "api/answer/answer.h"

#include "api/figures/region_panels.h"
#include "api/outputs/outputs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PANELS_MAX   1024
#define LABELLED_MAX 4 /* maps of a figure whose axes have labels */

enum { PAIRS_MOST = 12 }; /* strongest pairs of a figure, as in reports */

enum { EFFECTS = 7 }; /* panels of a figure of effects, the most of those that are no maps */

static const struct {
    const char *title;
    hs__outputs output; /* 0: the maps that are shown */
} kinds[] = {
    [HS__FIGURE_HEAD] = {.title = "maps of heads"},
    [HS__FIGURE_LAYER] = {.title = "heads of a layer"},
    [HS__FIGURE_OVERVIEW] = {.title = "overview of heads"},
    [HS__FIGURE_DISTANCES] = {.title = "distances of heads", .output = HS__OUTPUT_BIT(head_distances)},
    [HS__FIGURE_PREDICTIONS] = {.title = "predictions", .output = HS__OUTPUT_BIT(predictions)},
    [HS__FIGURE_LENS] = {.title = "predictions of layers", .output = HS__OUTPUT_BIT(predictions)},
    [HS__FIGURE_EFFECTS] = {.title = "effects of heads", .output = HS__OUTPUT_BIT(effects)},
    [HS__FIGURE_REGIONS] = {.title = "regions of heads"},
    [HS__FIGURE_PAIRS] = {.title = "strongest pairs", .output = HS__OUTPUT_BIT(pairs)},
};

/* The parts that make one figure. */
typedef struct maker {
    const hs__answer *answer;
    const hs__figure_request *figure;
    hs_arrays *arrays; /* of the figure's structure; NULL: maps */
    hs_panel *panels;
    size_t n_panels;
    const char **labels; /* owned; they point into numbers, into words, or to the vocabulary's tokens */
    char (*numbers)[24];
    char *words;           /* texts of merged words */
    size_t n_rows, n_keys; /* of maps of attention */
    size_t keys;           /* where the labels of their columns begin; 0: they are those of rows */
    float *values;         /* of masks and regions: two maps of each head; of pairs: one */
    size_t *marks;         /* of pairs: [tokens], as hs_token_text has them */
    unsigned char *marked; /* tokens of high attention of each head; of pairs: [tokens] */
    char title[256];
} maker;

/* ---- the request ---- */

static bool is_map(const hs__figure_request *figure)
{
    return !kinds[figure->kind].output;
}

static bool has_regions(const hs__figure_request *figure)
{
    return figure->kind == HS__FIGURE_REGIONS;
}

/* Returns the number of panels of a head's maps. */
static size_t n_shown(const hs__figure_request *figure)
{
    return has_regions(figure) ? 4 : figure->show == HS__SHOW_BOTH ? 2 : 1;
}

static hs__outputs figure_outputs(const hs__figure_request *figure)
{
    hs__outputs outputs = 0;
    if (!is_map(figure))
        return kinds[figure->kind].output;
    const hs__outputs attention = HS__OUTPUT_BIT(attentions), similarity = HS__OUTPUT_BIT(similarities);
    const bool words = figure->merge_words;
    if (figure->show != HS__SHOW_SIMILARITY)
        outputs |= words ? HS__OUTPUT_BIT(word_attentions) : attention;
    if (figure->show != HS__SHOW_ATTENTION)
        outputs |= words ? HS__OUTPUT_BIT(word_similarities) : similarity;
    return outputs;
}

static size_t figure_n_panels(const hs__analysis_request *analysis)
{
    const hs__figure_request *figure = &analysis->figure;
    return is_map(figure) ? analysis->n_layers * analysis->n_heads * n_shown(figure) : EFFECTS;
}

/* Refuses maps that the kind of figure cannot show. */
static int maps_check(const hs__analysis_request *analysis, hs__problem *problem)
{
    const hs__figure_request *figure = &analysis->figure;
    const bool cross = analysis->stack == HS_STACK_CROSS;
    if (cross && has_regions(figure))
        return hs__refuse(problem, 422, "/figure/kind",
                          "kind is regions, which needs attention between tokens of one text: ask for stack "
                          "decoder or encoder, or for another kind");
    if (figure->kind == HS__FIGURE_PAIRS && analysis->n_layers * analysis->n_heads != 1)
        return hs__refuse(problem, 422, analysis->n_layers > 1 ? "/layers" : "/heads",
                          "kind is pairs, which shows one head: name one layer and one head");
    if (cross && is_map(figure) && figure->show == HS__SHOW_BOTH)
        return hs__refuse(problem, 422, "/figure/show",
                          "show is both, but the maps of cross heads have different columns: tokens of the "
                          "text in attention, and of the target in similarity; ask for one of the two");
    if (figure->merge_words && (!is_map(figure) || has_regions(figure)))
        return hs__refuse(problem, 422, "/figure/merge_words",
                          "merge_words belongs to figures of maps: head, layer and overview");
    return 0;
}

/* Replaces the outputs by those of the figure. Figures that compare heads have all layers by default. */
int hs__figure_prepare(hs__analysis_request *analysis, bool is_figure, hs__problem *problem)
{
    const hs__served_model *model = analysis->model;
    if (!is_figure)
        return analysis->figure.requested
                   ? hs__refuse(problem, 422, "/figure",
                                "figure is drawn as svg, pdf or png, and csv has its numbers: "
                                "ask for one of these formats")
                   : 0;
    if (maps_check(analysis, problem))
        return problem->status;
    const unsigned kind = analysis->figure.kind;
    if (kind == HS__FIGURE_REGIONS)
        analysis->figure.show = HS__SHOW_BOTH;
    const bool predicts = kind == HS__FIGURE_PREDICTIONS || kind == HS__FIGURE_LENS;
    if (predicts && hs__predictor_check(model, "/figure/kind", problem))
        return problem->status;
    if (!analysis->has_layers &&
        (kind == HS__FIGURE_OVERVIEW || kind == HS__FIGURE_DISTANCES || kind == HS__FIGURE_EFFECTS)) {
        analysis->n_layers = model->shape->n_layers;
        memcpy(analysis->layers, hs_all_numbers, analysis->n_layers * sizeof *analysis->layers);
    }
    analysis->predictions.lens = kind == HS__FIGURE_LENS;
    analysis->outputs = figure_outputs(&analysis->figure);
    if (kind == HS__FIGURE_PAIRS)
        analysis->max_pairs = PAIRS_MOST;
    if (analysis->n_interventions)
        analysis->outputs |= HS__OUTPUT_BIT(changes); /* the pass starts from its states */
    if (figure_n_panels(analysis) > PANELS_MAX)
        return hs__refuse(problem, 422, "/figure",
                          "figure would have %zu panels; at most %d are drawn: ask for fewer layers or heads",
                          figure_n_panels(analysis), PANELS_MAX);
    return 0;
}

/* Returns the number of cells that have a token in them. */
static size_t labelled_cells(const hs__analysis_request *analysis, const hs_shape *shape, size_t n_tokens)
{
    return analysis->figure.kind == HS__FIGURE_LENS          ? n_tokens * (shape->n_layers + 2)
           : analysis->figure.kind == HS__FIGURE_PREDICTIONS ? n_tokens * analysis->predictions.top_k
                                                             : 0;
}

/* Returns an upper bound of the size of its numbers; no label has more than n_label bytes. */
static size_t csv_bytes_max(const hs__analysis_request *analysis, const hs_shape *shape, size_t n_tokens,
                            size_t n_keys, size_t n_label)
{
    const size_t n_heads = analysis->n_layers * analysis->n_heads;
    const size_t n_columns = n_tokens > n_keys ? n_tokens : n_keys;
    const size_t cells = is_map(&analysis->figure) ? figure_n_panels(analysis) * n_tokens * n_columns
                         : analysis->figure.kind == HS__FIGURE_DISTANCES ? n_heads * n_heads
                         : analysis->figure.kind == HS__FIGURE_PAIRS     ? PAIRS_MOST
                                                                         : EFFECTS * n_heads;
    const size_t labelled = labelled_cells(analysis, shape, n_tokens);
    return cells * HS__FIGURE_ROW_BYTES(n_label) +
           labelled * HS__FIGURE_ROW_BYTES(analysis->model->entry_bytes) + 128;
}

/* Returns the size of the values that a figure adds to the maps of n heads. */
static size_t values_bytes(const hs__figure_request *figure, size_t n_heads, size_t n_tokens)
{
    if (figure->kind == HS__FIGURE_PAIRS)
        return n_tokens * (n_tokens * sizeof(float) + sizeof(size_t) + 1);
    return has_regions(figure) ? n_heads * (2 * n_tokens * n_tokens * sizeof(float) + n_tokens) : 0;
}

/* Returns the size of the memory for the regions of one head. */
static size_t region_memory_bytes(size_t n_tokens)
{
    return n_tokens * (sizeof(double) + (n_tokens + 1) * sizeof(float) + sizeof(hs_span) + sizeof(uint16_t));
}

size_t hs__figure_bytes_max(const hs__analysis_request *analysis, bool is_csv, const hs_shape *shape,
                            size_t n_tokens, size_t n_keys, size_t n_label)
{
    const size_t values = values_bytes(&analysis->figure, analysis->n_layers * analysis->n_heads, n_tokens);
    const size_t own = values ? values + region_memory_bytes(n_tokens) : 0;
    if (is_csv)
        return own + csv_bytes_max(analysis, shape, n_tokens, n_keys, n_label);
    const size_t n_heads = analysis->n_layers * analysis->n_heads;
    const size_t n = n_tokens + n_keys + n_heads + shape->n_layers + analysis->predictions.top_k + 2;
    const size_t cells = labelled_cells(analysis, shape, n_tokens);
    const size_t n_panels = figure_n_panels(analysis),
                 n_labelled = is_map(&analysis->figure) && n_panels > LABELLED_MAX ? 0 : n_panels;
    const size_t label = 6 * analysis->model->entry_bytes + 256; /* escaped, and the element around it */
    return own + HS__IMAGES_BYTES_MAX + 2048 * n_panels + (2 * n * n_labelled + cells) * label;
}

/* ---- labels ---- */

static const char *number_label(maker *m, size_t i, size_t number)
{
    snprintf(m->numbers[i], sizeof m->numbers[i], "%zu", number);
    return m->labels[i] = m->numbers[i];
}

static hs_status labels_create(maker *m, size_t n, hs_error *err)
{
    m->labels = calloc(n + 1, sizeof *m->labels);
    m->numbers = calloc(n + 1, sizeof *m->numbers);
    return m->labels && m->numbers ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for the figure's labels");
}

/* Gives panels of one palette the widest of their ranges. */
static void ranges_share(maker *m)
{
    for (size_t i = 0; i < m->n_panels; i++)
        for (size_t j = 0; j < m->n_panels; j++)
            if (m->panels[i].palette == m->panels[j].palette) {
                m->panels[i].low = fminf(m->panels[i].low, m->panels[j].low);
                m->panels[i].high = fmaxf(m->panels[i].high, m->panels[j].high);
            }
}

/* ---- maps of heads ---- */

/* Returns what stands before "head" in titles: of a decoder whose heads these are. */
static const char *stack_name(const hs__analysis_request *analysis)
{
    return !analysis->model->encoder ? "" : analysis->stack == HS_STACK_CROSS ? "cross " : "decoder ";
}

/* Returns the map of a head, of tokens or of words. */
static const float *map_at(const maker *m, size_t l, size_t h, bool similarity)
{
    const hs__answer *a = m->answer;
    const size_t words = similarity ? HS__OUTPUT_word_similarities : HS__OUTPUT_word_attentions;
    if (m->figure->merge_words)
        return hs__output_at(words)->maker->part(a->results[words], l * a->analysis->n_heads + h);
    return hs__answer_at(a, similarity ? hs__answer_similarity(a) : HS_TAP_ATTENTION, l, h);
}

static void map_add(maker *m, size_t l, size_t h, bool similarity)
{
    const hs__answer *a = m->answer;
    hs_panel *p = &m->panels[m->n_panels++];
    *p = hs_panel_of_map(map_at(m, l, h, similarity), m->labels, m->n_rows,
                         similarity ? m->labels : m->labels + m->keys, similarity ? m->n_rows : m->n_keys,
                         similarity);
    const size_t layer = a->analysis->layers[l], head = a->analysis->heads[h];
    const char *stack = stack_name(a->analysis);
    const char *name = !similarity ? "attention" : a->analysis->center ? "centred similarity" : "similarity";
    const bool overview = m->figure->kind == HS__FIGURE_OVERVIEW;
    char range[72];
    p->unit = name;
    hs_panel_range_text(p, range);
    if (m->figure->colour_scale != HS__COLOURS_AUTO)
        p->scale = (hs_scale)(m->figure->colour_scale - HS__COLOURS_LINEAR);
    else if (overview)
        p->scale = HS_SCALE_SQUARE_ROOT;
    if (overview && !similarity && m->figure->scale == HS__SCALE_OWN)
        p->high = 1; /* fractions, comparable as they are */
    const bool many_regions = has_regions(m->figure) && figure_n_panels(a->analysis) > LABELLED_MAX;
    if (m->figure->show == HS__SHOW_BOTH &&
        (overview || many_regions || m->figure->scale == HS__SCALE_SHARED))
        snprintf(p->title, sizeof p->title, "%zu.%zu, %s", layer, head, name);
    else if (overview)
        snprintf(p->title, sizeof p->title, "%zu.%zu", layer, head);
    else if (m->figure->scale == HS__SCALE_SHARED)
        snprintf(p->title, sizeof p->title, "layer %zu, %shead %zu", layer, stack, head);
    else if (figure_n_panels(a->analysis) <= LABELLED_MAX)
        snprintf(p->title, sizeof p->title, "layer %zu, %shead %zu: %s, %s", layer, stack, head, name, range);
    else
        snprintf(p->title, sizeof p->title, "%zu.%zu (%s)", layer, head, range);
}

/* Adds the mask of a head's tokens of high attention, and the mean similarity of the regions between them.
 * Both maps of the head are the last panels. */
static void region_panels_add(maker *m, size_t at, const hs_region_memory *memory, float *profile)
{
    const hs__answer *a = m->answer;
    const size_t T = m->n_rows, n_heads = a->analysis->n_heads;
    hs_panel *p = &m->panels[m->n_panels];
    float *mask = m->values + 2 * at * T * T;
    unsigned char *marked = m->marked + at * T;
    hs_column_profile(p[-2].values, T, T, a->masked, profile);
    const size_t n_high = hs_high_tokens(profile, T, a->analysis->attention_threshold, memory->high);
    for (size_t i = 0; i < n_high; i++)
        marked[memory->high[i]] = 1;
    p[-2].marked = p[-1].marked = marked;
    p[0] = hs_panel_of_mask(marked, m->labels, T, mask);
    p[0].palette = HS_PALETTE_GREEN; /* a shared range is of one quantity */
    p[1] = hs_panel_of_regions(p[-1].values, a->masked, marked, m->labels, T, memory, mask + T * T);
    p[1].scale = p[-1].scale;
    p[1].unit = p[-1].unit;
    m->n_panels += 2;
    if (figure_n_panels(a->analysis) <= LABELLED_MAX)
        return;
    const size_t layer = a->analysis->layers[at / n_heads], head = a->analysis->heads[at % n_heads];
    snprintf(p[0].title, sizeof p[0].title, "%zu.%zu, mask", layer, head);
    snprintf(p[1].title, sizeof p[1].title, "%zu.%zu, regions", layer, head);
}

/* Adds both maps of each head and its regions. */
static hs_status regions_make(maker *m, hs_error *err)
{
    const hs__analysis_request *analysis = m->answer->analysis;
    const size_t T = m->n_rows, n = analysis->n_layers * analysis->n_heads;
    double *block = malloc(region_memory_bytes(T));
    m->values = malloc(2 * n * T * T * sizeof *m->values);
    m->marked = calloc(n, T);
    if (!block || !m->values || !m->marked) {
        free(block);
        return hs_fail(err, HS_NO_MEMORY, "no memory for the figure's regions");
    }
    float *means = (void *)(block + T), *profile = means + T * T;
    hs_span *runs = (hs_span *)(profile + T);
    const hs_region_memory memory = {block, means, runs, (uint16_t *)(runs + T)};
    for (size_t at = 0; at < n; at++) {
        map_add(m, at / analysis->n_heads, at % analysis->n_heads, false);
        map_add(m, at / analysis->n_heads, at % analysis->n_heads, true);
        region_panels_add(m, at, &memory, profile);
    }
    free(block);
    return HS_OK;
}

/* Gives all similarities colours of both signs if one of them has a negative value. */
static void similarities_sign(maker *m)
{
    bool is_signed = false;
    for (size_t i = 0; i < m->n_panels; i++)
        is_signed |= m->panels[i].palette == HS_PALETTE_SIGNED;
    for (size_t i = 0; is_signed && i < m->n_panels; i++)
        if (m->panels[i].palette == HS_PALETTE_ORANGE)
            hs__panel_sign(&m->panels[i]);
}

/* Returns the bytes of all tokens of a side, each with its end. */
static size_t texts_bytes(const hs__answer *a, const hs_encoding *side)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < side->n_tokens; i++)
        n_bytes += strlen(hs__answer_token(a, side, i)) + 1;
    return n_bytes;
}

/* Writes a word, whose later pieces lose WordPiece's mark, and returns where it ends. */
static char *word_write(const hs__answer *a, const hs_encoding *side, size_t first, size_t end, char *to)
{
    const bool marked = strcmp(hs_tokenizer_kind(hs_model_tokenizer(a->model->model)), "WordPiece") == 0;
    for (size_t i = first; i < end; i++) {
        const char *token = hs__answer_token(a, side, i);
        token += marked && i > first && strncmp(token, "##", 2) == 0 ? 2 : 0;
        memcpy(to, token, strlen(token));
        to += strlen(token);
    }
    *to = '\0';
    return to + 1;
}

/* Labels a side's tokens, or its words, from number `at` on. Returns how many they are. *words is where the
 * next text of a word begins. */
static size_t side_label(maker *m, const hs_encoding *side, size_t at, char **words)
{
    const hs_tokenizer *tokenizer = hs_model_tokenizer(m->answer->model->model);
    size_t n = 0;
    for (size_t first = 0, end; first < side->n_tokens; first = end, n++) {
        end = *words ? hs__word_end(tokenizer, side, first) : first + 1;
        m->labels[at + n] = *words ? *words : hs__answer_token(m->answer, side, first);
        if (*words)
            *words = word_write(m->answer, side, first, end, *words);
    }
    return n;
}

static hs_status maps_make(maker *m, hs_error *err)
{
    const hs__answer *a = m->answer;
    const hs_encoding *rows = &a->text->rows, *keys = a->text->keys;
    const bool cross = keys != rows;
    if (labels_create(m, rows->n_tokens + keys->n_tokens, err))
        return HS_NO_MEMORY;
    if (m->figure->merge_words && !(m->words = malloc(texts_bytes(a, rows) + texts_bytes(a, keys) + 1)))
        return hs_fail(err, HS_NO_MEMORY, "no memory for the figure's labels");
    char *words = m->words;
    m->n_rows = m->n_keys = side_label(m, rows, 0, &words);
    m->keys = cross ? m->n_rows : 0;
    if (cross)
        m->n_keys = side_label(m, keys, m->keys, &words);
    if (has_regions(m->figure) && regions_make(m, err))
        return HS_NO_MEMORY;
    for (size_t l = 0; l < a->analysis->n_layers && !has_regions(m->figure); l++)
        for (size_t h = 0; h < a->analysis->n_heads; h++) {
            if (m->figure->show != HS__SHOW_SIMILARITY)
                map_add(m, l, h, false);
            if (m->figure->show != HS__SHOW_ATTENTION)
                map_add(m, l, h, true);
        }
    similarities_sign(m);
    return HS_OK;
}

/* ---- structures ---- */

static const hs_array *array_find(const maker *m, const char *name)
{
    for (size_t i = 0; i < m->arrays->n; i++)
        if (strcmp(m->arrays->items[i].name, name) == 0)
            return &m->arrays->items[i];
    return NULL;
}

static hs_panel *panel_add(maker *m, const char *name, const char *title)
{
    const hs_array *array = array_find(m, name);
    if (!array)
        return NULL;
    hs_panel *p = &m->panels[m->n_panels++];
    *p = (hs_panel){.n_rows = array->shape[0],
                    .n_columns = array->n_dimensions > 1 ? array->shape[1] : 1,
                    .values = array->data,
                    .palette = HS_PALETTE_GREEN};
    snprintf(p->title, sizeof p->title, "%s", title);
    return p;
}

static hs_status distances_make(maker *m, hs_error *err)
{
    const hs__analysis_request *analysis = m->answer->analysis;
    const size_t n = analysis->n_layers * analysis->n_heads;
    if (labels_create(m, n, err))
        return HS_NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        snprintf(m->numbers[i], sizeof m->numbers[i], "%zu.%zu",
                 (size_t)analysis->layers[i / analysis->n_heads],
                 (size_t)analysis->heads[i % analysis->n_heads]);
        m->labels[i] = m->numbers[i];
    }
    hs_panel *p = panel_add(m, "head_distances",
                            analysis->head_distance == HS__DISTANCE_JS ? "Jensen-Shannon distance of heads"
                                                                       : "distance of heads, 1 - CKA");
    p->row_labels = p->column_labels = m->labels;
    p->unit = "distance";
    hs__panel_range(p);
    if (p->palette == HS_PALETTE_SIGNED) { /* by rounding alone */
        p->palette = HS_PALETTE_GREEN;
        p->low = p->least = 0;
        p->high = p->most;
    }
    return HS_OK;
}

static bool has_value(const hs_panel *p)
{
    for (size_t i = 0; i < p->n_rows * p->n_columns; i++)
        if (isfinite(p->values[i]))
            return true;
    return false;
}

static hs_status effects_make(maker *m, hs_error *err)
{
    const hs__analysis_request *analysis = m->answer->analysis;
    const size_t L = analysis->n_layers, H = analysis->n_heads;
    if (labels_create(m, L + H, err))
        return HS_NO_MEMORY;
    for (size_t i = 0; i < L + H; i++)
        number_label(m, i, i < L ? analysis->layers[i] : analysis->heads[i - L]);
    panel_add(m, "effects_hidden_change", "change of hidden states");
    panel_add(m, "effects_similarity_change", "change of similarity");
    panel_add(m, "effects_prediction_kl", "KL of predictions");
    panel_add(m, "effects_logprob_change", "change of log probability");
    const bool estimated = hs__is_estimated(analysis, HS__OUTPUT_BIT(effects));
    panel_add(m, "effects_target_change",
              estimated ? "change of the target, estimated" : "change of the target");
    panel_add(m, "effects_class_kl", "KL of classes");
    panel_add(m, "effects_recovered", estimated ? "target recovered, estimated" : "target recovered");
    size_t n_kept = 0; /* panels that have a value */
    for (size_t i = 0; i < m->n_panels; i++)
        if (has_value(&m->panels[i]))
            m->panels[n_kept++] = m->panels[i];
    m->n_panels = n_kept ? n_kept : 1;
    for (size_t i = 0; i < m->n_panels; i++) {
        hs_panel *p = &m->panels[i];
        p->row_labels = m->labels;
        p->column_labels = m->labels + L;
        p->row_title = "layer";
        p->column_title = "head";
        hs__panel_range(p);
        const size_t n = strlen(p->title);
        snprintf(p->title + n, sizeof p->title - n, ", %.3g to %.3g", (double)p->least, (double)p->most);
    }
    return HS_OK;
}

/* Shows the k best tokens of each position, or with the lens the best token of each position and layer. */
static hs_status predictions_make(maker *m, hs_error *err)
{
    const hs__answer *a = m->answer;
    const bool lens = m->figure->kind == HS__FIGURE_LENS;
    const hs_array *ids = array_find(m, lens ? "predictions_layers_top_ids" : "predictions_top_ids");
    const hs_array *best =
        array_find(m, lens ? "predictions_layers_top_probability" : "predictions_top_probability");
    const int32_t *positions = array_find(m, "predictions_position")->data;
    const size_t n = ids->shape[0], across = ids->shape[1], k = lens ? ids->shape[2] : 1;
    if (n == 0)
        return hs_fail(err, HS_INVALID,
                       "there is nothing to draw: the text has no masked token; ask for predictions of all "
                       "positions: {\"positions\": \"all\"}");
    if (labels_create(m, n + across + n * across, err))
        return HS_NO_MEMORY;
    const char **columns = m->labels + n, **cells = columns + across;
    float *values = best->data;
    for (size_t i = 0; i < n; i++)
        m->labels[i] = hs__answer_token(a, &a->text->rows, (size_t)positions[i]);
    for (size_t j = 0; j < across; j++)
        columns[j] = !lens ? number_label(m, n + j, j + 1) : j == 0 ? "emb." : number_label(m, n + j, j - 1);
    for (size_t i = 0; i < n * across; i++) {
        cells[i] =
            hs_tokenizer_token(hs_model_tokenizer(a->model->model), ((const int32_t *)ids->data)[i * k]);
        values[i] = values[i * k];
    }
    m->panels[m->n_panels++] = (hs_panel){.n_rows = n,
                                          .n_columns = across,
                                          .values = values,
                                          .row_labels = m->labels,
                                          .column_labels = columns,
                                          .cell_labels = cells,
                                          .column_title = lens ? "after layer" : "rank",
                                          .unit = "probability",
                                          .palette = HS_PALETTE_GREEN,
                                          .high = 1};
    snprintf(m->panels[0].title, sizeof m->panels[0].title, "%s",
             lens ? "best prediction of each layer" : "predictions");
    return HS_OK;
}

/* Marks the tokens of the strongest pairs of a head. The panel has N of these pairs. */
static hs_status pairs_make(maker *m, hs_error *err)
{
    const hs__answer *a = m->answer;
    const size_t T = a->text->rows.n_tokens;
    const hs_array *normalized = array_find(m, "pairs_normalized");
    const int32_t *is = array_find(m, "pairs_i")->data, *js = array_find(m, "pairs_j")->data;
    const float *values = normalized->data;
    const size_t n = normalized->shape[0];
    char *words = NULL, range[48] = "";
    if (labels_create(m, T, err))
        return HS_NO_MEMORY;
    side_label(m, &a->text->rows, 0, &words);
    m->values = malloc(T * T * sizeof *m->values);
    m->marked = calloc(T, 1);
    m->marks = calloc(T, sizeof *m->marks);
    if (!m->values || !m->marked || !m->marks)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the figure's pairs");
    for (size_t i = 0; i < T * T; i++)
        m->values[i] = NAN;
    for (size_t k = 0; k < n; k++) {
        m->values[(size_t)is[k] * T + (size_t)js[k]] = values[k];
        m->marked[is[k]] = m->marked[js[k]] = 1;
    }
    hs_token_marks_number(m->labels, m->marked, T, m->marks);
    hs_panel *p = &m->panels[m->n_panels++];
    *p = (hs_panel){.n_rows = T,
                    .n_columns = T,
                    .values = m->values,
                    .row_labels = m->labels,
                    .column_labels = m->labels};
    if (n)
        snprintf(range, sizeof range, ", N %.3g to %.3g", (double)values[n - 1], (double)values[0]);
    snprintf(p->title, sizeof p->title, "layer %d, %shead %d: strongest pairs: %zu%s", a->analysis->layers[0],
             stack_name(a->analysis), a->analysis->heads[0], n, range);
    return HS_OK;
}

static hs_status structure_make(maker *m, hs_error *err)
{
    const hs__answer *a = m->answer;
    m->arrays = calloc(1, sizeof *m->arrays);
    if (!m->arrays)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the figure");
    for (size_t i = 0; hs__output_at(i); i++)
        if (figure_outputs(m->figure) >> i & 1)
            hs__table_add_arrays(m->arrays, a, hs__output_at(i)->structure->table, a->results[i]);
    if (m->arrays->failed)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the figure");
    if (m->figure->kind == HS__FIGURE_PAIRS)
        return pairs_make(m, err);
    if (m->figure->kind == HS__FIGURE_DISTANCES)
        return distances_make(m, err);
    return m->figure->kind == HS__FIGURE_EFFECTS ? effects_make(m, err) : predictions_make(m, err);
}

/* ---- the figure ---- */

static size_t choose_across(const maker *m)
{
    const size_t shown = n_shown(m->figure), n = m->n_panels;
    if (m->figure->kind == HS__FIGURE_OVERVIEW)
        return m->answer->analysis->n_heads * shown;
    if (!is_map(m->figure))
        return n > 1 ? 2 : 1;
    if (n == LABELLED_MAX && has_regions(m->figure))
        return 2;
    size_t across = shown;
    while (across * across < n)
        across += shown;
    return across;
}

/* Returns true if the figure shows similarities of centred outputs. */
static bool is_centered(const maker *m)
{
    const unsigned kind = m->figure->kind;
    const bool shows = is_map(m->figure) ? m->figure->show != HS__SHOW_ATTENTION
                                         : kind == HS__FIGURE_EFFECTS || kind == HS__FIGURE_PAIRS;
    return shows && m->answer->analysis->center;
}

static hs_status write(maker *m, hs__answer_format format, hs_buffer *b, hs_error *err)
{
    const hs__answer *a = m->answer;
    const bool overview = m->figure->kind == HS__FIGURE_OVERVIEW;
    const char *stack = a->text->memory.n_tokens ? hs__answer_stack(a) : NULL;
    char of_text[48] = "";
    if (a->analysis->stack == HS_STACK_CROSS)
        snprintf(of_text, sizeof of_text, ", %zu of the text", a->text->keys->n_tokens);
    snprintf(m->title, sizeof m->title, "headscope: %s%s%s%s, model %.100s, %zu tokens%s%s",
             kinds[m->figure->kind].title, is_centered(m) ? ", centred outputs" : "", stack ? ", stack " : "",
             stack ? stack : "", a->model->name, a->text->rows.n_tokens, stack ? " of the target" : "",
             of_text);
    const hs_figure figure = {.title = m->title,
                              .caption = m->panels[0].title,
                              .footer = m->figure->footer ? m->title : NULL,
                              .panels = m->panels,
                              .n_panels = m->n_panels,
                              .n_across = choose_across(m),
                              .row_numbers = overview ? a->analysis->layers : NULL,
                              .column_numbers = a->analysis->heads,
                              .n_columns = a->analysis->n_heads,
                              .row_title = "layer",
                              .column_title = "head",
                              .tight = overview || (is_map(m->figure) && m->n_panels > LABELLED_MAX),
                              .width_mm = (double)m->figure->width_mm,
                              .font_pt = (double)m->figure->font_pt,
                              .labels = (hs__labels)m->figure->labels,
                              .csv_safe = m->figure->csv_safe,
                              .sparse = m->marks};
    const hs_token_text text = {.title = m->panels[0].title,
                                .tokens = m->labels,
                                .marks = m->marks,
                                .n = a->text->rows.n_tokens,
                                .footer = figure.footer,
                                .width_mm = figure.width_mm,
                                .font_pt = figure.font_pt};
    if (format == HS__CSV)
        return hs__figure_csv(&figure, b, err);
    hs_picture drawing = {0};
    hs_status st =
        m->marks ? hs_token_text_draw(&text, &drawing, err) : hs_figure_draw(&figure, &drawing, err);
    const atomic_int *cancelled = a->request->cancelled;
    if (!st)
        st = format == HS__SVG   ? hs_picture_svg(&drawing, b, err)
             : format == HS__PNG ? hs_picture_png(&drawing, (double)m->figure->dpi, cancelled, b, err)
                                 : hs_picture_pdf(&drawing, cancelled, b, err);
    hs_picture_finish(&drawing);
    return st;
}

hs_status hs__answer_write_figure(hs_buffer *b, const hs__answer *a, hs__answer_format format, hs_error *err)
{
    maker m = {.answer = a, .figure = &a->analysis->figure};
    m.panels = calloc(figure_n_panels(a->analysis), sizeof *m.panels);
    if (!m.panels)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the figure");
    hs_status st = is_map(m.figure) ? maps_make(&m, err) : structure_make(&m, err);
    if (!st && m.figure->scale == HS__SCALE_SHARED && is_map(m.figure))
        ranges_share(&m);
    if (!st)
        st = write(&m, format, b, err);
    if (m.arrays)
        hs_arrays_finish(m.arrays);
    free(m.arrays);
    free(m.panels);
    free(m.labels);
    free(m.numbers);
    free(m.words);
    free(m.values);
    free(m.marked);
    free(m.marks);
    return st;
}
