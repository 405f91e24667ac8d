/* ask.h - the body of POST /analyze and POST /tokenize, read and checked. */
#pragma once

#include "api/accept.h"
#include "api/internal.h"
#include "model/tokenizer/tokenizer.h"

#include <jansson.h>

/* outputs, in the order of the answer */
enum {
    HS__ATTENTIONS = 1,
    HS__SIMILARITIES = 2,
    HS__HEAD_OUTPUTS = 4,
    HS__HIDDEN_STATES = 8,
    HS__PAIRS = 16,
    HS__REGIONS = 32,
    HS__SEGMENTS = 64,
    HS__SUMMARY = 128,
};

typedef enum hs__reduce { HS__REDUCE_NONE, HS__REDUCE_SUM, HS__REDUCE_MEAN } hs__reduce;
typedef enum hs__dtype { HS__F4, HS__F2, HS__U1 } hs__dtype;

#define HS__SENTENCE_ENDS_MAX 64

typedef struct hs__ask {
    json_t *body; /* owns the texts */
    hs_text text, pair;
    bool has_pair;
    size_t model; /* number in the api's list */
    size_t max_tokens;
    unsigned outputs;
    uint16_t layers[HS_LAYERS_MAX], heads[HS_HEADS_MAX]; /* ascending, unique */
    size_t n_layers, n_heads;
    bool normalize;
    float threshold, attention_threshold;
    size_t max_pairs;
    hs__reduce reduce;
    bool split_special_tokens, mask_special;
    int digits;
    hs__dtype dtype;
    bool has_sentence_ends; /* else a sentence ends where HS_ROLE_SENTENCE_END says */
    int32_t sentence_ends[HS__SENTENCE_ENDS_MAX];
    size_t n_sentence_ends;
} hs__ask;

/* Reads the body for /analyze, or with tokens_only the fewer fields of /tokenize. Release with
 * hs__ask_finish, also after a refusal. */
int hs__ask_read(const hs_api *api, const hs_request *request, bool tokens_only, hs__ask *ret_ask,
                 hs__problem *problem);

/* 422 when dtype u1, which holds [0, 1] only, is asked of arrays that leave that range. */
int hs__ask_check_format(const hs__ask *ask, hs__format format, hs__problem *problem);

/* Whether token i ends a sentence. */
bool hs__ask_ends_sentence(const hs__ask *ask, const hs_encoding *encoding, size_t i);

void hs__ask_finish(hs__ask *ask); /* zeroed is fine */
