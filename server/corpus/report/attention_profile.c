/* attention_profile.c - a table for each layer, the same whatever the page's reader picks. */
#include "server/corpus/report/attention_profile.h"

#include "server/corpus/report/tables.h"

static void head_write(const hs_head_profile *p, size_t h, FILE *out)
{
    static const char *const labels[] = {"position", "special", "broad", "other"}; /* as hs_head_label */
    fprintf(out, "<tr><th scope=\"row\">%zu</th><td>%s</td>", h, labels[p->label]);
    const float shares[] = {p->first,     p->self,        p->previous,  p->next,
                            p->separator, p->punctuation, p->same_token};
    for (size_t k = 0; k < sizeof shares / sizeof *shares; k++)
        hs__cell_write(out, 100 * (double)shares[k], "%.1f %%");
    hs__cell_write(out, (double)p->entropy, "%.2f");
    hs__cell_write(out, (double)p->mean_distance, "%.1f");
    fputs("</tr>\n", out);
}

static void layer_write(const hs__drawing *d, size_t l, FILE *out)
{
    static const char *const columns[] = {"Head",
                                          "Label",
                                          "First",
                                          "Itself",
                                          "Previous",
                                          "Next",
                                          "Separators",
                                          "Punctuation",
                                          "Same token",
                                          "Entropy, nats",
                                          "Mean distance, tokens"};
    fprintf(out, "<details><summary>Layer %d</summary>", d->o.layers[l]);
    hs__table_begin(out, columns, sizeof columns / sizeof *columns);
    for (size_t h = 0; h < d->o.n_heads; h++) {
        const hs_head_profile profile = hs_corpus_profile_read(d->stats, l, h);
        head_write(&profile, h, out);
    }
    hs__table_end(out);
    fputs("</details>\n", out);
}

void hs__attention_profile_write(const hs__drawing *d, FILE *out)
{
    fputs("<section id=\"profiles\" aria-label=\"Head profiles\"><h2>Where heads attend</h2><p "
          "class=\"muted\">Shares "
          "of "
          "attention, means over texts; labels by Clark et al. (2019).</p>\n",
          out);
    for (size_t l = 0; l < d->o.n_layers; l++)
        layer_write(d, l, out);
    fputs("</section>\n", out);
}
