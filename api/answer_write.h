/* answer_write.h - bounds the size of an answer and writes it as JSON, npz or safetensors; answer_figure.h
 * writes figures. */
#pragma once

#include "api/outputs/outputs.h"

/* Returns an upper bound of the answer's size. Needs only the request and its tokens, so it is known before
 * any pass. */
size_t hs__answer_bytes_max(const hs__analysis_request *analysis, hs__answer_format format,
                            const hs__served_model *model, const hs_encoding *encoding, size_t body_bytes);

/* The token fields alone, for POST /tokenize. */
void hs__answer_write_tokens(hs_buffer *buffer, const hs__answer *answer);
void hs__answer_write_json(hs_buffer *buffer, const hs__answer *answer);
HS_MUST_USE hs_status hs__answer_write_npz(hs_buffer *buffer, const hs__answer *answer, hs_error *err);
HS_MUST_USE hs_status hs__answer_write_safetensors(hs_buffer *buffer, const hs__answer *answer,
                                                   hs_error *err);
