/* models.c - headscope models: what models are, as their architectures tell it, without making an engine. */
#include "model/files/json.h"
#include "server/base/catalog.h"

#include "server/base/printable.h"
#include "server/commands/commands.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static const hs_option models_table[] = {
    {.name = "model",
     .argument = HS_MODEL_ARGUMENT,
     .help = "look at this one, repeatable (" HS_EMBEDDED_NAME ", built in)",
     .set = hs__add_model},
    {.name = "tokenizer", .argument = "DIR", .help = HS_TOKENIZER_HELP, .set = hs__set_operand_tokenizer},
};

/* "learned", "rotary": joined where there are several. */
static void positions_join(const hs_model *model, char ret[64])
{
    const char *names[HS_POSITION_SCHEMES];
    const size_t n = hs_model_positions(model, names);
    size_t used = 0;
    ret[0] = '\0';
    for (size_t i = 0; i < n && used < 64; i++)
        used += (size_t)snprintf(ret + used, 64 - used, "%s%s", i ? "+" : "", names[i]);
}

/* The largest window of a layer, or that there is none. */
static void window_write(const hs_model *model, char ret[32])
{
    const hs_architecture *architecture = hs_model_architecture(model);
    size_t window = 0;
    for (size_t i = 0; i < architecture->shape.n_layers; i++)
        window = architecture->layers[i].window > window ? architecture->layers[i].window : window;
    snprintf(ret, 32, window ? "%zu" : "-", window);
}

/* Prints the prompts of a sentence encoder, a line each, as JSON strings. */
static hs_status prompts_print(const hs_sentence_head *head, hs_error *err)
{
    for (size_t i = 0; i < head->n_prompts; i++) {
        json_t *pair[] = {json_string(head->prompts[i].name), json_string(head->prompts[i].text)};
        char *name = hs_json_text(pair[0], JSON_ENCODE_ANY), *text = hs_json_text(pair[1], JSON_ENCODE_ANY);
        if (name && text)
            hs__print(stdout, "  prompt %s%s: %s\n", name, i == head->default_prompt ? " (default)" : "",
                      text);
        const bool done = name && text;
        free(name);
        free(text);
        json_decref(pair[0]);
        json_decref(pair[1]);
        if (!done)
            return hs_fail(err, HS_NO_MEMORY, "out of memory");
    }
    return HS_OK;
}

static void header_print(void)
{
    printf("%-24s %-11s %-14s %6s %5s %6s %6s %-9s %6s %-3s %-20s %6s %7s %8s  %s\n", "NAME", "TYPE",
           "TOKENIZER", "LAYERS", "HEADS", "HIDDEN", "TOKENS", "POSITIONS", "WINDOW", "MLM", "TASK", "LABELS",
           "VOCAB", "MB", "WHERE");
}

/* Prints the model, below a header if it is the first. Without an engine: nothing is packed, so this is quick
 * for any model. */
static hs_status model_print(const hs_model_place *place, bool is_first, hs_error *err)
{
    hs_model *model = NULL;
    char positions[64], window[32];
    hs_status st = hs__model_place_open(place, &model, err);
    if (st)
        return st;
    const hs_shape *s = hs_model_shape(model);
    positions_join(model, positions);
    window_write(model, window);
    if (is_first)
        header_print();
    hs__print(
        stdout, "%-24s %-11s %-14s %6zu %5zu %6zu %6zu %-9s %6s %-3s %-20s %6zu %7zu %8.1f  %.*s\n",
        place->name, hs_model_architecture(model)->family, hs_tokenizer_kind(hs_model_tokenizer(model)),
        s->n_layers, s->n_heads, s->hidden, s->n_positions, positions, window,
        hs_model_predicts_masks(model) ? "yes" : "no", hs_model_task(model) ? hs_model_task(model) : "-",
        hs_model_architecture(model)->task_head.labels ? hs_model_architecture(model)->task_head.n_classes
                                                       : 0,
        s->vocab_size, (double)hs_model_bytes(model) / 1e6, place->n_dir ? (int)place->n_dir : 10,
        place->n_dir ? place->dir : "(built in)");
    st = prompts_print(&hs_model_architecture(model)->sentence, err);
    hs_model_close(model);
    return st;
}

static hs_status folder_print(const char *folder, const char *tokenizer, bool is_first, hs_error *err)
{
    hs_catalog_options one = {.tokenizer = tokenizer};
    const hs_status st = hs__catalog_choose(&one, folder, err);
    return st ? st : model_print(hs__catalog_place(&one, 0), is_first, err);
}

/* The folders that were named, and those of --model; the embedded model when there are none. */
static hs_status models_print(const hs_catalog_options *options, char **folders, hs_error *err)
{
    const size_t n = *folders && options->n_places == 0 ? 0 : hs__catalog_places(options);
    hs_status st = HS_OK;
    for (char **folder = folders; !st && *folder; folder++)
        st = folder_print(*folder, options->tokenizer, folder == folders, err);
    for (size_t i = 0; !st && i < n; i++)
        st = model_print(hs__catalog_place(options, i), !*folders && i == 0, err);
    return st;
}

static int models_main(const hs_command *command, int argc, char **argv)
{
    hs_catalog_options options = {0};
    int operand, exit_code;
    hs_error err = {0};
    if (!hs__options_parse(command, argc, argv, &options, &operand, &exit_code))
        return exit_code;
    if (options.tokenizer && argc - operand != 1)
        return hs__usage_error(
            command,
            "--tokenizer '%s': expected with one folder, or behind its own: --model DIR --tokenizer %s",
            options.tokenizer, options.tokenizer);
    if (models_print(&options, argv + operand, &err))
        return hs__command_failed(command, &err);
    return HS_EXIT_DONE;
}

const hs_command hs__command_models = {
    .name = "models",
    .operands = "[[NAME=]DIR...]",
    .operand_words = "dir|folder|path",
    .operand_option = "model",
    .operand_help = "name folders without an option",
    .summary = "Lists models: type, tokenizer, layers, heads, sizes",
    .options = models_table,
    .n_options = sizeof models_table / sizeof *models_table,
    .main = models_main,
};
