/* prompts.h - reads the prompts of a sentence encoder from config_sentence_transformers.json:
 *
 *     {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query"}
 *
 * Both keys may be absent or null, and so may the text of a prompt. */
#pragma once

#include "model/architecture.h"
#include "model/base/bytes.h"
#include "model/base/status.h"

/* Parses the file and sets the prompts of a head that has none. The caller frees head->prompts. The head is
 * untouched on failure. Fails with HS_BAD_MODEL, naming the key, and with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__prompts_parse(const hs_bytes *file, hs_sentence_head *head, hs_error *err);

/* Reads the file in folder dir. Without it the head has no prompts. */
HS_MUST_USE hs_status hs__prompts_open(const char *dir, hs_sentence_head *head, hs_error *err);
