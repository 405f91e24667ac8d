/* fuzz_config.c - config.json of any content is refused, or gives an architecture within the limits that the
 * engine relies on. */
#include "model/families/family.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const hs__family *family = NULL;
    hs_architecture architecture = {0};
    hs_error err = {0};
    hs_status st = hs__family_configure(&(hs_bytes){data, size}, &family, &architecture, &err);
    require(st == err.status);
    if (st) {
        require(err.text[0] != '\0' && architecture.shape.n_layers == 0);
        return 0;
    }
    require(architecture.shape.n_layers >= 1 && architecture.shape.n_layers <= HS_LAYERS_MAX);
    require(architecture.shape.n_heads >= 1 && architecture.shape.n_heads <= HS_HEADS_MAX);
    require(architecture.shape.hidden >= 1 && architecture.shape.hidden <= HS_HIDDEN_MAX);
    const size_t width = hs_shape_attention_width(&architecture.shape); /* not always the hidden one */
    require(width >= architecture.shape.n_heads && width <= HS_HIDDEN_MAX);
    require(architecture.shape.ffn >= 1 && architecture.shape.ffn <= HS_FFN_MAX);
    require(architecture.shape.n_positions >= 3 && architecture.shape.n_positions <= HS_POSITIONS_MAX);
    require(architecture.shape.vocab_size >= 1 && architecture.shape.vocab_size <= HS_VOCAB_MAX);
    require(architecture.shape.n_types <= 256);
    require(architecture.embedding.width >= 1 && architecture.embedding.width <= HS_HIDDEN_MAX);
    require(architecture.embedding.position_offset <= HS_POSITIONS_MAX);
    require(architecture.family && family);
    for (size_t i = 0; i < architecture.shape.n_layers; i++)
        require(architecture.layers[i].same_as <= i);
    const hs_rotary *rotary = &architecture.rotary;
    require(rotary->width <= architecture.shape.head_width);
    for (size_t m = 0; rotary->divisors && m < rotary->width; m++)
        require(rotary->divisors[m] > 0);
    require(architecture.norm_eps > 0 && architecture.norm_eps <= 1);
    hs__family_release(&architecture);
    return 0;
}
