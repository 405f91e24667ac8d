/* interventions.c - a request of nothing but interventions. */
#include "api/interventions.h"

#include "api/fields.h"

#include <stdlib.h>
#include <string.h>

struct hs_interventions {
    hs__analysis_request read;
};

static hs_status parse(const char *text, const hs_shape *shape, hs_interventions *ret, hs_error *err)
{
    const hs__served_model model = {.shape = shape};
    json_error_t where;
    hs__problem problem = {0};
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &where);
    if (!value)
        return hs_fail(err, HS_INVALID, "must be JSON: %s", where.text);
    json_t *body = json_pack("{sO}", "interventions", value);
    json_decref(value);
    if (!body)
        return hs_fail(err, HS_NO_MEMORY, "no memory for interventions");
    const int refused = hs__fields_read(&model, body, &ret->read, &problem);
    json_decref(body);
    if (refused)
        return hs_fail(err, refused == 500 ? HS_NO_MEMORY : HS_INVALID,
                       "must be a list as /analyze takes it: %s", problem.detail);
    return hs_interventions_check(shape, ret->read.interventions, ret->read.n_interventions, err);
}

hs_status hs_interventions_parse(const char *text, const hs_shape *shape,
                                 hs_interventions **ret_interventions, hs_error *err)
{
    hs_interventions *interventions = calloc(1, sizeof *interventions);
    if (!interventions)
        return hs_fail(err, HS_NO_MEMORY, "no memory for interventions");
    const hs_status st = parse(text, shape, interventions, err);
    if (st)
        hs_interventions_destroy(interventions);
    else
        *ret_interventions = interventions;
    return st;
}

void hs_interventions_destroy(hs_interventions *interventions)
{
    if (interventions)
        hs__analysis_request_finish(&interventions->read);
    free(interventions);
}

const hs_intervention *hs_interventions_list(const hs_interventions *interventions, size_t *ret_n)
{
    *ret_n = interventions ? interventions->read.n_interventions : 0;
    return interventions ? interventions->read.interventions : NULL;
}
