/* test_config.c - accepted and refused contents of config.json. */
#include "model/families/family.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hs_architecture architecture; /* of the last config that was accepted */

static void forget(void)
{
    hs__family_release(&architecture);
    architecture = (hs_architecture){0};
}

static hs_status parse(const char *text, hs_error *err)
{
    const hs_bytes bytes = {text, strlen(text)};
    const hs__family *family = NULL;
    return hs__family_configure(&bytes, &family, &architecture, err);
}

static void accept(const char *text)
{
    hs_error err = {0};
    forget();
    ck_assert_msg(!parse(text, &err), "%s\n gave: %s", text, err.text);
}

#define BERT_SIZES                                                                                           \
    "\"num_hidden_layers\":3,\"num_attention_heads\":5,\"hidden_size\":60,\"intermediate_size\":7,"          \
    "\"max_position_embeddings\":40,\"vocab_size\":300"
#define BERT(more) "{\"model_type\":\"bert\"," BERT_SIZES more "}"

START_TEST(bert_keys)
{
    accept(BERT(",\"type_vocab_size\":4,\"layer_norm_eps\":1e-5,\"hidden_act\":\"gelu\","
                "\"position_embedding_type\":\"absolute\",\"is_decoder\":false,"
                "\"pruned_heads\":{},\"unknown\":[1,{\"a\":null}]"));
    ck_assert_str_eq(architecture.family, "bert");
    ck_assert_uint_eq(architecture.shape.n_layers, 3);
    ck_assert_uint_eq(architecture.shape.n_heads, 5);
    ck_assert_uint_eq(architecture.shape.hidden, 60);
    ck_assert_uint_eq(architecture.shape.head_width, 12);
    ck_assert_uint_eq(architecture.shape.ffn, 7);
    ck_assert_uint_eq(architecture.shape.n_positions, 40);
    ck_assert_uint_eq(architecture.shape.n_types, 4);
    ck_assert_uint_eq(architecture.shape.vocab_size, 300);
    ck_assert_uint_eq(architecture.embedding.width, 60);
    ck_assert(architecture.norm_eps == 1e-5F);
}
END_TEST

START_TEST(bert_defaults)
{
    accept("{" BERT_SIZES "}");
    ck_assert_str_eq(architecture.family, "bert");
    ck_assert_uint_eq(architecture.shape.n_types, 2);
    ck_assert(architecture.norm_eps == 1e-12F);
}
END_TEST

#define SIZES                                                                                                \
    "\"num_hidden_layers\":3,\"num_attention_heads\":4,\"hidden_size\":64,\"intermediate_size\":7,"          \
    "\"vocab_size\":300"

/* A config without the key has the positions of transformers. Only so many of them are used. */
START_TEST(positions_of_a_config_that_does_not_say)
{
    accept("{" SIZES "}");
    ck_assert_uint_eq(architecture.shape.n_positions, 512);
    accept("{\"model_type\":\"llama\",\"pretraining_tp\":2," SIZES "}");
    ck_assert_uint_eq(architecture.shape.n_positions, 2048);
    accept("{\"model_type\":\"glm\"," SIZES "}");
    ck_assert_uint_eq(architecture.shape.n_positions, HS_POSITIONS_MAX);
    accept("{\"model_type\":\"glm\",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2}," SIZES "}");
    ck_assert_uint_eq(architecture.rotary.original_positions, 131072);
    hs_error err = {0};
    forget();
    ck_assert_int_eq(parse("{\"model_type\":\"llama\",\"max_position_embeddings\":null," SIZES "}", &err),
                     HS_BAD_MODEL);
}
END_TEST

START_TEST(distilbert_keys)
{
    accept("{\"model_type\":\"distilbert\",\"n_layers\":6,\"n_heads\":12,\"dim\":768,"
           "\"hidden_dim\":3072,\"max_position_embeddings\":512,\"vocab_size\":30522,"
           "\"activation\":\"gelu\",\"sinusoidal_pos_embds\":false,\"layer_norm_eps\":0.5}");
    ck_assert_str_eq(architecture.family, "distilbert");
    ck_assert_uint_eq(architecture.shape.n_layers, 6);
    ck_assert_uint_eq(architecture.shape.n_heads, 12);
    ck_assert_uint_eq(architecture.shape.head_width, 64);
    ck_assert_uint_eq(architecture.shape.ffn, 3072);
    ck_assert_uint_eq(architecture.shape.n_types, 0);
    ck_assert(architecture.norm_eps == 1e-12F);
}
END_TEST

START_TEST(electra_keys)
{
    accept("{\"model_type\":\"electra\",\"embedding_size\":16," BERT_SIZES "}");
    ck_assert_str_eq(architecture.family, "electra");
    ck_assert_uint_eq(architecture.embedding.width, 16);
    ck_assert_uint_eq(architecture.shape.hidden, 60);
}
END_TEST

START_TEST(roberta_keys)
{
    accept("{\"model_type\":\"xlm-roberta\"," BERT_SIZES "}");
    ck_assert_str_eq(architecture.family, "xlm-roberta");
    ck_assert_uint_eq(architecture.shape.n_positions, 38);
    ck_assert_uint_eq(architecture.embedding.position_offset, 2);
    accept("{\"model_type\":\"camembert\",\"pad_token_id\":36," BERT_SIZES "}");
    ck_assert_uint_eq(architecture.shape.n_positions, 3);
    ck_assert_uint_eq(architecture.embedding.position_offset, 37);
}
END_TEST

START_TEST(mpnet_keys)
{
    accept("{\"model_type\":\"mpnet\"," BERT_SIZES "}");
    ck_assert_uint_eq(architecture.shape.n_positions, 38);
    ck_assert_uint_eq(architecture.shape.n_types, 0);
}
END_TEST

#define T5_SIZES "\"num_layers\":3,\"num_heads\":4,\"d_model\":60,\"d_kv\":8,\"d_ff\":70,\"vocab_size\":300"

START_TEST(t5_keys)
{
    accept("{\"model_type\":\"t5\",\"is_encoder_decoder\":true,\"n_positions\":512," T5_SIZES "}");
    ck_assert_uint_eq(architecture.shape.n_positions, 2048);
    ck_assert_uint_eq(architecture.shape.head_width, 8);
    ck_assert_int_eq(architecture.activation, HS_RELU);
    ck_assert(!architecture.gated && architecture.score_divisor == 1);
    ck_assert_uint_eq(architecture.score_bias.n_buckets, 32);
    ck_assert_uint_eq(architecture.score_bias.n_distances, 128);
    accept("{\"model_type\":\"mt5\",\"feed_forward_proj\":\"gated-gelu\",\"dense_act_fn\":\"gelu_new\","
           "\"is_gated_act\":true,\"relative_attention_num_buckets\":8,\"relative_attention_max_distance\":"
           "20," T5_SIZES "}");
    ck_assert_str_eq(architecture.family, "mt5");
    ck_assert_int_eq(architecture.activation, HS_GELU_TANH);
    ck_assert(architecture.gated);
    ck_assert_uint_eq(architecture.score_bias.n_buckets, 8);
    ck_assert_uint_eq(architecture.score_bias.n_distances, 20);
    accept("{\"model_type\":\"mt5\"," T5_SIZES "}"); /* its own default */
    ck_assert(architecture.gated);
    ck_assert_int_eq(architecture.activation, HS_GELU_TANH);
    accept("{\"model_type\":\"t5\",\"feed_forward_proj\":\"gelu\"," T5_SIZES "}");
    ck_assert_int_eq(architecture.activation, HS_GELU);
}
END_TEST

#define DECODER(type, n_heads, more)                                                                         \
    "{\"model_type\":\"" type "\",\"num_attention_heads\":" n_heads ",\"num_hidden_layers\":2,"              \
    "\"hidden_size\":256,\"intermediate_size\":70,\"vocab_size\":300,\"max_position_embeddings\":40" more    \
    "}"

/* A config without num_key_value_heads or head_dim means transformers' defaults of its family. */
static const struct {
    const char *config;
    size_t n_kv_heads, head_width;
} head_defaults[] = {
    {DECODER("llama", "16", ""), 16, 16},
    {DECODER("mistral", "16", ""), 8, 16},
    {DECODER("mistral", "16", ",\"num_key_value_heads\":null"), 16, 16},
    {DECODER("qwen2", "64", ""), 32, 4},
    {DECODER("qwen3", "64", ""), 32, 128},
    {DECODER("gemma2", "16", ""), 4, 256},
    {DECODER("gemma3_text", "16", ",\"head_dim\":32"), 4, 32},
};

START_TEST(absent_heads)
{
    accept(head_defaults[_i].config);
    ck_assert_uint_eq(hs_shape_kv_heads(&architecture.shape), head_defaults[_i].n_kv_heads);
    ck_assert_uint_eq(architecture.shape.head_width, head_defaults[_i].head_width);
}
END_TEST

/* Windows, norms and padding of a config without the key. A window of n keys includes the query. */
START_TEST(absent_keys)
{
    accept(DECODER("mistral", "16", ""));
    ck_assert_uint_eq(architecture.layers[0].window, 4095);
    accept(DECODER("mistral", "16", ",\"sliding_window\":null"));
    ck_assert_uint_eq(architecture.layers[0].window, 0);
    accept(DECODER("qwen2", "64", ",\"use_sliding_window\":true,\"max_window_layers\":1"));
    ck_assert_uint_eq(architecture.layers[0].window, 0);
    ck_assert_uint_eq(architecture.layers[1].window, 4095);
    accept(DECODER("phi3", "16", ""));
    ck_assert_uint_eq(architecture.layers[1].window, 0);
    accept(DECODER("eurobert", "16", ""));
    ck_assert(architecture.norm_eps == 1e-5F);
    accept(DECODER("llama", "16", ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":4.0}"));
    ck_assert(architecture.norm_eps == 1e-6F && architecture.rotary.factor == 0);
    accept(DECODER("llama", "16", ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4.0}"));
    ck_assert(architecture.rotary.by_column && architecture.rotary.factor == 4);
    ck_assert(fabs(architecture.rotary.amplitude - (0.1 * log(4) + 1)) < 1e-12);
#define CLASSIFIER ",\"architectures\":[\"XForSequenceClassification\"]"
    accept(DECODER("gemma2", "16", CLASSIFIER));
    ck_assert_int_eq(architecture.task_head.padding_id, 0);
    accept(DECODER("gemma2", "16", CLASSIFIER ",\"pad_token_id\":null"));
    ck_assert_int_eq(architecture.task_head.padding_id, -1);
    accept(DECODER("opt", "16", CLASSIFIER ",\"ffn_dim\":70"));
    ck_assert_int_eq(architecture.task_head.padding_id, 1);
    accept(DECODER("llama", "16", CLASSIFIER));
    ck_assert_int_eq(architecture.task_head.padding_id, -1);
}
END_TEST

START_TEST(longer_texts_than_are_supported_are_left_out)
{
    accept("{\"model_type\":\"llama\",\"num_attention_heads\":4,\"num_hidden_layers\":1,\"hidden_size\":64,"
           "\"intermediate_size\":70,\"vocab_size\":300,\"max_position_embeddings\":131072}");
    ck_assert_uint_eq(architecture.shape.n_positions, HS_POSITIONS_MAX);
}
END_TEST

#define LIST(first)        first ",3,3,3,3,3,3,3,3,3,3,3,3,3,3,3"
#define LISTS(type, first) "\"" type "\",\"short_factor\":[" LIST(first) "],\"long_factor\":[" LIST("5") "]"
#define YARN               "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4}"
#define PARTS(full)        "\"rope_parameters\":{" full ",\"sliding_attention\":{\"rope_theta\":9}}"
#define FULL(more)         "\"full_attention\":{\"rope_theta\":100" more "}"

/* Rotary positions of heads of 64 columns, as transformers 5.24 reads the same config. Layer 1 of Gemma 3 has
 * no window here. */
static const struct {
    const char *config;
    double base;
    size_t width;
    double factor, low; /* low: of YaRN */
    double long_factor; /* of LongRoPE's first column */
} rotations[] = {
    {DECODER("llama", "4", "," YARN), 10000, 64, 4, 0, 0},
    {DECODER("llama", "4", "," YARN ",\"rope_parameters\":{\"rope_theta\":1e6}"), 10000, 64, 4, 0, 0},
    {DECODER("llama", "4", ",\"rope_theta\":5e5," YARN ",\"rope_parameters\":{\"rope_theta\":1e6}"), 5e5, 64,
     4, 0, 0},
    {DECODER("llama", "4", ",\"rope_scaling\":{},\"rope_parameters\":{\"rope_theta\":1e6}"), 1e6, 64, 0, 0,
     0},
    {DECODER(
         "llama", "4",
         ",\"rope_scaling\":null,\"rope_parameters\":{\"type\":\"linear\",\"factor\":2,\"rope_theta\":1e6}"),
     1e6, 64, 2, 0, 0},
    {DECODER("llama", "4", ",\"rope_scaling\":{\"rope_type\":\"default\",\"type\":\"yarn\"}"), 10000, 64, 0,
     0, 0},
    {DECODER("phi3", "4",
             ",\"rope_scaling\":{\"partial_rotary_factor\":0.5,\"type\":" LISTS(
                 "longrope", "2") "},\"rope_parameters\":{\"partial_rotary_factor\":1.0}"),
     10000, 32, 0, 0, 5},
    {DECODER("phi3", "4",
             ",\"partial_rotary_factor\":0.5,\"rope_parameters\":{\"rope_type\":" LISTS("su", "2") "}"),
     10000, 32, 0, 0, 5},
    {DECODER("phi3", "4",
             ",\"partial_rotary_factor\":0.5,\"rope_scaling\":{\"type\":" LISTS("yarn", "2") "}"),
     10000, 32, 0, 0, 5},
    {"{\"model_type\":\"gpt_neox\",\"num_hidden_layers\":2,\"num_attention_heads\":4,\"hidden_size\":24,"
     "\"intermediate_size\":7,\"max_position_embeddings\":40,\"vocab_size\":300,"
     "\"rope_parameters\":{\"partial_rotary_factor\":1.0}}",
     10000, 6, 0, 0, 0},
#define GEMMA(more) DECODER("gemma3_text", "4", ",\"head_dim\":64,\"sliding_window_pattern\":2," more)
    {GEMMA("\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8}"), 1e6, 64, 8, 0, 0},
    {GEMMA("\"rope_scaling\":{\"type\":\"linear\",\"factor\":8}"), 1e6, 64, 0, 0, 0},
    {GEMMA("\"rope_scaling\":{\"type\":\"linear\",\"factor\":8}," PARTS(FULL(""))), 100, 64, 8, 0, 0},
    {GEMMA("\"rope_scaling\":{\"type\":\"linear\",\"factor\":8}," PARTS(FULL(",\"rope_type\":\"default\""))),
     100, 64, 0, 0, 0},
    {GEMMA("\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8,\"rope_theta\":7}," PARTS(
         FULL(",\"rope_type\":\"default\""))),
     7, 64, 8, 0, 0},
#define SLOW ",\"type\":\"yarn\",\"factor\":4,\"beta_fast\":1.5"
    {GEMMA(PARTS(FULL(SLOW))), 100, 64, 4, 10, 0},
    {GEMMA(PARTS(FULL(SLOW ",\"truncate\":false"))), 100, 64, 4, 10, 0},
    {GEMMA(PARTS("\"truncate\":false," FULL(SLOW))), 100, 64, 4, 10.044622, 0},
};

START_TEST(rotary_keys)
{
    accept(rotations[_i].config);
    const hs_rotary *rotary = &architecture.rotary;
    ck_assert(architecture.layers[1].rotation_base == rotations[_i].base);
    ck_assert_uint_eq(rotary->width, rotations[_i].width);
    ck_assert(rotary->factor == rotations[_i].factor);
    ck_assert(fabs(rotary->low - rotations[_i].low) < 1e-6);
    ck_assert(!rotary->divisors == (rotations[_i].long_factor == 0));
    if (rotary->divisors)
        ck_assert(rotary->divisors[0] == 2 && rotary->divisors[rotary->width / 2] == 5);
}
END_TEST

#define BART_SIZES                                                                                           \
    "\"encoder_layers\":3,\"encoder_attention_heads\":4,\"d_model\":64,\"encoder_ffn_dim\":70,"              \
    "\"max_position_embeddings\":40,\"vocab_size\":300"

START_TEST(bart_keys)
{
    accept("{\"model_type\":\"bart\",\"is_encoder_decoder\":true," BART_SIZES "}");
    ck_assert_uint_eq(architecture.embedding.position_offset, 2);
    ck_assert(architecture.embedding.counts_padding && !architecture.norms_before);
    ck_assert(architecture.embedding.scale == 0 && architecture.activation == HS_GELU);
    accept("{\"model_type\":\"mbart\",\"scale_embedding\":true," BART_SIZES "}");
    ck_assert(architecture.embedding.scale == 8 && architecture.norms_before);
    accept("{\"model_type\":\"m2m_100\",\"pad_token_id\":4," BART_SIZES "}");
    ck_assert_uint_eq(architecture.embedding.position_offset, 5);
    ck_assert(architecture.embedding.sinusoids && !architecture.embedding.counts_padding);
    ck_assert(architecture.embedding.scale == 8 && architecture.activation == HS_RELU);
    accept("{\"model_type\":\"marian\",\"scale_embedding\":true,\"activation_function\":\"swish\"," BART_SIZES
           "}");
    ck_assert(architecture.embedding.sinusoids == HS_SINUSOIDS_MARIAN && !architecture.norms_before);
    ck_assert(architecture.embedding.position_offset == 0 && architecture.activation == HS_SILU);
}
END_TEST

/* Reads the decoder of the family that the config names. */
static hs_status parse_decoder(const char *text, hs_error *err)
{
    const hs_bytes bytes = {text, strlen(text)};
    const hs__family *family = NULL;
    forget();
    ck_assert_int_eq(hs__family_configure(&bytes, &family, &architecture, NULL), HS_OK);
    forget();
    ck_assert_ptr_nonnull(family->decoder);
    return hs__decoder_configure(&bytes, family->decoder, &architecture, err);
}

static void accept_decoder(const char *text)
{
    hs_error err = {0};
    ck_assert_msg(!parse_decoder(text, &err), "%s\n gave: %s", text, err.text);
    ck_assert(architecture.crosses && architecture.predictor.next);
}

static void refuse_decoder(const char *text, const char *message)
{
    hs_error err = {0};
    ck_assert_int_eq(parse_decoder(text, &err), HS_BAD_MODEL);
    ck_assert_msg(strstr(err.text, message) != NULL, "%s\n gave: %s", text, err.text);
}

START_TEST(t5_decoder_keys)
{
    accept_decoder("{\"model_type\":\"t5\",\"is_causal\":false," T5_SIZES "}");
    ck_assert(!architecture.causal && architecture.score_bias.one_sided);
    accept_decoder("{\"model_type\":\"t5\"," T5_SIZES "}");
    ck_assert(architecture.causal && architecture.score_bias.one_sided);
    ck_assert_uint_eq(architecture.shape.n_layers, 3);
    ck_assert_uint_eq(hs_architecture_blocks(&architecture), 6);
    ck_assert_uint_eq(architecture.layers[5].same_as, 5);
    ck_assert_int_eq(architecture.start_id, 0);
    ck_assert_double_eq_tol(architecture.predictor.scale, 0.1290994448735806, 1e-15);
    accept_decoder("{\"model_type\":\"t5\",\"num_decoder_layers\":2,\"decoder_start_token_id\":7," T5_SIZES
                   "}");
    ck_assert_uint_eq(architecture.shape.n_layers, 2);
    ck_assert_int_eq(architecture.start_id, 7);
    accept_decoder("{\"model_type\":\"t5\",\"num_decoder_layers\":null," T5_SIZES "}");
    ck_assert_uint_eq(architecture.shape.n_layers, 3);
    refuse_decoder("{\"model_type\":\"t5\",\"num_decoder_layers\":0," T5_SIZES "}", "num_decoder_layers");
    refuse_decoder("{\"model_type\":\"t5\",\"decoder_start_token_id\":300," T5_SIZES "}",
                   "decoder_start_token_id");
    refuse_decoder("{\"model_type\":\"t5\",\"relative_attention_max_distance\":16," T5_SIZES "}",
                   "relative_attention_max_distance");
}
END_TEST

/* As transformers 5 reads them: the older key, the newer one, which wins, and mT5, which has neither. */
START_TEST(t5_scales_its_logits_as_the_config_says)
{
    static const struct {
        const char *keys;
        bool scaled;
    } cases[] = {
        {"\"model_type\":\"t5\",\"tie_word_embeddings\":false,", false},
        {"\"model_type\":\"t5\",\"tie_word_embeddings\":null,", true},
        {"\"model_type\":\"t5\",\"tie_word_embeddings\":true,\"scale_decoder_outputs\":false,", false},
        {"\"model_type\":\"t5\",\"tie_word_embeddings\":false,\"scale_decoder_outputs\":true,", true},
        {"\"model_type\":\"t5\",\"scale_decoder_outputs\":null,", false},
        {"\"model_type\":\"mt5\",\"tie_word_embeddings\":true,", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text, "{%s" T5_SIZES "}", cases[i].keys);
        accept_decoder(text);
        ck_assert_int_eq(architecture.predictor.scale > 0, cases[i].scaled);
        ck_assert(!architecture.predictor.untied);
    }
}
END_TEST

#define BART_DECODER "\"decoder_layers\":2,\"decoder_attention_heads\":8,\"decoder_ffn_dim\":50," BART_SIZES

START_TEST(bart_decoder_keys)
{
    accept_decoder("{\"model_type\":\"bart\"," BART_DECODER "}");
    ck_assert_uint_eq(architecture.shape.n_layers, 2);
    ck_assert_uint_eq(architecture.shape.head_width, 8);
    ck_assert_uint_eq(architecture.shape.ffn, 50);
    ck_assert_uint_eq(architecture.embedding.position_offset, 2);
    ck_assert_int_eq(architecture.start_id, 2);
    accept_decoder("{\"model_type\":\"bart\",\"decoder_start_token_id\":null," BART_DECODER "}");
    ck_assert_int_eq(architecture.start_id, -1);
    accept_decoder("{\"model_type\":\"mbart\"," BART_DECODER "}");
    ck_assert_int_eq(architecture.start_id, -1);
    accept_decoder("{\"model_type\":\"marian\",\"decoder_start_token_id\":null," BART_DECODER "}");
    ck_assert_int_eq(architecture.start_id, -1);
    refuse_decoder("{\"model_type\":\"marian\"," BART_DECODER "}", "decoder_start_token_id is missing");
    accept_decoder("{\"model_type\":\"m2m_100\"," BART_DECODER "}");
    ck_assert_int_eq(architecture.start_id, 2);
    ck_assert(architecture.embedding.sinusoids && architecture.norms_before);
    refuse_decoder("{\"model_type\":\"bart\"," BART_SIZES "}", "decoder_layers is missing");
}
END_TEST

START_TEST(albert_keys)
{
    accept("{\"model_type\":\"albert\"," BERT_SIZES "}");
    ck_assert_uint_eq(architecture.embedding.width, 128);
    ck_assert_int_eq(architecture.activation, HS_GELU_TANH);
    for (size_t i = 0; i < 3; i++)
        ck_assert_uint_eq(architecture.layers[i].same_as, 0);
    accept("{\"model_type\":\"albert\",\"num_hidden_groups\":3," BERT_SIZES "}");
    for (size_t i = 0; i < 3; i++)
        ck_assert_uint_eq(architecture.layers[i].same_as, i);
}
END_TEST

START_TEST(nomic_bert_keys)
{
    accept("{\"model_type\":\"nomic_bert\",\"n_layer\":1,\"n_head\":2,\"n_embd\":4,\"n_inner\":257,"
           "\"n_positions\":8192,\"vocab_size\":65,\"pad_vocab_size_multiple\":64,"
           "\"activation_function\":\"geglu\",\"rotary_emb_fraction\":1.0,"
           "\"rotary_emb_base\":500,\"rotary_scaling_factor\":2,\"rotary_emb_scale_base\":null}");
    ck_assert_uint_eq(architecture.shape.ffn, 512);
    ck_assert_uint_eq(architecture.shape.vocab_size, 128);
    ck_assert_uint_eq(architecture.shape.n_positions, 2048);
    ck_assert_int_eq(architecture.activation, HS_GELU);
    ck_assert(architecture.layers[0].rotation_base == 500);
    /* as nomic-embed-text-v1.5 was published again: the keys of its authors and those of transformers 5 */
    accept("{\"model_type\":\"nomic_bert\",\"n_layer\":1,\"n_head\":2,\"n_embd\":4,\"n_inner\":8,"
           "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"hidden_size\":4,\"intermediate_size\":8,"
           "\"n_positions\":8192,\"max_position_embeddings\":2048,\"max_trained_positions\":2048,"
           "\"vocab_size\":65,\"rotary_emb_fraction\":1.0,\"rotary_emb_base\":1000,"
           "\"activation_function\":\"swiglu\",\"hidden_act\":\"silu\",\"rotary_emb_scale_base\":null,"
           "\"rope_parameters\":{\"rope_theta\":1000.0,\"rope_type\":\"default\"}}");
    ck_assert_uint_eq(architecture.shape.n_positions, 8192);
    ck_assert(architecture.layers[0].rotation_base == 1000);
    accept("{\"model_type\":\"nomic_bert\",\"type_vocab_size\":0," BERT_SIZES "}");
    ck_assert_uint_eq(architecture.shape.ffn, 7);
    ck_assert_uint_eq(architecture.shape.n_types, 0);
    ck_assert_int_eq(architecture.activation, HS_SILU);
    ck_assert(architecture.layers[2].rotation_base == 1000);
}
END_TEST

/* More keys, and the window and base of its three layers. */
static const struct {
    const char *keys;
    size_t windows[3];
    double bases[3];
} modern[] = {
    {"", {0, 64, 64}, {160000, 10000, 10000}},
    {",\"global_attn_every_n_layers\":2,\"local_attention\":7,\"global_rope_theta\":9,\"local_rope_theta\":8",
     {0, 3, 0},
     {9, 8, 9}},
    {",\"local_rope_theta\":null", {0, 64, 64}, {160000, 160000, 160000}},
    {",\"local_attention\":7,\"sliding_window\":9", {0, 9, 9}, {160000, 10000, 10000}},
    {",\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\"],\"global_rope_"
     "theta\":9,"
     "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\",\"rope_theta\":50.0},\"sliding_"
     "attention\":null}",
     {64, 0, 64},
     {10000, 50, 10000}},
};

START_TEST(modernbert_keys)
{
    char config[1024];
    snprintf(config, sizeof config, "{\"model_type\":\"modernbert\"," BERT_SIZES "%s}", modern[_i].keys);
    accept(config);
    ck_assert(architecture.norms_before && architecture.norm_eps == 1e-5F);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(architecture.layers[i].window, modern[_i].windows[i]);
        ck_assert(architecture.layers[i].rotation_base == modern[_i].bases[i]);
    }
}
END_TEST

START_TEST(esm_keys)
{
    accept("{\"model_type\":\"esm\",\"position_embedding_type\":\"rotary\",\"token_dropout\":true,"
           "\"mask_token_id\":32," BERT_SIZES "}");
    ck_assert(architecture.norms_before && architecture.embedding.token_dropout > 0.119 &&
              architecture.embedding.token_dropout < 0.121);
    ck_assert_int_eq(architecture.embedding.mask_id, 32);
}
END_TEST

START_TEST(esm_positions)
{
    accept("{\"model_type\":\"esm\",\"pad_token_id\":1,\"emb_layer_norm_before\":true," BERT_SIZES "}");
    ck_assert_uint_eq(architecture.embedding.position_offset, 2);
    ck_assert_uint_eq(architecture.shape.n_positions, 38);
    ck_assert(!architecture.embedding.unnormed && !architecture.embedding.unpositioned);
    accept("{\"model_type\":\"esm\",\"position_embedding_type\":\"rotary\"," BERT_SIZES "}");
    ck_assert(architecture.embedding.unnormed && architecture.embedding.unpositioned);
}
END_TEST

/* A text_config without keys is that of transformers' class. */
START_TEST(text_part_keys)
{
    accept("{\"model_type\":\"gemma3\",\"text_config\":{\"hidden_size\":2560,\"num_hidden_layers\":34,"
           "\"sliding_window\":1024}}");
    ck_assert_str_eq(architecture.family, "gemma3_text");
    ck_assert_uint_eq(architecture.shape.hidden, 2560);
    ck_assert_uint_eq(architecture.shape.n_layers, 34);
    ck_assert_uint_eq(architecture.shape.n_heads, 8);
    ck_assert_uint_eq(architecture.shape.n_kv_heads, 4);
    ck_assert_uint_eq(architecture.shape.head_width, 256);
    ck_assert_uint_eq(architecture.shape.ffn, 9216);
    ck_assert_uint_eq(architecture.shape.vocab_size, 262208);
}
END_TEST

START_TEST(esm_rotation_base)
{
    static const struct {
        const char *keys;
        double base;
    } bases[] = {
        {"", 10000}, {",\"rope_theta\":500.0", 500}, {",\"rope_parameters\":{\"rope_theta\":9}", 10000}};
    char config[1024];
    snprintf(config, sizeof config,
             "{\"model_type\":\"esm\",\"position_embedding_type\":\"rotary\"," BERT_SIZES "%s}",
             bases[_i].keys);
    accept(config);
    ck_assert(architecture.layers[2].rotation_base == bases[_i].base);
}
END_TEST

#define DEBERTA(more)       "{\"model_type\":\"deberta-v2\"," BERT_SIZES more "}"
#define FIRST_DEBERTA(more) "{\"model_type\":\"deberta\"," BERT_SIZES more "}"

/* v3's keys as they are published, at other sizes. */
START_TEST(deberta_keys)
{
    accept(DEBERTA(",\"relative_attention\":true,\"position_buckets\":16,"
                   "\"norm_rel_ebd\":\"layer_norm\",\"share_att_key\":true,"
                   "\"pos_att_type\":\"p2c|c2p\",\"max_relative_positions\":-1,"
                   "\"position_biased_input\":false,\"attention_head_size\":12,"
                   "\"conv_kernel_size\":3,\"conv_act\":\"gelu\""));
    const hs_relative *relative = &architecture.relative;
    ck_assert(relative->c2p && relative->p2c && relative->shared && relative->is_normed);
    ck_assert_uint_eq(relative->n_addends, 3);
    ck_assert_uint_eq(relative->span, 16);
    ck_assert_uint_eq(relative->n_buckets, 16);
    ck_assert_uint_eq(relative->n_distances, 40);
    ck_assert(architecture.embedding.unpositioned && architecture.shape.n_types == 0 &&
              architecture.norm_eps == 1e-7F);
    ck_assert_uint_eq(architecture.convolution.width, 3);
    ck_assert_int_eq(architecture.convolution.activation, HS_GELU);
}
END_TEST

/* HuggingFace's defaults; scores are scaled for what is named, used or not. */
START_TEST(deberta_defaults)
{
    accept(DEBERTA(""));
    ck_assert(!architecture.relative.c2p && !architecture.relative.p2c &&
              !architecture.embedding.unpositioned);
    ck_assert_uint_eq(architecture.relative.n_addends, 1);
    accept(DEBERTA(",\"pos_att_type\":[\"c2p\"]"));
    ck_assert(!architecture.relative.c2p);
    ck_assert_uint_eq(architecture.relative.n_addends, 2);
    accept(DEBERTA(",\"relative_attention\":true,\"max_relative_positions\":9,"
                   "\"pos_att_type\":\" p2c \",\"norm_rel_ebd\":\"none | layer_norm\""));
    ck_assert(architecture.relative.p2c && !architecture.relative.c2p && !architecture.relative.shared &&
              architecture.relative.is_normed);
    ck_assert_uint_eq(architecture.relative.span, 9);
    ck_assert_uint_eq(architecture.relative.n_buckets, 0);
}
END_TEST

/* More buckets than the distances of the longest text need. */
START_TEST(deberta_of_few_positions)
{
    accept(DEBERTA(",\"relative_attention\":true,\"position_buckets\":80,\"pos_att_type\":[\"c2p\"]"));
    ck_assert_uint_eq(architecture.relative.span, 80);
    ck_assert_uint_eq(architecture.relative.n_distances, 40);
}
END_TEST

/* The first version's scale counts what pos_att_type lists, once more if it is listed again. */
START_TEST(keys_of_the_first_deberta)
{
    accept(FIRST_DEBERTA(",\"relative_attention\":true,\"pos_att_type\":\"c2p|p2c\",\"position_buckets\":16,"
                         "\"share_att_key\":true,\"position_biased_input\":false,\"talking_head\":false"));
    const hs_relative *relative = &architecture.relative;
    ck_assert(relative->c2p && relative->p2c && !relative->shared && !relative->is_normed);
    ck_assert_uint_eq(relative->n_addends, 3);
    ck_assert_uint_eq(relative->span, 40);
    ck_assert_uint_eq(relative->n_buckets, 0);
    ck_assert(architecture.embedding.unpositioned && architecture.norm_eps == 1e-7F);
    accept(FIRST_DEBERTA(",\"pos_att_type\":[\"p2c\",\"p2c\"],\"max_relative_positions\":9"));
    ck_assert(!relative->c2p && !relative->p2c);
    ck_assert_uint_eq(relative->n_addends, 3);
    ck_assert_uint_eq(relative->span, 9);
}
END_TEST

START_TEST(an_untied_decoder_is_noted)
{
    accept(BERT(""));
    ck_assert(!architecture.predictor.untied);
    accept(BERT(",\"tie_word_embeddings\":false"));
    ck_assert(architecture.predictor.untied);
}
END_TEST

static const struct {
    const char *name;
    hs_activation activation;
} activations[] = {
    {"\"gelu\"", HS_GELU},
    {"\"gelu_python\"", HS_GELU},
    {"\"gelu_new\"", HS_GELU_TANH},
    {"\"gelu_fast\"", HS_GELU_TANH},
    {"\"gelu_pytorch_tanh\"", HS_GELU_TANH},
    {"\"quick_gelu\"", HS_QUICK_GELU},
    {"\"relu\"", HS_RELU},
    {"\"silu\"", HS_SILU},
    {"\"swish\"", HS_SILU},
    {"\"tanh\"", HS_TANH},
    {"null", HS_GELU},
};

START_TEST(every_activation_by_its_names)
{
    char config[512];
    snprintf(config, sizeof config, "{" BERT_SIZES ",\"hidden_act\":%s}", activations[_i].name);
    accept(config);
    ck_assert_int_eq(architecture.activation, activations[_i].activation);
}
END_TEST

#define NOMIC(more)                                                                                          \
    "{\"model_type\":\"nomic_bert\",\"n_layer\":1,\"n_head\":2,\"n_embd\":4,\"n_inner\":8,\"n_positions\":"  \
    "40,\"vocab_size\":9," more "}"
#define MODERN(more) "{\"model_type\":\"modernbert\"," BERT_SIZES more "}"

#define GPT_SIZES "\"n_layer\":1,\"n_head\":2,\"n_embd\":64,\"n_positions\":40,\"vocab_size\":300"

/* The config of two joined models, of whose decoder these keys are, and more of its own. */
#define PAIR(decoder, more)                                                                                  \
    "{\"model_type\":\"encoder-decoder\",\"encoder\":{\"model_type\":\"bert\"," BERT_SIZES                   \
    "},\"decoder\":{" decoder "}" more "}"

START_TEST(joined_models)
{
    accept_decoder(PAIR("\"is_decoder\":true,\"add_cross_attention\":true,\"type_vocab_size\":4,"
                        "\"decoder_start_token_id\":9,\"cross_attention_hidden_size\":60," BERT_SIZES,
                        ",\"decoder_start_token_id\":7,\"tie_encoder_decoder\":true"));
    ck_assert_str_eq(architecture.family, "encoder-decoder");
    ck_assert(architecture.crosses && architecture.causal && architecture.stacks_tied);
    ck_assert_int_eq(architecture.start_id, 7); /* the decoder's own is not read */
    ck_assert_uint_eq(architecture.shape.n_types, 4);
    accept(PAIR(BERT_SIZES, "")); /* the encoder alone is read */
    ck_assert(!architecture.crosses && !architecture.causal && !architecture.stacks_tied);
    ck_assert_uint_eq(architecture.shape.n_types, 2);
    refuse_decoder(PAIR("\"is_decoder\":true," BERT_SIZES, ""),
                   "config.json: decoder: add_cross_attention must be true");
    refuse_decoder(PAIR("\"is_decoder\":true,\"add_cross_attention\":true,"
                        "\"position_embedding_type\":\"relative_key\"," BERT_SIZES,
                        ""),
                   "config.json: decoder: position_embedding_type");
}
END_TEST

/* A config and the words that its refusal must contain. */
static const struct {
    const char *config, *message;
} refusals[] = {
    {"", "not valid JSON"},
    {"[]", "not a JSON object"},
    {"{\"a\":1,\"a\":2}", "duplicate object key"},
    {BERT("") " x", "end of file expected"},
    {"{}", "model_type is missing"},
    {"{\"model_type\":7," BERT_SIZES "}", "model_type"},
    {"{\"model_type\":\"xlnet\"," BERT_SIZES "}", "known: bert, distilbert, electra, "},
    {"{\"model_type\":\"xlnet\"," BERT_SIZES "}", "model_type \"xlnet\" is not supported"},
    {PAIR("\"model_type\":\"gpt2\"", ""), "the encoder \"bert\" and the decoder \"gpt2\"; both must be"},
    {PAIR("\"model_type\":\"roberta\"," BERT_SIZES, ""), "the encoder \"bert\" and the decoder \"roberta\""},
    {"{\"model_type\":\"encoder-decoder\",\"encoder\":{}}", "the encoder \"bert\" and the decoder \"\""},
    {"{\"model_type\":\"encoder-decoder\",\"encoder\":{},\"decoder\":{}}",
     "config.json: encoder: num_hidden_layers is missing"},
    {PAIR("\"hidden_size\":50,\"vocab_size\":300", ""),
     "hidden_size of encoder (60) and decoder (50) must be equal: stacks of other widths"},
    {PAIR("\"hidden_size\":60,\"vocab_size\":299", ""), "vocab_size of encoder (300) and decoder (299)"},
    {PAIR("\"cross_attention_hidden_size\":50," BERT_SIZES, ""), "cross_attention_hidden_size of decoder"},
    {PAIR(BERT_SIZES, ",\"quantization_config\":{\"bits\":4}"), "quantization_config is not supported"},
    {PAIR(BERT_SIZES, ",\"tie_encoder_decoder\":1"), "tie_encoder_decoder must be true or false"},
    {"{\"model_type\":\"encoder-decoder\",\"encoder\":{\"is_decoder\":true," BERT_SIZES
     "},\"decoder\":{" BERT_SIZES "}}",
     "config.json: encoder: is_decoder is not supported"},
    {"{\"model_type\":\"bart\"," BERT_SIZES "}", "encoder_layers is missing"},
    {"{\"model_type\":\"marian\",\"share_encoder_decoder_embeddings\":false," BART_SIZES "}",
     "share_encoder_decoder_embeddings must be true"},
    {"{\"model_type\":\"marian\",\"decoder_vocab_size\":299," BART_SIZES "}",
     "decoder_vocab_size must be vocab_size (300)"},
    {"{\"model_type\":\"m2m_100\",\"pad_token_id\":null," BART_SIZES "}", "pad_token_id must be"},
    {"{\"model_type\":\"mbart\",\"activation_function\":\"glu\"," BART_SIZES "}", "not supported: \"glu\""},
    {"{\"model_type\":\"bart\",\"is_decoder\":true," BART_SIZES "}", "is_decoder is not supported"},
    {"{\"model_type\":\"electra\"," BERT_SIZES "}", "embedding_size is missing"},
    {DECODER("qwen2", "16", ""), "num_attention_heads (16) is not a multiple of num_key_value_heads (32)"},
    {DECODER("gemma2", "128", ""), "head_dim is missing, and 128 heads of 256 columns are more than 16384"},
    {"{\"model_type\":\"roberta\",\"pad_token_id\":37," BERT_SIZES "}", "40 positions are too few"},
    {"{\"model_type\":\"roberta\",\"pad_token_id\":-1," BERT_SIZES "}", "pad_token_id must be"},
    {"{\"model_type\":\"bert\"}", "num_hidden_layers is missing"},
    {"{\"model_type\":\"distilbert\"," BERT_SIZES "}", "n_layers is missing"},
    {"{\"model_type\":\"mpnet\",\"relative_attention_num_buckets\":64," BERT_SIZES "}",
     "relative_attention_num_buckets"},
    {"{\"model_type\":\"t5\"," BERT_SIZES "}", "num_layers is missing"},
    {"{\"model_type\":\"t5\",\"is_decoder\":true," T5_SIZES "}", "is_decoder is not supported"},
    {"{\"model_type\":\"t5\",\"feed_forward_proj\":\"gated-maxout\"," T5_SIZES "}",
     "not supported: \"maxout\""},
    {"{\"model_type\":\"t5\",\"feed_forward_proj\":\"relu\",\"dense_act_fn\":\"silu\"," T5_SIZES "}",
     "dense_act_fn is not the activation"},
    {"{\"model_type\":\"mt5\",\"feed_forward_proj\":\"gated-gelu\",\"is_gated_act\":null," T5_SIZES "}",
     "is_gated_act is not what"},
    {"{\"model_type\":\"t5\",\"is_gated_act\":true," T5_SIZES "}", "is_gated_act is not what"},
    {"{\"model_type\":\"t5\",\"relative_attention_max_distance\":8," T5_SIZES "}",
     "relative_attention_max_distance must be an integer from 9"},
    {"{\"model_type\":\"t5\",\"relative_attention_num_buckets\":2," T5_SIZES "}",
     "relative_attention_num_buckets must be"},
    {"{\"model_type\":\"albert\",\"num_hidden_groups\":2," BERT_SIZES "}",
     "is not a multiple of num_hidden_groups (2)"},
    {"{\"model_type\":\"albert\",\"inner_group_num\":2," BERT_SIZES "}", "inner_group_num"},
    {NOMIC("\"prenorm\":true"), "prenorm is not supported"},
    {NOMIC("\"rotary_emb_interleaved\":true"), "rotary_emb_interleaved"},
    {NOMIC("\"activation_function\":\"swiglu\",\"rotary_emb_fraction\":1,\"rotary_emb_base\":500,"
           "\"rope_parameters\":{\"rope_theta\":1000}"),
     "rotary_emb_base must be equal to rope_theta"},
    {NOMIC("\"activation_function\":\"swiglu\",\"rotary_emb_fraction\":1,\"rope_theta\":77"),
     "rotary_emb_base must be equal to rope_theta"},
    {NOMIC("\"activation_function\":\"swiglu\",\"rotary_emb_fraction\":1,"
           "\"rope_parameters\":{\"rope_type\":\"yarn\"}"),
     "rope_type"},
    {NOMIC("\"rotary_emb_fraction\":1,\"activation_function\":\"glu\""), "not supported: \"glu\""},
    {NOMIC("\"activation_function\":\"swiglu\",\"rotary_emb_fraction\":0.5"),
     "rotary_emb_fraction must be 1"},
    {"{\"model_type\":\"nomic_bert\",\"head_dim\":13," BERT_SIZES "}", "head_dim"},
    {"{\"model_type\":\"nomic_bert\",\"rope_parameters\":{\"rope_type\":\"yarn\"}," BERT_SIZES "}",
     "not supported: \"yarn\""},
    {"{\"model_type\":\"nomic_bert\",\"rope_parameters\":7," BERT_SIZES "}",
     "rope_parameters must be an object"},
    {"{\"model_type\":\"nomic_bert\",\"rope_parameters\":{\"type\":\"yarn\"}," BERT_SIZES "}",
     "type must be \"default\"; not supported: \"yarn\""},
    {MODERN(",\"rope_parameters\":{\"type\":\"yarn\"}"), "not supported: \"yarn\""},
    {MODERN(",\"rope_parameters\":{\"full_attention\":{\"type\":\"yarn\"}}"), "not supported: \"yarn\""},
    {MODERN(",\"rope_parameters\":{\"full_attention\":7}"), "full_attention must be an object"},
    {DECODER("gemma3_text", "16",
             ",\"head_dim\":32,\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":8}"),
     "not supported: \"linear\""},
    {DECODER("gemma3_text", "16", ",\"head_dim\":32,\"rope_parameters\":{\"sliding_attention\":{}}," YARN),
     "rope_scaling needs full_attention in rope_parameters"},
    {DECODER("llama", "4", ",\"original_max_position_embeddings\":0," YARN),
     "original_max_position_embeddings must be an integer from 1 to 1073741824; it is 0"},
    {DECODER("llama", "4", ",\"rope_scaling\":[]"), "rope_scaling must be an object"},
    {DECODER("llama", "4", ",\"rope_parameters\":{\"partial_rotary_factor\":0.5}"),
     "partial_rotary_factor must be 1 for this family"},
    {DECODER("phi3", "4", ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}"),
     "rope_type must be \"default\" or \"longrope\" for this family"},
    {DECODER("gpt_neox", "4", ",\"head_dim\":3"), "head_dim must be an integer from"},
    {DECODER("gpt_neox", "128", ""), "rotary positions of 0.25 of heads of width 2 leave nothing to rotate"},
    {MODERN(",\"norm_bias\":true"), "norm_bias is not supported"},
    {MODERN(",\"norm_bias\":true,\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\"}}"),
     "norm_bias is not supported"},
    {MODERN(",\"layer_types\":[\"full_attention\"]"), "for layer 1"},
    {MODERN(",\"layer_types\":7"), "for layer 0"},
    {MODERN(",\"local_attention\":1"), "local_attention"},
    {MODERN(",\"global_attn_every_n_layers\":0"), "global_attn_every_n_layers"},
    {MODERN(",\"rope_parameters\":{\"full_attention\":{\"partial_rotary_factor\":0.5}}"),
     "partial_rotary_factor"},
    {"{\"model_type\":\"modernbert\",\"num_hidden_layers\":1,\"num_attention_heads\":1,\"hidden_size\":7,"
     "\"intermediate_size\":7,\"max_position_embeddings\":40,\"vocab_size\":300}",
     "rotary positions need heads of an even width; here it is 7"},
    {"{\"model_type\":\"esm\"," BERT_SIZES "}", "pad_token_id is missing"},
    {"{\"model_type\":\"esm\",\"position_embedding_type\":\"relative_key\"," BERT_SIZES "}",
     "position_embedding_type must be \"absolute\" or \"rotary\""},
    {"{\"model_type\":\"esm\",\"position_embedding_type\":\"rotary\",\"token_dropout\":true," BERT_SIZES "}",
     "mask_token_id is missing"},
    {"{\"model_type\":\"esm\",\"position_embedding_type\":\"rotary\",\"token_dropout\":1," BERT_SIZES "}",
     "token_dropout must be true or false"},
    {FIRST_DEBERTA(",\"talking_head\":true"), "talking_head is not supported"},
    {FIRST_DEBERTA(",\"embedding_size\":128"), "embedding_size must be an integer from 60 to 60"},
    {FIRST_DEBERTA(",\"pos_att_type\":\"p2p\""), "not supported: \"p2p\""},
    {DEBERTA(",\"pos_att_type\":\"c2p|p2p\""), "not supported: \"p2p\""},
    {DEBERTA(",\"pos_att_type\":[\"c2p\",7]"), "pos_att_type must be a string or a list of them"},
    {DEBERTA(",\"pos_att_type\":7"), "pos_att_type must be a string"},
    {DEBERTA(",\"norm_rel_ebd\":\"rms_norm\""), "not supported: \"rms_norm\""},
    {DEBERTA(",\"z_steps\":2"), "z_steps must be an integer from 0 to 1; it is 2"},
    {DEBERTA(",\"embedding_size\":128"), "embedding_size must be an integer from 60 to 60"},
    {DEBERTA(",\"attention_head_size\":64"), "attention_head_size"},
    {DEBERTA(",\"conv_kernel_size\":4"), "conv_kernel_size must be odd"},
    {DEBERTA(",\"conv_groups\":2"), "conv_groups"},
    {DEBERTA(",\"conv_act\":\"mish\""), "conv_act must be"},
    {DEBERTA(",\"position_buckets\":1"), "position_buckets (1) must be at least 2"},
    {DEBERTA(",\"position_buckets\":60,\"max_relative_positions\":31"),
     "half of it at least 2 below the 31 distances"},
    {DEBERTA(",\"position_buckets\":-2"), "position_buckets must be an integer"},
    {DEBERTA(",\"max_relative_positions\":1.5"), "max_relative_positions must be an integer"},
    {DECODER("llama", "4", ",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4}"),
     "high_freq_factor must be greater than low_freq_factor"},
    {DECODER("llama", "4", ",\"rope_theta\":1," YARN), "yarn needs a rope_theta above 1"},
    {DECODER("llama", "4", ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"beta_fast\":0.5}"),
     "beta_fast of at least beta_slow"},
    {DECODER("gemma2", "4", ",\"layer_types\":[\"full_attention\",\"global\"]"),
     "layer_types must name \"full_attention\" or \"sliding_attention\" for layer 1"},
    {DECODER("gemma2", "4", ",\"layer_types\":[7]"), "for layer 0"},
    {DECODER("eurobert", "4", CLASSIFIER ",\"classifier_pooling\":\"cls\""),
     "classifier_pooling must be \"bos\", \"late\" or \"mean\"; it is \"cls\""},
    {MODERN(CLASSIFIER ",\"classifier_pooling\":\"late\""),
     "classifier_pooling must be \"cls\" or \"mean\"; it is \"late\""},
    {"{\"model_type\":\"gptj\"," GPT_SIZES "}",
     "rotary_dim is missing, and 64 are more than the 32 columns of a head"},
    {"{\"model_type\":\"openai-gpt\",\"is_causal\":false," GPT_SIZES "}", "is_causal must be true"},
    {"{\"model_type\":\"openai-gpt\",\"afn\":\"mish\"," GPT_SIZES "}", "not supported: \"mish\""},
    {"{\"model_type\":\"m2m_100\",\"encoder_layers\":1,\"encoder_attention_heads\":1,\"d_model\":3,"
     "\"encoder_ffn_dim\":7,\"max_position_embeddings\":40,\"vocab_size\":300}",
     "d_model must be at least 4, as sinusoids need"},
    {"{\"model_type\":\"xglm\",\"num_layers\":1,\"attention_heads\":1,\"d_model\":3,\"ffn_dim\":7,"
     "\"max_position_embeddings\":40,\"vocab_size\":300}",
     "d_model must be at least 4, as sinusoids need"},
    {BERT(",\"tie_word_embeddings\":1"), "tie_word_embeddings must be true or false"},
    {BERT(",\"hidden_act\":\"mish\""), "hidden_act must be \"gelu\", "},
    {BERT(",\"hidden_act\":\"mish\""), "not supported: \"mish\""},
    {BERT(",\"hidden_act\":1"), "hidden_act must be a string"},
    {"{\"model_type\":\"gemma3\",\"text_config\":3}", "model_type \"gemma3\" is not supported"},
    {"{\"model_type\":\"gemma3\",\"text_config\":{\"model_type\":\"gemma9\"}}",
     "model_type \"gemma9\" is not"},
    {BERT(",\"position_embedding_type\":\"relative_key\""), "position_embedding_type"},
    {BERT(",\"position_embedding_type\":\"relative_key_query\""), "\"relative_key_query\""},
    {BERT(",\"is_decoder\":true"), "is_decoder is not supported"},
    {BERT(",\"is_decoder\":1"), "is_decoder is not supported"},
    {BERT(",\"is_encoder_decoder\":true"), "is_encoder_decoder"},
    {BERT(",\"add_cross_attention\":true"), "add_cross_attention"},
    {BERT(",\"pruned_heads\":{\"0\":[1]}"), "and set pruned_heads to {}: all else stays the same"},
    {BERT(",\"quantization_config\":{\"bits\":8}"), "quantization_config"},
    {BERT(",\"per_layer_config\":{\"0\":{\"intermediate_size\":9}}"), "per_layer_config"},
    {"{\"model_type\":\"t5\",\"num_hidden_layers\":2," T5_SIZES "}",
     "num_hidden_layers (2) must be equal to num_layers"},
    {"{\"model_type\":\"t5\",\"head_dim\":9," T5_SIZES "}", "head_dim (9) must be equal to d_kv"},
    {BERT(",\"type_vocab_size\":0"), "type_vocab_size must be an integer from 1 to 256"},
    {BERT(",\"type_vocab_size\":257"), "type_vocab_size"},
    {BERT(",\"layer_norm_eps\":0"), "layer_norm_eps"},
    {BERT(",\"layer_norm_eps\":-1e-5"), "layer_norm_eps"},
    {BERT(",\"layer_norm_eps\":1e-40"), "layer_norm_eps"},
    {BERT(",\"layer_norm_eps\":2"), "layer_norm_eps"},
    {BERT(",\"layer_norm_eps\":\"1e-12\""), "layer_norm_eps"},
    {BERT(",\"layer_norm_eps\":1e999"), "not valid JSON"},
    {"{\"dim\":7,\"n_heads\":2,\"n_layers\":1,\"hidden_dim\":1,\"max_position_embeddings\":9,\"vocab_size\":"
     "9}",
     "dim (7) is not a multiple of n_heads (2)"},
    {"{\"dim\":8,\"n_heads\":2,\"n_layers\":1,\"hidden_dim\":1,\"max_position_embeddings\":9,\"vocab_size\":"
     "9,"
     "\"activation\":\"relu6\"}",
     "activation must be \"gelu\""},
};

START_TEST(refused)
{
    hs_error err = {0};
    architecture.shape.hidden = 123;
    ck_assert_int_eq(parse(refusals[_i].config, &err), HS_BAD_MODEL);
    ck_assert_int_eq(err.status, HS_BAD_MODEL);
    ck_assert_ptr_eq(strstr(err.text, "config.json: "), err.text);
    ck_assert_msg(strstr(err.text, refusals[_i].message) != NULL, "%s\n gave: %s", refusals[_i].config,
                  err.text);
    ck_assert_uint_eq(architecture.shape.hidden, 123);
}
END_TEST

/* Every size at its limits and one beyond, as other numbers and as no number. */
static const struct {
    const char *key;
    long min, max;
} limits[] = {
    {"num_hidden_layers", 1, HS_LAYERS_MAX},
    {"num_attention_heads", 1, HS_HEADS_MAX},
    {"hidden_size", 1, HS_HIDDEN_MAX},
    {"intermediate_size", 1, HS_FFN_MAX},
    {"max_position_embeddings", 3, HS_POSITIONS_MAX},
    {"vocab_size", 1, HS_VOCAB_MAX},
};

static hs_status parse_with(size_t which, const char *value, hs_error *err)
{
    char config[512] = "{\"model_type\":\"bert\"";
    size_t length = strlen(config);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        /* One head fits every width; as many wide heads as there may be need a width of as many. */
        const char *fallback = strcmp(limits[i].key, "num_attention_heads") == 0 ? "1" : "256";
        length += (size_t)snprintf(config + length, sizeof config - length, ",\"%s\":%s", limits[i].key,
                                   i == which ? value : fallback);
    }
    snprintf(config + length, sizeof config - length, "}");
    forget();
    return parse(config, err);
}

START_TEST(every_size_is_limited)
{
    static const char *const never[] = {"0",    "-1",   "1.0", "\"3\"",
                                        "null", "true", "[3]", "9223372036854775807"};
    char value[32];
    snprintf(value, sizeof value, "%ld", limits[_i].min);
    ck_assert_int_eq(parse_with((size_t)_i, value, NULL), HS_OK);
    snprintf(value, sizeof value, "%ld", limits[_i].max);
    ck_assert_int_eq(parse_with((size_t)_i, value, NULL), HS_OK);
    snprintf(value, sizeof value, "%ld", limits[_i].min - 1);
    ck_assert_int_eq(parse_with((size_t)_i, value, NULL), HS_BAD_MODEL);
    snprintf(value, sizeof value, "%ld", limits[_i].max + 1);
    ck_assert_int_eq(parse_with((size_t)_i, value, NULL), HS_BAD_MODEL);
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        hs_error err = {0};
        ck_assert_int_eq(parse_with((size_t)_i, never[i], &err), HS_BAD_MODEL);
        ck_assert_ptr_nonnull(strstr(err.text, limits[_i].key));
    }
    ck_assert_int_eq(parse_with((size_t)_i, "9223372036854775808", NULL), HS_BAD_MODEL);
}
END_TEST

/* Files that say how to write a text, and their refusals, or NULL. */
static const struct {
    const char *text, *refusal;
} generations[] = {
    {"{}", NULL},
    {"{\"eos_token_id\":[],\"suppress_tokens\":[],\"bad_words_ids\":[],\"stop_strings\":null}", NULL},
    {"{\"eos_token_id\":[1,300,-1],\"begin_suppress_tokens\":null,\"guidance_scale\":1}", NULL},
    {"", "not valid JSON"},
    {"[]", "not a JSON object"},
    {"{\"eos_token_id\":\"a\"}", "eos_token_id must have token ids from 0 to 299"},
    {"{\"eos_token_id\":[[1]]}", "eos_token_id must have token ids"},
    {"{\"eos_token_id\":1.5}", "eos_token_id must have token ids"},
    {"{\"forced_eos_token_id\":300}", "forced_eos_token_id must have token ids"},
    {"{\"bad_words_ids\":[[]]}", "bad_words_ids must be lists of token ids"},
    {"{\"bad_words_ids\":[5]}", "bad_words_ids must be lists of token ids"},
    {"{\"bad_words_ids\":\"a\"}", "bad_words_ids must be lists of token ids"},
    {"{\"bad_words_ids\":[[null]]}", "bad_words_ids must have token ids"},
    {"{\"bad_words_ids\":[[4,300]]}", "bad_words_ids must have token ids"},
    {"{\"repetition_penalty\":0}", "repetition_penalty must be a number"},
    {"{\"min_length\":-1}", "min_length must be a number"},
    {"{\"stop_strings\":[\".\"]}", "stop_strings is not supported for writing a text"},
};

static void read_generation(const char *text, hs_generation *ret_generation)
{
    hs__generation_read(&(hs_bytes){text, strlen(text)}, "generation_config.json", 300, ret_generation);
}

START_TEST(generation_keys)
{
    hs_generation generation;
    read_generation(generations[_i].text, &generation);
    if (generations[_i].refusal)
        ck_assert_msg(strstr(generation.refusal, generations[_i].refusal), "%s\n gave: %s",
                      generations[_i].text, generation.refusal);
    else
        ck_assert_str_eq(generation.refusal, "");
}
END_TEST

/* Bad words of one id take two numbers each: 256 fill the list. */
START_TEST(bad_words_are_limited)
{
    char text[2048] = "{\"bad_words_ids\":[[7]";
    hs_generation generation;
    for (size_t n = 2; n <= HS_SUPPRESSED_MAX / 2 + 3; n++) {
        strcat(text, ",[7]");
        char file[sizeof text + 2];
        snprintf(file, sizeof file, "%s]}", text);
        read_generation(file, &generation);
        ck_assert_uint_le(generation.n_bad_words, HS_SUPPRESSED_MAX);
        ck_assert_int_eq(*generation.refusal != '\0', n > HS_SUPPRESSED_MAX / 2);
    }
    ck_assert(strstr(generation.refusal, "bad_words_ids has more than 511 token ids"));
}
END_TEST

START_TEST(a_long_name_is_cut_between_characters)
{
    char name[1201] = "", config[2048];
    for (size_t i = 0; i < sizeof name - 1; i += 2)
        name[i] = (char)0xC3, name[i + 1] = (char)0xA9; /* é */
    snprintf(config, sizeof config, "{" BERT_SIZES ",\"hidden_act\":\"%s\"}", name);
    hs_error err = {0};
    ck_assert_int_eq(parse(config, &err), HS_BAD_MODEL);
    size_t length = strlen(err.text);
    ck_assert_uint_ge(length, sizeof err.text - 3);
    ck_assert_mem_eq(err.text + length - 2, "é", 2);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("config");
    tcase_add_checked_fixture(tests, NULL, forget);
    tcase_add_test(tests, bert_keys);
    tcase_add_test(tests, bert_defaults);
    tcase_add_test(tests, positions_of_a_config_that_does_not_say);
    tcase_add_test(tests, distilbert_keys);
    tcase_add_test(tests, electra_keys);
    tcase_add_test(tests, roberta_keys);
    tcase_add_test(tests, mpnet_keys);
    tcase_add_test(tests, t5_keys);
    tcase_add_loop_test(tests, absent_heads, 0, sizeof head_defaults / sizeof *head_defaults);
    tcase_add_test(tests, absent_keys);
    tcase_add_loop_test(tests, rotary_keys, 0, sizeof rotations / sizeof *rotations);
    tcase_add_test(tests, bart_keys);
    tcase_add_test(tests, t5_decoder_keys);
    tcase_add_test(tests, t5_scales_its_logits_as_the_config_says);
    tcase_add_test(tests, bart_decoder_keys);
    tcase_add_test(tests, albert_keys);
    tcase_add_test(tests, nomic_bert_keys);
    tcase_add_loop_test(tests, modernbert_keys, 0, sizeof modern / sizeof *modern);
    tcase_add_test(tests, esm_keys);
    tcase_add_test(tests, esm_positions);
    tcase_add_test(tests, text_part_keys);
    tcase_add_loop_test(tests, esm_rotation_base, 0, 3);
    tcase_add_test(tests, deberta_keys);
    tcase_add_test(tests, deberta_defaults);
    tcase_add_test(tests, deberta_of_few_positions);
    tcase_add_test(tests, keys_of_the_first_deberta);
    tcase_add_test(tests, joined_models);
    tcase_add_test(tests, an_untied_decoder_is_noted);
    tcase_add_loop_test(tests, every_activation_by_its_names, 0, sizeof activations / sizeof *activations);
    tcase_add_test(tests, longer_texts_than_are_supported_are_left_out);
    tcase_add_loop_test(tests, refused, 0, sizeof refusals / sizeof *refusals);
    tcase_add_loop_test(tests, every_size_is_limited, 0, sizeof limits / sizeof *limits);
    tcase_add_loop_test(tests, generation_keys, 0, sizeof generations / sizeof *generations);
    tcase_add_test(tests, bad_words_are_limited);
    tcase_add_test(tests, a_long_name_is_cut_between_characters);
    Suite *suite = suite_create("config");
    suite_add_tcase(suite, tests);
    return tests_run(suite);
}
