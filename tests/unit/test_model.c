/* test_model.c - whole checkpoints: every layout gives the same weights, every fault is refused, and memory
 * may run out. */
#include "model/base/files.h"
#include "model/model.h"
#include "model/untrained.h"
#include "tests/unit/chaos.h"
#include "tests/unit/checkpoint.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

static void setup(void)
{
    folder_create(dir);
}

static void teardown(void)
{
    folder_remove(dir);
}

static void path_of(const char *name, char ret_path[128])
{
    snprintf(ret_path, 128, "%.63s/%s", dir, name);
}

/* The folder must be refused with a message that names it and contains the words. */
static void check_refused(hs_status expected, const char *words)
{
    hs_model *const untouched = (hs_model *)(void *)dir;
    hs_model *model = untouched;
    hs_error err = {0};
    hs_status st = hs_model_open(dir, NULL, &model, &err);
    ck_assert_msg(st == expected, "%s: %s", hs_status_text(st), err.text);
    ck_assert_int_eq(err.status, expected);
    ck_assert_ptr_eq(model, untouched);
    ck_assert_ptr_eq(strstr(err.text, dir), err.text);
    ck_assert_msg(strstr(err.text, words) != NULL, "no '%s' in: %s", words, err.text);
}

static hs_model *open_checked(void)
{
    hs_model *model = NULL;
    hs_error err = {0};
    hs_status st = hs_model_open(dir, NULL, &model, &err);
    ck_assert_msg(st == HS_OK, "%s", err.text);
    return model;
}

/* ---- layouts ---- */

static const checkpoint layouts[] = {
    {.prefix = NULL},
    {.prefix = "bert."},
    {.prefix = "model."},
    {.gamma_beta = true},
    {.prefix = "bert.", .gamma_beta = true, .dtype = "F16"},
    {.dtype = "F16"},
    {.dtype = "BF16"},
    {.distilbert = true},
    {.distilbert = true, .prefix = "distilbert."},
    {.distilbert = true, .prefix = "distilbert.", .gamma_beta = true, .dtype = "BF16"},
    {.n_shards = 1},
    {.n_shards = 3, .prefix = "bert."},
    {.n_shards = 29, .dtype = "F16", .distilbert = true},
    {.pad_header = 1},
    {.pad_header = 2},
    {.pad_header = 3},
    {.pad_header = 1, .dtype = "F16"},
    {.pad_header = 1, .dtype = "BF16", .n_shards = 2},
};

static void check_tensor(const hs_tensor *tensor, const checkpoint_tensor *expected, const char *dtype)
{
    float values[CHECKPOINT_FFN * CHECKPOINT_FFN];
    static const char *const names[] = {[HS_F32] = "F32", [HS_F16] = "F16", [HS_BF16] = "BF16"};
    ck_assert_str_eq(names[tensor->dtype], dtype ? dtype : "F32");
    ck_assert_uint_eq(tensor->n_rows, expected->n_rows ? expected->n_rows : 1);
    ck_assert_uint_eq(tensor->n_columns, expected->n_columns);
    hs_tensor_read(tensor, 0, tensor->n_rows, values);
    for (size_t i = 0; i < tensor->n_rows * tensor->n_columns; i++)
        ck_assert_msg(values[i] == checkpoint_value(expected->name, i), "%s at %zu", expected->name, i);
}

static const checkpoint_tensor *check_dense(const hs_dense *dense, const checkpoint_tensor *expected,
                                            const char *dtype)
{
    check_tensor(&dense->weight, expected++, dtype);
    check_tensor(&dense->bias, expected++, dtype);
    return expected;
}

static const checkpoint_tensor *check_norm(const hs_norm *norm, const checkpoint_tensor *expected,
                                           const char *dtype)
{
    check_tensor(&norm->gamma, expected++, dtype);
    check_tensor(&norm->beta, expected++, dtype);
    return expected;
}

START_TEST(every_layout_gives_every_weight)
{
    const checkpoint *layout = &layouts[_i];
    checkpoint_tensor list[CHECKPOINT_TENSORS_MAX];
    const checkpoint_tensor *next = list, *end = list + checkpoint_list(layout, list);
    checkpoint_write(layout, dir);
    hs_model *model = open_checked();
    const hs_architecture *architecture = hs_model_architecture(model);
    const hs_embedding *embedding = &architecture->embedding;
    check_tensor(&embedding->word, next++, layout->dtype);
    check_tensor(&embedding->position, next++, layout->dtype);
    if (layout->distilbert)
        ck_assert_ptr_null(embedding->type.data);
    else
        check_tensor(&embedding->type, next++, layout->dtype);
    next = check_norm(&embedding->norm, next, layout->dtype);
    for (size_t i = 0; i < CHECKPOINT_LAYERS; i++) {
        const hs_layer *layer = &architecture->layers[i];
        const hs_dense *dense[] = {&layer->query,  &layer->key,    &layer->value,
                                   &layer->output, &layer->ffn_in, &layer->ffn_out};
        for (size_t k = 0; k < 6; k++)
            next = check_dense(dense[k], next, layout->dtype);
        next = check_norm(&layer->attention_norm, next, layout->dtype);
        next = check_norm(&layer->ffn_norm, next, layout->dtype);
    }
    ck_assert_ptr_eq(next, end);
    const hs_shape *shape = hs_model_shape(model);
    ck_assert_uint_eq(shape->n_layers, CHECKPOINT_LAYERS);
    ck_assert_uint_eq(shape->n_types, layout->distilbert ? 0 : CHECKPOINT_TYPES);
    ck_assert_str_eq(hs_model_architecture(model)->family, layout->distilbert ? "distilbert" : "bert");
    ck_assert_uint_eq(hs_tokenizer_vocab_size(hs_model_tokenizer(model)), CHECKPOINT_VOCAB);
    hs_model_close(model);
}
END_TEST

START_TEST(released_pages_come_back)
{
    checkpoint_write(&layouts[0], dir);
    hs_model *model = open_checked();
    float before[CHECKPOINT_HIDDEN], after[CHECKPOINT_HIDDEN];
    hs_tensor_read(&hs_model_architecture(model)->embedding.word, 3, 1, before);
    hs_model_release_pages(model);
    hs_tensor_read(&hs_model_architecture(model)->embedding.word, 3, 1, after);
    ck_assert_mem_eq(before, after, sizeof before);
    hs_model_close(model);
}
END_TEST

/* ---- faults of tensors ---- */

START_TEST(every_missing_tensor_is_named)
{
    checkpoint_tensor list[CHECKPOINT_TENSORS_MAX];
    checkpoint broken = layouts[_i];
    size_t n = checkpoint_list(&broken, list);
    for (size_t i = 0; i < n; i++) {
        broken.drop = list[i].name;
        checkpoint_write(&broken, dir);
        /* With old names the new one is reported: that is what HuggingFace writes today. */
        check_refused(HS_BAD_MODEL, broken.gamma_beta ? "no tensor" : list[i].name);
    }
}
END_TEST

START_TEST(every_misshapen_tensor_is_named)
{
    checkpoint_tensor list[CHECKPOINT_TENSORS_MAX];
    checkpoint broken = layouts[_i];
    size_t n = checkpoint_list(&broken, list);
    for (size_t i = 0; i < n; i++) {
        broken.misfit = list[i].name;
        checkpoint_write(&broken, dir);
        check_refused(HS_BAD_MODEL, list[i].name);
    }
}
END_TEST

START_TEST(integer_weights_are_refused)
{
    const checkpoint broken = {.as_i64 = "encoder.layer.1.output.dense.weight"};
    checkpoint_write(&broken, dir);
    check_refused(HS_BAD_MODEL, "tensor encoder.layer.1.output.dense.weight has dtype I64; supported: "
                                "F32, F16 and BF16");
}
END_TEST

START_TEST(every_unsound_tensor_is_named)
{
    static const float unsound[] = {NAN, -NAN, INFINITY, -INFINITY};
    checkpoint_tensor list[CHECKPOINT_TENSORS_MAX];
    checkpoint broken = layouts[_i];
    size_t n = checkpoint_list(&broken, list);
    for (size_t i = 0; i < n; i++) {
        broken.with = list[i].name;
        broken.unsound = unsound[i % 4];
        checkpoint_write(&broken, dir);
        check_refused(HS_BAD_MODEL, "has a NaN or an infinity");
        check_refused(HS_BAD_MODEL, list[i].name);
    }
}
END_TEST

#define UNKNOWN "the layers of this family have no tensor"
#define BEYOND  "config.json says that layers 0 to 1 are all"

static const struct {
    const char *name, *says;
} strange[] = {
    {"encoder.layer.0.attention.self.layer_norm_q.weight", UNKNOWN},
    {"encoder.layer.1.output.dense.weight_scale", UNKNOWN},
    {"encoder.layer.12.output.dense2.bias", UNKNOWN},
    {"encoder.layer.0.intermediate.dense.gamma", UNKNOWN},
    {"encoder.layer.*.output.dense.bias", UNKNOWN},
    {"encoder.layer.0.attention.self.inv_freq_scale", UNKNOWN},
    {"encoder.layer.0", UNKNOWN},
    {"encoder.layer.2.output.dense.bias", BEYOND},
    {"encoder.layer.12.intermediate.dense.weight", BEYOND},
    {"encoder.layer.18446744073709551616.attention.self.key.bias", BEYOND},
};

START_TEST(a_weight_that_nothing_computes_with_is_refused)
{
    const checkpoint broken = {.prefix = "bert.", .more = strange[_i].name, .n_shards = 2};
    checkpoint_write(&broken, dir);
    check_refused(HS_BAD_MODEL, strange[_i].name);
    check_refused(HS_BAD_MODEL, strange[_i].says);
}
END_TEST

static const char *const harmless[] = {
    "pooler.dense.weight",
    "embeddings.position_ids",
};

START_TEST(other_tensors_are_left_alone)
{
    const checkpoint sound = {.more = harmless[_i]};
    checkpoint_write(&sound, dir);
    hs_model_close(open_checked());
}
END_TEST

/* Buffers of layers, and the largest number of values that each may have with heads of width 3. */
static const struct {
    const char *name;
    size_t n_most;
} buffers[] = {
    {"encoder.layer.1.attention.self.rotary_embeddings.inv_freq", 1},
    {"encoder.layer.*.attention.self.rotary_embeddings.inv_freq", 1},
    {"encoder.layer.0.attn.rotary_emb.original_inv_freq", 1},
    {"encoder.layer.0.attention.self.masked_bias", 1},
    {"encoder.layer.0.attention.self.position_ids", 32768},
    {"encoder.layer.0.attention.self.token_type_ids", 32768},
};

START_TEST(buffers_of_layers_are_left_alone)
{
    const checkpoint sound = {.more = buffers[_i].name, .n_more = buffers[_i].n_most};
    checkpoint_write(&sound, dir);
    hs_model_close(open_checked());
}
END_TEST

START_TEST(a_weight_under_the_name_of_a_buffer_is_refused)
{
    const checkpoint broken = {.more = buffers[_i].name, .n_more = buffers[_i].n_most + 1};
    checkpoint_write(&broken, dir);
    check_refused(HS_BAD_MODEL, buffers[_i].name);
    check_refused(HS_BAD_MODEL, UNKNOWN);
}
END_TEST

START_TEST(unknown_prefix_is_refused)
{
    const checkpoint broken = {.prefix = "roberta."};
    checkpoint_write(&broken, dir);
    check_refused(HS_BAD_MODEL, "model.safetensors: no tensor embeddings.word_embeddings.weight");
}
END_TEST

/* ---- faults of files ---- */

START_TEST(missing_files_are_named)
{
    char path[128];
    check_refused(HS_NOT_FOUND, "config.json: No such file");
    checkpoint_write(&layouts[0], dir);
    path_of("model.safetensors", path);
    ck_assert_int_eq(unlink(path), 0);
    check_refused(HS_NOT_FOUND, "model.safetensors: missing, as is model.safetensors.index.json");
}
END_TEST

/* The refusal names weights in another form, of several the one that helps most. */
START_TEST(weights_of_another_form_are_named)
{
    static const char *const cases[][2] = {
        {"pytorch_model.pth", "the folder has pytorch_model.pth, weights in a layout of their authors"},
        {"bert_model.ckpt.index", "the folder has bert_model.ckpt.index, weights of TensorFlow 1"},
        {"model.onnx", "the folder has model.onnx, a graph of ONNX"},
        {"flax_model.msgpack", "the folder has flax_model.msgpack, weights of Flax, which are not read; "
                               "transformers 4.49 with Flax converts them"},
        {"tf_model.h5", "the folder has tf_model.h5, weights of TensorFlow"},
        {"b-q4_k_m.gguf", "the folder has b-q4_k_m.gguf, a model of llama.cpp; name the file"},
        {"a-q8_0.gguf", "the folder has a-q8_0.gguf, a model of llama.cpp; name the file"},
        {"model.fp16.safetensors", "the folder has model.fp16.safetensors, weights under another name"},
        {"consolidated.safetensors", "the folder has consolidated.safetensors, weights in Mistral's own"},
        {"adapter_model.safetensors", "the folder has adapter_model.safetensors, an adapter without"},
        {"pytorch_model.bin", "the folder has only pytorch_model.bin"},
    };
    char path[128];
    checkpoint_write(&layouts[0], dir);
    path_of("model.safetensors", path);
    ck_assert_int_eq(unlink(path), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        path_of(cases[i][0], path);
        FILE *file = fopen(path, "w");
        ck_assert_ptr_nonnull(file);
        fputc('x', file);
        fclose(file);
        check_refused(HS_NOT_FOUND, cases[i][1]);
    }
}
END_TEST

/* So does that of a folder without config.json, unless the weights are safetensors under any name. */
START_TEST(weights_without_a_config_are_named)
{
    static const char *const cases[][2] = {
        {"model.safetensors", "config.json: No such file or directory"},
        {"other.safetensors", "config.json: No such file or directory"},
        {"tf_model.h5",
         "config.json: No such file or directory; the folder has tf_model.h5, weights of TensorFlow"},
    };
    char path[128], folder[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        path_of(cases[i][0], path);
        FILE *file = fopen(path, "w");
        ck_assert_ptr_nonnull(file);
        fclose(file);
        check_refused(HS_NOT_FOUND, cases[i][1]);
        hs_error err = {0};
        hs_model *model = NULL;
        ck_assert_int_eq(hs_model_open(dir, NULL, &model, &err), HS_NOT_FOUND);
        ck_assert_int_eq(strstr(err.text, "the folder has") != NULL, i > 1);
    }
    memcpy(folder, dir, sizeof folder);
    snprintf(dir, sizeof dir, "%.40s/model.safetensors", folder); /* the file in place of its folder */
    check_refused(HS_NOT_FOUND, ": a file; name the folder that holds it");
    memcpy(dir, folder, sizeof folder);
}
END_TEST

START_TEST(a_git_lfs_pointer_is_named)
{
    static const char pointer[] =
        "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 438000000\n";
    static const char *const names[] = {"model.safetensors", "vocab.txt", "config.json"};
    for (size_t i = 0; i < 3; i++) {
        checkpoint_write(&layouts[0], dir);
        folder_write(dir, names[i], pointer, sizeof pointer - 1);
        check_refused(HS_BAD_MODEL, names[i]);
        check_refused(HS_BAD_MODEL, "this is a Git LFS pointer and not the file; run 'git lfs pull'");
    }
    char path[128];
    checkpoint_write(&layouts[0], dir);
    folder_write(dir, "pytorch_model.bin", pointer, sizeof pointer - 1);
    path_of("model.safetensors", path);
    ck_assert_int_eq(unlink(path), 0);
    check_refused(HS_BAD_MODEL, "pytorch_model.bin: this is a Git LFS pointer");
}
END_TEST

START_TEST(an_adapter_needs_its_base_model)
{
    static const char config[] = "{\"peft_type\": \"LORA\", \"lora_alpha\": 8, "
                                 "\"base_model_name_or_path\": \"nobody/base\"}";
    folder_write(dir, "adapter_config.json", config, sizeof config - 1);
    check_refused(HS_NOT_FOUND, "\"nobody/base\", which is neither a folder nor a model in the cache");
}
END_TEST

START_TEST(the_family_is_checked_before_the_weights)
{
    static const char config[] = "{\"model_type\": \"t6\"}";
    char path[128];
    checkpoint_write(&layouts[0], dir);
    path_of("model.safetensors", path);
    ck_assert_int_eq(unlink(path), 0);
    folder_write(dir, "pytorch_model.bin", "PK", 2);
    folder_write(dir, "config.json", config, sizeof config - 1);
    check_refused(HS_BAD_MODEL, "model_type \"t6\" is not supported");
}
END_TEST

START_TEST(a_pickle_alone_is_refused_with_its_conversion)
{
    char path[128];
    checkpoint_write(&layouts[0], dir);
    path_of("model.safetensors", path);
    ck_assert_int_eq(unlink(path), 0);
    folder_write(dir, "pytorch_model.bin", "PK", 2);
    check_refused(HS_NOT_FOUND, "model.safetensors: missing; the folder has only pytorch_model.bin");
    check_refused(HS_NOT_FOUND, "python3 -m headscope.convert DIR");
}
END_TEST

START_TEST(a_missing_folder_is_named)
{
    hs_model *model = NULL;
    hs_error err = {0};
    ck_assert_int_eq(hs_model_open("/nowhere/at/all", NULL, &model, &err), HS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "/nowhere/at/all"));
}
END_TEST

START_TEST(a_path_too_long_is_refused)
{
    char long_dir[5000];
    memset(long_dir, 'x', sizeof long_dir - 1);
    long_dir[sizeof long_dir - 1] = '\0';
    hs_model *model = NULL;
    ck_assert_int_eq(hs_model_open(long_dir, NULL, &model, NULL), HS_IO);
}
END_TEST

static const char *const file_names[] = {"config.json", "vocab.txt", "model.safetensors"};

START_TEST(pipes_and_folders_are_no_files)
{
    char path[128];
    checkpoint_write(&layouts[0], dir);
    path_of(file_names[_i], path);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    check_refused(HS_BAD_MODEL, "not a regular file");
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    check_refused(HS_BAD_MODEL, "not a regular file");
}
END_TEST

START_TEST(empty_files_are_refused)
{
    checkpoint_write(&layouts[0], dir);
    folder_write(dir, file_names[_i], "", 0);
    check_refused(HS_BAD_MODEL, file_names[_i]);
}
END_TEST

START_TEST(every_shorter_weight_file_is_refused)
{
    char path[128];
    struct stat info;
    checkpoint_write(&layouts[0], dir);
    path_of("model.safetensors", path);
    ck_assert_int_eq(stat(path, &info), 0);
    for (off_t size = info.st_size; size > 0; size -= size > 5000 ? 97 : 61) {
        ck_assert_int_eq(truncate(path, size - 1), 0);
        check_refused(HS_BAD_MODEL, "model.safetensors: ");
    }
}
END_TEST

START_TEST(a_longer_weight_file_is_refused)
{
    char path[128];
    struct stat info;
    checkpoint_write(&layouts[0], dir);
    path_of("model.safetensors", path);
    ck_assert_int_eq(stat(path, &info), 0);
    ck_assert_int_eq(truncate(path, info.st_size + 1), 0);
    check_refused(HS_BAD_MODEL, "but the header describes");
}
END_TEST

/* ---- faults of indices ---- */

static const struct {
    const char *index, *message;
    hs_status status;
} indices[] = {
    {"", "not valid JSON", HS_BAD_MODEL},
    {"{}", "weight_map is missing or empty", HS_BAD_MODEL},
    {"{\"weight_map\":{}}", "weight_map is missing or empty", HS_BAD_MODEL},
    {"{\"weight_map\":[\"a.safetensors\"]}", "weight_map is missing or empty", HS_BAD_MODEL},
    {"{\"weight_map\":{\"a\":1}}", "weight_map must name", HS_BAD_MODEL},
    {"{\"weight_map\":{\"a\":\"\"}}", "weight_map must name", HS_BAD_MODEL},
    {"{\"weight_map\":{\"a\":\".safetensors\"}}", "weight_map must name", HS_BAD_MODEL},
    {"{\"weight_map\":{\"a\":\"..safetensors\"}}", "weight_map must name", HS_BAD_MODEL},
    {"{\"weight_map\":{\"a\":\"/etc/a.safetensors\"}}", "weight_map must name", HS_BAD_MODEL},
    {"{\"weight_map\":{\"a\":\"../a.safetensors\"}}", "weight_map must name", HS_BAD_MODEL},
    {"{\"weight_map\":{\"a\":\"b/a.safetensors\"}}", "weight_map must name", HS_BAD_MODEL},
    {"{\"weight_map\":{\"a\":\"passwd\"}}", "weight_map must name", HS_BAD_MODEL},
    {"{\"weight_map\":{\"a\":\"gone.safetensors\"}}", "gone.safetensors: No such file", HS_NOT_FOUND},
    {"{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\"}}", "no tensor embeddings.word",
     HS_BAD_MODEL},
    /* It lies in the first shard. */
    {"{\"weight_map\":{\"embeddings.word_embeddings.weight\":\"model-00002-of-00002.safetensors\"}}",
     "no tensor embeddings.word", HS_BAD_MODEL},
};

START_TEST(bad_index_is_refused)
{
    checkpoint_write(&(checkpoint){.n_shards = 2}, dir);
    folder_write(dir, "model.safetensors.index.json", indices[_i].index, strlen(indices[_i].index));
    check_refused(indices[_i].status, indices[_i].message);
}
END_TEST

START_TEST(too_many_shards_are_refused)
{
    char index[16384] = "{\"weight_map\":{";
    size_t length = strlen(index);
    checkpoint_write(&(checkpoint){.n_shards = 2}, dir);
    for (int i = 0; i < 257; i++)
        length += (size_t)snprintf(index + length, sizeof index - length, "%s\"%d\":\"%d.safetensors\"",
                                   i ? "," : "", i, i);
    length += (size_t)snprintf(index + length, sizeof index - length, "}}");
    folder_write(dir, "model.safetensors.index.json", index, length);
    check_refused(HS_BAD_MODEL, "more than 256 shards");
}
END_TEST

START_TEST(a_missing_shard_is_named)
{
    char path[128];
    checkpoint_write(&(checkpoint){.n_shards = 3}, dir);
    path_of("model-00002-of-00003.safetensors", path);
    ck_assert_int_eq(unlink(path), 0);
    check_refused(HS_NOT_FOUND, "model-00002-of-00003.safetensors: No such file");
}
END_TEST

/* ---- the whole ---- */

/* Computes the SHA-256 of files, one after another, with sha256sum. */
static void sha256_print(const char *files, char ret_hex[HS_SHA256_HEX])
{
    char command[256];
    snprintf(command, sizeof command, "cat %s | sha256sum", files);
    FILE *sum = popen(command, "r");
    ck_assert_ptr_nonnull(sum);
    ck_assert_ptr_nonnull(fgets(ret_hex, HS_SHA256_HEX, sum));
    pclose(sum);
}

static char mini_sha256[HS_SHA256_HEX];

static void *ask_sha256(void *argument)
{
    static _Thread_local char hex[HS_SHA256_HEX];
    hs_model_sha256(argument, hex);
    return strcmp(hex, mini_sha256) == 0 ? argument : NULL;
}

START_TEST(embedded_model_is_the_one_in_the_tree)
{
    hs_model *model = NULL;
    hs_error err = {0};
    ck_assert_msg(hs_model_open_embedded(&model, &err) == HS_OK, "%s", err.text);
    const hs_shape *shape = hs_model_shape(model);
    ck_assert_uint_eq(shape->n_layers, 12);
    ck_assert_uint_eq(shape->n_heads, 12);
    ck_assert_uint_eq(shape->hidden, 144);
    sha256_print("model/mini/model.safetensors", mini_sha256);
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ask_sha256, model), 0);
    for (size_t i = 0; i < 4; i++) {
        void *same = NULL;
        ck_assert_int_eq(pthread_join(threads[i], &same), 0);
        ck_assert_ptr_eq(same, model);
    }
    hs_model_release_pages(model); /* nothing is mapped: nothing happens */
    hs_model_close(model);
}
END_TEST

/* Returns the mean of a tensor's numbers, and writes their standard deviation. */
static double spread_of(const hs_tensor *tensor, double *ret_deviation)
{
    const size_t n = tensor->n_rows * tensor->n_columns;
    float *values = calloc(n, sizeof *values);
    double sum = 0, squares = 0;
    ck_assert_ptr_nonnull(values);
    hs_tensor_read(tensor, 0, tensor->n_rows, values);
    for (size_t i = 0; i < n; i++) {
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
    }
    free(values);
    *ret_deviation = sqrt(fmax(squares / (double)n - sum / (double)n * sum / (double)n, 0));
    return sum / (double)n;
}

/* Opens the built-in model with random weights, and checks them. */
static hs_model *untrained_open(uint64_t seed)
{
    hs_model *model = NULL;
    double deviation, bias_deviation;
    ck_assert_int_eq(hs_model_open_embedded(&model, NULL), HS_OK);
    ck_assert_int_eq(hs_model_untrain(model, seed, NULL), HS_OK);
    const hs_architecture *a = hs_model_architecture(model);
    const hs_tensor *drawn[] = {&a->embedding.word, &a->embedding.position, &a->layers[0].query.weight,
                                &a->layers[11].ffn_out.weight};
    for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++) {
        const double mean = spread_of(drawn[i], &deviation);
        ck_assert_double_lt(fabs(mean), 0.001);
        ck_assert_double_lt(fabs(deviation - 0.02), 0.001);
    }
    ck_assert_double_eq(spread_of(&a->layers[5].ffn_norm.gamma, &deviation), 1);
    ck_assert_double_eq(spread_of(&a->layers[5].key.bias, &bias_deviation), 0);
    ck_assert(deviation == 0 && bias_deviation == 0);
    ck_assert_ptr_eq(a->predictor.decoder.data, a->embedding.word.data); /* still tied */
    ck_assert_ptr_ne(a->layers[0].query.weight.data, a->layers[1].query.weight.data);
    return model;
}

START_TEST(untrained_weights_are_those_of_a_seed)
{
    hs_model *models[] = {untrained_open(7), untrained_open(7), untrained_open(8)};
    char hex[3][HS_SHA256_HEX], trained[HS_SHA256_HEX];
    float first[3];
    for (size_t i = 0; i < 3; i++) {
        hs_model_sha256(models[i], hex[i]);
        memcpy(&first[i], hs_model_architecture(models[i])->layers[3].value.weight.data, sizeof first[i]);
    }
    sha256_print("model/mini/model.safetensors", trained);
    ck_assert_str_eq(hex[0], hex[1]);
    ck_assert_str_ne(hex[0], hex[2]);
    ck_assert_str_ne(hex[0], trained);
    ck_assert(first[0] == first[1] && first[0] != first[2]);
    for (size_t i = 0; i < 3; i++)
        hs_model_close(models[i]);
}
END_TEST

/* Equal shapes do not make a decoder a copy of the encoder. Only a table that both have stays one. */
START_TEST(a_decoder_has_weights_of_its_own)
{
    enum { WIDTH = 4, N = WIDTH * WIDTH };
    static const float trained[3][N];
    hs_layer layers[2] = {0};
    hs_architecture stacks[2] = {0};
    float *block = NULL;
    for (size_t i = 0; i < 2; i++) {
        const hs_tensor tensor = {.n_rows = WIDTH, .n_columns = WIDTH, .dtype = HS_F32};
        layers[i].query.weight = stacks[i].embedding.word = tensor;
        layers[i].query.weight.data = trained[i];
        stacks[i].embedding.word.data = trained[2];
        stacks[i].shape.n_layers = 1;
        stacks[i].layers = &layers[i];
        stacks[i].initializer_range = 1 + (double)i;
    }
    ck_assert_int_eq(hs_architecture_untrain(&stacks[0], &stacks[1], 3, &block, NULL), HS_OK);
    ck_assert_ptr_eq(stacks[0].embedding.word.data, stacks[1].embedding.word.data);
    const float *own = layers[0].query.weight.data, *other = layers[1].query.weight.data;
    for (size_t i = 0; i < N; i++)
        ck_assert(own[i] != other[i] && 2 * own[i] != other[i]);
    free(block);
}
END_TEST

/* A decoder that is the table of words takes no memory of its own. If memory is short, it may count twice. */
START_TEST(random_weights_count_shared_memory_once)
{
    enum { WIDTH = 4, N = WIDTH * WIDTH };
    static const float trained[2][N];
    hs_layer layer = {0};
    const hs_tensor tensor = {.data = trained[0], .n_rows = WIDTH, .n_columns = WIDTH, .dtype = HS_F32};
    hs_architecture tied = {.shape.n_layers = 1, .layers = &layer, .embedding.word = tensor};
    tied.predictor.decoder = layer.query.weight = tensor;
    layer.query.weight.data = trained[1];
    ck_assert_uint_eq(hs_untrained_bytes(&tied), sizeof trained);
    ck_assert(layer.query.weight.data == trained[1] && tied.embedding.word.data == trained[0]);
    chaos_refuse(0);
    const size_t bound = hs_untrained_bytes(&tied);
    ck_assert(chaos_stop());
    ck_assert_uint_ge(bound, sizeof trained);
    ck_assert_uint_le(bound, 2 * sizeof trained);
}
END_TEST

START_TEST(untraining_survives_refused_allocations)
{
    bool refused = true;
    for (size_t nth = 0; refused; nth++) {
        hs_model *model = NULL;
        ck_assert_int_eq(hs_model_open_embedded(&model, NULL), HS_OK);
        const void *data = hs_model_architecture(model)->layers[0].query.weight.data;
        chaos_refuse(nth);
        const hs_status st = hs_model_untrain(model, 1, NULL);
        refused = chaos_stop();
        ck_assert_int_eq(st, refused ? HS_NO_MEMORY : HS_OK);
        ck_assert_int_eq(hs_model_architecture(model)->layers[0].query.weight.data == data, refused);
        hs_model_close(model);
    }
}
END_TEST

/* A copy of the architecture leaves the model as it is. */
START_TEST(an_untrained_copy_has_the_weights_of_its_seed)
{
    hs_model *model = NULL, *other = untrained_open(5);
    hs_untrained copy;
    bool refused = true;
    ck_assert_int_eq(hs_model_open_embedded(&model, NULL), HS_OK);
    const hs_architecture *trained = hs_model_architecture(model), *random = hs_model_architecture(other);
    const void *data = trained->layers[0].query.weight.data;
    for (size_t nth = 0; refused; nth++) {
        chaos_refuse(nth);
        const hs_status st = hs_untrained_create(trained, 5, &copy, NULL);
        refused = chaos_stop();
        ck_assert_int_eq(st, refused ? HS_NO_MEMORY : HS_OK);
    }
    const hs_tensor *own = &copy.architecture.layers[11].ffn_out.weight,
                    *same = &random->layers[11].ffn_out.weight;
    ck_assert_mem_eq(own->data, same->data, own->n_rows * own->n_columns * sizeof(float));
    ck_assert_ptr_eq(trained->layers[0].query.weight.data, data);
    ck_assert_uint_ge(hs_untrained_bytes(trained), 4 * own->n_rows * own->n_columns);
    hs_untrained_finish(&copy);
    hs_model_close(model);
    hs_model_close(other);
}
END_TEST

START_TEST(sha256_of_shards_is_that_of_their_concatenation)
{
    char shards[128], expected[HS_SHA256_HEX], hex[HS_SHA256_HEX];
    checkpoint_write(&(checkpoint){.n_shards = 3}, dir);
    path_of("model-*.safetensors", shards);
    sha256_print(shards, expected);
    hs_model *model = open_checked();
    hs_model_sha256(model, hex);
    ck_assert_str_eq(hex, expected);
    hs_model_sha256(model, hex);
    ck_assert_str_eq(hex, expected);
    hs_model_close(model);
}
END_TEST

/* The digest of a model's small files goes into corpus runs, which refuse to go on with another one. */
START_TEST(digests_of_small_files_stay)
{
    checkpoint_write(&(checkpoint){.prefix = NULL}, dir);
    hs_model *model = open_checked();
    ck_assert_str_eq(hs_model_files_sha256(model),
                     "bd34243847591bdc6b80c23a3f42fa2efa2a10bb6b330c2aed47d6d3f3cba14b");
    hs_model_close(model);
    folder_write(dir, "spiece.model", "pieces", 6);
    model = open_checked();
    ck_assert_str_eq(hs_model_files_sha256(model),
                     "80fcbd450d191a355ed4ea34c8a5b5a123556fc3c08ff7fc4656b9fe277cb40a");
    hs_model_close(model);
}
END_TEST

/* ---- source.spm and target.spm ---- */

#define UNKNOWN_PIECE "\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02"
#define MARK_PIECE    "\x0a\x0a\x0a\x03\u2581\x15\0\0\x40\xc0"
#define WORD_PIECE    "\x0a\x0c\x0a\x05\u2581ab\x15\0\0\x80\xbf"
#define BEGIN_PIECE   "\x0a\x0b\x0a\x04\u2581a\x15\0\0\x80\xbf"
#define END_PIECE                                                                                            \
    "\x0a\x08\x0a\x01"                                                                                       \
    "b\x15\0\0\x80\xbf"

static const char source_pieces[] = UNKNOWN_PIECE MARK_PIECE WORD_PIECE,
                  target_pieces[] = UNKNOWN_PIECE MARK_PIECE BEGIN_PIECE END_PIECE;

static void write_marian(void)
{
    static const char config[] = "{\"tokenizer_class\":\"MarianTokenizer\"}",
                      ids[] = "{\"</s>\":0,\"<unk>\":1,\"\u2581\":2,\"\u2581ab\":3,\"\u2581a\":4,\"b\":5,"
                              "\"<pad>\":6}";
    checkpoint_write(&(checkpoint){.prefix = NULL}, dir);
    folder_write(dir, "tokenizer_config.json", config, sizeof config - 1);
    folder_write(dir, "vocab.json", ids, sizeof ids - 1);
    folder_write(dir, "source.spm", source_pieces, sizeof source_pieces - 1);
    folder_write(dir, "target.spm", target_pieces, sizeof target_pieces - 1);
    folder_write(dir, "spiece.model", "of another class", 16);
    folder_write(dir, "tokenizer.json", "{}", 2);
}

static void check_ids(const hs_tokenizer *tokenizer, const char *bytes, const int32_t *ids, size_t n)
{
    const hs_text text = {bytes, strlen(bytes)};
    hs_encoding encoding = {0};
    ck_assert_int_eq(
        hs_tokenizer_encode(tokenizer, &text, NULL, &(hs_encode_options){.tokens_max = 9}, &encoding, NULL),
        HS_OK);
    ck_assert_uint_eq(encoding.n_tokens, n);
    ck_assert_mem_eq(encoding.ids, ids, n * sizeof *ids);
    hs_encoding_finish(&encoding);
}

/* transformers' MarianTokenizer gives these ids for text and text_target. */
START_TEST(each_stack_of_marian_has_its_pieces)
{
    write_marian();
    hs_model *model = open_checked();
    check_ids(hs_model_tokenizer(model), "ab ab", (const int32_t[]){3, 3, 0}, 3);
    check_ids(hs_model_target_tokenizer(model), "ab ab", (const int32_t[]){4, 5, 4, 5, 0}, 5);
    hs_model_close(model);
}
END_TEST

/* MarianTokenizer finds added tokens in the given text, although its files say `normalized`. transformers
 * gives these ids. */
START_TEST(added_tokens_of_marian_are_found_in_the_given_text)
{
    static const char added[] = "{\"tokenizer_class\":\"MarianTokenizer\",\"added_tokens_decoder\":{"
                                "\"7\":{\"content\":\"<ent>\",\"normalized\":true},"
                                "\"8\":{\"content\":\"  \",\"normalized\":true}}}";
    write_marian();
    folder_write(dir, "tokenizer_config.json", added, sizeof added - 1);
    hs_model *model = open_checked();
    check_ids(hs_model_target_tokenizer(model), "a<ent>b  ab", (const int32_t[]){4, 7, 2, 5, 8, 4, 5, 0}, 8);
    hs_model_close(model);
}
END_TEST

START_TEST(a_fault_of_target_spm_names_it)
{
    write_marian();
    folder_write(dir, "target.spm", target_pieces, sizeof target_pieces - 3);
    check_refused(HS_BAD_MODEL, "target.spm: the sentencepiece model is truncated or malformed");
}
END_TEST

START_TEST(sha256_of_a_file_truncated_meanwhile_is_empty)
{
    char path[128], hex[HS_SHA256_HEX] = "something";
    checkpoint_write(&layouts[0], dir);
    hs_model *model = open_checked();
    path_of("model.safetensors", path);
    ck_assert_int_eq(truncate(path, 100), 0);
    hs_model_sha256(model, hex);
    ck_assert_str_eq(hex, "");
    hs_model_close(model);
}
END_TEST

static void open_with_refused_allocations(const char *folder)
{
    const size_t live = chaos_live();
    bool refused = true;
    for (size_t nth = 0; refused; nth++) {
        ck_assert_uint_lt(nth, 100000);
        hs_model *model = NULL;
        hs_error err = {0};
        chaos_refuse(nth);
        hs_status st = hs_model_open(folder, NULL, &model, &err);
        refused = chaos_stop();
        /* a causal model opens without its way to write a text */
        const bool opens = model && strstr(hs_model_architecture(model)->generation.refusal, "out of memory");
        ck_assert_msg(st == (refused && !opens ? HS_NO_MEMORY : HS_OK), "allocation %zu: %s, %s", nth,
                      hs_status_text(st), err.text);
        ck_assert_int_eq(model != NULL, st == HS_OK);
        hs_model_close(model);
        ck_assert_msg(chaos_live() == live, "allocation %zu refused: something leaked", nth);
    }
}

START_TEST(open_survives_every_refused_allocation)
{
    checkpoint_write(&layouts[_i], dir);
    open_with_refused_allocations(dir);
}
END_TEST

START_TEST(marian_survives_every_refused_allocation)
{
    write_marian();
    open_with_refused_allocations(dir);
}
END_TEST

START_TEST(gguf_survives_every_refused_allocation)
{
    static const char *const names[] = {"llama", "llama_q8", "llama_yarn", "gpt2_q8", "gemma3"};
    char path[128];
    hs_bytes file;
    snprintf(path, sizeof path, "tests/fuzz/corpus/gguf/%s", names[_i]);
    ck_assert_int_eq(hs_path_read(path, path, 1 << 20, &file, NULL), HS_OK);
    folder_write(dir, "m.gguf", file.data, file.size);
    free((void *)file.data);
    open_with_refused_allocations(dir);
}
END_TEST

/* Writes an adapter of rank 1 for the queries of layer 0: A is all 1, B is all 0.5. */
static void adapter_write(const char *folder)
{
    char config[256], tensors[1024];
    const int n_config = snprintf(config, sizeof config,
                                  "{\"peft_type\": \"LORA\", \"lora_alpha\": 2, "
                                  "\"base_model_name_or_path\": \"%s\"}",
                                  dir);
    const int n_header = snprintf(
        tensors + 8, sizeof tensors - 8,
        "{\"base_model.model.encoder.layer.0.attention.self.query.lora_A.weight\": {\"dtype\": \"F32\", "
        "\"shape\": [1, 6], \"data_offsets\": [0, 24]},"
        "\"base_model.model.encoder.layer.0.attention.self.query.lora_B.weight\": {\"dtype\": \"F32\", "
        "\"shape\": [6, 1], \"data_offsets\": [24, 48]}}");
    float values[12];
    for (size_t i = 0; i < 12; i++)
        values[i] = i < 6 ? 1 : 0.5F;
    for (size_t i = 0; i < 8; i++)
        tensors[i] = (char)((uint64_t)n_header >> (8 * i));
    memcpy(tensors + 8 + n_header, values, sizeof values);
    folder_write(folder, "adapter_config.json", config, (size_t)n_config);
    folder_write(folder, "adapter_model.safetensors", tensors, 8 + (size_t)n_header + sizeof values);
}

START_TEST(an_adapter_survives_every_refused_allocation)
{
    char folder[64];
    hs_model *model = NULL;
    float row[CHECKPOINT_HIDDEN];
    folder_create(folder);
    checkpoint_write(&layouts[0], dir);
    adapter_write(folder);
    open_with_refused_allocations(folder);
    ck_assert_int_eq(hs_model_open(folder, NULL, &model, NULL), HS_OK);
    hs_tensor_read(&hs_model_architecture(model)->layers[0].query.weight, 1, 1, row);
    for (size_t i = 0; i < CHECKPOINT_HIDDEN; i++)
        ck_assert_float_eq(
            row[i],
            checkpoint_value("encoder.layer.0.attention.self.query.weight", CHECKPOINT_HIDDEN + i) + 1);
    hs_model_close(model);
    folder_remove(folder);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("model");
    const int n_layouts = sizeof layouts / sizeof *layouts;
    const int n_files = sizeof file_names / sizeof *file_names;
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, every_layout_gives_every_weight, 0, n_layouts);
    tcase_add_test(tests, released_pages_come_back);
    tcase_add_loop_test(tests, every_missing_tensor_is_named, 0, n_layouts);
    tcase_add_loop_test(tests, every_misshapen_tensor_is_named, 0, n_layouts);
    tcase_add_loop_test(tests, every_unsound_tensor_is_named, 0, n_layouts);
    tcase_add_loop_test(tests, a_weight_that_nothing_computes_with_is_refused, 0,
                        sizeof strange / sizeof *strange);
    tcase_add_loop_test(tests, buffers_of_layers_are_left_alone, 0, sizeof buffers / sizeof *buffers);
    tcase_add_loop_test(tests, a_weight_under_the_name_of_a_buffer_is_refused, 0,
                        sizeof buffers / sizeof *buffers);
    tcase_add_loop_test(tests, other_tensors_are_left_alone, 0, sizeof harmless / sizeof *harmless);
    tcase_add_test(tests, integer_weights_are_refused);
    tcase_add_test(tests, unknown_prefix_is_refused);
    tcase_add_test(tests, missing_files_are_named);
    tcase_add_test(tests, weights_of_another_form_are_named);
    tcase_add_test(tests, weights_without_a_config_are_named);
    tcase_add_test(tests, a_git_lfs_pointer_is_named);
    tcase_add_test(tests, an_adapter_needs_its_base_model);
    tcase_add_test(tests, the_family_is_checked_before_the_weights);
    tcase_add_test(tests, a_pickle_alone_is_refused_with_its_conversion);
    tcase_add_test(tests, a_missing_folder_is_named);
    tcase_add_test(tests, a_path_too_long_is_refused);
    tcase_add_loop_test(tests, pipes_and_folders_are_no_files, 0, n_files);
    tcase_add_loop_test(tests, empty_files_are_refused, 0, n_files);
    tcase_add_test(tests, every_shorter_weight_file_is_refused);
    tcase_add_test(tests, a_longer_weight_file_is_refused);
    tcase_add_loop_test(tests, bad_index_is_refused, 0, sizeof indices / sizeof *indices);
    tcase_add_test(tests, too_many_shards_are_refused);
    tcase_add_test(tests, a_missing_shard_is_named);
    tcase_add_test(tests, embedded_model_is_the_one_in_the_tree);
    tcase_add_test(tests, sha256_of_shards_is_that_of_their_concatenation);
    tcase_add_test(tests, digests_of_small_files_stay);
    tcase_add_test(tests, each_stack_of_marian_has_its_pieces);
    tcase_add_test(tests, added_tokens_of_marian_are_found_in_the_given_text);
    tcase_add_test(tests, a_fault_of_target_spm_names_it);
    tcase_add_test(tests, sha256_of_a_file_truncated_meanwhile_is_empty);
    tcase_add_test(tests, untrained_weights_are_those_of_a_seed);
    tcase_add_test(tests, a_decoder_has_weights_of_its_own);
    tcase_add_test(tests, random_weights_count_shared_memory_once);
    tcase_add_test(tests, untraining_survives_refused_allocations);
    tcase_add_test(tests, an_untrained_copy_has_the_weights_of_its_seed);
    tcase_add_loop_test(tests, open_survives_every_refused_allocation, 0, n_layouts);
    tcase_add_test(tests, marian_survives_every_refused_allocation);
    tcase_add_loop_test(tests, gguf_survives_every_refused_allocation, 0, 5);
    tcase_add_test(tests, an_adapter_survives_every_refused_allocation);
    Suite *suite = suite_create("model");
    suite_add_tcase(suite, tests);
    return tests_run(suite);
}
