/* tokenizer_encode.c - runs texts through the pipeline.
 *
 * Added tokens are cut out of the text, and the text between them is normalised. Added tokens that match
 * normalised text are cut out of that. The rest is cut into words, and each word into pieces. The pieces of
 * one or two texts are truncated and put into the template.
 *
 * If the parts allow it, a text is processed in stretches of a few kilobytes. Then the buffers stay in the
 * cache, and a long text of which few tokens are kept is not read to its end. Long texts for MeCab are cut
 * behind sentences. */
#include "model/tokenizer/tokenizer_internal.h"

#include "model/tokenizer/unicode.h"

#include <assert.h>
#include <stdlib.h>

/* A token takes about four bytes in most texts, with its space. So a stretch of that many bytes for each
 * missing piece leaves little to find. */
enum { STRETCH_MIN = 64, STRETCH_MAX = 4096, TOKEN_BYTES = 4 };

/* One text on its way. */
typedef struct passage {
    const hs_tokenizer *tokenizer;
    uint8_t skipped;             /* tokens with these flags are ordinary text */
    hs__aligned_text normalized; /* of the current segment: the text between two added tokens, or a stretch */
    hs__aligned_text scratch[2];
    hs__split split;
    hs__pieces *pieces;
    size_t n_enough; /* stop after the word that reaches this many pieces */
    bool enough;     /* that word is complete: ignore the rest */
} passage;

/* ---- finding added tokens ---- */

/* A search for the tokens of one set in a text. */
typedef struct added_search {
    const hs__added_set *set;
    const uint8_t *flags;       /* [vocab_size] */
    uint8_t skipped;            /* tokens with these flags are treated as ordinary text */
    const unsigned char *begin; /* the start of the text */
    const unsigned char *from;  /* the next match starts here or later */
    /* The last match: */
    int32_t id;
    const unsigned char *start, *end; /* including the white space that it takes */
} added_search;

static const unsigned char *character_before(const unsigned char *at)
{
    do
        at--;
    while (hs_utf8_continues(*at));
    return at;
}

static bool is_space(const unsigned char *at)
{
    return hs__unicode_class(hs_utf8_next(&at)) & HS__SPACE;
}

static bool is_word(const unsigned char *at)
{
    return hs__unicode_kind(hs_utf8_next(&at)) & HS__WORD;
}

static bool is_single_word(const added_search *search, const unsigned char *end)
{
    return !(search->start > search->begin && is_word(character_before(search->start))) &&
           !(search->end < end && is_word(search->end));
}

static void strip(added_search *search, uint8_t flags, const unsigned char *at, const unsigned char *end)
{
    if (flags & HS__ADDED_LSTRIP)
        while (search->start > at && is_space(character_before(search->start)))
            search->start = character_before(search->start);
    if (flags & HS__ADDED_RSTRIP)
        while (search->end < end && is_space(search->end)) {
            const unsigned char *next = search->end;
            hs_utf8_next(&next);
            search->end = next;
        }
}

/* Returns true if a token is at search->from, and moves past it. A skipped token and a failed single word
 * return false, but the oracle's search continues after them. */
static bool match(added_search *search, const unsigned char *at, const unsigned char *end)
{
    size_t n_bytes = 1;
    search->id = hs__trie_longest(&search->set->trie, HS__TRIE_ROOT, search->from,
                                  (size_t)(end - search->from), &n_bytes);
    search->start = search->from;
    search->from += n_bytes;
    search->end = search->from;
    if (search->id < 0)
        return false;
    const uint8_t flags = search->flags[search->id];
    if ((flags & search->skipped) || ((flags & HS__ADDED_SINGLE_WORD) && !is_single_word(search, end)))
        return false;
    strip(search, flags, at, end);
    return true;
}

/* Finds the next token that starts before `stop`; it may reach up to `end`. It takes white space back to `at`
 * at most. A token after white space that another one has taken may start before `at`, as in the oracle. */
static bool added_search_next(added_search *search, const unsigned char *at, const unsigned char *stop,
                              const unsigned char *end)
{
    while (search->from < stop) {
        if (!search->set->starts[*search->from])
            search->from++;
        else if (match(search, at, end))
            return true;
    }
    return false;
}

/* ---- words ---- */

static bool part_split(const hs__part *part, hs__split *split)
{
    const hs__aligned_text *from = split->text;
    hs__aligned_text *to = &split->rewritten[from == &split->rewritten[0]];
    const hs__spans uncut = split->words;
    split->words = split->uncut;
    split->uncut = uncut;
    split->words.n = 0;
    to->n_bytes = 0;
    bool ok = true;
    for (size_t i = 0; i < uncut.n && ok; i++)
        ok = part->type->split(part, from, uncut.items[i], to, &split->words);
    if (part->type->rewrites)
        split->text = to;
    return ok && hs__aligned_text_fits(to);
}

/* Cuts split->words by each part in turn. Returns false if memory is short or a rewritten text is over its
 * limit. */
static bool cut_words(const hs__parts *parts, hs__split *split)
{
    bool ok = true;
    for (size_t i = 0; ok && i < parts->n; i++)
        ok = part_split(parts->items[i], split);
    return ok;
}

/* Cuts bytes [start, end) of the normalised segment by each pre-tokenizer in turn. A rewritten text has the
 * same size limit as a normalised one. */
static bool split_words(passage *p, size_t start, size_t end)
{
    p->split.text = &p->normalized;
    p->split.words.n = 0;
    return hs__spans_put(&p->split.words, start, end) &&
           cut_words(&p->tokenizer->stages[HS__PRE_TOKENIZER], &p->split);
}

/* Removes white space, or its substitute, at both ends of a token from its offsets. Counts in characters. */
static void trim_spaces(const hs__trim *trim, bool first, const unsigned char *at, const unsigned char *end,
                        hs__range *range)
{
    uint32_t lead = 0;
    uint32_t trail = 0; /* characters since the last that is not a space */
    bool only_spaces = true;
    while (at < end) {
        const uint32_t code_point = hs_utf8_next(&at);
        const bool space = code_point == 0x120 || (hs__unicode_class(code_point) & HS__SPACE);
        trail = space ? trail + 1 : 0;
        only_spaces &= space;
        lead += only_spaces;
    }
    const bool was_put = trim->keeps_first && lead == 1 && (first || range->start == 0);
    if (!was_put)
        range->start = range->start + lead < range->end ? range->start + lead : range->end;
    if (range->end >= trail)
        range->end = range->end - trail > range->start ? range->end - trail : range->start;
}

/* Trims the pieces of a word, from number n on. */
static void trim_pieces(const passage *p, size_t n)
{
    for (; n < p->pieces->n; n++) {
        hs__piece *piece = hs__piece_at(p->pieces, n);
        if (!piece)
            continue;
        const unsigned char *text = (const unsigned char *)hs_tokenizer_token(p->tokenizer, piece->id);
        trim_spaces(&p->tokenizer->trim, n == 0, text, text + strlen((const char *)text), &piece->source);
    }
}

/* Cuts bytes [start, end) of the normalised segment into words, and words into pieces. */
static bool words_put(passage *p, size_t start, size_t end)
{
    const hs__part *model = p->tokenizer->stages[HS__MODEL].items[0];
    if (!split_words(p, start, end))
        return false;
    for (size_t i = 0; i < p->split.words.n && !p->enough; i++) {
        const size_t n = p->pieces->n;
        if (!model->type->tokenize(model, p->split.text, p->split.words.items[i], p->pieces))
            return false;
        if (p->tokenizer->trim.spaces)
            trim_pieces(p, n);
        p->pieces->word++;
        p->enough = p->pieces->n >= p->n_enough;
    }
    return true;
}

/* Puts an added token as a separate word; it was found as `start` to `end`. As in the oracle, it counts
 * towards n_enough only when the next word ends. */
static bool added_put(passage *p, const added_search *found, hs__range source)
{
    if (p->enough)
        return true;
    const hs__trim *trim = &p->tokenizer->trim;
    if (trim->spaces)
        trim_spaces(trim, p->pieces->n == 0, found->start, found->end, &source);
    const bool ok = hs__pieces_put(p->pieces, found->id, source);
    p->pieces->word++;
    return ok;
}

/* ---- segments ---- */

static added_search search_in(const passage *p, const hs__added_set *set, const unsigned char *bytes)
{
    return (added_search){.set = set,
                          .flags = p->tokenizer->vocabulary.added.flags,
                          .skipped = p->skipped,
                          .begin = bytes,
                          .from = bytes};
}

/* Cuts the added tokens out of the normalised segment and the text between them into words. */
static bool normalized_put(passage *p)
{
    const unsigned char *bytes = p->normalized.bytes;
    const unsigned char *end = bytes + p->normalized.n_bytes;
    const unsigned char *at = bytes;
    added_search search = search_in(p, &p->tokenizer->vocabulary.added.normalized, bytes);
    bool ok = true;
    while (ok && !p->enough && added_search_next(&search, at, end, end)) {
        const hs__range *sources = p->normalized.sources;
        if (search.start > at)
            ok = words_put(p, (size_t)(at - bytes), (size_t)(search.start - bytes));
        ok = ok &&
             added_put(p, &search,
                       (hs__range){sources[search.start - bytes].start, sources[search.end - bytes - 1].end});
        at = search.end;
    }
    return ok && (p->enough || words_put(p, (size_t)(at - bytes), p->normalized.n_bytes));
}

static bool segment_put(passage *p, const unsigned char *bytes, size_t n_bytes, uint32_t first)
{
    const hs__text_view view = {.bytes = bytes, .n_bytes = n_bytes, .first = first};
    p->normalized.n_bytes = p->split.rewritten[0].n_bytes = p->split.rewritten[1].n_bytes = 0;
    p->split.rewritten[0].bytes_max = p->split.rewritten[1].bytes_max = hs__aligned_text_limit(n_bytes);
    if (!hs__parts_normalize(&p->tokenizer->stages[HS__NORMALIZER], &view, p->scratch, &p->normalized))
        return false;
    if (!p->tokenizer->vocabulary.added.normalized.any || !p->normalized.n_bytes)
        return words_put(p, 0, p->normalized.n_bytes);
    return normalized_put(p);
}

/* ---- the text ---- */

static bool all_cut_at_punctuation(const hs__parts *parts)
{
    for (size_t i = 0; i < parts->n; i++)
        if (!parts->items[i]->type->cuts_at_punctuation)
            return false;
    return parts->n > 0;
}

/* Returns true if a text may be processed in stretches. A token that matches normalised text could cross a
 * cut, and a token that looks at its neighbours could look past it. */
static bool has_stretches(const hs_tokenizer *tokenizer)
{
    return all_cut_at_punctuation(&tokenizer->stages[HS__NORMALIZER]) &&
           all_cut_at_punctuation(&tokenizer->stages[HS__PRE_TOKENIZER]) &&
           !tokenizer->vocabulary.added.normalized.any && !tokenizer->vocabulary.added.looks_around;
}

/* Returns the size of the next stretch, from the number of missing pieces. */
static size_t stretch_bytes(const passage *p)
{
    const size_t n_missing = p->n_enough > p->pieces->n ? p->n_enough - p->pieces->n : 0;
    if (n_missing <= STRETCH_MIN / TOKEN_BYTES)
        return STRETCH_MIN;
    return n_missing < STRETCH_MAX / TOKEN_BYTES ? n_missing * TOKEN_BYTES : STRETCH_MAX;
}

/* Returns the end of a stretch at `at`: after the first white space or punctuation beyond n_bytes. */
static const unsigned char *stretch_end(const unsigned char *at, const unsigned char *end, size_t n_bytes)
{
    if ((size_t)(end - at) <= n_bytes)
        return end;
    at += n_bytes;
    while (hs_utf8_continues(*at))
        at--;
    while (at < end) {
        const unsigned class = hs__unicode_class(hs_utf8_next(&at));
        if ((class & (HS__SPACE | HS__PUNCTUATION)) && !(class & HS__DROPPED))
            break;
    }
    return at;
}

/* Returns the most bytes that the pre-tokenizers should get at once. */
static size_t enough_bytes(const hs_tokenizer *tokenizer)
{
    const hs__parts *stage = &tokenizer->stages[HS__PRE_TOKENIZER];
    size_t enough = SIZE_MAX;
    for (size_t i = 0; i < stage->n; i++)
        if (stage->items[i]->type->enough_bytes && stage->items[i]->type->enough_bytes < enough)
            enough = stage->items[i]->type->enough_bytes;
    return enough;
}

static bool ends_sentence(uint32_t code_point)
{
    static const uint32_t ends[] = {'\n', 0x3002, 0xFF0E, 0xFF01, 0xFF1F, '!', '?'};
    size_t i = 0;
    while (i < sizeof ends / sizeof *ends && ends[i] != code_point)
        i++;
    return i < sizeof ends / sizeof *ends;
}

static bool ends_word(uint32_t code_point)
{
    return hs__unicode_class(code_point) & (HS__SPACE | HS__PUNCTUATION);
}

/* Returns the end of a stretch at `at`, of n_bytes and at most half as many again. It stands after the first
 * end of a sentence beyond n_bytes. If there is none, it stands after white space or punctuation, or
 * anywhere. */
static const unsigned char *sentences_end(const unsigned char *at, const unsigned char *end, size_t n_bytes)
{
    static bool (*const ends[])(uint32_t code_point) = {ends_sentence, ends_word};
    if ((size_t)(end - at) <= n_bytes)
        return end;
    const unsigned char *first = at + n_bytes;
    while (hs_utf8_continues(*first))
        first--;
    const unsigned char *limit = (size_t)(end - first) > n_bytes / 2 ? first + n_bytes / 2 : end;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        for (const unsigned char *next = first; next < limit;)
            if (ends[i](hs_utf8_next(&next)))
                return next;
    while (limit < end && hs_utf8_continues(*limit))
        limit--;
    return limit;
}

static uint32_t count_chars(const unsigned char *start, const unsigned char *end)
{
    return (uint32_t)hs_utf8_count((const char *)start, (size_t)(end - start));
}

/* Moves `at` and its number of code points forwards or backwards. */
static void move(const unsigned char **at, uint32_t *index, const unsigned char *to)
{
    *index = to < *at ? *index - count_chars(to, *at) : *index + count_chars(*at, to);
    *at = to;
}

static bool passage_run(passage *p, const hs_text *text)
{
    const bool stretches = has_stretches(p->tokenizer);
    const size_t n_enough = enough_bytes(p->tokenizer);
    const unsigned char *at = (const unsigned char *)(text->n_bytes ? text->bytes : "");
    const unsigned char *end = at + text->n_bytes;
    added_search search = search_in(p, &p->tokenizer->vocabulary.added.raw, at);
    uint32_t index = 0; /* code points before `at` */
    bool ok = true;
    while ((at < end || search.from < end) && ok && !p->enough) {
        const unsigned char *stretch =
            stretches ? stretch_end(at, end, stretch_bytes(p)) : sentences_end(at, end, n_enough);
        const bool hit = added_search_next(&search, at, stretch, end);
        const unsigned char *stop = hit ? search.start : stretch;
        ok = stop <= at || segment_put(p, at, (size_t)(stop - at), index);
        move(&at, &index, stop);
        if (ok && hit) {
            const uint32_t start = index;
            move(&at, &index, search.end);
            ok = added_put(p, &search, (hs__range){start, index});
        }
    }
    return ok;
}

/* Sets the word of all pieces from number n on. */
static void pieces_name(hs__pieces *pieces, size_t n, size_t word)
{
    for (size_t i = n; i < pieces->n; i++) {
        hs__piece *piece = hs__piece_at(pieces, i);
        if (piece)
            piece->word = (int32_t)word;
    }
}

static bool is_too_long(const passage *p)
{
    return p->normalized.too_long || p->scratch[0].too_long || p->scratch[1].too_long ||
           p->split.rewritten[0].too_long || p->split.rewritten[1].too_long;
}

/* Returns how many pieces are enough: as many as the oracle reads, and more than are kept, so that a cut text
 * is known to be one. The two differ by the special tokens. */
static size_t enough_pieces(size_t tokens_max, size_t n_kept)
{
    return tokens_max == n_kept && n_kept < SIZE_MAX ? n_kept + 1 : tokens_max;
}

static void split_finish(hs__split *split)
{
    free(split->words.items);
    free(split->uncut.items);
    hs__aligned_text_finish(&split->rewritten[0]);
    hs__aligned_text_finish(&split->rewritten[1]);
}

/* Finds the pieces of one text, or of n_texts > 0 separate words. */
static hs_status pieces_find(const hs_tokenizer *tokenizer, const hs_text *texts, size_t n_texts, bool words,
                             const hs_encode_options *options, hs__pieces *pieces, hs_error *err)
{
    passage p = {
        .tokenizer = tokenizer,
        .skipped = options->split_special_tokens || tokenizer->splits_special ? HS__ADDED_SPECIAL : 0,
        .pieces = pieces,
        .n_enough = pieces->keeps_last ? SIZE_MAX : enough_pieces(options->tokens_max, pieces->n_kept)};
    bool ok = true;
    for (size_t i = 0; i < n_texts && ok && !p.enough; i++) {
        const size_t n = pieces->n;
        ok = passage_run(&p, &texts[i]);
        if (words)
            pieces_name(pieces, n, i);
    }
    const bool too_long = is_too_long(&p);
    hs__aligned_text_finish(&p.normalized);
    hs__aligned_text_finish(&p.scratch[0]);
    hs__aligned_text_finish(&p.scratch[1]);
    split_finish(&p.split);
    if (too_long)
        return hs_fail(
            err, HS_TOO_LARGE,
            "this model's normalizers and pre-tokenizers make the text over %d times as long; send a "
            "shorter text",
            HS__TEXT_GROWTH_MIN);
    return ok ? HS_OK : hs_fail(err, HS_NO_MEMORY, "out of memory");
}

/* ---- the encoding ---- */

static hs_status check_text(const hs_text *text, const char *name, hs_error *err)
{
    if (text->n_bytes > INT32_MAX)
        return hs_fail(err, HS_TOO_LARGE, "%s has %zu bytes, more than %d", name, text->n_bytes, INT32_MAX);
    const size_t valid = hs_utf8_valid(text->bytes, text->n_bytes);
    if (valid < text->n_bytes)
        return hs_fail(err, HS_BAD_REQUEST, "%s is not valid UTF-8 at byte %zu", name, valid);
    return HS_OK;
}

/* Truncates longest first, as the oracle does: the shorter text keeps up to half of the tokens, the longer
 * one gets the rest. */
static void truncate_longest(size_t n_text_max, size_t n[2])
{
    if (n[0] + n[1] <= n_text_max)
        return;
    const size_t shorter = n[0] > n[1] ? 1 : 0;
    if (n[shorter] > n_text_max / 2)
        n[shorter] = n_text_max / 2;
    n[1 - shorter] = n_text_max - n[shorter];
}

static bool allocate(size_t n_tokens, hs_encoding *ret)
{
    *ret = (hs_encoding){0};
    char *block = malloc((n_tokens + 1) * (2 * sizeof(int32_t) + 2 * sizeof(uint32_t) + 4));
    if (!block)
        return false;
    ret->ids = (int32_t *)(void *)block;
    ret->word_ids = ret->ids + n_tokens;
    ret->starts = (uint32_t *)(void *)(ret->word_ids + n_tokens);
    ret->ends = ret->starts + n_tokens;
    ret->types = (uint8_t *)(ret->ends + n_tokens);
    ret->texts = ret->types + n_tokens;
    ret->special = ret->texts + n_tokens;
    ret->roles = ret->special + n_tokens;
    return true;
}

static void put_token(const hs_tokenizer *tokenizer, hs_encoding *encoding, const hs__piece *piece,
                      const hs__template_step *step, bool special)
{
    const size_t i = encoding->n_tokens++;
    encoding->ids[i] = piece->id;
    encoding->word_ids[i] = piece->word;
    encoding->starts[i] = piece->source.start;
    encoding->ends[i] = piece->source.end;
    encoding->types[i] = step->type;
    encoding->texts[i] = step->text;
    encoding->special[i] = special;
    encoding->roles[i] = (uint8_t)hs_tokenizer_role(tokenizer, piece->id);
}

/* Refuses a token that the embedding has no row for. */
static hs_status check_rows(const hs_tokenizer *tokenizer, const hs_encoding *encoding, hs_error *err)
{
    for (size_t i = 0; i < encoding->n_tokens; i++)
        if ((size_t)encoding->ids[i] >= tokenizer->n_rows)
            return hs_fail(
                err, HS_INVALID,
                "the text has the token '%.64s' with id %d, for which the model has no embedding: it "
                "has %zu rows. Take the token out of the text, or set split_special_tokens",
                hs_tokenizer_token(tokenizer, encoding->ids[i]), encoding->ids[i], tokenizer->n_rows);
    return HS_OK;
}

/* Assembles the first n[k] pieces of each text, or the last ones with keeps_last, by the steps of the form.
 */
static hs_status assemble(const hs_tokenizer *tokenizer, const hs__template_form *form,
                          const hs__pieces pieces[2], const size_t n[2], int32_t language,
                          hs_encoding *ret_encoding, hs_error *err)
{
    hs_encoding encoding;
    if (!allocate(form->n_special + n[0] + n[1], &encoding))
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    for (size_t k = 0; k < form->n_steps; k++) {
        const hs__template_step *step = &form->steps[k];
        const bool other = language && hs__is_language(tokenizer, step->id);
        const hs__piece special = {.id = other ? language : step->id, .word = -1};
        if (step->id >= 0)
            put_token(tokenizer, &encoding, &special, step, true);
        const hs__pieces *of = &pieces[step->text];
        const size_t first = of->keeps_last ? of->n - n[step->text] : 0;
        for (size_t i = 0; step->id < 0 && i < n[step->text]; i++)
            put_token(tokenizer, &encoding, hs__piece_at(of, first + i), step, false);
    }
    const hs_status st = check_rows(tokenizer, &encoding, err);
    if (st)
        hs_encoding_finish(&encoding);
    else
        *ret_encoding = encoding;
    return st;
}

static const hs__template_form *form_of(const hs_tokenizer *tokenizer, bool pair)
{
    return &tokenizer->template->forms[pair];
}

size_t hs_tokenizer_frame(const hs_tokenizer *tokenizer, int32_t ret_ids[HS_FRAME_MAX], size_t *ret_n_before)
{
    const hs__template_form *form = form_of(tokenizer, false);
    size_t n = 0;
    for (size_t k = 0; k < form->n_steps; k++)
        if (form->steps[k].id < 0)
            *ret_n_before = n;
        else
            ret_ids[n++] = form->steps[k].id;
    return n;
}

/* Counts the tokens of a text, all of them or up to the word that reaches n_enough. */
static hs_status tokens_count(const hs_tokenizer *tokenizer, const hs_text *text, size_t n_enough,
                              const hs_encode_options *options, size_t *ret_n, hs_error *err)
{
    hs_encode_options enough = *options;
    hs__pieces none = {.n_kept = 0};
    enough.tokens_max = n_enough;
    const hs_status st = pieces_find(tokenizer, text, 1, false, &enough, &none, err);
    *ret_n = none.n;
    return st;
}

/* Finds which of two texts is longer, where each has more tokens than both keep. The text of fewer bytes is
 * counted to its end, the other one until it is longer. */
static hs_status longer_find(const hs_tokenizer *tokenizer, const hs_text *text, const hs_text *pair,
                             const hs_encode_options *options, size_t n[2], hs_error *err)
{
    assert(text && pair);
    const hs_text *const texts[2] = {text, pair};
    const size_t brief = pair->n_bytes < text->n_bytes;
    const hs_status st = tokens_count(tokenizer, texts[brief], SIZE_MAX, options, &n[brief], err);
    return st ? st : tokens_count(tokenizer, texts[1 - brief], n[brief] + 1, options, &n[1 - brief], err);
}

/* Each text is read up to the word that reaches tokens_max, or to its end if it loses its beginning. Only the
 * odd token of a pair depends on which text is longer. */
hs_status hs_tokenizer_encode(const hs_tokenizer *tokenizer, const hs_text *text, const hs_text *pair,
                              const hs_encode_options *options, hs_encoding *ret_encoding, hs_error *err)
{
    const hs__template_form *form = form_of(tokenizer, pair != NULL);
    if (options->tokens_max < form->n_special)
        return hs_fail(err, HS_INVALID, "max_tokens is %zu; this model's special tokens alone take %zu",
                       options->tokens_max, form->n_special);
    const size_t n_text_max = options->tokens_max - form->n_special;
    const hs__pieces empty = {.n_kept = n_text_max, .keeps_last = tokenizer->cuts_left};
    hs__pieces pieces[2] = {empty, empty};
    hs_status st = check_text(text, "the text", err);
    if (!st && pair)
        st = check_text(pair, "the second text", err);
    if (!st)
        st = pieces_find(tokenizer, text, 1, false, options, &pieces[0], err);
    if (!st && pair)
        st = pieces_find(tokenizer, pair, 1, false, options, &pieces[1], err);
    size_t n[2] = {pieces[0].n, pieces[1].n};
    if (!st && !tokenizer->cuts_left && n[0] > n_text_max && n[1] > n_text_max && n_text_max % 2 == 1)
        st = longer_find(tokenizer, text, pair, options, n, err);
    const size_t n_all = n[0] + n[1];
    truncate_longest(n_text_max, n);
    if (!st)
        st = assemble(tokenizer, form, pieces, n, options->language, ret_encoding, err);
    if (!st)
        ret_encoding->truncated = n[0] + n[1] < n_all;
    free(pieces[0].items);
    free(pieces[1].items);
    return st;
}

hs_status hs_tokenizer_encode_words(const hs_tokenizer *tokenizer, const hs_text *words, size_t n_words,
                                    const hs_encode_options *options, hs_encoding *ret_encoding,
                                    hs_error *err)
{
    const hs__template_form *form = form_of(tokenizer, false);
    hs_status st = HS_OK;
    if (options->tokens_max < form->n_special)
        return hs_fail(err, HS_INVALID, "max_tokens is %zu; this model's special tokens alone take %zu",
                       options->tokens_max, form->n_special);
    const size_t n_text_max = options->tokens_max - form->n_special;
    hs__pieces pieces[2] = {{.n_kept = n_text_max, .keeps_last = tokenizer->cuts_left}, {.n = 0}};
    for (size_t i = 0; i < n_words && !st; i++)
        st = check_text(&words[i], "a word", err);
    if (!st)
        st = pieces_find(tokenizer, words, n_words, true, options, &pieces[0], err);
    const size_t n[2] = {pieces[0].n < n_text_max ? pieces[0].n : n_text_max, 0};
    if (!st)
        st = assemble(tokenizer, form, pieces, n, options->language, ret_encoding, err);
    if (!st)
        ret_encoding->truncated = n[0] < pieces[0].n;
    free(pieces[0].items);
    return st;
}

hs_status hs_tokenizer_encode_ids(const hs_tokenizer *tokenizer, const int32_t *ids, const uint8_t *types,
                                  size_t n_ids, hs_encoding *ret_encoding, hs_error *err)
{
    hs_encoding encoding;
    if (!allocate(n_ids, &encoding))
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < n_ids; i++) {
        const hs__piece piece = {.id = ids[i], .word = -1};
        const hs_role role = hs_tokenizer_role(tokenizer, ids[i]);
        const bool special = role == HS_ROLE_FIRST || role == HS_ROLE_SEPARATOR ||
                             ids[i] == hs_tokenizer_special_ids(tokenizer)->pad;
        const uint8_t type = types ? types[i] : 0;
        const hs__template_step step = {.text = type != 0, .type = type};
        put_token(tokenizer, &encoding, &piece, &step, special);
    }
    *ret_encoding = encoding;
    return HS_OK;
}

void hs_encoding_finish(hs_encoding *encoding)
{
    free(encoding->ids);
    *encoding = (hs_encoding){0};
}

/* ---- windows ---- */

/* Returns the number of tokens before the text, or before the second text of a pair. */
static size_t before_count(const hs_encoding *whole)
{
    const bool is_pair = whole->n_tokens && whole->texts[whole->n_tokens - 1];
    size_t n = 0;
    while (n < whole->n_tokens && (whole->special[n] || (is_pair && !whole->texts[n])))
        n++;
    return n;
}

static size_t after_count(const hs_encoding *whole, size_t n_before)
{
    size_t n = 0;
    while (n < whole->n_tokens - n_before && whole->special[whole->n_tokens - 1 - n])
        n++;
    return n;
}

hs_status hs_windows_plan(const hs_encoding *whole, size_t tokens_max, size_t stride, hs_windows *ret,
                          hs_error *err)
{
    const size_t n_before = before_count(whole), n_after = after_count(whole, n_before);
    const size_t n_text = whole->n_tokens - n_before - n_after;
    *ret = (hs_windows){.n_before = n_before, .n_after = n_after, .end = n_before + n_text, .n = 1};
    if (whole->truncated)
        return hs_fail(err, HS_TOO_LARGE, "more than %zu tokens: cut it into several texts",
                       HS_WINDOWS_TOKENS_MAX);
    if (whole->n_tokens <= tokens_max) {
        ret->size = ret->step = n_text;
        return HS_OK;
    }
    if (tokens_max <= n_before + n_after + stride)
        return hs_fail(
            err, HS_INVALID,
            "%zu of max_tokens %zu go to what is in each window, which leaves too few for a stride "
            "of %zu",
            n_before + n_after, tokens_max, stride);
    ret->size = tokens_max - n_before - n_after;
    ret->step = ret->size - stride;
    if (n_text > ret->size)
        ret->n += (n_text - ret->size + ret->step - 1) / ret->step;
    return HS_OK;
}

/* Appends tokens of another encoding. */
static void tokens_append(hs_encoding *to, const hs_encoding *from, size_t first, size_t n)
{
    const size_t at = to->n_tokens;
    to->n_tokens += n;
    memcpy(to->ids + at, from->ids + first, n * sizeof *to->ids);
    memcpy(to->word_ids + at, from->word_ids + first, n * sizeof *to->word_ids);
    memcpy(to->starts + at, from->starts + first, n * sizeof *to->starts);
    memcpy(to->ends + at, from->ends + first, n * sizeof *to->ends);
    memcpy(to->types + at, from->types + first, n);
    memcpy(to->texts + at, from->texts + first, n);
    memcpy(to->special + at, from->special + first, n);
    memcpy(to->roles + at, from->roles + first, n);
}

hs_status hs_encoding_begin(const hs_tokenizer *tokenizer, int32_t id, hs_encoding *encoding, hs_error *err)
{
    const hs__piece first = {.id = id, .word = -1};
    const hs__template_step step = {.type = 0};
    hs_encoding longer;
    if (!allocate(encoding->n_tokens + 1, &longer))
        return hs_fail(err, HS_NO_MEMORY, "no memory for the tokens");
    put_token(tokenizer, &longer, &first, &step, true);
    tokens_append(&longer, encoding, 0, encoding->n_tokens);
    longer.truncated = encoding->truncated;
    hs_encoding_finish(encoding);
    *encoding = longer;
    return HS_OK;
}

hs_status hs_window_make(const hs_windows *windows, const hs_encoding *whole, size_t w, hs_encoding *ret,
                         hs_error *err)
{
    const size_t first = windows->n_before + w * windows->step;
    const size_t n = windows->end - first < windows->size ? windows->end - first : windows->size;
    if (!allocate(windows->n_before + n + windows->n_after, ret))
        return hs_fail(err, HS_NO_MEMORY, "no memory for a window of a text");
    tokens_append(ret, whole, 0, windows->n_before);
    tokens_append(ret, whole, first, n);
    tokens_append(ret, whole, windows->end, windows->n_after);
    ret->truncated = ret->n_tokens < whole->n_tokens;
    return HS_OK;
}
