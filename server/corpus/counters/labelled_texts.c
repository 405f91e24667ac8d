/* labelled_texts.c - labelled texts: how often a classifier is right, and how its heads attend in the texts
 * of each label.
 *
 * The counting is engine/statistics/labels.h. A worker reads the classes from the last states of a pass. The
 * names of the labels are in the names of the results. */
#include "model/base/read_number.h"
#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/html.h"

#include <stdlib.h>
#include <string.h>

enum { HEADS_LISTED = 10 }; /* heads of a label, those with the largest effects */

static const hs_task_head *head_of(const hs__corpus_job *job)
{
    return &hs_engine_architecture(job->engine)->task_head;
}

/* ---- settings ---- */

/* Returns true if the model gives each text one of the labels that can be counted. */
static bool gives_labels(const hs_model *model)
{
    const hs_task_head *head = &hs_model_architecture(model)->task_head;
    return head->task == HS_TASK_SEQUENCE && head->problem == HS_SINGLE_LABEL && head->n_classes >= 2 &&
           head->n_classes <= HS_LABELS_COUNTED_MAX;
}

/* The field is one of the input: it is also a column of a table. */
static hs_status read_field(const char *text, const hs_model *model, hs__corpus_settings *settings,
                            void *options, hs_error *err)
{
    (void)options;
    if (!gives_labels(model))
        return hs_fail(err, HS_INVALID,
                       "left out: it needs a model that gives each text one of 2 to %d labels",
                       HS_LABELS_COUNTED_MAX);
    return hs__name_read(text, settings->input.label_field, sizeof settings->input.label_field, err);
}

static const hs__setting_row settings[] = {
    {.field = {"label_field", HS_FIELD_TEXT, "NAME",
               "member or column with each text's label, for a model that classifies texts"},
     .part = HS__SETTINGS_OF_COUNTERS,
     .read = read_field,
     .default_json = "null"},
};

static void identify(const void *options, const hs__corpus_settings *all, json_t *identity)
{
    (void)options;
    if (*all->input.label_field)
        json_object_set_new(identity, "label_field", json_string(all->input.label_field));
}

static void configure(const void *options, const hs__corpus_settings *all, hs_corpus_options *statistics,
                      unsigned *taps)
{
    (void)options, (void)statistics;
    *taps |= *all->input.label_field ? HS_KEEP(LAST_STATE) : 0;
}

static bool is_active(const json_t *identity)
{
    return json_object_get(identity, "label_field");
}

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    const size_t hidden = hs_engine_shape(job->engine)->hidden;
    (void)options;
    size->worker += hs__corpus_maps(job) * HS_CORPUS_BATCH * sizeof(hs_corpus_observation) +
                    (hidden + head_of(job)->n_classes) * sizeof(float) +
                    HS_CORPUS_BATCH * job->settings.fields.max_tokens * hidden * sizeof(float);
}

/* ---- a run ---- */

/* Gives new results the names of the labels. */
static hs_status begin(hs__counting *counting, bool anew, hs_error *err)
{
    const hs_task_head *head = head_of(counting->job);
    if (!anew)
        return HS_OK;
    json_t *names = json_array();
    int failed = !names;
    for (size_t i = 0; i < head->n_classes; i++)
        failed |= json_array_append_new(names, json_string(head->labels[i]));
    failed |= json_object_set(counting->results->names, HS__LABEL_NAMES, names);
    json_decref(names);
    return failed ? hs_fail(err, HS_NO_MEMORY, "no memory to begin") : HS_OK;
}

/* ---- a worker ---- */

typedef struct worker {
    hs__tally tally;
    hs_corpus_observation *observations; /* [HS_CORPUS_BATCH][l][h], of the current pass */
    float *row;                          /* [H], then the logits */
} worker;

static hs_status worker_begin(void *state, void *const *states, hs_error *err)
{
    worker *w = state;
    const hs__corpus_job *job = w->tally.counting->job;
    (void)states;
    w->observations = calloc(HS_CORPUS_BATCH * hs__corpus_maps(job), sizeof *w->observations);
    w->row = malloc((hs_engine_shape(job->engine)->hidden + head_of(job)->n_classes) * sizeof *w->row);
    return w->observations && w->row ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
}

static void worker_end(void *state)
{
    worker *w = state;
    free(w->observations);
    free(w->row);
}

/* Finds a label by its name or number. Returns false if the head has no such label. */
static bool label_find(const hs_task_head *head, const char *text, size_t *ret_label)
{
    for (size_t i = 0; i < head->n_classes; i++)
        if (strcmp(head->labels[i], text) == 0) {
            *ret_label = i;
            return true;
        }
    int64_t number = 0;
    const bool is = !hs_integer_read(text, NULL, 0, (int64_t)head->n_classes - 1, &number);
    *ret_label = (size_t)number;
    return is;
}

/* Finds the label of a record among those of the model. */
static hs_status record(void *state, hs__text *t, hs_error *err)
{
    const worker *w = state;
    const hs_task_head *head = head_of(w->tally.counting->job);
    char *label = NULL;
    hs_status st =
        hs__record_label_find(&t->record.layout, w->tally.counting->job->settings.input.label_field,
                              t->record.bytes, t->record.n_bytes, &t->body, &label);
    (void)err;
    if (!st && !label_find(head, label, &t->label)) {
        snprintf(t->body.why, sizeof t->body.why, "the label \"%.60s\" is none of the model's %zu labels",
                 label, head->n_classes);
        st = HS_BAD_REQUEST;
    }
    free(label);
    return st;
}

static void head(void *state, hs__text *t, hs__text_head *head)
{
    worker *w = state;
    w->observations[t->place * hs__corpus_maps(w->tally.counting->job) + head->map] = *head->observation;
}

static hs_status prediction_count(worker *w, const hs_capture *capture, const hs__text *t, hs_error *err)
{
    const hs_engine *engine = w->tally.counting->job->engine;
    const hs_task_head *head = head_of(w->tally.counting->job);
    const float *states = hs_capture_at(capture, HS_TAP_LAST_STATE, 0, 0);
    const size_t n_heads = hs_engine_shape(w->tally.counting->job->engine)->n_heads,
                 n_maps = hs__corpus_maps(w->tally.counting->job);
    hs_labelled_text text = {.label = t->label, .logits = w->row + capture->hidden};
    hs_status st = hs_engine_pool(engine, head, states, capture, 1, w->row, err);
    if (!st)
        st = hs_engine_classify(engine, head, w->row, 1, 1, w->row + capture->hidden, err);
    if (st)
        return st;
    hs_labels_text_add(w->tally.sums, &text);
    for (size_t i = 0; i < n_maps; i++)
        hs_labels_head_add(w->tally.sums, &text, i / n_heads, i % n_heads,
                           &w->observations[t->place * n_maps + i]);
    return HS_OK;
}

static hs_status pass(void *state, hs__text_pass *p, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t k = 0; k < p->n && !st; k++)
        st = prediction_count(state, p->sequences[k].capture, &p->texts[k], err);
    return st;
}

/* ---- checkpoint ---- */

static bool names_are_sound(const json_t *names)
{
    bool sound = json_array_size(names) > 0;
    for (size_t i = 0; sound && i < json_array_size(names); i++)
        sound = json_is_string(json_array_get(names, i));
    return sound;
}

static bool is_sound(const hs__corpus_results *results, const hs_sums *counts)
{
    return counts->lengths[HS_LABELS] >= 2 &&
           names_are_sound(json_object_get(results->names, HS__LABEL_NAMES));
}

static hs_status merge(hs__corpus_results *results, void **counts, const hs__corpus_results *from,
                       void **from_counts, const char *from_dir, hs_error *err)
{
    const json_t *mine = json_object_get(results->names, HS__LABEL_NAMES);
    const json_t *other = json_object_get(from->names, HS__LABEL_NAMES);
    (void)counts, (void)from_counts;
    return (mine || other) && !json_equal(mine, other)
               ? hs_fail(err, HS_INVALID, "the run in '%.250s' has other labels", from_dir)
               : HS_OK;
}

/* ---- arrays ---- */

static const hs_array_row arrays[] = {
    {"label_names", {HS_AXIS_LABEL}, "name", "names of the labels", .place = HS_MADE},
};

static void write(const hs__corpus_results *results, void *counts, hs_npz *npz)
{
    const json_t *names = json_object_get(results->names, HS__LABEL_NAMES);
    hs_bytes texts[HS_LABELS_COUNTED_MAX];
    const size_t n =
        json_array_size(names) < HS_LABELS_COUNTED_MAX ? json_array_size(names) : HS_LABELS_COUNTED_MAX;
    if (!counts)
        return;
    for (size_t i = 0; i < n; i++) {
        const json_t *name = json_array_get(names, i);
        texts[i] = (hs_bytes){json_string_value(name), json_string_length(name)};
    }
    hs_npz_texts(npz, arrays[0].name, texts, n, false);
}

/* ---- report.json ---- */

typedef struct ranked_head {
    size_t l, h;
    hs_labels_effect effect;
} ranked_head;

static int ranked_compare(const void *a, const void *b)
{
    const ranked_head *x = a, *y = b;
    return (x->effect.change > y->effect.change) - (x->effect.change < y->effect.change);
}

static json_t *head_json(const ranked_head *head, const hs_corpus_options *o)
{
    return json_pack("{si sI so so so}", "layer", o->layers[head->l], "head", (json_int_t)head->h, "change",
                     hs__report_number(head->effect.change), "spread", hs__report_number(head->effect.spread),
                     "kl", hs__report_number(head->effect.divergence));
}

/* Returns the heads whose removal lowers the label's logit most, the lowest first. */
static json_t *heads_json(const hs_sums *labels, size_t label, const hs_corpus_options *o)
{
    const size_t n = o->n_layers * o->n_heads;
    ranked_head *heads = hs_json_memory(n, sizeof *heads);
    json_t *list = json_array();
    if (heads && hs_labels_class_read(labels, label).effect_texts > 0) {
        for (size_t i = 0; i < n; i++)
            heads[i] = (ranked_head){i / o->n_heads, i % o->n_heads,
                                     hs_labels_effect_read(labels, label, i / o->n_heads, i % o->n_heads)};
        qsort(heads, n, sizeof *heads, ranked_compare);
        for (size_t i = 0; i < n && i < HEADS_LISTED && heads[i].effect.change < 0; i++)
            json_array_append_new(list, head_json(&heads[i], o));
    }
    free(heads);
    return list;
}

static json_t *class_json(const hs_sums *labels, size_t label, const json_t *names,
                          const hs_corpus_options *o)
{
    const hs_labels_class c = hs_labels_class_read(labels, label);
    return json_pack("{sO sI sI sI so so so so sI so}", "label", json_array_get(names, label), "texts",
                     (json_int_t)c.texts, "predicted", (json_int_t)c.predicted, "right", (json_int_t)c.right,
                     "precision", hs__report_number(c.precision), "recall", hs__report_number(c.recall), "f1",
                     hs__report_number(c.f1), "loss", hs__report_number(c.loss), "effect_texts",
                     (json_int_t)c.effect_texts, "heads", heads_json(labels, label, o));
}

static json_t *bin_json(const hs_sums *labels, size_t bin)
{
    const hs_labels_bin b = hs_labels_bin_read(labels, bin);
    return json_pack("{sf sf sI so so}", "from", (double)bin / HS_LABELS_BINS, "to",
                     (double)(bin + 1) / HS_LABELS_BINS, "texts", (json_int_t)b.texts, "confidence",
                     hs__report_number(b.confidence), "accuracy", hs__report_number(b.accuracy));
}

static json_t *layer_json(const hs_sums *labels, hs_labels_group group, size_t l)
{
    const hs_labels_layer f = hs_labels_layer_read(labels, group, l);
    return json_pack("{so so so so so}", "repeated_share", hs__report_number(f.repeated_share),
                     "same_sentence_share", hs__report_number(f.same_sentence_share), "mean_distance",
                     hs__report_number(f.mean_distance), "focal_share", hs__report_number(f.focal_share),
                     "separator_attention", hs__report_number(f.separator_attention));
}

/* Adds the figures of some texts; label and right are null for all labels and both outcomes. */
static void group_add(json_t *groups, const hs_sums *labels, hs_labels_group group, const json_t *names,
                      const hs_corpus_options *o)
{
    json_t *layers = json_array(), *name = json_array_get(names, group.label);
    for (size_t l = 0; l < o->n_layers; l++)
        json_array_append_new(layers, layer_json(labels, group, l));
    json_array_append_new(groups,
                          json_pack("{so so sI so}", "label", name ? json_incref(name) : json_null(), "right",
                                    group.right == 2 ? json_null() : json_boolean(group.right), "texts",
                                    (json_int_t)hs_labels_group_texts(labels, group), "layers", layers));
}

static json_t *groups_json(const hs_sums *labels, const json_t *names, const hs_corpus_options *o)
{
    const size_t n_labels = json_array_size(names);
    json_t *groups = json_array();
    group_add(groups, labels, (hs_labels_group){n_labels, 1}, names, o);
    group_add(groups, labels, (hs_labels_group){n_labels, 0}, names, o);
    for (size_t label = 0; label < n_labels; label++)
        for (size_t k = 0; k < 3; k++)
            group_add(groups, labels, (hs_labels_group){label, 2 - k}, names, o);
    return groups;
}

static json_t *labels_json(const hs_sums *labels, const json_t *names, const hs_corpus_options *o)
{
    const hs_labels_summary s = hs_labels_summary_read(labels);
    json_t *classes = json_array(), *bins = json_array();
    for (size_t label = 0; label < json_array_size(names); label++)
        json_array_append_new(classes, class_json(labels, label, names, o));
    for (size_t bin = 0; bin < HS_LABELS_BINS; bin++)
        json_array_append_new(bins, bin_json(labels, bin));
    return json_pack("{sO sI sI so so so so so so so}", "names", names, "texts", (json_int_t)s.texts, "right",
                     (json_int_t)s.right, "accuracy", hs__report_number(s.accuracy), "macro_f1",
                     hs__report_number(s.macro_f1), "loss", hs__report_number(s.loss), "calibration_error",
                     hs__report_number(s.calibration_error), "classes", classes, "calibration", bins,
                     "groups", groups_json(labels, names, o));
}

static void report(const hs__corpus_results *results, void *counts, json_t *to)
{
    const hs_corpus_options o = hs_corpus_stats_options(results->stats);
    if (counts)
        json_object_set_new(to, "labels",
                            labels_json(counts, json_object_get(results->names, HS__LABEL_NAMES), &o));
}

/* ---- report.html ---- */

enum { ROWS_MAX = 30 }; /* labels shown; report.json and report.npz have all */

static json_int_t count_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static void name_write(const json_t *name, FILE *out)
{
    fputs("<tr><th scope=\"row\">", out);
    hs__html_text(out, json_is_string(name) ? json_string_value(name) : "all");
    fputs("</th>", out);
}

static void table_begin(const char *title, const char *note, const hs__column *columns, size_t n, FILE *out)
{
    fprintf(out, "<h3>%s</h3><p class=\"muted\">%s</p>", title, note);
    hs__table_begin(out, columns, n);
}

static size_t n_shown(const json_t *list)
{
    return json_array_size(list) < ROWS_MAX ? json_array_size(list) : ROWS_MAX;
}

static void classes_write(const json_t *classes, FILE *out)
{
    static const hs__column columns[] = {
        {"Label", NULL, NULL},
        {"Texts", "texts", NULL},
        {"Predicted", "predicted", NULL},
        {"Precision", "precision", "%.1f %%"},
        {"Recall", "recall", "%.1f %%"},
        {"F1", "f1", "%.3f"},
        {"Loss", "loss", "%.3f"},
    };
    table_begin("Labels", "Loss: &minus;ln p of the text&rsquo;s own label, mean.", columns, HS__N(columns),
                out);
    for (size_t i = 0; i < n_shown(classes); i++) {
        const json_t *class = json_array_get(classes, i);
        name_write(json_object_get(class, "label"), out);
        hs__cells_write(out, columns + 1, HS__N(columns) - 1, class, (hs__indices){0});
        fputs("</tr>\n", out);
    }
    hs__table_end(out);
}

static void confusion_write(const json_t *names, const json_t *confusion, FILE *out)
{
    fputs(
        "<h3>Confusion matrix</h3><p class=\"muted\">Rows: the texts&rsquo; labels. Columns: what the model "
        "predicts.</p><div class=\"wide\"><table class=\"numbers\"><thead><tr><th scope=\"col\">Label</th>",
        out);
    for (size_t i = 0; i < n_shown(names); i++) {
        fputs("<th scope=\"col\">", out);
        hs__html_text(out, json_string_value(json_array_get(names, i)));
        fputs("</th>", out);
    }
    fputs("</tr></thead><tbody>\n", out);
    for (size_t i = 0; i < n_shown(names); i++) {
        name_write(json_array_get(names, i), out);
        for (size_t k = 0; k < n_shown(names); k++) {
            fputs("<td>", out);
            hs__count_write(out,
                            (uint64_t)json_integer_value(json_array_get(json_array_get(confusion, i), k)));
            fputs("</td>", out);
        }
        fputs("</tr>\n", out);
    }
    hs__table_end(out);
}

static void calibration_write(const json_t *bins, FILE *out)
{
    static const hs__column columns[] = {
        {"Probability", NULL, NULL},
        {"Texts", "texts", NULL},
        {"Mean", "confidence", "%.1f %%"},
        {"Accuracy", "accuracy", "%.1f %%"},
    };
    table_begin("Calibration",
                "Texts by the probability of the predicted label. A calibrated model is right as often "
                "as its mean probability says.",
                columns, HS__N(columns), out);
    for (size_t i = 0; i < json_array_size(bins); i++) {
        const json_t *bin = json_array_get(bins, i);
        if (!count_of(bin, "texts"))
            continue;
        fprintf(out, "<tr><th scope=\"row\">%.1f to %.1f</th>",
                json_number_value(json_object_get(bin, "from")),
                json_number_value(json_object_get(bin, "to")));
        hs__cells_write(out, columns + 1, HS__N(columns) - 1, bin, (hs__indices){0});
        fputs("</tr>\n", out);
    }
    hs__table_end(out);
}

/* Writes a head and the change of a label's logit in odd texts with its interval, strong if that is below 0.
 */
static void effect_write(const json_t *head, FILE *out)
{
    const json_t *low = json_object_get(head, "low"), *high = json_object_get(head, "high");
    const bool known = json_is_number(high), strong = known && json_number_value(high) < 0;
    hs__head_write(out, count_of(head, "layer"), count_of(head, "head"));
    fprintf(out, " %s%+.3f%s", strong ? "<strong>" : "", json_number_value(json_object_get(head, "change")),
            strong ? "</strong>" : "");
    if (known)
        fprintf(out, " <span class=\"muted\">(%+.3f to %+.3f)</span>", json_number_value(low),
                json_number_value(high));
}

static void heads_write(const json_t *classes, FILE *out)
{
    static const hs__column columns[] = {
        {"Label", NULL, NULL},
        {"Odd texts", "held_out.effect_texts", NULL},
        {"Heads whose removal lowers its logit most in even texts", NULL, NULL},
    };
    table_begin(
        "Heads that matter for a label",
        "Layer&middot;head, then the change of the label&rsquo;s logit with this head alone switched "
        "off: mean over the odd ones of the label&rsquo;s chosen texts, with a 95 % interval. The "
        "heads are those with the largest effect in the even texts, so the numbers are not flattered "
        "by the choice among many heads. Strong: the interval is below 0. Other heads may matter only "
        "by accident. Fewer than 8 odd texts have no interval, nor have those of a run with fewer than 8 "
        "different texts.",
        columns, HS__N(columns), out);
    for (size_t i = 0; i < n_shown(classes); i++) {
        const json_t *class = json_array_get(classes, i);
        const json_t *heads = json_object_get(json_object_get(class, "held_out"), "heads");
        name_write(json_object_get(class, "label"), out);
        hs__cells_write(out, columns + 1, 1, class, (hs__indices){0});
        fputs("<td>", out);
        const bool measured = count_of(json_object_get(class, "held_out"), "effect_texts") > 0;
        for (size_t k = 0; measured && k < json_array_size(heads) && k < 5; k++) {
            fputs(k ? ", " : "", out);
            effect_write(json_array_get(heads, k), out);
        }
        fputs("</td></tr>\n", out);
    }
    hs__table_end(out);
}

static void groups_write(const json_t *groups, long long layer, FILE *out)
{
    static const hs__column columns[] = {
        {"Label", NULL, NULL},
        {"Outcome", NULL, NULL},
        {"Texts", "texts", NULL},
        {"Same token", "layers.L.repeated_share", "%.1f %%"},
        {"Same sentence", "layers.L.same_sentence_share", "%.1f %%"},
        {"Mean distance", "layers.L.mean_distance", "%.1f"},
        {"Focal token", "layers.L.focal_share", "%.1f %%"},
        {"On separators", "layers.L.separator_attention", "%.1f %%"},
    };
    char title[80];
    snprintf(title, sizeof title, "Heads of layer %lld by label and outcome", layer);
    table_begin(
        title,
        "The paper&rsquo;s figures of high pairs, pooled over the layer&rsquo;s heads. report.json has "
        "all layers.",
        columns, HS__N(columns), out);
    for (size_t i = 0; i < json_array_size(groups) && i < 3 * ROWS_MAX + 2; i++) {
        const json_t *group = json_array_get(groups, i), *right = json_object_get(group, "right");
        const size_t n_layers = json_array_size(json_object_get(group, "layers"));
        name_write(json_object_get(group, "label"), out);
        fprintf(out, "<td>%s</td>", json_is_null(right) ? "all" : json_is_true(right) ? "right" : "wrong");
        hs__cells_write(out, columns + 2, HS__N(columns) - 2, group, (hs__indices){.l = n_layers - 1});
        fputs("</tr>\n", out);
    }
    hs__table_end(out);
}

static void summary_write(const json_t *labels, FILE *out)
{
    const json_int_t n_names = (json_int_t)json_array_size(json_object_get(labels, "names"));
    fprintf(
        out,
        "<section id=\"labels\" aria-label=\"Labels\"><h2>Labelled texts</h2><p>Accuracy %.1f %%: %lld of "
        "%lld texts. Macro F1 %.3f. Mean loss %.3f nats. Calibration error %.1f %%.</p>",
        100 * json_number_value(json_object_get(labels, "accuracy")), (long long)count_of(labels, "right"),
        (long long)count_of(labels, "texts"), json_number_value(json_object_get(labels, "macro_f1")),
        json_number_value(json_object_get(labels, "loss")),
        100 * json_number_value(json_object_get(labels, "calibration_error")));
    if (n_names > ROWS_MAX)
        fprintf(out, "<p class=\"muted\">The tables show the first %d of %lld labels.</p>", ROWS_MAX,
                (long long)n_names);
}

/* Returns true if heads were switched off. */
static bool has_effects(const json_t *classes)
{
    json_int_t n = 0;
    for (size_t i = 0; i < json_array_size(classes); i++)
        n += count_of(json_array_get(classes, i), "effect_texts");
    return n > 0;
}

static void page(const hs__drawing *d, hs__indices at, FILE *out)
{
    const json_t *report = d->report;
    const json_t *labels = json_object_get(report, "labels"), *layers = json_object_get(report, "layers");
    const json_t *classes = json_object_get(labels, "classes");
    (void)at;
    if (!labels)
        return;
    summary_write(labels, out);
    classes_write(classes, out);
    confusion_write(json_object_get(labels, "names"), json_object_get(report, "label_confusion"), out);
    calibration_write(json_object_get(labels, "calibration"), out);
    if (has_effects(classes))
        heads_write(classes, out);
    groups_write(json_object_get(labels, "groups"),
                 (long long)json_integer_value(json_array_get(layers, json_array_size(layers) - 1)), out);
    fputs("</section>\n", out);
}

const hs__counter hs__counter_labelled_texts = {
    .name = "labels",
    .settings = settings,
    .n_settings = HS__N(settings),
    .identify = identify,
    .is_active = is_active,
    .configure = configure,
    .sums = &hs_labels_kind,
    .is_sound = is_sound,
    .merge = merge,
    .measure = measure,
    .begin = begin,
    .worker_bytes = sizeof(worker),
    .worker_begin = worker_begin,
    .worker_end = worker_end,
    .record = record,
    .head = head,
    .pass = pass,
    .arrays = arrays,
    .n_arrays = HS__N(arrays),
    .write = write,
    .report = report,
    .section = "labels",
    .title = "Labelled texts",
    .page = page,
};
