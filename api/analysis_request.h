/* analysis_request.h - the body of POST /analyze and POST /tokenize, read and checked.
 *
 * Every field is a row of the table in api/fields.c and a member here. */
#pragma once

#include "api/accept.h"
#include "api/internal.h"
#include "engine/analysis/predictions.h"

#include <jansson.h>

enum { HS__REDUCE_NONE, HS__REDUCE_SUM, HS__REDUCE_MEAN };
enum { HS__SPACE_HEAD, HS__SPACE_RESIDUAL };
enum { HS__DISTANCE_CKA, HS__DISTANCE_JS };
enum { HS__DTYPE_F4, HS__DTYPE_F2, HS__DTYPE_U1 };

#define HS__SENTENCE_ENDS_MAX 64
#define HS__INTERVENTIONS_MAX 256
#define HS__SEQUENCES_MAX     1000
#define HS__SEED_MAX          9007199254740991.0 /* 2^53 - 1: exact in JSON */
#define HS__SOURCES_MAX       8
#define HS__NUMBERS_MAX       (HS_LAYERS_MAX + 1) /* layers, heads, or states */

/* One of three inputs; the others are NULL. */
typedef struct hs__input {
    hs_text text, text_pair; /* bytes NULL: none */
    hs_text *words;          /* [n_words], owned */
    size_t n_words;
    int32_t *ids;   /* [n_ids], owned */
    uint8_t *types; /* [n_ids], owned, or NULL */
    size_t n_ids;
} hs__input;

/* A text that patches take activations from. */
typedef struct hs__source {
    const json_t *from; /* the member that names it; equal ones are one source */
    char pointer[64];   /* to the first such member */
    hs__input input;    /* a text or ids */
} hs__source;

/* The field predictions. */
enum { HS__PREDICT_MASKED, HS__PREDICT_ALL, HS__PREDICT_LISTED };
typedef struct hs__prediction_request {
    unsigned where;    /* HS__PREDICT_... */
    size_t *positions; /* [n_positions], ascending, unique, owned: those listed */
    size_t n_positions, top_k;
    bool lens;
    bool requested; /* by this field or among the outputs */
} hs__prediction_request;

/* The field head_scores: random sequences of `length` tokens, repeated once. */
typedef struct hs__head_scores_request {
    size_t length, sequences, seed;
} hs__head_scores_request;

/* The field effects_of: what effects does to each head. */
typedef struct hs__effects_of {
    hs_intervention_kind kind; /* ZERO, SCALE, MEAN or PATCH */
    float factor;              /* of SCALE */
    uint8_t source;            /* of PATCH */
    bool requested;
} hs__effects_of;

/* A set of rows of api/outputs.h, as bits. */
typedef uint64_t hs__outputs;
#define HS__OUTPUT(i) ((hs__outputs)1 << (i))

/* Outputs of task heads, and of the head for next tokens, as bits. */
enum {
    HS__TASK_CLASSES = 1,
    HS__TASK_NEXT_SENTENCE = 2,
    HS__TASK_ANSWER = 4,
    HS__TASK_LOSS = 8,
    HS__TASK_EMBEDDING = 16
};

/* The field figure, in the order of its choices in api/fields.c. */
enum {
    HS__FIGURE_HEAD,
    HS__FIGURE_LAYER,
    HS__FIGURE_OVERVIEW,
    HS__FIGURE_DISTANCES,
    HS__FIGURE_PREDICTIONS,
    HS__FIGURE_LENS,
    HS__FIGURE_EFFECTS
};
enum { HS__SHOW_ATTENTION, HS__SHOW_SIMILARITY, HS__SHOW_BOTH };
enum { HS__SCALE_OWN, HS__SCALE_SHARED };
typedef struct hs__figure_request {
    unsigned kind, show, scale, labels;
    float width_mm, font_pt;
    bool footer, requested;
} hs__figure_request;

typedef struct hs__analysis_request {
    json_t *body; /* owns the texts */
    hs__input input;
    const hs_prompt *prompt; /* of the model, before the text; NULL: none */
    hs__served_model *model; /* a reference of the job */
    size_t max_tokens;
    hs__outputs outputs;
    uint16_t layers[HS_LAYERS_MAX], heads[HS_HEADS_MAX]; /* ascending, unique */
    size_t n_layers, n_heads;
    unsigned similarity_space; /* HS__SPACE_... */
    unsigned head_distance;    /* HS__DISTANCE_... */
    unsigned normalize;        /* 1: similarities are divided by their maximum */
    float threshold, attention_threshold;
    size_t max_pairs;
    unsigned reduce; /* HS__REDUCE_... */
    bool split_special_tokens;
    unsigned special_tokens; /* 1: masked */
    size_t digits;
    unsigned dtype;                       /* HS__DTYPE_... */
    bool hooks;                           /* of the query: arrays named as TransformerLens's hooks */
    hs_intervention *interventions;       /* [n_interventions], owned */
    uint16_t (*numbers)[HS__NUMBERS_MAX]; /* [2 n_interventions], owned: their layers and heads */
    uint8_t *source_of;                   /* [n_interventions], owned: numbers of the patches' sources */
    size_t n_interventions;
    hs__source sources[HS__SOURCES_MAX];
    size_t n_sources;
    bool has_sentence_ends; /* else a sentence ends where HS_ROLE_SENTENCE_END says */
    int32_t sentence_ends[HS__SENTENCE_ENDS_MAX];
    size_t n_sentence_ends;
    hs__prediction_request predictions;
    hs__head_scores_request head_scores;
    hs__effects_of effects_of;
    unsigned task_outputs; /* HS__TASK_... of the requested outputs */
    hs_target target;      /* kind NONE: not named; see api/field_target.h */
    float *target_vector;  /* of a COSINE target, owned, or NULL */
    hs_pooling pooling;    /* n 0: the checkpoint's */
    hs__figure_request figure;
    bool has_layers; /* the request names layers */
} hs__analysis_request;

/* Reads the body for /analyze, or with tokens_only the fewer fields of /tokenize. Release with
 * hs__analysis_request_finish, also after a refusal. */
int hs__analysis_request_read(hs_api *api, const hs_request *request, bool tokens_only,
                              hs__analysis_request *ret_analysis, hs__problem *problem);

void hs__analysis_request_finish(hs__analysis_request *analysis); /* zeroed is fine */
