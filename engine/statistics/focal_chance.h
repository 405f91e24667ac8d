/* focal_chance.h - the focal token that pairs drawn at random have, as many as a head has high pairs.
 *
 * Many pairs drawn at random have a frequent token as their focal token, and few pairs have nearly any one.
 * So the focal tokens of heads are compared with those of as many pairs, drawn at random and without
 * replacement from all pairs of the text. A draw depends on the number of the text and of the head alone. */
#pragma once

#include "engine/statistics/statistics.h"

/* The texts of a batch, and memory for a draw. */
typedef struct hs_focal_chance hs_focal_chance;

/* Creates texts of up to tokens_max tokens; NULL if memory is short. */
hs_focal_chance *hs_focal_chance_create(size_t tokens_max);
void hs_focal_chance_destroy(hs_focal_chance *chance); /* NULL is fine */
size_t hs_focal_chance_bytes(size_t tokens_max);

/* Prepares for text k of a batch, below HS_CORPUS_BATCH. */
void hs_focal_chance_find(hs_focal_chance *chance, size_t k, const hs_corpus_text *text);

/* The token that most pairs hold. */
typedef struct hs_focal_draw {
    int32_t position; /* of its first occurrence; -1 if there are no pairs */
    double share;     /* of the pairs; 0 if there are none */
} hs_focal_draw;

/* Draws n_pairs pairs of text k, for a head's number. At most all of them. */
hs_focal_draw hs_focal_chance_draw(hs_focal_chance *chance, size_t k, uint64_t head, uint64_t n_pairs);
