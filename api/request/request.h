/* request.h - a request, read and checked: headers, query and body of POST /analyze and POST /tokenize.
 *
 * Functions that check a request return 0, or the HTTP status of the refusal that they wrote. */
#pragma once

#include "api/api.h"
#include "api/request/texts.h"
#include "engine/analysis/predictions.h"

#include <jansson.h>

/* A model that requests use, or used when it was served. Lives until its last user is done. */
typedef struct hs__served_model {
    char name[HS_MODEL_NAME_BYTES];
    uint64_t serial;          /* differs between all models ever served */
    const char *list_command; /* of hs_api_options */
    const hs_model *model;
    const hs_engine *engine;
    const hs_architecture *architecture; /* the engine's */
    const hs_shape *shape;
    size_t entry_bytes;               /* the longest entry of the vocabulary, as a JSON string */
    struct hs__served_model *decoder; /* of an encoder-decoder model, owned; NULL: it has none */
    struct hs__served_model *encoder; /* of a decoder: the served model, which has all references */
    void (*free)(void *user_data);    /* as in hs_api_model */
    void *user_data;
    size_t n_references;       /* the list's and the jobs'; the api's lock guards the rest */
    size_t n_users;            /* of hs_api_model_use; each has a reference, too */
    hs_workspace **workspaces; /* the first n_free are free */
    size_t n_free;
    bool has_transposed;     /* the memory of the weights that gradients read is counted; never reset */
    size_t transposed_bytes; /* of them, removed from the budget of the api */
} hs__served_model;

/* ==== refusals ==== */

/* A refusal: an RFC 9457 problem with a JSON pointer or a position. */
typedef struct hs__problem {
    int status; /* HTTP; 0: none */
    bool has_pointer;
    char pointer[256];         /* JSON pointer; "" is the whole body */
    size_t line, column, byte; /* position of a JSON error; line 0: none */
    char detail[1024];
    size_t request_line; /* hs_request.line */
    bool no_memory;      /* status 503 because the system refused memory; the log has it, too */
} hs__problem;

/* Writes the refusal and returns status. pointer may be NULL. */
int hs__refuse(hs__problem *problem, int status, const char *pointer, const char *format, ...)
    HS_PRINTF(4, 5);
/* Refuses with 422: "threshold is 2; it must be a number in (0, 1]". */
int hs__refuse_value(hs__problem *problem, const char *pointer, const json_t *value, const char *must);
/* Refuses with 503 because the system gave no memory. text: "no memory for the heads". */
int hs__refuse_memory(hs__problem *problem, const char *text);
/* Refuses for an error: 422, 503 or 504 by its status, else 500. */
int hs__refuse_error(hs__problem *problem, const hs_error *err);

/* Returns the length of the longest prefix of at most 64 bytes that cuts no UTF-8 character. For names in
 * messages. */
int hs__clip(const char *text, size_t n_bytes);

/* Writes the response. Bodies of server errors contain request_id, which may be NULL. */
void hs__problem_write(const hs__problem *problem, const char *request_id, hs_response *ret_response);

/* ==== headers and query ==== */

typedef enum hs__answer_format {
    HS__JSON,
    HS__NPZ,
    HS__SAFETENSORS,
    HS__SVG,
    HS__PDF,
    HS__PNG,
    HS__CSV,
    HS__FORMAT_COUNT
} hs__answer_format;

static inline bool hs__format_is_figure(hs__answer_format format)
{
    return format == HS__SVG || format == HS__PDF || format == HS__PNG || format == HS__CSV;
}

/* "application/json", ... */
const char *hs__format_media_type(hs__answer_format format);

/* Chooses the answer's format: by ?format=, else by Accept (best q, then the more precise range, then JSON
 * first), else JSON. Refuses with 406 if no format is allowed and with 422 for an unknown query parameter.
 * Sets *ret_hooks if a binary answer is to have TransformerLens's names (?names=hooks). With ret_hooks NULL
 * that parameter is unknown. */
int hs__format_choose(const char *query, const char *accept, hs__answer_format *ret_format, bool *ret_hooks,
                      hs__problem *problem);

/* Refuses with 406 if Accept excludes JSON. */
int hs__json_accepted(const char *accept, hs__problem *problem);

/* Refuses with 415 unless the type is application/json without charset or in UTF-8. */
int hs__content_type_check(const char *content_type, hs__problem *problem);

/* ==== outputs ==== */

/* The outputs that a request may name, in the order of the answer. fields.c says what each requires,
 * and api/outputs/outputs.c what computes it. */
#define HS__OUTPUT_NAMES(X)                                                                                  \
    X(attentions)                                                                                            \
    X(similarities)                                                                                          \
    X(mean_pooled_attentions)                                                                                \
    X(max_pooled_attentions)                                                                                 \
    X(sliced_attentions)                                                                                     \
    X(word_attentions)                                                                                       \
    X(mean_pooled_similarities)                                                                              \
    X(max_pooled_similarities)                                                                               \
    X(sliced_similarities)                                                                                   \
    X(word_similarities)                                                                                     \
    X(word_tokens)                                                                                           \
    X(source_word_tokens)                                                                                    \
    X(head_outputs)                                                                                          \
    X(hidden_states)                                                                                         \
    X(attention_gradients)                                                                                   \
    X(head_output_gradients)                                                                                 \
    X(hidden_state_gradients)                                                                                \
    X(queries)                                                                                               \
    X(keys)                                                                                                  \
    X(values)                                                                                                \
    X(scores)                                                                                                \
    X(scores_c2c)                                                                                            \
    X(scores_c2p)                                                                                            \
    X(scores_p2c)                                                                                            \
    X(value_norms)                                                                                           \
    X(weighted_norms)                                                                                        \
    X(effective_attentions)                                                                                  \
    X(rollout)                                                                                               \
    X(contributions)                                                                                         \
    X(alti)                                                                                                  \
    X(value_zeroing)                                                                                         \
    X(pairs)                                                                                                 \
    X(regions)                                                                                               \
    X(segments)                                                                                              \
    X(summary)                                                                                               \
    X(profiles)                                                                                              \
    X(effects)                                                                                               \
    X(patch_map)                                                                                             \
    X(head_attributions)                                                                                     \
    X(token_attributions)                                                                                    \
    X(source_token_attributions)                                                                             \
    X(relevance)                                                                                             \
    X(logit_attributions)                                                                                    \
    X(head_scores)                                                                                           \
    X(head_distances)                                                                                        \
    X(contacts)                                                                                              \
    X(classes)                                                                                               \
    X(next_sentence)                                                                                         \
    X(answer)                                                                                                \
    X(loss)                                                                                                  \
    X(embedding)                                                                                             \
    X(sparse_embedding)                                                                                      \
    X(changes)                                                                                               \
    X(target)                                                                                                \
    X(predictions)

enum {
#define HS__OUTPUT_NUMBER(name) HS__OUTPUT_##name,
    HS__OUTPUT_NAMES(HS__OUTPUT_NUMBER) HS__OUTPUTS_COUNT
#undef HS__OUTPUT_NUMBER
};

/* A set of outputs: bit HS__OUTPUT_name of each. */
typedef uint64_t hs__outputs;
#define HS__OUTPUT_BIT(name) ((hs__outputs)1 << HS__OUTPUT_##name)
/* Outputs that others bring with them have no name of their own: the field interventions requests changes,
 * gradients come with their target, and maps of words with the words. */
#define HS__OUTPUTS_BROUGHT                                                                                  \
    (HS__OUTPUT_BIT(changes) | HS__OUTPUT_BIT(target) | HS__OUTPUT_BIT(source_token_attributions) |          \
     HS__OUTPUT_BIT(word_tokens) | HS__OUTPUT_BIT(source_word_tokens))
/* Maps of words, which have them on their axes. */
#define HS__OUTPUTS_OF_WORDS (HS__OUTPUT_BIT(word_attentions) | HS__OUTPUT_BIT(word_similarities))
/* Those of a request that names none. */
#define HS__OUTPUTS_DEFAULT                                                                                  \
    (HS__OUTPUT_BIT(attentions) | HS__OUTPUT_BIT(similarities) | HS__OUTPUT_BIT(pairs))
_Static_assert(HS__OUTPUTS_COUNT <= 64, "a set of outputs has a bit for each");

/* Those that are made from gradients of the target. */
#define HS__OUTPUTS_OF_GRADIENTS                                                                             \
    (HS__OUTPUT_BIT(attention_gradients) | HS__OUTPUT_BIT(head_output_gradients) |                           \
     HS__OUTPUT_BIT(hidden_state_gradients) | HS__OUTPUT_BIT(head_attributions) |                            \
     HS__OUTPUT_BIT(token_attributions) | HS__OUTPUT_BIT(relevance) | HS__OUTPUT_BIT(logit_attributions))

extern const char *const hs__output_names[HS__OUTPUTS_COUNT];

/* ==== the body ==== */

enum { HS__REDUCE_NONE, HS__REDUCE_SUM, HS__REDUCE_MEAN };
enum { HS__SPACE_HEAD, HS__SPACE_RESIDUAL };
enum { HS__DISTANCE_CKA, HS__DISTANCE_JS };
enum { HS__DTYPE_F4, HS__DTYPE_F2, HS__DTYPE_U1 };

#define HS__SENTENCE_ENDS_MAX 64
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

/* A text that patches take activations from, or that a vector to add is made of. */
typedef struct hs__source {
    const json_t *from;      /* the value that names it; equal ones are one source */
    char pointer[64];        /* to the first such value, or to the first one of a patch */
    bool patches;            /* a patch takes rows of it: it has as many tokens as the text */
    hs__input input;         /* a text or ids */
    hs__input decoder_input; /* of a decoder: the same, what it reads after its start token */
} hs__source;

/* The field predictions. */
enum { HS__PREDICT_MASKED, HS__PREDICT_ALL, HS__PREDICT_LISTED };
typedef struct hs__prediction_request {
    unsigned where;    /* HS__PREDICT_... */
    size_t *positions; /* [n_positions], ascending, unique, owned: those listed */
    size_t n_positions, top_k;
    bool lens;
} hs__prediction_request;

/* The field head_scores: random sequences of `length` tokens, repeated once. */
typedef struct hs__head_scores_request {
    size_t length, sequences, seed;
} hs__head_scores_request;

/* The fields attribution, steps and baseline, of token attributions. The baseline is a token in the place of
 * all others that are not special, or rows of zeros. */
enum { HS__GRADIENT_X_INPUT, HS__GRADIENT, HS__INTEGRATED_GRADIENTS, HS__ATTRIBUTION_UNNAMED };
enum { HS__BASELINE_MASK, HS__BASELINE_PAD, HS__BASELINE_ZERO, HS__BASELINE_UNNAMED };
typedef struct hs__attribution_request {
    unsigned method, baseline; /* ..._UNNAMED: the default */
    size_t steps;              /* 0: not named */
} hs__attribution_request;

/* The member estimate of effects_of. */
enum { HS__ESTIMATE_NONE, HS__ESTIMATE_GRADIENT };

/* How heads or states change: what the field effects_of and each of interventions say. */
typedef struct hs__change {
    hs_intervention_kind kind;
    float factor;       /* of SCALE and ADD */
    uint8_t sources[2]; /* numbers of texts: the one to patch from, or the two whose states' difference ADD
                           adds */
    size_t n_sources;
    bool last; /* ADD takes the states of these texts' last tokens, not the means */
} hs__change;

/* The field figure, in the order of its choices. */
enum {
    HS__FIGURE_HEAD,
    HS__FIGURE_LAYER,
    HS__FIGURE_OVERVIEW,
    HS__FIGURE_DISTANCES,
    HS__FIGURE_PREDICTIONS,
    HS__FIGURE_LENS,
    HS__FIGURE_EFFECTS,
    HS__FIGURE_REGIONS,
    HS__FIGURE_PAIRS
};
enum { HS__SHOW_ATTENTION, HS__SHOW_SIMILARITY, HS__SHOW_BOTH };
enum { HS__SCALE_OWN, HS__SCALE_SHARED };
enum { HS__COLOURS_AUTO, HS__COLOURS_LINEAR }; /* from there on, the choices are those of hs_scale */
typedef struct hs__figure_request {
    unsigned kind, show, scale, colour_scale, labels;
    float width_mm, font_pt, dpi;
    bool footer, csv_safe, merge_words, requested;
} hs__figure_request;

/* The fields rows and columns: [from, to). to is 0 if the request names none: all. */
typedef struct hs__slice {
    size_t from, to;
} hs__slice;

/* Every field is a row of the table in fields.c and a member here. */
typedef struct hs__analysis_request {
    json_t *body; /* owns the texts */
    hs__input input;
    unsigned stack;          /* HS_STACK_...; ENCODER also for models that have one stack only */
    hs__input decoder_input; /* a text or ids: what the decoder reads after its start token. If the request is
                              * about the encoder, effects follow that decoder */
    int32_t source_language, target_language; /* tokens; 0: not named */
    const hs_prompt *prompt;                  /* of the model, before the text; NULL: none */
    hs__served_model *model;                  /* a reference of the job; its decoder if stack says so */
    size_t max_tokens;
    size_t max_new_tokens; /* that the model writes behind its text; 0: none */
    bool has_window;       /* the text is cut into windows of max_tokens: hs_windows_plan */
    size_t window, stride; /* the number of the window to analyse; tokens that neighbours share */
    hs__outputs outputs;
    uint16_t layers[HS_LAYERS_MAX], heads[HS_HEADS_MAX]; /* ascending, unique */
    size_t n_layers, n_heads;
    unsigned similarity_space; /* HS__SPACE_... */
    unsigned center;           /* 1: similarities are of outputs less their mean over the text */
    unsigned head_distance;    /* HS__DISTANCE_... */
    unsigned normalize;        /* 1: similarities are divided by their maximum */
    float threshold, attention_threshold;
    size_t max_pairs;
    size_t pool;             /* 0: not named */
    hs__slice rows, columns; /* of slices */
    unsigned reduce;         /* HS__REDUCE_... */
    bool split_special_tokens;
    unsigned special_tokens; /* 1: masked */
    size_t digits;
    unsigned dtype;                       /* HS__DTYPE_... */
    bool hooks;                           /* of the query: arrays named as TransformerLens's hooks */
    hs_intervention *interventions;       /* [n_interventions], owned: first those in the model's own heads,
                                           * then those in the encoder that a decoder reads */
    uint16_t (*numbers)[HS__NUMBERS_MAX]; /* [2 n_interventions], owned: their layers and heads */
    hs__change *changes;                  /* [n_interventions], owned: what is said of each */
    uint16_t *named_at;                   /* [n_interventions], owned: their places in the request */
    size_t n_interventions, n_own_interventions;
    hs__source sources[HS__SOURCES_MAX];
    size_t n_sources;
    bool has_sentence_ends; /* else a sentence ends where HS_ROLE_SENTENCE_END says */
    int32_t sentence_ends[HS__SENTENCE_ENDS_MAX];
    size_t n_sentence_ends;
    hs__prediction_request predictions;
    hs__head_scores_request head_scores;
    hs__change effects_of; /* what effects does to each head: ZERO, SCALE, MEAN or PATCH */
    bool has_effects_of;   /* the request names it */
    unsigned estimate;     /* HS__ESTIMATE_...: of effects and patch_map */
    hs__attribution_request attribution;
    hs_target target;     /* kind NONE: not named */
    float *target_vector; /* of a COSINE target, owned, or NULL */
    hs_pooling pooling;   /* n 0: the checkpoint's */
    hs__figure_request figure;
    bool has_layers; /* the request names layers */
} hs__analysis_request;

/* Returns the input whose tokens are the rows of maps. */
static inline const hs__input *hs__input_of_rows(const hs__analysis_request *analysis)
{
    return analysis->model->encoder ? &analysis->decoder_input : &analysis->input;
}

/* Returns the model whose predictions the target and the effects follow: with a text for it the decoder that
 * reads the model's states, else the model. */
static inline const hs__served_model *hs__target_model(const hs__analysis_request *analysis)
{
    const hs__input *input = &analysis->decoder_input;
    const bool reads = analysis->model->decoder && (input->text.bytes || input->ids);
    return reads ? analysis->model->decoder : analysis->model;
}

/* Which similarities the request is about. */
static inline hs_similarity hs__similarity_kind(const hs__analysis_request *analysis)
{
    return (hs_similarity){.residual = analysis->similarity_space == HS__SPACE_RESIDUAL,
                           .centered = analysis->center};
}

/* Parses the body and checks the names of its fields: those of /analyze, or with tokens_only the fewer ones
 * of /tokenize. Release with hs__analysis_request_finish, also after a refusal. */
int hs__analysis_request_parse(const hs_request *request, bool tokens_only,
                               hs__analysis_request *ret_analysis, hs__problem *problem);
/* Sets analysis->model, the served one, to its decoder if the parsed body's stack is about that. */
int hs__stack_choose(hs__analysis_request *analysis, hs__problem *problem);
/* Reads the parsed body, over the defaults of analysis->model. */
int hs__analysis_request_read(hs__analysis_request *analysis, hs__problem *problem);

void hs__analysis_request_finish(hs__analysis_request *analysis); /* zeroed is fine */

/* Refuses the value at a pointer with 422 if the checkpoint has no masked-language-model head. */
int hs__predictor_check(const hs__served_model *model, const char *pointer, hs__problem *problem);

/* Refuses effects_of without an output that reads it, and a patch_map without a patch or a target. */
int hs__effects_of_check(const hs__analysis_request *analysis, const hs_architecture *architecture,
                         hs__problem *problem);

/* Returns true if one of these outputs is estimated from gradients if the request asks for it. */
static inline bool hs__is_estimated(const hs__analysis_request *analysis, hs__outputs outputs)
{
    return analysis->estimate == HS__ESTIMATE_GRADIENT &&
           outputs & (HS__OUTPUT_BIT(effects) | HS__OUTPUT_BIT(patch_map));
}

/* Returns true if an output of the request is made from gradients. */
static inline bool hs__needs_gradient(const hs__analysis_request *analysis)
{
    return analysis->outputs & HS__OUTPUTS_OF_GRADIENTS || hs__is_estimated(analysis, analysis->outputs);
}

/* Adds the outputs that come with gradients: the target, and attributions of the tokens that a decoder reads.
 */
void hs__gradients_complete(hs__analysis_request *analysis);
/* Returns the fields of token attributions with their defaults. */
hs__attribution_request hs__attribution_of(const hs__analysis_request *analysis);
/* Returns the token of the baseline of integrated gradients; -1: rows of zeros. */
int32_t hs__baseline_id(const hs__analysis_request *analysis);
/* Refuses attribution, steps and baseline where they do not belong, and a baseline that the tokenizer lacks.
 */
int hs__attribution_check(const hs__analysis_request *analysis, hs__problem *problem);
/* Finds the first mask of the text that the target follows, if the model predicts masked tokens. */
bool hs__first_mask(const hs__analysis_request *analysis, const hs_encoding *text, size_t *ret_position);
/* Refuses outputs of gradients without a target. text: the one that the target follows. */
int hs__gradients_check(const hs__analysis_request *analysis, const hs_encoding *text, hs__problem *problem);

/* Adds to the outputs the words that maps of words have on their axes (merged_words.c). */
void hs__words_complete(hs__analysis_request *analysis);

/* Returns the rows and columns of a block of a pooled map. */
size_t hs__pool_size(const hs__analysis_request *analysis);
/* Returns the length of a slice of n. */
size_t hs__slice_length(const hs__slice *slice, size_t n);
/* Refuses rows and columns beyond the maps, and fields of reduced maps without such an output. */
int hs__reduced_check(const hs__analysis_request *analysis, size_t n_tokens, size_t n_keys,
                      hs__problem *problem);

/* Refuses a target's positions beyond the text's tokens, and a loss of a text of one token. */
int hs__target_check(const hs__analysis_request *analysis, size_t n_tokens, hs__problem *problem);

/* Returns true if the request has a target: the one that it names, or the predicted class of a text. */
bool hs__target_exists(const hs__analysis_request *analysis, const hs_architecture *architecture);
