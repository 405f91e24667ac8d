/* sentencepiece.h - the few fields of a SentencePiece model that tell its Unigram: a protobuf message
 * (Google's sentencepiece_model.proto), from an untrusted file. */
#pragma once

#include "model/bytes.h"
#include "model/status.h"

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

/* Strings are borrowed from the file's bytes. */
typedef struct hs__sentencepiece {
    const char *text; /* [n_bytes], not NUL-terminated, no UTF-8 for sure */
    size_t n_bytes;
    float score;
    uint32_t type; /* hs__piece_type */
} hs__sentencepiece;

typedef struct hs__sentencepiece_model {
    hs__sentencepiece *pieces; /* [n_pieces] */
    size_t n_pieces, unknown;  /* the unknown piece's number */
    hs_bytes charsmap;         /* of its normalizer; may be empty */
} hs__sentencepiece_model;

/* HS_BAD_MODEL when it is none, is cut off, is no Unigram, or has more pieces than the vocabulary entries.
 * *ret_model must be finished, also after an error. */
HS_MUST_USE hs_status hs__sentencepiece_read(const hs_bytes *file, size_t pieces_max,
                                             hs__sentencepiece_model *ret_model, hs_error *err);
void hs__sentencepiece_finish(hs__sentencepiece_model *model);
