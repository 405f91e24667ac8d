/* architecture.h - the architecture of a model: which operations a forward pass computes, and their weights.
 *
 * A family (model/families/) reads a checkpoint's config and tensors and fills in an hs_architecture. The
 * engine reads only the architecture, never the family. With x [T][H] the hidden state, each layer computes:
 *
 *     norms after:   x = norm(x + attend(x)),  x = norm(x + feed(x))
 *     norms before:  x = x + attend(norm(x)),  x = x + feed(norm(x)),  and `final_norm` after the last layer
 *                    with norms of what is added (OLMo 2): x = x + out_norm(attend(norm(x))), and so on
 *     attend: O = softmax(q k' / sqrt(d) + bias) v, then O Wo' + b. Rotary layers rotate q and k by their
 *             positions; hs_relative adds scores between tokens and distances
 *     feed:   act(x Wi' + b) Wf' + b, or with a gate (act(x Wg') * (x Wi')) Wf' + b
 *
 * A decoder that reads an encoder's states, the memory m [Ts][H], attends twice in each layer:
 *
 *     norms after:   x = norm(x + attend(x)),  x = norm(x + cross(x)),  x = norm(x + feed(x))
 *     norms before:  x = x + attend(norm(x)),  x = x + cross(norm(x)),  x = x + feed(norm(x))
 *     cross:  as attend with q of x, k and v of m; without mask, window, rotation and bias
 *
 * A tensor with data NULL is absent. An engine refuses, by name, an operation that it does not support. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits on the sizes in a config. They keep every later product of sizes far from overflow. */
#define HS_LAYERS_MAX    256
#define HS_HEADS_MAX     256
#define HS_HIDDEN_MAX    16384
#define HS_FFN_MAX       65536
#define HS_POSITIONS_MAX 32768
#define HS_VOCAB_MAX     4000000

typedef struct hs_shape {
    size_t n_layers;
    size_t n_heads;
    size_t hidden;      /* H */
    size_t head_width;  /* d; n_heads * d is H unless the config says otherwise */
    size_t ffn;         /* F, the width of the feed-forward part */
    size_t n_positions; /* tokens of the longest text, special tokens included */
    size_t n_types;     /* 0: no token types */
    size_t vocab_size;
    size_t n_kv_heads; /* heads of keys and values; 0: n_heads. Divides n_heads */
} hs_shape;

/* Returns the number of key-value heads. Query head h reads key-value head h / (n_heads / n_kv_heads). */
static inline size_t hs_shape_kv_heads(const hs_shape *shape)
{
    return shape->n_kv_heads > 0 ? shape->n_kv_heads : shape->n_heads;
}

/* Returns the columns of all heads' outputs side by side: A. */
static inline size_t hs_shape_attention_width(const hs_shape *shape)
{
    return shape->n_heads * shape->head_width;
}

/* Returns the columns of all keys, or of all values, side by side: B; A unless heads are grouped. */
static inline size_t hs_shape_kv_width(const hs_shape *shape)
{
    return hs_shape_kv_heads(shape) * shape->head_width;
}

typedef enum hs_dtype { HS_F32, HS_F16, HS_BF16 } hs_dtype;

/* A weight as stored in its file: row-major, little-endian, possibly unaligned. A vector has one row. A range
 * of rows is a tensor too, so packed q, k and v become three tensors.
 *
 * A matrix may be stored transposed, as GPT-2's are. Then data points to its first element and element (r, c)
 * is column_step * c + r elements further.
 *
 * Values may lie in groups, as those of heads whose q, k and v are side by side. Then `group` of them are
 * adjacent, and group_step elements further the next ones begin. */
typedef struct hs_tensor {
    const void *data;
    size_t n_rows, n_columns;
    hs_dtype dtype;
    size_t column_step;       /* 0: row-major */
    size_t group, group_step; /* whole rows of a matrix; 0: all values are adjacent */
    float factor;             /* of all values when they are read; 0: none */
} hs_tensor;

/* y = x W' + b; weight is [out][in], bias [1][out]. */
typedef struct hs_dense {
    hs_tensor weight, bias;
} hs_dense;

/* LAYER: (x - mean) / sqrt(variance + eps) * gamma + beta. RMS: x / sqrt(mean of x^2 + eps) * gamma + beta.
 * Without gamma: the identity. */
typedef enum hs_norm_kind { HS_NORM_LAYER, HS_NORM_RMS } hs_norm_kind;
typedef struct hs_norm {
    hs_tensor gamma, beta; /* [1][H] */
    float offset;          /* added to gamma: 1 in Gemma */
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

/* The rows of sinusoids, for position p and E columns, with angles in float32 (M2M100) or float64 (Marian) as
 * in HuggingFace's models:
 *
 *     HS_SINUSOIDS_M2M: sin(p r^k) in the first half and cos(p r^k) in the second one, with k = 0, 1, ... and
 *         r = 10000^(-1 / (E / 2 - 1)). An odd E has a 0 at its end. The row of padding is 0.
 *     HS_SINUSOIDS_MARIAN: the same with r = 10000^(-2 / E). With an odd E the first half has a column more.
 */
typedef enum hs_sinusoids { HS_SINUSOIDS_NONE, HS_SINUSOIDS_M2M, HS_SINUSOIDS_MARIAN } hs_sinusoids;

/* The embedding of token t: word[id] + position[position_offset + t] + type[type of t], normalised, then
 * projected if E != H.
 *
 * If position_offset > 0, the id position_offset - 1 is padding, even if the user writes that token. Padding
 * takes row position_offset - 1, and t does not count it. With counts_padding it is a token like others.
 *
 * Sinusoids replace the table of positions. With positions_last (OPT-350m) the table has H columns and is
 * added behind the projection; there are no types and no norm.
 *
 * If token_dropout > 0 (ESM), the word rows of mask_id are 0. The other rows are scaled by (1 -
 * token_dropout) / (1 - f), where f is the fraction of the text's tokens that are mask_id. */
typedef struct hs_embedding {
    size_t width;       /* E */
    hs_tensor word;     /* [vocab_size][E] */
    hs_tensor position; /* [position_offset + n_positions][E], or [...][H] with positions_last */
    bool positions_last;
    size_t position_offset; /* row of the first token */
    bool counts_padding;
    hs_sinusoids sinusoids;
    double scale;        /* of the word rows; 0: none */
    bool unpositioned;   /* ignore a position table in the file */
    hs_tensor type;      /* [n_types][E] */
    bool unnormed;       /* ignore the layout's norm */
    hs_norm norm;        /* over E */
    hs_dense projection; /* [H][E] */
    double token_dropout;
    int32_t mask_id;
} hs_embedding;

/* A bias that T5 and MPNet add to the scores of every layer, by head and by bucket of the distance n = j - i
 * from query to key. Encoders have B = n_buckets / 2 buckets for n <= 0 and B more for n > 0. If it is
 * one_sided, as in decoders, B is n_buckets, and all n > 0 are in bucket 0.
 *
 * With m = |n| and e = B / 2, rounded down, each m below e has its own bucket. Other distances take
 * min(B - 1, e + floor(ln(m / e) / ln(n_distances / e) (B - e))), in float32 as in HuggingFace's models. B is
 * added if n > 0, unless it is one_sided. */
typedef struct hs_score_bias {
    hs_tensor table; /* [n_buckets][n_heads]; NULL: none */
    size_t n_buckets, n_distances;
    bool one_sided;
} hs_score_bias;

typedef struct hs_layer {
    size_t same_as; /* index of the layer that owns these weights; the layer's own index unless shared */
    hs_dense query, key, value;   /* [A][H], [B][H], [B][H] */
    hs_dense output;              /* [H][A] */
    hs_norm query_norm, key_norm; /* of each head's q and k before rotation: [1][d], or a row for each head
                                   * of q and of k; see qk_norms_whole */
    hs_norm attention_norm;
    hs_norm attention_out_norm, ffn_out_norm; /* of what each part adds to x, with norms before */
    hs_dense ffn_in;                          /* [F][H] */
    hs_dense ffn_gate;                        /* [F][H] */
    hs_dense ffn_out;                         /* [H][F] */
    hs_norm ffn_norm;
    hs_dense position_key, position_query; /* [H][H], applied to distances: see hs_relative */
    size_t window;                         /* a query sees keys with |i - j| <= window; 0: all. Causal
                                            * models also need j <= i */
    double score_divisor;                  /* of the layer's scores, beside the architecture's, without
                                            * score_bias (GPT-2); 0: none */
    double rotation_base;                  /* theta of rotary positions; 0:
                                            * none */
    bool rotation_unscaled;                /* as if hs_rotary had no factor */
} hs_layer;

/* DeBERTa's disentangled attention: a score is the sum of three addends. Two of them depend on the distance
 * between query and key and on the content of one of the two. R is the table's rows after its norm:
 *
 *     score(i, j) = (q_i k_j' + q_i Kr[c]' + Qr[c] k_j') / sqrt(d n_addends),  c = span + bucket(i - j)
 *     Kr = R Wpk' + b, Qr = R Wpq' + b
 *
 * Wpk and Wpq are the layer's position_key and position_query. An addend without its weight is absent.
 *
 * bucket(r) is r for |r| up to middle = n_buckets / 2, and for every r if n_buckets is 0. Beyond middle it is
 * ceil(ln(|r| / middle) / ln((n_distances - 1) / middle) (middle - 1)) + middle with the sign of r. c is
 * clamped to the table. */
typedef struct hs_relative {
    hs_tensor table; /* [2 span][H]; NULL: no relative positions */
    hs_norm norm;    /* of the table's rows */
    size_t span, n_buckets, n_distances;
    bool c2p, p2c;  /* content-to-position (needs position_key), position-to-content (needs position_query) */
    bool is_normed; /* the norm is used */
    bool shared;    /* position_key and position_query are the layer's key and query */
    size_t n_addends; /* divisor in the scale of scores; 0: one */
} hs_relative;

/* The convolution after DeBERTa-v2's first layer: x = norm(x + act(y W' + b)). Each row of y [T][H width]
 * holds, for each of the H columns, the embeddings of the tokens from (width - 1) / 2 before to (width - 1) /
 * 2 after. Positions outside the text are 0. */
typedef struct hs_convolution {
    hs_dense dense; /* [H][H width] */
    hs_norm norm;
    hs_activation activation;
    size_t width; /* odd; 0: none */
} hs_convolution;

/* The head that predicts masked tokens or the next token: logits = norm(act(dense(h))) decoder' + bias, h
 * after final_norm. dense, norm and bias may be absent. */
typedef struct hs_predictor {
    hs_dense dense; /* [P][H] */
    bool is_linear; /* dense has no activation */
    hs_activation activation;
    hs_norm norm;      /* over P, with the architecture's eps */
    hs_tensor decoder; /* [vocab_size][P]; NULL: the checkpoint has no such head */
    hs_tensor bias;    /* [1][vocab_size] */
    bool untied;       /* the config says that the decoder is not the word embedding (tie_word_embeddings:
                        * false) */
    bool tied;         /* the config says that it is */
    char missing[100]; /* a tensor that the decoder needs because the config does not tie it, and that the
                        * checkpoint lacks; "": none. With a name, decoder is NULL */
    bool dense_unbiased, unbiased; /* the config says that dense or the decoder has no bias */
    bool next;                     /* the logits at a position are of the token that follows it */
    double scale;                  /* of what the decoder reads; 0: none */
    double cap;                    /* c: logits l become c tanh(l / c) (Gemma); 0: none */
} hs_predictor;

/* The task of a fine-tuned checkpoint's head. */
typedef enum hs_head_task {
    HS_TASK_NONE,
    HS_TASK_SEQUENCE, /* classes of a text, or a score */
    HS_TASK_TOKENS,   /* classes of each token */
    HS_TASK_SPAN,     /* two logits a token: start and end of an answer */
    HS_TASK_NEXT_SENTENCE
} hs_head_task;

typedef enum hs_problem_type { HS_SINGLE_LABEL, HS_MULTI_LABEL, HS_REGRESSION } hs_problem_type;

#define HS_LABELS_MAX      16384
#define HS_LABEL_BYTES_MAX 1000

/* The ways to make one vector of the last states h [T][H] of a text (sentence-transformers, Pooling). */
typedef enum hs_pool {
    HS_POOL_CLS,       /* h of the first token */
    HS_POOL_MAX,       /* the largest of each column */
    HS_POOL_MEAN,      /* the mean over tokens */
    HS_POOL_MEAN_SQRT, /* the sum over tokens / sqrt(T) */
    HS_POOL_WEIGHTED,  /* the mean with weights 1, 2, ..., T */
    HS_POOL_LAST,      /* h of the last token */
    HS_N_POOLS
} hs_pool;

/* A head on the last states: logits = norm(act(x W' + b)) output' + b. P is H, but in OPT-350m. x is a
 * token's state for TOKENS and SPAN. For the other tasks it is one vector, pooled from the states, or with
 * pools_late from the rows act(x W' + b) of all tokens. */
typedef struct hs_task_head {
    hs_head_task task; /* NONE: the checkpoint has no such head */
    hs_problem_type problem;
    hs_pool pool;
    int32_t padding_id; /* HS_POOL_LAST takes the last token that is not this one; -1: the last one */
    bool pools_late;    /* has a dense, and no norm */
    hs_dense dense;     /* [P][H]; NULL: x goes to the output as it is */
    bool is_linear;     /* dense has no activation */
    hs_activation activation;
    hs_norm norm;    /* over P; without gamma: the identity */
    hs_dense output; /* [C][P] */
    size_t n_classes;
    char **labels; /* [n_classes], owned; NULL: the classes have no names */
} hs_task_head;

/* Several ways put their vectors side by side. The last two members are of the vector that the modules behind
 * the pooling make: sentence-transformers cuts it, then divides what is left by its length. */
typedef struct hs_pooling {
    size_t n; /* 0: none is named */
    hs_pool ways[HS_N_POOLS];
    size_t first;     /* the first token that counts; below T */
    size_t n_columns; /* the first columns, which are kept; 0: all */
    bool normalized;  /* the kept columns are divided by their length */
} hs_pooling;

/* The sparse vector of SPLADE, made of the logits l [T][vocab_size] of masked tokens: for each entry of the
 * vocabulary ln(1 + max(0, l)), pooled over tokens. */
typedef struct hs_sparse_head {
    bool exists;   /* modules.json names it; else the values here are the defaults */
    bool sums;     /* adds the tokens' logarithms; else the largest counts */
    bool twice;    /* the logarithm of 1 plus the logarithm */
    size_t n_most; /* the largest entries are kept, so many; 0: all */
} hs_sparse_head;

/* act(x W' + b) after the pooling of a sentence encoder. */
typedef struct hs_sentence_dense {
    hs_dense dense;
    bool is_linear; /* no activation */
    hs_activation activation;
} hs_sentence_dense;

#define HS_SENTENCE_DENSE_MAX 4

#define HS_PROMPTS_MAX           1024
#define HS_PROMPT_NAME_BYTES_MAX 200
#define HS_PROMPT_TEXT_BYTES_MAX 16384

/* A text that a sentence encoder puts before its input, such as "query: ". */
typedef struct hs_prompt {
    const char *name, *text; /* the text may be empty */
} hs_prompt;

/* The modules behind the transformer of a sentence encoder: pooling, dense layers, and a norm, or the pooling
 * of a sparse one. */
typedef struct hs_sentence_head {
    hs_sparse_head sparse;
    hs_pooling pooling;  /* n 0: the checkpoint names no modules */
    bool without_prompt; /* the tokens of a prompt are left out of the pooling */
    hs_sentence_dense dense[HS_SENTENCE_DENSE_MAX];
    size_t n_dense;
    bool normalized;    /* the vector is divided by its length */
    size_t max_tokens;  /* texts are cut to this length unless a request says otherwise; 0: the files do not
                           say */
    hs_prompt *prompts; /* [n_prompts], owned with their texts, in one block */
    size_t n_prompts;
    size_t
        default_prompt; /* number of the one that applies unless a request says otherwise; n_prompts: none */
} hs_sentence_head;

/* Frequencies of rotary positions are theta^(-2m / R), for the first R columns of a head, or those of the
 * checkpoint (`frequencies`), which nothing scales. With a factor they are divided by it. If
 * original_positions is P > 0 (Llama 3), a frequency with wavelength w is divided only where P / w < low. It
 * stays where P / w > high, and is interpolated linearly between.
 *
 * With by_column (YaRN) frequency m is divided by the factor for m >= high, stays for m <= low, and is
 * interpolated linearly between. With divisors (LongRoPE) frequency m is divided by divisors[m], or in texts
 * of more than P tokens by divisors[R / 2 + m]. Both multiply cosines and sines by an amplitude. */
typedef struct hs_rotary {
    size_t width;     /* R, even; 0: the head's width */
    bool interleaved; /* columns 2m and 2m + 1 turn together (GPT-J), not m and R / 2 + m */
    double factor;    /* 0: none */
    double low, high;
    size_t original_positions;
    bool by_column;
    double amplitude;      /* 0: 1 */
    float *divisors;       /* [2][R / 2], owned; or NULL */
    hs_tensor frequencies; /* [1][R / 2]; NULL: theta's */
} hs_rotary;

#define HS_STOPS_MAX      32
#define HS_SUPPRESSED_MAX 512

/* How a model writes a text greedily: the keys of generation_config.json, or without that file of
 * config.json, which transformers' generate obeys with do_sample false and num_beams 1. Ids are of the
 * vocabulary. */
typedef struct hs_generation {
    char refusal[200]; /* names a key that is not obeyed; "": none */
    int32_t start_id;  /* of a decoder's text; -1: not named */
    int32_t bos_id;    /* which starts it then; -1: not named */
    int32_t stops[HS_STOPS_MAX];
    size_t n_stops;
    int32_t forced_first, forced_last; /* forced_bos_token_id, forced_eos_token_id; -1: none */
    size_t min_length, min_new_tokens;
    double repetition_penalty;             /* 1: none */
    size_t no_repeat;                      /* no_repeat_ngram_size; 0: none */
    int32_t suppressed[HS_SUPPRESSED_MAX]; /* suppress_tokens, then begin_suppress_tokens */
    size_t n_suppressed, n_begin_suppressed;
    int32_t bad_words[HS_SUPPRESSED_MAX]; /* bad_words_ids, each ended by -1 */
    size_t n_bad_words;                   /* numbers in bad_words */
} hs_generation;

#define HS_TRAINED_FOR_BYTES 128

typedef struct hs_architecture {
    const char *family; /* model_type of HuggingFace's config.json; static */
    hs_shape shape;
    float norm_eps;
    double initializer_range;               /* deviation of the weights before training */
    char trained_for[HS_TRAINED_FOR_BYTES]; /* names of the paper's claims that the training aimed at,
                                             * ",separators,focal," ; or "" */
    hs_norm_kind norm_kind;
    bool norms_before;
    bool causal;      /* a query sees no key after it */
    bool crosses;     /* a decoder that reads a memory: layer l is layers[2l], which has no feed-forward
                       * part, and layers[2l + 1], whose queries meet the memory's keys and values */
    int32_t start_id; /* of a decoder: the token before its text; -1: the config names none */
    bool stacks_tied; /* of an encoder and its decoder: if the checkpoint lacks a tensor of one that the other
                       * has under the same name, this one counts */
    bool starts_with_language; /* the language that ends a target is its start token: mBART */
    bool parallel_residual;    /* with norms before: x + attend(norm(x)) + feed(norm(x)) */
    bool norms_apart;          /* of families whose config says so: with a parallel residual, each part reads
                                * the state through a norm of its own */
    bool qk_normed;            /* of families whose config says so: layers have query_norm and key_norm */
    float *qk_gammas;    /* of queries and keys, where each head has a tensor of its own; owned; or NULL */
    bool qk_norms_whole; /* query_norm and key_norm are [1][A] and [1][B], of all heads' columns as one row */
    hs_rotary rotary;
    hs_activation activation;
    bool gated; /* of families whose config says so: the feed-forward part has a gate */
    /* where the config says so: biases of query, key and value, of the output, of the feed-forward part */
    bool attention_biased, output_biased, ffn_biased;
    hs_embedding embedding;
    hs_layer *layers; /* [hs_architecture_blocks] */
    hs_score_bias score_bias;
    double score_divisor;  /* scores are (q k' + ...) / score_divisor + bias: 1 in T5; 0: sqrt(d) */
    double residual_scale; /* of what attend and feed add to x, in their last weights (Granite); 0: none */
    double score_cap;      /* c: before the mask, scores s become c tanh(s / c) (Gemma 2); 0: none */
    bool alibi;            /* adds -s_h |j - i| (ALiBi); slopes s_h = 2^(-8 (h + 1) / n_heads) if n_heads is a
                            * power of two */
    hs_relative relative;
    hs_convolution convolution;
    hs_norm final_norm;
    hs_predictor predictor;
    hs_task_head task_head;     /* the one that config.json names */
    hs_task_head next_sentence; /* of checkpoints with BERT's pretraining heads */
    hs_dense contacts;          /* [1][n_layers n_heads]: a regression of contacts between residues on maps of
                                 * heads, of ESM checkpoints that have it */
    hs_sentence_head sentence;  /* of checkpoints with modules.json */
    hs_generation generation;   /* of causal models and decoders */
} hs_architecture;

/* Returns how many blocks with attention a layer has. */
static inline size_t hs_architecture_layer_blocks(const hs_architecture *architecture)
{
    return architecture->crosses ? 2 : 1;
}

/* Returns the number of all blocks with attention. */
static inline size_t hs_architecture_blocks(const hs_architecture *architecture)
{
    return architecture->shape.n_layers * hs_architecture_layer_blocks(architecture);
}

/* Converts rows [row_first, row_first + n_rows) to floats: ret is [n_rows][n_columns]. */
void hs_tensor_read(const hs_tensor *tensor, size_t row_first, size_t n_rows, float *ret);

/* Returns false if a value is NaN or infinite. Reads the whole tensor. */
bool hs_tensor_is_finite(const hs_tensor *tensor);
