/* cpu.h - the cpu backend's engine, its workspace and its pass, for the files that make it up. */
#pragma once

#include "engine/backend.h"
#include "engine/kernels/kernels.h"
#include "engine/linear/linear.h"

typedef struct hs__packed_norm {
    float *gamma, *beta; /* [H], beta 0 where the model has none */
} hs__packed_norm;

typedef struct hs__packed_layer {
    hs__linear *qkv;     /* [3H][H]: query, key, value */
    hs__linear *output;  /* [H][H] */
    hs__linear *ffn_in;  /* [F][H], with the activation */
    hs__linear *ffn_out; /* [H][F] */
    hs__packed_norm attention_norm, ffn_norm;
} hs__packed_layer;

/* The embedding tables stay in the model's tensors. */
typedef struct hs__cpu_engine {
    hs_engine base;
    hs_shape shape;
    size_t n_threads; /* a pass may use, at most */
    const hs__linear_kind *linear;
    const hs__kernels *kernels;
    const hs__bf16_kernels *bf16; /* NULL: fp32 */
    hs__packed_norm embedding_norm;
    hs__linear *projection;   /* [H][E], or NULL: E is H */
    hs__packed_layer *layers; /* [n_layers] */
    void *norms;              /* the block that all of them are in */
} hs__cpu_engine;

/* What one thread needs to attend with one head, T = min(N, n_positions). */
typedef struct hs__attention_scratch {
    float *keys;   /* K' in panels, later O' in panels */
    float *values; /* V in panels */
    float *rows;   /* [rows_max][T]: rows of a map that nobody keeps */
} hs__attention_scratch;

/* Scratch for N = tokens_max rows; W = max(H, E). */
typedef struct hs__cpu_workspace {
    hs_workspace base;
    float *x;          /* [N][H]  hidden state */
    float *qkv;        /* [N][3H] */
    float *context;    /* [N][H]  head outputs side by side, as the output product reads them */
    float *inner;      /* [N][F]  between the feed-forward products */
    float *update;     /* [N][W]  what a sublayer adds to x */
    uint32_t *operand; /* [N][max(W, F) / 2] what a product reads as pairs of bfloat16, or NULL */
    hs__attention_scratch *attention; /* [n_threads] */
} hs__cpu_workspace;

/* Rows of a map that are computed at once, so that they are still in the first-level cache when the softmax
 * and then the product with V read them. */
size_t hs__attention_rows(const hs__kernels *kernels, size_t n_tokens);

/* What is changed in a head, all interventions that meet in it taken together. */
typedef struct hs__head_change {
    bool uniform, identity, mean;
    float factor; /* of O; 1: none */
} hs__head_change;

/* One head of one sequence: qkv [T][3H] and context [T][H] begin at the sequence's first row and the head's
 * first column. Every destination may be NULL but context. */
typedef struct hs__head {
    size_t T, H, D;
    const float *qkv;
    hs__head_change change;
    float *context;
    float *scores;     /* [T][T] */
    float *attention;  /* [T][T] */
    float *columns;    /* [T], with attention */
    float *output;     /* [T][D] */
    float *similarity; /* [T][T] */
    bool upper_only;   /* of similarity nothing below the diagonal is wanted */
} hs__head;
void hs__attend(const hs__kernels *kernels, const hs__attention_scratch *scratch, const hs__head *head);

/* Rows of one sequence before the projection: x [T][E]; scratch holds one. */
void hs__embed(const hs__cpu_engine *engine, const hs_sequence *sequence, float *scratch, float *x);

/* The pass itself: an hs_backend's run. */
hs_status hs__cpu_run(const hs_engine *engine, hs_workspace *ws, const hs_plan *plan,
                      const hs_run_control *control, hs_error *err);
