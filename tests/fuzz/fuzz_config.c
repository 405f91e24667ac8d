/* Whatever config.json says, it is refused, or its shape is within the limits that the engine relies on. */
#include "model/families/config.h"

#include <stdlib.h>

static void require(bool promise)
{
    if (!promise)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hs__family family = HS__BERT;
    hs_shape shape = {0};
    hs_error err = {0};
    hs_status st = hs__config_parse(&(hs_bytes){data, size}, &family, &shape, &err);
    require(st == err.status);
    if (st) {
        require(err.text[0] != '\0' && shape.n_layers == 0);
        return 0;
    }
    require(shape.n_layers >= 1 && shape.n_layers <= HS_LAYERS_MAX);
    require(shape.n_heads >= 1 && shape.n_heads <= HS_HEADS_MAX);
    require(shape.hidden >= 1 && shape.hidden <= HS_HIDDEN_MAX);
    require(shape.hidden == shape.n_heads * shape.head_width);
    require(shape.ffn >= 1 && shape.ffn <= HS_FFN_MAX);
    require(shape.n_positions >= 3 && shape.n_positions <= HS_POSITIONS_MAX);
    require(shape.vocab_size >= 1 && shape.vocab_size <= HS_VOCAB_MAX);
    require((family == HS__DISTILBERT) == (shape.n_types == 0));
    require(shape.layer_norm_eps > 0 && shape.layer_norm_eps <= 1);
    return 0;
}
