/* decoder.c - a decoder that reads the last states of a text whose heads or states are changed. */
#include "engine/analysis/decoder.h"

#include "engine/analysis/analysis_maps.h"

/* Returns the tokens of the workspace: of the decoder's text and of the states that it reads. */
static size_t tokens_of(const hs_effects_reader *reader, size_t n_memory)
{
    return hs_max(n_memory, reader->n_tokens);
}

/* Taps of the decoder's text. */
static const hs_selection last_state = {.taps = HS_KEEP(LAST_STATE)};

size_t hs__decoder_bytes(const hs_effects_reader *reader, size_t n_memory)
{
    const hs_engine *engine = reader->engine;
    return engine ? hs_workspace_bytes(engine, tokens_of(reader, n_memory)) +
                        hs_capture_bytes(hs_engine_shape(engine), &last_state, reader->n_tokens)
                  : 0;
}

hs_status hs__decoder_open(hs__decoder *decoder, const hs_effects_reader *reader, size_t n_memory,
                           hs_error *err)
{
    const hs_engine *engine = reader->engine;
    *decoder = (hs__decoder){.reader = *reader, .n_memory = n_memory};
    if (!engine)
        return HS_OK;
    const hs_status st = hs_workspace_create(engine, tokens_of(reader, n_memory), &decoder->ws, err);
    return st ? st
              : hs_capture_create(hs_engine_runtime(engine), hs_engine_shape(engine), &last_state,
                                  reader->n_tokens, &decoder->capture, err);
}

hs_status hs__decoder_read(const hs__decoder *decoder, const float **last, const hs_run_control *control,
                           hs_error *err)
{
    if (!decoder->capture)
        return HS_OK;
    const hs_sequence text = {.ids = decoder->reader.ids,
                              .n_tokens = decoder->reader.n_tokens,
                              .capture = decoder->capture,
                              .memory = *last,
                              .n_memory = decoder->n_memory};
    *last = decoder->capture->arrays[HS_TAP_LAST_STATE];
    return hs_engine_compute(decoder->reader.engine, decoder->ws, &text, 1, NULL, control, err);
}

void hs__decoder_close(hs__decoder *decoder)
{
    hs_capture_destroy(decoder->capture);
    hs_workspace_destroy(decoder->ws);
    *decoder = (hs__decoder){0};
}
