/* attention_profile.c - a table for each layer, the same whatever the page's reader picks. */
#include "server/corpus/report/attention_profile.h"

#include "server/corpus/report/tables.h"

static void layer_write(const hs__drawing *d, size_t l, FILE *out)
{
    static const char *const labels[] = {"position", "special", "broad", "other"}; /* as hs_head_label */
#define HEAD(name) "profiles_" name ".L.H"
    static const hs__column columns[] = {
        {"Head", NULL, NULL},
        {"Label", NULL, NULL},
        {"First", HEAD("first"), "%.1f %%"},
        {"Itself", HEAD("self"), "%.1f %%"},
        {"Previous", HEAD("previous"), "%.1f %%"},
        {"Next", HEAD("next"), "%.1f %%"},
        {"Separators", HEAD("separator"), "%.1f %%"},
        {"Punctuation", HEAD("punctuation"), "%.1f %%"},
        {"Same token", HEAD("same_token"), "%.1f %%"},
        {"Entropy, nats", HEAD("entropy"), "%.2f"},
        {"Mean distance, tokens", HEAD("mean_distance"), "%.1f"},
    };
#undef HEAD
    fprintf(out, "<details><summary>Layer %d</summary>", d->o.layers[l]);
    hs__table_begin(out, columns, HS__N(columns));
    for (hs__place at = {.l = l}; at.h < d->o.n_heads; at.h++) {
        fprintf(out, "<tr><th scope=\"row\">%zu</th><td>%s</td>", at.h,
                labels[hs_corpus_profile_read(d->stats, l, at.h).label]);
        hs__cells_write(out, columns + 2, HS__N(columns) - 2, d->report, at);
        fputs("</tr>\n", out);
    }
    hs__table_end(out);
    fputs("</details>\n", out);
}

void hs__attention_profile_write(const hs__drawing *d, FILE *out)
{
    fputs("<section id=\"profiles\" aria-label=\"Head profiles\"><h2>Where heads attend</h2><p "
          "class=\"muted\">Shares of attention, means over texts; labels by Clark et al. (2019).</p>\n",
          out);
    for (size_t l = 0; l < d->o.n_layers; l++)
        layer_write(d, l, out);
    fputs("</section>\n", out);
}
