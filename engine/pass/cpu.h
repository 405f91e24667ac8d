/* cpu.h - the cpu backend's engine, its workspace and its pass, for the files that make it up. */
#pragma once

#include "engine/backend.h"
#include "engine/kernels/kernels.h"
#include "engine/linear/linear.h"
#include "engine/pass/residual.h"

typedef struct hs__packed_norm {
    float *gamma, *beta; /* [H], beta 0 where the model has none; gamma NULL: the identity */
} hs__packed_norm;

/* Rotary positions: of position t and pair m of a head's columns (m, d / 2 + m), the angle's cosine and sine.
 */
typedef struct hs__rotation {
    double base;            /* theta */
    float *cosines, *sines; /* [n_positions][d / 2] */
} hs__rotation;

/* Relative positions (hs_relative): R rows, in the order of j - i. */
typedef struct hs__relative {
    size_t n_rows; /* 0: there are none */
    int32_t *rows; /* [2 n_positions - 1]: which one is for j - i + n_positions - 1 */
} hs__relative;

typedef struct hs__packed_layer {
    hs__linear *qkv;      /* [3H][H]: query, key, value */
    hs__linear *output;   /* [H][H] */
    hs__linear *ffn_gate; /* [F][H], with the activation; NULL: no gate */
    hs__linear *ffn_in;   /* [F][H], with the activation where there is no gate */
    hs__linear *ffn_out;  /* [H][F] */
    hs__packed_norm attention_norm, ffn_norm;
    const hs__rotation *rotation; /* or NULL */
    size_t window;                /* as in hs_layer */
    float *position_keys;         /* of each head Kr' [d][R] in panels, or NULL */
    float *position_queries;      /* [n_heads][R][d]: Qr, or NULL */
} hs__packed_layer;

/* The head for masked tokens, but its decoder, which is read where it lies. */
typedef struct hs__packed_predictor {
    hs__linear *dense; /* [P][H] with the activation, in fp32; NULL: there is no head */
    hs__packed_norm norm;
    float *bias; /* [vocab_size] */
} hs__packed_predictor;

/* The embedding tables stay in the model's tensors. */
typedef struct hs__cpu_engine {
    hs_engine base;
    hs_shape shape;
    size_t n_threads; /* a pass may use, at most */
    const hs__linear_kind *linear;
    const hs__kernels *kernels;
    const hs__conversion *conversion; /* of what products read; NULL: they read floats */
    hs__packed_norm embedding_norm, final_norm;
    hs__linear *projection;   /* [H][E], or NULL: E is H */
    hs__packed_layer *layers; /* [n_layers]; those that share weights share these */
    bool gated, windowed;     /* some layer is */
    size_t inner_step;        /* floats from a row to the next between the feed-forward products */
    hs__rotation *rotations;  /* [n_layers] at most, one for each base */
    size_t n_rotations;
    float score_scale; /* 1 / sqrt(d), or less where scores have addends */
    hs__relative relative;
    hs__linear *convolution; /* [H][H width] with its activation, or NULL */
    hs__packed_norm convolution_norm;
    float
        *score_bias; /* [n_heads][2 n_positions - 1], by j - i + n_positions - 1, over score_scale; or NULL */
    hs__packed_predictor predictor;
    hs__residual *residual;
    void *block; /* in which norms, rotations and biases are */
} hs__cpu_engine;

/* Reads and packs all that the recipe points to. engine->base, shape, kernels, linear and n_threads are set;
 * finish is called whether it fails or not. */
hs_status hs__weights_init(hs__cpu_engine *engine, hs_error *err);
void hs__weights_finish(hs__cpu_engine *engine);

/* Fill in tables of positions.c where their memory is. */
void hs__rotation_fill(hs__rotation *rotation, size_t n_positions, size_t head_width);
void hs__score_bias_fill(const hs_recipe *recipe, float *bias);
void hs__relative_rows_fill(const hs_recipe *recipe, int32_t *rows);
/* Rows of the table that T tokens meet, summed over the tokens. */
double hs__relative_rows_met(const hs_relative *relative, size_t n_tokens);

/* relative.c: fills in every layer's position_keys and position_queries. */
HS_MUST_USE hs_status hs__relative_fill(hs__cpu_engine *engine, hs_error *err);

/* What one thread needs to attend with one head, T = min(N, n_positions). */
typedef struct hs__attention_scratch {
    float *keys;      /* K' in panels, later O' in panels */
    float *values;    /* V in panels */
    float *rows;      /* rows of a map that nobody keeps */
    float *positions; /* scores of rows with relative positions, by the row of the table */
} hs__attention_scratch;

/* Scratch for N = tokens_max rows; W = max(H, E). */
typedef struct hs__cpu_workspace {
    hs_workspace base;
    float *x;          /* [N][H]  hidden state */
    float *qkv;        /* [N][3H] */
    float *context;    /* [N][H]  head outputs side by side, as the output product reads them */
    float *inner;      /* [N][inner_step], of which F are used: between the feed-forward products */
    float *update;     /* [N][W]  what a sublayer adds to x */
    float *normed;     /* [N][H]  x as a block reads it, where norms are before the blocks */
    float *gate;       /* as inner: what inner is multiplied by, where there is a gate */
    float *unfolded;   /* [N][H width]  what the convolution reads, where there is one */
    uint32_t *operand; /* what a product reads where it reads no floats, N rows of max(W, F, H width); or
                          NULL */
    size_t operand_bytes;
    hs__attention_scratch *attention; /* [n_threads] */
} hs__cpu_workspace;

/* Floats for the rows of a map that are computed at once and not kept, for texts of up to n_tokens. */
size_t hs__attention_floats(const hs__cpu_engine *engine, size_t n_tokens);
/* And for what they have of relative positions. */
size_t hs__position_floats(const hs__cpu_engine *engine, size_t n_tokens);

/* What is changed in a head, all interventions that meet in it taken together. */
typedef struct hs__head_change {
    bool uniform, identity, mean;
    float factor; /* of O; 1: none */
} hs__head_change;

/* One head of one sequence: qkv [T][3H] and context [T][H] begin at the sequence's first row and the head's
 * first column. Every destination may be NULL but context. */
typedef struct hs__head {
    size_t T, H, D;
    float *qkv; /* queries and keys are rotated in place */
    const hs__rotation *rotation;
    float scale;
    const float *bias;                             /* of distance j - i = 0, over scale, or NULL */
    const float *position_keys, *position_queries; /* this head's, or NULL */
    const int32_t *position_rows;                  /* of distance j - i = 0 */
    size_t n_position_rows;
    size_t window; /* 0: none */
    hs__head_change change;
    const float *residual; /* its factor, where one of the two below is wanted that need it */
    float *context;
    float *query, *key, *value;                  /* [T][D] */
    float *value_norms;                          /* [T]; needs residual */
    float *scores;                               /* [T][T] */
    float *scores_c2c, *scores_c2p, *scores_p2c; /* [T][T] */
    float *attention;                            /* [T][T] */
    float *columns;                              /* [T], with attention */
    float *output;                               /* [T][D] */
    float *similarity;                           /* [T][T] */
    float *residual_similarity;                  /* [T][T]; needs residual */
    bool upper_only;                             /* of similarities nothing below the diagonal is wanted */
} hs__head;
void hs__attend(const hs__kernels *kernels, const hs__attention_scratch *scratch, const hs__head *head);

/* Rows of one sequence before the projection: x [T][E]; scratch holds one. */
void hs__embed(const hs__cpu_engine *engine, const hs_sequence *sequence, float *scratch, float *x);

/* The pass itself: an hs_backend's run. */
hs_status hs__cpu_run(const hs_engine *engine, hs_workspace *ws, const hs_plan *plan,
                      const hs_run_control *control, hs_error *err);

/* predict.c: an hs_backend's predict. */
hs_status hs__cpu_predict(const hs_engine *engine, const float *states, size_t n_states, size_t n_inner,
                          size_t n_threads, float *logits, hs_error *err);
