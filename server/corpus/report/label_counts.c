/* label_counts.c - saves, loads and shows the statistics of labels. */
#include "server/corpus/report/label_counts.h"

#include "server/corpus/report/results.h"

#include <stdlib.h>

enum { HEADS_LISTED = 10 }; /* heads of a label, those with the largest effects */

/* ---- checkpoint ---- */

json_t *hs__labels_save(hs_labels *labels)
{
    if (!labels)
        return NULL;
    const hs_labels_shape shape = hs_labels_shape_of(labels);
    const size_t n = hs_labels_words(&shape);
    const int64_t *words = hs_labels_state(labels);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer((json_int_t)words[i]));
    return list;
}

static bool names_are_sound(const json_t *names)
{
    bool sound = json_array_size(names) > 0;
    for (size_t i = 0; sound && i < json_array_size(names); i++)
        sound = json_is_string(json_array_get(names, i));
    return sound;
}

static bool words_load(const json_t *saved, int64_t *words, size_t n)
{
    bool sound = json_array_size(saved) == n;
    for (size_t i = 0; sound && i < n; i++) {
        const json_t *word = json_array_get(saved, i);
        sound = json_is_integer(word);
        words[i] = json_integer_value(word);
    }
    return sound;
}

hs_status hs__labels_load(const json_t *saved, const json_t *names, const hs_corpus_options *o,
                          hs_labels **ret, hs_error *err)
{
    const hs_labels_shape shape = {json_array_size(names), o->n_layers, o->n_heads};
    hs_labels *labels = NULL;
    if (!saved)
        return HS_OK;
    if (!names_are_sound(names))
        return hs_fail(err, HS_INVALID, "the names of labels are damaged");
    hs_status st = hs_labels_create(&shape, &labels, err);
    if (!st && !words_load(saved, hs_labels_state(labels), hs_labels_words(&shape)))
        st = hs_fail(err, HS_INVALID, "the statistics of labels are damaged");
    if (st)
        hs_labels_destroy(labels);
    else
        *ret = labels;
    return st;
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
    ranked_head *heads = malloc(n * sizeof *heads);
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

json_t *hs__labels_json(const hs_labels *labels, const json_t *names, const hs_corpus_options *o)
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
