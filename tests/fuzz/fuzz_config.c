/* fuzz_config.c - config.json of any content is refused, or gives an architecture within the limits that the
 * engine relies on. So does what it says about writing a text. */
#include "model/families/family.h"
#include "tests/fuzz/fuzz.h"

enum { VOCAB_SIZE = 300 };

static void ids_check(const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        require(ids[i] >= 0 && ids[i] < VOCAB_SIZE);
}

static void generation_check(const hs_bytes *file)
{
    hs_generation g;
    hs__generation_read(file, "generation_config.json", VOCAB_SIZE, &g);
    if (*g.refusal)
        return;
    require(g.n_stops <= HS_STOPS_MAX && g.n_suppressed + g.n_begin_suppressed <= HS_SUPPRESSED_MAX);
    ids_check(g.stops, g.n_stops);
    ids_check(g.suppressed, g.n_suppressed + g.n_begin_suppressed);
    require(g.forced_first < VOCAB_SIZE && g.forced_last < VOCAB_SIZE && g.start_id < VOCAB_SIZE);
    require(g.n_bad_words <= HS_SUPPRESSED_MAX);
    for (size_t i = 0; i < g.n_bad_words; i++) /* no word is empty */
        require(g.bad_words[i] < VOCAB_SIZE && (g.bad_words[i] >= 0 || (i > 0 && g.bad_words[i - 1] >= 0)));
    require(g.n_bad_words == 0 || g.bad_words[g.n_bad_words - 1] == -1);
    require(g.repetition_penalty > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    generation_check(&(hs_bytes){data, size});
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
