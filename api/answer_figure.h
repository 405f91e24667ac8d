/* answer_figure.h - writes an answer as a figure. */
#pragma once

#include "api/formats/json_text.h"
#include "api/outputs/outputs.h"

#define HS__FIGURE_PANELS_MAX 1024

/* CSV: the numbers of the figure. */
typedef enum hs__figure_format { HS__FIGURE_SVG, HS__FIGURE_PDF, HS__FIGURE_CSV } hs__figure_format;

/* Returns the outputs that a figure needs. */
hs__outputs hs__figure_outputs(const hs__figure_request *figure);
/* Returns an upper bound of a figure's panels. */
size_t hs__figure_n_panels(const hs__analysis_request *analysis);
/* Returns an upper bound of a figure's size. */
size_t hs__figure_bytes_max(const hs__analysis_request *analysis, const hs_shape *shape, size_t n_tokens);
/* Returns an upper bound of the size of its numbers; no label has more than n_label bytes. */
size_t hs__figure_csv_bytes_max(const hs__analysis_request *analysis, const hs_shape *shape, size_t n_tokens,
                                size_t n_label);

/* Appends the figure. HS_INVALID if its labels do not fit or there is nothing to draw; HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__answer_write_figure(hs_buffer *buffer, const hs__answer *answer,
                                              hs__figure_format format, hs_error *err);
