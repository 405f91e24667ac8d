/* top_texts.h - of each head and figure, the texts where the figure is highest.
 *
 * The lists do not depend on the order of texts: of equal values the text with the lower number is kept.
 * Adding a text twice changes nothing. So lists of shards can be merged, and a run may count texts again
 * after a crash. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HS__TOP_TEXTS_MAX 64

/* Figures of a head in one text; NAN if undefined. The first six are those of hs_corpus_observation, at the
 * main threshold. */
typedef enum hs__top_figure {
    HS__TOP_REPEATED,
    HS__TOP_SAME_SENTENCE,
    HS__TOP_DISTANCE,
    HS__TOP_FOCAL,
    HS__TOP_HIGH,
    HS__TOP_SEPARATOR,
    HS__TOP_SELF,             /* mean attention to the token itself, */
    HS__TOP_PREVIOUS,         /* to the one before, over the rows that have one, */
    HS__TOP_NEXT,             /* to the one after, over the rows that have one, */
    HS__TOP_FIRST,            /* and to the first token */
    HS__TOP_SYNTAX_ATTENTION, /* fraction of words that point to their syntactic head by attention; CoNLL-U */
    HS__TOP_SYNTAX_SIMILARITY, /* the same by similarity */
    HS__TOP_FIGURES
} hs__top_figure;

extern const char *const hs__top_names[HS__TOP_FIGURES];

typedef struct hs__top_entry {
    uint64_t text;
    float value;
} hs__top_entry;

typedef struct hs__top_texts hs__top_texts;

/* Creates empty lists of `keep` texts for n_maps heads. NULL if memory is short. */
hs__top_texts *hs__top_texts_create(size_t n_maps, size_t keep);
void hs__top_texts_destroy(hs__top_texts *top); /* NULL is fine */
size_t hs__top_texts_bytes(size_t n_maps, size_t keep);

/* Adds one value. Returns true if the text is in the list now. */
bool hs__top_texts_add(hs__top_texts *top, size_t map, hs__top_figure figure, hs__top_entry entry);

/* Returns a list, the highest value first. */
size_t hs__top_texts_list(const hs__top_texts *top, size_t map, hs__top_figure figure,
                          const hs__top_entry **ret_entries);
