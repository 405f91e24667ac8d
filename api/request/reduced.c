/* reduced.c - the fields of reduced maps: pool, rows and columns. */
#include "api/request/fields.h"

#include <stdio.h>

int hs__read_slice(const hs__reading *r)
{
    const json_t *from = json_array_get(r->value, 0), *to = json_array_get(r->value, 1);
    hs__slice *slice = hs__reading_to(r);
    if (json_array_size(r->value) != 2 || !hs__is_integer(from, 0, HS_POSITIONS_MAX - 1) ||
        !hs__is_integer(to, json_number_value(from) + 1, HS_POSITIONS_MAX))
        return hs__reading_refuse(r, "a list of two positions, from and to, from 0 and to after from");
    *slice = (hs__slice){(size_t)json_number_value(from), (size_t)json_number_value(to)};
    return 0;
}

size_t hs__slice_length(const hs__slice *slice, size_t n)
{
    return slice->to > 0 ? slice->to - slice->from : n;
}

#define SLICED (HS__OUTPUT_BIT(sliced_attentions) | HS__OUTPUT_BIT(sliced_similarities))
#define POOLED                                                                                               \
    (HS__OUTPUT_BIT(mean_pooled_attentions) | HS__OUTPUT_BIT(max_pooled_attentions) |                        \
     HS__OUTPUT_BIT(mean_pooled_similarities) | HS__OUTPUT_BIT(max_pooled_similarities))

static int check_slice(const hs__slice *slice, const char *name, size_t n, hs__problem *problem)
{
    char pointer[16];
    snprintf(pointer, sizeof pointer, "/%s", name);
    if (slice->to <= n)
        return 0;
    return hs__refuse(problem, 422, pointer,
                      "%s end at %zu, but the maps have %zu of them: send a smaller end", name, slice->to, n);
}

int hs__reduced_check(const hs__analysis_request *analysis, size_t n_tokens, size_t n_keys,
                      hs__problem *problem)
{
    /* Columns are keys of attention and tokens of similarity: those of both must be in both. */
    const bool attends = analysis->outputs & HS__OUTPUT_BIT(sliced_attentions),
               compares = analysis->outputs & HS__OUTPUT_BIT(sliced_similarities);
    const size_t n_columns = !compares || (attends && n_keys < n_tokens) ? n_keys : n_tokens;
    const bool rows = analysis->rows.to > 0;
    if (analysis->pool && !(analysis->outputs & POOLED))
        return hs__refuse(problem, 422, "/pool",
                          "pool belongs to the outputs mean_pooled_attentions, max_pooled_attentions, "
                          "mean_pooled_similarities and max_pooled_similarities: ask for one of them");
    if ((rows || analysis->columns.to > 0) && !(analysis->outputs & SLICED))
        return hs__refuse(problem, 422, rows ? "/rows" : "/columns",
                          "rows and columns belong to the outputs sliced_attentions and "
                          "sliced_similarities: ask for one of them");
    const int status = check_slice(&analysis->rows, "rows", n_tokens, problem);
    return status ? status : check_slice(&analysis->columns, "columns", n_columns, problem);
}

size_t hs__pool_size(const hs__analysis_request *analysis)
{
    enum { DEFAULT = 64 };
    return analysis->pool ? analysis->pool : DEFAULT;
}
