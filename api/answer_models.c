/* answer_models.c - what GET /models says of each model. */
#include "api/answer_models.h"

#include "api/formats/json_text.h"

#include <stdio.h>
#include <string.h>

/* GET /models. Names as in HuggingFace's config.json where it has one. */
void hs__models_write(hs__buffer *b, hs_api *api)
{
    hs__buffer_text(b, "{\"models\":[");
    for (size_t i = 0; i < api->n_models; i++) {
        hs__served_model *model = &api->models[i];
        const hs_shape *s = model->shape;
        char text[512];
        hs__buffer_text(b, i ? ",{\"name\":" : "{\"name\":");
        hs__json_string(b, model->name, strlen(model->name));
        snprintf(
            text, sizeof text,
            ",\"default\":%s,\"type\":\"%s\",\"num_layers\":%zu,\"num_heads\":%zu,\"hidden_size\":%zu,"
            "\"head_size\":%zu,\"intermediate_size\":%zu,\"type_vocab_size\":%zu,\"vocab_size\":%zu,"
            "\"max_tokens\":%zu,\"weight_bytes\":%zu,\"backend\":\"%s\",\"precision\":\"%s\",\"sha256\":",
            i ? "false" : "true", hs_model_recipe(model->model)->family, s->n_layers, s->n_heads, s->hidden,
            s->head_width, s->ffn, s->n_types, s->vocab_size, s->n_positions, hs_model_bytes(model->model),
            hs_engine_products(model->engine), hs_engine_precision(model->engine));
        hs__buffer_text(b, text);
        if (atomic_load(&model->hashed))
            hs__json_string(b, model->sha256, strlen(model->sha256));
        else
            hs__buffer_text(b, "null");
        hs__buffer_text(b, "}");
    }
    hs__buffer_text(b, "]}");
}
