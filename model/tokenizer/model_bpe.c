/* model_bpe.c - byte-pair encoding (Sennrich et al. 2016). A word starts as its characters. The adjacent pair
 * that comes first in the list of merges becomes one symbol, the leftmost first, until no pair is in the
 * list.
 *
 * With `unknown_token` (M2M100), `vocab` has the pieces of a SentencePiece model with their scores, and a
 * file of its own gives ids to their texts. The result is that of the sentencepiece library: of all pairs
 * whose text is a piece, the one with the best score is merged first.
 *
 * Symbols are a linked list and candidate pairs wait in a heap, so a word of n characters always takes O(n
 * log n). Merges are sorted by their two ids and found by binary search, which has no bad cases either. */
#include "model/tokenizer/tokenizer_internal.h"

#include <stdio.h>
#include <stdlib.h>

#define FILE_NAME        "tokenizer.json"
#define SUFFIX_BYTES_MAX 16

typedef struct merge {
    int32_t left, right, made;
    uint32_t rank;
} merge;

typedef struct bpe {
    hs__part part;
    const json_t *list;       /* the JSON list of merges, until bound */
    const char *unknown_text; /* until bound; NULL: characters without an entry are dropped */
    bool fuse_unknown, byte_fallback, ignore_merges;
    char suffix[SUFFIX_BYTES_MAX + 1]; /* of tokens at the end of a word, such as </w>; empty: none */
    size_t n_suffix;
    merge *merges; /* [n_merges], by left and right */
    size_t n_merges;
    const hs__trie *entries; /* texts to ids, of sentencepiece to numbers of pieces */
    int32_t unknown;
    int32_t unknown_symbol; /* of a character without an entry; the same, but of sentencepiece */
    const json_t *scored;   /* `vocab` of sentencepiece, until bound; else NULL */
    hs__trie pieces;        /* of sentencepiece */
    const hs__trie *ids;    /* texts of symbols to ids; NULL unless of sentencepiece */
    int32_t bytes[256];     /* ids of <0x00> to <0xFF>, or -1 */
} bpe;

/* ---- the part ---- */

static hs_status refuse_options(const json_t *options, hs_error *err)
{
    const char *prefix = NULL;
    const hs_status st = hs__option_text(options, FILE_NAME, "continuing_subword_prefix", &prefix, err);
    if (st)
        return st;
    if (prefix && prefix[0])
        return hs_fail(err, HS_BAD_MODEL,
                       FILE_NAME ": model.continuing_subword_prefix '%.64s' is not supported", prefix);
    if (json_number_value(json_object_get(options, "dropout")) != 0)
        return hs_fail(err, HS_BAD_MODEL,
                       FILE_NAME ": model.dropout must be 0; random tokens are not supported");
    if (!json_is_array(json_object_get(options, "merges")))
        return hs_fail(err, HS_BAD_MODEL, FILE_NAME ": model.merges must be an array");
    return HS_OK;
}

/* Reads end_of_word_suffix. The oracle would write its bytes as tokens with byte_fallback. */
static hs_status read_suffix(const json_t *options, bpe *self, hs_error *err)
{
    const char *suffix = NULL;
    const hs_status st = hs__option_text(options, FILE_NAME, "end_of_word_suffix", &suffix, err);
    if (st || !suffix || !suffix[0])
        return st;
    self->n_suffix = strlen(suffix);
    if (self->n_suffix > SUFFIX_BYTES_MAX || self->byte_fallback)
        return hs_fail(err, HS_BAD_MODEL,
                       FILE_NAME ": model.end_of_word_suffix '%.64s' must have at most %d bytes, and "
                                 "byte_fallback must be false",
                       suffix, SUFFIX_BYTES_MAX);
    memcpy(self->suffix, suffix, self->n_suffix + 1);
    return HS_OK;
}

static hs_status configure(hs__part *part, const json_t *options, hs_error *err)
{
    bpe *self = (bpe *)part;
    self->list = json_object_get(options, "merges");
    self->unknown = -1;
    self->unknown_text = json_string_value(json_object_get(options, "unknown_token"));
    if (self->unknown_text) {
        self->scored = json_object_get(options, "vocab");
        self->fuse_unknown = true;
        return HS_OK;
    }
    hs_status st = refuse_options(options, err);
    if (!st)
        st = hs__option_text(options, FILE_NAME, "unk_token", &self->unknown_text, err);
    if (!st)
        st = hs__option_bool(options, FILE_NAME, "fuse_unk", &self->fuse_unknown, err);
    if (!st)
        st = hs__option_bool(options, FILE_NAME, "byte_fallback", &self->byte_fallback, err);
    if (!st)
        st = hs__option_bool(options, FILE_NAME, "ignore_merges", &self->ignore_merges, err);
    return st ? st : read_suffix(options, self, err);
}

static void finish(hs__part *part)
{
    bpe *self = (bpe *)part;
    free(self->merges);
    hs__trie_finish(&self->pieces);
}

static bool recognize(const json_t *options)
{
    return json_object_get(options, "merges") != NULL;
}

static int32_t unknown(const hs__part *part)
{
    return ((const bpe *)part)->unknown;
}

/* ---- merges ---- */

static int32_t id_at(const hs__trie *entries, uint32_t node)
{
    return node == HS__TRIE_NONE ? -1 : entries->nodes[node].id;
}

/* Reads the two tokens of a merge: ["a", "b"] or "a b". */
static bool read_pair(const json_t *json, hs__token_entry ret[2])
{
    if (json_is_array(json) && json_array_size(json) == 2) {
        for (size_t i = 0; i < 2; i++) {
            const json_t *token = json_array_get(json, i);
            ret[i] = (hs__token_entry){json_string_value(token), (uint32_t)json_string_length(token), 0};
        }
        return ret[0].n_bytes && ret[1].n_bytes;
    }
    const char *text = json_string_value(json);
    const char *space = text ? strchr(text, ' ') : NULL;
    if (!space || strchr(space + 1, ' '))
        return false;
    ret[0] = (hs__token_entry){text, (uint32_t)(space - text), 0};
    ret[1] = (hs__token_entry){space + 1, (uint32_t)strlen(space + 1), 0};
    return ret[0].n_bytes && ret[1].n_bytes;
}

static hs_status read_merge(const hs__trie *entries, const json_t *json, uint32_t rank, merge *ret_merge,
                            hs_error *err)
{
    hs__token_entry pair[2];
    if (!read_pair(json, pair))
        return hs_fail(err, HS_BAD_MODEL, FILE_NAME ": model.merges: number %u must be two tokens", rank);
    const uint32_t left = hs__trie_walk(entries, HS__TRIE_ROOT, pair[0].text, pair[0].n_bytes);
    const uint32_t right = hs__trie_walk(entries, HS__TRIE_ROOT, pair[1].text, pair[1].n_bytes);
    const uint32_t made = hs__trie_walk(entries, left, pair[1].text, pair[1].n_bytes);
    *ret_merge = (merge){id_at(entries, left), id_at(entries, right), id_at(entries, made), rank};
    if (ret_merge->left < 0 || ret_merge->right < 0 || ret_merge->made < 0)
        return hs_fail(err, HS_BAD_MODEL,
                       FILE_NAME ": model.merges: number %u, '%.64s' and '%.64s', or what they make is not "
                                 "in the vocabulary",
                       rank, pair[0].text, pair[1].text);
    return HS_OK;
}

static int compare_pairs(const merge *a, const merge *b)
{
    const int order = (a->left > b->left) - (a->left < b->left);
    return order ? order : (a->right > b->right) - (a->right < b->right);
}

static int compare_merges(const void *left, const void *right)
{
    const merge *a = left;
    const merge *b = right;
    const int order = compare_pairs(a, b);
    return order ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

/* Keeps the last merge of each pair that is listed more than once. */
static void keep_last(bpe *self)
{
    size_t n = 0;
    for (size_t i = 0; i < self->n_merges; i++)
        if (i + 1 == self->n_merges || compare_pairs(&self->merges[i], &self->merges[i + 1]) != 0)
            self->merges[n++] = self->merges[i];
    self->n_merges = n;
}

/* ---- merges of sentencepiece ---- */

/* Returns the rank of a piece, which falls as its score rises. Pieces of the same score have the same one. */
static uint32_t rank_of(const json_t *piece)
{
    const float order = 0.0f - (float)json_number_value(json_array_get(piece, 1));
    uint32_t bits;
    memcpy(&bits, &order, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* Lists the pairs of pieces that make piece i, in merges unless that is NULL. Returns their number. */
static size_t list_pairs(const bpe *self, size_t i, merge *merges)
{
    const json_t *piece = json_array_get(self->scored, i);
    const char *text = json_string_value(json_array_get(piece, 0));
    const size_t n_bytes = json_string_length(json_array_get(piece, 0));
    size_t n = 0;
    if (hs__trie_find(self->entries, text, n_bytes) != (int32_t)i)
        return 0; /* repeats another piece: a file of one long piece would have pairs without end */
    for (size_t cut = 1; cut < n_bytes; cut++) {
        const int32_t left = hs__trie_find(self->entries, text, cut);
        const int32_t right = hs__trie_find(self->entries, text + cut, n_bytes - cut);
        if (left < 0 || right < 0)
            continue;
        if (merges)
            merges[n] = (merge){left, right, (int32_t)i, rank_of(piece)};
        n++;
    }
    return n;
}

/* Fails unless each character of the piece is a piece, since sentencepiece would merge it all the same. */
static hs_status check_characters(const bpe *self, size_t i, hs_error *err)
{
    const json_t *piece = json_array_get(json_array_get(self->scored, i), 0);
    const unsigned char *at = (const unsigned char *)json_string_value(piece);
    const unsigned char *end = at + json_string_length(piece);
    while (at < end) {
        const char *start = (const char *)at;
        hs_utf8_next(&at);
        if (hs__trie_find(self->entries, start, (size_t)((const char *)at - start)) < 0)
            return hs_fail(err, HS_BAD_MODEL,
                           "the sentencepiece model: no piece is the character '%.*s' of '%.64s'",
                           (int)((const char *)at - start), start, json_string_value(piece));
    }
    return HS_OK;
}

static hs_status bind_sentencepiece(bpe *self, const hs__vocabulary *vocabulary, hs_error *err)
{
    const size_t n = json_array_size(self->scored);
    self->ids = &vocabulary->entries;
    self->entries = &self->pieces;
    self->unknown_symbol = (int32_t)n;
    hs_status st = hs__vocabulary_need(vocabulary, self->unknown_text, &self->unknown, err);
    if (!st)
        st = hs__scored_build(self->scored, &self->pieces, err);
    for (size_t i = 0; !st && i < n; i++) {
        st = check_characters(self, i, err);
        self->n_merges += st ? 0 : list_pairs(self, i, NULL);
    }
    if (st)
        return st;
    self->merges = calloc(self->n_merges + 1, sizeof *self->merges);
    if (!self->merges)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    self->n_merges = 0;
    for (size_t i = 0; i < n; i++)
        self->n_merges += list_pairs(self, i, self->merges + self->n_merges);
    qsort(self->merges, self->n_merges, sizeof *self->merges, compare_merges);
    keep_last(self);
    self->scored = NULL;
    self->unknown_text = NULL;
    return HS_OK;
}

static hs_status bind(hs__part *part, const hs__vocabulary *vocabulary, hs_error *err)
{
    bpe *self = (bpe *)part;
    if (self->scored)
        return bind_sentencepiece(self, vocabulary, err);
    self->entries = &vocabulary->entries;
    self->n_merges = json_array_size(self->list);
    self->merges = calloc(self->n_merges + 1, sizeof *self->merges);
    if (!self->merges)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    hs_status st = HS_OK;
    for (size_t i = 0; !st && i < self->n_merges; i++)
        st = read_merge(self->entries, json_array_get(self->list, i), (uint32_t)i, &self->merges[i], err);
    if (!st && self->unknown_text && self->unknown_text[0])
        st = hs__vocabulary_need(vocabulary, self->unknown_text, &self->unknown, err);
    if (st)
        return st;
    self->unknown_symbol = self->unknown;
    qsort(self->merges, self->n_merges, sizeof *self->merges, compare_merges);
    keep_last(self);
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[8];
        const int length = snprintf(name, sizeof name, "<0x%02X>", byte);
        self->bytes[byte] = hs__trie_find(self->entries, name, (size_t)length);
    }
    self->list = NULL;
    self->unknown_text = NULL;
    return HS_OK;
}

static const merge *find_merge(const bpe *self, int32_t left, int32_t right)
{
    const merge searched = {.left = left, .right = right};
    const merge *low = self->merges;
    size_t n = self->n_merges;
    while (n > 0) {
        const merge *middle = low + n / 2;
        const int order = compare_pairs(middle, &searched);
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        n = order < 0 ? n - n / 2 - 1 : n / 2;
    }
    return NULL;
}

/* ---- a word's symbols ---- */

typedef struct symbol {
    int32_t id, previous, next; /* neighbours' indices; -1: none */
    uint32_t n_bytes;           /* 0: merged into another symbol */
} symbol;

/* A candidate pair, valid unless its symbols have changed since. */
typedef struct candidate {
    uint32_t rank;
    int32_t at, made; /* the left symbol's index; the id that the pair becomes */
} candidate;

enum { SYMBOLS_AT_HAND = 48 };

/* Working memory for a word of n characters: at most n symbols, or one per byte, and three candidates
 * each. */
typedef struct work {
    const bpe *self;
    symbol *symbols;
    candidate *heap;
    size_t n_symbols, n_heap;
} work;

static void put_symbol(work *w, int32_t id, size_t n_bytes)
{
    const int32_t at = (int32_t)w->n_symbols++;
    if (at)
        w->symbols[at - 1].next = at;
    w->symbols[at] = (symbol){id, at - 1, -1, (uint32_t)n_bytes};
}

/* Puts each byte of the character as a token. Returns false if some byte has no token. */
static bool put_bytes(work *w, const unsigned char *bytes, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++)
        if (w->self->bytes[bytes[i]] < 0)
            return false;
    for (size_t i = 0; i < n_bytes; i++)
        put_symbol(w, w->self->bytes[bytes[i]], 1);
    return true;
}

/* Turns characters into symbols. As in the oracle, an unknown character is put when the next known one comes.
 * A dropped character leaves no gap: later symbols move up. */
static void put_characters(work *w, const unsigned char *at, const unsigned char *end)
{
    const bpe *self = w->self;
    size_t n_unknown = 0; /* bytes */
    while (at < end) {
        const unsigned char *start = at;
        hs_utf8_next(&at);
        const size_t n = (size_t)(at - start);
        uint32_t node = hs__trie_walk(self->entries, HS__TRIE_ROOT, (const char *)start, n);
        if (at == end)
            node = hs__trie_walk(self->entries, node, self->suffix, self->n_suffix);
        const int32_t id = id_at(self->entries, node);
        if (id < 0 && self->byte_fallback && put_bytes(w, start, n))
            continue;
        if (n_unknown && (id >= 0 || !self->fuse_unknown)) {
            put_symbol(w, self->unknown_symbol, n_unknown);
            n_unknown = 0;
        }
        if (id >= 0)
            put_symbol(w, id, n);
        else if (self->unknown_symbol >= 0)
            n_unknown += n;
    }
    if (n_unknown)
        put_symbol(w, self->unknown_symbol, n_unknown);
}

/* ---- merging ---- */

static bool is_before(const candidate *a, const candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

/* Adds the pair of symbol `at` and the next one to the heap if it is in the list of merges. */
static void heap_put(work *w, int32_t at)
{
    if (at < 0 || w->symbols[at].next < 0)
        return;
    const merge *m = find_merge(w->self, w->symbols[at].id, w->symbols[w->symbols[at].next].id);
    if (!m)
        return;
    const candidate one = {m->rank, at, m->made};
    size_t i = w->n_heap++;
    for (; i > 0 && is_before(&one, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = one;
}

static candidate heap_take(work *w)
{
    const candidate top = w->heap[0];
    const candidate last = w->heap[--w->n_heap];
    size_t i = 0;
    for (size_t child = 1; child < w->n_heap; child = 2 * i + 1) {
        if (child + 1 < w->n_heap && is_before(&w->heap[child + 1], &w->heap[child]))
            child++;
        if (!is_before(&w->heap[child], &last))
            break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return top;
}

/* Merges the pair unless one of its symbols has changed. */
static void merge_pair(work *w, const candidate *c)
{
    symbol *left = &w->symbols[c->at];
    if (!left->n_bytes || left->next < 0)
        return;
    symbol *right = &w->symbols[left->next];
    const merge *m = find_merge(w->self, left->id, right->id);
    if (!m || m->made != c->made)
        return;
    left->id = m->made;
    left->n_bytes += right->n_bytes;
    left->next = right->next;
    right->n_bytes = 0;
    if (left->next >= 0)
        w->symbols[left->next].previous = c->at;
    heap_put(w, left->previous);
    heap_put(w, c->at);
}

/* Returns the id of a symbol's text. */
static int32_t symbol_id(const bpe *self, const symbol *s, const unsigned char *text)
{
    const int32_t id = self->ids ? hs__trie_find(self->ids, (const char *)text, s->n_bytes) : s->id;
    return id < 0 ? self->unknown : id;
}

static bool put_pieces(const work *w, const unsigned char *bytes, const hs__range *sources,
                       hs__pieces *pieces)
{
    bool ok = true;
    for (int32_t at = w->n_symbols ? 0 : -1; ok && at >= 0; at = w->symbols[at].next) {
        const symbol *s = &w->symbols[at];
        ok = hs__pieces_put(pieces, symbol_id(w->self, s, bytes),
                            (hs__range){sources[0].start, sources[s->n_bytes - 1].end});
        sources += s->n_bytes;
        bytes += s->n_bytes;
    }
    return ok;
}

static bool merge_word(work *w, const unsigned char *bytes, size_t n_bytes, const hs__range *sources,
                       hs__pieces *pieces)
{
    put_characters(w, bytes, bytes + n_bytes);
    for (size_t i = 0; i + 1 < w->n_symbols; i++)
        heap_put(w, (int32_t)i);
    while (w->n_heap) {
        const candidate top = heap_take(w);
        merge_pair(w, &top);
    }
    return put_pieces(w, bytes, sources, pieces);
}

static bool tokenize(const hs__part *part, const hs__aligned_text *text, hs__span word, hs__pieces *pieces)
{
    const bpe *self = (const bpe *)part;
    const unsigned char *bytes = text->bytes + word.start;
    const hs__range *sources = text->sources + word.start;
    const size_t n_bytes = word.end - word.start;
    const int32_t whole =
        self->ignore_merges ? hs__trie_find(self->entries, (const char *)bytes, n_bytes) : -1;
    if (whole >= 0)
        return hs__pieces_put(pieces, whole, (hs__range){sources[0].start, sources[n_bytes - 1].end});
    symbol symbols[SYMBOLS_AT_HAND];
    candidate heap[3 * SYMBOLS_AT_HAND];
    work w = {.self = self, .symbols = symbols, .heap = heap};
    if (n_bytes <= SYMBOLS_AT_HAND)
        return merge_word(&w, bytes, n_bytes, sources, pieces);
    w.symbols = malloc(n_bytes * sizeof *w.symbols);
    w.heap = malloc(3 * n_bytes * sizeof *w.heap);
    const bool ok = w.symbols && w.heap && merge_word(&w, bytes, n_bytes, sources, pieces);
    free(w.symbols);
    free(w.heap);
    return ok;
}

const hs__part_type hs__bpe = {.stage = HS__MODEL,
                               .name = "BPE",
                               .size = sizeof(bpe),
                               .configure = configure,
                               .bind = bind,
                               .finish = finish,
                               .tokenize = tokenize,
                               .recognize = recognize,
                               .list = hs__entries_read,
                               .unknown = unknown};
