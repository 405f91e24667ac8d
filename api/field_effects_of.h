/* field_effects_of.h - the field effects_of: the change that effects makes to each head, and the text that
 * patch_map patches from. */
#pragma once

#include "api/analysis_request.h"

/* Reads {"kind": "zero" or "mean"}, {"kind": "scale", "factor": ...} or {"kind": "patch", "from": ...} into
 * analysis->effects_of. */
int hs__effects_of_read(const hs__served_model *model, const json_t *value, hs__analysis_request *analysis,
                        hs__problem *problem);

/* Refuses the field without an output that reads it, and a patch_map without a patch or a target. */
int hs__effects_of_check(const hs__analysis_request *analysis, const hs_architecture *architecture,
                         hs__problem *problem);
