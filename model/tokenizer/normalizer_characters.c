/* normalizer_characters.c - Lowercase, StripAccents and Nmt, which map each character by itself. */
#include "model/tokenizer/parts.h"
#include "model/tokenizer/unicode.h"

#include <stdlib.h>

static hs_status create(const hs__part_type *type, hs__part **ret_part, hs_error *err)
{
    hs__part *self = malloc(sizeof *self);
    if (!self)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    self->type = type;
    *ret_part = self;
    return HS_OK;
}

static void destroy(hs__part *part)
{
    free(part);
}

/* ---- Lowercase ---- */

static hs_status lowercase_create(const json_t *options, hs__part **ret_part, hs_error *err)
{
    (void)options;
    return create(&hs__lowercase, ret_part, err);
}

static bool put_lower(hs__aligned_text *text, uint32_t code_point, hs__range source)
{
    return hs__aligned_text_put(text, hs__unicode_lower(code_point), source) &&
           (code_point != 0x130 || hs__aligned_text_put(text, 0x307, source));
}

static bool lowercase_normalize(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
{
    (void)part;
    const unsigned char *at = view->bytes;
    bool ok = true;
    for (uint32_t index = view->first; at < view->bytes + view->n_bytes && ok; index++) {
        const hs__range source = hs__text_view_source(view, at, index);
        ok = put_lower(ret_text, hs_utf8_next(&at), source);
    }
    return ok;
}

const hs__part_type hs__lowercase = {.stage = HS__NORMALIZER,
                                     .name = "Lowercase",
                                     .create = lowercase_create,
                                     .destroy = destroy,
                                     .cuts_at_punctuation = true,
                                     .normalize = lowercase_normalize};

/* ---- StripAccents: marks of every kind, not only those that BertNormalizer drops ---- */

static hs_status accents_create(const json_t *options, hs__part **ret_part, hs_error *err)
{
    (void)options;
    return create(&hs__strip_accents, ret_part, err);
}

static bool accents_normalize(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
{
    (void)part;
    const unsigned char *at = view->bytes;
    bool ok = true;
    for (uint32_t index = view->first; at < view->bytes + view->n_bytes && ok; index++) {
        const hs__range source = hs__text_view_source(view, at, index);
        const uint32_t code_point = hs_utf8_next(&at);
        ok = (hs__unicode_cluster(code_point) & HS__ANY_MARK) ||
             hs__aligned_text_put(ret_text, code_point, source);
    }
    return ok;
}

const hs__part_type hs__strip_accents = {.stage = HS__NORMALIZER,
                                         .name = "StripAccents",
                                         .create = accents_create,
                                         .destroy = destroy,
                                         .cuts_at_punctuation = true,
                                         .normalize = accents_normalize};

/* ---- Nmt: SentencePiece's own clean-up; controls are dropped, separators become spaces ---- */

static hs_status nmt_create(const json_t *options, hs__part **ret_part, hs_error *err)
{
    (void)options;
    return create(&hs__nmt, ret_part, err);
}

static bool nmt_drops(uint32_t c)
{
    return (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
           c == 0x9F;
}

static bool nmt_spaces(uint32_t c)
{
    return c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
           c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}

static bool nmt_normalize(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
{
    (void)part;
    const unsigned char *at = view->bytes;
    bool ok = true;
    for (uint32_t index = view->first; at < view->bytes + view->n_bytes && ok; index++) {
        const hs__range source = hs__text_view_source(view, at, index);
        const uint32_t code_point = hs_utf8_next(&at);
        ok = nmt_drops(code_point) ||
             hs__aligned_text_put(ret_text, nmt_spaces(code_point) ? ' ' : code_point, source);
    }
    return ok;
}

const hs__part_type hs__nmt = {.stage = HS__NORMALIZER,
                               .name = "Nmt",
                               .create = nmt_create,
                               .destroy = destroy,
                               .normalize = nmt_normalize};
