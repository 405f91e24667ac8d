/* answer_models.c - writes the answer of GET /models. */
#include "api/answer_models.h"

#include "api/formats/json_text.h"

#include <stdio.h>
#include <string.h>

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
             "\"precision\":\"%s\"",
             is_default ? "true" : "false", hs_model_architecture(model)->family,
             hs_tokenizer_kind(hs_model_tokenizer(model)), s->n_layers, s->n_heads, hs_shape_kv_heads(s),
             s->hidden, s->head_width, s->ffn, s->n_types, s->vocab_size, s->n_positions,
             hs_model_predicts_masks(model) ? "true" : "false",
             hs_model_architecture(model)->causal ? "true" : "false", hs_model_bytes(model),
             hs_engine_products(served->engine), hs_engine_precision(served->engine));
    hs_buffer_text(b, text);
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
    const size_t n_models = hs__models_list(api, models);
    hs_buffer_text(b, "{\"models\":[");
    for (size_t i = 0; i < n_models; i++) {
        hs_buffer_text(b, i ? "," : "");
        write_model(b, models[i], i == 0);
        hs__model_release(api, models[i]);
    }
    hs_buffer_text(b, "]}");
}
