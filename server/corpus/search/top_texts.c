/* top_texts.c - one sorted array of fixed length for each head and figure. */
#include "server/corpus/search/top_texts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const hs__top_names[HS__TOP_FIGURES] = {
    [HS__TOP_REPEATED] = "repeated_share",
    [HS__TOP_SAME_SENTENCE] = "same_sentence_share",
    [HS__TOP_DISTANCE] = "mean_distance",
    [HS__TOP_FOCAL] = "focal_share",
    [HS__TOP_HIGH] = "high_pairs",
    [HS__TOP_SEPARATOR] = "separator_attention",
    [HS__TOP_SELF] = "self",
    [HS__TOP_PREVIOUS] = "previous",
    [HS__TOP_NEXT] = "next",
    [HS__TOP_FIRST] = "first",
    [HS__TOP_SYNTAX_ATTENTION] = "syntax_attention",
    [HS__TOP_SYNTAX_SIMILARITY] = "syntax_similarity",
};

struct hs__top_texts {
    size_t n_maps, keep;
    uint8_t *n;             /* [n_maps][HS__TOP_FIGURES] */
    hs__top_entry *entries; /* [n_maps][HS__TOP_FIGURES][keep] */
};

hs__top_texts *hs__top_texts_create(size_t n_maps, size_t keep)
{
    hs__top_texts *top = calloc(1, sizeof *top);
    if (!top)
        return NULL;
    *top = (hs__top_texts){.n_maps = n_maps, .keep = keep};
    top->n = calloc(n_maps * HS__TOP_FIGURES, sizeof *top->n);
    top->entries = calloc(n_maps * HS__TOP_FIGURES * keep, sizeof *top->entries);
    if (!top->n || !top->entries) {
        hs__top_texts_destroy(top);
        return NULL;
    }
    return top;
}

void hs__top_texts_destroy(hs__top_texts *top)
{
    if (!top)
        return;
    free(top->n);
    free(top->entries);
    free(top);
}

size_t hs__top_texts_bytes(size_t n_maps, size_t keep)
{
    return n_maps * HS__TOP_FIGURES * (1 + keep * sizeof(hs__top_entry));
}

/* Returns true if a comes before b. */
static bool is_above(hs__top_entry a, hs__top_entry b)
{
    return a.value > b.value || (!(a.value < b.value) && a.text < b.text);
}

bool hs__top_texts_add(hs__top_texts *top, size_t map, hs__top_figure figure, hs__top_entry entry)
{
    const size_t list = map * HS__TOP_FIGURES + figure;
    hs__top_entry *entries = top->entries + list * top->keep;
    size_t n = top->n[list], at = 0;
    if (isnan(entry.value))
        return false;
    while (at < n && is_above(entries[at], entry))
        at++;
    if (at == top->keep)
        return false;
    if (at < n && entries[at].text == entry.text)
        return true;
    n -= n == top->keep;
    memmove(entries + at + 1, entries + at, (n - at) * sizeof *entries);
    entries[at] = entry;
    top->n[list] = (uint8_t)(n + 1);
    return true;
}

size_t hs__top_texts_list(const hs__top_texts *top, size_t map, hs__top_figure figure,
                          const hs__top_entry **ret_entries)
{
    const size_t list = map * HS__TOP_FIGURES + figure;
    *ret_entries = top->entries + list * top->keep;
    return top->n[list];
}
