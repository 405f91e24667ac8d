/* model_unigram.c - Unigram: cuts a word into the pieces of the vocabulary with the largest sum of scores
 * (log probabilities).
 *
 * The Viterbi algorithm finds the best way to every place of the word, from left to right, and extends it by
 * all pieces that start there. A character without a piece costs ten more than the worst piece. Adjacent
 * characters of that kind become one unknown token, or their bytes (byte_fallback). Between equally good ways
 * the one with the earlier start stays, as in the oracle.
 *
 * With `unknown_token` (Marian, M2M100), `vocab` has the pieces only, and a file of its own gives ids to
 * their texts. The result is that of the sentencepiece library. An unknown text has an id if the file names
 * it. Scores are summed over a text in float32. A text of Marian may begin with a language code, >>fra<<,
 * which is a token. */
#include "model/tokenizer/tokenizer_internal.h"

#include <stdio.h>
#include <stdlib.h>

#define UNKNOWN_PENALTY 10.0
#define SHORT_WORD      256 /* bytes; longer words take an allocation */

typedef struct unigram {
    hs__part part;
    double *scores; /* [n_scores] by id */
    size_t n_scores;
    double unknown_score;
    const hs__trie *entries; /* texts to ids */
    const hs__trie *lattice; /* texts to numbers in scores */
    int32_t unknown;
    int32_t unknown_piece; /* number of a character without a piece */
    bool of_sentencepiece; /* unknown_token is set */
    bool byte_fallback;
    hs__trie pieces;           /* with of_sentencepiece */
    const json_t *vocab;       /* borrowed until bind, as is the next one */
    const char *unknown_token; /* NULL: `unknown` is known */
    int32_t byte_ids[256];     /* ids of "<0x00>" to "<0xFF>", or -1 */
} unigram;

/* The best way from the start of a word to a place in it. */
typedef struct waypoint {
    double score;
    uint32_t start; /* start of the last piece, in bytes; NOWHERE: no way leads here */
    int32_t id;     /* its id */
} waypoint;

#define NOWHERE UINT32_MAX

/* ---- the part ---- */

/* Rounds a sum of scores as the sentencepiece library does. */
static double rounded(const unigram *self, double score)
{
    return self->of_sentencepiece ? (double)(float)score : score;
}

static hs_status read_scores(const json_t *vocab, unigram *self, hs_error *err)
{
    self->scores = malloc((json_array_size(vocab) + 1) * sizeof *self->scores);
    if (!self->scores)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    double lowest = 0;
    for (; self->n_scores < json_array_size(vocab); self->n_scores++) {
        const json_t *item = json_array_get(vocab, self->n_scores);
        if (!json_is_string(json_array_get(item, 0)) || !json_is_number(json_array_get(item, 1)))
            return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: model.vocab[%zu] is not a piece with a score",
                           self->n_scores);
        const double score = json_number_value(json_array_get(item, 1));
        self->scores[self->n_scores] = score;
        if (self->n_scores == 0 || score < lowest)
            lowest = score;
    }
    self->unknown_score = rounded(self, lowest - UNKNOWN_PENALTY);
    return HS_OK;
}

static hs_status configure(hs__part *part, const json_t *options, hs_error *err)
{
    unigram *self = (unigram *)part;
    const json_t *vocab = json_object_get(options, "vocab");
    const json_t *unknown = json_object_get(options, "unk_id");
    if (!json_is_array(vocab))
        return hs_fail(err, HS_BAD_MODEL,
                       "tokenizer.json: model.vocab must be an array of pieces and scores");
    self->vocab = vocab;
    self->unknown_token = json_string_value(json_object_get(options, "unknown_token"));
    self->of_sentencepiece = self->unknown_token != NULL;
    self->unknown_piece = (int32_t)json_array_size(vocab);
    if (self->of_sentencepiece)
        return read_scores(vocab, self, err);
    if (!json_is_integer(unknown) || json_integer_value(unknown) < 0 ||
        json_integer_value(unknown) >= (json_int_t)json_array_size(vocab))
        return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: model.unk_id must be the number of a piece");
    self->unknown = self->unknown_piece = (int32_t)json_integer_value(unknown);
    const hs_status st =
        hs__option_bool(options, "tokenizer.json", "byte_fallback", &self->byte_fallback, err);
    return st ? st : read_scores(vocab, self, err);
}

static void finish(hs__part *part)
{
    unigram *self = (unigram *)part;
    free(self->scores);
    hs__trie_finish(&self->pieces);
}

static bool recognize(const json_t *options)
{
    return json_object_get(options, "unk_id") && json_is_array(json_object_get(options, "vocab"));
}

static hs_status list_vocab(const json_t *options, size_t vocab_size, hs__entries *ret_entries, hs_error *err)
{
    return hs__scored_read(json_object_get(options, "vocab"), vocab_size, ret_entries, err);
}

static hs_status bind(hs__part *part, const hs__vocabulary *vocabulary, hs_error *err)
{
    unigram *self = (unigram *)part;
    self->entries = self->lattice = &vocabulary->entries;
    if (self->of_sentencepiece) {
        self->lattice = &self->pieces;
        hs_status st = hs__vocabulary_need(vocabulary, self->unknown_token, &self->unknown, err);
        if (!st)
            st = hs__scored_build(self->vocab, &self->pieces, err);
        self->unknown_token = NULL;
        self->vocab = NULL;
        return st;
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", byte);
        self->byte_ids[byte] = hs__trie_find(self->entries, name, strlen(name));
    }
    return HS_OK;
}

static int32_t unknown(const hs__part *part)
{
    return ((const unigram *)part)->unknown;
}

/* ---- the best way ---- */

static void extend(const unigram *self, waypoint *to, double sum, size_t start, int32_t id)
{
    const double score = rounded(self, sum);
    if (to->start == NOWHERE || score > to->score)
        *to = (waypoint){score, (uint32_t)start, id};
}

/* Extends the way to byte `at` of the word by all pieces that start there. */
static void extend_all(const unigram *self, const unsigned char *word, size_t n_bytes, size_t at,
                       size_t n_char, waypoint *ways)
{
    uint32_t node = HS__TRIE_ROOT;
    bool alone = false; /* some piece is exactly this character */
    for (size_t end = at; end < n_bytes;) {
        node = hs__trie_step(self->lattice, node, word[end++]);
        if (node == HS__TRIE_NONE)
            break;
        const int32_t id = self->lattice->nodes[node].id;
        if (id < 0)
            continue;
        alone |= end == at + n_char;
        extend(self, &ways[end], ways[at].score + self->scores[id], at, id);
    }
    if (!alone)
        extend(self, &ways[at + n_char], ways[at].score + self->unknown_score, at, self->unknown_piece);
}

/* Finds the best way to every place, from a start with this score. ways has n_bytes + 1 elements. */
static void find_ways(const unigram *self, const unsigned char *word, size_t n_bytes, double score,
                      waypoint *ways)
{
    for (size_t i = 0; i <= n_bytes; i++)
        ways[i].start = NOWHERE;
    ways[0] = (waypoint){.score = score, .id = -1};
    for (size_t at = 0, next; at < n_bytes; at = next) {
        for (next = at + 1; next < n_bytes && hs_utf8_continues(word[next]);)
            next++;
        extend_all(self, word, n_bytes, at, next - at, ways);
    }
}

/* ---- the pieces ---- */

static bool has_bytes(const unigram *self, const unsigned char *bytes, size_t n_bytes)
{
    bool all = self->byte_fallback;
    for (size_t i = 0; i < n_bytes && all; i++)
        all = self->byte_ids[bytes[i]] >= 0;
    return all;
}

/* Puts the piece of these bytes, its byte tokens, or the unknown token. */
static bool put(const unigram *self, const unsigned char *bytes, size_t n_bytes, const hs__range *sources,
                hs__pieces *pieces)
{
    const hs__range source = {sources[0].start, sources[n_bytes - 1].end};
    const int32_t id = hs__trie_find(self->entries, (const char *)bytes, n_bytes);
    if (id >= 0)
        return hs__pieces_put(pieces, id, source);
    if (!has_bytes(self, bytes, n_bytes))
        return hs__pieces_put(pieces, self->unknown, source);
    bool ok = true;
    for (size_t i = 0; i < n_bytes && ok; i++)
        ok = hs__pieces_put(pieces, self->byte_ids[bytes[i]], source);
    return ok;
}

/* Reverses the way to the end: afterwards each start holds where its piece ends. */
static void turn(waypoint *ways, size_t n_bytes)
{
    waypoint piece = ways[n_bytes];
    for (size_t end = n_bytes; end > 0;) {
        const size_t start = piece.start;
        const waypoint before = ways[start];
        ways[start] = (waypoint){.start = (uint32_t)end, .id = piece.id};
        piece = before;
        end = start;
    }
}

static bool put_all(const unigram *self, const hs__aligned_text *text, hs__span word, waypoint *ways,
                    hs__pieces *pieces)
{
    const size_t n_bytes = word.end - word.start;
    find_ways(self, text->bytes + word.start, n_bytes, (double)pieces->score, ways);
    if (self->of_sentencepiece)
        pieces->score = (float)ways[n_bytes].score;
    turn(ways, n_bytes);
    bool ok = true;
    for (size_t at = 0, end; at < n_bytes && ok; at = end) {
        end = ways[at].start;
        while (ways[at].id == self->unknown_piece && end < n_bytes && ways[end].id == self->unknown_piece)
            end = ways[end].start;
        ok = put(self, text->bytes + word.start + at, end - at, text->sources + word.start + at, pieces);
    }
    return ok;
}

static bool tokenize(const hs__part *part, const hs__aligned_text *text, hs__span word, hs__pieces *pieces)
{
    const unigram *self = (const unigram *)part;
    const size_t n_bytes = word.end - word.start;
    const unsigned char *bytes = text->bytes + word.start;
    waypoint few[SHORT_WORD + 1];
    if (self->of_sentencepiece && word.start == 0) {
        pieces->score = 0;
        if (n_bytes > 1 && bytes[0] == '>' && bytes[1] == '>') /* other texts begin with a mark */
            return put(self, bytes, n_bytes, text->sources, pieces);
    }
    if (n_bytes <= SHORT_WORD)
        return put_all(self, text, word, few, pieces);
    waypoint *ways = n_bytes < NOWHERE ? malloc((n_bytes + 1) * sizeof *ways) : NULL;
    const bool ok = ways && put_all(self, text, word, ways, pieces);
    free(ways);
    return ok;
}

const hs__part_type hs__unigram = {.stage = HS__MODEL,
                                   .name = "Unigram",
                                   .size = sizeof(unigram),
                                   .configure = configure,
                                   .bind = bind,
                                   .finish = finish,
                                   .tokenize = tokenize,
                                   .recognize = recognize,
                                   .list = list_vocab,
                                   .unknown = unknown};
