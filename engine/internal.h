/* internal.h - an engine, its workspace and the pass, for the files of engine/. */
#pragma once

#include "engine/engine.h"
#include "engine/kernels.h"
#include "engine/linear.h"

typedef struct hs__norm {
    float *gamma, *beta; /* [H] */
} hs__norm;

typedef struct hs__layer {
    hs__linear *qkv;     /* [3H][H]: query, key, value */
    hs__linear *output;  /* [H][H] */
    hs__linear *ffn_in;  /* [F][H], with gelu */
    hs__linear *ffn_out; /* [H][F] */
    hs__norm attention_norm, ffn_norm;
} hs__layer;

struct hs_engine {
    const hs_model *model; /* the embedding tables stay in its tensors */
    hs_shape shape;
    hs_precision precision;
    const hs__linear_kind *linear;
    const hs__kernels *kernels;
    hs__norm embedding_norm;
    hs__layer *layers; /* [n_layers] */
    void *norms;       /* the block that all of them are in */
};

/* Scratch for N = tokens_max rows. Attention maps that nobody captures need one map of scratch. */
struct hs_workspace {
    const hs_engine *engine;
    size_t tokens_max;
    float *x;       /* [N][H]  hidden state */
    float *qkv;     /* [N][3H] */
    float *context; /* [N][H]  head outputs side by side, as the output product reads them */
    float *inner;   /* [N][F]  between the feed-forward products */
    float *update;  /* [N][H]  what a sublayer adds to x */
    float *map;     /* [T][T]  T = min(N, n_positions) */
};

/* The pass itself: sequences are sound, their tokens fit. */
hs_status hs__forward(const hs_engine *engine, hs_workspace *ws, const hs_sequence *sequences,
                      size_t n_sequences, const hs_run_control *control, hs_error *err);
