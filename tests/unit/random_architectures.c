#include "tests/unit/random_architectures.h"

#include <math.h>

/* layers, heads, hidden, head width, ffn, positions, types, vocabulary, key-value heads */
const hs_shape random_small = {3, 3, 42, 14, 50, RANDOM_TOKENS_MAX, 2, 20, 0};
const hs_shape random_large = {3, 4,  256, 64, 300, RANDOM_TOKENS_MAX,
                               2, 20, 0}; /* enough work for threads to share */
const hs_shape random_padded = {3, 3,  42, 14, 1024, RANDOM_TOKENS_MAX,
                                2, 20, 0}; /* rows that would be pages apart */
const hs_shape *random_shape = &random_small;

hs_architecture architecture_plain(void)
{
    return random_architecture(random_shape, random_shape->hidden);
}

static hs_architecture architecture_gelu_tanh(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.activation = HS_GELU_TANH;
    return architecture;
}

static hs_architecture architecture_quick_gelu(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.activation = HS_QUICK_GELU;
    return architecture;
}

static hs_architecture architecture_relu(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.activation = HS_RELU;
    return architecture;
}

static hs_architecture architecture_silu(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.activation = HS_SILU;
    return architecture;
}

static hs_architecture architecture_tanh(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.activation = HS_TANH;
    return architecture;
}

/* ELECTRA's narrow embedding, and one wider than everything else. */
static hs_architecture architecture_projected(void)
{
    return random_architecture(random_shape, 10);
}

static hs_architecture architecture_projected_from_wide(void)
{
    return random_architecture(random_shape, 200);
}

/* An architecture without positions, types or biases. */
static hs_architecture architecture_bare(void)
{
    hs_architecture architecture = architecture_plain();
    const hs_tensor none = {0};
    architecture.shape.n_types = 0;
    architecture.embedding.type = architecture.embedding.position = architecture.embedding.norm.beta = none;
    for (size_t l = 0; l < random_shape->n_layers; l++) {
        hs_layer *layer = &architecture.layers[l];
        layer->query.bias = layer->key.bias = layer->value.bias = layer->output.bias = none;
        layer->ffn_in.bias = layer->ffn_out.bias = none;
        layer->attention_norm.beta = layer->ffn_norm.beta = none;
    }
    return architecture;
}

/* RoBERTa: id 3, which our texts hold, is padding. */
static hs_architecture architecture_padding(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.embedding.position_offset = 4;
    architecture.embedding.position =
        random_tensor(random_shape->n_positions + 4, random_shape->hidden, 0, 0.5F);
    return architecture;
}

/* BART: id 3 is a token like others; words are scaled. */
static hs_architecture architecture_counted_padding(void)
{
    hs_architecture architecture = architecture_padding();
    architecture.embedding.counts_padding = true;
    architecture.embedding.scale = 7;
    return architecture;
}

/* M2M100: id 3 is padding, whose row is 0. */
static hs_architecture architecture_sinusoids(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.embedding.position = (hs_tensor){0};
    architecture.embedding.sinusoids = HS_SINUSOIDS_M2M;
    architecture.embedding.position_offset = 4;
    architecture.embedding.norm = (hs_norm){0};
    return architecture;
}

static hs_architecture architecture_sinusoids_of_marian(void)
{
    hs_architecture architecture = architecture_sinusoids();
    architecture.embedding.sinusoids = HS_SINUSOIDS_MARIAN;
    architecture.embedding.position_offset = 0;
    return architecture;
}

static hs_architecture architecture_token_dropout(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.embedding.token_dropout = 0.12;
    architecture.embedding.mask_id = 8;
    architecture.embedding.norm = (hs_norm){0};
    return architecture;
}

/* MPNet. */
static hs_architecture architecture_distance_bias(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.score_bias = (hs_score_bias){
        .table = random_tensor(32, random_shape->n_heads, 0, 1), .n_buckets = 32, .n_distances = 128};
    return architecture;
}

/* T5's encoder: a gate, scores that are not scaled, and few buckets of few distances. */
static hs_architecture architecture_t5(void)
{
    hs_architecture architecture = architecture_bare();
    architecture.norms_before = true;
    architecture.score_divisor = 1;
    architecture.activation = HS_GELU_TANH;
    architecture.score_bias = (hs_score_bias){
        .table = random_tensor(10, random_shape->n_heads, 0, 1), .n_buckets = 10, .n_distances = 20};
    architecture.final_norm.gamma = random_tensor(1, random_shape->hidden, 1, 0.1F);
    for (size_t l = 0; l < random_shape->n_layers; l++)
        architecture.layers[l].ffn_gate.weight =
            random_tensor(random_shape->ffn, random_shape->hidden, 0, 0.1F);
    return architecture;
}

/* Three heads: slopes of two, and one in between. */
static hs_architecture architecture_alibi(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.alibi = true;
    return architecture;
}

/* ALBERT: one layer's weights for all. */
static hs_architecture architecture_shared(void)
{
    hs_architecture architecture = random_architecture(random_shape, 16);
    architecture.activation = HS_GELU_TANH;
    architecture.layers[1] = architecture.layers[2] = (hs_layer){.same_as = 0};
    return architecture;
}

static hs_architecture architecture_gated(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.activation = HS_SILU;
    for (size_t l = 0; l < random_shape->n_layers; l++)
        architecture.layers[l].ffn_gate = random_dense(random_shape->ffn, random_shape->hidden);
    return architecture;
}

hs_architecture architecture_rotated(void)
{
    hs_architecture architecture = architecture_plain();
    for (size_t l = 0; l < random_shape->n_layers; l++)
        architecture.layers[l].rotation_base = l == 1 ? 100 : 10000;
    return architecture;
}

static hs_architecture architecture_yarn(void)
{
    hs_architecture architecture = architecture_rotated();
    architecture.rotary = (hs_rotary){.factor = 4, .low = 1, .high = 4, .by_column = true, .amplitude = 1.2};
    return architecture;
}

/* Some texts of the tests have more tokens than the positions of the training. */
static hs_architecture architecture_longrope(void)
{
    static float divisors[256];
    hs_architecture architecture = architecture_rotated();
    for (size_t i = 0; i < sizeof divisors / sizeof *divisors; i++)
        divisors[i] = 1 + (float)i / 8;
    architecture.rotary = (hs_rotary){.original_positions = 20, .amplitude = 1.1, .divisors = divisors};
    return architecture;
}

/* As of Gemma 3, whose layers with a window rotate unscaled. */
static hs_architecture architecture_partly_longrope(void)
{
    hs_architecture architecture = architecture_longrope();
    architecture.layers[1].rotation_unscaled = true;
    return architecture;
}

/* No text is long. */
static hs_architecture architecture_short_longrope(void)
{
    hs_architecture architecture = architecture_longrope();
    architecture.rotary.original_positions = random_shape->n_positions;
    return architecture;
}

static hs_architecture architecture_interleaved(void)
{
    hs_architecture architecture = architecture_rotated();
    architecture.rotary.interleaved = true;
    return architecture;
}

/* Windows: one neighbour in the first layer, 16 in the second, and none in the others. */
static hs_architecture architecture_windows(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.layers[0].window = 1;
    architecture.layers[1].window = 16;
    return architecture;
}

/* GPT-2 as Stanford trained it: the scores of layer l are divided by l + 1 as well. */
static hs_architecture architecture_divided(void)
{
    hs_architecture architecture = architecture_plain();
    for (size_t l = 0; l < random_shape->n_layers; l++)
        architecture.layers[l].score_divisor = (double)(l + 1);
    return architecture;
}

/* ESM: norms before every block, and a final one. */
static hs_architecture architecture_norms_before(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.norms_before = true;
    architecture.final_norm = random_norm(random_shape->hidden);
    return architecture;
}

/* OLMo 2: norms of what the blocks add, and of the queries and keys of all heads. */
hs_architecture architecture_norms_of_updates(void)
{
    hs_architecture architecture = architecture_norms_before();
    architecture.qk_norms_whole = true;
    for (size_t l = 0; l < random_shape->n_layers; l++) {
        hs_layer *layer = &architecture.layers[l];
        layer->rotation_base = 10000;
        layer->attention_norm = (hs_norm){0};
        layer->attention_out_norm = random_norm(random_shape->hidden);
        layer->ffn_out_norm = random_norm(random_shape->hidden);
        layer->query_norm = random_norm(random_shape->hidden);
        layer->key_norm = random_norm(random_shape->hidden);
    }
    return architecture;
}

/* Gemma 2: RMS norms would need another reference; caps, a divisor of its own, and norms around 1. */
hs_architecture architecture_caps(void)
{
    hs_architecture architecture = architecture_norms_of_updates();
    architecture.causal = true;
    architecture.score_divisor = 2;
    architecture.score_cap = 0.5;
    for (size_t l = 0; l < random_shape->n_layers; l++) {
        architecture.layers[l].attention_out_norm.offset = architecture.layers[l].ffn_norm.offset = 1;
        architecture.layers[l].window = l == 1 ? 5 : 0;
    }
    return architecture;
}

/* ModernBERT: all of it at once, the first norm the identity, no biases. */
static hs_architecture architecture_modern(void)
{
    hs_architecture architecture = architecture_bare();
    architecture.norms_before = true;
    architecture.final_norm.gamma = random_tensor(1, random_shape->hidden, 1, 0.1F);
    for (size_t l = 0; l < random_shape->n_layers; l++) {
        hs_layer *layer = &architecture.layers[l];
        layer->ffn_gate.weight = random_tensor(random_shape->ffn, random_shape->hidden, 0, 0.1F);
        layer->window = l == 0 ? 0 : 5;
        layer->rotation_base = l == 0 ? 160000 : 10000;
    }
    architecture.layers[0].attention_norm = (hs_norm){0};
    return architecture;
}

/* DeBERTa-v3: keys and queries of distances are those of tokens; layers share them where they share weights.
 */
hs_architecture architecture_relative(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.relative = (hs_relative){.table = random_tensor(2 * 24, random_shape->hidden, 0, 0.5F),
                                          .norm = random_norm(random_shape->hidden),
                                          .span = 24,
                                          .n_buckets = 24,
                                          .n_distances = 100,
                                          .c2p = true,
                                          .p2c = true,
                                          .n_addends = 3};
    for (size_t l = 0; l < random_shape->n_layers; l++) {
        architecture.layers[l].position_key = architecture.layers[l].key;
        architecture.layers[l].position_query = architecture.layers[l].query;
    }
    architecture.layers[1].same_as = 0;
    return architecture;
}

/* One addend beside content, in some layers, every distance up to 40 in a row of its own; a bias on top. */
static hs_architecture architecture_relative_alone(bool keys)
{
    hs_architecture architecture = architecture_plain();
    architecture.alibi = true;
    architecture.relative = (hs_relative){.table = random_tensor(2 * 40, random_shape->hidden, 0, 0.5F),
                                          .span = 40,
                                          .n_distances = 40,
                                          .c2p = keys,
                                          .p2c = !keys,
                                          .n_addends = 2};
    for (size_t l = 1; l < random_shape->n_layers; l++)
        *(keys ? &architecture.layers[l].position_key : &architecture.layers[l].position_query) =
            random_dense(random_shape->hidden, random_shape->hidden);
    return architecture;
}

static hs_architecture architecture_relative_keys(void)
{
    return architecture_relative_alone(true);
}

static hs_architecture architecture_relative_queries(void)
{
    return architecture_relative_alone(false);
}

hs_architecture architecture_convolution(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.convolution = (hs_convolution){random_dense(random_shape->hidden, 5 * random_shape->hidden),
                                                random_norm(random_shape->hidden), HS_RELU, 5};
    return architecture;
}

/* Windows, biases and shared weights in one: no model we know of, but nothing in an architecture forbids it.
 */
hs_architecture architecture_mixed(void)
{
    hs_architecture architecture = architecture_rotated();
    architecture.score_bias = (hs_score_bias){
        .table = random_tensor(32, random_shape->n_heads, 0, 1), .n_buckets = 32, .n_distances = 128};
    architecture.layers[2].same_as = 0;
    architecture.layers[1].window = 3;
    architecture.layers[2].window = 30;
    return architecture;
}

const named_architecture random_architectures[] = {
    {"plain", architecture_plain},
    {"gelu tanh", architecture_gelu_tanh},
    {"quick gelu", architecture_quick_gelu},
    {"relu", architecture_relu},
    {"silu", architecture_silu},
    {"tanh", architecture_tanh},
    {"projected", architecture_projected},
    {"projected from wide", architecture_projected_from_wide},
    {"bare", architecture_bare},
    {"padding", architecture_padding},
    {"counted padding", architecture_counted_padding},
    {"sinusoids", architecture_sinusoids},
    {"YaRN", architecture_yarn},
    {"LongRoPE", architecture_longrope},
    {"LongRoPE, a layer unscaled", architecture_partly_longrope},
    {"LongRoPE, short texts", architecture_short_longrope},
    {"Marian's sinusoids", architecture_sinusoids_of_marian},
    {"token dropout", architecture_token_dropout},
    {"distance bias", architecture_distance_bias},
    {"t5", architecture_t5},
    {"alibi", architecture_alibi},
    {"shared", architecture_shared},
    {"gated", architecture_gated},
    {"rotated", architecture_rotated},
    {"interleaved", architecture_interleaved},
    {"windows", architecture_windows},
    {"divided", architecture_divided},
    {"norms before", architecture_norms_before},
    {"norms of updates", architecture_norms_of_updates},
    {"caps", architecture_caps},
    {"modern", architecture_modern},
    {"relative", architecture_relative},
    {"relative keys", architecture_relative_keys},
    {"relative queries", architecture_relative_queries},
    {"convolution", architecture_convolution},
    {"mixed", architecture_mixed},
};
const size_t n_random_architectures = sizeof random_architectures / sizeof *random_architectures;

/* ---- decoders ---- */

/* T5's, with few buckets before a token. Its query weights are smaller by sqrt(d), as in T5, whose scores are
 * not divided. */
hs_architecture decoder_t5(void)
{
    const size_t H = random_shape->hidden;
    hs_architecture architecture = architecture_t5();
    architecture.score_bias.one_sided = true;
    random_decoder(&architecture);
    for (size_t block = 0; block < hs_architecture_blocks(&architecture); block++)
        architecture.layers[block].query.weight =
            random_tensor(H, H, 0, 1 / sqrtf((float)(H * random_shape->head_width)));
    return architecture;
}

/* The same with is_causal false: it sees both ways, but has no buckets behind a token. */
static hs_architecture decoder_both_ways(void)
{
    hs_architecture architecture = decoder_t5();
    architecture.causal = false;
    return architecture;
}

/* BART's. */
hs_architecture decoder_bart(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.embedding.position_offset = 2;
    architecture.embedding.counts_padding = true;
    architecture.embedding.position = random_tensor(RANDOM_TOKENS_MAX + 2, random_shape->hidden, 0, 0.5F);
    random_decoder(&architecture);
    return architecture;
}

const named_architecture random_decoders[] = {
    {"t5", decoder_t5}, {"both ways", decoder_both_ways}, {"bart", decoder_bart}};
const size_t n_random_decoders = sizeof random_decoders / sizeof *random_decoders;
