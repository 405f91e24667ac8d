/* normalizer_characters.c - Lowercase, StripAccents and Nmt, which map each character by itself. */
#include "model/tokenizer/tokenizer_internal.h"

#include "model/tokenizer/unicode.h"

/* ---- Lowercase ---- */

static bool put_lower(hs__aligned_text *text, uint32_t code_point, hs__range source)
{
    return hs__aligned_text_put(text, hs__unicode_lower(code_point), source) &&
           (code_point != 0x130 || hs__aligned_text_put(text, 0x307, source));
}

static bool lowercase(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
{
    (void)part;
    return hs__text_view_map(view, put_lower, ret_text);
}

const hs__part_type hs__lowercase = {.stage = HS__NORMALIZER,
                                     .name = "Lowercase",
                                     .size = sizeof(hs__part),
                                     .cuts_at_punctuation = true,
                                     .normalize = lowercase};

/* ---- StripAccents: marks of every kind, not only those that BertNormalizer drops ---- */

static bool put_without_mark(hs__aligned_text *text, uint32_t code_point, hs__range source)
{
    return (hs__unicode_cluster(code_point) & HS__ANY_MARK) || hs__aligned_text_put(text, code_point, source);
}

static bool strip_accents(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
{
    (void)part;
    return hs__text_view_map(view, put_without_mark, ret_text);
}

const hs__part_type hs__strip_accents = {.stage = HS__NORMALIZER,
                                         .name = "StripAccents",
                                         .size = sizeof(hs__part),
                                         .cuts_at_punctuation = true,
                                         .normalize = strip_accents};

/* ---- Nmt: SentencePiece's own clean-up; controls are dropped, separators become spaces ---- */

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

static bool put_clean(hs__aligned_text *text, uint32_t code_point, hs__range source)
{
    return nmt_drops(code_point) ||
           hs__aligned_text_put(text, nmt_spaces(code_point) ? ' ' : code_point, source);
}

static bool clean(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
{
    (void)part;
    return hs__text_view_map(view, put_clean, ret_text);
}

const hs__part_type hs__nmt = {
    .stage = HS__NORMALIZER, .name = "Nmt", .size = sizeof(hs__part), .normalize = clean};
