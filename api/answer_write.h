/* answer_write.h - an answer as bytes: how many at most, JSON, npz, safetensors. */
#pragma once

#include "api/outputs.h"

/* Upper bound of the answer's size, from the request and its tokens alone: known before anything is computed.
 */
size_t hs__answer_bytes_max(const hs__analysis_request *wanted, hs__answer_format format,
                            const hs__served_model *model, const hs_encoding *encoding, size_t body_bytes);

/* The token fields alone, for POST /tokenize. */
void hs__answer_write_tokens(hs__buffer *buffer, const hs__answer *answer);
void hs__answer_write_json(hs__buffer *buffer, const hs__answer *answer);
HS_MUST_USE hs_status hs__answer_write_npz(hs__buffer *buffer, const hs__answer *answer, hs_error *err);
HS_MUST_USE hs_status hs__answer_write_safetensors(hs__buffer *buffer, const hs__answer *answer,
                                                   hs_error *err);
