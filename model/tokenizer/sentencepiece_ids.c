/* sentencepiece_ids.c - reads folders of tokenizers that transformers has in Python: the sentencepiece
 * library cuts a text, and vocab.json gives the pieces their ids. Marian has a model for each stack,
 * source.spm and target.spm. M2M100 has one, and the tokens of languages follow those of vocab.json. */
#include "model/tokenizer/tokenizer_internal.h"

#include <nettle/base64.h>
#include <stdio.h>
#include <stdlib.h>

#define MARK       "\u2581"
#define PIECES_MAX 4000000

static hs_status no_memory(hs_error *err)
{
    return hs_fail(err, HS_NO_MEMORY, "out of memory");
}

/* ---- pieces ---- */

/* Appends a piece that texts are cut into, with its score. */
static hs_status list_piece(const hs__sentencepiece *piece, json_t *list, bool *has_mark, hs_error *err)
{
    const hs_status st = hs__sentencepiece_check(piece, err);
    if (st)
        return st;
    *has_mark |= piece->n_bytes == strlen(MARK) && memcmp(piece->text, MARK, strlen(MARK)) == 0;
    const bool joins =
        piece->n_bytes > 1 && memmem(piece->text + 1, piece->n_bytes - 1, MARK, strlen(MARK)) != NULL;
    if (piece->type != HS__PIECE_NORMAL || joins)
        return hs_fail(
            err, HS_BAD_MODEL,
            "the sentencepiece model: the piece '%.*s' is not supported: it is not of the normal kind, "
            "or crosses words",
            (int)piece->n_bytes, piece->text);
    return json_array_append_new(list,
                                 json_pack("[s%, f]", piece->text, piece->n_bytes, (double)piece->score))
               ? no_memory(err)
               : HS_OK;
}

/* Lists the pieces that texts are cut into. The caller frees *ret_list, even after an error. */
static hs_status list_pieces(const hs__sentencepiece_model *model, json_t **ret_list, hs_error *err)
{
    bool has_mark = false;
    hs_status st = (*ret_list = json_array()) ? HS_OK : no_memory(err);
    for (size_t i = 0; !st && i < model->n_pieces; i++)
        if (model->pieces[i].type != HS__PIECE_CONTROL && model->pieces[i].type != HS__PIECE_UNKNOWN)
            st = list_piece(&model->pieces[i], *ret_list, &has_mark, err);
    if (!st && !has_mark)
        st = hs_fail(err, HS_BAD_MODEL, "the sentencepiece model has no piece '" MARK "'");
    return st;
}

/* ---- the tokenizer ---- */

/* Describes the tokenizer of one model. Takes the reference to ids, the contents of vocab.json. codes: a text
 * may begin with the code of a language. */
static hs_status describe(const hs__sentencepiece_model *model, const char *unknown, bool codes, json_t *ids,
                          hs__description *d, hs_error *err)
{
    const size_t n = BASE64_ENCODE_RAW_LENGTH(model->charsmap.size);
    char *base64 = malloc(n + 1);
    json_t *vocab = NULL;
    const hs_status st = base64 ? list_pieces(model, &vocab, err) : no_memory(err);
    if (st) {
        free(base64);
        json_decref(vocab);
        json_decref(ids);
        return st;
    }
    base64_encode_raw(base64, model->charsmap.size, model->charsmap.data);
    d->json = json_pack("{s:{s:s, s:s%, s:b}, s:{s:s, s:s, s:s}, s:{s:s, s:s, s:o}, s:o}", "normalizer",
                        "type", "SentencePiece", "precompiled_charsmap", base64, n, "language_codes", codes,
                        "pre_tokenizer", "type", "Metaspace", "replacement", MARK, "prepend_scheme", "never",
                        "model", "type", model->is_bpe ? "BPE" : "Unigram", "unknown_token", unknown, "vocab",
                        vocab, "ids", ids);
    free(base64);
    return d->json ? hs__ids_read(ids, "vocab.json", d->vocab_size, &d->entries, err) : no_memory(err);
}

/* Reads a model and vocab.json. The caller finishes the model and frees *ret_ids, even after an error. */
static hs_status read_files(const hs_bytes *file, const hs_bytes *vocab, const hs__description *d,
                            hs__sentencepiece_model *ret_model, json_t **ret_ids, hs_error *err)
{
    hs_status st = HS_OK;
    if (json_object_size(json_object_get(d->config, "sp_model_kwargs")) > 0)
        st = hs_fail(err, HS_BAD_MODEL, HS__TOKENIZER_CONFIG ": sp_model_kwargs is not supported");
    if (!st)
        st = hs__sentencepiece_parse(file, PIECES_MAX, true, ret_model, err);
    if (!st && (ret_model->has_bytes || ret_model->marks_ends || !ret_model->prefixes ||
                !ret_model->drops_spaces || !ret_model->escapes))
        st = hs_fail(err, HS_BAD_MODEL,
                     "the sentencepiece model treats white space or unknown characters in a way that is not "
                     "supported");
    return st ? st : hs__json_parse(vocab, "vocab.json", ret_ids, err);
}

static hs_status need(const char *class, const char *files, const char *missing, hs_error *err)
{
    return !missing
               ? HS_OK
               : hs_fail(err, HS_BAD_MODEL, "%s needs %s; the folder has no %s. " HS__TOKENIZER_ELSEWHERE,
                         class, files, missing);
}

/* ---- Marian ---- */

hs_status hs__marian_read(const hs_tokenizer_files *files, hs__description *d, hs_error *err)
{
    const char *missing = !files->source_sentencepiece.data   ? "source.spm"
                          : !files->target_sentencepiece.data ? "target.spm"
                          : !files->vocab_json.data           ? "vocab.json"
                                                              : NULL;
    bool separate = false;
    const char *unknown = NULL;
    json_t *ids = NULL;
    hs__sentencepiece_model model = {0};
    d->vocab_file = "vocab.json";
    hs_status st = need("MarianTokenizer", "source.spm, target.spm and vocab.json", missing, err);
    if (!st)
        st = hs__option_bool(d->config, HS__TOKENIZER_CONFIG, "separate_vocabs", &separate, err);
    if (!st && separate)
        st = hs_fail(err, HS_BAD_MODEL, HS__TOKENIZER_CONFIG ": separate_vocabs is not supported");
    if (!st)
        st = hs__special_name(d, "unk_token", d->names.unk, &unknown, err);
    if (!st)
        st = read_files(&files->source_sentencepiece, &files->vocab_json, d, &model, &ids, err);
    if (!st)
        st = describe(&model, unknown, true, json_incref(ids), d, err);
    json_decref(ids);
    hs__sentencepiece_finish(&model);
    return st;
}

/* ---- M2M100 ---- */

/* The languages of language_codes, in the order of their ids. */
static const char m2m100[] =
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr "
    "ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or "
    "pa "
    "pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu";
static const char wmt21[] = "en ha is ja cs ru zh de";

static hs_status find_languages(const hs__description *d, const char **ret_codes, hs_error *err)
{
    const char *name = "m2m100";
    const hs_status st = hs__option_text(d->config, HS__TOKENIZER_CONFIG, "language_codes", &name, err);
    *ret_codes = m2m100;
    if (st || strcmp(name, "m2m100") == 0)
        return st;
    *ret_codes = wmt21;
    return strcmp(name, "wmt21") == 0
               ? HS_OK
               : hs_fail(err, HS_BAD_MODEL,
                         HS__TOKENIZER_CONFIG ": language_codes is '%.40s'; supported: m2m100, wmt21", name);
}

/* Gives the languages the ids behind those of vocab.json, whatever that says of them, and lists their tokens
 * as added. They are found in texts only if tokenizer_config.json names them, too. */
static hs_status put_languages(const char *codes, json_t *ids, json_t *added, hs_error *err)
{
    json_int_t id = (json_int_t)json_object_size(ids);
    for (const char *at = codes; *at; id++) {
        char token[16];
        const int n = (int)strcspn(at, " ");
        snprintf(token, sizeof token, "__%.*s__", n, at);
        if (json_object_set_new(ids, token, json_integer(id)) ||
            json_array_append_new(added, json_pack("{s:I, s:s, s:b, s:b}", "id", id, "content", token,
                                                   "special", 1, "unsearched", 1)))
            return no_memory(err);
        at += n + (at[n] == ' ');
    }
    return HS_OK;
}

/* Lists the token that begins texts elsewhere, which is found in a text as the other special tokens are. */
static hs_status put_begin(const hs__description *d, const json_t *ids, json_t *added, hs_error *err)
{
    const char *text = "<s>";
    const hs_status st = hs__special_name(d, "bos_token", text, &text, err);
    json_t *id = json_object_get(ids, text);
    if (st || !id)
        return st;
    return json_array_append_new(added, json_pack("{s:O, s:s, s:b}", "id", id, "content", text, "special", 1))
               ? no_memory(err)
               : HS_OK;
}

hs_status hs__m2m100_read(const hs_tokenizer_files *files, hs__description *d, hs_error *err)
{
    const char *missing = !files->sentencepiece.data ? "sentencepiece.bpe.model"
                          : !files->vocab_json.data  ? "vocab.json"
                                                     : NULL;
    const char *unknown = NULL, *codes = NULL;
    json_t *ids = NULL, *added = json_array();
    hs__sentencepiece_model model = {0};
    d->vocab_file = "vocab.json";
    hs_status st = need("M2M100Tokenizer", "vocab.json and sentencepiece.bpe.model", missing, err);
    if (!st)
        st = find_languages(d, &codes, err);
    if (!st)
        st = hs__special_name(d, "unk_token", d->names.unk, &unknown, err);
    if (!st)
        st = read_files(&files->sentencepiece, &files->vocab_json, d, &model, &ids, err);
    if (!st)
        st = put_begin(d, ids, added, err);
    if (!st)
        st = put_languages(codes, ids, added, err);
    if (!st)
        st = describe(&model, unknown, false, json_incref(ids), d, err);
    if (!st && json_object_set(d->json, "added_tokens", added))
        st = no_memory(err);
    json_decref(ids);
    json_decref(added);
    hs__sentencepiece_finish(&model);
    return st;
}
