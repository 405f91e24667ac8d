#include "tests/unit/checkpoint.h"

#include <dirent.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void add(checkpoint_tensor *list, size_t *n, size_t n_rows, size_t n_columns, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(list[*n].name, sizeof list[*n].name, format, args);
    va_end(args);
    list[*n].n_rows = n_rows;
    list[(*n)++].n_columns = n_columns;
}

static void add_dense(checkpoint_tensor *list, size_t *n, int layer, const char *format, size_t out,
                      size_t in)
{
    char module[64];
    snprintf(module, sizeof module, format, layer);
    add(list, n, out, in, "%s.weight", module);
    add(list, n, 0, out, "%s.bias", module);
}

static void add_norm(checkpoint_tensor *list, size_t *n, const char *module, bool gamma_beta)
{
    add(list, n, 0, CHECKPOINT_HIDDEN, "%s.%s", module, gamma_beta ? "gamma" : "weight");
    add(list, n, 0, CHECKPOINT_HIDDEN, "%s.%s", module, gamma_beta ? "beta" : "bias");
}

size_t checkpoint_list(const checkpoint *options, checkpoint_tensor ret_tensors[CHECKPOINT_TENSORS_MAX])
{
    static const char *const dense[2][6] = {
        {"encoder.layer.%d.attention.self.query", "encoder.layer.%d.attention.self.key",
         "encoder.layer.%d.attention.self.value", "encoder.layer.%d.attention.output.dense",
         "encoder.layer.%d.intermediate.dense", "encoder.layer.%d.output.dense"},
        {"transformer.layer.%d.attention.q_lin", "transformer.layer.%d.attention.k_lin",
         "transformer.layer.%d.attention.v_lin", "transformer.layer.%d.attention.out_lin",
         "transformer.layer.%d.ffn.lin1", "transformer.layer.%d.ffn.lin2"},
    };
    static const char *const norms[2][2] = {
        {"encoder.layer.%d.attention.output.LayerNorm", "encoder.layer.%d.output.LayerNorm"},
        {"transformer.layer.%d.sa_layer_norm", "transformer.layer.%d.output_layer_norm"},
    };
    const size_t H = CHECKPOINT_HIDDEN, F = CHECKPOINT_FFN;
    size_t n = 0;
    add(ret_tensors, &n, CHECKPOINT_VOCAB, H, "embeddings.word_embeddings.weight");
    add(ret_tensors, &n, CHECKPOINT_POSITIONS, H, "embeddings.position_embeddings.weight");
    if (!options->distilbert)
        add(ret_tensors, &n, CHECKPOINT_TYPES, H, "embeddings.token_type_embeddings.weight");
    add_norm(ret_tensors, &n, "embeddings.LayerNorm", options->gamma_beta);
    for (int layer = 0; layer < CHECKPOINT_LAYERS; layer++) {
        for (size_t i = 0; i < 6; i++)
            add_dense(ret_tensors, &n, layer, dense[options->distilbert][i], i == 4 ? F : H, i == 5 ? F : H);
        for (size_t i = 0; i < 2; i++) {
            char module[64];
            snprintf(module, sizeof module, norms[options->distilbert][i], layer);
            add_norm(ret_tensors, &n, module, options->gamma_beta);
        }
    }
    return n;
}

/* Sixty-fourths up to 2 in magnitude: 7 significant bits, never subnormal. */
float checkpoint_value(const char *name, size_t i)
{
    uint32_t hash = 2166136261U + (uint32_t)i * 97U;
    for (const char *c = name; *c; c++)
        hash = (hash ^ (uint32_t)*c) * 16777619U;
    float magnitude = (float)(hash % 127 + 1) / 64.0F;
    return hash & 0x10000 ? -magnitude : magnitude;
}

static size_t encode(float value, const char *dtype, unsigned char *ret)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (strcmp(dtype, "F32") == 0) {
        memcpy(ret, &bits, 4);
        return 4;
    }
    int exponent;
    float mantissa =
        frexpf(fabsf(value), &exponent); /* value = mantissa * 2^exponent, mantissa in [1/2, 1) */
    uint16_t half = (uint16_t)(bits >> 16);
    if (strcmp(dtype, "F16") == 0 && !isfinite(value))
        half = (uint16_t)((value < 0 ? 0xfc00 : 0x7c00) | (isnan(value) ? 1 : 0));
    else if (strcmp(dtype, "F16") == 0)
        half =
            (uint16_t)((value < 0 ? 0x8000 : 0) | (exponent + 14) << 10 | (int)((mantissa * 2 - 1) * 1024));
    memcpy(ret, &half, 2);
    return 2;
}

void folder_create(char ret_dir[64])
{
    snprintf(ret_dir, 64, "%.40s/headscope-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(ret_dir))
        abort();
}

void folder_remove(const char *dir)
{
    DIR *entries = opendir(dir);
    if (!entries)
        abort();
    for (struct dirent *entry; (entry = readdir(entries));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (entry->d_name[0] != '.' && unlink(path) && rmdir(path))
            abort();
    }
    closedir(entries);
    if (rmdir(dir))
        abort();
}

void folder_write(const char *dir, const char *name, const void *data, size_t n_bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, n_bytes, file) != n_bytes || fclose(file))
        abort();
}

typedef struct file {
    char header[16384];
    unsigned char data[1 << 18];
    size_t header_bytes, data_bytes;
} file;

static void file_add(file *f, const checkpoint *options, const checkpoint_tensor *tensor)
{
    const char *dtype = options->dtype ? options->dtype : "F32",
               *prefix = options->prefix ? options->prefix : "";
    bool misfit = options->misfit && strcmp(options->misfit, tensor->name) == 0;
    bool as_i64 = options->as_i64 && strcmp(options->as_i64, tensor->name) == 0;
    size_t n_rows = tensor->n_rows + (misfit && tensor->n_rows), n_columns = tensor->n_columns;
    n_columns += misfit && !tensor->n_rows;
    size_t begin = f->data_bytes, n_values = n_columns * (n_rows ? n_rows : 1);
    for (size_t i = 0; i < n_values; i++) {
        unsigned char *at = f->data + f->data_bytes;
        const bool unsound = options->with && i + 1 == n_values && strcmp(options->with, tensor->name) == 0;
        const float value = unsound ? options->unsound : checkpoint_value(tensor->name, i);
        f->data_bytes += as_i64 ? 8 : encode(value, dtype, at);
    }
    char shape[64];
    if (n_rows)
        snprintf(shape, sizeof shape, "%zu,%zu", n_rows, n_columns);
    else
        snprintf(shape, sizeof shape, "%zu", n_columns);
    f->header_bytes +=
        (size_t)snprintf(f->header + f->header_bytes, sizeof f->header - f->header_bytes,
                         "%s\"%s%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                         f->header_bytes > 1 ? "," : "", prefix, tensor->name, as_i64 ? "I64" : dtype, shape,
                         begin, f->data_bytes);
}

static void file_write(file *f, const checkpoint *options, const char *dir, const char *name)
{
    f->header[f->header_bytes++] = '}';
    for (size_t i = 0; i < options->pad_header; i++)
        f->header[f->header_bytes++] = ' ';
    size_t n_bytes = 8 + f->header_bytes + f->data_bytes;
    unsigned char *whole = malloc(n_bytes);
    if (!whole)
        abort();
    uint64_t header_bytes = f->header_bytes;
    memcpy(whole, &header_bytes, 8);
    memcpy(whole + 8, f->header, f->header_bytes);
    memcpy(whole + 8 + f->header_bytes, f->data, f->data_bytes);
    folder_write(dir, name, whole, n_bytes);
    free(whole);
}

static void write_config(const checkpoint *options, const char *dir)
{
    static const char bert[] = "{\"model_type\":\"bert\",\"num_hidden_layers\":2,\"num_attention_heads\":2,"
                               "\"hidden_size\":6,\"intermediate_size\":10,\"max_position_embeddings\":8,"
                               "\"type_vocab_size\":2,\"vocab_size\":9,\"layer_norm_eps\":1e-5}";
    static const char distilbert[] = "{\"model_type\":\"distilbert\",\"n_layers\":2,\"n_heads\":2,\"dim\":6,"
                                     "\"hidden_dim\":10,\"max_position_embeddings\":8,\"vocab_size\":9}";
    const char *config = options->distilbert ? distilbert : bert;
    folder_write(dir, "config.json", config, strlen(config));
}

void checkpoint_write(const checkpoint *options, const char *dir)
{
    static const char vocab[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##c\nd\n";
    checkpoint_tensor tensors[CHECKPOINT_TENSORS_MAX];
    size_t n_tensors = checkpoint_list(options, tensors);
    if (options->more)
        add(tensors, &n_tensors, 0, options->n_more ? options->n_more : CHECKPOINT_HIDDEN, "%s",
            options->more);
    const size_t n_files = options->n_shards ? options->n_shards : 1;
    char index[16384] = "{\"metadata\":{\"total_size\":1},\"weight_map\":{";
    size_t index_bytes = strlen(index);
    const char *separator = "";
    write_config(options, dir);
    folder_write(dir, "vocab.txt", vocab, sizeof vocab - 1);
    file *f = calloc(1, sizeof *f);
    if (!f)
        abort();
    for (size_t shard = 0; shard < n_files; shard++) {
        char name[64] = "model.safetensors";
        if (options->n_shards)
            snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", shard + 1, n_files);
        f->header[0] = '{';
        f->header_bytes = 1;
        f->data_bytes = 0;
        for (size_t i = shard; i < n_tensors; i += n_files) {
            if (options->drop && strcmp(options->drop, tensors[i].name) == 0)
                continue;
            file_add(f, options, &tensors[i]);
            index_bytes +=
                (size_t)snprintf(index + index_bytes, sizeof index - index_bytes, "%s\"%s%s\":\"%s\"",
                                 separator, options->prefix ? options->prefix : "", tensors[i].name, name);
            separator = ",";
        }
        file_write(f, options, dir, name);
    }
    free(f);
    if (options->n_shards) {
        snprintf(index + index_bytes, sizeof index - index_bytes, "}}");
        folder_write(dir, "model.safetensors.index.json", index, strlen(index));
    }
}
