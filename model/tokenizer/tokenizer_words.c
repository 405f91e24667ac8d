/* tokenizer_words.c - characters to words, words to WordPiece. */
#include "model/tokenizer/tokenizer_internal.h"
#include "model/tokenizer/unicode.h"
#include "model/utf8.h"

#include <stdlib.h>

static bool reserve_piece(hs__pieces *pieces)
{
    if (pieces->n < pieces->capacity)
        return true;
    size_t capacity = pieces->capacity ? 2 * pieces->capacity : 64;
    if (capacity > pieces->n_kept)
        capacity = pieces->n_kept;
    hs__piece *items = realloc(pieces->items, capacity * sizeof *items);
    if (!items)
        return false;
    pieces->items = items;
    pieces->capacity = capacity;
    return true;
}

static void put_piece(hs__words *words, int32_t id, uint32_t start, uint32_t end)
{
    hs__pieces *pieces = words->pieces;
    if (pieces->n < pieces->n_kept) {
        if (!reserve_piece(pieces)) {
            words->status = HS_NO_MEMORY;
            return;
        }
        pieces->items[pieces->n] = (hs__piece){id, words->index, start, end};
    }
    pieces->n++;
}

/* Greedy longest match, first; false when some rest of the word matches nothing. */
static bool put_word_pieces(hs__words *words)
{
    const hs_tokenizer *tokenizer = words->tokenizer;
    uint32_t node = HS__TRIE_ROOT;
    for (size_t at = 0; at < words->n_bytes; node = tokenizer->continuation) {
        size_t length = 0;
        const int32_t id =
            node == HS__TRIE_NONE
                ? -1
                : hs__trie_longest(&tokenizer->vocab, node, words->bytes + at, words->n_bytes - at, &length);
        if (id < 0)
            return false;
        put_piece(words, id, words->origins[at], words->origins[at + length - 1] + 1);
        at += length;
    }
    return true;
}

void hs__words_end(hs__words *words)
{
    if (!words->n_chars || words->enough)
        return;
    const size_t n_before = words->pieces->n;
    if (words->n_chars > words->tokenizer->word_chars_max || !put_word_pieces(words)) {
        words->pieces->n = n_before;
        put_piece(words, words->tokenizer->special.unk, words->start, words->last + 1);
    }
    words->index++;
    words->n_chars = words->n_bytes = 0;
    words->enough = words->pieces->n >= words->pieces->n_enough;
}

static void append(hs__words *words, uint32_t code_point, uint32_t origin)
{
    if (!words->n_chars)
        words->start = origin;
    words->last = origin;
    if (words->n_chars++ >= words->tokenizer->word_chars_max)
        return;
    const size_t length = hs_utf8_put(code_point, words->bytes + words->n_bytes);
    for (size_t i = 0; i < length; i++)
        words->origins[words->n_bytes++] = origin;
}

void hs__words_put(hs__words *words, uint32_t code_point, unsigned class, uint32_t origin)
{
    if (class & HS__SPACE) {
        hs__words_end(words);
    } else if (class & HS__PUNCTUATION) {
        hs__words_end(words);
        append(words, code_point, origin);
        hs__words_end(words);
    } else {
        append(words, code_point, origin);
    }
}

size_t hs__words_put_letters(hs__words *words, const unsigned char *bytes, size_t n_bytes, uint32_t origin)
{
    const hs_tokenizer *tokenizer = words->tokenizer;
    if (!words->n_chars)
        words->start = origin;
    size_t i = 0;
    for (; i < n_bytes && tokenizer->kinds[bytes[i]] == HS__KIND_LETTER; i++) {
        if (words->n_chars++ < tokenizer->word_chars_max) {
            words->origins[words->n_bytes] = origin + (uint32_t)i;
            words->bytes[words->n_bytes++] = tokenizer->lower[bytes[i]];
        }
    }
    words->last = origin + (uint32_t)i - 1;
    return i;
}

void hs__words_put_added(hs__words *words, int32_t id, uint32_t start, uint32_t end)
{
    hs__words_end(words);
    if (words->enough)
        return;
    put_piece(words, id, start, end);
    words->index++;
}
