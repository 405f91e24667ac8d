/* gguf_model.c - makes config.json and the weights of transformers out of a GGUF file. Both are tables: the
 * keys and the tensors of each architecture, under the names of both. The tables also say how to undo the
 * changes of llama.cpp's converter: rows of queries and keys in another order, transposed matrices, and norms
 * with 1 added. A key or a tensor that no table has is refused, since it may change the numbers. */
#include "model/architecture.h"
#include "model/files/gguf.h"
#include "model/files/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tables ---- */

/* The kind of value that a key of the metadata has. */
typedef enum key_kind {
    NEEDED,  /* an integer that must be there */
    SIZE,    /* an integer */
    EPSILON, /* a real number that must be there */
    NUMBER,  /* a real number */
    WINDOW,  /* an integer; 0 means none */
    OTHER    /* read on its own */
} key_kind;

typedef struct key_row {
    const char *suffix, *key; /* after the architecture's name; of config.json */
    key_kind kind;
} key_row;

/* How a tensor differs from that of transformers. */
typedef enum changed {
    AS_IS,
    QUERY_ROWS, /* rows i and i + d / 2 of a head of width d were made neighbours */
    KEY_ROWS,
    TRANSPOSED,
    AROUND_ONE /* 1 was added */
} changed;

/* A tensor's names without .weight or .bias. An asterisk stands for the number of a layer. */
typedef struct tensor_row {
    const char *gguf, *name;
    changed change;
} tensor_row;

typedef struct architecture {
    const char *name, *model_type; /* general.architecture, and of config.json */
    const key_row *keys;           /* beside the shared ones */
    const tensor_row *tensors;     /* these count before the shared ones */
    const tensor_row *shared;
    bool rotates;      /* it has rotary positions */
    bool rotates_part; /* rope.dimension_count may be less than a head's width */
    bool has_factors;  /* it may have rope_factors_long and _short */
} architecture;

#define L "model.layers.*."

static const key_row shared_keys[] = {
    {"context_length", "max_position_embeddings", NEEDED},
    {"block_count", "num_hidden_layers", NEEDED},
    {"embedding_length", "hidden_size", NEEDED},
    {"feed_forward_length", "intermediate_size", NEEDED},
    {"attention.head_count", "num_attention_heads", NEEDED},
    {"attention.head_count_kv", "num_key_value_heads", SIZE},
    {"attention.key_length", "head_dim", SIZE},
    {"attention.value_length", NULL, OTHER},
    {"attention.causal", NULL, OTHER},
    {"rope.freq_base", "rope_theta", NUMBER},
    {"rope.dimension_count", NULL, OTHER},
    {"rope.scaling.type", NULL, OTHER},
    {"rope.scaling.factor", NULL, OTHER},
    {"rope.scaling.attn_factor", NULL, OTHER},
    {"rope.scaling.original_context_length", NULL, OTHER},
    {"rope.scaling.finetuned", NULL, OTHER},
    {"vocab_size", NULL, OTHER},
    {0},
};

#define RMS_EPSILON                                                                                          \
    {                                                                                                        \
        "attention.layer_norm_rms_epsilon", "rms_norm_eps", EPSILON                                          \
    }

static const key_row rms_keys[] = {RMS_EPSILON, {0}};
static const key_row gpt2_keys[] = {
    {"context_length", "n_positions", NEEDED},
    {"block_count", "n_layer", NEEDED},
    {"embedding_length", "n_embd", NEEDED},
    {"feed_forward_length", "n_inner", NEEDED},
    {"attention.head_count", "n_head", NEEDED},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon", EPSILON},
    {0},
};
static const key_row phi3_keys[] = {RMS_EPSILON, {"attention.sliding_window", "sliding_window", WINDOW}, {0}};
static const key_row gemma2_keys[] = {
    RMS_EPSILON,
    {"attention.sliding_window", "sliding_window", SIZE},
    {"attn_logit_softcapping", "attn_logit_softcapping", NUMBER},
    {"final_logit_softcapping", "final_logit_softcapping", NUMBER},
    {0},
};
static const key_row gemma3_keys[] = {
    RMS_EPSILON,
    {"attention.sliding_window", "sliding_window", SIZE},
    {"attention.sliding_window_pattern", "sliding_window_pattern", SIZE},
    {"final_logit_softcapping", "final_logit_softcapping", NUMBER},
    {"rope.freq_base_swa", "rope_local_base_freq", NUMBER},
    {0},
};
static const key_row starcoder2_keys[] = {{"attention.layer_norm_epsilon", "norm_epsilon", EPSILON}, {0}};

static const tensor_row shared_tensors[] = {
    {"token_embd", "model.embed_tokens", AS_IS},
    {"output_norm", "model.norm", AS_IS},
    {"output", "lm_head", AS_IS},
    {"blk.*.attn_norm", L "input_layernorm", AS_IS},
    {"blk.*.attn_q", L "self_attn.q_proj", AS_IS},
    {"blk.*.attn_k", L "self_attn.k_proj", AS_IS},
    {"blk.*.attn_v", L "self_attn.v_proj", AS_IS},
    {"blk.*.attn_output", L "self_attn.o_proj", AS_IS},
    {"blk.*.ffn_norm", L "post_attention_layernorm", AS_IS},
    {"blk.*.ffn_gate", L "mlp.gate_proj", AS_IS},
    {"blk.*.ffn_up", L "mlp.up_proj", AS_IS},
    {"blk.*.ffn_down", L "mlp.down_proj", AS_IS},
    {0},
};

static const tensor_row no_tensors[] = {{0}};
static const tensor_row llama_tensors[] = {
    {"blk.*.attn_q", L "self_attn.q_proj", QUERY_ROWS},
    {"blk.*.attn_k", L "self_attn.k_proj", KEY_ROWS},
    {0},
};
static const tensor_row qwen3_tensors[] = {
    {"blk.*.attn_q_norm", L "self_attn.q_norm", AS_IS},
    {"blk.*.attn_k_norm", L "self_attn.k_norm", AS_IS},
    {0},
};
static const tensor_row gemma_tensors[] = {
    {"output_norm", "model.norm", AROUND_ONE},
    {"blk.*.attn_norm", L "input_layernorm", AROUND_ONE},
    {"blk.*.ffn_norm", L "post_attention_layernorm", AROUND_ONE},
    {0},
};
static const tensor_row gemma2_tensors[] = {
    {"output_norm", "model.norm", AROUND_ONE},
    {"blk.*.attn_norm", L "input_layernorm", AROUND_ONE},
    {"blk.*.attn_q_norm", L "self_attn.q_norm", AROUND_ONE},
    {"blk.*.attn_k_norm", L "self_attn.k_norm", AROUND_ONE},
    {"blk.*.post_attention_norm", L "post_attention_layernorm", AROUND_ONE},
    {"blk.*.ffn_norm", L "pre_feedforward_layernorm", AROUND_ONE},
    {"blk.*.post_ffw_norm", L "post_feedforward_layernorm", AROUND_ONE},
    {0},
};
static const tensor_row phi3_tensors[] = {
    {"blk.*.attn_qkv", L "self_attn.qkv_proj", AS_IS},
    {"blk.*.ffn_up", L "mlp.gate_up_proj", AS_IS},
    {0},
};
static const tensor_row starcoder2_tensors[] = {
    {"blk.*.ffn_up", L "mlp.c_fc", AS_IS},
    {"blk.*.ffn_down", L "mlp.c_proj", AS_IS},
    {0},
};
static const tensor_row gpt2_tensors[] = {
    {"token_embd", "transformer.wte", AS_IS},
    {"position_embd", "transformer.wpe", AS_IS},
    {"output_norm", "transformer.ln_f", AS_IS},
    {"output", "lm_head", AS_IS},
    {"blk.*.attn_norm", "transformer.h.*.ln_1", AS_IS},
    {"blk.*.attn_qkv", "transformer.h.*.attn.c_attn", TRANSPOSED},
    {"blk.*.attn_output", "transformer.h.*.attn.c_proj", TRANSPOSED},
    {"blk.*.ffn_norm", "transformer.h.*.ln_2", AS_IS},
    {"blk.*.ffn_up", "transformer.h.*.mlp.c_fc", TRANSPOSED},
    {"blk.*.ffn_down", "transformer.h.*.mlp.c_proj", TRANSPOSED},
    {0},
};

static const architecture architectures[] = {
    {"llama", "llama", rms_keys, llama_tensors, shared_tensors, .rotates = true},
    {"qwen2", "qwen2", rms_keys, no_tensors, shared_tensors, .rotates = true},
    {"qwen3", "qwen3", rms_keys, qwen3_tensors, shared_tensors, .rotates = true},
    {"gemma", "gemma", rms_keys, gemma_tensors, shared_tensors, .rotates = true},
    {"gemma2", "gemma2", gemma2_keys, gemma2_tensors, shared_tensors, .rotates = true},
    {"gemma3", "gemma3_text", gemma3_keys, gemma2_tensors, shared_tensors, .rotates = true},
    {"phi3", "phi3", phi3_keys, phi3_tensors, shared_tensors, .rotates = true, .rotates_part = true,
     .has_factors = true},
    {"starcoder2", "starcoder2", starcoder2_keys, starcoder2_tensors, shared_tensors, .rotates = true},
    {"gpt2", "gpt2", gpt2_keys, gpt2_tensors, no_tensors, .rotates = false},
};
#define N_ARCHITECTURES (sizeof architectures / sizeof *architectures)

/* ---- config.json ---- */

/* A config that is being made. The first failure is kept, and what follows does nothing. */
typedef struct maker {
    const hs__gguf *file;
    const architecture *is;
    json_t *config;
    hs_status status;
    hs_error *err;
} maker;

/* Adds a key and takes the reference to its value. A failure of memory shows in the count of refusals. */
static void put(maker *m, const char *key, json_t *value)
{
    (void)json_object_set_new(m->config, key, value);
}

/* Returns a value of the architecture, or NULL. */
static const hs__gguf_value *value_of(const maker *m, const char *suffix)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", m->is->name, suffix);
    return hs__gguf_value_of(m->file, key);
}

/* Reads an integer from 0 to 2^30. Returns `otherwise` if it is absent. */
static json_int_t size_of(maker *m, const char *suffix, json_int_t otherwise)
{
    const hs__gguf_value *value = value_of(m, suffix);
    int64_t ret = 0;
    if (!value)
        return otherwise;
    if (value->is_array)
        m->status =
            hs_fail(m->err, HS_BAD_MODEL, "GGUF: %s.%s has a value for each layer, which is not supported",
                    m->is->name, suffix);
    else if (!hs__gguf_integer(value, 0, &ret) || ret < 0 || ret > 1 << 30)
        m->status = hs_fail(m->err, HS_BAD_MODEL, "GGUF: %s.%s must be an integer from 0 to %d", m->is->name,
                            suffix, 1 << 30);
    return m->status ? 0 : ret;
}

static double number_of(maker *m, const char *suffix, double otherwise)
{
    const hs__gguf_value *value = value_of(m, suffix);
    double ret = 0;
    if (value && (value->is_array || !hs__gguf_number(value, 0, &ret)))
        m->status = hs_fail(m->err, HS_BAD_MODEL, "GGUF: %s.%s must be a number", m->is->name, suffix);
    return value ? ret : otherwise;
}

static const key_row *find_key(const key_row *rows, const char *suffix, size_t n)
{
    for (; rows->suffix; rows++)
        if (strlen(rows->suffix) == n && memcmp(rows->suffix, suffix, n) == 0)
            return rows;
    return NULL;
}

/* Adds a key of a table. */
static void put_row(maker *m, const key_row *row)
{
    json_int_t size = 0;
    double number = 0;
    switch (row->kind) {
    case NEEDED:
    case SIZE:
    case WINDOW:
        size = size_of(m, row->suffix, 0);
        put(m, row->key, row->kind == WINDOW && size == 0 ? json_null() : json_integer(size));
        return;
    case EPSILON:
    case NUMBER:
        number = number_of(m, row->suffix, 0);
        put(m, row->key, json_real(number));
        return;
    case OTHER:
        return;
    }
}

/* Refuses a file without a key that a table needs. */
static void check_needed(maker *m, const key_row *rows)
{
    for (; rows->suffix && !m->status; rows++)
        if ((rows->kind == NEEDED || rows->kind == EPSILON) && !value_of(m, rows->suffix))
            m->status = hs_fail(m->err, HS_BAD_MODEL, "GGUF: %s.%s is missing", m->is->name, rows->suffix);
}

/* Adds the keys of the architecture's tables. Refuses others, unless they are 0, which means that there is no
 * such thing. */
static void put_tables(maker *m)
{
    const size_t n_name = strlen(m->is->name);
    for (size_t i = 0; i < m->file->n_values && !m->status; i++) {
        const hs__gguf_value *value = &m->file->values[i];
        const char *text = value->key.data;
        if (value->key.size <= n_name + 1 || memcmp(text, m->is->name, n_name) != 0 || text[n_name] != '.')
            continue;
        const char *suffix = text + n_name + 1;
        const size_t n = value->key.size - n_name - 1;
        const key_row *row = find_key(m->is->keys, suffix, n);
        if (!row && m->is->rotates)
            row = find_key(shared_keys, suffix, n);
        double number = 1;
        if (row)
            put_row(m, row);
        else if (value->is_array || !hs__gguf_number(value, 0, &number) || number != 0)
            m->status = hs_fail(m->err, HS_BAD_MODEL, "GGUF: the key %.*s is not supported",
                                (int)value->key.size, text);
    }
}

/* ---- rotary positions ---- */

/* Returns the numbers of a vector as a list, or NULL after a failure. */
static json_t *list_numbers(maker *m, const char *name, size_t n)
{
    const hs__gguf_tensor *tensor = hs__gguf_tensor_of(m->file, name);
    if (!tensor || tensor->type != HS__GGML_F32 || tensor->n_dimensions != 1 || tensor->n_values != n) {
        m->status =
            hs_fail(m->err, HS_BAD_MODEL, "GGUF: tensor %s must be a vector of %zu numbers (F32)", name, n);
        return NULL;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        float number;
        memcpy(&number, m->file->data + tensor->offset + i * sizeof number, sizeof number);
        (void)json_array_append_new(list, json_real((double)number)); /* refused if it is not finite */
    }
    return list;
}

/* Adds the divisors of frequencies for texts up to the positions of the training, and for longer ones. */
static void put_divisors(maker *m, const char *up_to, const char *beyond, size_t n, json_int_t original,
                         double amplitude)
{
    json_t *shorter = list_numbers(m, up_to, n), *longer = m->status ? NULL : list_numbers(m, beyond, n);
    json_t *scaling =
        json_pack("{s:s, s:f, s:f, s:o*, s:o*}", "rope_type", "longrope", "factor", 1.0, "attention_factor",
                  amplitude, "short_factor", shorter, "long_factor", longer);
    put(m, "rope_scaling", scaling);
    put(m, "original_max_position_embeddings", json_integer(original));
}

/* Adds the scaling of rotary positions that the keys name. */
static void put_scaling(maker *m, json_int_t original)
{
    const hs__gguf_value *type = value_of(m, "rope.scaling.type");
    const bool is_linear = hs__gguf_is(type, "linear"), is_yarn = hs__gguf_is(type, "yarn");
    const double factor = number_of(m, "rope.scaling.factor", 1),
                 amplitude = number_of(m, "rope.scaling.attn_factor", 1);
    if (!type || hs__gguf_is(type, "none"))
        return;
    if (!is_linear && !is_yarn)
        m->status =
            hs_fail(m->err, HS_BAD_MODEL,
                    "GGUF: %s.rope.scaling.type must be \"none\", \"linear\" or \"yarn\"", m->is->name);
    if (amplitude != 1 && amplitude != 0)
        m->status = hs_fail(m->err, HS_BAD_MODEL, "GGUF: %s.rope.scaling.attn_factor must be 1", m->is->name);
    json_t *scaling = json_pack("{s:s, s:f}", "rope_type", is_yarn ? "yarn" : "linear", "factor", factor);
    if (is_yarn && original > 0)
        (void)json_object_set_new(scaling, "original_max_position_embeddings", json_integer(original));
    put(m, "rope_scaling", scaling);
}

static void put_rotation(maker *m, json_int_t head_width)
{
    const json_int_t n = size_of(m, "rope.dimension_count", head_width),
                     positions = size_of(m, "context_length", 0),
                     original = size_of(m, "rope.scaling.original_context_length", 0);
    const size_t half = (size_t)n / 2;
    if (n != head_width && (!m->is->rotates_part || n < 1 || n > head_width))
        m->status =
            hs_fail(m->err, HS_BAD_MODEL, "GGUF: %s.rope.dimension_count must be %lld, the width of a head",
                    m->is->name, (long long)head_width);
    else if (n != head_width)
        put(m, "partial_rotary_factor", json_real((double)n / (double)head_width));
    if (!value_of(m, "rope.freq_base"))
        put(m, "rope_theta", json_real(10000));
    const bool has_freqs = hs__gguf_tensor_of(m->file, "rope_freqs.weight") != NULL;
    const bool has_long = m->is->has_factors && hs__gguf_tensor_of(m->file, "rope_factors_long.weight");
    if (m->status)
        return;
    if ((has_freqs || has_long) && value_of(m, "rope.scaling.type") &&
        !hs__gguf_is(value_of(m, "rope.scaling.type"), "none") &&
        !hs__gguf_is(value_of(m, "rope.scaling.type"), "longrope"))
        m->status = hs_fail(m->err, HS_BAD_MODEL,
                            "GGUF: it has both %s.rope.scaling.type and factors of frequencies", m->is->name);
    else if (has_long)
        put_divisors(m, "rope_factors_short.weight", "rope_factors_long.weight", half,
                     original > 0 ? original : positions, number_of(m, "rope.scaling.attn_factor", 1));
    else if (has_freqs)
        put_divisors(m, "rope_freqs.weight", "rope_freqs.weight", half, positions, 1);
    else
        put_scaling(m, original);
}

/* ---- the rest of it ---- */

static bool has_layer_tensor(const maker *m, const char *name)
{
    char whole[HS__GGUF_NAME_BYTES];
    snprintf(whole, sizeof whole, "blk.0.%s", name);
    return hs__gguf_tensor_of(m->file, whole) != NULL;
}

/* Adds the heads, and what follows from their width. */
static void put_heads(maker *m)
{
    const json_int_t hidden = size_of(m, "embedding_length", 0), n = size_of(m, "attention.head_count", 0);
    if (!m->status && n == 0)
        m->status =
            hs_fail(m->err, HS_BAD_MODEL, "GGUF: %s.attention.head_count must be at least 1", m->is->name);
    if (m->status || n < 1)
        return;
    const json_int_t width = size_of(m, "attention.key_length", hidden / n);
    put(m, "num_key_value_heads", json_integer(size_of(m, "attention.head_count_kv", n)));
    put(m, "head_dim", json_integer(width));
    if (size_of(m, "attention.value_length", width) != width)
        m->status =
            hs_fail(m->err, HS_BAD_MODEL, "GGUF: %s.attention.value_length must be that of keys, %lld",
                    m->is->name, (long long)width);
    if (size_of(m, "attention.causal", 1) != 1)
        m->status = hs_fail(m->err, HS_BAD_MODEL, "GGUF: %s.attention.causal must be true", m->is->name);
    if (strncmp(m->is->name, "gemma", 5) == 0 && m->is->name[5]) {
        /* the models of 27B divide scores by another width: 46 and 62 layers, as llama.cpp tells them */
        const json_int_t n_layers = size_of(m, "block_count", 0);
        const bool is_largest = n_layers == (m->is->name[5] == '2' ? 46 : 62);
        put(m, "query_pre_attn_scalar", json_integer(is_largest ? hidden / n : width));
    }
    if (!m->status)
        put_rotation(m, width);
    put(m, "attention_bias",
        json_boolean(has_layer_tensor(m, "attn_q.bias") && strcmp(m->is->name, "qwen2") != 0 &&
                     strcmp(m->is->name, "starcoder2") != 0));
    put(m, "mlp_bias",
        json_boolean(has_layer_tensor(m, "ffn_up.bias") && strcmp(m->is->name, "starcoder2") != 0));
    if (strcmp(m->is->name, "starcoder2") == 0)
        put(m, "use_bias", json_boolean(has_layer_tensor(m, "attn_q.bias")));
}

/* Adds the size of the vocabulary, that of the table of words, and the tokens with a purpose. */
static void put_vocabulary(maker *m)
{
    static const char *const tokens[][2] = {{"tokenizer.ggml.bos_token_id", "bos_token_id"},
                                            {"tokenizer.ggml.eos_token_id", "eos_token_id"},
                                            {"tokenizer.ggml.padding_token_id", "pad_token_id"}};
    const hs__gguf_tensor *words = hs__gguf_tensor_of(m->file, "token_embd.weight");
    if (!words || words->n_dimensions != 2) {
        m->status = hs_fail(m->err, HS_BAD_MODEL, "GGUF: token_embd.weight must be there, a matrix");
        return;
    }
    const json_int_t n = (json_int_t)words->dimensions[1];
    if (size_of(m, "vocab_size", n) != n)
        m->status =
            hs_fail(m->err, HS_BAD_MODEL, "GGUF: %s.vocab_size must be %lld, the rows of token_embd.weight",
                    m->is->name, (long long)n);
    put(m, "vocab_size", json_integer(n));
    put(m, "tie_word_embeddings", json_boolean(!hs__gguf_tensor_of(m->file, "output.weight")));
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        int64_t id = -1;
        const bool is_there = hs__gguf_integer(hs__gguf_value_of(m->file, tokens[i][0]), 0, &id) && id >= 0;
        put(m, tokens[i][1], is_there ? json_integer(id) : json_null());
    }
}

static const architecture *find_architecture(const hs__gguf *file, hs_error *err)
{
    const hs__gguf_value *name = hs__gguf_value_of(file, "general.architecture");
    char known[256] = "";
    for (size_t i = 0; i < N_ARCHITECTURES; i++) {
        if (hs__gguf_is(name, architectures[i].name))
            return &architectures[i];
        strncat(known, known[0] ? ", " : "", sizeof known - 1 - strlen(known));
        strncat(known, architectures[i].name, sizeof known - 1 - strlen(known));
    }
    const bool is_text = name && !name->is_array && name->type == HS__GGUF_TEXT && name->data.size < 64;
    (void)hs_fail(err, HS_BAD_MODEL, "GGUF: general.architecture \"%.*s\" is not supported; known: %s",
                  is_text ? (int)name->data.size : 0, is_text ? (const char *)name->data.data : "", known);
    return NULL;
}

hs_status hs__gguf_config(const hs__gguf *file, hs_bytes *ret_config, hs_error *err)
{
    const size_t refusals = hs_json_refusals();
    maker m = {.file = file, .is = find_architecture(file, err), .config = json_object(), .err = err};
    if (!m.is)
        m.status = HS_BAD_MODEL;
    else
        put(&m, "model_type", json_string(m.is->model_type));
    if (!m.status)
        check_needed(&m, m.is->keys);
    if (!m.status && m.is->rotates)
        check_needed(&m, shared_keys);
    if (!m.status)
        put_tables(&m);
    if (!m.status)
        put_vocabulary(&m);
    if (!m.status && m.is->rotates)
        put_heads(&m);
    m.config = hs_json_whole(m.config, refusals);
    char *text = m.status || !m.config ? NULL : hs_json_text(m.config, JSON_COMPACT);
    json_decref(m.config);
    if (!m.status && !text)
        m.status = hs_fail(err, HS_NO_MEMORY, "GGUF: out of memory");
    if (!m.status)
        *ret_config = hs_bytes_of(text);
    return m.status;
}

/* ---- weights ---- */

/* Writes the name of a tensor in transformers if it fits the row. */
static bool translate(const tensor_row *row, const char *gguf, char ret_name[2 * HS__GGUF_NAME_BYTES])
{
    const char *const star = strchr(row->gguf, '*');
    const size_t n_before = star ? (size_t)(star - row->gguf) : 0;
    if (strncmp(gguf, row->gguf, n_before) != 0)
        return false;
    const char *number = gguf + n_before;
    const size_t n_digits = star ? strspn(number, "0123456789") : 0;
    const char *const after = star ? star + 1 : row->gguf, *rest = number + n_digits;
    if (strncmp(rest, after, strlen(after)) != 0 || (star && n_digits == 0))
        return false;
    rest += strlen(after);
    if (strcmp(rest, ".weight") != 0 && strcmp(rest, ".bias") != 0)
        return false;
    const char *const place = strchr(row->name, '*');
    const int n_first = place ? (int)(place - row->name) : (int)strlen(row->name);
    snprintf(ret_name, 2 * HS__GGUF_NAME_BYTES, "%.*s%.*s%s%s", n_first, row->name, (int)n_digits, number,
             place ? place + 1 : "", rest);
    return true;
}

static const tensor_row *find_tensor(const architecture *is, const char *gguf,
                                     char ret_name[2 * HS__GGUF_NAME_BYTES])
{
    const tensor_row *const tables[] = {is->tensors, is->shared};
    for (size_t i = 0; i < 2; i++)
        for (const tensor_row *row = tables[i]; row->gguf; row++)
            if (translate(row, gguf, ret_name))
                return row;
    return NULL;
}

/* Returns true for the factors of rotary positions, which the config has. */
static bool is_of_config(const architecture *is, const char *name)
{
    return (is->rotates && strcmp(name, "rope_freqs.weight") == 0) ||
           (is->has_factors && (strcmp(name, "rope_factors_long.weight") == 0 ||
                                strcmp(name, "rope_factors_short.weight") == 0));
}

/* A tensor that is made anew. */
typedef struct remade {
    const hs__gguf_tensor *tensor;
    changed change;
} remade;

typedef struct weights {
    const hs__gguf *file;
    const architecture *is;
    json_t *stored, *made; /* headers of both kinds, as of a safetensors file */
    remade *list;          /* [n], in the order of `made` */
    size_t n, n_values, n_largest;
    hs_error *err;
} weights;

/* Returns the change that a tensor needs. Vectors are not transposed. */
static changed change_of(const tensor_row *row, const hs__gguf_tensor *tensor)
{
    return row->change == TRANSPOSED && tensor->n_dimensions == 1 ? AS_IS : row->change;
}

/* Adds a tensor to one of the headers. */
static hs_status put_tensor(weights *w, const hs__gguf_tensor *tensor)
{
    static const char *const dtypes[] = {
        [HS__GGML_F32] = "F32", [HS__GGML_F16] = "F16", [HS__GGML_BF16] = "BF16"};
    char name[2 * HS__GGUF_NAME_BYTES];
    const tensor_row *row = find_tensor(w->is, tensor->name, name);
    if (!row && is_of_config(w->is, tensor->name))
        return HS_OK;
    if (!row || tensor->n_dimensions > 2)
        return hs_fail(w->err, HS_BAD_MODEL, "GGUF: tensor %s is not one of an architecture \"%s\"",
                       tensor->name, w->is->name);
    const changed change = change_of(row, tensor);
    const bool made = change != AS_IS || tensor->type == HS__GGML_Q8_0;
    const bool swaps = change == TRANSPOSED;
    const size_t begin = made ? w->n_values * sizeof(float) : tensor->offset;
    const size_t end = begin + (made ? tensor->n_values * sizeof(float) : tensor->n_bytes);
    json_t *shape = json_array();
    for (size_t i = tensor->n_dimensions; i-- > 0;)
        (void)json_array_append_new(
            shape, json_integer((json_int_t)tensor->dimensions[swaps ? tensor->n_dimensions - 1 - i : i]));
    (void)json_object_set_new(made ? w->made : w->stored, name,
                              json_pack("{s:s, s:o, s:[I, I]}", "dtype", made ? "F32" : dtypes[tensor->type],
                                        "shape", shape, "data_offsets", (json_int_t)begin, (json_int_t)end));
    if (!made)
        return HS_OK;
    w->list[w->n++] = (remade){tensor, change};
    if (__builtin_add_overflow(w->n_values, tensor->n_values, &w->n_values) || w->n_values > SIZE_MAX / 8)
        return hs_fail(w->err, HS_NO_MEMORY, "GGUF: out of memory");
    w->n_largest = tensor->n_values > w->n_largest ? tensor->n_values : w->n_largest;
    return HS_OK;
}

/* Reads all values of a tensor in their order. */
static void read_values(const hs__gguf *file, const hs__gguf_tensor *tensor, float *ret)
{
    const unsigned char *bytes = file->data + tensor->offset;
    hs_tensor whole = {.data = bytes, .n_rows = 1, .n_columns = tensor->n_values};
    if (tensor->type != HS__GGML_Q8_0) {
        whole.dtype = tensor->type == HS__GGML_F32 ? HS_F32 : tensor->type == HS__GGML_F16 ? HS_F16 : HS_BF16;
        hs_tensor_read(&whole, 0, 1, ret);
        return;
    }
    /* blocks of 32 integers of a byte, behind their scale in half precision */
    for (size_t i = 0; i < tensor->n_values; bytes += 34) {
        const hs_tensor scale = {.data = bytes, .n_rows = 1, .n_columns = 1, .dtype = HS_F16};
        float factor;
        hs_tensor_read(&scale, 0, 1, &factor);
        for (size_t k = 0; k < 32; k++)
            ret[i++] = factor * (float)(signed char)bytes[2 + k];
    }
}

/* Puts rows of heads back into the order of transformers: neighbours become i and i + d / 2. */
static hs_status reorder_rows(const weights *w, const remade *r, const float *values, float *ret)
{
    const size_t n_columns = r->tensor->n_dimensions > 1 ? r->tensor->dimensions[0] : 1;
    const size_t n_rows = r->tensor->n_values / n_columns;
    maker m = {.file = w->file, .is = w->is, .err = w->err};
    const json_int_t n_heads = size_of(&m, "attention.head_count", 1),
                     n_own =
                         r->change == QUERY_ROWS ? n_heads : size_of(&m, "attention.head_count_kv", n_heads);
    if (m.status)
        return m.status;
    if (n_own < 1 || n_rows % (2 * (size_t)n_own) != 0)
        return hs_fail(w->err, HS_BAD_MODEL, "GGUF: the rows of tensor %s are not those of %lld heads",
                       r->tensor->name, (long long)n_own);
    const size_t width = n_rows / (size_t)n_own;
    for (size_t i = 0; i < n_rows; i++) {
        const size_t at = i % width, half = width / 2;
        const size_t from = i - at + 2 * (at % half) + at / half;
        memcpy(ret + i * n_columns, values + from * n_columns, n_columns * sizeof *ret);
    }
    return HS_OK;
}

/* Makes a tensor. scratch [n_largest] is overwritten. */
static hs_status make(const weights *w, const remade *r, float *scratch, float *ret)
{
    const size_t n = r->tensor->n_values, n_columns = r->tensor->dimensions[0];
    const bool moves = r->change != AS_IS && r->change != AROUND_ONE;
    read_values(w->file, r->tensor, moves ? scratch : ret);
    if (r->change == QUERY_ROWS || r->change == KEY_ROWS)
        return reorder_rows(w, r, scratch, ret);
    for (size_t i = 0; i < n && r->change == AROUND_ONE; i++)
        ret[i] -= 1;
    for (size_t i = 0; i < n && r->change == TRANSPOSED; i++)
        ret[i % n_columns * (n / n_columns) + i / n_columns] = scratch[i];
    return HS_OK;
}

static hs_status make_all(weights *w, hs__shards *shards)
{
    float *values = calloc(w->n_values + 1, sizeof *values),
          *scratch = calloc(w->n_largest + 1, sizeof *scratch);
    hs_status st = values && scratch ? HS_OK : hs_fail(w->err, HS_NO_MEMORY, "GGUF: out of memory");
    for (size_t i = 0, at = 0; i < w->n && !st; at += w->list[i++].tensor->n_values)
        st = make(w, &w->list[i], scratch, values + at);
    free(scratch);
    if (st) {
        free(values);
        return st;
    }
    shards->merged = (hs__shard){.mapping = {.bytes = {values, w->n_values * sizeof *values}, .fd = -1},
                                 .tensors = {.file_name = "GGUF",
                                             .data = (const unsigned char *)values,
                                             .header = json_incref(w->made)}};
    return HS_OK;
}

hs_status hs__gguf_weights(hs__gguf *file, hs__shards *ret_shards, hs_error *err)
{
    const size_t refusals = hs_json_refusals();
    weights w = {.file = file, .is = find_architecture(file, err), .err = err};
    *ret_shards = (hs__shards){.file_name = "GGUF"};
    if (!w.is)
        return HS_BAD_MODEL;
    w.stored = json_object();
    w.made = json_object();
    w.list = calloc(file->n_tensors + 1, sizeof *w.list);
    ret_shards->shards = calloc(1, sizeof *ret_shards->shards);
    hs_status st = w.list && ret_shards->shards ? HS_OK : HS_NO_MEMORY;
    if (st)
        (void)hs_fail(err, st, "GGUF: out of memory");
    for (size_t i = 0; i < file->n_tensors && !st; i++)
        st = put_tensor(&w, &file->tensors[i]);
    if (!st && hs_json_refusals() != refusals)
        st = hs_fail(err, HS_NO_MEMORY, "GGUF: out of memory");
    if (!st)
        st = make_all(&w, ret_shards);
    if (!st) {
        ret_shards->n_shards = 1;
        ret_shards->shards[0] = (hs__shard){
            .mapping = file->mapping,
            .tensors = {.file_name = "GGUF", .data = file->data, .header = json_incref(w.stored)}};
        file->mapping = (hs__mapping){.fd = -1};
    }
    json_decref(w.stored);
    json_decref(w.made);
    free(w.list);
    return st;
}
