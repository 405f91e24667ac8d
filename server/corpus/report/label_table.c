/* label_table.c - tables of classes, confusions, confidence, and of the heads and figures of each label. */
#include "server/corpus/report/label_table.h"

#include "server/corpus/report/tables.h"

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
        hs__cells_write(out, columns + 1, HS__N(columns) - 1, class, (hs__place){0});
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
        hs__cells_write(out, columns + 1, HS__N(columns) - 1, bin, (hs__place){0});
        fputs("</tr>\n", out);
    }
    hs__table_end(out);
}

static void heads_write(const json_t *classes, FILE *out)
{
    static const hs__column columns[] = {
        {"Label", NULL, NULL},
        {"Texts", "effect_texts", NULL},
        {"Heads whose removal lowers its logit most", NULL, NULL},
    };
    table_begin("Heads that matter for a label",
                "Layer&middot;head, then the change of the label&rsquo;s logit with this head alone switched "
                "off: mean &plusmn; standard deviation over the label&rsquo;s chosen texts.",
                columns, HS__N(columns), out);
    for (size_t i = 0; i < n_shown(classes); i++) {
        const json_t *class = json_array_get(classes, i), *heads = json_object_get(class, "heads");
        name_write(json_object_get(class, "label"), out);
        hs__cells_write(out, columns + 1, 1, class, (hs__place){0});
        fputs("<td>", out);
        for (size_t k = 0; k < json_array_size(heads) && k < 5; k++) {
            const json_t *head = json_array_get(heads, k);
            fprintf(out, "%s%lld&middot;%lld <span class=\"muted\">%+.3f &plusmn; %.3f</span>", k ? ", " : "",
                    (long long)count_of(head, "layer"), (long long)count_of(head, "head"),
                    json_number_value(json_object_get(head, "change")),
                    json_number_value(json_object_get(head, "spread")));
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
        hs__cells_write(out, columns + 2, HS__N(columns) - 2, group, (hs__place){.l = n_layers - 1});
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

static bool has_effects(const json_t *classes)
{
    json_int_t n = 0;
    for (size_t i = 0; i < json_array_size(classes); i++)
        n += count_of(json_array_get(classes, i), "effect_texts");
    return n > 0;
}

void hs__label_table_write(const json_t *report, FILE *out)
{
    const json_t *labels = json_object_get(report, "labels"), *layers = json_object_get(report, "layers");
    const json_t *classes = json_object_get(labels, "classes");
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
