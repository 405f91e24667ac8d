/* tokenizer.c - hs_tokenizer from what its files say; pieces of one or two texts to an hs_encoding. */
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/tokenizer_create.h"
#include "model/tokenizer/tokenizer_internal.h"
#include "model/tokenizer/unicode.h"
#include "model/utf8.h"

#include <stdlib.h>
#include <string.h>

/* ---- create ---- */

static int32_t find(const hs__trie *trie, const char *text, size_t n_bytes)
{
    if (!trie->n_nodes)
        return -1;
    const uint32_t node = hs__trie_walk(trie, HS__TRIE_ROOT, text, n_bytes);
    return node == HS__TRIE_NONE ? -1 : trie->id[node];
}

/* The file that named an added token, for messages. */
static const char *added_file(const hs__tokenizer_spec *spec)
{
    return spec->json ? "tokenizer.json" : "tokenizer_config.json";
}

/* Stores a NUL-terminated copy of the token's text. A vocabulary may list a text twice, but an id has one. */
static hs_status store_text(hs_tokenizer *tokenizer, const hs__tokenizer_spec *spec, const hs__token *token,
                            size_t *used, hs_error *err)
{
    if (tokenizer->text_at[token->id] != UINT32_MAX) {
        const char *stored = tokenizer->texts + tokenizer->text_at[token->id];
        if (strlen(stored) == token->n_bytes && memcmp(stored, token->text, token->n_bytes) == 0)
            return HS_OK;
        return hs_fail(err, HS_BAD_MODEL, "%s: the tokens '%.64s' and '%.*s' have the same id, %d",
                       added_file(spec), stored, token->n_bytes < 64 ? (int)token->n_bytes : 64, token->text,
                       token->id);
    }
    tokenizer->text_at[token->id] = (uint32_t)*used;
    memcpy(tokenizer->texts + *used, token->text, token->n_bytes);
    tokenizer->texts[*used + token->n_bytes] = '\0';
    *used += (size_t)token->n_bytes + 1;
    return HS_OK;
}

static hs_status store_texts(hs_tokenizer *tokenizer, const hs__tokenizer_spec *spec, hs_error *err)
{
    size_t n_bytes = 1;
    for (size_t i = 0; i < spec->n_vocab; i++)
        n_bytes += (size_t)spec->vocab[i].n_bytes + 1;
    for (size_t i = 0; i < spec->n_added; i++)
        n_bytes += (size_t)spec->added[i].token.n_bytes + 1;
    tokenizer->texts = malloc(n_bytes);
    tokenizer->text_at = malloc(spec->vocab_size * sizeof *tokenizer->text_at);
    if (!tokenizer->texts || !tokenizer->text_at)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    memset(tokenizer->text_at, 0xFF, spec->vocab_size * sizeof *tokenizer->text_at);
    size_t used = 0;
    hs_status st = HS_OK;
    for (size_t i = 0; !st && i < spec->n_vocab; i++)
        st = store_text(tokenizer, spec, &spec->vocab[i], &used, err);
    for (size_t i = 0; !st && i < spec->n_added; i++)
        st = store_text(tokenizer, spec, &spec->added[i].token, &used, err);
    return st;
}

/* The added token as it looks in normalised text. The caller frees *ret_text. */
static hs_status normalize_token(const hs_tokenizer *tokenizer, const hs__tokenizer_spec *spec,
                                 hs__token *token, char **ret_text, hs_error *err)
{
    const hs_text text = {token->text, token->n_bytes};
    size_t n_bytes = 0;
    const hs_status st = hs__text_normalize(tokenizer, &text, ret_text, &n_bytes, err);
    if (st)
        return st;
    if (!n_bytes)
        return hs_fail(err, HS_BAD_MODEL,
                       "%s: nothing is left of the added token '%.64s' when it is normalised",
                       added_file(spec), token->text);
    token->text = *ret_text;
    token->n_bytes = (uint32_t)n_bytes;
    return HS_OK;
}

/* The added tokens that are to be found in the text, or those to be found in the normalised text. */
static hs_status build_trie(const hs_tokenizer *tokenizer, const hs__tokenizer_spec *spec, bool normalized,
                            hs__trie *ret_trie, hs_error *err)
{
    hs__token *tokens = calloc(spec->n_added + 1, sizeof *tokens);
    char **texts = calloc(spec->n_added + 1, sizeof *texts);
    size_t n = 0;
    hs_status st = HS_OK;
    if (!tokens || !texts) {
        st = HS_NO_MEMORY;
        hs_fail(err, st, "out of memory");
        goto out;
    }
    for (size_t i = 0; !st && i < spec->n_added; i++) {
        if (spec->added[i].normalized != normalized)
            continue;
        tokens[n] = spec->added[i].token;
        if (normalized)
            st = normalize_token(tokenizer, spec, &tokens[n], &texts[n], err);
        n++;
    }
    if (!st)
        st = hs__trie_build(tokens, n, ret_trie, err);
out:
    for (size_t i = 0; i < n; i++)
        free(texts[i]);
    free(texts);
    free(tokens);
    return st;
}

/* Gives every added token its id; those without are left out. The vocabulary must not say otherwise. */
static hs_status resolve_added(const hs_tokenizer *tokenizer, hs__tokenizer_spec *spec, hs_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < spec->n_added; i++) {
        hs__added_token added = spec->added[i];
        const int32_t id = find(&tokenizer->vocab, added.token.text, added.token.n_bytes);
        if (added.token.id < 0)
            added.token.id = id;
        if (id >= 0 && id != added.token.id)
            return hs_fail(err, HS_BAD_MODEL,
                           "%s: the added token '%.64s' has id %d, but the vocabulary has it with id %d",
                           added_file(spec), added.token.text, added.token.id, id);
        if (added.token.id >= 0)
            spec->added[n++] = added;
    }
    spec->n_added = n;
    return HS_OK;
}

static hs_status build_added(hs_tokenizer *tokenizer, const hs__tokenizer_spec *spec, hs_error *err)
{
    tokenizer->added_special = calloc(spec->vocab_size, sizeof *tokenizer->added_special);
    hs__token *names = calloc(spec->n_added + 1, sizeof *names);
    hs_status st = HS_OK;
    if (!tokenizer->added_special || !names) {
        st = HS_NO_MEMORY;
        hs_fail(err, st, "out of memory");
        goto out;
    }
    for (size_t i = 0; i < spec->n_added; i++) {
        names[i] = spec->added[i].token;
        tokenizer->added_special[names[i].id] |= spec->added[i].special;
        if (!spec->added[i].normalized)
            tokenizer->kinds[(uint8_t)names[i].text[0]] |= HS__KIND_ADDED;
    }
    st = hs__trie_build(names, spec->n_added, &tokenizer->added_names, err);
    if (!st)
        st = build_trie(tokenizer, spec, false, &tokenizer->added, err);
    if (!st)
        st = build_trie(tokenizer, spec, true, &tokenizer->added_normalized, err);
out:
    free(names);
    return st;
}

/* What can be decided about ASCII without looking further. */
static void classify_ascii(hs_tokenizer *tokenizer)
{
    for (unsigned char c = 0; c < 128; c++) {
        const unsigned class = hs__unicode_class(c);
        tokenizer->lower[c] = tokenizer->lowercase ? (uint8_t)hs__unicode_lower(c) : c;
        if (tokenizer->clean_text && (class & HS__DROPPED))
            continue;
        if (class & HS__SPACE)
            tokenizer->kinds[c] |= HS__KIND_SPACE;
        else if (!(class & HS__PUNCTUATION))
            tokenizer->kinds[c] |= HS__KIND_LETTER;
    }
}

/* Ids of the special tokens; the first three must exist. */
static hs_status find_special(hs_tokenizer *tokenizer, const hs__tokenizer_spec *spec, hs_error *err)
{
    const struct {
        const char *text;
        int32_t *ret_id;
        bool required;
    } list[] = {
        {spec->cls, &tokenizer->special.cls, true},    {spec->sep, &tokenizer->special.sep, true},
        {spec->unk, &tokenizer->special.unk, true},    {spec->pad, &tokenizer->special.pad, false},
        {spec->mask, &tokenizer->special.mask, false},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        *list[i].ret_id = hs_tokenizer_id(tokenizer, list[i].text, strlen(list[i].text));
        if (*list[i].ret_id < 0 && list[i].required)
            return hs_fail(err, HS_BAD_MODEL, "%s: the vocabulary has no token '%.64s'",
                           spec->json ? "tokenizer.json" : "vocab.txt", list[i].text);
    }
    return HS_OK;
}

/* How vocabularies write the space before a word. */
static const char *without_space(const char *token)
{
    static const char *const marks[] = {" ", "\u0120", "\u2581"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strncmp(token, marks[i], strlen(marks[i])) == 0)
            return token + strlen(marks[i]);
    return token;
}

static hs_role role_of(const hs_tokenizer *tokenizer, int32_t id)
{
    if (id == tokenizer->special.cls)
        return HS_ROLE_FIRST;
    if (id == tokenizer->special.sep)
        return HS_ROLE_SEPARATOR;
    const char *text = without_space(hs_tokenizer_token(tokenizer, id));
    if (strcmp(text, ",") == 0)
        return HS_ROLE_COMMA;
    const bool is_end = strpbrk(text, ".!?") && text[strspn(text, ".!?\"')]}")] == '\0';
    return is_end ? HS_ROLE_SENTENCE_END : HS_ROLE_OTHER;
}

/* Sorts the vocabulary of the spec and resolves its added tokens. */
static hs_status build(hs_tokenizer *tokenizer, hs__tokenizer_spec *spec, hs_error *err)
{
    tokenizer->vocab_size = spec->vocab_size;
    tokenizer->word_chars_max = spec->word_chars_max;
    tokenizer->clean_text = spec->clean_text;
    tokenizer->split_ideographs = spec->split_ideographs;
    tokenizer->strip_accents = spec->strip_accents;
    tokenizer->lowercase = spec->lowercase;
    classify_ascii(tokenizer);
    hs_status st = hs__trie_build(spec->vocab, spec->n_vocab, &tokenizer->vocab, err);
    if (!st)
        st = resolve_added(tokenizer, spec, err);
    if (!st)
        st = store_texts(tokenizer, spec, err);
    if (!st)
        st = build_added(tokenizer, spec, err);
    if (!st)
        st = find_special(tokenizer, spec, err);
    if (st)
        return st;
    tokenizer->continuation =
        hs__trie_walk(&tokenizer->vocab, HS__TRIE_ROOT, spec->prefix, strlen(spec->prefix));
    for (size_t id = 0; id < tokenizer->vocab_size; id++)
        if (tokenizer->text_at[id] == UINT32_MAX)
            tokenizer->text_at[id] = tokenizer->text_at[tokenizer->special.unk];
    tokenizer->roles = malloc(tokenizer->vocab_size);
    if (!tokenizer->roles)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    for (size_t id = 0; id < tokenizer->vocab_size; id++)
        tokenizer->roles[id] = (uint8_t)role_of(tokenizer, (int32_t)id);
    return HS_OK;
}

hs_status hs__tokenizer_create(const hs_bytes *vocab, const hs_bytes *tokenizer_json,
                               const hs_bytes *tokenizer_config, size_t vocab_size,
                               hs_tokenizer **ret_tokenizer, hs_error *err)
{
    hs__tokenizer_spec spec;
    hs_tokenizer *tokenizer = NULL;
    hs_status st = hs__tokenizer_spec_read(vocab, tokenizer_json, tokenizer_config, vocab_size, &spec, err);
    if (st)
        goto out;
    tokenizer = calloc(1, sizeof *tokenizer);
    st = tokenizer ? build(tokenizer, &spec, err) : hs_fail(err, HS_NO_MEMORY, "out of memory");
    if (st)
        goto out;
    *ret_tokenizer = tokenizer;
    tokenizer = NULL;
out:
    hs__tokenizer_destroy(tokenizer);
    hs__tokenizer_spec_finish(&spec);
    return st;
}

void hs__tokenizer_destroy(hs_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    free(tokenizer->texts);
    free(tokenizer->text_at);
    free(tokenizer->added_special);
    free(tokenizer->roles);
    hs__trie_finish(&tokenizer->vocab);
    hs__trie_finish(&tokenizer->added_names);
    hs__trie_finish(&tokenizer->added);
    hs__trie_finish(&tokenizer->added_normalized);
    free(tokenizer);
}

/* ---- look up ---- */

const char *hs_tokenizer_token(const hs_tokenizer *tokenizer, int32_t id)
{
    const bool known = id >= 0 && (size_t)id < tokenizer->vocab_size;
    return tokenizer->texts + tokenizer->text_at[known ? id : tokenizer->special.unk];
}

int32_t hs_tokenizer_id(const hs_tokenizer *tokenizer, const char *token, size_t n_bytes)
{
    const int32_t id = find(&tokenizer->added_names, token, n_bytes);
    return id >= 0 ? id : find(&tokenizer->vocab, token, n_bytes);
}

size_t hs_tokenizer_vocab_size(const hs_tokenizer *tokenizer)
{
    return tokenizer->vocab_size;
}

const hs_special_ids *hs_tokenizer_special_ids(const hs_tokenizer *tokenizer)
{
    return &tokenizer->special;
}

hs_role hs_tokenizer_role(const hs_tokenizer *tokenizer, int32_t id)
{
    const bool known = id >= 0 && (size_t)id < tokenizer->vocab_size;
    return (hs_role)tokenizer->roles[known ? id : tokenizer->special.unk];
}

/* ---- encode ---- */

static hs_status check_text(const hs_text *text, const char *name, hs_error *err)
{
    if (text->n_bytes > INT32_MAX)
        return hs_fail(err, HS_TOO_LARGE, "%s has %zu bytes, more than %d", name, text->n_bytes, INT32_MAX);
    const size_t valid = hs_utf8_valid(text->bytes, text->n_bytes);
    if (valid < text->n_bytes)
        return hs_fail(err, HS_BAD_REQUEST, "%s is not valid UTF-8 at byte %zu", name, valid);
    return HS_OK;
}

/* Splits both texts up to the word that reaches tokens_max: the oracle looks no further (since its release
 * 0.23), so that of two texts that are both longer it takes neither for the longer one. */
static hs_status split_texts(const hs_tokenizer *tokenizer, const hs_text *const texts[2], size_t n_room,
                             const hs_encode_options *options, hs__pieces pieces[2], hs_error *err)
{
    for (size_t i = 0; i < 2 && texts[i]; i++) {
        pieces[i].n_kept = n_room;
        pieces[i].n_enough = options->tokens_max;
        const hs_status st =
            hs__text_split(tokenizer, texts[i], options->split_special_tokens, &pieces[i], err);
        if (st)
            return st;
    }
    return HS_OK;
}

/* Longest first, as the oracle does it: the shorter text keeps up to half of the room, the longer one gets
 * what is left. */
static void share_room(size_t n_room, size_t n[2])
{
    if (n[0] + n[1] <= n_room)
        return;
    const size_t shorter = n[0] > n[1] ? 1 : 0;
    if (n[shorter] > n_room / 2)
        n[shorter] = n_room / 2;
    n[1 - shorter] = n_room - n[shorter];
}

static bool allocate(size_t n_tokens, hs_encoding *ret)
{
    *ret = (hs_encoding){.n_tokens = n_tokens};
    char *block = malloc(n_tokens * (2 * sizeof(int32_t) + 2 * sizeof(uint32_t) + 3));
    if (!block)
        return false;
    ret->ids = (int32_t *)(void *)block;
    ret->word_ids = ret->ids + n_tokens;
    ret->starts = (uint32_t *)(void *)(ret->word_ids + n_tokens);
    ret->ends = ret->starts + n_tokens;
    ret->types = (uint8_t *)(ret->ends + n_tokens);
    ret->special = ret->types + n_tokens;
    ret->roles = ret->special + n_tokens;
    return true;
}

static void put_token(const hs_tokenizer *tokenizer, hs_encoding *encoding, const hs__piece *piece,
                      uint8_t type, bool special)
{
    const size_t i = encoding->n_tokens++;
    encoding->ids[i] = piece->id;
    encoding->word_ids[i] = piece->word;
    encoding->starts[i] = piece->start;
    encoding->ends[i] = piece->end;
    encoding->types[i] = type;
    encoding->special[i] = special;
    encoding->roles[i] = tokenizer->roles[piece->id];
}

/* [CLS] text [SEP], [CLS] text [SEP] pair [SEP] */
static hs_status assemble(const hs_tokenizer *tokenizer, const hs__pieces pieces[2], const size_t n[2],
                          size_t n_texts, hs_encoding *ret_encoding, hs_error *err)
{
    hs_encoding encoding;
    if (!allocate(1 + n[0] + n[1] + n_texts, &encoding))
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    const hs__piece cls = {tokenizer->special.cls, -1, 0, 0};
    const hs__piece sep = {tokenizer->special.sep, -1, 0, 0};
    encoding.n_tokens = 0;
    put_token(tokenizer, &encoding, &cls, 0, true);
    for (size_t text = 0; text < n_texts; text++) {
        for (size_t i = 0; i < n[text]; i++)
            put_token(tokenizer, &encoding, &pieces[text].items[i], (uint8_t)text, false);
        put_token(tokenizer, &encoding, &sep, (uint8_t)text, true);
    }
    *ret_encoding = encoding;
    return HS_OK;
}

hs_status hs_tokenizer_encode(const hs_tokenizer *tokenizer, const hs_text *text, const hs_text *pair,
                              const hs_encode_options *options, hs_encoding *ret_encoding, hs_error *err)
{
    const size_t n_texts = pair ? 2 : 1;
    const hs_text *const texts[2] = {text, pair};
    hs__pieces pieces[2] = {{0}, {0}};
    if (options->tokens_max < 1 + n_texts)
        return hs_fail(err, HS_INVALID, "there is no room for the special tokens in %zu tokens",
                       options->tokens_max);
    const size_t n_room = options->tokens_max - 1 - n_texts;
    hs_status st = check_text(text, "the text", err);
    if (!st && pair)
        st = check_text(pair, "the second text", err);
    if (!st)
        st = split_texts(tokenizer, texts, n_room, options, pieces, err);
    if (st)
        goto out;
    size_t n[2] = {pieces[0].n, pieces[1].n};
    const size_t n_all = n[0] + n[1];
    if (pair)
        share_room(n_room, n);
    else if (n[0] > n_room)
        n[0] = n_room;
    st = assemble(tokenizer, pieces, n, n_texts, ret_encoding, err);
    if (!st)
        ret_encoding->truncated = n[0] + n[1] < n_all;
out:
    free(pieces[0].items);
    free(pieces[1].items);
    return st;
}

void hs_encoding_finish(hs_encoding *encoding)
{
    free(encoding->ids);
    *encoding = (hs_encoding){0};
}
