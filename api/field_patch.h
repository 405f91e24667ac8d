/* field_patch.h - reads how an object changes heads: kind and factor, and for patches what, from and
 * positions. */
#pragma once

#include "api/analysis_request.h"

/* One object that says how to change heads. */
typedef struct hs__patch_reading {
    const json_t *object;
    const char *pointer; /* to the object */
    const hs__served_model *model;
    hs__analysis_request *analysis;
    hs__problem *problem;
} hs__patch_reading;

/* Reads the members kind, one of "a|b" (NULL: of all), and factor. must lists them for messages. */
int hs__kind_read(const hs__patch_reading *r, const char *kinds, const char *must,
                  hs_intervention_kind *ret_kind, float *ret_factor);

/* Reads the member `from` and finds or adds its source. */
int hs__patch_source(const hs__patch_reading *r, uint8_t *ret_source);

/* Returns true if the object patches hidden states, whose layers have numbers of their own. */
bool hs__patch_is_hidden(const json_t *object);

/* Reads these members of intervention i, whose kind is known, and for hidden states its layers. Refuses the
 * members of interventions of other kinds. */
int hs__patch_read(const hs__patch_reading *r, size_t i);
