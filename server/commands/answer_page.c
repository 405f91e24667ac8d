/* answer_page.c - a text's heads on one screen. The map is a character a cell: enough to see a diagonal or a
 * column, for which a picture in the viewer is the next step. */
#include "server/commands/answer_page.h"

#include "model/base/utf8.h"
#include "model/tokenizer/readable_token.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
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

/* Prints at most n_most characters of a token, without control characters. Returns how many. */
static int print_clipped(FILE *out, const char *token, int n_most)
{
    int n = 0;
    for (const char *c = token; *c; c++) {
        if (!hs_utf8_continues((unsigned char)*c) && ++n > n_most)
            return n_most;
        if ((unsigned char)*c >= ' ' && *c != 0x7f)
            fputc(*c, out);
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

static double largest(const json_t *map, size_t n)
{
    double most = 1e-30;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
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

/* Prints the map of the layer at index l of the answer. */
static void print_map(const json_t *answer, const json_t *fields, size_t l, size_t n_tokens, FILE *out)
{
    static const char *const shades[] = {" ", "\xE2\x96\x91", "\xE2\x96\x92", "\xE2\x96\x93", "\xE2\x96\x88"};
    const json_t *maps = json_object_get(answer, "attentions"),
                 *map = json_array_get(json_array_get(maps, l), 0);
    const size_t n = n_tokens < TOKENS_SHOWN ? n_tokens : TOKENS_SHOWN;
    const double most = largest(map, n);
    fprintf(out, "Attention of layer %d, ",
            (int)json_integer_value(json_array_get(json_object_get(answer, "layers"), l)));
    print_heads(out, answer, fields);
    fprintf(out, ". Rows attend to columns; the darkest cell is %.2f.%s\n\n", most,
            n < n_tokens ? " Only the first tokens are shown." : "");
    for (size_t i = 0; i < n; i++) {
        print_label(out, token_at(answer, i));
        fputs(" |", out);
        for (size_t j = 0; j < n; j++) {
            /* The square root, as in the viewer, shows small weights. */
            const int shade = (int)floor(sqrt(cell(map, i, j) / most) * 4.99);
            fprintf(out, "%s%s", shades[shade], shades[shade]);
        }
        fputs("|\n", out);
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
static void print_pairs_of_heads(const json_t *answer, size_t n_heads, size_t n_tokens, FILE *out)
{
    unsigned *counts = heads_count(json_object_get(answer, "pairs"), n_tokens);
    fprintf(out, "Pairs of similar tokens, and how many of the %zu heads of ", n_heads);
    print_numbers(out, "layer", json_object_get(answer, "layers"));
    fputs(" find them similar:\n\n", out);
    for (size_t shown = 0; counts && shown < PAIRS_SHOWN; shown++) {
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
}

static void print_pairs(const json_t *answer, size_t n_tokens, FILE *out)
{
    const size_t n_heads = json_array_size(json_object_get(answer, "layers")) *
                           json_array_size(json_object_get(answer, "heads"));
    if (n_heads == 1)
        print_pairs_of_head(answer, out);
    else
        print_pairs_of_heads(answer, n_heads, n_tokens, out);
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
    fputs("\nPredicted tokens and their probabilities:\n\n", out);
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
        char *text = json_dumps(json_array_get(interventions, i), JSON_COMPACT | JSON_ENSURE_ASCII);
        fprintf(out, "  %s\n", text ? text : "");
        free(text);
    }
    fputc('\n', out);
}

void hs__answer_page_print(const json_t *answer, const json_t *fields, const char *tokenizer, FILE *out)
{
    tokens_translate(json_object_get(answer, "tokens"), tokenizer);
    const size_t n_tokens = json_array_size(json_object_get(answer, "tokens"));
    assert(n_tokens > 0); /* an empty text has its two special tokens */
    fprintf(out, "%s: %zu tokens%s\n", json_string_value(json_object_get(answer, "model")), n_tokens,
            json_is_true(json_object_get(answer, "truncated")) ? ", the text was cut (--max-tokens)" : "");
    for (size_t i = 0; i < n_tokens; i++) {
        print_plain(out, token_at(answer, i));
        fputs(i + 1 < n_tokens ? " " : "\n\n", out);
    }
    print_interventions(fields, out);
    for (size_t l = 0; l < json_array_size(json_object_get(answer, "layers")); l++)
        print_map(answer, fields, l, n_tokens, out);
    print_pairs(answer, n_tokens, out);
    print_predictions(answer, tokenizer, out);
    fputs("\nFor programs: --format json, or -o heads.npz. For the eye: headscope serve.\n", out);
}
