/* template.h - the positions of the special tokens, as steps for one text and for two. */
#pragma once

#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/vocabulary.h"

#define HS__TEMPLATE_STEPS_MAX HS_FRAME_MAX

/* A step: a special token, or all pieces of a text. */
typedef struct hs__template_step {
    int32_t id;   /* id of the special token; -1: a text */
    uint8_t text; /* 0 or 1; a special token belongs to the text before it, or to the first */
    uint8_t type; /* token_type_ids */
} hs__template_step;

typedef struct hs__template_form {
    hs__template_step steps[HS__TEMPLATE_STEPS_MAX]; /* [n_steps] */
    size_t n_steps, n_special;
} hs__template_form;

typedef struct hs__template {
    hs__template_form forms[2]; /* for one text, for two */
    int32_t first, separator;   /* the special tokens before and after a single text; -1: none */
} hs__template;
