/* sentencepiece.h - reads the fields of a SentencePiece model that define its Unigram. The file is an
 * untrusted protobuf message (Google's sentencepiece_model.proto). */
#pragma once

#include "model/base/bytes.h"
#include "model/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum hs__piece_type {
    HS__PIECE_NORMAL = 1,
    HS__PIECE_UNKNOWN,
    HS__PIECE_CONTROL,
    HS__PIECE_USER_DEFINED,
    HS__PIECE_UNUSED,
    HS__PIECE_BYTE
} hs__piece_type;

/* A piece. The file's bytes own its text. */
typedef struct hs__sentencepiece {
    const char *text; /* [n_bytes], not NUL-terminated, possibly not UTF-8 */
    size_t n_bytes;
    float score;
    uint32_t type; /* hs__piece_type */
} hs__sentencepiece;

typedef struct hs__sentencepiece_model {
    hs__sentencepiece *pieces; /* [n_pieces] */
    size_t n_pieces, unknown;  /* unknown: the number of the unknown piece */
    hs_bytes charsmap;         /* the normalizer's table; may be empty */
} hs__sentencepiece_model;

/* Reads a model. Fails with HS_BAD_MODEL if it is malformed, truncated, not a Unigram, or has more than
 * pieces_max pieces. The caller finishes *ret_model, even after an error. */
HS_MUST_USE hs_status hs__sentencepiece_read(const hs_bytes *file, size_t pieces_max,
                                             hs__sentencepiece_model *ret_model, hs_error *err);
void hs__sentencepiece_finish(hs__sentencepiece_model *model);
