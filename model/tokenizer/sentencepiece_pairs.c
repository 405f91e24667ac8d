/* sentencepiece_pairs.c - reads tokenizer.model, the sentencepiece BPE of Llama, Mistral, Gemma and their
 * kin. The file has pieces and no merges: two pieces are merged if what they make is a piece, too. The order
 * of merges and the handling of white space are those of transformers 5. */
#include "model/tokenizer/tokenizer_internal.h"

#include <nettle/base64.h>
#include <stdlib.h>

#define MARK      "\u2581"
#define FILE_NAME "tokenizer.model"

static hs_status no_memory(hs_error *err)
{
    return hs_fail(err, HS_NO_MEMORY, "out of memory");
}

/* Appends an item and takes its reference. Returns false if memory is short. */
static bool append(json_t *list, json_t *item)
{
    return !json_array_append_new(list, item);
}

/* Sets an entry by a text of n_bytes, at most HS__TOKEN_BYTES_MAX. Takes the reference to value. */
static bool set(json_t *object, const char *text, size_t n_bytes, json_t *value)
{
    char key[HS__TOKEN_BYTES_MAX + 1];
    memcpy(key, text, n_bytes);
    key[n_bytes] = '\0';
    return !json_object_set_new(object, key, value);
}

/* ---- merges ---- */

enum { MERGES_OF_PIECE = 16, MERGES_LEAST = 4096 }; /* Llama and Gemma have 2 for each piece */

static int by_score(const void *left, const void *right)
{
    const hs__sentencepiece *a = *(const hs__sentencepiece *const *)left;
    const hs__sentencepiece *b = *(const hs__sentencepiece *const *)right;
    const int order = (a->score < b->score) - (a->score > b->score);
    return order ? order : (a > b) - (a < b); /* pieces of one array: by their number */
}

/* Appends the pairs of entries that make the piece, the shorter first part before the longer. `merging` has
 * the texts that take part. Returns false if memory is short. */
static bool put_pairs(const hs__sentencepiece *piece, const json_t *merging, json_t *merges)
{
    char left[HS__TOKEN_BYTES_MAX + 1], right[HS__TOKEN_BYTES_MAX + 1];
    bool ok = true;
    for (size_t cut = 1; cut < piece->n_bytes && ok; cut++) {
        if (hs_utf8_continues((unsigned char)piece->text[cut]))
            continue;
        memcpy(left, piece->text, cut);
        left[cut] = '\0';
        memcpy(right, piece->text + cut, piece->n_bytes - cut);
        right[piece->n_bytes - cut] = '\0';
        if (json_object_get(merging, left) && json_object_get(merging, right))
            ok = append(merges, json_pack("[s, s]", left, right));
    }
    return ok;
}

/* Lists the merges of a model. by_scores: the best piece's come first, and normal pieces alone take part.
 * Otherwise the pieces count in their order, all of them. */
static hs_status list_merges(const hs__sentencepiece_model *model, bool by_scores, const json_t *vocab,
                             json_t *merges, hs_error *err)
{
    const hs__sentencepiece **order = calloc(model->n_pieces, sizeof(const hs__sentencepiece *));
    json_t *normal = json_object();
    size_t n = 0;
    bool ok = order && normal;
    for (size_t i = 0; i < model->n_pieces && ok; i++) {
        const hs__sentencepiece *piece = &model->pieces[i];
        if (by_scores && piece->type != HS__PIECE_NORMAL)
            continue;
        order[n++] = piece;
        ok = set(normal, piece->text, piece->n_bytes, json_true());
    }
    if (ok && by_scores)
        qsort(order, n, sizeof(const hs__sentencepiece *), by_score);
    bool many = false;
    for (size_t i = 0; i < n && ok && !many; i++) {
        ok = put_pairs(order[i], by_scores ? normal : vocab, merges);
        many = json_array_size(merges) > MERGES_LEAST + MERGES_OF_PIECE * model->n_pieces;
    }
    free(order);
    json_decref(normal);
    if (many)
        return hs_fail(err, HS_BAD_MODEL, FILE_NAME ": its %zu pieces have more than %d merges each",
                       model->n_pieces, MERGES_OF_PIECE);
    return ok ? HS_OK : no_memory(err);
}

/* ---- pieces ---- */

/* Lists the pieces by their numbers, and those that are found in a text before it is cut. */
static hs_status list_pieces(const hs__sentencepiece_model *model, bool plain, json_t *vocab, json_t *added,
                             hs_error *err)
{
    for (size_t i = 0; i < model->n_pieces; i++) {
        const hs__sentencepiece *piece = &model->pieces[i];
        const bool special = piece->type == HS__PIECE_CONTROL, own = piece->type == HS__PIECE_USER_DEFINED;
        const hs_status st = hs__sentencepiece_check(piece, err);
        if (st)
            return st;
        if (own && plain)
            return hs_fail(err, HS_BAD_MODEL,
                           FILE_NAME ": the user-defined piece '%.*s' is not supported for this model type",
                           (int)piece->n_bytes, piece->text);
        if (!set(vocab, piece->text, piece->n_bytes, json_integer((json_int_t)i)) ||
            ((special || own) && !append(added, json_pack("{s:I, s:s%, s:b}", "id", (json_int_t)i, "content",
                                                          piece->text, piece->n_bytes, "special", special))))
            return no_memory(err);
    }
    return HS_OK;
}

/* ---- white space ---- */

static json_t *replacement_of_spaces(void)
{
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", " ", "content", MARK);
}

static json_t *metaspace_of(const char *scheme)
{
    return json_pack("{s:s, s:s, s:s, s:b}", "type", "Metaspace", "replacement", MARK, "prepend_scheme",
                     scheme, "split", 0);
}

/* Returns the mark before a Llama's text: of each part between special tokens with legacy, else of the first.
 * add_prefix_space may turn it off. */
static hs_status read_scheme(const hs__description *d, bool legacy, const char **ret_scheme, hs_error *err)
{
    bool prefix = true;
    hs_status st = hs__option_bool(d->config, HS__TOKENIZER_CONFIG, "legacy", &legacy, err);
    if (!st)
        st = hs__option_bool(d->config, HS__TOKENIZER_CONFIG, "add_prefix_space", &prefix, err);
    *ret_scheme = !prefix ? "never" : legacy ? "always" : "first";
    return st;
}

/* Puts the model's own table and marks, as the sentencepiece library handles a text. A mark stands before a
 * text that begins with one, too. */
static bool put_plain(const hs__sentencepiece_model *model, bool legacy, json_t *normalizers)
{
    const size_t n = BASE64_ENCODE_RAW_LENGTH(model->charsmap.size);
    char *base64 = malloc(n + 1);
    if (!base64)
        return false;
    base64_encode_raw(base64, model->charsmap.size, model->charsmap.data);
    const bool ok =
        (!model->charsmap.size || append(normalizers, json_pack("{s:s, s:s%}", "type", "Precompiled",
                                                                "precompiled_charsmap", base64, n))) &&
        append(normalizers, replacement_of_spaces()) &&
        (!legacy || !model->prefixes ||
         append(normalizers, json_pack("{s:s, s:s}", "type", "Prepend", "prepend", MARK)));
    free(base64);
    return ok;
}

/* Makes the normalizer and the pre-tokenizer of a kind. */
static hs_status put_spaces(hs__piece_pairs kind, const hs__sentencepiece_model *model, hs__description *d,
                            hs_error *err)
{
    const char *scheme = "never";
    const bool plain = kind == HS__PLAIN_PIECES;
    hs_status st = kind == HS__GEMMA_PIECES ? HS_OK : read_scheme(d, plain, &scheme, err);
    if (!st && plain && (model->drops_spaces || !model->escapes))
        st = hs_fail(err, HS_BAD_MODEL,
                     FILE_NAME
                     " drops or keeps white space in a way that is not supported. " HS__TOKENIZER_SAVE);
    if (st)
        return st;
    json_t *normalizers = json_array();
    const bool first = strcmp(scheme, "first") == 0;
    bool ok = kind == HS__GEMMA_PIECES ? append(normalizers, replacement_of_spaces())
              : plain                  ? put_plain(model, !first, normalizers)
                                       : normalizers != NULL;
    ok = !json_object_set_new(d->json, "normalizer",
                              json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", normalizers)) &&
         ok;
    const bool marks = kind == HS__LLAMA_PIECES || (plain && first && model->prefixes);
    ok = ok && !json_object_set_new(d->json, "pre_tokenizer", marks ? metaspace_of(scheme) : json_null());
    return ok ? HS_OK : no_memory(err);
}

/* ---- all of it ---- */

static hs_status describe(hs__piece_pairs kind, const hs__sentencepiece_model *model, const char *unknown,
                          hs__description *d, hs_error *err)
{
    const bool plain = kind == HS__PLAIN_PIECES;
    json_t *vocab = json_object(), *added = json_array(), *merges = json_array();
    hs_status st = vocab && added && merges ? list_pieces(model, plain, vocab, added, err) : no_memory(err);
    if (!st)
        st = list_merges(model, plain, vocab, merges, err);
    /* a Llama's class names no unknown token, and takes bytes in place of one */
    d->json = json_pack("{s:{s:s, s:o, s:o, s:b, s:b, s:s?}, s:o}", "model", "type", "BPE", "vocab", vocab,
                        "merges", merges, "fuse_unk", 1, "byte_fallback", !plain || model->has_bytes,
                        "unk_token", kind == HS__LLAMA_PIECES ? NULL : unknown, "added_tokens", added);
    if (!st && !d->json)
        st = no_memory(err);
    return st ? st : put_spaces(kind, model, d, err);
}

hs_status hs__piece_pairs_read(hs__piece_pairs kind, const char *unknown, const hs_tokenizer_files *files,
                               hs__description *d, hs_error *err)
{
    hs__sentencepiece_model model = {0};
    d->vocab_file = FILE_NAME;
    if (!files->tokenizer_model.data)
        return hs_fail(err, HS_BAD_MODEL,
                       "the folder has neither " HS__TOKENIZER_JSON " nor " FILE_NAME
                       ". " HS__TOKENIZER_ELSEWHERE);
    hs_status st = hs__special_name(d, "unk_token", unknown, &unknown, err);
    if (!st)
        st = hs__sentencepiece_parse(&files->tokenizer_model, d->vocab_size, true, &model, err);
    if (!st && !model.is_bpe)
        st =
            hs_fail(err, HS_BAD_MODEL, FILE_NAME " is a Unigram; only BPE is supported. " HS__TOKENIZER_SAVE);
    if (!st)
        st = describe(kind, &model, unknown, d, err);
    hs__sentencepiece_finish(&model);
    return st;
}
