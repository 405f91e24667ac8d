/* answer.h - bounds the size of an answer, and writes it: as JSON, npz, safetensors, or a figure. */
#pragma once

#include "api/formats/json_text.h"
#include "api/outputs/outputs.h"

/* ==== sizes and formats ==== */

/* The functions that write an answer append to the buffer. */

/* Returns an upper bound of the answer's size. Needs only the request and its tokens, so it is known before
 * any pass. */
size_t hs__answer_bytes_max(const hs__analysis_request *analysis, hs__answer_format format,
                            const hs__served_model *model, const hs__text_read *text, size_t body_bytes);

/* The token fields alone, for POST /tokenize. */
void hs__answer_write_tokens(hs_buffer *buffer, const hs__answer *answer);
void hs__answer_write_json(hs_buffer *buffer, const hs__answer *answer);
HS_MUST_USE hs_status hs__answer_write_npz(hs_buffer *buffer, const hs__answer *answer, hs_error *err);
HS_MUST_USE hs_status hs__answer_write_safetensors(hs_buffer *buffer, const hs__answer *answer,
                                                   hs_error *err);

/* ==== figures ==== */

/* Prepares a request for a figure: replaces its outputs by those of the figure. Refuses a figure of too many
 * panels, or the field figure if the format is none. */
int hs__figure_prepare(hs__analysis_request *analysis, bool is_figure, hs__problem *problem);
/* Returns an upper bound of the size of a figure, or of its numbers as CSV. In CSV no label has more than
 * n_label bytes. */
size_t hs__figure_bytes_max(const hs__analysis_request *analysis, bool is_csv, const hs_shape *shape,
                            size_t n_tokens, size_t n_keys, size_t n_label);

/* Appends the figure as SVG, PDF or PNG, or its numbers as CSV. HS_INVALID if its labels do not fit or there
 * is nothing to draw; HS_TOO_LARGE for a page of PDF or the pixels of a PNG; HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__answer_write_figure(hs_buffer *buffer, const hs__answer *answer,
                                              hs__answer_format format, hs_error *err);
