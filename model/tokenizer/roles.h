/* roles.h - finds the role of every token of a vocabulary. */
#pragma once

#include "model/tokenizer/template.h"
#include "model/tokenizer/tokenizer.h"

/* Finds the roles. The caller frees *ret_roles, [vocabulary->size] of hs_role. Unused ids are
 * HS_ROLE_OTHER. */
HS_MUST_USE hs_status hs__roles_find(const hs__vocabulary *vocabulary, const hs__template *template,
                                     uint8_t **ret_roles, hs_error *err);
