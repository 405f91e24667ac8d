/* decoder.h - a decoder that reads the last states of a text, for analyses that change this text and follow
 * what the decoder predicts. */
#pragma once

#include "engine/analysis/effects.h"

/* A decoder with its memory. All zero: there is none, and states are read as they are. */
typedef struct hs__decoder {
    hs_effects_reader reader;
    size_t n_memory;     /* tokens of the text whose states it reads */
    hs_capture *capture; /* of its own text: LAST_STATE; owned; NULL without a decoder */
    hs_workspace *ws;    /* owned */
} hs__decoder;

/* Returns the bytes of the workspace and the capture; 0 without a decoder. */
size_t hs__decoder_bytes(const hs_effects_reader *reader, size_t n_memory);

/* Opens a decoder; does nothing if the reader has none. The caller closes it, also after a failure, which is
 * HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__decoder_open(hs__decoder *decoder, const hs_effects_reader *reader, size_t n_memory,
                                       hs_error *err);

/* Replaces a text's last states [n_memory][H] by those of the decoder that reads them, valid until the next
 * call. Without a decoder they stay as they are. */
HS_MUST_USE hs_status hs__decoder_read(const hs__decoder *decoder, const float **last,
                                       const hs_run_control *control, hs_error *err);

void hs__decoder_close(hs__decoder *decoder);
