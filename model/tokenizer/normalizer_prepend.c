/* normalizer_prepend.c - Prepend: puts a text before every text that is not empty. */
#include "model/tokenizer/tokenizer_internal.h"

#define TEXT_BYTES_MAX 64

typedef struct prepend {
    hs__part part;
    char text[TEXT_BYTES_MAX]; /* NUL-terminated */
} prepend;

static hs_status configure(hs__part *part, const json_t *options, hs_error *err)
{
    const char *text = NULL;
    const hs_status st = hs__option_text(options, "tokenizer.json", "prepend", &text, err);
    if (st)
        return st;
    if (!text || strlen(text) >= TEXT_BYTES_MAX)
        return hs_fail(err, HS_BAD_MODEL,
                       "tokenizer.json: Prepend: 'prepend' must be a string of less than %d bytes",
                       TEXT_BYTES_MAX);
    memcpy(((prepend *)part)->text, text, strlen(text) + 1);
    return HS_OK;
}

/* Puts the text with the source of the first character, as the oracle does. */
static bool put_before(const prepend *self, const hs__text_view *view, hs__aligned_text *ret_text)
{
    const hs__range source = hs__text_view_source(view, view->bytes, view->first);
    bool ok = true;
    for (const unsigned char *at = (const unsigned char *)self->text; *at && ok;)
        ok = hs__aligned_text_put(ret_text, hs_utf8_next(&at), source);
    return ok;
}

static bool normalize(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
{
    return (!view->n_bytes || put_before((const prepend *)part, view, ret_text)) &&
           hs__text_view_map(view, hs__aligned_text_put, ret_text);
}

const hs__part_type hs__prepend = {.stage = HS__NORMALIZER,
                                   .name = "Prepend",
                                   .size = sizeof(prepend),
                                   .configure = configure,
                                   .normalize = normalize};
