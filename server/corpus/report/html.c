/* html.c - escapes texts, groups digits, and lays out the cells of a table. */
#include "server/corpus/report/html.h"

#include <math.h>
#include <string.h>

void hs__html_bytes(FILE *out, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *entity = bytes[i] ? hs_xml_entity(bytes[i]) : "␀";
        if (entity)
            fputs(entity, out);
        else
            putc(bytes[i], out);
    }
}

void hs__html_text(FILE *out, const char *text)
{
    hs__html_bytes(out, text, strlen(text));
}

void hs__count_write(FILE *out, uint64_t n)
{
    if (n >= 1000)
        hs__count_write(out, n / 1000);
    fprintf(out, n >= 1000 ? ",%03u" : "%u", (unsigned)(n % 1000));
}

void hs__table_begin(FILE *out, const hs__column *columns, size_t n_columns)
{
    fputs("<div class=\"wide\"><table class=\"numbers\"><thead><tr>", out);
    for (size_t k = 0; k < n_columns; k++)
        fprintf(out, "<th scope=\"col\">%s</th>", columns[k].title);
    fputs("</tr></thead><tbody>\n", out);
}

void hs__table_end(FILE *out)
{
    fputs("</tbody></table></div>\n", out);
}

void hs__cell_write(FILE *out, double value, const char *format)
{
    char text[64] = "–";
    if (isfinite(value))
        snprintf(text, sizeof text, format, value);
    const bool is_zero = strspn(text, "+-0. %p") == strlen(text);
    fprintf(out, "<td>%s</td>", text + (is_zero && strchr("+-", *text))); /* a zero has no sign */
}

void hs__head_write(FILE *out, long long layer, long long head)
{
    fprintf(out, "<span data-head=\"%lld.%lld\">%lld·%lld</span>", layer, head, layer, head);
}

/* Writes a text, or an integer as 1,234; `otherwise` if the value is neither. */
static void value_write(FILE *out, const json_t *value, const char *otherwise)
{
    if (json_is_integer(value))
        hs__count_write(out, (uint64_t)json_integer_value(value));
    else if (json_is_string(value))
        hs__html_bytes(out, json_string_value(value), json_string_length(value));
    else
        hs__html_text(out, otherwise);
}

void hs__cells_write(FILE *out, const hs__column *columns, size_t n_columns, const json_t *row,
                     hs__indices at)
{
    for (const hs__column *column = columns; column < columns + n_columns; column++) {
        if (column->format) {
            const double factor = strstr(column->format, "%%") ? 100 : 1;
            hs__cell_write(out, factor * hs__report_number_at(row, column->path, at), column->format);
            continue;
        }
        fputs("<td>", out);
        if (column->path)
            value_write(out, hs__report_value(row, column->path, at), "–");
        fputs("</td>", out);
    }
}

void hs__html_filled(FILE *out, const json_t *object, const char *template)
{
    for (const char *at = template; *at;) {
        const size_t n_plain = strcspn(at, "{"), n_path = strcspn(at + n_plain, "}");
        char path[64];
        fwrite(at, 1, n_plain, out);
        at += n_plain;
        if (!*at)
            return;
        snprintf(path, sizeof path, "%.*s", (int)n_path - 1, at + 1);
        at += n_path + 1;
        value_write(out, hs__report_value(object, path, (hs__indices){0}), "");
    }
}

hs_status hs__svg_write(hs_status drawn, hs_picture *picture, FILE *out, hs_error *err)
{
    hs_buffer svg = {0};
    const hs_status st = drawn || !picture->n ? drawn : hs_picture_svg(picture, &svg, err);
    if (!st && svg.size)
        fwrite(svg.data, 1, svg.size, out);
    hs_buffer_finish(&svg);
    hs_picture_finish(picture);
    return st;
}
