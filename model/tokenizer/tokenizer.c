/* tokenizer.c - builds an hs_tokenizer from a description: first the parts, then the vocabulary of the
 * model's entries and the added tokens, then the tokens that the parts look up. */
#include "model/tokenizer/roles.h"
#include "model/tokenizer/tokenizer_create.h"
#include "model/tokenizer/tokenizer_internal.h"

#include <stdlib.h>

/* ---- create ---- */

/* Lists the model's entries, unless a file of their own has them. */
static hs_status list_entries(const hs__part *model, hs__description *d, hs_error *err)
{
    json_t *options = json_object_get(d->json, "model");
    if (d->entries.items)
        return HS_OK;
    if (model->type->list)
        return model->type->list(options, d->vocab_size, &d->entries, err);
    return hs__entries_read(json_object_get(options, "vocab"), d->vocab_size, &d->entries, err);
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
        st = hs__parts_create(keys[i].stage, json_object_get(d->json, keys[i].key), stage, err);
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
    if (tokenizer->special.unk < 0)
        tokenizer->special.unk = find_named(tokenizer, NULL, (const char *const[]){"[UNK]", "<unk>"});
}

static hs_status build(hs_tokenizer *tokenizer, hs__description *d, hs_error *err)
{
    hs__vocabulary *vocabulary = &tokenizer->vocabulary;
    hs_status st = create_stages(tokenizer, d, err);
    if (!st)
        st = find_template(tokenizer, err);
    if (!st)
        st = hs__vocabulary_build(&d->entries, &d->added, d->vocab_size, d->vocab_file, vocabulary, err);
    if (!st)
        st = hs__added_tokens_build(&d->added, &tokenizer->stages[HS__NORMALIZER], d->vocab_size,
                                    &tokenizer->added, err);
    if (!st)
        st = bind_parts(tokenizer, err);
    if (!st)
        st = hs__roles_find(vocabulary, tokenizer->template, &tokenizer->roles, err);
    if (!st)
        find_special(tokenizer, d);
    return st;
}

hs_status hs__tokenizer_create(const hs_tokenizer_files *files, size_t vocab_size,
                               hs_tokenizer **ret_tokenizer, hs_error *err)
{
    hs__description description;
    hs_tokenizer *tokenizer = NULL;
    hs_status st = hs__description_read(files, vocab_size, &description, err);
    if (st)
        goto out;
    tokenizer = calloc(1, sizeof *tokenizer);
    st = tokenizer ? build(tokenizer, &description, err) : hs_fail(err, HS_NO_MEMORY, "out of memory");
    if (st)
        goto out;
    *ret_tokenizer = tokenizer;
    tokenizer = NULL;
out:
    hs__tokenizer_destroy(tokenizer);
    hs__description_finish(&description);
    return st;
}

void hs__tokenizer_destroy(hs_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    for (size_t stage = 0; stage < HS__N_STAGES; stage++)
        hs__parts_finish(&tokenizer->stages[stage]);
    hs__vocabulary_finish(&tokenizer->vocabulary);
    hs__added_tokens_finish(&tokenizer->added);
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
    return hs__vocabulary_id(&tokenizer->vocabulary, token, n_bytes);
}

bool hs_tokenizer_is_ordinary(const hs_tokenizer *tokenizer, int32_t id)
{
    const hs_special_ids *s = &tokenizer->special;
    return id >= 0 && (size_t)id < tokenizer->vocabulary.size &&
           tokenizer->vocabulary.text_at[id] != UINT32_MAX &&
           !(tokenizer->added.flags[id] & HS__ADDED_SPECIAL) && id != s->cls && id != s->sep &&
           id != s->pad && id != s->unk && id != s->mask;
}

size_t hs_tokenizer_vocab_size(const hs_tokenizer *tokenizer)
{
    return tokenizer->vocabulary.size;
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
