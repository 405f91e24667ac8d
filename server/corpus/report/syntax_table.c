/* syntax_table.c - a row for each relation. */
#include "server/corpus/report/syntax_table.h"

#include "server/corpus/report/tables.h"

/* Relations with fewer pairs say nothing about a head. */
enum { PAIRS_MIN = 10 };

static json_int_t count_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static void share_write(FILE *out, json_int_t part, json_int_t whole)
{
    fprintf(out, "%.1f %%", whole > 0 ? 100 * (double)part / (double)whole : 0);
}

static void best_write(const json_t *row, const char *kind, FILE *out)
{
    const json_t *best = json_object_get(row, kind);
    fputs("<td>", out);
    share_write(out, count_of(best, "right"), count_of(row, "count"));
    fprintf(out, " <span class=\"muted\">%lld·%lld</span></td>", (long long)count_of(best, "layer"),
            (long long)count_of(best, "head"));
}

static void row_write(const json_t *row, FILE *out)
{
    const char *name = json_string_value(json_object_get(row, "relation"));
    fputs("<tr><th scope=\"row\">", out);
    hs__html_text(out, name ? name : "");
    fputs("</th><td>", out);
    hs__count_write(out, (uint64_t)count_of(row, "count"));
    fputs("</td>", out);
    best_write(row, "attention_to_head", out);
    best_write(row, "attention_to_dependent", out);
    fputs("<td>", out);
    share_write(out, count_of(row, "offset_right"), count_of(row, "count"));
    fprintf(out, " <span class=\"muted\">%+lld</span></td>", (long long)count_of(row, "offset"));
    best_write(row, "similarity_to_head", out);
    best_write(row, "similarity_to_dependent", out);
    fputs("</tr>\n", out);
}

void hs__syntax_table_write(const json_t *report, FILE *out)
{
    static const hs__column columns[] = {
        {"Relation", NULL, NULL}, {"Pairs", NULL, NULL},  {"Attends to its head", NULL, NULL},
        {"and back", NULL, NULL}, {"Offset", NULL, NULL}, {"Most similar to its head", NULL, NULL},
        {"and back", NULL, NULL},
    };
    const json_t *syntax = json_object_get(report, "syntax"), *rows = json_object_get(syntax, "relations");
    if (!syntax)
        return;
    fputs(
        "<section id=\"syntax\" aria-label=\"Syntax\"><h2>Heads and syntax</h2><p class=\"muted\">How often "
        "a word attends most to its syntactic head, and the head most to the word, in the attention head "
        "(layer·head) that does so most often (Clark et al. 2019, table 1). Offset: always choosing the word "
        "at the best fixed distance. The last columns ask the same of the most similar word. ",
        out);
    hs__count_write(out, (uint64_t)count_of(syntax, "sentences"));
    fputs(" sentences; ", out);
    hs__count_write(out, (uint64_t)count_of(syntax, "unread_sentences"));
    fprintf(
        out,
        " more have words that are not in their text. All: without punct. Relations of fewer than %d pairs "
        "are only in report.npz.</p>",
        PAIRS_MIN);
    hs__table_begin(out, columns, HS__N(columns));
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (count_of(json_array_get(rows, i), "count") >= PAIRS_MIN)
            row_write(json_array_get(rows, i), out);
    hs__table_end(out);
    fputs("</section>\n", out);
}
