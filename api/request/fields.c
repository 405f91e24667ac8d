/* fields.c - the table of a body's fields, each with its reader, and the model's defaults and limits. */
#include "api/request/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ==== outputs ==== */

static bool has_predictor(const hs_architecture *architecture)
{
    return architecture->predictor.decoder.data;
}

static bool has_c2p(const hs_architecture *architecture)
{
    return architecture->relative.c2p;
}

static bool has_p2c(const hs_architecture *architecture)
{
    return architecture->relative.p2c;
}

static bool has_any_term(const hs_architecture *architecture)
{
    return has_c2p(architecture) || has_p2c(architecture);
}

static bool has_classes(const hs_architecture *architecture)
{
    return architecture->task_head.labels != NULL;
}

static bool has_next_sentence(const hs_architecture *architecture)
{
    return architecture->next_sentence.task != HS_TASK_NONE;
}

static bool has_answer(const hs_architecture *architecture)
{
    return architecture->task_head.task == HS_TASK_SPAN;
}

static bool has_loss(const hs_architecture *architecture)
{
    return architecture->predictor.next && has_predictor(architecture);
}

static bool has_masked_predictor(const hs_architecture *architecture)
{
    return has_predictor(architecture) && !architecture->predictor.next;
}

static bool has_contacts(const hs_architecture *architecture)
{
    return architecture->contacts.weight.data;
}

/* Element i of the list names an output that the checkpoint lacks. */
typedef int output_refuser(const hs__reading *r, size_t i, const char *output);

static int refuse_predictor(const hs__reading *r, size_t i, const char *output)
{
    (void)i;
    (void)output;
    return hs__predictor_check(r->model, r->pointer, r->problem);
}

static int refuse_term(const hs__reading *r, size_t i, const char *output)
{
    (void)i;
    return hs__refuse(
        r->problem, 422, r->pointer,
        "the scores of %s have no term %s: only models with relative positions have it (%s lists them); "
        "request scores instead",
        r->model->name, output, r->model->list_command);
}

static int refuse_head(const hs__reading *r, size_t i, const char *output)
{
    char pointer[64];
    const char *task = hs_model_task(r->model->model);
    snprintf(pointer, sizeof pointer, "%s/%zu", r->pointer, i);
    return hs__refuse(r->problem, 422, pointer,
                      "the checkpoint of %s has no head for the output %s: its task is %s; task in %s shows "
                      "which models have one",
                      r->model->name, output, task ? task : "none", r->model->list_command);
}

static int refuse_sparse(const hs__reading *r, size_t i, const char *output)
{
    char pointer[64];
    snprintf(pointer, sizeof pointer, "%s/%zu", r->pointer, i);
    return r->model->architecture->predictor.next
               ? hs__refuse(r->problem, 422, pointer,
                            "%s predicts next tokens, and the output %s is made of predictions of masked "
                            "tokens; mlm in %s shows which models have them",
                            r->model->name, output, r->model->list_command)
               : hs__predictor_check(r->model, pointer, r->problem);
}

static int refuse_contacts(const hs__reading *r, size_t i, const char *output)
{
    char pointer[64];
    snprintf(pointer, sizeof pointer, "%s/%zu", r->pointer, i);
    return hs__refuse(r->problem, 422, pointer,
                      "%s has no contact head, which the output %s needs: checkpoints of ESM have one whose "
                      "files hold contact_head.regression",
                      r->model->name, output);
}

static int refuse_loss(const hs__reading *r, size_t i, const char *output)
{
    char pointer[64];
    snprintf(pointer, sizeof pointer, "%s/%zu", r->pointer, i);
    return *r->model->architecture->predictor.missing ? hs__predictor_check(r->model, pointer, r->problem)
                                                      : refuse_head(r, i, output);
}

const char *const hs__output_names[HS__OUTPUTS_COUNT] = {
#define NAME(name) [HS__OUTPUT_##name] = #name,
    HS__OUTPUT_NAMES(NAME)
#undef NAME
};

/* Requirements of outputs on a checkpoint; those without a row have none. */
static const struct {
    bool (*has)(const hs_architecture *architecture);
    output_refuser *refuse;
} requirements[HS__OUTPUTS_COUNT] = {
    [HS__OUTPUT_scores_c2c] = {.has = has_any_term, .refuse = refuse_term},
    [HS__OUTPUT_scores_c2p] = {.has = has_c2p, .refuse = refuse_term},
    [HS__OUTPUT_scores_p2c] = {.has = has_p2c, .refuse = refuse_term},
    [HS__OUTPUT_contacts] = {.has = has_contacts, .refuse = refuse_contacts},
    [HS__OUTPUT_classes] = {.has = has_classes, .refuse = refuse_head},
    [HS__OUTPUT_next_sentence] = {.has = has_next_sentence, .refuse = refuse_head},
    [HS__OUTPUT_answer] = {.has = has_answer, .refuse = refuse_head},
    [HS__OUTPUT_loss] = {.has = has_loss, .refuse = refuse_loss},
    [HS__OUTPUT_sparse_embedding] = {.has = has_masked_predictor, .refuse = refuse_sparse},
    [HS__OUTPUT_predictions] = {.has = has_predictor, .refuse = refuse_predictor},
};

static bool is_named(size_t output)
{
    return !(HS__OUTPUTS_BROUGHT >> output & 1);
}

const char *hs_output_name(size_t i)
{
    for (size_t output = 0; output < HS__OUTPUTS_COUNT; output++)
        if (is_named(output) && i-- == 0)
            return hs__output_names[output];
    return NULL;
}

/* Returns the number of the output that the value names; HS__OUTPUTS_COUNT if there is none. */
static size_t find_output(const json_t *value)
{
    const char *name = json_string_value(value);
    size_t output = 0;
    while (output < HS__OUTPUTS_COUNT &&
           !(name && is_named(output) && strlen(hs__output_names[output]) == json_string_length(value) &&
             memcmp(hs__output_names[output], name, json_string_length(value)) == 0))
        output++;
    return output;
}

/* Writes all names in quotes with commas between. */
static void list_outputs(char *ret, size_t n_ret)
{
    size_t used = 0;
    for (size_t i = 0; hs_output_name(i) && used < n_ret; i++)
        used += (size_t)snprintf(ret + used, n_ret - used, "%s\"%s\"", i ? ", " : "", hs_output_name(i));
}

static int read_outputs(const hs__reading *r)
{
    char names[2048], must[2100];
    list_outputs(names, sizeof names);
    if (!json_is_array(r->value)) {
        snprintf(must, sizeof must, "a list of %s", names);
        return hs__reading_refuse(r, must);
    }
    snprintf(must, sizeof must, "one of %s", names);
    r->analysis->outputs = 0;
    for (size_t i = 0; i < json_array_size(r->value); i++) {
        const size_t output = find_output(json_array_get(r->value, i));
        if (output == HS__OUTPUTS_COUNT)
            return hs__reading_refuse_element(r, i, must);
        if (requirements[output].has && !requirements[output].has(r->model->architecture))
            return requirements[output].refuse(r, i, hs__output_names[output]);
        r->analysis->outputs |= (hs__outputs)1 << output;
    }
    return 0;
}

/* ==== fields ==== */

static int read_words(const hs__reading *r)
{
    const size_t n = json_array_size(r->value);
    if (!json_is_array(r->value))
        return hs__reading_refuse(r, "a list of strings");
    hs_text *words = r->analysis->input.words = calloc(n + 1, sizeof *words);
    if (!words)
        return hs__reading_refuse_memory(r);
    for (size_t i = 0; i < n; i++) {
        const json_t *word = json_array_get(r->value, i);
        if (!json_is_string(word))
            return hs__reading_refuse_element(r, i, "a string");
        words[i] = (hs_text){json_string_value(word), json_string_length(word)};
    }
    r->analysis->input.n_words = n;
    return 0;
}

static int read_input_ids(const hs__reading *r)
{
    const hs_shape *shape = r->model->shape;
    const size_t n = json_array_size(r->value);
    if (json_is_array(r->value) && (n < 1 || n > shape->n_positions))
        return hs__refuse(r->problem, 422, r->pointer,
                          "input_ids has %zu elements; it must be a list of 1 to %zu token ids", n,
                          shape->n_positions);
    return hs__read_ids(r, &r->analysis->input.ids, &r->analysis->input.n_ids);
}

/* Models without token types accept types 0 and 1 too: a sentence ends where the type changes. */
static int read_token_type_ids(const hs__reading *r)
{
    const size_t n = r->analysis->input.n_ids, n_types = r->model->shape->n_types;
    if (!json_is_array(r->value) || json_array_size(r->value) != n)
        return hs__refuse(r->problem, 422, r->pointer,
                          "token_type_ids must be a list of %zu integers, one for each of input_ids", n);
    uint8_t *types = r->analysis->input.types = malloc(n);
    if (!types)
        return hs__reading_refuse_memory(r);
    for (size_t i = 0; i < n; i++) {
        const json_t *type = json_array_get(r->value, i);
        if (!hs__is_integer(type, 0, n_types == 1 ? 0 : 1))
            return hs__reading_refuse_element(
                r, i, n_types == 1 ? "an integer from 0 to 0" : "an integer from 0 to 1");
        types[i] = (uint8_t)json_number_value(type);
    }
    return 0;
}

/* The start token takes one of the positions. */
static int read_target_ids(const hs__reading *r)
{
    const size_t n = json_array_size(r->value), most = r->model->shape->n_positions - 1;
    char must[96];
    snprintf(must, sizeof must, "a list of 1 to %zu token ids", most);
    if (!json_is_array(r->value))
        return hs__reading_refuse(r, must);
    if (n < 1 || n > most)
        return hs__refuse(r->problem, 422, r->pointer,
                          "target_ids has %zu elements; it must be a list of 1 to %zu token ids", n, most);
    return hs__read_ids(r, &r->analysis->decoder_input.ids, &r->analysis->decoder_input.n_ids);
}

/* Reads a language of the model into the field. */
static int read_language(const hs__reading *r)
{
    const hs_tokenizer *tokenizer = hs_model_tokenizer(r->model->model);
    const char *code = json_string_value(r->value);
    const int32_t id = code ? hs_tokenizer_language(tokenizer, code, json_string_length(r->value)) : -1;
    char example[HS_LANGUAGE_BYTES], must[128];
    if (!hs_tokenizer_language_code(tokenizer, hs_tokenizer_languages(tokenizer)->source, example))
        return hs__refuse(r->problem, 422, r->pointer,
                          "the tokenizer of %s has no languages: leave %s out; languages in %s shows which "
                          "models have some",
                          r->model->name, r->row->field.name, r->model->list_command);
    snprintf(must, sizeof must, "a language such as \"%s\"; languages in %.40s lists them", example,
             r->model->list_command);
    if (id < 0)
        return hs__reading_refuse(r, must);
    *(int32_t *)hs__reading_to(r) = id;
    return 0;
}

static int read_max_tokens(const hs__reading *r)
{
    /* [CLS] text [SEP] pair [SEP] needs one more than [CLS] text [SEP], and so does a decoder's start token.
     */
    const hs__input *target = &r->analysis->decoder_input;
    const bool decodes = r->model->encoder || (r->model->decoder && (target->text.bytes || target->ids));
    return hs__read_integer_within(r, r->analysis->input.text_pair.bytes || decodes ? 3 : 2,
                                   r->model->shape->n_positions);
}

static int read_max_new_tokens(const hs__reading *r)
{
    const hs__served_model *model = r->model;
    const hs_architecture *architecture = model->architecture;
    if (model->decoder)
        return hs__refuse(r->problem, 422, r->pointer,
                          "the encoder of %s writes no text: send stack \"decoder\" or \"cross\" with "
                          "max_new_tokens",
                          model->name);
    if (!architecture->causal || !has_loss(architecture))
        return hs__refuse(
            r->problem, 422, r->pointer,
            "%s writes no text: only causal models and decoders that predict the next token do; "
            "task and stacks in %s show which models are",
            model->name, model->list_command);
    if (*architecture->generation.refusal)
        return hs__refuse(r->problem, 422, r->pointer, "%s writes no text: %s", model->name,
                          architecture->generation.refusal);
    return hs__read_integer(r);
}

static int read_window(const hs__reading *r)
{
    r->analysis->has_window = true;
    return hs__read_integer(r);
}

static int read_stride(const hs__reading *r)
{
    return hs__read_integer_within(r, 0, r->analysis->max_tokens - 1);
}

static int read_layers(const hs__reading *r)
{
    hs__analysis_request *analysis = r->analysis;
    const size_t n = r->model->shape->n_layers;
    analysis->has_layers = true;
    const int choice = hs__choice_find(r->value, r->row->field.choices);
    if (choice == 1)
        analysis->n_layers = hs__numbers_all(analysis->layers, n);
    else if (choice < 0 && json_array_size(r->value) == 0) /* or no list */
        return hs__reading_refuse(r, "\"last\", \"all\" or a list of at least one layer number");
    else if (choice < 0)
        return hs__read_numbers(r, "layer", n, analysis->layers, &analysis->n_layers);
    return 0; /* last: the default */
}

static int read_heads(const hs__reading *r)
{
    hs__analysis_request *analysis = r->analysis;
    if (hs__choice_find(r->value, r->row->field.choices) == 0)
        return 0; /* all: the default */
    if (json_array_size(r->value) == 0)
        return hs__reading_refuse(r, "\"all\" or a list of at least one head number");
    return hs__read_numbers(r, "head", r->model->shape->n_heads, analysis->heads, &analysis->n_heads);
}

/* Writes the names of the model's prompts in quotes, and "" for none, as many as fit. */
static void list_prompts(const hs_sentence_head *head, char *ret, size_t n_ret)
{
    size_t used = (size_t)snprintf(ret, n_ret, head->n_prompts ? "\"\" for no prompt, or one of" : "\"\"");
    for (size_t i = 0; i < head->n_prompts; i++) {
        if (used + strlen(head->prompts[i].name) + sizeof ", \"\", ..." >= n_ret) {
            snprintf(ret + used, n_ret - used, ", ...");
            return;
        }
        used += (size_t)snprintf(ret + used, n_ret - used, "%s \"%s\"", i ? "," : "", head->prompts[i].name);
    }
}

static int read_prompt_name(const hs__reading *r)
{
    const hs_sentence_head *head = &r->model->architecture->sentence;
    const char *name = json_string_value(r->value);
    r->analysis->prompt = NULL;
    if (name && !name[0] && json_string_length(r->value) == 0)
        return 0;
    for (size_t i = 0; name && i < head->n_prompts; i++)
        if (strcmp(head->prompts[i].name, name) == 0 && strlen(name) == json_string_length(r->value))
            r->analysis->prompt = &head->prompts[i];
    if (r->analysis->prompt)
        return 0;
    char names[400], must[500];
    list_prompts(head, names, sizeof names);
    snprintf(must, sizeof must, head->n_prompts ? "%s" : "%s: this model has no prompts", names);
    return hs__reading_refuse(r, must);
}

/* The dense layers of a sentence encoder may fit its own pooling only. */
static int read_pooling(const hs__reading *r)
{
    static const hs_pool ways[] = {HS_POOL_MEAN, HS_POOL_CLS, HS_POOL_MAX}; /* as the row's choices */
    const int choice = hs__choice_find(r->value, r->row->field.choices);
    if (choice < 0)
        return hs__reading_refuse(r, "one of \"mean\", \"cls\", \"max\"");
    r->analysis->pooling = (hs_pooling){.n = 1, .ways = {ways[choice]}};
    if (hs_sentence_width(r->model->architecture, &r->analysis->pooling))
        return 0;
    return hs__refuse(
        r->problem, 422, r->pointer,
        "the dense layers of %s read another width than one way of pooling has; leave pooling out",
        r->model->name);
}

/* The row of pooling comes before, so the width is that of the requested pooling. */
static int read_truncate_dim(const hs__reading *r)
{
    const hs_architecture *architecture = r->model->architecture;
    const hs_pooling pooling = hs_sentence_pooling(architecture, &r->analysis->pooling);
    return hs__read_integer_within(r, 1, hs_sentence_width(architecture, &pooling));
}

static int compare_ids(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Reads tokens of the vocabulary and sorts them by id, so that their order does not matter. */
static int read_sentence_ends(const hs__reading *r)
{
    hs__analysis_request *analysis = r->analysis;
    const hs_tokenizer *tokenizer = hs_model_tokenizer(r->model->model);
    if (!json_is_array(r->value) || json_array_size(r->value) > HS__SENTENCE_ENDS_MAX)
        return hs__reading_refuse(r, "a list of at most 64 tokens");
    analysis->has_sentence_ends = true;
    for (size_t i = 0; i < json_array_size(r->value); i++) {
        const json_t *token = json_array_get(r->value, i);
        const int32_t id = json_is_string(token) ? hs_tokenizer_id(tokenizer, json_string_value(token),
                                                                   json_string_length(token))
                                                 : -1;
        if (id < 0)
            return hs__reading_refuse_element(r, i, "a token of the model's vocabulary");
        analysis->sentence_ends[analysis->n_sentence_ends++] = id;
    }
    qsort(analysis->sentence_ends, analysis->n_sentence_ends, sizeof *analysis->sentence_ends, compare_ids);
    return 0;
}

/* ==== the table ==== */

#define AT(name) offsetof(hs__analysis_request, name)

/* In the order of reading: text_pair decides about max_tokens, that about stride, input_ids about
 * token_type_ids, and interventions add to outputs. `model` is read before, because all depend on it. */
static const hs__row rows[] = {
    {.field = {.name = "text",
               .kind = HS_FIELD_TEXT,
               .argument = "TEXT",
               .help = "what to analyse",
               .tokenize = true},
     .read = hs__read_text,
     .offset = AT(input.text)},
    {.field = {.name = "text_pair",
               .kind = HS_FIELD_TEXT,
               .argument = "TEXT",
               .help = "second segment",
               .tokenize = true},
     .read = hs__read_text,
     .offset = AT(input.text_pair)},
    {.field = {.name = "prompt_name",
               .kind = HS_FIELD_TEXT,
               .argument = "NAME",
               .help = "prompt of a sentence encoder, put before the text; \"\": none (the model's default)",
               .tokenize = true},
     .read = read_prompt_name},
    {.field = {.name = "words",
               .kind = HS_FIELD_STRINGS,
               .argument = "LIST",
               .help = "instead of a text: a list of its words, like [\"a\", \",\"] in JSON",
               .tokenize = true},
     .read = read_words},
    {.field = {.name = "input_ids",
               .kind = HS_FIELD_IDS,
               .argument = "LIST",
               .help = "instead of a text: token ids, including special ones",
               .tokenize = true},
     .read = read_input_ids},
    {.field = {.name = "token_type_ids",
               .kind = HS_FIELD_IDS,
               .argument = "LIST",
               .help = "0 or 1 for each of the input ids (0)",
               .tokenize = true},
     .read = read_token_type_ids},
    {.field = {.name = "stack",
               .kind = HS_FIELD_ENUM,
               .argument = "STACK",
               .help = "heads of an encoder-decoder model: encoder, decoder or cross (encoder)",
               .choices = "encoder|decoder|cross",
               .tokenize = true},
     .read = hs__read_enum,
     .offset = AT(stack)},
    {.field = {.name = "text_target",
               .kind = HS_FIELD_TEXT,
               .argument = "TEXT",
               .help = "with stack decoder or cross, effects or gradients: what the decoder reads",
               .tokenize = true},
     .read = hs__read_text,
     .offset = AT(decoder_input.text)},
    {.field = {.name = "target_ids",
               .kind = HS_FIELD_IDS,
               .argument = "LIST",
               .help = "instead of text_target: token ids, without the start token",
               .tokenize = true},
     .read = read_target_ids},
    {.field = {.name = "source_language",
               .kind = HS_FIELD_TEXT,
               .argument = "CODE",
               .help = "of NLLB, M2M100 and mBART: language of the text, such as eng_Latn",
               .tokenize = true},
     .read = read_language,
     .offset = AT(source_language)},
    {.field = {.name = "target_language",
               .kind = HS_FIELD_TEXT,
               .argument = "CODE",
               .help = "language of text_target, or of what the model writes",
               .tokenize = true},
     .read = read_language,
     .offset = AT(target_language)},
    {.field = {.name = "max_tokens",
               .kind = HS_FIELD_INTEGER,
               .argument = "N",
               .help = "truncate the text to this many tokens (128)",
               .low = 2,
               .tokenize = true},
     .read = read_max_tokens,
     .offset = AT(max_tokens)},
    {.field = {.name = "max_new_tokens",
               .kind = HS_FIELD_INTEGER,
               .argument = "N",
               .help = "let the model write up to N tokens greedily, behind the text or as the target",
               .low = 1,
               .high = 128},
     .read = read_max_new_tokens,
     .offset = AT(max_new_tokens)},
    {.field = {.name = "window",
               .kind = HS_FIELD_INTEGER,
               .argument = "N",
               .help = "cut a longer text into windows of max_tokens, and analyse this one, from 0",
               .high = HS_WINDOWS_TOKENS_MAX - 1,
               .tokenize = true},
     .read = read_window,
     .offset = AT(window)},
    {.field = {.name = "stride",
               .kind = HS_FIELD_INTEGER,
               .argument = "N",
               .help = "tokens that neighbouring windows share (0)",
               .tokenize = true},
     .read = read_stride,
     .offset = AT(stride)},
    {.field = {.name = "split_special_tokens",
               .kind = HS_FIELD_FLAG,
               .help = "treat [MASK] in the text as ordinary text",
               .tokenize = true},
     .read = hs__read_flag,
     .offset = AT(split_special_tokens)},
    {.field = {.name = "sentence_ends",
               .kind = HS_FIELD_STRINGS,
               .argument = "LIST",
               .help = "tokens that end a sentence (.,!,?)",
               .tokenize = true},
     .read = read_sentence_ends},
    {.field = {.name = "layers",
               .kind = HS_FIELD_NUMBERS,
               .argument = "LIST",
               .help = "last, all, or numbers like 0,3,-1 (last)",
               .choices = "last|all"},
     .read = read_layers},
    {.field = {.name = "heads",
               .kind = HS_FIELD_NUMBERS,
               .argument = "LIST",
               .help = "all, or numbers like 0,3 (all)",
               .choices = "all"},
     .read = read_heads},
    {.field = {.name = "outputs",
               .kind = HS_FIELD_STRINGS,
               .argument = "LIST",
               .help = "outputs, see below (attentions,similarities,pairs)"},
     .read = read_outputs},
    {.field = {.name = "interventions",
               .kind = HS_FIELD_OBJECTS,
               .argument = "JSON",
               .help = "changes to heads and states; adds the output changes"},
     .read = hs__read_interventions},
    {.field = {.name = "predictions",
               .kind = HS_FIELD_OBJECTS,
               .argument = "JSON",
               .help = "at masked tokens: {} or {\"positions\": \"all\", \"top_k\": 5, \"lens\": true}"},
     .read = hs__read_predictions},
    {.field = {.name = "pooling",
               .kind = HS_FIELD_ENUM,
               .argument = "HOW",
               .help = "for embedding: mean, cls or max (the model's own, or mean)",
               .choices = "mean|cls|max"},
     .read = read_pooling},
    {.field = {.name = "truncate_dim",
               .kind = HS_FIELD_INTEGER,
               .argument = "N",
               .help = "for embedding: keep the first N dimensions (all)",
               .low = 1},
     .read = read_truncate_dim,
     .offset = AT(pooling.n_columns)},
    {.field = {.name = "normalize_embeddings",
               .kind = HS_FIELD_FLAG,
               .help = "for embedding: divide it by its length, after truncate_dim"},
     .read = hs__read_flag,
     .offset = AT(pooling.normalized)},
    {.field = {.name = "head_scores",
               .kind = HS_FIELD_OBJECTS,
               .argument = "JSON",
               .help =
                   "on random repeated sequences: {} or {\"length\": 50, \"sequences\": 10, \"seed\": 0}"},
     .read = hs__read_head_scores},
    {.field = {.name = "target",
               .kind = HS_FIELD_OBJECTS,
               .argument = "JSON",
               .help = "number that effects and gradients follow: {\"class\": \"LABEL\"} (the predicted "
                       "class)"},
     .read = hs__read_target},
    {.field = {.name = "effects_of",
               .kind = HS_FIELD_OBJECTS,
               .argument = "JSON",
               .help = "change of each head: {\"kind\": \"patch\", \"from\": {\"text\": \"...\"}} (zero)"},
     .read = hs__read_effects_of},
    {.field = {.name = "attribution",
               .kind = HS_FIELD_ENUM,
               .argument = "METHOD",
               .help = "of tokens: gradient_x_input, gradient or integrated_gradients (gradient_x_input)",
               .choices = "gradient_x_input|gradient|integrated_gradients"},
     .read = hs__read_enum,
     .offset = AT(attribution.method)},
    {.field = {.name = "steps",
               .kind = HS_FIELD_INTEGER,
               .argument = "N",
               .help = "of integrated gradients (32)",
               .low = 1,
               .high = 1000},
     .read = hs__read_integer,
     .offset = AT(attribution.steps)},
    {.field = {.name = "baseline",
               .kind = HS_FIELD_ENUM,
               .argument = "TOKEN",
               .help = "of integrated gradients: mask, pad or zero (the first that the model has)",
               .choices = "mask|pad|zero"},
     .read = hs__read_enum,
     .offset = AT(attribution.baseline)},
    {.field = {.name = "similarity_space",
               .kind = HS_FIELD_ENUM,
               .argument = "SPACE",
               .help = "similarities of outputs or of what heads write: head or residual (head)",
               .choices = "head|residual"},
     .read = hs__read_enum,
     .offset = AT(similarity_space)},
    {.field = {.name = "center",
               .kind = HS_FIELD_ENUM,
               .argument = "HOW",
               .help = "text: similarities of outputs less their mean over the text; none or text (none)",
               .choices = "none|text"},
     .read = hs__read_enum,
     .offset = AT(center)},
    {.field = {.name = "head_distance",
               .kind = HS_FIELD_ENUM,
               .argument = "KIND",
               .help = "for head_distances: cka of outputs or js of attention (cka)",
               .choices = "cka|js"},
     .read = hs__read_enum,
     .offset = AT(head_distance)},
    {.field = {.name = "normalize",
               .kind = HS_FIELD_ENUM,
               .argument = "HOW",
               .help = "similarities as they are or as N = S / max: none or max (none)",
               .choices = "none|max"},
     .read = hs__read_enum,
     .offset = AT(normalize)},
    {.field = {.name = "threshold",
               .kind = HS_FIELD_FRACTION,
               .argument = "T",
               .help = "threshold of high similarity, in (0, 1] (0.3)",
               .high = 1},
     .read = hs__read_fraction,
     .offset = AT(threshold)},
    {.field = {.name = "attention_threshold",
               .kind = HS_FIELD_FRACTION,
               .argument = "T",
               .help = "threshold of high attention, in (0, 1] (0.3)",
               .high = 1},
     .read = hs__read_fraction,
     .offset = AT(attention_threshold)},
    {.field = {.name = "max_pairs",
               .kind = HS_FIELD_INTEGER,
               .argument = "N",
               .help = "maximum number of pairs, strongest first (10000)",
               .high = 1000000},
     .read = hs__read_integer,
     .offset = AT(max_pairs)},
    {.field = {.name = "pool",
               .kind = HS_FIELD_INTEGER,
               .argument = "N",
               .help = "for pooled maps: rows and columns of a block (64)",
               .low = 1,
               .high = HS_POSITIONS_MAX},
     .read = hs__read_integer,
     .offset = AT(pool)},
    {.field = {.name = "rows",
               .kind = HS_FIELD_IDS,
               .argument = "FROM,TO",
               .help = "for sliced maps: the first row, and the one behind the last (all)"},
     .read = hs__read_slice,
     .offset = AT(rows)},
    {.field = {.name = "columns",
               .kind = HS_FIELD_IDS,
               .argument = "FROM,TO",
               .help = "the same of columns (all)"},
     .read = hs__read_slice,
     .offset = AT(columns)},
    {.field = {.name = "reduce",
               .kind = HS_FIELD_ENUM,
               .argument = "HOW",
               .help = "reduction over the heads: none, sum or mean (none)",
               .choices = "none|sum|mean"},
     .read = hs__read_enum,
     .offset = AT(reduce)},
    {.field = {.name = "special_tokens",
               .kind = HS_FIELD_ENUM,
               .argument = "HOW",
               .help = "mask: leave special tokens out of figures; keep or mask (keep)",
               .choices = "keep|mask"},
     .read = hs__read_enum,
     .offset = AT(special_tokens)},
    {.field = {.name = "digits",
               .kind = HS_FIELD_INTEGER,
               .argument = "N",
               .help = "significant digits of JSON numbers, 1 to 9 (6)",
               .low = 1,
               .high = 9},
     .read = hs__read_integer,
     .offset = AT(digits)},
    {.field = {.name = "dtype",
               .kind = HS_FIELD_ENUM,
               .argument = "TYPE",
               .help = "element type of binary array outputs: f4, f2 or u1 (f4)",
               .choices = "f4|f2|u1"},
     .read = hs__read_enum,
     .offset = AT(dtype)},
    {.field = {.name = "figure",
               .kind = HS_FIELD_OBJECTS,
               .argument = "JSON",
               .help = "with format svg, pdf, png or csv: {\"kind\": \"layer\", \"width_mm\": 170}"},
     .read = hs__read_figure},
};
#define N_ROWS (sizeof rows / sizeof *rows)

const hs_field *hs_field_at(size_t i)
{
    return i < N_ROWS ? &rows[i].field : NULL;
}

const hs_field *hs_field_find(const char *name)
{
    for (size_t i = 0; hs_field_at(i); i++)
        if (strcmp(hs_field_at(i)->name, name) == 0)
            return hs_field_at(i);
    return NULL;
}

void hs__fields_default(const hs__served_model *model, hs__analysis_request *ret_analysis)
{
    const hs_shape *shape = model->shape;
    const hs_sentence_head *sentence = &model->architecture->sentence;
    if (sentence->default_prompt < sentence->n_prompts)
        ret_analysis->prompt = &sentence->prompts[sentence->default_prompt];
    const size_t length = sentence->max_tokens > 2 ? sentence->max_tokens : 128;
    ret_analysis->max_tokens = shape->n_positions < length ? shape->n_positions : length;
    ret_analysis->outputs = HS__OUTPUTS_DEFAULT;
    ret_analysis->layers[0] = (uint16_t)(shape->n_layers - 1);
    ret_analysis->n_layers = 1;
    ret_analysis->n_heads = hs__numbers_all(ret_analysis->heads, shape->n_heads);
    ret_analysis->threshold = 0.3f;
    ret_analysis->attention_threshold = 0.3f;
    ret_analysis->max_pairs = 10000;
    ret_analysis->digits = 6;
    ret_analysis->predictions.top_k = 5;
    ret_analysis->attribution =
        (hs__attribution_request){.method = HS__ATTRIBUTION_UNNAMED, .baseline = HS__BASELINE_UNNAMED};
    const size_t longest = hs__head_scores_length_max(model);
    ret_analysis->head_scores =
        (hs__head_scores_request){.length = longest < 50 ? longest : 50, .sequences = 10};
    ret_analysis->figure.width_mm = 85;
    ret_analysis->figure.font_pt = 7;
    ret_analysis->figure.dpi = 300;
}

int hs__fields_read(const hs__served_model *model, json_t *body, hs__analysis_request *ret_analysis,
                    hs__problem *problem)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        char pointer[32];
        const hs__reading r = {.row = &rows[i],
                               .value = json_object_get(body, rows[i].field.name),
                               .pointer = pointer,
                               .into = ret_analysis,
                               .model = model,
                               .analysis = ret_analysis,
                               .problem = problem};
        snprintf(pointer, sizeof pointer, "/%s", rows[i].field.name);
        if (r.value && rows[i].read(&r))
            return problem->status;
    }
    hs__gradients_complete(ret_analysis);
    hs__words_complete(ret_analysis);
    return 0;
}
