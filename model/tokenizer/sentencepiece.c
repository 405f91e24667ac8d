/* sentencepiece.c - reads SentencePiece models (Kudo and Richardson 2018).
 *
 * A model is an untrusted protobuf message (Google's sentencepiece_model.proto), of which the fields that
 * define a Unigram or BPE are read. A message is a sequence of fields, each a number and a value whose wire
 * type gives its length, so unknown fields can be skipped. */
#include "model/tokenizer/tokenizer_internal.h"

#include <math.h>
#include <stdlib.h>

/* Wire types. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

/* Field numbers. */
enum { MODEL_PIECE = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum { TRAINER_MODEL_TYPE = 3, TRAINER_SPACE_BEHIND = 24, TRAINER_BYTES = 35, TRAINER_UNKNOWN = 40 };
enum { NORMALIZER_CHARSMAP = 2, NORMALIZER_PREFIX = 3, NORMALIZER_SPACES = 4, NORMALIZER_ESCAPES = 5 };

enum { UNIGRAM = 1, BPE = 2 };

typedef struct field {
    uint64_t key;    /* field number << 3 | wire type */
    uint64_t number; /* the value, except for BYTES */
    hs_bytes bytes;
} field;

static uint64_t key_of(unsigned number, unsigned kind)
{
    return (uint64_t)number << 3 | kind;
}

/* ---- fields ---- */

/* Takes n bytes off the message. Returns NULL if fewer are left. */
static const unsigned char *take(hs_bytes *message, uint64_t n)
{
    const unsigned char *at = message->data;
    if (n > message->size)
        return NULL;
    *message = (hs_bytes){at + n, message->size - (size_t)n};
    return at;
}

static bool take_varint(hs_bytes *message, uint64_t *ret)
{
    *ret = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const unsigned char *byte = take(message, 1);
        if (!byte)
            return false;
        *ret |= (uint64_t)(*byte & 0x7F) << shift;
        if (!(*byte & 0x80))
            return true;
    }
    return false;
}

static bool take_fixed(hs_bytes *message, unsigned n, uint64_t *ret)
{
    const unsigned char *at = take(message, n);
    *ret = 0;
    for (unsigned i = 0; at && i < n; i++)
        *ret |= (uint64_t)at[i] << 8 * i;
    return at != NULL;
}

static bool take_field(hs_bytes *message, field *ret)
{
    *ret = (field){0};
    if (!take_varint(message, &ret->key))
        return false;
    switch (ret->key & 7) {
    case VARINT:
        return take_varint(message, &ret->number);
    case FIXED64:
        return take_fixed(message, 8, &ret->number);
    case FIXED32:
        return take_fixed(message, 4, &ret->number);
    case BYTES:
        if (!take_varint(message, &ret->number))
            return false;
        ret->bytes.data = take(message, ret->number);
        ret->bytes.size = (size_t)ret->number;
        return ret->bytes.data != NULL;
    default:
        return false;
    }
}

/* ---- messages ---- */

static bool read_piece(hs_bytes message, hs__sentencepiece *ret)
{
    *ret = (hs__sentencepiece){.text = "", .type = HS__PIECE_NORMAL};
    field f;
    while (message.size) {
        if (!take_field(&message, &f))
            return false;
        if (f.key == key_of(PIECE_TEXT, BYTES)) {
            ret->text = f.bytes.data;
            ret->n_bytes = f.bytes.size;
        } else if (f.key == key_of(PIECE_SCORE, FIXED32)) {
            const uint32_t bits = (uint32_t)f.number;
            memcpy(&ret->score, &bits, sizeof bits);
        } else if (f.key == key_of(PIECE_TYPE, VARINT)) {
            ret->type = (uint32_t)f.number;
        }
    }
    return true;
}

static bool read_trainer(hs_bytes message, hs__sentencepiece_model *model, uint64_t *ret_type)
{
    field f;
    while (message.size) {
        if (!take_field(&message, &f))
            return false;
        if (f.key == key_of(TRAINER_MODEL_TYPE, VARINT))
            *ret_type = f.number;
        else if (f.key == key_of(TRAINER_UNKNOWN, VARINT))
            model->unknown = (size_t)f.number;
        else if (f.key == key_of(TRAINER_SPACE_BEHIND, VARINT))
            model->marks_ends = f.number != 0;
        else if (f.key == key_of(TRAINER_BYTES, VARINT))
            model->has_bytes = f.number != 0;
    }
    return true;
}

static bool read_normalizer(hs_bytes message, hs__sentencepiece_model *model)
{
    field f;
    while (message.size) {
        if (!take_field(&message, &f))
            return false;
        if (f.key == key_of(NORMALIZER_CHARSMAP, BYTES))
            model->charsmap = f.bytes;
        else if (f.key == key_of(NORMALIZER_PREFIX, VARINT))
            model->prefixes = f.number != 0;
        else if (f.key == key_of(NORMALIZER_SPACES, VARINT))
            model->drops_spaces = f.number != 0;
        else if (f.key == key_of(NORMALIZER_ESCAPES, VARINT))
            model->escapes = f.number != 0;
    }
    return true;
}

/* Fills the first `capacity` pieces and counts all of them. */
static bool read_model(hs_bytes message, size_t capacity, hs__sentencepiece_model *model, uint64_t *ret_type)
{
    field f;
    model->n_pieces = 0;
    while (message.size) {
        hs__sentencepiece piece;
        if (!take_field(&message, &f))
            return false;
        if (f.key == key_of(MODEL_PIECE, BYTES)) {
            if (!read_piece(f.bytes, &piece))
                return false;
            if (model->n_pieces < capacity)
                model->pieces[model->n_pieces] = piece;
            model->n_pieces++;
        }
        if (f.key == key_of(MODEL_TRAINER, BYTES) && !read_trainer(f.bytes, model, ret_type))
            return false;
        if (f.key == key_of(MODEL_NORMALIZER, BYTES) && !read_normalizer(f.bytes, model))
            return false;
    }
    return true;
}

hs_status hs__sentencepiece_parse(const hs_bytes *file, size_t pieces_max, bool bpe,
                                  hs__sentencepiece_model *ret_model, hs_error *err)
{
    uint64_t type = UNIGRAM;
    *ret_model = (hs__sentencepiece_model){.prefixes = true, .drops_spaces = true, .escapes = true};
    if (!read_model(*file, 0, ret_model, &type) || !ret_model->n_pieces)
        return hs_fail(err, HS_BAD_MODEL, "the sentencepiece model is truncated or malformed");
    ret_model->is_bpe = type == BPE;
    if (type != UNIGRAM && !(bpe && ret_model->is_bpe))
        return hs_fail(
            err, HS_BAD_MODEL,
            "the sentencepiece model has model_type %llu; supported: 1, Unigram%s. " HS__TOKENIZER_SAVE,
            (unsigned long long)type, bpe ? ", and 2, BPE" : "");
    if (ret_model->n_pieces > pieces_max)
        return hs_fail(err, HS_BAD_MODEL,
                       "the sentencepiece model has %zu pieces, more than config.json's vocab_size, %zu",
                       ret_model->n_pieces, pieces_max);
    if (ret_model->unknown >= ret_model->n_pieces)
        return hs_fail(err, HS_BAD_MODEL, "the sentencepiece model's unk_id is not the number of a piece");
    ret_model->pieces = calloc(ret_model->n_pieces, sizeof *ret_model->pieces);
    if (!ret_model->pieces)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    (void)read_model(*file, ret_model->n_pieces, ret_model, &type);
    return HS_OK;
}

void hs__sentencepiece_finish(hs__sentencepiece_model *model)
{
    free(model->pieces);
    *model = (hs__sentencepiece_model){0};
}

hs_status hs__sentencepiece_check(const hs__sentencepiece *piece, hs_error *err)
{
    const hs_status st = hs__token_check(piece->text, piece->n_bytes, "the sentencepiece model", err);
    if (!st && !isfinite(piece->score))
        return hs_fail(err, HS_BAD_MODEL, "the sentencepiece model: '%.*s' has a score that is not finite",
                       (int)piece->n_bytes, piece->text);
    return st;
}
