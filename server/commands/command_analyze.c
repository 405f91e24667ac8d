/* command_analyze.c - headscope analyze and plot: one text on the command line, as a page, JSON, arrays or a
 * figure. */
#include "api/request/texts.h"
#include "model/base/utf8.h"
#include "model/files/json.h"
#include "model/tokenizer/tokenizer.h"
#include "server/base/atomic_files.h"
#include "server/base/catalog.h"
#include "server/base/machine.h"
#include "server/base/printable.h"
#include "server/base/system_errors.h"
#include "server/commands/commands.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- answer page ----
 *
 * A text's heads on one screen. The map is a character a cell: enough to see a diagonal or a
 * column, for which a picture in the viewer is the next step. */

/* an answer of /analyze as a page for a terminal: the tokens, an attention map for each
 * requested layer, the strongest pairs, and predictions. */

enum { PAIRS_SHOWN = 12, TOKENS_SHOWN = 48, LABEL = 14 };

/* Fields that the page needs are set in a request without outputs. False: it did, and
 * its answer is for machines. */
static bool answer_page_ask(json_t *fields)
{
    if (json_object_get(fields, "outputs") || json_object_get(fields, "reduce"))
        return false;
    json_object_set_new(fields, "outputs", json_pack("[ss]", "attentions", "pairs"));
    json_object_set_new(fields, "reduce", json_string("mean"));
    if (!json_object_get(fields, "max_pairs"))
        json_object_set_new(fields, "max_pairs", json_integer(1000000));
    return true;
}

/* Shares of a head's profile that a page opens on, and where this attention goes. The sinks of many heads,
 * the first token and separators, would say nothing about the text. */
static const struct {
    const char *share, *target;
} tellings[] = {
    {.share = "previous", .target = "to the token before"},
    {.share = "next", .target = "to the token after"},
    {.share = "same_token", .target = "to the same token elsewhere"},
    {.share = "punctuation", .target = "to full stops, commas and the like"},
};

/* A head with the largest of these shares. */
typedef struct telling_head {
    size_t layer, head, n_heads; /* n_heads: of the model */
    double share;
    const char *target; /* NULL: there is none */
} telling_head;

enum { TELLING_PERCENT_LEAST = 30 };

/* Finds it in the profiles of all heads. */
static telling_head telling_find(const json_t *profiles)
{
    telling_head best = {.share = TELLING_PERCENT_LEAST / 100.0};
    size_t layer, head;
    const json_t *heads, *profile;
    json_array_foreach(profiles, layer, heads)
    {
        json_array_foreach(heads, head, profile)
        {
            best.n_heads++;
            for (size_t i = 0; i < sizeof tellings / sizeof *tellings; i++) {
                const double share = json_number_value(json_object_get(profile, tellings[i].share));
                if (share > best.share)
                    best = (telling_head){layer, head, best.n_heads, share, tellings[i].target};
            }
        }
    }
    return best;
}

static void print_telling(const telling_head *telling, FILE *out)
{
    if (telling->target)
        fprintf(out,
                "Layer %zu, head %zu gives %.0f %% of its attention %s: the clearest of %zu heads.\nOthers: "
                "--layers and --heads.\n\n",
                telling->layer, telling->head, 100 * telling->share, telling->target, telling->n_heads);
}

static const char *label_of(const json_t *tokens, size_t i)
{
    const char *token = json_string_value(json_array_get(tokens, i));
    return token ? token : "";
}

static const char *token_at(const json_t *answer, size_t i)
{
    return label_of(json_object_get(answer, "tokens"), i);
}

/* The tokens of the columns of maps: of cross heads those of the encoder's text. */
static const json_t *column_tokens(const json_t *answer)
{
    const char *stack = json_string_value(json_object_get(answer, "stack"));
    return json_object_get(answer, stack && strcmp(stack, "cross") == 0 ? "source_tokens" : "tokens");
}

/* Prints at most n_most characters of a token, without unprintable ones. Returns how many. */
static int print_clipped(FILE *out, const char *token, int n_most)
{
    int n = 0;
    for (const char *c = token; *c; c++) {
        const size_t hidden = hs__unprintable(c);
        if (!hs_utf8_continues((unsigned char)*c) && ++n > n_most)
            return n_most;
        if (!hidden)
            fputc(*c, out);
        c += hidden ? hidden - 1 : 0;
    }
    return n;
}

static void print_plain(FILE *out, const char *token)
{
    (void)print_clipped(out, token, INT_MAX);
}

/* Prints a token in a column of LABEL characters. */
static void print_label(FILE *out, const char *token)
{
    fprintf(out, "%*s", LABEL - print_clipped(out, token, LABEL), "");
}

/* The answer's tokens become those that people read. */
static void tokens_translate(json_t *tokens, const char *tokenizer)
{
    size_t i;
    json_t *token;
    json_array_foreach(tokens, i, token)
    {
        char text[128];
        hs_token_readable(tokenizer, json_string_value(token), text, sizeof text);
        json_string_set(token, text);
    }
}

static double cell(const json_t *map, size_t i, size_t j)
{
    return json_number_value(json_array_get(json_array_get(map, i), j));
}

static double largest(const json_t *map, size_t n_rows, size_t n_columns)
{
    double most = 1e-30;
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = 0; j < n_columns; j++)
            most = fmax(most, cell(map, i, j));
    return most;
}

/* Prints "layer 1", "heads 2 and 3" or "heads 0, 2 and 3". */
static void print_numbers(FILE *out, const char *what, const json_t *numbers)
{
    const size_t n = json_array_size(numbers);
    fprintf(out, "%s%s ", what, n > 1 ? "s" : "");
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%s%lld",
                i == 0      ? ""
                : i + 1 < n ? ", "
                            : " and ",
                (long long)json_integer_value(json_array_get(numbers, i)));
}

/* Returns true if the request names heads, so that an answer's heads may not be all of the model's. */
static bool names_heads(const json_t *fields)
{
    return json_is_array(json_object_get(fields, "heads"));
}

/* Prints whose mean a map is: "head 2", "mean of heads 2 and 3" or "mean of all 12 heads". */
static void print_heads(FILE *out, const json_t *answer, const json_t *fields)
{
    const json_t *heads = json_object_get(answer, "heads");
    if (json_array_size(heads) > 1)
        fputs("mean of ", out);
    if (json_array_size(heads) > 1 && !names_heads(fields))
        fprintf(out, "all %zu heads", json_array_size(heads));
    else
        print_numbers(out, "head", heads);
}

/* Prints a row's weights, and behind those of a cross head the column with the largest. */
static void print_row(const json_t *map, size_t i, const json_t *columns, bool cross, double most, FILE *out)
{
    static const char *const shades[] = {" ", "\xE2\x96\x91", "\xE2\x96\x92", "\xE2\x96\x93", "\xE2\x96\x88"};
    const size_t n_columns = json_array_size(columns);
    size_t best = 0;
    fputs(" |", out);
    for (size_t j = 0; j < n_columns; j++) {
        if (cell(map, i, j) > cell(map, i, best))
            best = j;
        if (j >= TOKENS_SHOWN)
            continue;
        /* The square root, as in the viewer, shows small weights. */
        const int shade = (int)floor(sqrt(cell(map, i, j) / most) * 4.99);
        fprintf(out, "%s%s", shades[shade], shades[shade]);
    }
    fputs(cross ? "| " : "|", out);
    if (cross) {
        print_label(out, label_of(columns, best));
        fprintf(out, " %3zu  %.2f", best, cell(map, i, best));
    }
    fputc('\n', out);
}

/* Prints the map of the layer at index l of the answer. */
static void print_map(const json_t *answer, const json_t *fields, size_t l, size_t n_tokens, FILE *out)
{
    const json_t *maps = json_object_get(answer, "attentions"),
                 *map = json_array_get(json_array_get(maps, l), 0), *columns = column_tokens(answer);
    const bool cross = columns != json_object_get(answer, "tokens");
    const size_t n_columns = json_array_size(columns), n = n_tokens < TOKENS_SHOWN ? n_tokens : TOKENS_SHOWN,
                 m = n_columns < TOKENS_SHOWN ? n_columns : TOKENS_SHOWN;
    const double most = largest(map, n, m);
    fprintf(out, "Attention of layer %d, ",
            (int)json_integer_value(json_array_get(json_object_get(answer, "layers"), l)));
    print_heads(out, answer, fields);
    fputs(cross ? ". Rows, the target's tokens, attend to columns, the text's" : ". Rows attend to columns",
          out);
    fprintf(out, "; the darkest cell is %.2f.%s%s\n\n", most,
            cross ? " Behind each row: its strongest column." : "",
            n < n_tokens || m < n_columns ? " Only the first tokens are shown." : "");
    for (size_t i = 0; i < n; i++) {
        print_label(out, token_at(answer, i));
        print_row(map, i, columns, cross, most, out);
    }
    fputc('\n', out);
}

/* ---- pairs ---- */
static bool is_special(const json_t *answer, size_t i)
{
    return json_integer_value(json_array_get(json_object_get(answer, "special_tokens_mask"), i)) != 0;
}

static void print_pair(const json_t *answer, size_t i, size_t j, FILE *out)
{
    fprintf(out, "   %4zu ", i);
    print_label(out, token_at(answer, i));
    fprintf(out, " %4zu ", j);
    print_label(out, token_at(answer, j));
    fputc('\n', out);
}

/* Prints the pairs of the only head, which the answer lists by similarity. */
static void print_pairs_of_head(const json_t *answer, FILE *out)
{
    const json_t *pairs = json_object_get(answer, "pairs");
    size_t n_shown = 0;
    fputs("Pairs of similar tokens in ", out);
    print_numbers(out, "layer", json_object_get(answer, "layers"));
    fputs(", ", out);
    print_numbers(out, "head", json_object_get(answer, "heads"));
    fputs(", and how similar they are, relative to the head's most similar pair:\n\n", out);
    for (size_t p = 0; p < json_array_size(pairs) && n_shown < PAIRS_SHOWN; p++) {
        const json_t *pair = json_array_get(pairs, p);
        const size_t i = (size_t)json_integer_value(json_object_get(pair, "i"));
        const size_t j = (size_t)json_integer_value(json_object_get(pair, "j"));
        if (is_special(answer, i) || is_special(answer, j))
            continue;
        fprintf(out, "  %4.2f", json_number_value(json_object_get(pair, "normalized")));
        print_pair(answer, i, j, out);
        n_shown++;
    }
    if (n_shown == 0)
        fputs("  none\n", out);
}

/* Counts for each two positions the heads that find them similar: [n][n], above the diagonal. NULL without
 * memory. */
static unsigned *heads_count(const json_t *pairs, size_t n_tokens)
{
    unsigned *counts = calloc(n_tokens * n_tokens, sizeof *counts);
    for (size_t p = 0; counts && p < json_array_size(pairs); p++) {
        const json_t *pair = json_array_get(pairs, p);
        const json_int_t i = json_integer_value(json_object_get(pair, "i"));
        const json_int_t j = json_integer_value(json_object_get(pair, "j"));
        counts[(size_t)i * n_tokens + (size_t)j]++;
    }
    return counts;
}

/* Every head's strongest pair has the similarity 1, so pairs are ranked by the heads that agree on them. */
static hs_status print_pairs_of_heads(const json_t *answer, size_t n_heads, size_t n_tokens, FILE *out,
                                      hs_error *err)
{
    unsigned *counts = heads_count(json_object_get(answer, "pairs"), n_tokens);
    if (!counts)
        return hs_fail(err, HS_NO_MEMORY, "no memory to show the answer");
    fprintf(out, "Pairs of similar tokens, and how many of the %zu heads of ", n_heads);
    print_numbers(out, "layer", json_object_get(answer, "layers"));
    fputs(" find them similar:\n\n", out);
    for (size_t shown = 0; shown < PAIRS_SHOWN; shown++) {
        size_t best = 0;
        for (size_t k = 1; k < n_tokens * n_tokens; k++)
            if (counts[k] > counts[best] && !is_special(answer, k / n_tokens) &&
                !is_special(answer, k % n_tokens))
                best = k;
        if (!counts[best]) {
            fputs(shown ? "" : "  none\n", out);
            break;
        }
        fprintf(out, "  %4u", counts[best]);
        print_pair(answer, best / n_tokens, best % n_tokens, out);
        counts[best] = 0;
    }
    free(counts);
    return HS_OK;
}

static hs_status print_pairs(const json_t *answer, size_t n_tokens, FILE *out, hs_error *err)
{
    const size_t n_heads = json_array_size(json_object_get(answer, "layers")) *
                           json_array_size(json_object_get(answer, "heads"));
    if (n_heads != 1)
        return print_pairs_of_heads(answer, n_heads, n_tokens, out, err);
    print_pairs_of_head(answer, out);
    return HS_OK;
}

/* ---- predictions ---- */

/* Prints "\"york\" 0.830, ..." from the list of most probable tokens. */
static void print_top(const json_t *top, size_t n_most, const char *tokenizer, FILE *out)
{
    for (size_t k = 0; k < json_array_size(top) && k < n_most; k++) {
        const json_t *one = json_array_get(top, k);
        char text[128];
        hs_token_readable(tokenizer, json_string_value(json_object_get(one, "token")), text, sizeof text);
        fputs(k ? ", \"" : "\"", out);
        print_plain(out, text);
        fprintf(out, "\" %.3f", json_number_value(json_object_get(one, "probability")));
    }
    fputc('\n', out);
}

/* Prints the lens: predictions from the embeddings, then from the states after each layer. */
static void print_lens(const json_t *layers, const char *tokenizer, FILE *out)
{
    for (size_t l = 0; l < json_array_size(layers); l++) {
        if (l == 0)
            fputs("       embeddings     ", out);
        else
            fprintf(out, "       after layer %-3zu", l - 1);
        print_top(json_object_get(json_array_get(layers, l), "top"), 3, tokenizer, out);
    }
}

static void print_predictions(const json_t *answer, const char *tokenizer, FILE *out)
{
    const json_t *predictions = json_object_get(answer, "predictions");
    if (!predictions)
        return;
    fputs(json_object_get(answer, "source_tokens")
              ? "\nThe target's next token after each, and probabilities:\n\n"
              : "\nPredicted tokens and their probabilities:\n\n",
          out);
    if (json_array_size(predictions) == 0)
        fputs("  none: the text has no mask token; \"positions\" may name other tokens\n", out);
    for (size_t i = 0; i < json_array_size(predictions); i++) {
        const json_t *prediction = json_array_get(predictions, i),
                     *layers = json_object_get(prediction, "layers");
        const size_t position = (size_t)json_integer_value(json_object_get(prediction, "position"));
        fprintf(out, "  %4zu ", position);
        print_label(out, token_at(answer, position));
        fputc(' ', out);
        print_top(json_object_get(prediction, "top"), SIZE_MAX, tokenizer, out);
        print_lens(layers, tokenizer, out);
    }
}

/* ---- the page ---- */

/* Says that the figures are of a changed pass, and of which. */
static void print_interventions(const json_t *fields, FILE *out)
{
    const json_t *interventions = json_object_get(fields, "interventions");
    if (json_array_size(interventions) == 0)
        return;
    fputs("This pass is changed (--interventions); every figure below is of the changed pass:\n", out);
    for (size_t i = 0; i < json_array_size(interventions); i++) {
        char *text = hs_json_text(json_array_get(interventions, i), JSON_COMPACT | JSON_ENSURE_ASCII);
        fprintf(out, "  %s\n", text ? text : "");
        free(text);
    }
    fputc('\n', out);
}

/* Says that similarities are centred. */
static void print_center(const json_t *fields, FILE *out)
{
    const char *center = json_string_value(json_object_get(fields, "center"));
    if (center && strcmp(center, "text") == 0)
        fputs("Similarities are of centred outputs (--center text): each head's mean over the text is taken "
              "away.\n\n",
              out);
}

/* Prints which part of the text the page is about, if it is not the whole. */
static void print_part(const json_t *answer, FILE *out)
{
    const json_int_t n_windows = json_integer_value(json_object_get(answer, "windows"));
    const json_t *window = json_object_get(answer, "window");
    if (window)
        hs__print(out, ", window %lld of 0 to %lld",
                  (long long)json_integer_value(json_object_get(window, "index")), (long long)n_windows - 1);
    else if (json_is_true(json_object_get(answer, "truncated")))
        hs__print(out, ", the text was cut (--max-tokens; --window 1 has its next part)");
}

static void print_tokens(const json_t *tokens, FILE *out)
{
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        fputs(i ? " " : "", out);
        print_plain(out, label_of(tokens, i));
    }
    fputc('\n', out);
}

/* Prints the model, whose heads the page shows, and the tokens of its texts. */
static void print_texts(const json_t *answer, size_t n_tokens, FILE *out)
{
    const json_t *source = json_object_get(answer, "source_tokens");
    size_t n_written = 0, i;
    const json_t *written;
    json_array_foreach(json_object_get(answer, "generated"), i, written) n_written +=
        json_integer_value(written) != 0;
    hs__print(out, "%s", json_string_value(json_object_get(answer, "model")));
    if (source)
        hs__print(out, ", %s heads: %zu tokens of the text, %zu of the target",
                  json_string_value(json_object_get(answer, "stack")), json_array_size(source), n_tokens);
    else
        hs__print(out, ": %zu tokens", n_tokens);
    if (n_written)
        hs__print(out, ", the last %zu written by the model", n_written);
    print_part(answer, out);
    fputs(source ? "\nText:   " : "\n", out);
    if (source)
        print_tokens(source, out);
    fputs(source ? "Target: " : "", out);
    print_tokens(json_object_get(answer, "tokens"), out);
    fputc('\n', out);
}

/* Prints the JSON answer to such a request, whose fields describe the request. telling is the head that it
 * opens on. tokenizer is hs_tokenizer_kind's: it makes tokens readable. Fails with HS_NO_MEMORY if the page
 * lacks something. */
static hs_status answer_page_print(const json_t *answer, const json_t *fields, const telling_head *telling,
                                   const char *tokenizer, FILE *out, hs_error *err)
{
    const size_t refusals = hs_json_refusals();
    tokens_translate(json_object_get(answer, "tokens"), tokenizer);
    tokens_translate(json_object_get(answer, "source_tokens"), tokenizer);
    const size_t n_tokens = json_array_size(json_object_get(answer, "tokens"));
    assert(n_tokens > 0); /* an empty text has its two special tokens */
    print_texts(answer, n_tokens, out);
    print_interventions(fields, out);
    print_center(fields, out);
    print_telling(telling, out);
    for (size_t l = 0; l < json_array_size(json_object_get(answer, "layers")); l++)
        print_map(answer, fields, l, n_tokens, out);
    const hs_status st = print_pairs(answer, n_tokens, out, err);
    print_predictions(answer, tokenizer, out);
    fputs("\nFor programs: --format json, or -o heads.npz. For the eye: headscope serve.\n", out);
    return st || hs_json_refusals() == refusals ? st
                                                : hs_fail(err, HS_NO_MEMORY, "no memory to show the answer");
}

/* ---- command analyze ----
 *
 * `headscope analyze` and `headscope plot`: options become the fields of a request, by
 * the api's own table of them, and the answer is written as it is. */

#define TEXT_BYTES_MAX ((size_t)256 << 20)
#define FIGURE_MEMBERS "/figure/" /* each is an option of plot */

typedef struct analyze_options {
    hs_catalog_options catalog;
    json_t *fields;  /* the request's, without its text */
    size_t refusals; /* hs_json_refusals before the first field */
    const char *format, *names, *output;
    const char *data;      /* a file for the numbers of the figure, or NULL */
    bool plots;            /* the command is plot: the answer is a figure */
    bool for_a_person;     /* the answer is a page on the terminal */
    telling_head telling;  /* that the page opens on, if no layers and heads were chosen */
    const char *tokenizer; /* the kind of the model's, static */
} analyze_options;

/* Sets a field, or a member of the field figure, in the JSON object that holds it. */
static hs_status json_set(json_t *object, const hs_field *field, const char *value, hs_error *err)
{
    json_t *json = hs_field_json(field, value, err);
    if (!json || json_object_set_new(object, field->name, json) == 0)
        return err->status;
    return hs_fail(err, HS_NO_MEMORY, "there is no memory for it");
}

/* Sets the request's field of the option's name. */
static hs_status set_field(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    analyze_options *options = ret;
    char name[64];
    return json_set(options->fields, hs_field_find(hs__name_with(option->name, '-', '_', name)), value, err);
}

/* Sets the member of the field figure that has the option's name. */
static hs_status set_figure(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    const analyze_options *options = ret;
    char name[64];
    size_t i = 0;
    hs__name_with(option->name, '-', '_', name);
    while (strcmp(hs_figure_field_at(i)->name, name) != 0)
        i++;
    return json_set(json_object_get(options->fields, "figure"), hs_figure_field_at(i), value, err);
}

#define FIGURE_ENDINGS "svg|pdf|png|csv" /* the formats' names too, as those below */
#define OUTPUT_ENDINGS "json|npz|safetensors|" FIGURE_ENDINGS
#define AT(field)      offsetof(analyze_options, field)

/* Options that are no fields of the request. */
static const hs_option own_options[] = {
    {.name = "model",
     .argument = HS_MODEL_ARGUMENT,
     .help = HS_MODEL_HELP,
     .set = hs__set_model,
     .offset = AT(catalog)},
    {.name = "tokenizer",
     .argument = "DIR",
     .help = HS_TOKENIZER_HELP,
     .set = hs__set_tokenizer,
     .offset = AT(catalog)},
    {.name = "untrained",
     .argument = "SEED",
     .help = HS_UNTRAINED_HELP,
     .set = hs__set_untrained,
     .offset = AT(catalog)},
    {.name = "format",
     .argument = "FORMAT",
     .help = "json, npz, safetensors, svg, pdf, png or csv (by FILE's ending, else json)",
     .set = hs__set_choice,
     .offset = AT(format),
     .choices = OUTPUT_ENDINGS},
    {.name = "names",
     .argument = "NAMES",
     .help = "of binary arrays: hooks, as TransformerLens has them, one a layer",
     .set = hs__set_choice,
     .offset = AT(names),
     .choices = "hooks"},
    {.name = "output",
     .letter = 'o',
     .argument = "FILE",
     .help = "write there instead of standard output",
     .set = hs__set_string,
     .offset = AT(output)},
    {.name = "max-maps",
     .argument = "BYTES",
     .help = "maps in memory while the answer is computed (1G)",
     .set = hs__set_bytes,
     .offset = AT(catalog.api.capture_bytes_max),
     .min = 1 << 20,
     .max = 1024.0 * (1 << 30)},
    {.name = "backend",
     .argument = "NAME",
     .help = "matrix products: native, or cblas, which loads OpenBLAS (native)",
     .set = hs__set_choice,
     .offset = AT(catalog.backend),
     .choices = HS_BACKEND_NAMES},
    {.name = "precision",
     .argument = "NAME",
     .help = "of matrix products: fp32, or int24, bf16 or int8 where the CPU has it (fp32)",
     .set = hs__set_choice,
     .offset = AT(catalog.precision),
     .choices = HS_PRECISION_NAMES},
};

/* The options that --help shows before the fields: --model and those of it. */
enum { N_OWN = sizeof own_options / sizeof *own_options, N_FIRST = 3 };

static const hs_option data_option = {
    "data", 0, "FILE", "write the figure's numbers there too, as CSV", hs__set_string, AT(data), 0, 0, NULL};

/* Writes "Outputs: ..." in lines of a hundred characters. */
static const char *list_outputs(char *ret, size_t n_ret)
{
    char *to = ret, *const end = ret + n_ret;
    size_t column = 8;
    to += snprintf(to, (size_t)(end - to), "Outputs:");
    for (size_t i = 0; hs_output_name(i) && to < end; i++) {
        const char *name = hs_output_name(i);
        const bool wraps = column + strlen(name) > 98;
        to += snprintf(to, (size_t)(end - to), "%s%s%s", i ? "," : "", wraps ? "\n         " : " ", name);
        column = (wraps ? 8 : column) + strlen(name) + 2;
    }
    if (to < end)
        snprintf(to, (size_t)(end - to),
                 ".\nThe answer is that of POST /analyze; on a terminal, unless outputs or a format are "
                 "given,\na page to read.");
    return ret;
}

/* Returns true if plot leaves the field or option out: a figure determines it, or does not depend on it. */
static bool figure_determines(const char *name)
{
    static const char *const names[] = {"outputs",       "max_pairs", "reduce",         "digits",
                                        "dtype",         "figure",    "names",          "format",
                                        "head_scores",   "normalize", "special_tokens", "sentence_ends",
                                        "interventions", "pool",      "rows",           "columns"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void table_fill(hs__option_table *table, bool plots)
{
    for (size_t i = 0; i < N_FIRST; i++)
        hs__option_add(table, &own_options[i]);
    for (size_t i = 0; plots && hs_figure_field_at(i); i++)
        hs__option_add_field(table, hs_figure_field_at(i), set_figure, 0);
    if (plots)
        hs__option_add(table, &data_option);
    for (size_t i = 0; hs_field_at(i); i++)
        if (strcmp(hs_field_at(i)->name, "text") != 0 && /* the operand */
            !(plots && figure_determines(hs_field_at(i)->name)))
            hs__option_add_field(table, hs_field_at(i), set_field, 0);
    for (size_t i = N_FIRST; i < N_OWN; i++)
        if (!(plots && figure_determines(own_options[i].name)))
            hs__option_add(table, &own_options[i]);
}

/* Drops a byte order mark, and the line feed of the last line, such as echo writes. They belong to the file,
 * not to its text, and causal models have tokens for them. Returns what is left of n bytes. */
static size_t text_trim(char *text, size_t n)
{
    static const char mark[] = "\xef\xbb\xbf";
    const size_t n_mark = sizeof mark - 1;
    if (n >= n_mark && memcmp(text, mark, n_mark) == 0) {
        n -= n_mark;
        memmove(text, text + n_mark, n);
    }
    if (n > 0 && text[n - 1] == '\n')
        n -= n > 1 && text[n - 2] == '\r' ? 2 : 1;
    return n;
}

/* Returns true if a name of no file is a mistyped one and no text: a single word with a folder or an ending,
 * such as "texts/a" or "a.txt". */
static bool looks_like_a_file(const char *operand)
{
    const char *dot = strrchr(operand, '.');
    return !strpbrk(operand, " \t\n") &&
           (strchr(operand, '/') || (dot && dot > operand && isalnum((unsigned char)dot[1])));
}

/* Reads the text of a file, or of standard input for NULL and "-". An operand that names no file is the text.
 * *ret_text is malloc'ed. */
static hs_status text_read(const char *path, char **ret_text, size_t *ret_n_bytes, hs_error *err)
{
    const bool standard = !path || strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    size_t capacity = 0, n_bytes = 0;
    char *text = NULL;
    hs_status st = HS_OK;
    const bool is_absent = errno == ENOENT || errno == ENAMETOOLONG || errno == ENOTDIR;
    if (!file && path && is_absent && !looks_like_a_file(path)) {
        *ret_text = strdup(path);
        *ret_n_bytes = strlen(path);
        return *ret_text ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for the text");
    }
    if (!file)
        return hs_fail(err, HS_IO, "cannot read '%s': %s%s", path, hs__errno_text(errno),
                       is_absent ? "; if that is the text itself, pipe it, with - in its place" : "");
    while (!st && !feof(file)) {
        if (n_bytes == capacity) {
            capacity = capacity ? 2 * capacity : 65536;
            char *more = capacity <= TEXT_BYTES_MAX ? realloc(text, capacity) : NULL;
            if (!more)
                st = capacity > TEXT_BYTES_MAX
                         ? hs_fail(err, HS_TOO_LARGE, "the text is too long; use shorter pieces")
                         : hs_fail(err, HS_NO_MEMORY, "no memory for the text");
            text = more ? more : text;
        }
        if (!st)
            n_bytes += fread(text + n_bytes, 1, capacity - n_bytes, file);
        if (!st && ferror(file))
            st = hs_fail(err, HS_IO, "cannot read '%s': %s", standard ? "standard input" : path,
                         hs__errno_text(errno));
    }
    if (!standard)
        fclose(file);
    if (st) {
        free(text);
        return st;
    }
    *ret_text = text;
    *ret_n_bytes = text_trim(text, n_bytes);
    return HS_OK;
}

/* Prints the page that a person reads instead of the JSON. */
static hs_status answer_show(const hs_response *response, const analyze_options *options, hs_error *err)
{
    json_t *answer;
    if (hs_json_load(response->body, response->body_bytes, JSON_ALLOW_NUL, &answer, NULL))
        return hs_fail(err, HS_NO_MEMORY, "no memory to show the answer");
    const hs_status st =
        answer_page_print(answer, options->fields, &options->telling, options->tokenizer, stdout, err);
    json_decref(answer);
    return st || fflush(stdout) == 0 ? st : hs_fail(err, HS_IO, "cannot write to the terminal");
}

/* An hs__file_write of an hs_response's body. */
static hs_status body_write(FILE *file, void *data, hs_error *err)
{
    const hs_response *response = data;
    (void)err;
    fwrite(response->body, 1, response->body_bytes, file);
    return HS_OK;
}

/* Returns the requested format, else that of the file's ending, else JSON. */
static const char *format_choose(const analyze_options *options)
{
    const char *dot = options->output ? strrchr(options->output, '.') : NULL;
    if (options->format)
        return options->format;
    const char *endings = options->plots ? FIGURE_ENDINGS : OUTPUT_ENDINGS;
    const bool is_known = dot && hs_choice_find(endings, dot + 1, strlen(dot + 1)) >= 0;
    return is_known ? dot + 1 : options->plots ? "svg" : "json";
}

/* Says a problem+json body in terms of the command's options: "--max-tokens is 9999; it must be ...". */
static void problem_tell(const hs_response *response, const hs_command *command, bool plots, hs_error *err)
{
    json_t *problem;
    if (hs_json_load(response->body, response->body_bytes, JSON_ALLOW_NUL, &problem, NULL)) {
        hs_fail(err, HS_NO_MEMORY, "no memory for the answer");
        return;
    }
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    const char *pointer = json_string_value(json_object_get(problem, "pointer"));
    const size_t n_members = strlen(FIGURE_MEMBERS);
    if (plots && pointer && detail && strncmp(pointer, FIGURE_MEMBERS, n_members) == 0) {
        pointer += n_members - 1;
        detail += strncmp(detail, FIGURE_MEMBERS + 1, n_members - 1) == 0 ? n_members - 1 : 0;
    }
    char text[sizeof err->text], name[64];
    hs_fail(err, HS_INVALID, "%s", detail ? detail : "the answer could not be made");
    for (size_t i = 0; detail && pointer && *pointer && i < command->n_options; i++) {
        const size_t n = strlen(hs__name_with(command->options[i].name, '-', '_', name));
        if (strncmp(pointer + 1, name, n) != 0 || (pointer[1 + n] && pointer[1 + n] != '/'))
            continue;
        hs_field_problem(pointer, detail, text, sizeof text);
        *err = (hs_error){0};
        hs_fail(err, HS_INVALID, "--%s%s", command->options[i].name, text);
        break;
    }
    json_decref(problem);
}

/* A line on the terminal that the next one, or the prompt, takes the place of. */
static void progress_show(void *data, size_t n_done)
{
    (void)data;
    fprintf(stderr, "\reffects of %zu heads\r", n_done);
}

static void request_answer(const analyze_options *options, hs_api *api, const char *format, const char *body,
                           hs_response *ret_response)
{
    char query[48];
    snprintf(query, sizeof query, "format=%s%s%s", format, options->names ? "&names=" : "",
             options->names ? options->names : "");
    const hs_request request = {.operation = HS_ANALYZE,
                                .query = query,
                                .content_type = "application/json",
                                .id = "command-line",
                                .body = body,
                                .body_bytes = strlen(body),
                                .n_threads = options->catalog.n_threads,
                                .progress = isatty(STDERR_FILENO) ? progress_show : NULL};
    hs_api_handle(api, &request, ret_response);
}

/* Writes the figure's numbers to the file of --data. Another answer than 200 is handed back instead. */
static hs_status data_write(const analyze_options *options, hs_api *api, const char *body,
                            hs_response *response, hs_error *err)
{
    hs_response numbers = {0};
    request_answer(options, api, "csv", body, &numbers);
    if (numbers.status == 200) {
        const hs_status st = hs__path_write(options->data, body_write, &numbers, err);
        hs_response_finish(&numbers);
        return st;
    }
    hs_response_finish(response);
    *response = numbers;
    return HS_OK;
}

/* Lets a page without layers and heads open on the most telling head, if one stands out: sets the fields of
 * its request. */
static void telling_choose(analyze_options *options, hs_api *api)
{
    static const char *const choices[] = {"layers", "heads", "stack", "max_new_tokens"};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        if (json_object_get(options->fields, choices[i]))
            return;
    json_t *fields = json_copy(options->fields), *answer = NULL;
    json_object_set_new(fields, "outputs", json_pack("[s]", "profiles"));
    json_object_set_new(fields, "layers", json_string("all"));
    json_object_del(fields, "reduce");
    json_object_del(fields, "predictions");
    char *body = hs_json_text(fields, JSON_COMPACT);
    hs_response response = {0};
    if (body)
        request_answer(options, api, "json", body, &response);
    if (response.status == 200 &&
        !hs_json_load(response.body, response.body_bytes, JSON_ALLOW_NUL, &answer, NULL))
        options->telling = telling_find(json_object_get(answer, "profiles"));
    if (options->telling.target) {
        json_object_set_new(options->fields, "layers", json_pack("[i]", (int)options->telling.layer));
        json_object_set_new(options->fields, "heads", json_pack("[i]", (int)options->telling.head));
    }
    json_decref(answer);
    hs_response_finish(&response);
    free(body);
    json_decref(fields);
}

static hs_status answer_make(analyze_options *options, hs_response *ret_response, hs_error *err)
{
    hs_api *api = NULL;
    char *body = NULL;
    hs_status st = hs_runtime_create(options->catalog.n_threads, &options->catalog.runtime, err);
    options->catalog.api.list_command = "'headscope models [DIR...]'";
    if (!st)
        st = hs__catalog_open(&options->catalog, &api, err);
    if (!st) {
        hs_served_model *served = hs_api_model_use(api, NULL);
        options->tokenizer = hs_tokenizer_kind(hs_model_tokenizer(hs_served_weights(served)));
        hs_api_model_release(api, served);
        if (options->for_a_person)
            telling_choose(options, api);
        body = hs_json_text(options->fields, JSON_COMPACT);
        if (body && hs_json_refusals() == options->refusals)
            request_answer(options, api, format_choose(options), body, ret_response);
        else
            st = hs_fail(err, HS_NO_MEMORY, "no memory for the request");
        if (body && options->data && ret_response->status == 200)
            st = data_write(options, api, body, ret_response, err);
        free(body);
    }
    hs_api_destroy(api);
    hs_runtime_destroy(options->catalog.runtime);
    return st;
}

/* Sets the request's text. */
static hs_status text_set(const analyze_options *options, const char *text, size_t n_bytes, hs_error *err)
{
    json_t *value = json_stringn(text, n_bytes);
    if (!value && hs_json_refusals() == options->refusals)
        return hs_fail(err, HS_BAD_REQUEST,
                       "the text is not valid UTF-8; convert it, for example with iconv");
    if (json_object_set_new(options->fields, "text", value))
        return hs_fail(err, HS_NO_MEMORY, "no memory for the request");
    return HS_OK;
}

static int analyze_run(const hs_command *command, analyze_options *options, const char *path)
{
    hs_error err = {0};
    hs_response response = {0};
    char *text = NULL;
    size_t n_bytes = 0;
    int exit_code = HS_EXIT_FAILED;
    const bool has_input =
        json_object_get(options->fields, "words") || json_object_get(options->fields, "input_ids");
    if (has_input && path)
        return hs__usage_error(command, "--words and --input-ids stand instead of a text: leave '%s' out",
                               path);
    if (!has_input && (text_read(path, &text, &n_bytes, &err) || text_set(options, text, n_bytes, &err)))
        goto out;
    if (answer_make(options, &response, &err))
        goto out;
    if (response.status == 200) {
        if (!(options->for_a_person ? answer_show(&response, options, &err)
                                    : hs__path_write(options->output, body_write, &response, &err)))
            exit_code = HS_EXIT_DONE;
    } else if (response.error.status) { /* the body is for clients, and does not name the cause */
        err = response.error;
    } else {
        problem_tell(&response, command, options->plots, &err);
        exit_code = response.status == 422 ? HS_EXIT_USAGE : HS_EXIT_FAILED;
    }
out:
    if (exit_code == HS_EXIT_USAGE)
        hs__usage_error(command, "%s", err.text);
    else if (exit_code == HS_EXIT_FAILED)
        hs__command_failed(command, &err);
    hs_response_finish(&response);
    free(text);
    return exit_code;
}

/* Refuses options that the format leaves without effect; returns HS_EXIT_DONE if there are none. */
static int format_options_check(const hs_command *command, const analyze_options *options)
{
    const char *format = format_choose(options);
    const bool is_binary = strcmp(format, "npz") == 0 || strcmp(format, "safetensors") == 0;
    const bool is_figure = !is_binary && strcmp(format, "json") != 0;
    const char *of_binary = options->names                              ? "names"
                            : json_object_get(options->fields, "dtype") ? "dtype"
                                                                        : NULL;
    if (of_binary && !is_binary)
        return hs__usage_error(
            command,
            "--%s is of binary arrays; add --format npz or safetensors, or -o with a file of that ending",
            of_binary);
    if (is_figure && !options->plots && json_object_get(options->fields, "outputs"))
        return hs__usage_error(
            command,
            "--outputs is of arrays, and %s has a figure or its numbers: leave it out, and choose with "
            "--figure",
            format);
    if (json_object_get(json_object_get(options->fields, "figure"), "dpi") && strcmp(format, "png") != 0)
        return hs__usage_error(command, "--dpi is of a PNG: add -o with a file that ends in .png");
    return HS_EXIT_DONE;
}

/* Checks the options that depend on each other; returns HS_EXIT_DONE if they agree. */
static int formats_check(const hs_command *command, const analyze_options *options)
{
    const char *endings = options->plots ? FIGURE_ENDINGS : OUTPUT_ENDINGS;
    const char *format = format_choose(options);
    const bool is_text =
        strcmp(format, "json") == 0 || strcmp(format, "svg") == 0 || strcmp(format, "csv") == 0;
    if (!options->format && options->output && !hs__ending_is_known(options->output, endings))
        return hs__usage_error(
            command, "-o '%s': no format has this ending; name a file that ends in %s", options->output,
            options->plots ? ".svg, .pdf, .png or .csv"
                           : ".json, .npz, .safetensors, .svg, .pdf, .png or .csv, or choose with "
                             "--format");
    if (!is_text && !options->output && isatty(STDOUT_FILENO))
        return hs__usage_error(command, "this format is not for a terminal: name a file with -o FILE");
    return format_options_check(command, options);
}

static int main_of(const hs_command *command, int argc, char **argv, bool plots)
{
    analyze_options options = {
        .catalog.n_threads = hs__cores_usable(), .refusals = hs_json_refusals(), .plots = plots};
    hs__option_table table = {.n = 0};
    char details[1024];
    int operand, exit_code;
    options.fields = json_object();
    if (plots)
        json_object_set_new(options.fields, "figure", json_object());
    table_fill(&table, plots);
    hs_command filled = *command;
    filled.options = table.options;
    filled.n_options = table.n;
    filled.details =
        plots ? "FILE of -o ends in .svg, .pdf, .png, or .csv for the figure's numbers alone; without it the "
                "figure is\nwritten as SVG to standard output."
              : list_outputs(details, sizeof details);
    if (!hs__options_parse(&filled, argc, argv, &options, &operand, &exit_code))
        goto out;
    if (argc - operand > 1)
        exit_code = hs__usage_error(command, "one text at a time; there is nothing to do with '%s'",
                                    argv[operand + 1]);
    else if ((exit_code = formats_check(command, &options)) == HS_EXIT_DONE) {
        options.for_a_person = !plots && !options.format && !options.output && isatty(STDOUT_FILENO) &&
                               answer_page_ask(options.fields);
        exit_code = analyze_run(&filled, &options, argv[operand]);
    }
out:
    json_decref(options.fields);
    return exit_code;
}

static int analyze_main(const hs_command *command, int argc, char **argv)
{
    return main_of(command, argc, argv, false);
}

static int plot_main(const hs_command *command, int argc, char **argv)
{
    return main_of(command, argc, argv, true);
}

const hs_command hs__command_plot = {
    .name = "plot",
    .operands = "[FILE|TEXT|-]",
    .operand_words = "text|file|input",
    .operand_help = "give the text itself, a file's name, or '-' for standard input: headscope plot 'The cat "
                    "sat.' -o fig.pdf",
    .summary = "Figure of one text as SVG, PDF or PNG, to print",
    .main = plot_main,
};

const hs_command hs__command_analyze = {
    .name = "analyze",
    .operands = "[FILE|TEXT|-]",
    .operand_words = "text|file|input",
    .operand_help = "give the text itself, a file's name, or '-' for standard input: headscope analyze 'The "
                    "cat sat.'",
    .summary = "Attention, similarity and pairs of one text",
    .main = analyze_main,
};
