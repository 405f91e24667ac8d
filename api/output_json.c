/* output_json.c - JSON functions that several structures use. */
#include "api/output_structures.h"

#include <string.h>

void hs__json_token(hs__buffer *b, const hs__answer *a, size_t i)
{
    const char *token = hs__answer_token(a, i);
    hs__json_string(b, token, strlen(token));
}

void hs__json_heads(hs__buffer *b, const hs__answer *a, const void *result,
                    void (*write)(hs__buffer *b, const hs__answer *a, const void *result, size_t at))
{
    hs__buffer_add(b, "[", 1);
    for (size_t l = 0; l < a->analysis->n_layers; l++) {
        hs__json_comma(b, l);
        hs__buffer_add(b, "[", 1);
        for (size_t h = 0; h < a->analysis->n_heads; h++) {
            hs__json_comma(b, h);
            write(b, a, result, l * a->analysis->n_heads + h);
        }
        hs__buffer_add(b, "]", 1);
    }
    hs__buffer_add(b, "]", 1);
}
