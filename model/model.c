/* model.c - opens a checkpoint: reads the small files, maps the weights, binds one to the other. */
#include "model/model.h"
#include "model/families/family.h"
#include "model/files/gguf.h"
#include "model/tokenizer/tokenizer_internal.h"
#include "model/untrained.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Contents of a checkpoint's files: borrowed, must outlive the model. Absent files are {NULL, 0}. */
typedef struct model_files {
    hs_bytes config, safetensors;
    hs_bytes adapter;             /* of an adapter's folder, whose base model has the others */
    hs_bytes generation;          /* generation_config.json */
    hs_tokenizer_files tokenizer; /* its config is that of its own folder, else `config` above counts */
    const char *tokenizer_dir;    /* of another folder, or NULL */
    hs__gguf *gguf;               /* the file that config and weights are in; owned. NULL: none */
} model_files;

/* The SHA-256 of the weights, the only mutable state of a model: computed once, under the lock. */
typedef struct fingerprint {
    pthread_mutex_t lock;
    atomic_bool known; /* hex does not change any more */
    char hex[HS_SHA256_HEX];
} fingerprint;

struct hs_model {
    hs_architecture architecture;
    hs_architecture decoder; /* without layers: the checkpoint has none */
    hs_tokenizer *tokenizer;
    hs_tokenizer *target_tokenizer; /* of the decoder's texts; NULL: the same */
    hs__shards shards;
    hs__shards adapter;
    hs__shards sentence[HS_SENTENCE_DENSE_MAX]; /* weights of a sentence encoder's dense layers */
    fingerprint *fingerprint;
    float *untrained;                 /* random weights, of the decoder too; owned; NULL: the file's */
    uint64_t seed;                    /* of them */
    bool own_code;                    /* config.json names code that is not run */
    bool is_text_part;                /* of a model of images and text */
    char files_sha256[HS_SHA256_HEX]; /* of config.json and the tokenizer's files */
};

static hs_model *model_create(hs_error *err)
{
    hs_model *model = calloc(1, sizeof *model);
    fingerprint *sum = calloc(1, sizeof *sum);
    if (!model || !sum) {
        free(model);
        free(sum);
        hs_fail(err, HS_NO_MEMORY, "out of memory");
        return NULL;
    }
    pthread_mutex_init(&sum->lock, NULL); /* cannot fail with glibc's default attributes */
    model->fingerprint = sum;
    return model;
}

void hs_model_close(hs_model *model)
{
    if (!model)
        return;
    hs__tokenizer_destroy(model->tokenizer);
    hs__tokenizer_destroy(model->target_tokenizer);
    hs__shards_finish(&model->shards);
    hs__shards_finish(&model->adapter);
    for (size_t i = 0; i < HS_SENTENCE_DENSE_MAX; i++)
        hs__shards_finish(&model->sentence[i]);
    hs__family_release(&model->architecture);
    hs__family_release(&model->decoder);
    free(model->untrained);
    pthread_mutex_destroy(&model->fingerprint->lock);
    free(model->fingerprint);
    free(model);
}

/* The small files of a checkpoint's folder. If several names stand for one file, the first that exists is
 * read. */
#define N_FILES 15
typedef struct small_file {
    const char *name;
    hs_bytes *bytes;
} small_file;

static void list_files(model_files *files, small_file ret_list[N_FILES])
{
    hs_tokenizer_files *t = &files->tokenizer;
    const small_file list[N_FILES] = {{"config.json", &files->config},
                                      {"tokenizer.json", &t->tokenizer_json},
                                      {"tokenizer_config.json", &t->tokenizer_config},
                                      {"special_tokens_map.json", &t->special_tokens_map},
                                      {"added_tokens.json", &t->added_tokens},
                                      {"vocab.txt", &t->vocab_txt},
                                      {"vocab.json", &t->vocab_json},
                                      {"merges.txt", &t->merges_txt},
                                      {"sentencepiece.bpe.model", &t->sentencepiece},
                                      {"spiece.model", &t->sentencepiece},
                                      {"spm.model", &t->sentencepiece},
                                      {"source.spm", &t->source_sentencepiece},
                                      {"target.spm", &t->target_sentencepiece},
                                      {"tokenizer.model", &t->tokenizer_model},
                                      {"config.json", &t->config}}; /* if the folder is another one */
    memcpy(ret_list, list, sizeof list);
}

#define N_FILES_AT_FIRST 11 /* the others count if they are there, so that older digests stay valid */

/* Digests config.json and the tokenizer's files as they were read. Each one's size stands before its bytes,
 * so that no two sets of files give the same sequence. */
static hs_status digest_files(hs_model *model, const model_files *files, hs_error *err)
{
    model_files copy = *files;
    small_file list[N_FILES];
    list_files(&copy, list);
    hs_digest *digest = hs_digest_create();
    if (!digest)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < N_FILES; i++) {
        const uint64_t n_bytes = list[i].bytes->data ? list[i].bytes->size : 0;
        if (i >= N_FILES_AT_FIRST && !n_bytes)
            continue;
        hs_digest_add(digest, &n_bytes, sizeof n_bytes);
        if (n_bytes)
            hs_digest_add(digest, list[i].bytes->data, n_bytes);
    }
    if (files->adapter.data)
        hs_digest_add(digest, files->adapter.data, files->adapter.size);
    hs_digest_read(digest, model->files_sha256);
    hs_digest_destroy(digest);
    return HS_OK;
}

/* Reads how a causal model or a decoder writes a text. A decoder whose config.json names no start token has
 * that of the other file. */
static void generation_build(hs_architecture *architecture, const model_files *files)
{
    hs_generation *generation = &architecture->generation;
    const bool own = files->generation.data;
    hs__generation_read(own ? &files->generation : &files->config,
                        own ? "generation_config.json" : "config.json", architecture->shape.vocab_size,
                        generation);
    if (architecture->start_id < 0)
        architecture->start_id = generation->start_id;
    if (architecture->start_id < 0 && !architecture->starts_with_language)
        architecture->start_id = generation->bos_id;
    if (architecture->crosses && generation->start_id >= 0 && !*generation->refusal &&
        generation->start_id != architecture->start_id)
        snprintf(generation->refusal, sizeof generation->refusal,
                 "generation_config.json: decoder_start_token_id is %d, and that of config.json is %d",
                 generation->start_id, architecture->start_id);
}

/* Reads the decoder, if the family and the checkpoint have one. */
static hs_status decoder_build(hs_model *model, const hs__family *family, const model_files *files,
                               hs_error *err)
{
    const bool joined = family->stack_types[0];
    if (!family->decoder ||
        (!joined && !hs__weights_exist(&model->shards, family->decoder, &model->architecture.predictor)))
        return HS_OK;
    const hs_status st = hs__decoder_configure(&files->config, family->decoder, &model->decoder, err);
    if (st)
        return st;
    generation_build(&model->decoder, files);
    return hs__weights_bind(&model->shards, family->decoder, &model->decoder, err);
}

/* Creates the tokenizer of the decoder's texts, which target.spm cuts. */
static hs_status target_tokenizer_build(hs_model *model, hs_tokenizer_files files, hs_error *err)
{
    hs_error reason = {0};
    files.source_sentencepiece = files.target_sentencepiece;
    const hs_status st =
        hs__tokenizer_create(&files, model->architecture.shape.vocab_size, &model->target_tokenizer, &reason);
    return st ? hs_fail(err, st, "target.spm: %s", reason.text) : HS_OK;
}

static hs_status tokenizer_build(hs_model *model, const model_files *files, hs_error *err)
{
    hs_tokenizer_files tokenizer = files->tokenizer;
    hs_error reason = {0};
    if (!tokenizer.config.data)
        tokenizer.config = files->config;
    hs_status st =
        hs__tokenizer_create(&tokenizer, model->architecture.shape.vocab_size, &model->tokenizer, &reason);
    if (!st && tokenizer.source_sentencepiece.data && tokenizer.target_sentencepiece.data)
        st = target_tokenizer_build(model, tokenizer, &reason);
    if (!st)
        return HS_OK;
    return files->tokenizer_dir
               ? hs_fail(err, st, "the tokenizer in %s: %s", files->tokenizer_dir, reason.text)
               : hs_fail(err, st, "%s", reason.text);
}

/* Reads weights and tokenizer. model->shards must be open, and the architecture of the family. */
static hs_status model_build(hs_model *model, const hs__family *family, const model_files *files,
                             hs_error *err)
{
    hs_architecture *architecture = &model->architecture;
    if (architecture->stacks_tied) {
        model->shards.same[0] = family->prefixes[0];
        model->shards.same[1] = family->decoder->prefixes[0];
    }
    hs_status st = hs__weights_bind(&model->shards, family, architecture, err);
    if (!st)
        st = decoder_build(model, family, files, err);
    if (st)
        return st;
    if (architecture->causal)
        generation_build(architecture, files);
    hs__shards_forget_headers(&model->shards);
    hs__shards_forget_headers(&model->adapter);
    st = tokenizer_build(model, files, err);
    return st ? st : digest_files(model, files, err);
}

/* Finds out whether config.json has a version alone. Sentence-transformers wrote it so before version 2,
 * beside the modules, and the Transformer has its own. */
static hs_status find_version_alone(const hs_bytes *config, bool *ret_is, hs_error *err)
{
    json_t *keys = NULL;
    *ret_is = false;
    const hs_status st = hs__json_parse(config, "config.json", &keys, err);
    *ret_is = !st && json_object_size(keys) == 1 && json_object_get(keys, "__version__");
    json_decref(keys);
    return st;
}

/* Finds the folder of a model without an adapter. Drops a config.json of dir that is not the model's. */
static hs_status find_transformer(const char *dir, hs_bytes *config, char ret_dir[PATH_MAX], hs_error *err)
{
    bool version_alone = false;
    hs_status st = config->data ? find_version_alone(config, &version_alone, err) : HS_OK;
    if (st || (config->data && !version_alone))
        return st;
    st = hs__sentence_transformer(dir, ret_dir, err);
    if (!st && strcmp(dir, ret_dir) != 0) {
        free((void *)config->data);
        config->data = NULL;
    }
    return st;
}

/* Finds the folder with the model's files: dir, that of an adapter's base model, or that of a sentence
 * encoder's Transformer. Reads the adapter's config. Refuses a folder with both, to whose model transformers
 * would add the adapter. */
static hs_status find_folder(const char *dir, model_files *files, char ret_dir[PATH_MAX], hs_error *err)
{
    if ((size_t)snprintf(ret_dir, PATH_MAX, "%s", dir) >= PATH_MAX)
        return hs_fail(err, HS_IO, "the path is too long");
    hs_status st = hs__file_read(dir, "config.json", true, &files->config, err);
    if (!st)
        st = hs__file_read(dir, "adapter_config.json", true, &files->adapter, err);
    if (!st && files->config.data && files->adapter.data)
        return hs_fail(err, HS_BAD_MODEL,
                       "the folder has config.json and adapter_config.json; move the adapter to a folder of "
                       "its own, or merge it with merge_and_unload() of PEFT");
    if (st)
        return st;
    return files->adapter.data ? hs__adapter_base(&files->adapter, ret_dir, err)
                               : find_transformer(dir, &files->config, ret_dir, err);
}

/* Reads the small files, those of the tokenizer from its own folder if it has one. The caller frees them with
 * free_files, even after an error. */
static hs_status read_files(const char *dir, model_files *files, hs_error *err)
{
    const char *tokenizer_dir = files->tokenizer_dir ? files->tokenizer_dir : dir;
    small_file list[N_FILES];
    list_files(files, list);
    hs_status st = HS_OK;
    hs_error reason = {0};
    const hs_bytes *unread = &files->tokenizer.tokenizer_model; /* beside a tokenizer.json */
    const size_t n = files->tokenizer_dir ? N_FILES : N_FILES - 1;
    for (size_t i = 0; !st && i < n; i++)
        if (!list[i].bytes->data && !(list[i].bytes == unread && files->tokenizer.tokenizer_json.data))
            st = hs__file_read(i > 0 ? tokenizer_dir : dir, list[i].name, i > 0, list[i].bytes, &reason);
    if (st == HS_NOT_FOUND)
        return hs__config_missing_refuse(dir, &reason, err);
    return st ? hs_fail(err, st, "%s", reason.text) : HS_OK;
}

static void free_files(model_files *files)
{
    small_file list[N_FILES];
    list_files(files, list);
    for (size_t i = 0; i < N_FILES; i++) {
        free((void *)list[i].bytes->data);
        list[i].bytes->data = NULL;
    }
    free((void *)files->adapter.data);
    free((void *)files->generation.data);
    hs__gguf_close(files->gguf);
}

/* Returns true if the folder has a file of this name. */
static bool has_file(const char *dir, const char *name)
{
    char path[PATH_MAX];
    return (size_t)snprintf(path, sizeof path, "%s/%s", dir, name) < sizeof path && access(path, F_OK) == 0;
}

/* Opens the GGUF file that base is or has, if there is any and no config.json. Then base becomes its folder.
 * The file has the tokenizer, too, unless another folder or tokenizer.json beside it has one. */
static hs_status open_gguf(char base[PATH_MAX], model_files *files, hs_error *err)
{
    char dir[PATH_MAX];
    if (files->config.data || has_file(base, "config.json"))
        return HS_OK;
    const hs_status st = hs__gguf_open(base, dir, &files->gguf, err);
    if (st || !files->gguf)
        return st;
    if (files->adapter.data)
        return hs_fail(err, HS_BAD_MODEL,
                       "adapter_config.json: base_model_name_or_path names a GGUF file; name the folder of "
                       "the safetensors files that it was made of");
    snprintf(base, PATH_MAX, "%s", dir);
    return hs__gguf_config(files->gguf, &files->config, err);
}

/* Reads the small files, or makes them out of the GGUF file. */
static hs_status take_files(const char *base, model_files *files, hs_error *err)
{
    hs_tokenizer_files *tokenizer = &files->tokenizer;
    if (files->gguf && !files->tokenizer_dir && !has_file(base, "tokenizer.json"))
        return hs__gguf_tokenizer(files->gguf, &tokenizer->tokenizer_json, &tokenizer->tokenizer_config, err);
    return read_files(base, files, err);
}

/* Drops the word embedding from memory: it was read only to check that it is finite. Its rows return from the
 * file as texts need them, unless an adapter has changed them. */
static void release_words(const hs_model *model)
{
    const hs_tensor *words = &model->architecture.embedding.word;
    const hs_bytes *merged = &model->shards.merged.mapping.bytes;
    if ((uintptr_t)words->data - (uintptr_t)merged->data < merged->size)
        return;
    const size_t n_bytes = words->n_rows * words->n_columns * (words->dtype == HS_F32 ? 4 : 2);
    const size_t before = (uintptr_t)words->data % (size_t)sysconf(_SC_PAGESIZE);
    madvise((char *)words->data - before, before + n_bytes, MADV_DONTNEED);
}

/* Finds whether config.json names code of the model's own, as transformers runs it with trust_remote_code,
 * and whether the text part alone is read. */
static hs_status find_own_code(const hs_bytes *config, bool *ret_is, bool *ret_is_text_part, hs_error *err)
{
    json_t *keys = NULL;
    const hs_status st = config->data ? hs__json_parse(config, "config.json", &keys, err) : HS_OK;
    *ret_is = json_object_size(json_object_get(keys, "auto_map")) > 0;
    *ret_is_text_part = hs__family_is_text_part(keys);
    json_decref(keys);
    return st;
}

/* Refuses a checkpoint for this reason. Says of one with code of its own that this may be the cause. */
static hs_status refuse(const char *where, bool own_code, const hs_error *reason, hs_error *err)
{
    return hs_fail(err, reason->status, "%s%s%s", where,
                   own_code ? "the model has code of its own (auto_map), which is not run: " : "",
                   reason->text);
}

hs_status hs_model_folder(const char *dir, char ret_dir[PATH_MAX], hs_error *err)
{
    hs_bytes config = {0};
    if ((size_t)snprintf(ret_dir, PATH_MAX, "%s", dir) >= PATH_MAX)
        return hs_fail(err, HS_IO, "the path is too long");
    hs_status st = hs__file_read(dir, "config.json", true, &config, err);
    if (!st)
        st = find_transformer(dir, &config, ret_dir, err);
    free((void *)config.data);
    return st;
}

const char *const *hs_model_length_files(void)
{
    return hs__sentence_length_files;
}

hs_status hs_model_config_check(const char *dir, hs_error *err)
{
    hs_bytes config = {NULL, 0};
    hs_architecture architecture = {0};
    const hs__family *family;
    hs_error reason = {0};
    bool own_code = false, is_text_part;
    hs_status st = hs__file_read(dir, "config.json", false, &config, &reason);
    if (!st)
        st = hs__family_configure(&config, &family, &architecture, &reason);
    const hs_status own = find_own_code(&config, &own_code, &is_text_part, st ? NULL : &reason);
    if (!st)
        hs__family_release(&architecture);
    st = st ? st : own;
    if (st)
        st = refuse("", own_code, &reason, err);
    free((void *)config.data);
    return st;
}

hs_status hs_model_open(const char *dir, const char *tokenizer_dir, hs_model **ret_model, hs_error *err)
{
    hs_model *model = model_create(err);
    if (!model)
        return HS_NO_MEMORY;
    model_files files = {.tokenizer_dir = tokenizer_dir};
    hs_error reason = {0};
    const hs__family *family = NULL;
    char base[PATH_MAX];
    hs_status st = find_folder(dir, &files, base, &reason);
    if (!st)
        st = open_gguf(base, &files, &reason);
    if (!st)
        st = take_files(base, &files, &reason);
    if (!st)
        st = hs__file_read(base, "generation_config.json", true, &files.generation, &reason);
    if (!st && files.adapter.data)
        st = hs__adapter_task(&files.adapter, &files.config, &reason);
    if (!st) /* before the weights: a family that is not supported needs no advice on their files */
        st = hs__family_configure(&files.config, &family, &model->architecture, &reason);
    if (!st)
        st = files.gguf ? hs__gguf_weights(files.gguf, &model->shards, &reason)
                        : hs__shards_open(base, &model->shards, &reason);
    if (!st && files.adapter.data)
        st = hs__adapter_open(dir, &files.adapter, family, &model->architecture.predictor, &model->shards,
                              &model->adapter, &reason);
    if (!st)
        st = model_build(model, family, &files, &reason);
    if (!st)
        st = hs__sentence_open(has_file(dir, "modules.json") ? dir : base, base, &model->architecture.shape,
                               &files.tokenizer.tokenizer_config, &model->architecture.sentence,
                               model->sentence, &reason);
    const hs_status own =
        find_own_code(&files.config, &model->own_code, &model->is_text_part, st ? NULL : &reason);
    st = st ? st : own;
    free_files(&files);
    if (st) {
        char where[PATH_MAX + 2];
        snprintf(where, sizeof where, "%s: ", dir);
        st = refuse(where, model->own_code, &reason, err);
        hs_model_close(model);
        return st;
    }
    release_words(model);
    *ret_model = model;
    return HS_OK;
}

static hs_status open_memory(const model_files *files, hs_model **ret_model, hs_error *err)
{
    hs_model *model = model_create(err);
    if (!model)
        return HS_NO_MEMORY;
    const hs__family *family = NULL;
    hs_status st = hs__family_configure(&files->config, &family, &model->architecture, err);
    if (!st)
        st = hs__shards_open_memory(&files->safetensors, &model->shards, err);
    if (!st)
        st = model_build(model, family, files, err);
    if (st) {
        hs_model_close(model);
        return st;
    }
    *ret_model = model;
    return HS_OK;
}

/* embedded.S */
extern const char hs__mini_config[];
extern const uint64_t hs__mini_config_bytes;
extern const char hs__mini_safetensors[];
extern const uint64_t hs__mini_safetensors_bytes;
extern const char hs__mini_vocab[];
extern const uint64_t hs__mini_vocab_bytes;
extern const char hs__mini_tokenizer_config[];
extern const uint64_t hs__mini_tokenizer_config_bytes;

hs_status hs_model_open_embedded(hs_model **ret_model, hs_error *err)
{
    const model_files files = {
        .config = {hs__mini_config, (size_t)hs__mini_config_bytes},
        .safetensors = {hs__mini_safetensors, (size_t)hs__mini_safetensors_bytes},
        .tokenizer.vocab_txt = {hs__mini_vocab, (size_t)hs__mini_vocab_bytes},
        .tokenizer.tokenizer_config = {hs__mini_tokenizer_config, (size_t)hs__mini_tokenizer_config_bytes},
    };
    return open_memory(&files, ret_model, err);
}

hs_status hs_model_untrain(hs_model *model, uint64_t seed, hs_error *err)
{
    hs_architecture *decoder = model->decoder.layers ? &model->decoder : NULL;
    const hs_status st = hs_architecture_untrain(&model->architecture, decoder, seed, &model->untrained, err);
    model->seed = seed;
    return st;
}

const hs_architecture *hs_model_architecture(const hs_model *model)
{
    return &model->architecture;
}

const hs_architecture *hs_model_decoder(const hs_model *model)
{
    return model->decoder.layers ? &model->decoder : NULL;
}

const hs_shape *hs_model_shape(const hs_model *model)
{
    return &model->architecture.shape;
}

const hs_tokenizer *hs_model_tokenizer(const hs_model *model)
{
    return model->tokenizer;
}

int32_t hs_model_target_language(const hs_model *model)
{
    const hs_architecture *decoder = hs_model_decoder(model);
    char code[HS_LANGUAGE_BYTES];
    const int32_t named[] = {hs_tokenizer_languages(model->tokenizer)->target,
                             decoder ? decoder->start_id : -1,
                             decoder ? decoder->generation.forced_first : -1};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (named[i] >= 0 && hs_tokenizer_language_code(model->tokenizer, named[i], code))
            return named[i];
    return -1;
}

const hs_tokenizer *hs_model_target_tokenizer(const hs_model *model)
{
    return model->target_tokenizer ? model->target_tokenizer : model->tokenizer;
}

size_t hs_model_positions(const hs_model *model, const char *ret_names[HS_POSITION_SCHEMES])
{
    const hs_architecture *architecture = &model->architecture;
    const struct {
        bool applies;
        const char *name;
    } schemes[HS_POSITION_SCHEMES] = {
        {architecture->embedding.position.data != NULL, "learned"},
        {architecture->embedding.sinusoids, "sinusoids"},
        {architecture->layers[0].rotation_base > 0, "rotary"},
        {architecture->score_bias.table.data != NULL || architecture->alibi, "bias"},
        {architecture->relative.table.data != NULL, "relative"},
    };
    size_t n = 0;
    for (size_t i = 0; i < HS_POSITION_SCHEMES; i++)
        if (schemes[i].applies)
            ret_names[n++] = schemes[i].name;
    return n;
}

const char *hs_model_task(const hs_model *model)
{
    static const char *const names[] = {[HS_TASK_SEQUENCE] = "text-classification",
                                        [HS_TASK_TOKENS] = "token-classification",
                                        [HS_TASK_SPAN] = "question-answering"};
    if (model->architecture.task_head.task)
        return names[model->architecture.task_head.task];
    if (model->architecture.sentence.pooling.n)
        return "sentence-similarity";
    if (!model->architecture.predictor.decoder.data)
        return NULL;
    return model->architecture.predictor.next ? "text-generation" : "fill-mask";
}

bool hs_model_has_own_code(const hs_model *model)
{
    return model->own_code;
}

bool hs_model_is_text_part(const hs_model *model)
{
    return model->is_text_part;
}

const char *hs_model_problem_type(const hs_model *model)
{
    static const char *const names[] = {[HS_SINGLE_LABEL] = "single_label_classification",
                                        [HS_MULTI_LABEL] = "multi_label_classification",
                                        [HS_REGRESSION] = "regression"};
    const hs_task_head *head = &model->architecture.task_head;
    return head->task == HS_TASK_SEQUENCE ? names[head->problem] : NULL;
}

bool hs_model_predicts_masks(const hs_model *model)
{
    return model->architecture.predictor.decoder.data && !model->architecture.predictor.next;
}

static size_t shards_bytes(const hs__shards *shards)
{
    size_t n_bytes = shards->merged.mapping.bytes.size;
    for (size_t i = 0; i < shards->n_shards; i++)
        n_bytes += shards->shards[i].mapping.bytes.size;
    return n_bytes;
}

size_t hs_model_bytes(const hs_model *model)
{
    size_t n_bytes = shards_bytes(&model->shards) + shards_bytes(&model->adapter);
    for (size_t i = 0; i < HS_SENTENCE_DENSE_MAX; i++)
        n_bytes += shards_bytes(&model->sentence[i]);
    return n_bytes;
}

void hs_model_release_pages(const hs_model *model)
{
    for (size_t i = 0; i < model->shards.n_shards; i++) {
        const hs__mapping *mapping = &model->shards.shards[i].mapping;
        if (mapping->fd >= 0)
            madvise((void *)mapping->bytes.data, mapping->bytes.size, MADV_DONTNEED);
    }
}

/* Adds the file's bytes to the digest. Returns false if the file is shorter than when it was opened. */
static bool hash_file(const hs__mapping *mapping, hs_digest *digest)
{
    unsigned char buffer[1 << 16];
    for (size_t done = 0; done < mapping->bytes.size;) {
        size_t rest = mapping->bytes.size - done;
        ssize_t n = pread(mapping->fd, buffer, rest < sizeof buffer ? rest : sizeof buffer, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        hs_digest_add(digest, buffer, (size_t)n);
        done += (size_t)n;
    }
    return true;
}

static bool hash_shards(const hs__shards *shards, hs_digest *digest)
{
    bool whole = true;
    for (size_t i = 0; whole && i < shards->n_shards; i++) {
        const hs__mapping *mapping = &shards->shards[i].mapping;
        if (mapping->fd < 0)
            hs_digest_add(digest, mapping->bytes.data, mapping->bytes.size);
        else
            whole = hash_file(mapping, digest);
    }
    return whole;
}

static void hash_weights(const hs_model *model, char ret_hex[HS_SHA256_HEX])
{
    hs_digest *digest = hs_digest_create();
    *ret_hex = '\0';
    bool whole = digest && hash_shards(&model->shards, digest) && hash_shards(&model->adapter, digest);
    for (size_t i = 0; whole && i < HS_SENTENCE_DENSE_MAX; i++)
        whole = hash_shards(&model->sentence[i], digest);
    if (whole && model->untrained)
        hs_digest_add(digest, &model->seed, sizeof model->seed);
    if (whole)
        hs_digest_read(digest, ret_hex);
    hs_digest_destroy(digest);
}

void hs_model_sha256(const hs_model *model, char ret_hex[HS_SHA256_HEX])
{
    fingerprint *sum = model->fingerprint;
    pthread_mutex_lock(&sum->lock);
    if (!atomic_load(&sum->known)) {
        hash_weights(model, sum->hex);
        atomic_store(&sum->known, *sum->hex != '\0');
    }
    memcpy(ret_hex, sum->hex, HS_SHA256_HEX);
    pthread_mutex_unlock(&sum->lock);
}

bool hs_model_sha256_known(const hs_model *model, char ret_hex[HS_SHA256_HEX])
{
    const fingerprint *sum = model->fingerprint;
    if (!atomic_load(&sum->known))
        return false;
    memcpy(ret_hex, sum->hex, HS_SHA256_HEX);
    return true;
}

const char *hs_model_files_sha256(const hs_model *model)
{
    return model->files_sha256;
}
