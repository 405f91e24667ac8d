/* text_record.h - gathers what the index of texts (text_index.h) keeps of one text, head by head. */
#pragma once

#include "engine/statistics/statistics.h"
#include "server/corpus/input/conllu_words.h"
#include "server/corpus/search/text_index.h"

typedef struct hs__text_record {
    float *figures;       /* [l][h][HS__TOP_FIGURES]; NULL: no examples are kept */
    hs__index_maps *maps; /* [l][h]; NULL: no text is searched */
} hs__text_record;

/* Creates n records. NULL if memory is short. */
hs__text_record *hs__text_records_create(const hs__text_index_options *options, size_t n);
void hs__text_records_destroy(hs__text_record *records, size_t n); /* NULL is fine */
size_t hs__text_records_bytes(const hs__text_index_options *options, size_t n);

/* One head of a text, of whose tokens [first, first + n) the maps are. */
typedef struct hs__recorded_head {
    size_t map;                   /* l * n_heads + h */
    const hs_observed_head *maps; /* [n][n] */
    size_t first, n_tokens;
    const uint8_t *special; /* [n_tokens] */
    const hs_corpus_observation *observation;
    size_t n_pairs, right[2]; /* of hs_syntax_head_add; 0: no sentence */
    bool searched;
} hs__recorded_head;

void hs__text_record_head(const hs__text_record *record, const hs__recorded_head *head);

/* Copies the words' parts of speech and relations to their tokens [n_tokens]; words holds numbers of words,
 * -1 for none. NULL if memory is short; release with free. */
hs__token_label *hs__token_labels_make(const hs__sentence *sentence, const int32_t *words, size_t n_tokens);
