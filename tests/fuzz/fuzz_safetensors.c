/* fuzz_safetensors.c - a weight file is refused, or every tensor of it lies inside the file and can be read.
 * Each file is tried alone and as the weights of the smallest model of each family. */
#include "model/families/family.h"
#include "model/files/shards.h"
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void check_tensors(const hs__safetensors *file, const uint8_t *end)
{
    size_t n_bytes = 0;
    const char *name;
    json_t *tensor;
    json_object_foreach(file->header, name, tensor)
    {
        hs__entry entry;
        if (!hs__safetensors_find(file, name, &entry))
            continue; /* __metadata__ */
        const uint8_t *data = entry.data;
        require(data >= file->data && data <= end && entry.n_bytes <= (size_t)(end - data));
        n_bytes += entry.n_bytes;
    }
    require(n_bytes == (size_t)(end - file->data));
}

static void read_tensor(const hs_tensor *tensor)
{
    float values[64];
    require(tensor->n_rows * tensor->n_columns <= sizeof values / sizeof *values);
    if (tensor->data)
        hs_tensor_read(tensor, 0, tensor->n_rows, values);
}

static void read_dense(const hs_dense *dense)
{
    read_tensor(&dense->weight);
    read_tensor(&dense->bias);
}

static void read_norm(const hs_norm *norm)
{
    read_tensor(&norm->gamma);
    read_tensor(&norm->beta);
}

static void read_layer(const hs_layer *layer)
{
    const hs_dense *dense[] = {&layer->query,   &layer->key,          &layer->value,
                               &layer->output,  &layer->ffn_in,       &layer->ffn_gate,
                               &layer->ffn_out, &layer->position_key, &layer->position_query};
    for (size_t i = 0; i < sizeof dense / sizeof *dense; i++)
        read_dense(dense[i]);
    read_norm(&layer->attention_norm);
    read_norm(&layer->ffn_norm);
}

/* The smallest model of each family. */
#define SIZES(positions, types)                                                                              \
    "\"num_hidden_layers\":1,\"num_attention_heads\":1,\"hidden_size\":2,\"intermediate_size\":1,"           \
    "\"vocab_size\":2,\"type_vocab_size\":" types ",\"max_position_embeddings\":" positions "}"
static const char *const configs[] = {
    "{\"model_type\":\"bert\"," SIZES("3", "1"),
    "{\"model_type\":\"distilbert\",\"n_layers\":1,\"n_heads\":1,\"dim\":2,\"hidden_dim\":1,"
    "\"max_position_embeddings\":3,\"vocab_size\":2}",
    "{\"model_type\":\"electra\",\"embedding_size\":1," SIZES("3", "2"),
    "{\"model_type\":\"roberta\"," SIZES("5", "1"),
    "{\"model_type\":\"mpnet\"," SIZES("5", "1"),
    "{\"model_type\":\"albert\",\"embedding_size\":1," SIZES("3", "2"),
    "{\"model_type\":\"nomic_bert\"," SIZES("3", "1"),
    "{\"model_type\":\"modernbert\"," SIZES("3", "1"),
    "{\"model_type\":\"esm\",\"position_embedding_type\":\"rotary\"," SIZES("3", "1"),
    "{\"model_type\":\"deberta-v2\",\"relative_attention\":true,\"position_buckets\":2,\"pos_att_type\":"
    "\"c2p|p2c\","
    "\"norm_rel_ebd\":\"layer_norm\",\"conv_kernel_size\":3," SIZES("3", "1"),
    "{\"model_type\":\"deberta\",\"relative_attention\":true,\"pos_att_type\":\"c2p|p2c\",\"position_biased_"
    "input\":"
    "false,\"num_hidden_layers\":1,\"num_attention_heads\":2,\"hidden_size\":2,\"intermediate_size\":1,"
    "\"vocab_size\":2,\"max_position_embeddings\":3}",
    "{\"model_type\":\"t5\",\"feed_forward_proj\":\"gated-gelu\",\"relative_attention_num_buckets\":4,"
    "\"num_layers\":1,\"num_heads\":1,\"d_model\":2,\"d_kv\":1,\"d_ff\":1,\"vocab_size\":4}",
    "{\"model_type\":\"mbart\",\"encoder_layers\":1,\"encoder_attention_heads\":1,\"d_model\":2,"
    "\"encoder_ffn_dim\":1,\"max_position_embeddings\":3,\"vocab_size\":4}",
};

static void bind_smallest(const hs__shards *shards, const char *config)
{
    const hs__family *family;
    hs_architecture architecture;
    require(!hs__family_configure(&(hs_bytes){config, strlen(config)}, &family, &architecture, NULL));
    if (!hs__weights_bind(shards, family, &architecture, NULL)) {
        read_tensor(&architecture.score_bias.table);
        read_tensor(&architecture.relative.table);
        read_norm(&architecture.relative.norm);
        read_dense(&architecture.convolution.dense);
        read_norm(&architecture.convolution.norm);
        read_tensor(&architecture.embedding.word);
        read_tensor(&architecture.embedding.position);
        read_tensor(&architecture.embedding.type);
        read_norm(&architecture.embedding.norm);
        read_dense(&architecture.embedding.projection);
        read_layer(&architecture.layers[0]);
        read_norm(&architecture.final_norm);
    }
    free(architecture.layers);
}

static void try_file(const uint8_t *data, size_t size)
{
    hs__shards shards;
    hs_error err = {0};
    hs_status st = hs__shards_open_memory(&(hs_bytes){data, size}, &shards, &err);
    require(st == err.status && (st == HS_OK || st == HS_BAD_MODEL));
    if (!st) {
        check_tensors(&shards.shards[0].tensors, data + size);
        for (size_t i = 0; i < sizeof configs / sizeof *configs; i++)
            bind_smallest(&shards, configs[i]);
    }
    hs__shards_finish(&shards);
}

/* Mutations reach what lies behind the check of the header's length, because each file is tried with a fixed
 * one, too. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_file(data, size);
    uint8_t *copy = header_mended(data, size);
    if (copy)
        try_file(copy, size);
    free(copy);
    return 0;
}
