/* answer_page.c - a text's heads on one screen. The map is a character a cell: enough to see a diagonal or a
 * column, for which a picture in the viewer is the next step. */
#include "server/commands/answer_page.h"

#include "model/tokenizer/readable_token.h"
#include "model/utf8.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS_SHOWN = 12, TOKENS_SHOWN = 48, LABEL = 14 };

bool hs__answer_page_ask(json_t *fields)
{
    if (json_object_get(fields, "outputs") || json_object_get(fields, "reduce"))
        return false;
    json_object_set_new(fields, "outputs", json_pack("[ss]", "attentions", "pairs"));
    json_object_set_new(fields, "reduce", json_string("mean"));
    if (!json_object_get(fields, "max_pairs"))
        json_object_set_new(fields, "max_pairs", json_integer(1000000));
    return true;
}

static const char *token_at(const json_t *answer, size_t i)
{
    const char *token = json_string_value(json_array_get(json_object_get(answer, "tokens"), i));
    return token ? token : "";
}

/* A token in a column of some width: cut with a dot, continuation bytes not counted. */
static void print_label(FILE *out, const char *token, int width)
{
    int n = 0;
    for (const char *c = token; *c; c++) {
        if (!hs_utf8_continues((unsigned char)*c) && ++n > width)
            break;
        if ((unsigned char)*c >= ' ' && *c != 0x7f)
            fputc(*c, out);
    }
    for (; n < width; n++)
        fputc(' ', out);
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

static double largest(const json_t *map, size_t n)
{
    double most = 1e-30;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            most = fmax(most, cell(map, i, j));
    return most;
}

static void print_map(const json_t *answer, size_t n_tokens, FILE *out)
{
    static const char *const shades[] = {" ", "\xE2\x96\x91", "\xE2\x96\x92", "\xE2\x96\x93", "\xE2\x96\x88"};
    const json_t *layers = json_object_get(answer, "layers"), *maps = json_object_get(answer, "attentions");
    const size_t n_layers = json_array_size(layers);
    const json_t *map = json_array_get(json_array_get(maps, n_layers - 1), 0);
    const size_t n = n_tokens < TOKENS_SHOWN ? n_tokens : TOKENS_SHOWN;
    const double most = largest(map, n);
    fprintf(out, "Attention, mean of the heads of layer %d, rows look at columns, full is %.2f%s:\n\n",
            (int)json_integer_value(json_array_get(layers, n_layers - 1)), most,
            n < n_tokens ? ", the first tokens" : "");
    for (size_t i = 0; i < n; i++) {
        print_label(out, token_at(answer, i), LABEL);
        fputs(" |", out);
        for (size_t j = 0; j < n; j++) {
            /* The root, as in the viewer: it lets small shares be seen. */
            const int shade = (int)floor(sqrt(cell(map, i, j) / most) * 4.99);
            fprintf(out, "%s%s", shades[shade], shades[shade]);
        }
        fputs("|\n", out);
    }
}

/* For each two positions, how many heads hold them to be similar: [n][n], above the diagonal. NULL without
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

/* The strongest pair of every head has N = 1, so what tells most is what many heads agree on. */
static void print_pairs(const json_t *answer, size_t n_tokens, FILE *out)
{
    const json_t *special = json_object_get(answer, "special_tokens_mask");
    const size_t n_heads = json_array_size(json_object_get(answer, "layers")) *
                           json_array_size(json_object_get(answer, "heads"));
    unsigned *counts = heads_count(json_object_get(answer, "pairs"), n_tokens);
    fprintf(out, "\nTokens that most of the %zu heads hold to be similar:\n\n", n_heads);
    for (size_t shown = 0; counts && shown < PAIRS_SHOWN; shown++) {
        size_t best = 0;
        for (size_t k = 1; k < n_tokens * n_tokens; k++) {
            const bool added = json_integer_value(json_array_get(special, k / n_tokens)) ||
                               json_integer_value(json_array_get(special, k % n_tokens));
            if (!added && counts[k] > counts[best])
                best = k;
        }
        if (!counts[best]) {
            fputs(shown ? "" : "  none\n", out);
            break;
        }
        fprintf(out, "  %3u   %4zu ", counts[best], best / n_tokens);
        print_label(out, token_at(answer, best / n_tokens), LABEL);
        fprintf(out, " %4zu ", best % n_tokens);
        print_label(out, token_at(answer, best % n_tokens), LABEL);
        fputc('\n', out);
        counts[best] = 0;
    }
    free(counts);
}

void hs__answer_page_print(const json_t *answer, const char *tokenizer, FILE *out)
{
    tokens_translate(json_object_get(answer, "tokens"), tokenizer);
    const size_t n_tokens = json_array_size(json_object_get(answer, "tokens"));
    assert(n_tokens > 0); /* an empty text has its two special tokens */
    fprintf(out, "%s: %zu tokens%s\n", json_string_value(json_object_get(answer, "model")), n_tokens,
            json_is_true(json_object_get(answer, "truncated")) ? ", the text was cut (--max-tokens)" : "");
    for (size_t i = 0; i < n_tokens; i++)
        fprintf(out, "%s%s", token_at(answer, i), i + 1 < n_tokens ? " " : "\n\n");
    print_map(answer, n_tokens, out);
    print_pairs(answer, n_tokens, out);
    fputs("\nFor programs: --format json, or -o heads.npz. For the eye: headscope serve.\n", out);
}
