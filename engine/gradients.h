/* gradients.h - exact gradients of a number y that a pass computes: one backward pass for all heads, tokens
 * and layers (reverse-mode differentiation).
 *
 * A tape is a forward pass of one text with all that its backward pass reads. A target says what y is, and
 * gives the gradient of the text's last states (hs_tape_target of engine/analysis/attribution.h). From there
 * the backward pass goes down the layers:
 *
 *     st = hs_gradients_prepare(engine, false, &err);
 *     st = hs_tape_record(engine, ws, &sequence, &control, &tape, &err);
 *     st = hs_tape_target(tape, &target, &control, &value, last, &err);
 *     st = hs_tape_differentiate(tape, ws, last, &to, 1, &control, &err);
 *     hs_tape_destroy(tape);
 *
 * A decoder's target reaches its encoder through the memory. Both texts have a tape: the decoder's backward
 * pass writes `memory`, which is the gradient of the encoder's last states.
 *
 * Everything is differentiated as it was computed, in fp32: norms, activations, softmax, positions, gates,
 * caps and interventions. Weights are constants. Places that a patch or another map
 * replaces pass no gradient on. The architecture is all that the backward pass reads of a model. */
#pragma once

#include "engine/engine.h"

/* The most bytes of a tape that keeps every layer. A larger one keeps the states between layers only, and the
 * backward pass computes each layer again: one pass more. */
#define HS_TAPE_BYTES_MAX ((size_t)384 << 20)

typedef struct hs_tape hs_tape;

/* Returns the bytes of the transposed weights that the backward passes of an engine share: as much as its
 * weights in fp32. hs_gradients_prepare makes them. */
size_t hs_gradients_weights_bytes(const hs_engine *engine);

/* Makes the transposed weights of all layers unless they are there. They live as long as the engine, or until
 * hs_gradients_release has been called as often as this function has succeeded. Allocates, and waits for a
 * thread that makes some. alone: this thread makes them; helpers would keep its niceness. Fails with
 * HS_UNSUPPORTED if the engine's precision is not fp32, and with HS_NO_MEMORY. Any thread may call it. */
HS_MUST_USE hs_status hs_gradients_prepare(const hs_engine *engine, bool alone, hs_error *err);
/* Ends the use that began with a call of hs_gradients_prepare. Any thread may call it. */
void hs_gradients_release(const hs_engine *engine);
/* Returns true if the transposed weights are there. */
bool hs_gradients_are_prepared(const hs_engine *engine);

/* Returns the bytes of a tape for a text of n_tokens tokens, and a decoder's memory of n_memory (else 0). Its
 * backward pass takes n_threads threads (0 is 1). The transposed weights and the workspace are not counted.
 */
size_t hs_tape_bytes(const hs_engine *engine, size_t n_tokens, size_t n_memory, size_t n_threads);

/* Runs a forward pass over one text and keeps what hs_tape_differentiate reads. The sequence has no start and
 * no past. Its capture, which may be NULL, is filled as hs_engine_run does. The sequence and all that it
 * points to, the engine and (of its capture) what patches read must outlive the tape. hs_gradients_prepare
 * was called. Fails as hs_engine_compute, and with HS_NO_MEMORY. The caller destroys *ret_tape. */
HS_MUST_USE hs_status hs_tape_record(const hs_engine *engine, hs_workspace *ws, const hs_sequence *sequence,
                                     const hs_run_control *control, hs_tape **ret_tape, hs_error *err);
void hs_tape_destroy(hs_tape *tape); /* NULL is fine */

/* Returns the last states [n_tokens][H], behind the final norm, as LAST_STATE has them. */
const float *hs_tape_last(const hs_tape *tape);

/* The arrays that a backward pass writes for some layers and heads of a text, all owned by the caller; NULL:
 * not wanted. T are its tokens and K the keys: T, or of cross heads the memory's tokens. l and h count
 * selected layers and heads. Arrays need not be initialised. */
typedef struct hs_gradients {
    const uint16_t *layers, *heads; /* ascending, 0-based, unique */
    size_t n_layers, n_heads;
    bool cross;              /* the heads are a decoder's cross heads */
    float *attention;        /* [l][h][T][K]  dy/dA with A free; 0 where a key is hidden */
    float *head_output;      /* [l][h][T][d]  dy/dO, with O as HEAD_OUTPUT has it: interventions applied */
    float *head_attribution; /* [l][h][T]     sum over d of O * dy/dO */
    float *relevance;        /* [l][T][K]     mean over all heads of the layer of max(0, A * dy/dA) */
    float *states;           /* [1 + l][T][H] dy/dh: the embeddings (0), then after each selected layer, as
                              * HIDDEN_STATE has them; not with `cross` */
    float *words;            /* [T][E]        dy/dx of the word rows x: those of the table with the model's
                              * factor, before positions, types and norm; not with `cross` */
    float *memory;           /* [n_memory][H] of a decoder: dy/dm, of the states that its cross heads read */
} hs_gradients;

/* Runs a backward pass from the gradient of the last states, last [n_tokens][H], and writes the arrays of n
 * selections, in one pass and no deeper than they ask for. Only one of them may have an array of heads of
 * each name: of a decoder, one with `cross` and one without. A tape may be differentiated any number of
 * times, by one thread at a time. ws is as for hs_tape_record. Fails with HS_INVALID if a selection does not
 * fit, and with HS_CANCELLED. */
HS_MUST_USE hs_status hs_tape_differentiate(hs_tape *tape, hs_workspace *ws, const float *last,
                                            const hs_gradients *to, size_t n, const hs_run_control *control,
                                            hs_error *err);

/* Writes the word rows of a text as a pass reads them, with the model's factor: ret [n_tokens][E]. */
void hs_word_rows_read(const hs_architecture *architecture, const hs_sequence *sequence, float *ret_words);

/* ---- the other way through the heads behind the layers (engine.h) ----
 *
 * Each takes what its function of engine.h took, and the gradient of what that function returned. */

/* Goes back through hs_engine_predict without inner states: logits [n_states][vocab_size] are those that it
 * returned, gradients [n_states][vocab_size] are theirs and are overwritten. ret_states [n_states][H]. Fails
 * with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_engine_predict_back(const hs_engine *engine, const float *states, size_t n_states,
                                             size_t n_threads, const float *logits, float *gradients,
                                             float *ret_states, hs_error *err);

/* Goes back through hs_engine_classify: gradients [n_rows][n_classes], ret_rows [n_rows][H]. Fails with
 * HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_engine_classify_back(const hs_engine *engine, const hs_task_head *head,
                                              const float *rows, size_t n_rows, size_t n_threads,
                                              const float *gradients, float *ret_rows, hs_error *err);

/* Goes back through hs_engine_pool for a text of n_tokens, of which the first n_unpadded are no padding:
 * gradient [H], ret_states [n_tokens][H]. Fails with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_engine_pool_back(const hs_engine *engine, const hs_task_head *head,
                                          const float *states, size_t n_tokens, size_t n_unpadded,
                                          size_t n_threads, const float *gradient, float *ret_states,
                                          hs_error *err);

/* Goes back through hs_engine_embed: gradient has hs_sentence_width columns, ret_states [n_tokens][H]. Fails
 * with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_engine_embed_back(const hs_engine *engine, const hs_pooling *pooling,
                                           const float *states, size_t n_tokens, size_t n_threads,
                                           const float *gradient, float *ret_states, hs_error *err);

/* Returns the most bytes that one of these functions, or the one that it goes back through, allocates for
 * n_rows rows, or for a text of as many tokens. The head for next sentences is not among them. */
size_t hs_heads_back_bytes(const hs_engine *engine, size_t n_rows, size_t n_threads);
