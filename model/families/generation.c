/* generation.c - reads generation_config.json: how a model writes a text. */
#include "model/families/family.h"
#include "model/files/json.h"

#include <stdio.h>
#include <string.h>

/* Other ways to choose tokens, or to stop. Keys of sampling and of beams are not among them: a text is
 * written greedily. */
static const char *const refused[] = {"guidance_scale",
                                      "sequence_bias",
                                      "encoder_repetition_penalty",
                                      "encoder_no_repeat_ngram_size",
                                      "remove_invalid_values",
                                      "exponential_decay_length_penalty",
                                      "watermarking_config",
                                      "forced_decoder_ids",
                                      "stop_strings",
                                      "max_time",
                                      "penalty_alpha",
                                      "dola_layers"};

/* Returns true for the values with which these keys do nothing. */
static bool is_neutral(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_number(value) && (json_number_value(value) == 0 || json_number_value(value) == 1)) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

static void check_refused(hs__config *config)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (!is_neutral(json_object_get(config->keys, refused[i])))
            hs__config_refuse(config, "%s is not supported for writing a text", refused[i]);
}

/* A list of ids that is being filled. */
typedef struct id_list {
    int32_t *ids; /* [n_max] */
    size_t n, n_max;
    size_t vocab_size;
    bool may_lack; /* ids that the vocabulary lacks are left out: the model never writes them */
} id_list;

static void id_add(hs__config *config, const char *key, const json_t *value, id_list *list)
{
    const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    const bool exists = id >= 0 && (size_t)id < list->vocab_size;
    if (list->n >= list->n_max)
        hs__config_refuse(config, "%s has more than %zu token ids", key, list->n_max);
    else if (exists)
        list->ids[list->n++] = (int32_t)id;
    else if (!json_is_integer(value) || !list->may_lack)
        hs__config_refuse(config, "%s must have token ids from 0 to %zu", key, list->vocab_size - 1);
}

/* Appends an id, or each of a list of ids. null adds none. */
static void ids_add(hs__config *config, const char *key, const json_t *value, id_list *list)
{
    for (size_t i = 0; i < json_array_size(value); i++)
        id_add(config, key, json_array_get(value, i), list);
    if (value && !json_is_array(value) && !json_is_null(value))
        id_add(config, key, value, list);
}

/* Reads ids of tokens into ret_ids [n_max], behind the first n. Returns their number with these. */
static size_t read_ids(hs__config *config, const char *key, size_t vocab_size, int32_t *ret_ids, size_t n,
                       size_t n_max)
{
    id_list list = {ret_ids, n, n_max, vocab_size, true};
    ids_add(config, key, json_object_get(config->keys, key), &list);
    return list.n;
}

/* Reads a token that is forced at some place, or -1. The lowest of several is the most probable one. */
static int32_t read_forced(hs__config *config, const char *key, size_t vocab_size)
{
    int32_t ids[HS_STOPS_MAX], lowest = -1;
    id_list list = {ids, 0, HS_STOPS_MAX, vocab_size, false};
    ids_add(config, key, json_object_get(config->keys, key), &list);
    for (size_t i = 0; i < list.n; i++)
        lowest = i == 0 || ids[i] < lowest ? ids[i] : lowest;
    return lowest;
}

static void read_bad_words(hs__config *config, size_t vocab_size, hs_generation *g)
{
    static const char *const key = "bad_words_ids";
    const json_t *words = json_object_get(config->keys, key);
    id_list list = {g->bad_words, 0, HS_SUPPRESSED_MAX - 1, vocab_size, false};
    if (words && !json_is_array(words) && !json_is_null(words))
        hs__config_refuse(config, "%s must be lists of token ids", key);
    for (size_t i = 0; i < json_array_size(words); i++) {
        const json_t *word = json_array_get(words, i);
        if (!json_is_array(word) || json_array_size(word) == 0)
            hs__config_refuse(config, "%s must be lists of token ids", key);
        ids_add(config, key, word, &list);
        if (config->status)
            return;
        g->bad_words[list.n++] = -1;
        g->n_bad_words = list.n;
    }
}

static void read_keys(hs__config *config, size_t vocab_size, hs_generation *g)
{
    g->start_id = read_forced(config, "decoder_start_token_id", vocab_size);
    g->bos_id = read_forced(config, "bos_token_id", vocab_size);
    g->n_stops = read_ids(config, "eos_token_id", vocab_size, g->stops, 0, HS_STOPS_MAX);
    g->forced_first = read_forced(config, "forced_bos_token_id", vocab_size);
    g->forced_last = read_forced(config, "forced_eos_token_id", vocab_size);
    g->min_length = (size_t)hs__config_number_or(config, "min_length", 0, HS_POSITIONS_MAX, 0);
    g->min_new_tokens = (size_t)hs__config_number_or(config, "min_new_tokens", 0, HS_POSITIONS_MAX, 0);
    g->repetition_penalty = hs__config_number_or(config, "repetition_penalty", 1e-6, 1e6, 1);
    g->no_repeat = (size_t)hs__config_number_or(config, "no_repeat_ngram_size", 0, HS_POSITIONS_MAX, 0);
    g->n_suppressed = read_ids(config, "suppress_tokens", vocab_size, g->suppressed, 0, HS_SUPPRESSED_MAX);
    g->n_begin_suppressed = read_ids(config, "begin_suppress_tokens", vocab_size, g->suppressed,
                                     g->n_suppressed, HS_SUPPRESSED_MAX) -
                            g->n_suppressed;
    read_bad_words(config, vocab_size, g);
    check_refused(config);
}

/* Gives the config of two joined models the keys of its decoder that it lacks. */
static void take_decoder(json_t *keys)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(keys, "decoder"), key, value)
    {
        const json_t *own = json_object_get(keys, key);
        if (!own || json_is_null(own))
            json_object_set(keys, key, value);
    }
}

void hs__generation_read(const hs_bytes *file, const char *file_name, size_t vocab_size,
                         hs_generation *ret_generation)
{
    hs_error err = {0};
    json_t *keys = NULL;
    *ret_generation = (hs_generation){.start_id = -1, .bos_id = -1, .forced_first = -1, .forced_last = -1};
    hs__config config = {.file_name = file_name, .err = &err};
    config.status = hs__json_parse(file, file_name, &keys, &err);
    config.keys = keys;
    if (!config.status)
        take_decoder(keys);
    if (!config.status)
        read_keys(&config, vocab_size, ret_generation);
    json_decref(keys);
    if (config.status)
        snprintf(ret_generation->refusal, sizeof ret_generation->refusal, "%.199s", err.text);
}
