/* template.h - where the special tokens go: steps, for one text and for two. */
#pragma once

#include "model/tokenizer/vocabulary.h"

#define HS__TEMPLATE_STEPS_MAX 16

/* A special token, or all pieces of a text. */
typedef struct hs__template_step {
    int32_t id;   /* of the special token; -1: a text */
    uint8_t text; /* 0, 1; of a special token: the text before it, or the first */
    uint8_t type; /* token_type_ids */
} hs__template_step;

typedef struct hs__template_form {
    hs__template_step steps[HS__TEMPLATE_STEPS_MAX]; /* [n_steps] */
    size_t n_steps, n_special;
} hs__template_form;

typedef struct hs__template {
    hs__template_form forms[2]; /* for one text, for two */
    int32_t first, separator;   /* the special tokens before and behind one text */
} hs__template;
