/* tokenizer.c - builds an hs_tokenizer from a description: first the parts, then the vocabulary of the
 * model's entries and the added tokens, then the tokens that the parts look up. */
#include "model/tokenizer/tokenizer_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- parts ----
 *
 * An unknown type of part is refused by name. */

/* clang-format off */
static const hs__part_type *const types[] = {
    &hs__bert_normalizer,
    &hs__bert_pre_tokenizer,
    &hs__byte_level_pre_tokenizer,
    &hs__wordpiece,
    &hs__bpe,
    &hs__bert_processing,
    &hs__roberta_processing,
    &hs__template_processing,
    &hs__byte_level_post_processor,
    &hs__lowercase,
    &hs__nfc,
    &hs__nfd,
    &hs__nfkc,
    &hs__nfkd,
    &hs__nmt,
    &hs__precompiled,
    &hs__sentencepiece_normalizer,
    &hs__prepend,
    &hs__replace,
    &hs__strip,
    &hs__strip_accents,
    &hs__digits,
    &hs__metaspace,
    &hs__punctuation,
    &hs__split_pre_tokenizer,
    &hs__whitespace,
    &hs__whitespace_split,
    &hs__unigram,
    &hs__word_level,
    &hs__mecab_pre_tokenizer,
    &hs__word_normalizer,
    &hs__python_whitespace,
    &hs__character,
    NULL,
};
/* clang-format on */

/* The keys of a stage in tokenizer.json, and of the parts of its Sequence. */
static const struct {
    const char *key, *list;
    bool optional; /* null means no part */
} stages[] = {{"normalizer", "normalizers", true},
              {"pre_tokenizer", "pretokenizers", true},
              {"model.type", NULL, false},
              {"post_processor", "processors", true}};

static bool is_of(const hs__part_type *type, const json_t *options, const char *name)
{
    return name ? strcmp(type->name, name) == 0 : type->recognize && type->recognize(options);
}

static hs_status refuse_part(hs__stage stage, const char *name, hs_error *err)
{
    char supported[256] = "";
    size_t used = 0;
    for (size_t i = 0; types[i] && used < sizeof supported; i++)
        if (types[i]->stage == stage)
            used += (size_t)snprintf(supported + used, sizeof supported - used, "%s%s", used ? ", " : "",
                                     types[i]->name);
    return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: %s is '%.64s'; supported: %s", stages[stage].key,
                   name ? name : "none", supported);
}

static hs_status part_append(hs__stage stage, const json_t *options, hs__parts *parts, hs_error *err)
{
    const char *name = json_string_value(json_object_get(options, "type"));
    if (parts->n == HS__STAGE_PARTS_MAX)
        return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: %s has more than %d parts", stages[stage].key,
                       HS__STAGE_PARTS_MAX);
    for (size_t i = 0; types[i]; i++) {
        if (types[i]->stage != stage || !is_of(types[i], options, name))
            continue;
        hs__part *part = parts->items[parts->n] = calloc(1, types[i]->size);
        if (!part)
            return hs_fail(err, HS_NO_MEMORY, "out of memory");
        parts->n++;
        part->type = types[i];
        return part->type->configure ? part->type->configure(part, options, err) : HS_OK;
    }
    return refuse_part(stage, name, err);
}

/* Creates the parts of a stage from an object, or from each object of a Sequence. Fails with HS_BAD_MODEL for
 * an unknown part, or if a required stage has none. The caller finishes the result, even after an error. */
static hs_status create_parts(hs__stage stage, const json_t *options, hs__parts *ret_parts, hs_error *err)
{
    const char *name = json_string_value(json_object_get(options, "type"));
    if (stages[stage].optional && json_is_null(options))
        return HS_OK;
    if (!stages[stage].list || !name || strcmp(name, "Sequence") != 0)
        return part_append(stage, options, ret_parts, err);
    const json_t *list = json_object_get(options, stages[stage].list);
    if (!json_is_array(list))
        return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: %s is a Sequence without '%s'", stages[stage].key,
                       stages[stage].list);
    hs_status st = HS_OK;
    for (size_t i = 0; !st && i < json_array_size(list); i++)
        st = part_append(stage, json_array_get(list, i), ret_parts, err);
    return st;
}

static void finish_parts(hs__parts *parts)
{
    for (size_t i = 0; i < parts->n; i++) {
        if (parts->items[i]->type->finish)
            parts->items[i]->type->finish(parts->items[i]);
        free(parts->items[i]);
    }
    parts->n = 0;
}

/* ---- roles ----
 *
 * Finds roles by the template and by the token's own text, so that a sentence ends at the same
 * place whether a vocabulary writes ".", "\u0120." or "\u2581.". */

#define FINAL   ".!?"
#define CLOSING "\"')]}"

/* Skips the mark of a space before a word. */
static const char *without_space(const char *text)
{
    static const char *const marks[] = {" ", "\u0120", "\u2581"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strncmp(text, marks[i], strlen(marks[i])) == 0)
            return text + strlen(marks[i]);
    return text;
}

static hs_role role_of(const char *text)
{
    text = without_space(text);
    if (strcmp(text, ",") == 0)
        return HS_ROLE_COMMA;
    const bool is_end = strpbrk(text, FINAL) && text[strspn(text, FINAL CLOSING)] == '\0';
    return is_end ? HS_ROLE_SENTENCE_END : HS_ROLE_OTHER;
}

/* Finds the role of every token of a vocabulary. The caller frees *ret_roles, [vocabulary->size] of hs_role.
 * Unused ids are HS_ROLE_OTHER. */
static hs_status find_roles(const hs__vocabulary *vocabulary, const hs__template *template,
                            uint8_t **ret_roles, hs_error *err)
{
    uint8_t *roles = malloc(vocabulary->size);
    if (!roles)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    for (size_t id = 0; id < vocabulary->size; id++) {
        const uint32_t at = vocabulary->text_at[id];
        roles[id] = (uint8_t)(at == UINT32_MAX ? HS_ROLE_OTHER : role_of(vocabulary->texts + at));
    }
    if (template->separator >= 0)
        roles[template->separator] = HS_ROLE_SEPARATOR;
    if (template->first >= 0)
        roles[template->first] = HS_ROLE_FIRST;
    *ret_roles = roles;
    return HS_OK;
}

/* ---- create ---- */

/* Lists the model's entries, unless a file of their own has them. */
static hs_status list_entries(const hs__part *model, hs__description *d, hs_error *err)
{
    json_t *options = json_object_get(d->json, "model");
    assert(model);
    if (d->entries.items)
        return HS_OK;
    return model->type->list(options, d->vocab_size, &d->entries, err);
}

/* Creates each stage from its own object. */
static hs_status create_stages(hs_tokenizer *tokenizer, hs__description *d, hs_error *err)
{
    static const struct {
        hs__stage stage;
        const char *key;
    } keys[HS__N_STAGES] = {{HS__MODEL, "model"},
                            {HS__NORMALIZER, "normalizer"},
                            {HS__PRE_TOKENIZER, "pre_tokenizer"},
                            {HS__POST_PROCESSOR, "post_processor"}};
    hs_status st = HS_OK;
    for (size_t i = 0; !st && i < HS__N_STAGES; i++) {
        hs__parts *stage = &tokenizer->stages[keys[i].stage];
        st = create_parts(keys[i].stage, json_object_get(d->json, keys[i].key), stage, err);
        if (!st && keys[i].stage == HS__MODEL)
            st = list_entries(stage->items[0], d, err);
    }
    return st;
}

/* The template of a file without one: the texts alone. */
static const hs__template no_template = {
    .forms = {{.steps = {{.id = -1}}, .n_steps = 1},
              {.steps = {{.id = -1}, {.id = -1, .text = 1, .type = 1}}, .n_steps = 2}},
    .first = -1,
    .separator = -1};

/* Finds the template and the trimming of offsets: only the last post-processor may add special tokens; at
 * most one trims. */
static hs_status find_template(hs_tokenizer *tokenizer, hs_error *err)
{
    const hs__parts *stage = &tokenizer->stages[HS__POST_PROCESSOR];
    size_t n_trims = 0;
    tokenizer->template = &no_template;
    for (size_t i = 0; i < stage->n; i++) {
        const hs__part *part = stage->items[i];
        if (part->type->template && i + 1 < stage->n)
            return hs_fail(
                err, HS_BAD_MODEL,
                "tokenizer.json: post_processor: only the last part may add special tokens; here part "
                "%zu of %zu is '%s'",
                i + 1, stage->n, part->type->name);
        if (part->type->template)
            tokenizer->template = part->type->template(part);
        const hs__trim trim = part->type->trim ? part->type->trim(part) : (hs__trim){0};
        if (trim.spaces && n_trims++)
            return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: post_processor trims offsets twice");
        if (trim.spaces)
            tokenizer->trim = trim;
    }
    return HS_OK;
}

/* Binds the parts. The post-processor comes first, because a wrong vocabulary has no [CLS]. */
static hs_status bind_parts(hs_tokenizer *tokenizer, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t stage = HS__N_STAGES; !st && stage-- > 0;)
        for (size_t i = 0; !st && i < tokenizer->stages[stage].n; i++) {
            hs__part *part = tokenizer->stages[stage].items[i];
            if (part->type->bind)
                st = part->type->bind(part, &tokenizer->vocabulary, err);
        }
    return st;
}

/* Finds the token that the files name, or the first of the default names that exists. */
static int32_t find_named(const hs_tokenizer *tokenizer, const char *name, const char *const defaults[2])
{
    if (name)
        return hs_tokenizer_id(tokenizer, name, strlen(name));
    const int32_t id = hs_tokenizer_id(tokenizer, defaults[0], strlen(defaults[0]));
    return id >= 0 ? id : hs_tokenizer_id(tokenizer, defaults[1], strlen(defaults[1]));
}

/* Finds the special tokens. A byte-level model needs no unknown token, but its vocabulary has one for other
 * programs. */
static void find_special(hs_tokenizer *tokenizer, const hs__description *d)
{
    const hs__part *model = tokenizer->stages[HS__MODEL].items[0];
    tokenizer->special = (hs_special_ids){
        .cls = tokenizer->template->first,
        .sep = tokenizer->template->separator,
        .pad = find_named(tokenizer, d->pad, (const char *const[]){"[PAD]", "<pad>"}),
        .unk = model->type->unknown(model),
        .mask = find_named(tokenizer, d->mask, (const char *const[]){"[MASK]", "<mask>"}),
    };
    if (tokenizer->special.unk >= (int32_t)tokenizer->n_rows)
        tokenizer->special.unk = -1;
    if (tokenizer->special.unk < 0)
        tokenizer->special.unk = find_named(tokenizer, NULL, (const char *const[]){"[UNK]", "<unk>"});
}

/* Returns a number above all ids: the embedding's rows, or more if an added token has none. */
static size_t ids_end(const hs__description *d)
{
    size_t end = d->vocab_size;
    for (size_t i = 0; i < d->added.n; i++)
        if (d->added.items[i].entry.id >= (int32_t)end)
            end = (size_t)d->added.items[i].entry.id + 1;
    return end;
}

/* Refuses a template whose special tokens have no row: no text could be read. */
static hs_status check_template(const hs_tokenizer *tokenizer, hs_error *err)
{
    for (size_t k = 0; k < 2; k++) {
        const hs__template_form *form = &tokenizer->template->forms[k];
        for (size_t i = 0; i < form->n_steps; i++)
            if (form->steps[i].id >= (int32_t)tokenizer->n_rows)
                return hs_fail(err, HS_BAD_MODEL,
                               "tokenizer.json: post_processor adds a token with id %d, but config.json's "
                               "vocab_size is %zu",
                               form->steps[i].id, tokenizer->n_rows);
    }
    return HS_OK;
}

/* Reads which end of a long text is cut off. tokenizer_config.json counts before tokenizer.json, as in
 * transformers. */
static hs_status find_cut(const hs__description *d, bool *ret_left, hs_error *err)
{
    const char *side = NULL, *direction = NULL;
    hs_status st = hs__option_text(d->config, HS__TOKENIZER_CONFIG, "truncation_side", &side, err);
    if (!st)
        st = hs__option_text(json_object_get(d->json, "truncation"), "tokenizer.json: truncation",
                             "direction", &direction, err);
    if (!st && side && strcmp(side, "left") != 0 && strcmp(side, "right") != 0)
        st = hs_fail(err, HS_BAD_MODEL,
                     "tokenizer_config.json: truncation_side must be \"left\" or \"right\", not \"%.40s\"",
                     side);
    *ret_left = side ? strcmp(side, "left") == 0 : direction && strcmp(direction, "Left") == 0;
    return st;
}

/* Reads whether special tokens in a text are ordinary text. A class that transformers has in Python looks up
 * no added token then, which is not supported. */
static hs_status find_split(const hs__description *d, bool *ret_splits, hs_error *err)
{
    static const char key[] = "split_special_tokens";
    const hs_status st = hs__option_bool(d->config, HS__TOKENIZER_CONFIG, key, ret_splits, err);
    if (st || !*ret_splits || !d->in_python)
        return st;
    return hs_fail(err, HS_BAD_MODEL,
                   HS__TOKENIZER_CONFIG ": %s is not supported for this tokenizer_class; take the key out",
                   key);
}

hs_status hs__tokenizer_build(hs__description *d, hs_tokenizer *tokenizer, hs_error *err)
{
    hs__vocabulary *vocabulary = &tokenizer->vocabulary;
    tokenizer->n_rows = d->vocab_size;
    hs_status st = create_stages(tokenizer, d, err);
    if (!st)
        st = find_cut(d, &tokenizer->cuts_left, err);
    if (!st)
        st = find_split(d, &tokenizer->splits_special, err);
    if (!st)
        st = find_template(tokenizer, err);
    if (!st)
        st = hs__vocabulary_build(&d->entries, &d->added, &tokenizer->stages[HS__NORMALIZER], ids_end(d),
                                  d->vocab_file, vocabulary, err);
    if (!st)
        st = bind_parts(tokenizer, err);
    if (!st)
        st = check_template(tokenizer, err);
    if (!st)
        st = find_roles(vocabulary, tokenizer->template, &tokenizer->roles, err);
    if (!st)
        find_special(tokenizer, d);
    return st ? st : hs__languages_find(tokenizer, d, err);
}

void hs__tokenizer_destroy(hs_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    for (size_t stage = 0; stage < HS__N_STAGES; stage++)
        finish_parts(&tokenizer->stages[stage]);
    hs__vocabulary_finish(&tokenizer->vocabulary);
    free(tokenizer->roles);
    free(tokenizer);
}

/* ---- look up ---- */

/* Returns the id, or the unknown token's if the id is unused, or -1 if there is none. */
static int32_t known(const hs_tokenizer *tokenizer, int32_t id)
{
    const hs__vocabulary *vocabulary = &tokenizer->vocabulary;
    const bool is = id >= 0 && (size_t)id < vocabulary->size && vocabulary->text_at[id] != UINT32_MAX;
    return is ? id : tokenizer->special.unk;
}

const char *hs_tokenizer_token(const hs_tokenizer *tokenizer, int32_t id)
{
    const int32_t shown = known(tokenizer, id);
    return shown < 0 ? "" : tokenizer->vocabulary.texts + tokenizer->vocabulary.text_at[shown];
}

int32_t hs_tokenizer_id(const hs_tokenizer *tokenizer, const char *token, size_t n_bytes)
{
    const int32_t id = hs__vocabulary_id(&tokenizer->vocabulary, token, n_bytes);
    return id < (int32_t)tokenizer->n_rows ? id : -1;
}

bool hs_tokenizer_is_ordinary(const hs_tokenizer *tokenizer, int32_t id)
{
    const hs_special_ids *s = &tokenizer->special;
    return id >= 0 && (size_t)id < tokenizer->n_rows && tokenizer->vocabulary.text_at[id] != UINT32_MAX &&
           !(tokenizer->vocabulary.added.flags[id] & HS__ADDED_SPECIAL) && id != s->cls && id != s->sep &&
           id != s->pad && id != s->unk && id != s->mask;
}

bool hs_tokenizer_cuts_left(const hs_tokenizer *tokenizer)
{
    return tokenizer->cuts_left;
}

size_t hs_tokenizer_vocab_size(const hs_tokenizer *tokenizer)
{
    return tokenizer->n_rows;
}

const char *hs_tokenizer_kind(const hs_tokenizer *tokenizer)
{
    const hs__part_type *model = tokenizer->stages[HS__MODEL].items[0]->type;
    const hs__parts *stage = &tokenizer->stages[HS__PRE_TOKENIZER];
    for (size_t i = 0; i < stage->n; i++)
        if (model == &hs__bpe && stage->items[i]->type == &hs__byte_level_pre_tokenizer)
            return "byte-level BPE";
    return model->name;
}

const hs_special_ids *hs_tokenizer_special_ids(const hs_tokenizer *tokenizer)
{
    return &tokenizer->special;
}

hs_role hs_tokenizer_role(const hs_tokenizer *tokenizer, int32_t id)
{
    const int32_t shown = known(tokenizer, id);
    return shown < 0 ? HS_ROLE_OTHER : (hs_role)tokenizer->roles[shown];
}
