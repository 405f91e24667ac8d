/* roles.h - the role of every token of a vocabulary. */
#pragma once

#include "model/tokenizer/template.h"
#include "model/tokenizer/tokenizer.h"

/* *ret_roles is malloc'ed, [vocabulary->size] of hs_role. Ids that no token has are HS_ROLE_OTHER. */
HS_MUST_USE hs_status hs__roles_find(const hs__vocabulary *vocabulary, const hs__template *template,
                                     uint8_t **ret_roles, hs_error *err);
