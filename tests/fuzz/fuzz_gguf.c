/* fuzz_gguf.c - a GGUF file is refused, or gives JSON that parses, tensors that can be read, and perhaps a
 * model and a tokenizer. */
#include "model/families/family.h"
#include "model/files/gguf.h"
#include "model/files/json.h"
#include "model/tokenizer/tokenizer_internal.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void check_status(hs_status st, const hs_error *err)
{
    require(st == err->status && (st == HS_OK || (st == HS_BAD_MODEL && err->text[0])));
}

/* Reads every byte of the tensors in a header. */
static void read_tensors(const hs__shards *shards, json_t *header)
{
    const char *name;
    json_t *value;
    json_object_foreach(header, name, value)
    {
        hs__entry entry;
        require(hs__shards_find(shards, name, &entry) && entry.n_bytes > 0);
        void *bytes = calloc(1, entry.n_bytes); /* all of them can be read */
        require(bytes);
        memcpy(bytes, entry.data, entry.n_bytes);
        free(bytes);
    }
}

/* Tries what the file is as a model. Its tensors are bound only if they are few: the fuzzer's are. */
static void try_model(const hs_bytes *config, const hs__shards *shards)
{
    const hs__family *family;
    hs_architecture architecture;
    json_t *keys = NULL;
    require(!hs__json_parse(config, "config.json", &keys, NULL));
    json_decref(keys);
    if (hs__family_configure(config, &family, &architecture, NULL))
        return;
    const hs_status st = hs__weights_bind(shards, family, &architecture, NULL);
    require(st == HS_OK || st == HS_BAD_MODEL);
    hs__family_release(&architecture);
}

static void try_weights(hs__gguf *file, const hs_bytes *config)
{
    hs__shards shards;
    hs_error err = {0};
    const hs_status st = hs__gguf_weights(file, &shards, &err);
    check_status(st, &err);
    if (!st) {
        read_tensors(&shards, shards.shards[0].tensors.header);
        read_tensors(&shards, shards.merged.tensors.header);
        if (config->data)
            try_model(config, &shards);
    }
    hs__shards_finish(&shards);
}

static void try_tokenizer(const hs__gguf *file)
{
    static const char sample[] = "The war caf\xc3\xa9 \xe4\xb8\xad x\xe3\x80\xae\xcc\x81 12<s>";
    enum { VOCAB_SIZE = 1024 };
    hs_tokenizer_files files = {0};
    hs_tokenizer *tokenizer = NULL;
    hs_error err = {0}, reason = {0};
    const hs_status st = hs__gguf_tokenizer(file, &files.tokenizer_json, &files.tokenizer_config, &err);
    check_status(st, &err);
    if (st)
        return;
    const hs_status made = hs__tokenizer_create(&files, VOCAB_SIZE, &tokenizer, &reason);
    check_status(made, &reason);
    if (!made) {
        const hs_text text = {sample, sizeof sample - 1};
        const hs_encode_options options = {.tokens_max = SIZE_MAX};
        hs_encoding encoding = {0};
        require(!hs_tokenizer_encode(tokenizer, &text, &text, &options, &encoding, NULL));
        for (size_t i = 0; i < encoding.n_tokens; i++)
            require(encoding.ids[i] >= 0 && encoding.ids[i] < VOCAB_SIZE);
        hs_encoding_finish(&encoding);
    }
    hs__tokenizer_destroy(tokenizer);
    free((void *)files.tokenizer_json.data);
    free((void *)files.tokenizer_config.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hs__gguf *file = NULL;
    hs_bytes config = {0};
    hs_error err = {0}, reason = {0};
    const hs_status st = hs__gguf_parse(&(hs_bytes){data, size}, &file, &err);
    check_status(st, &err);
    if (st)
        return 0;
    check_status(hs__gguf_config(file, &config, &reason), &reason);
    try_tokenizer(file);
    try_weights(file, &config);
    free((void *)config.data);
    hs__gguf_close(file);
    return 0;
}
