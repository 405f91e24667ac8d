/* sentence_words.h - the words of a sentence as numbers of its tokens. */
#pragma once

#include "engine/statistics/syntax.h"
#include "server/corpus/input/conllu_words.h"

/* Finds the word of each of the tokens [first, end) of an encoding, and adds the words' relations to the
 * counts. A token belongs to the first word that it touches. Release ret_text->words with free; heads and
 * relations are in the same block. HS_TOO_LARGE as hs_syntax_relation_add, HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__sentence_words_make(const hs__sentence *sentence, const hs_encoding *encoding,
                                              size_t first, size_t end, hs_syntax *syntax,
                                              hs_syntax_text *ret_text, hs_error *err);
