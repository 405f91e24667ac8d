#include "server/base/catalog.h"
#include "server/commands/commands.h"

#include <stdio.h>

typedef struct models_options {
    hs_catalog_options catalog;
} models_options;

static hs_status set_model(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    models_options *options = ret;
    (void)option;
    return hs__catalog_add(&options->catalog, value, err);
}

static const hs_option models_table[] = {
    {"model", 0, "NAME=DIR", "look at this one, repeatable (" HS_EMBEDDED_NAME ", built in)", set_model, 0, 0,
     0, NULL},
};

/* Without an engine: nothing is packed, so this is quick for any model. */
static hs_status model_print(const hs_model_place *place, hs_error *err)
{
    hs_model *model = NULL;
    hs_status st = hs__model_place_open(place, &model, err);
    if (st)
        return st;
    const hs_shape *s = hs_model_shape(model);
    printf("%-24.*s %-10s %6zu %5zu %6zu %6zu %7zu %8.1f  %.*s\n", (int)place->n_name, place->name,
           hs_model_recipe(model)->family, s->n_layers, s->n_heads, s->hidden, s->n_positions, s->vocab_size,
           (double)hs_model_bytes(model) / 1e6, place->n_dir ? (int)place->n_dir : 10,
           place->n_dir ? place->dir : "(built in)");
    hs_model_close(model);
    return HS_OK;
}

static int models_main(const hs_command *command, int argc, char **argv)
{
    models_options options = {0};
    int operand, exit_code;
    hs_error err = {0};
    if (!hs__options_parse(command, argc, argv, &options, &operand, &exit_code))
        return exit_code;
    if (operand < argc)
        return hs__usage_error(command, "there is nothing to do with '%s'", argv[operand]);
    printf("%-24s %-10s %6s %5s %6s %6s %7s %8s  %s\n", "NAME", "TYPE", "LAYERS", "HEADS", "HIDDEN", "TOKENS",
           "VOCAB", "MB", "WHERE");
    const size_t n = hs__catalog_places(&options.catalog);
    for (size_t i = 0; i < n; i++)
        if (model_print(hs__catalog_place(&options.catalog, i), &err))
            return hs__command_failed(command, &err);
    return HS_EXIT_DONE;
}

const hs_command hs__command_models = {
    .name = "models",
    .operands = "",
    .summary = "Lists models: type, layers, heads, sizes",
    .options = models_table,
    .n_options = sizeof models_table / sizeof *models_table,
    .main = models_main,
};
