/* pass.h - factors of output weights, for lengths and inner products of heads' outputs in the hidden
 * state.
 *
 * A head writes o W_O into the hidden state, with o its output of d numbers. With G = W_O W_O' [d][d] and
 * G = C C', inner products there are inner products of z = o C, which is as short as o:
 *
 *     (a W_O) (b W_O)' = a G b' = (a C) (b C)'
 *
 * C is the lower Cholesky factor, packed for the kernels' product. Factors are computed layer by layer
 * for the plans that need them, and kept: 2.4 MB for BERT-base. Any thread may call these functions. */
#pragma once

#include "engine/arena.h"
#include "engine/engine.h"
#include "engine/kernels/kernels.h"
#include "engine/linear/linear.h"
#include "model/base/status.h"

#include <stdbool.h>

typedef struct hs__residual hs__residual;

/* Computes the factors of a block unless they are there. Allocates, and waits for a thread that computes
 * some. Fails with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__residual_make(hs__residual *residual, size_t block, hs_error *err);

/* Returns C of a head in panels, or NULL until hs__residual_make has succeeded for the block. */
const float *hs__residual_at(const hs__residual *residual, size_t block, size_t head);

/* ---- products the other way, for backward passes: made when one asks, and kept until all have released
 * them. Any thread may call these functions. */

/* The products of a block, each from the gradient of its output to that of its input; NULL where the block
 * lacks it. Owned by the first block with the same weights. */
typedef struct hs__backward_products {
    hs__linear *qkv, *memory, *output, *ffn_in, *ffn_gate, *ffn_out;
    hs__linear *bare_in, *bare_gate; /* forward, without the activation */
} hs__backward_products;

typedef struct hs__transposed hs__transposed;

HS_MUST_USE hs_status hs__transposed_create(const hs_engine *engine, hs__transposed **ret_transposed,
                                            hs_error *err);
void hs__transposed_destroy(hs__transposed *transposed); /* NULL is fine */
/* Makes all products unless they are there, as hs_gradients_prepare does. */
HS_MUST_USE hs_status hs__transposed_make(hs__transposed *transposed, bool alone, hs_error *err);
/* Frees them if all calls that made them, or found them there, have been released. */
void hs__transposed_release(hs__transposed *transposed);
/* Returns the products of a block, or NULL until they are made. */
const hs__backward_products *hs__transposed_at(const hs__transposed *transposed, size_t block);
const hs__linear *hs__transposed_projection(const hs__transposed *transposed);
const hs__linear *hs__transposed_convolution(const hs__transposed *transposed);
const hs__linear *hs__transposed_bare_convolution(const hs__transposed *transposed);

/* ---- the engine, workspace and heads of the cpu backend, shared by the files of engine/pass. */
typedef struct hs__packed_norm {
    float *gamma, *beta; /* [H]; beta is 0 if the model has none; gamma NULL: the identity */
    size_t step;         /* from a head's gamma and beta to the next one's; 0: all have the same */
} hs__packed_norm;

/* Rotary positions (RoPE, Su et al. 2021): cosine and sine of the angle for each position t and each pair
 * m of a head's first R columns: (m, R / 2 + m), or (2m, 2m + 1) if they are interleaved. */
typedef struct hs__rotation {
    double base; /* theta */
    bool interleaved, unscaled;
    bool is_long;           /* of the texts for which LongRoPE has other divisors */
    float *cosines, *sines; /* [n_positions][R / 2] */
} hs__rotation;

/* Relative positions (hs_relative): R rows of the table, in the order of j - i. */
typedef struct hs__relative {
    size_t n_rows; /* 0: there are none */
    int32_t *rows; /* [2 n_positions - 1]: row for distance j - i, at index j - i + n_positions - 1 */
} hs__relative;

typedef struct hs__packed_layer {
    hs__linear *qkv;      /* [A + 2B][H]: query, key, value; of cross attention [A][H]: query */
    hs__linear *memory;   /* [2B][H]: key, value of cross attention; else NULL */
    hs__linear *output;   /* [H][A] */
    hs__linear *ffn_gate; /* [F][H], with the activation; NULL: no gate */
    hs__linear *ffn_in;   /* [F][H], with the activation if there is no gate; NULL: no feed-forward part */
    hs__linear *ffn_out;  /* [H][F] */
    hs__packed_norm attention_norm, ffn_norm;
    hs__packed_norm attention_out_norm, ffn_out_norm; /* without gamma: none */
    hs__packed_norm query_norm,
        key_norm;                 /* [d], one for each head, or all heads' columns, or without gamma */
    const hs__rotation *rotation; /* or NULL */
    size_t window;                /* as in hs_layer */
    float score_scale;            /* 1 / sqrt(d), less for scores with several addends */
    float *position_keys;         /* of each head Kr' [d][R] in panels, or NULL */
    float *position_queries;      /* [n_heads][R][d]: Qr, or NULL */
} hs__packed_layer;

/* The head for tokens without its decoder, which is read from the model's file. */
typedef struct hs__packed_predictor {
    hs__linear *dense; /* [P][H] with the activation, in fp32, or NULL */
    hs__packed_norm norm;
    float *bias; /* [vocab_size] */
} hs__packed_predictor;

/* A task head's weights in fp32; output NULL: there is no head. */
typedef struct hs__packed_head {
    hs__linear *dense, *output; /* dense [H][H] with the activation, or NULL */
    hs__packed_norm norm;
} hs__packed_head;

/* Embedding tables stay in the model's tensors. */
struct hs_engine {
    hs_runtime *runtime;
    const hs_architecture *architecture;
    hs_precision precision;
    const char *products, *products_by; /* as hs_engine_products and hs_engine_kernels say */
    hs_shape shape;
    size_t n_threads; /* the most that a pass may use */
    const hs__linear_kind *linear;
    const hs__kernels *kernels;
    const hs__conversion *conversion;  /* of the operands of products; NULL: floats */
    hs__add_norm *add_norm;            /* the kernel of the architecture's norms */
    size_t attention_width, qkv_width; /* A, A + 2B */
    size_t rotary_half;                /* R / 2 */
    hs__packed_norm embedding_norm, final_norm;
    hs__linear *projection;   /* [H][E], or NULL: E is H */
    size_t n_blocks;          /* hs_architecture_blocks */
    hs__packed_layer *layers; /* [n_blocks]; those with the same weights share products */
    bool gated, windowed;     /* true if any layer is */
    size_t inner_step;        /* floats between rows of the inner array of the feed-forward block */
    hs__rotation *rotations;  /* at most [2 n_blocks], one for each base; with divisors one for short texts
                               * and behind it one for long ones */
    size_t n_rotations;
    hs__relative relative;
    hs__linear *convolution; /* [H][H width] with its activation, or NULL */
    hs__packed_norm convolution_norm;
    float *score_bias; /* [n_heads][2 n_positions - 1], index j - i + n_positions - 1, divided by the
                          score_scale of layers; or NULL */
    float *sinusoids;  /* [n_positions][E], from the first token's position on; or NULL */
    hs__packed_predictor predictor;
    hs__packed_head task_head, next_sentence;
    hs__linear *sentence[HS_SENTENCE_DENSE_MAX]; /* dense layers of a sentence encoder, in fp32 */
    hs__residual *residual;
    hs__transposed *transposed;
    void *block;             /* memory of norms, rotations and biases */
    atomic_size_t *measured; /* not NULL: hs_engine_measure counts bytes, and nothing is packed */
};

/* Reads and packs all tensors of the architecture. engine->runtime, architecture, precision, shape, kernels,
 * linear and n_threads must be set. Call finish even if it fails. */
hs_status hs__weights_init(hs_engine *engine, hs_error *err);

void hs__weights_finish(hs_engine *engine);
void hs__relative_rows_fill(const hs_architecture *architecture, int32_t *rows);
/* Scratch of one thread for one head, with at most min(N, n_positions) queries and as many keys. */
typedef struct hs__attention_scratch {
    float *keys;      /* K' in panels, later O' in panels */
    float *values;    /* V in panels */
    float *rows;      /* rows of a map that is not kept */
    float *positions; /* scores of rows with relative positions, by row of the table */
} hs__attention_scratch;

/* Scratch of a pass with N = tokens_max rows; W = max(H, E). */
struct hs_workspace {
    const hs_engine *engine;
    size_t tokens_max;
    float *x;          /* [N][H]  hidden state */
    float *qkv;        /* [N][A + 2B] */
    float *memory;     /* [N][H]  states that cross heads read, of all sequences; only of decoders */
    float *memory_kv;  /* [N][2B] their keys and values in a block */
    float *context;    /* [N][A]  head outputs side by side, as the output product reads them */
    float *inner;      /* [N][inner_step], of which F are used: inner array of the feed-forward block */
    float *update;     /* [N][W]  output of a block, to be added to x */
    float *normed;     /* [N][H]  x after the norm (pre-norm only) */
    float *gate;       /* as inner: the gate's output, if there is a gate */
    float *unfolded;   /* [N][H width]  input of the convolution, if there is one */
    uint32_t *operand; /* converted input of a product: N rows of max(W, F, H width); NULL if products read
                          floats */
    size_t operand_bytes;
    hs__attention_scratch *attention; /* [n_threads] */
};

/* Lays out the scratch of one thread for texts of up to n_tokens. */
void hs__attention_layout(const hs_engine *engine, size_t n_tokens, hs__arena *arena,
                          hs__attention_scratch *ret_scratch);

/* All interventions of one head, combined. */
typedef struct hs__head_change {
    bool uniform, identity, patched, mean;
    float factor;    /* of O; 1: none */
    size_t distance; /* of the keys that stay; 0: all */
} hs__head_change;

/* One head of a layer of a sequence, of which only the interventions are read. */
typedef struct hs__head_place {
    const hs_sequence *sequence;
    size_t layer, head;
    bool cross;
} hs__head_place;

/* One head of one sequence: T queries and K keys. q, k, v and context begin at the sequence's first row and
 * the head's first column. K is past + T except in cross attention, which has no mask and no positions. The
 * keys of the past are normed and rotated. */
typedef struct hs__head {
    size_t T, K, D;
    size_t past;  /* keys before those of the first query: its position */
    float *q;     /* [T][D] with `step` floats between rows; rotated in place */
    float *k, *v; /* [K][D] with `key_step` floats between rows; k is rotated in place */
    size_t step, key_step;
    bool keys_are_ready; /* another head of the group has normed and rotated k */
    hs__add_norm *add_norm;
    float norm_eps;
    hs__packed_norm query_norm, key_norm; /* without gamma: none */
    const hs__rotation *rotation;
    size_t rotary_half;
    float scale;
    float cap;                                     /* of scores; 0: none */
    const float *bias;                             /* at distance j - i = 0, divided by scale; or NULL */
    const float *position_keys, *position_queries; /* this head's, or NULL */
    const int32_t *position_rows;                  /* at distance j - i = 0 */
    size_t n_position_rows;
    size_t window; /* 0: none */
    bool causal;
    hs__head_change change;
    hs__head_place place;  /* read if change.patched */
    const float *residual; /* factor of W_O; needed by VALUE_NORMS and the residual similarities */
    float *context;
    size_t context_step;
    float *to[HS_N_TAPS]; /* this head's part of each tap that has heads; NULL: not kept */
    float *lengths;       /* [T]: of the outputs that the similarity `measured` is of; or NULL */
    hs_tap measured;
    bool streams;    /* kept maps are stored past the caches */
    bool upper_only; /* only elements above the diagonal of similarities are needed */
} hs__head;

/* Describes head `index` of a block in a sequence: all but its operands, context and kept arrays. */
hs__head hs__head_describe(const hs_engine *engine, size_t block, size_t index, const hs_sequence *sequence);
/* Sets where q, k and v of a head begin in the sequence's rows of qkv [T][n_out] and, in cross attention, of
 * its memory's keys and values [K][2B]. */
void hs__operands_place(const hs_engine *engine, size_t block, size_t index, float *qkv, float *memory,
                        hs__head *head);

/* Threads that share the rows of one head, each with scratch of its own. */
typedef struct hs__sharing {
    struct hs__team *team;
    const hs__attention_scratch *scratch; /* [n_threads of the team] */
} hs__sharing;

/* A product of packed weights: y [n_rows][n_out] of x [n_rows][n_in], in tasks for n_threads threads. */
typedef struct hs__product {
    const hs__linear *linear;
    size_t n_rows, n_threads;
    const float *x;
    float *y;
} hs__product;

/* Shares its tasks among a team of as many threads. */
void hs__product_share(struct hs__team *team, hs__product product);
/* Does the same with a team of its own. */
void hs__product_run(const hs_engine *engine, hs__product product);

/* Computes a head. With sharing (or NULL), the threads of its team take strips of rows, and scratch is that
 * of the first one; the result has the same bits. */
void hs__attend(const hs__kernels *kernels, const hs__sharing *sharing, const hs__attention_scratch *scratch,
                const hs__head *head);
/* Computes rows [first, first + n) of a similarity from the head's output in context: ret_rows [n][T], of
 * which what is above the map's diagonal is set. Rows have the bits of hs__attend. */
void hs__similarity_rows(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                         const hs__head *head, hs_similarity kind, size_t first, size_t n, float *ret_rows);
/* Computes the lengths of the outputs that a similarity is of, ret_lengths [T], with the bits that an
 * observer sees. scratch is not read for plain outputs. */
void hs__similarity_lengths(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                            const hs__head *head, hs_similarity kind, float *ret_lengths);
/* Computes rows [first, first + n) of A from q and k as the scores read them: ret_rows [n][K], with the
 * bits of hs__attend. No tap is kept, and no intervention replaces A. */
void hs__attention_rows(const hs__kernels *kernels, const hs__attention_scratch *scratch,
                        const hs__head *head, size_t first, size_t n, float *ret_rows);
/* Sets the position biases and relative positions of head `index` of a layer. */
void hs__positions_place(const hs_engine *engine, const hs__packed_layer *layer, bool cross, size_t index,
                         hs__head *head);
/* Applies the patches of one head to its output, rows `step` floats apart. */
void hs__patch_output(const hs__head_place *place, size_t width, float *output, size_t step);
/* Returns the rows of memory that sequence s adds to those of the sequences before it: none if it shares the
 * memory of the one before. */
size_t hs__sequence_memory(const hs_sequence *sequences, size_t s);
/* Returns the keys and values of a block. */
float *hs__past_rows(const hs_past *past, size_t block);
/* Returns true if any sequence of the plan changes this state: 0 the embeddings, l + 1 after layer l. */
bool hs__state_is_changed(const hs_plan *plan, size_t state);
/* Applies the interventions in this state to x [N][H], the rows of all sequences. */
void hs__state_change(const hs_plan *plan, size_t state, size_t hidden, float *x);
/* Returns the threads of a pass over n_tokens tokens that may have n_threads. */
size_t hs__threads_for(const hs_engine *engine, size_t n_tokens, size_t n_threads);
/* Computes the sum of word rows, positions and types of a sequence, which the embedding's norm reads: x
 * [T][E]. scratch holds one row. */
void hs__embed_sum(const hs_engine *engine, const hs_sequence *sequence, float *scratch, float *x);
