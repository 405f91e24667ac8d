/* training_point.h - which point of a training a model is: its family, step and seed.
 *
 * Published names say it, and folders of trainers:
 *
 *     pythia-70m-seed3@step1000            EleutherAI's revisions
 *     multiberts-seed_0-step_20k           Google's names
 *     OLMo-1B@step1000-tokens4B            tokens that were read by then, which are left out
 *     runs/a/checkpoint-1000               HuggingFace's Trainer */
#pragma once

#include "server/base/catalog.h"

#include <jansson.h>
#include <stdint.h>

typedef struct hs__training_point {
    char family[HS_MODEL_NAME_BYTES]; /* the name without step and seed; may be empty */
    int64_t step, seed;               /* -1: unknown */
} hs__training_point;

/* Reads a name. Returns false if it states neither a step nor a seed, or two of one kind. The family is then
 * the whole name, and both are unknown. */
bool hs__training_point_read(const char *name, hs__training_point *ret);

/* Finds the point of a model: as its name says; what that leaves open as its revision or its folder says; the
 * step last by `global_step` in the folder's trainer_state.json. Returns false if nothing says it, or if the
 * weights are random. */
bool hs__training_point_find(const hs_model_place *place, hs__training_point *ret);

/* Returns {family, step, seed}, with null for what is unknown; NULL if memory is short. */
json_t *hs__training_point_json(const hs__training_point *point);
/* Reads `training` of a report's `provenance.model`; if it has none, the model's name. Returns false as
 * hs__training_point_read does. */
bool hs__training_point_of(const json_t *model, hs__training_point *ret);
