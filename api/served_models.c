/* served_models.c - the list of served models, and its answer.
 *
 * Models are counted. The list has one reference to each, and every job has one to its model, so a model that
 * left the list lives until its last job ends. Everything that can fail is done before the list changes.
 * Nobody waits for the lock longer than a look at the list takes. */
#include "api/internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- references ---- */

static void served_destroy(hs__served_model *served)
{
    if (!served)
        return;
    served_destroy(served->decoder);
    for (size_t i = 0; served->workspaces && i < served->n_free; i++)
        hs_workspace_destroy(served->workspaces[i]);
    free(served->workspaces);
    free(served);
}

void hs__model_release(hs_api *api, hs__served_model *served)
{
    if (!served)
        return;
    served = served->encoder ? served->encoder : served;
    pthread_mutex_lock(&api->lock);
    const bool last = --served->n_references == 0;
    pthread_mutex_unlock(&api->lock);
    if (!last)
        return;
    void (*const model_free)(void *user_data) = served->free;
    void *const user_data = served->user_data;
    const size_t transposed_bytes =
        served->transposed_bytes + (served->decoder ? served->decoder->transposed_bytes : 0);
    served_destroy(served);
    if (model_free)
        model_free(user_data);
    hs__budget_add(&api->captures, transposed_bytes);
}

/* Returns the number of the name in the list; n_models if there is none. The lock is held. */
static size_t number_of(const hs_api *api, const char *name, size_t n_name)
{
    size_t i = 0;
    while (i < api->n_models &&
           (strlen(api->models[i]->name) != n_name || memcmp(api->models[i]->name, name, n_name) != 0))
        i++;
    return i;
}

/* Returns a reference to the model of this name, or with name NULL to the default; NULL if there is none. */
static hs__served_model *model_find(hs_api *api, const char *name, size_t n_name)
{
    pthread_mutex_lock(&api->lock);
    const size_t i = name ? number_of(api, name, n_name) : 0;
    hs__served_model *served = i < api->n_models ? api->models[i] : NULL;
    if (served)
        served->n_references++;
    pthread_mutex_unlock(&api->lock);
    return served;
}

/* Lists references to all models, the default first. Returns how many. */
static size_t models_list(hs_api *api, hs__served_model *ret_models[HS__MODELS_MAX])
{
    pthread_mutex_lock(&api->lock);
    const size_t n = api->n_models;
    for (size_t i = 0; i < n; i++) {
        ret_models[i] = api->models[i];
        ret_models[i]->n_references++;
    }
    pthread_mutex_unlock(&api->lock);
    return n;
}

static void refuse_model(hs_api *api, const char *name, size_t n_name, hs__problem *problem)
{
    hs__served_model *models[HS__MODELS_MAX];
    char names[512] = "";
    const size_t n_models = models_list(api, models);
    for (size_t i = 0; i < n_models; i++) {
        const size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", models[i]->name);
        hs__model_release(api, models[i]);
    }
    hs__refuse(problem, 404, "/model", "unknown model '%.*s'; allowed: %s", hs__clip(name, n_name), name,
               names);
}

hs__served_model *hs__model_choose(hs_api *api, const json_t *name, hs__problem *problem)
{
    if (name && !json_is_string(name)) {
        hs__refuse_value(problem, "/model", name, "a string");
        return NULL;
    }
    hs__served_model *served = model_find(api, json_string_value(name), json_string_length(name));
    if (!served && name)
        refuse_model(api, json_string_value(name), json_string_length(name), problem);
    else if (!served)
        hs__refuse(problem, 404, "/model", "no model is loaded: start the server with --model");
    return served;
}

hs_served_model *hs_api_model_use(hs_api *api, const char *name)
{
    hs__served_model *served = NULL;
    pthread_mutex_lock(&api->lock);
    const size_t i = name && *name ? number_of(api, name, strlen(name)) : 0;
    if (i < api->n_models) {
        served = api->models[i];
        served->n_references++;
        served->n_users++;
    }
    pthread_mutex_unlock(&api->lock);
    return served;
}

void hs_api_model_release(hs_api *api, hs_served_model *served)
{
    if (!served)
        return;
    pthread_mutex_lock(&api->lock);
    served->n_users--;
    pthread_mutex_unlock(&api->lock);
    hs__model_release(api, served);
}

const char *hs_served_name(const hs_served_model *served)
{
    return served->name;
}

const hs_model *hs_served_weights(const hs_served_model *served)
{
    return served->model;
}

const hs_engine *hs_served_engine(const hs_served_model *served)
{
    return served->engine;
}

const hs_engine *hs_served_decoder(const hs_served_model *served)
{
    return served->decoder ? served->decoder->engine : NULL;
}

/* ---- workspaces ---- */

hs_workspace *hs__workspace_take(hs_api *api, hs__served_model *served)
{
    pthread_mutex_lock(&api->lock);
    while (served->n_free == 0)
        pthread_cond_wait(&api->workspace_freed, &api->lock);
    hs_workspace *ws = served->workspaces[--served->n_free]; /* the last one used: its pages are in memory */
    pthread_mutex_unlock(&api->lock);
    return ws;
}

void hs__workspace_return(hs_api *api, hs__served_model *served, hs_workspace *ws)
{
    pthread_mutex_lock(&api->lock);
    served->workspaces[served->n_free++] = ws;
    pthread_cond_broadcast(&api->workspace_freed);
    pthread_mutex_unlock(&api->lock);
}

/* ---- changes ---- */

/* Finds the longest entry of the vocabulary as a JSON string. */
static hs_status longest_entry(const hs_tokenizer *tokenizer, size_t *ret_bytes, hs_error *err)
{
    hs_buffer text = {0};
    *ret_bytes = 0;
    for (size_t id = 0; id < hs_tokenizer_vocab_size(tokenizer); id++) {
        const char *entry = hs_tokenizer_token(tokenizer, (int32_t)id);
        text.size = 0;
        hs__json_string(&text, entry, strlen(entry));
        *ret_bytes = text.size > *ret_bytes ? text.size : *ret_bytes;
    }
    const bool failed = text.failed;
    hs_buffer_finish(&text);
    return failed ? hs_fail(err, HS_NO_MEMORY, "no memory for the vocabulary") : HS_OK;
}

/* Creates a served model, or with `engine` of its decoder that one, and its workspaces. entry_bytes: of the
 * vocabulary's longest entry. */
static hs_status stack_create(const hs_api *api, const hs_api_model *source, const hs_engine *engine,
                              size_t entry_bytes, hs__served_model **ret_served, hs_error *err)
{
    hs_status st = HS_OK;
    const size_t n_workers = api->options.n_workers;
    hs__served_model *served = calloc(1, sizeof *served);
    hs_workspace **workspaces = calloc(n_workers, sizeof(hs_workspace *));
    if (!served || !workspaces) {
        free(served);
        free(workspaces);
        return hs_fail(err, HS_NO_MEMORY, "no memory for model '%s'", source->name);
    }
    *served = (hs__served_model){.list_command =
                                     api->options.list_command ? api->options.list_command : "GET /models",
                                 .model = source->model,
                                 .engine = engine,
                                 .architecture = hs_engine_architecture(engine),
                                 .shape = hs_engine_shape(engine),
                                 .free = source->free,
                                 .user_data = source->user_data,
                                 .n_references = 1,
                                 .workspaces = workspaces,
                                 .entry_bytes = entry_bytes};
    memcpy(served->name, source->name, strlen(source->name) + 1);
    while (!st && served->n_free < n_workers) {
        st =
            hs_workspace_create(served->engine, served->shape->n_positions, &workspaces[served->n_free], err);
        served->n_free += !st;
    }
    if (st)
        served_destroy(served);
    else
        *ret_served = served;
    return st;
}

static hs_status served_create(const hs_api *api, const hs_api_model *source, hs__served_model **ret_served,
                               hs_error *err)
{
    hs__served_model *served = NULL, *decoder = NULL;
    size_t entry_bytes;
    hs_status st = longest_entry(hs_model_tokenizer(source->model), &entry_bytes, err);
    if (!st)
        st = stack_create(api, source, source->engine, entry_bytes, &served, err);
    if (!st && source->decoder)
        st = stack_create(api, source, source->decoder, entry_bytes, &decoder, err);
    if (st) {
        served_destroy(served);
        return st;
    }
    assert(served);
    served->decoder = decoder;
    if (decoder)
        decoder->encoder = served;
    *ret_served = served;
    return HS_OK;
}

/* Puts a model into the list, or with NULL removes the name. *ret_old is the one that it replaces, if any.
 * The lock is held. */
static hs_status list_change(hs_api *api, const char *name, hs__served_model *new, hs__served_model **ret_old,
                             hs_error *err)
{
    const size_t i = number_of(api, name, strlen(name));
    if (i >= HS__MODELS_MAX && new)
        return hs_fail(err, HS_TOO_LARGE, "%d models are served, which is the maximum: remove one first",
                       HS__MODELS_MAX);
    hs__served_model *old = i < HS__MODELS_MAX && i < api->n_models ? api->models[i] : NULL;
    if (!old && !new)
        return hs_fail(err, HS_NOT_FOUND, "there is no model '%s'", name);
    if (old && old->n_users)
        return hs_fail(err, HS_INVALID, "a corpus run uses '%s'", name);
    if (i == 0 && !new)
        return hs_fail(err, HS_INVALID, "'%s' is the default model, which cannot be removed", name);
    if (!new) {
        api->n_models--;
        for (size_t k = i; k < api->n_models; k++)
            api->models[k] = api->models[k + 1];
    } else {
        new->serial = ++api->last_serial;
        if (new->decoder)
            new->decoder->serial = ++api->last_serial;
        api->models[i] = new;
        api->n_models += !old;
    }
    *ret_old = old;
    return HS_OK;
}

hs_status hs_api_model_put(hs_api *api, const hs_api_model *model, hs_error *err)
{
    hs__served_model *new = NULL, *old = NULL;
    if (strlen(model->name) >= HS_MODEL_NAME_BYTES)
        return hs_fail(err, HS_INVALID, "a model's name has at most %d bytes", HS_MODEL_NAME_BYTES - 1);
    hs_status st = served_create(api, model, &new, err);
    if (st)
        return st;
    assert(new);
    pthread_mutex_lock(&api->lock);
    st = list_change(api, model->name, new, &old, err);
    if (!st && !api->runtime)
        api->runtime = hs_engine_runtime(new->engine);
    pthread_mutex_unlock(&api->lock);
    if (st)
        served_destroy(new);
    hs__model_release(api, old);
    return st;
}

hs_status hs_api_model_remove(hs_api *api, const char *name, hs_error *err)
{
    hs__served_model *old = NULL;
    pthread_mutex_lock(&api->lock);
    const hs_status st = list_change(api, name, NULL, &old, err);
    pthread_mutex_unlock(&api->lock);
    hs__model_release(api, old);
    return st;
}

void hs_api_hash_models(hs_api *api)
{
    hs__served_model *models[HS__MODELS_MAX];
    char hex[HS_SHA256_HEX];
    const size_t n = models_list(api, models);
    for (size_t i = 0; i < n; i++) {
        hs_model_sha256(models[i]->model, hex);
        hs__model_release(api, models[i]);
    }
}

/* ---- GET /models ---- */

static void write_positions(hs_buffer *b, const hs_model *model)
{
    const char *names[HS_POSITION_SCHEMES];
    const size_t n = hs_model_positions(model, names);
    hs_buffer_text(b, ",\"positions\":[");
    for (size_t i = 0; i < n; i++) {
        hs_buffer_text(b, i ? ",\"" : "\"");
        hs_buffer_text(b, names[i]);
        hs_buffer_text(b, "\"");
    }
    hs_buffer_text(b, "]");
}

static void write_windows(hs_buffer *b, const hs_architecture *architecture)
{
    for (size_t i = 0; i < architecture->shape.n_layers; i++) {
        char text[32] = "null";
        if (architecture->layers[i].window > 0)
            snprintf(text, sizeof text, "%zu", architecture->layers[i].window);
        hs_buffer_text(b, i ? "," : ",\"windows\":[");
        hs_buffer_text(b, text);
    }
    hs_buffer_text(b, "]");
}

static void write_text(hs_buffer *b, const char *name, const char *text)
{
    hs__json_key(b, name);
    if (text)
        hs__json_string(b, text, strlen(text));
    else
        hs_buffer_text(b, "null");
}

/* Writes the task, the problem type and the labels of the checkpoint's head. */
static void write_task(hs_buffer *b, const hs_model *model)
{
    const hs_task_head *head = &hs_model_architecture(model)->task_head;
    write_text(b, "task", hs_model_task(model));
    write_text(b, "problem_type", hs_model_problem_type(model));
    hs__json_key(b, "labels");
    if (!head->labels)
        hs_buffer_text(b, "null");
    for (size_t i = 0; head->labels && i < head->n_classes; i++) {
        hs_buffer_text(b, i ? "," : "[");
        hs__json_string(b, head->labels[i], strlen(head->labels[i]));
        hs_buffer_text(b, i + 1 == head->n_classes ? "]" : "");
    }
}

/* Writes the prompts of a sentence encoder in the order of its file, and the name of the default one. */
static void write_prompts(hs_buffer *b, const hs_model *model)
{
    const hs_sentence_head *head = &hs_model_architecture(model)->sentence;
    const bool has_default = head->default_prompt < head->n_prompts;
    hs_buffer_text(b, ",\"prompts\":{");
    for (size_t i = 0; i < head->n_prompts; i++) {
        hs_buffer_text(b, i ? "," : "");
        hs__json_string(b, head->prompts[i].name, strlen(head->prompts[i].name));
        hs_buffer_text(b, ":");
        hs__json_string(b, head->prompts[i].text, strlen(head->prompts[i].text));
    }
    hs_buffer_text(b, "}");
    write_text(b, "default_prompt_name", has_default ? head->prompts[head->default_prompt].name : NULL);
}

/* Writes the stacks of an encoder-decoder model, whose heads requests choose from. */
static void write_stacks(hs_buffer *b, const hs__served_model *served)
{
    const hs__served_model *decoder = served->decoder;
    char text[256] = ",\"stacks\":{}";
    if (decoder)
        snprintf(text, sizeof text,
                 ",\"stacks\":{\"encoder\":{\"num_layers\":%zu,\"num_heads\":%zu},"
                 "\"decoder\":{\"num_layers\":%zu,\"num_heads\":%zu},"
                 "\"cross\":{\"num_layers\":%zu,\"num_heads\":%zu}}",
                 served->shape->n_layers, served->shape->n_heads, decoder->shape->n_layers,
                 decoder->shape->n_heads, decoder->shape->n_layers, decoder->shape->n_heads);
    hs_buffer_text(b, text);
}

/* Writes a language of the model, or null. */
static void write_language(hs_buffer *b, const char *name, const hs_tokenizer *tokenizer, int32_t id)
{
    char code[HS_LANGUAGE_BYTES];
    write_text(b, name, hs_tokenizer_language_code(tokenizer, id, code) ? code : NULL);
}

/* Writes the languages that texts and targets may have, in the order of their tokens. */
static void write_languages(hs_buffer *b, const hs_model *model)
{
    const hs_tokenizer *tokenizer = hs_model_tokenizer(model);
    char code[HS_LANGUAGE_BYTES];
    const char *before = "";
    hs_buffer_text(b, ",\"languages\":[");
    for (size_t id = 0; id < hs_tokenizer_vocab_size(tokenizer); id++)
        if (hs_tokenizer_language_code(tokenizer, (int32_t)id, code)) {
            hs_buffer_text(b, before);
            hs__json_string(b, code, strlen(code));
            before = ",";
        }
    hs_buffer_text(b, "]");
    write_language(b, "source_language", tokenizer, hs_tokenizer_languages(tokenizer)->source);
    write_language(b, "target_language", tokenizer, hs_model_target_language(model));
}

/* Member names are those of HuggingFace's config.json if it has them. */
static void write_model(hs_buffer *b, const hs__served_model *served, bool is_default)
{
    const hs_model *model = served->model;
    const hs_shape *s = served->shape;
    char text[640], sha256[HS_SHA256_HEX];
    hs_buffer_text(b, "{\"name\":");
    hs__json_string(b, served->name, strlen(served->name));
    snprintf(text, sizeof text,
             ",\"default\":%s,\"type\":\"%s\",\"tokenizer\":\"%s\",\"num_layers\":%zu,\"num_heads\":%zu,"
             "\"num_key_value_heads\":%zu,"
             "\"hidden_size\":%zu,"
             "\"head_size\":%zu,\"intermediate_size\":%zu,\"type_vocab_size\":%zu,\"vocab_size\":%zu,"
             "\"max_tokens\":%zu,\"mlm\":%s,\"causal\":%s,\"weight_bytes\":%zu,\"backend\":\"%s\","
             "\"precision\":\"%s\",\"kernels\":\"%s\"",
             is_default ? "true" : "false", hs_model_architecture(model)->family,
             hs_tokenizer_kind(hs_model_tokenizer(model)), s->n_layers, s->n_heads, hs_shape_kv_heads(s),
             s->hidden, s->head_width, s->ffn, s->n_types, s->vocab_size, s->n_positions,
             hs_model_predicts_masks(model) ? "true" : "false",
             hs_model_architecture(model)->causal ? "true" : "false", hs_model_bytes(model),
             hs_engine_products(served->engine), hs_engine_precision(served->engine),
             hs_engine_kernels(served->engine));
    hs_buffer_text(b, text);
    write_stacks(b, served);
    write_languages(b, model);
    write_positions(b, model);
    write_windows(b, hs_model_architecture(model));
    write_task(b, model);
    write_prompts(b, model);
    write_text(b, "sha256", hs_model_sha256_known(model, sha256) ? sha256 : NULL);
    hs_buffer_text(b, "}");
}

void hs__models_write(hs_buffer *b, hs_api *api)
{
    hs__served_model *models[HS__MODELS_MAX];
    const size_t n_models = models_list(api, models);
    hs_buffer_text(b, "{\"models\":[");
    for (size_t i = 0; i < n_models; i++) {
        hs_buffer_text(b, i ? "," : "");
        write_model(b, models[i], i == 0);
        hs__model_release(api, models[i]);
    }
    hs_buffer_text(b, "]}");
}
