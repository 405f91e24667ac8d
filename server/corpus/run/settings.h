/* settings.h - the options of a corpus run.
 *
 * Each setting is a row of the table in settings.c or of a counter. The parameters of POST /corpora, the
 * options of `headscope corpus`, its help and its manual page are made from these rows. A value is text.
 * Settings that /analyze has too are read as its fields. */
#pragma once

#include "api/api.h"
#include "server/corpus/corpus.h"

/* Limit on the number of settings. */
#define HS__SETTINGS_MAX 32

/* The default of map_bins, its maximum, and what it was before the setting: a cell for each position of a
 * window, which had 4,096 at most. */
#define HS__MAP_BINS        "128"
#define HS__MAP_BINS_MAX    4096
#define HS__MAP_BINS_BEFORE "4096"

/* Returns the name of setting k ("max_tokens"), its kind, choices, and its argument and help on a command
 * line; NULL if there are only k. */
const hs_field *hs__setting_field(size_t k);
size_t hs__settings_count(void);
/* Returns the number of the setting of this name, which exists. */
size_t hs__setting_find(const char *name);

/* Returns how many positions are the edge of a cell of the run's maps. */
size_t hs__corpus_map_step(const hs__corpus_settings *settings);

/* Returns the JSON of a setting's default that the report's provenance shows; NULL: it does not show the
 * setting. */
const char *hs__setting_default_json(size_t k);

/* Parses texts into settings; NULL or "" stands for the default. Call hs__corpus_settings_finish after a
 * failure too. HS_INVALID: *ret_wrong is the wrong setting, and the message continues its name, as in
 * hs_field_problem. */
HS_MUST_USE hs_status hs__corpus_settings_read(const char *const texts[HS__SETTINGS_MAX],
                                               const hs_model *model, hs__corpus_settings *ret_settings,
                                               size_t *ret_wrong, hs_error *err);

void hs__corpus_settings_finish(hs__corpus_settings *settings); /* zeroed is fine */

/* Adds the settings to a run's identity: always max_tokens, thresholds and layers, the others only if they
 * are not the default. */
void hs__corpus_settings_identify(const hs__corpus_settings *settings, const hs_model *model,
                                  json_t *identity);
