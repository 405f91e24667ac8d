/* recipe.h - what a pass through a model computes and with which weights, as data.
 *
 * A family (model/families/) reads a checkpoint's config and tensors and fills in a recipe; the engine reads
 * the recipe and never asks which family wrote it. With x [T][H] the hidden state, per layer:
 *
 *     norms after:   x = norm(x + attend(x)),  x = norm(x + feed(x))
 *     norms before:  x = x + attend(norm(x)),  x = x + feed(norm(x)),  and `final_norm` after the last layer
 *     attend: O = softmax(q k' / sqrt(d) + bias) v, then O Wo' + b; q and k are turned by their positions
 *             where a layer says so, or meet those of distances (hs_relative)
 *     feed:   act(x Wi' + b) Wf' + b, or (act(x Wg') * (x Wi')) Wf' + b where there is a gate
 *
 * What a model does without is a tensor whose data is NULL. An engine refuses, by name, what it cannot do. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits on what a config may ask for; they keep every later size product far from overflow. */
#define HS_LAYERS_MAX    256
#define HS_HEADS_MAX     256
#define HS_HIDDEN_MAX    16384
#define HS_FFN_MAX       65536
#define HS_POSITIONS_MAX 32768
#define HS_VOCAB_MAX     4000000

typedef struct hs_shape {
    size_t n_layers;
    size_t n_heads;
    size_t hidden;      /* H = n_heads * head_width */
    size_t head_width;  /* d */
    size_t ffn;         /* F, the width between the two feed-forward products */
    size_t n_positions; /* the longest text, special tokens included */
    size_t n_types;     /* 0: no token types */
    size_t vocab_size;
} hs_shape;

typedef enum hs_dtype { HS_F32, HS_F16, HS_BF16 } hs_dtype;

/* A weight as it lies in its file: row-major, little-endian, perhaps unaligned. A vector has one row. Some
 * rows of a tensor are a tensor too, so that packed q, k and v are three of them. */
typedef struct hs_tensor {
    const void *data;
    size_t n_rows, n_columns;
    hs_dtype dtype;
} hs_tensor;

/* y = x W' + b; weight is [out][in], bias [1][out]. */
typedef struct hs_dense {
    hs_tensor weight, bias;
} hs_dense;

/* (x - mean) / sqrt(variance + eps) * gamma + beta. Without gamma: the identity. */
typedef struct hs_norm {
    hs_tensor gamma, beta; /* [1][H] */
} hs_norm;

/* GELU is x (1 + erf(x / sqrt 2)) / 2, GELU_TANH its approximation by tanh, QUICK_GELU x sigmoid(1.702 x). */
typedef enum hs_activation {
    HS_GELU,
    HS_GELU_TANH,
    HS_QUICK_GELU,
    HS_RELU,
    HS_SILU,
    HS_TANH,
    HS_N_ACTIVATIONS
} hs_activation;

/* word[id] + position[position_offset + t] + type[type of t], normed, then projected where E is not H.
 *
 * Where position_offset is above 0, the token of id position_offset - 1 is padding, also when a user writes
 * it: it takes row position_offset - 1, and t does not count it.
 *
 * Where token_dropout is above 0 (ESM), word rows of the token mask_id are 0, the others are scaled by
 * (1 - token_dropout) / (1 - the text's share of mask_id). */
typedef struct hs_embedding {
    size_t width;           /* E */
    hs_tensor word;         /* [vocab_size][E] */
    hs_tensor position;     /* [position_offset + n_positions][E] */
    size_t position_offset; /* row of the first token */
    bool unpositioned;      /* a position table, if the file has one, is not used */
    hs_tensor type;         /* [n_types][E] */
    hs_norm norm;           /* over E */
    hs_dense projection;    /* [H][E] */
    double token_dropout;
    int32_t mask_id;
} hs_embedding;

/* T5's buckets of the distance n = j - i from query to key, 16 for keys before it or on it and 16 for those
 * after: m = |n| below 8 has its own, then min(15, 8 + floor(ln(m / 8) / ln(16) * 8)), plus 16 where n > 0.
 */
#define HS_DISTANCE_BUCKETS 32

typedef struct hs_layer {
    size_t same_as; /* the layer whose weights these are; its own number where they are its own */
    hs_dense query, key, value, output; /* [H][H] */
    hs_norm attention_norm;
    hs_dense ffn_in;   /* [F][H] */
    hs_dense ffn_gate; /* [F][H] */
    hs_dense ffn_out;  /* [H][F] */
    hs_norm ffn_norm;
    hs_dense position_key, position_query; /* [H][H], of distances: see hs_relative */
    size_t window;                         /* keys with |i - j| <= window are seen; 0: all */
    double rotation_base;                  /* theta of rotary positions, halves rotated (NeoX); 0: none */
} hs_layer;

/* DeBERTa's positions: a score is the sum of three addends, two of which depend on the distance of query and
 * key and on what stands at one of the two. With R the rows of the table, normed, and of a layer and a head
 *
 *     score(i, j) = (q_i k_j' + q_i Kr[c]' + Qr[c] k_j') / sqrt(d n_addends),  c = span + bucket(i - j)
 *     Kr = R Wpk' + b, Qr = R Wpq' + b      by the layer's position_key and position_query; without: no
 * addend
 *
 * bucket(r) is r up to middle = n_buckets / 2, or everywhere where n_buckets is 0, then, with r's sign,
 * ceil(ln(|r| / middle) / ln((n_distances - 1) / middle) (middle - 1)) + middle. c is kept within the table.
 */
typedef struct hs_relative {
    hs_tensor table; /* [2 span][H]; NULL: there is none, and no position_key or position_query */
    hs_norm norm;    /* of its rows */
    size_t span, n_buckets, n_distances;
    bool c2p, p2c;  /* content to position: there is a position_key; position to content: a position_query */
    bool is_normed; /* the norm is there */
    bool shared;    /* they are the layer's key and query */
    size_t n_addends; /* that scores are scaled for; 0: one */
} hs_relative;

/* What DeBERTa-v2 adds behind its first layer: x = norm(x + act(y W' + b)), where a row of y [T][H width] is
 * of each of its H columns the embeddings of the tokens from (width - 1) / 2 before to as many behind, 0
 * where there are none. */
typedef struct hs_convolution {
    hs_dense dense; /* [H][H width] */
    hs_norm norm;
    hs_activation activation;
    size_t width; /* odd; 0: there is none */
} hs_convolution;

/* The head that predicts masked tokens: logits = norm(act(dense(h))) decoder' + bias, h after final_norm. */
typedef struct hs_predictor {
    hs_dense dense; /* [P][H] */
    hs_activation activation;
    hs_norm norm;      /* over P, with the recipe's eps */
    hs_tensor decoder; /* [vocab_size][P]; NULL: the checkpoint has no such head */
    hs_tensor bias;    /* [1][vocab_size] */
    bool untied;       /* the config says that the decoder is not the word embedding */
} hs_predictor;

typedef struct hs_recipe {
    const char *family; /* model_type of HuggingFace's config.json; static */
    hs_shape shape;
    float norm_eps;
    bool norms_before;
    hs_activation activation;
    hs_embedding embedding;
    hs_layer *layers;     /* [n_layers] */
    hs_tensor score_bias; /* [HS_DISTANCE_BUCKETS][n_heads]: added to q k' / sqrt(d) in every layer */
    bool alibi;           /* -s_h |j - i| is: ALiBi's slopes, s_h = 2^(-8 (h + 1) / n_heads) where n_heads is
                             a power of two */
    hs_relative relative;
    hs_convolution convolution;
    hs_norm final_norm;
    hs_predictor predictor;
} hs_recipe;

/* Converts n_rows rows of a tensor, from row_first on, to floats: ret is [n_rows][n_columns]. */
void hs_tensor_read(const hs_tensor *tensor, size_t row_first, size_t n_rows, float *ret);

/* False when a value is a NaN or infinite. Reads all of it. */
bool hs_tensor_is_finite(const hs_tensor *tensor);
