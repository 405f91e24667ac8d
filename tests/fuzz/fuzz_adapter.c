/* fuzz_adapter.c - an adapter is refused, or gives the weights of its base model new values.
 *
 * The input is adapter_config.json, a byte 0xFF, and adapter_model.safetensors. The base model has a matrix
 * of each of two families, whose weights are stored [out][in] and [in][out]. */
#include "model/families/family.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#define HEADER                                                                                               \
    "{\"bert.encoder.layer.0.attention.self.query.weight\":{\"dtype\":\"F32\",\"shape\":[2,2],"              \
    "\"data_offsets\":[0,16]},\"h.0.attn.c_attn.weight\":{\"dtype\":\"F32\",\"shape\":[2,6],"                \
    "\"data_offsets\":[16,64]}}"

static const char *const configs[] = {
    "{\"model_type\":\"bert\",\"num_hidden_layers\":1,\"num_attention_heads\":1,\"hidden_size\":2,"
    "\"intermediate_size\":1,\"vocab_size\":2,\"max_position_embeddings\":3}",
    "{\"model_type\":\"gpt2\",\"n_layer\":1,\"n_head\":1,\"n_embd\":2,\"vocab_size\":2,\"n_positions\":3}"};

static void merge(const char *config, const hs_bytes *file, const hs__shards *tensors, hs__shards *base)
{
    const hs__family *family;
    hs_architecture architecture;
    hs_error err = {0};
    require(!hs__family_configure(&(hs_bytes){config, strlen(config)}, &family, &architecture, NULL));
    hs__family_release(&architecture);
    const hs_status st = hs__adapter_merge(file, family, &architecture.predictor, tensors, base, &err);
    require(st == err.status && (st == HS_OK || (st == HS_BAD_MODEL && err.text[0])));
    require(!st == (base->merged.tensors.header != NULL));
    const char *name;
    json_t *value;
    json_object_foreach(base->merged.tensors.header, name, value)
    {
        hs__entry entry;
        require(hs__shards_find(base, name, &entry) && entry.n_bytes > 0);
        void *values = calloc(1, entry.n_bytes); /* all of them can be read */
        require(values);
        memcpy(values, entry.data, entry.n_bytes);
        free(values);
    }
}

static void try_adapter(const hs_bytes *file, const uint8_t *data, size_t size)
{
    unsigned char bytes[8 + sizeof HEADER - 1 + 64] = {sizeof HEADER - 1};
    hs__shards tensors;
    memcpy(bytes + 8, HEADER, sizeof HEADER - 1);
    if (!hs__shards_open_memory(&(hs_bytes){data, size}, &tensors, NULL))
        for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
            hs__shards base;
            require(!hs__shards_open_memory(&(hs_bytes){bytes, sizeof bytes}, &base, NULL));
            merge(configs[i], file, &tensors, &base);
            hs__shards_finish(&base);
        }
    hs__shards_finish(&tensors);
}

/* As for other safetensors, each file is tried again with a header that ends at its last brace. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *stop = memchr(data, 0xFF, size);
    const size_t n_config = stop ? (size_t)(stop - data) : size, n = stop ? size - n_config - 1 : 0;
    const hs_bytes file = {data, n_config};
    try_adapter(&file, data + size - n, n);
    uint8_t *copy = header_mended(data + size - n, n);
    if (copy)
        try_adapter(&file, copy, n);
    free(copy);
    return 0;
}
