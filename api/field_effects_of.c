/* field_effects_of.c - reads and checks the field effects_of. */
#include "api/field_effects_of.h"

#include "api/field_patch.h"
#include "api/field_target.h"
#include "api/field_values.h"
#include "api/outputs.h"

#include <string.h>

int hs__effects_of_read(const hs__served_model *model, const json_t *value, hs__analysis_request *analysis,
                        hs__problem *problem)
{
    hs__effects_of *to = &analysis->effects_of;
    const json_t *kind = json_object_get(value, "kind"), *factor = json_object_get(value, "factor"),
                 *from = json_object_get(value, "from");
    if (!json_is_object(value) ||
        (kind != NULL) + (factor != NULL) + (from != NULL) != (int)json_object_size(value))
        return hs__refuse_value(problem, "/effects_of", value,
                                "an object of kind, factor and from, and nothing else");
    const hs__patch_reading reading = {value, "/effects_of", model, analysis, problem};
    to->requested = true;
    if (hs__kind_read(&reading, "zero|scale|mean|patch", "\"zero\", \"scale\", \"mean\" or \"patch\"",
                      &to->kind, &to->factor))
        return problem->status;
    if (to->kind != HS_INTERVENE_PATCH)
        return from ? hs__refuse(problem, 422, "/effects_of/from", "only patch takes 'from'") : 0;
    return hs__patch_source(&reading, &to->source);
}

static bool requests(const hs__analysis_request *analysis, const char *output)
{
    return analysis->outputs & HS__OUTPUT(hs__output_find(output, strlen(output)));
}

int hs__effects_of_check(const hs__analysis_request *analysis, const hs_architecture *architecture,
                         hs__problem *problem)
{
    const bool has_map = requests(analysis, "patch_map");
    if (analysis->effects_of.requested && !has_map && !requests(analysis, "effects"))
        return hs__refuse(problem, 422, "/effects_of",
                          "effects_of belongs to the outputs effects and patch_map: ask for one of them");
    if (has_map && analysis->effects_of.kind != HS_INTERVENE_PATCH)
        return hs__refuse(problem, 422, "/effects_of",
                          "patch_map requires a text to patch from: effects_of {\"kind\": \"patch\", "
                          "\"from\": {\"text\": \"...\"}}");
    if (has_map && !hs__target_exists(analysis, architecture))
        return hs__refuse(problem, 422, "/target",
                          "patch_map requires target: the number to follow, such as {\"token\": \"...\", "
                          "\"position\": 1}");
    return 0;
}
