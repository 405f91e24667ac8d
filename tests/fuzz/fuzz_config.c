/* Whatever config.json says, it is refused, or the recipe is within the limits that the engine relies on. */
#include "model/families/family.h"

#include <stdlib.h>

static void require(bool promise)
{
    if (!promise)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const hs__family *family = NULL;
    hs_recipe recipe = {0};
    hs_error err = {0};
    hs_status st = hs__family_configure(&(hs_bytes){data, size}, &family, &recipe, &err);
    require(st == err.status);
    if (st) {
        require(err.text[0] != '\0' && recipe.shape.n_layers == 0);
        return 0;
    }
    require(recipe.shape.n_layers >= 1 && recipe.shape.n_layers <= HS_LAYERS_MAX);
    require(recipe.shape.n_heads >= 1 && recipe.shape.n_heads <= HS_HEADS_MAX);
    require(recipe.shape.hidden >= 1 && recipe.shape.hidden <= HS_HIDDEN_MAX);
    require(recipe.shape.hidden == recipe.shape.n_heads * recipe.shape.head_width);
    require(recipe.shape.ffn >= 1 && recipe.shape.ffn <= HS_FFN_MAX);
    require(recipe.shape.n_positions >= 3 && recipe.shape.n_positions <= HS_POSITIONS_MAX);
    require(recipe.shape.vocab_size >= 1 && recipe.shape.vocab_size <= HS_VOCAB_MAX);
    require(recipe.shape.n_types <= 256);
    require(recipe.embedding.width >= 1 && recipe.embedding.width <= HS_HIDDEN_MAX);
    require(recipe.embedding.position_offset <= HS_POSITIONS_MAX);
    require(recipe.family && family);
    for (size_t i = 0; i < recipe.shape.n_layers; i++)
        require(recipe.layers[i].same_as <= i);
    require(recipe.norm_eps > 0 && recipe.norm_eps <= 1);
    free(recipe.layers);
    return 0;
}
