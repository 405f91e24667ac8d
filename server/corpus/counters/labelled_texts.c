/* labelled_texts.c - labelled texts: how often a classifier is right, and how its heads attend in the texts
 * of each label.
 *
 * The counting is engine/statistics/labels.h. A worker reads the classes from the last states of a pass. The
 * names of the labels are in the names of the results. */
#include "model/base/read_number.h"
#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/counters/words.h"
#include "server/corpus/report/html.h"

#include <stdlib.h>
#include <string.h>

enum { HEADS_LISTED = 10 }; /* heads of a label, those with the largest effects */

/* The names' member with the names of labels, in the order of their numbers. */
#define NAMES "labels"

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

/* Returns the shape of a job's statistics of labels; n_labels is 0 if texts have none. */
static hs_labels_shape shape_of(const hs__corpus_job *job)
{
    const bool labelled = *job->settings.input.label_field;
    return (hs_labels_shape){.n_labels = labelled ? head_of(job)->n_classes : 0,
                             .n_layers = job->settings.fields.n_layers,
                             .n_heads = hs_engine_shape(job->engine)->n_heads};
}

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    const hs_labels_shape shape = shape_of(job);
    const size_t hidden = hs_engine_shape(job->engine)->hidden;
    const size_t n = shape.n_labels ? hs_labels_words(&shape) : 0;
    (void)options;
    if (n == 0)
        return;
    size->shared += n * sizeof(int64_t);
    size->worker += n * sizeof(int64_t) +
                    hs__corpus_maps(job) * HS_CORPUS_BATCH * sizeof(hs_corpus_observation) +
                    (hidden + shape.n_labels) * sizeof(float) +
                    HS_CORPUS_BATCH * job->settings.fields.max_tokens * hidden * sizeof(float);
    size->saved += n;
    size->listed += n;
    size->elements += n;
}

/* ---- a run ---- */

/* Gives new results the names of the labels. */
static hs_status begin(hs__counting *counting, bool anew, hs_error *err)
{
    const hs_task_head *head = head_of(counting->job);
    const size_t n = anew ? shape_of(counting->job).n_labels : 0;
    json_t *names = json_array();
    int failed = !names;
    for (size_t i = 0; i < n; i++)
        failed |= json_array_append_new(names, json_string(head->labels[i]));
    if (n)
        failed |= json_object_set(counting->results->names, NAMES, names);
    json_decref(names);
    return failed ? hs_fail(err, HS_NO_MEMORY, "no memory to begin") : HS_OK;
}

static bool matches(const hs__counting *counting)
{
    const hs_labels_shape due = shape_of(counting->job);
    const hs_labels *saved = *counting->counts;
    if (!saved || due.n_labels == 0)
        return !saved && due.n_labels == 0;
    const hs_labels_shape shape = hs_labels_shape_of(saved);
    return shape.n_labels == due.n_labels && shape.n_layers == due.n_layers && shape.n_heads == due.n_heads;
}

/* ---- a worker ---- */

typedef struct worker {
    const hs__corpus_job *job;
    hs_labels *labels;
    hs_corpus_observation *observations; /* [HS_CORPUS_BATCH][l][h], of the current pass */
    float *row;                          /* [H], then the logits */
} worker;

hs_labels *hs__labels_of_worker(void *state)
{
    worker *w = state;
    return w->labels;
}

static hs_status worker_create(hs__counting *counting, void *const *states, void **ret, hs_error *err)
{
    const hs_labels_shape shape = shape_of(counting->job);
    (void)states;
    if (shape.n_labels == 0)
        return HS_OK;
    worker *w = *ret = calloc(1, sizeof *w);
    if (!w)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
    w->job = counting->job;
    w->observations = calloc(HS_CORPUS_BATCH * hs__corpus_maps(w->job), sizeof *w->observations);
    w->row = malloc((hs_engine_shape(w->job->engine)->hidden + shape.n_labels) * sizeof *w->row);
    if (!w->observations || !w->row)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
    return hs_labels_create(&shape, &w->labels, err);
}

static void worker_destroy(void *state)
{
    worker *w = state;
    hs_labels_destroy(w->labels);
    free(w->observations);
    free(w->row);
    free(w);
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
    const hs_task_head *head = head_of(w->job);
    char *label = NULL;
    hs_status st = hs__record_label_find(&t->record.layout, w->job->settings.input.label_field,
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
    w->observations[t->place * hs__corpus_maps(w->job) + head->map] = *head->observation;
}

static hs_status prediction_count(worker *w, const hs_capture *capture, const hs__text *t, hs_error *err)
{
    const hs_engine *engine = w->job->engine;
    const hs_task_head *head = head_of(w->job);
    const float *states = hs_capture_at(capture, HS_TAP_LAST_STATE, 0, 0);
    const size_t n_heads = hs_engine_shape(w->job->engine)->n_heads, n_maps = hs__corpus_maps(w->job);
    hs_labelled_text text = {.label = t->label, .logits = w->row + capture->hidden};
    hs_status st = hs_engine_pool(engine, head, states, capture, 1, w->row, err);
    if (!st)
        st = hs_engine_classify(engine, head, w->row, 1, 1, w->row + capture->hidden, err);
    if (st)
        return st;
    hs_labels_text_add(w->labels, &text);
    for (size_t i = 0; i < n_maps; i++)
        hs_labels_head_add(w->labels, &text, i / n_heads, i % n_heads,
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

static hs_status gather(hs__counting *counting, void *state, hs_error *err)
{
    worker *w = state;
    const hs_labels_shape shape = hs_labels_shape_of(w->labels);
    hs_labels *labels = *counting->counts;
    const hs_status st = labels ? HS_OK : hs_labels_create(&shape, &labels, err);
    if (st)
        return st;
    *counting->counts = labels;
    hs_labels_gather(labels, w->labels);
    return HS_OK;
}

/* ---- checkpoint ---- */

static hs_status save(const hs__corpus_results *results, void *counts, json_t *checkpoint, hs_error *err)
{
    (void)results;
    if (!counts)
        return HS_OK;
    const hs_labels_shape shape = hs_labels_shape_of(counts);
    json_t *list = hs__numbers_save(hs_labels_state(counts), hs_labels_words(&shape));
    return json_object_set_new(checkpoint, "labels", list)
               ? hs_fail(err, HS_NO_MEMORY, "no memory to save the run")
               : HS_OK;
}

static bool names_are_sound(const json_t *names)
{
    bool sound = json_array_size(names) > 0;
    for (size_t i = 0; sound && i < json_array_size(names); i++)
        sound = json_is_string(json_array_get(names, i));
    return sound;
}

static hs_status load(const hs__corpus_results *results, const json_t *checkpoint, void **counts,
                      hs_error *err)
{
    const json_t *saved = json_object_get(checkpoint, "labels"),
                 *names = json_object_get(results->names, NAMES);
    const hs_corpus_options o = hs_corpus_stats_options(results->stats);
    const hs_labels_shape shape = {json_array_size(names), o.n_layers, o.n_heads};
    hs_labels *labels = NULL;
    if (!saved)
        return HS_OK;
    if (!names_are_sound(names))
        return hs_fail(err, HS_INVALID, "the names of labels are damaged");
    hs_status st = hs_labels_create(&shape, &labels, err);
    if (!st && !hs__numbers_load(saved, INT64_MIN, hs_labels_state(labels), hs_labels_words(&shape)))
        st = hs_fail(err, HS_INVALID, "the statistics of labels are damaged");
    if (st)
        hs_labels_destroy(labels);
    else
        *counts = labels;
    return st;
}

static hs_status merge(hs__corpus_results *results, void **counts, const hs__corpus_results *from,
                       void **from_counts, const char *from_dir, hs_error *err)
{
    const json_t *mine = json_object_get(results->names, NAMES);
    const json_t *other = json_object_get(from->names, NAMES);
    if (!*counts != !*from_counts || ((mine || other) && !json_equal(mine, other)))
        return hs_fail(err, HS_INVALID, "the run in '%.250s' has other labels", from_dir);
    if (*counts)
        hs_labels_gather(*counts, *from_counts);
    return HS_OK;
}

static void destroy(void *counts)
{
    hs_labels_destroy(counts);
}

/* ---- arrays ---- */

#define CELLS "label outcome layer head"
static const hs__described_array arrays[] = {
    {"label_confusion", "label predicted_label", "texts", "texts by their label and the predicted one"},
    {"label_loss_sum", "label", "nats", "-ln p of the text's label, summed over its texts"},
    {"label_bin_texts", "bin_of_10", "texts", "texts by the probability of the predicted label"},
    {"label_bin_right", "bin_of_10", "texts", "of these, those that the model labels right"},
    {"label_bin_confidence_sum", "bin_of_10", "probability",
     "of the predicted label, summed over these texts"},
    {"label_high", CELLS, "pairs", "high of the texts of a label that the model labels wrong, and right"},
    {"label_repeated", CELLS, "pairs", "repeated of these texts"},
    {"label_same_sentence", CELLS, "pairs", "same_sentence of these texts"},
    {"label_distance_sum", CELLS, "tokens", "distances of high pairs of these texts, summed"},
    {"label_texts_with_high", CELLS, "texts", "texts_with_high of these texts"},
    {"label_focal_share_sum", CELLS, "share of pairs", "focal_share_sum of these texts"},
    {"label_separator_sum", CELLS, "share of attention",
     "attention on the first token, separators and sentence ends, summed over these texts"},
    {"label_effect_texts", "label", "texts", "texts of a label whose heads were switched off in turn"},
    {"label_effect_sum", "label layer head", "logit",
     "change of the label's logit without the head, summed over these texts"},
    {"label_effect_squares", "label layer head", "squared logit", "the squares of these changes, summed"},
    {"label_effect_kl_sum", "label layer head", "nats",
     "divergence of all labels' probabilities without the head, summed over these texts"},
    {"label_names", "label", "name", "names of the labels"},
};

static size_t list(const void *counts, hs_corpus_array *ret)
{
    _Static_assert(HS_LABELS_ARRAYS_MAX <= HS__COUNTER_ARRAYS_MAX, "the list has capacity");
    return hs_labels_arrays(counts, ret);
}

static void read(const void *counts, const hs_corpus_array *array, size_t first, size_t n, void *ret)
{
    hs_labels_array_read(counts, array, first, n, ret);
}

static void write(const hs__corpus_results *results, void *counts, hs_npz *npz)
{
    const json_t *names = json_object_get(results->names, NAMES);
    hs_bytes texts[HS_LABELS_COUNTED_MAX];
    const size_t n =
        json_array_size(names) < HS_LABELS_COUNTED_MAX ? json_array_size(names) : HS_LABELS_COUNTED_MAX;
    if (!counts)
        return;
    for (size_t i = 0; i < n; i++) {
        const json_t *name = json_array_get(names, i);
        texts[i] = (hs_bytes){json_string_value(name), json_string_length(name)};
    }
    hs_npz_texts(npz, "label_names", texts, n, false);
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
static json_t *heads_json(const hs_labels *labels, size_t label, const hs_corpus_options *o)
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

static json_t *class_json(const hs_labels *labels, size_t label, const json_t *names,
                          const hs_corpus_options *o)
{
    const hs_labels_class c = hs_labels_class_read(labels, label);
    return json_pack("{sO sI sI sI so so so so sI so}", "label", json_array_get(names, label), "texts",
                     (json_int_t)c.texts, "predicted", (json_int_t)c.predicted, "right", (json_int_t)c.right,
                     "precision", hs__report_number(c.precision), "recall", hs__report_number(c.recall), "f1",
                     hs__report_number(c.f1), "loss", hs__report_number(c.loss), "effect_texts",
                     (json_int_t)c.effect_texts, "heads", heads_json(labels, label, o));
}

static json_t *bin_json(const hs_labels *labels, size_t bin)
{
    const hs_labels_bin b = hs_labels_bin_read(labels, bin);
    return json_pack("{sf sf sI so so}", "from", (double)bin / HS_LABELS_BINS, "to",
                     (double)(bin + 1) / HS_LABELS_BINS, "texts", (json_int_t)b.texts, "confidence",
                     hs__report_number(b.confidence), "accuracy", hs__report_number(b.accuracy));
}

static json_t *layer_json(const hs_labels *labels, hs_labels_group group, size_t l)
{
    const hs_labels_layer f = hs_labels_layer_read(labels, group, l);
    return json_pack("{so so so so so}", "repeated_share", hs__report_number(f.repeated_share),
                     "same_sentence_share", hs__report_number(f.same_sentence_share), "mean_distance",
                     hs__report_number(f.mean_distance), "focal_share", hs__report_number(f.focal_share),
                     "separator_attention", hs__report_number(f.separator_attention));
}

/* Adds the figures of some texts; label and right are null for all labels and both outcomes. */
static void group_add(json_t *groups, const hs_labels *labels, hs_labels_group group, const json_t *names,
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

static json_t *groups_json(const hs_labels *labels, const json_t *names, const hs_corpus_options *o)
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

static json_t *labels_json(const hs_labels *labels, const json_t *names, const hs_corpus_options *o)
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
        json_object_set_new(to, "labels", labels_json(counts, json_object_get(results->names, NAMES), &o));
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

/* A run of an earlier version has no halves; then nothing is shown. */
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
        "by accident. Fewer than 8 texts have no interval.",
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

/* Returns true if heads were switched off, in texts of two halves. */
static bool has_effects(const json_t *classes)
{
    json_int_t n = 0;
    for (size_t i = 0; i < json_array_size(classes); i++)
        n += json_object_get(json_array_get(classes, i), "held_out") &&
             count_of(json_array_get(classes, i), "effect_texts");
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
    .n_settings = sizeof settings / sizeof *settings,
    .identify = identify,
    .measure = measure,
    .configure = configure,
    .begin = begin,
    .matches = matches,
    .worker_create = worker_create,
    .worker_destroy = worker_destroy,
    .record = record,
    .head = head,
    .pass = pass,
    .gather = gather,
    .save = save,
    .load = load,
    .merge = merge,
    .destroy = destroy,
    .arrays = arrays,
    .n_arrays = sizeof arrays / sizeof *arrays,
    .list = list,
    .read = read,
    .write = write,
    .report = report,
    .section = "labels",
    .title = "Labelled texts",
    .page = page,
};
