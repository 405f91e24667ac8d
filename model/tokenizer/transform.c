/* transform.c - moves the cursor once over the old text. It stops at the end, whatever the changes are. */
#include "model/tokenizer/transform.h"

hs__transform hs__transform_start(const hs__text_view *view, hs__aligned_text *ret_text)
{
    return (hs__transform){.view = view, .text = ret_text, .at = view->bytes, .index = view->first};
}

static void pass(hs__transform *t)
{
    if (t->at == t->view->bytes + t->view->n_bytes)
        return;
    t->before = hs__text_view_source(t->view, t->at, t->index++);
    (void)hs_utf8_next(&t->at);
}

/* Appends the last character with the source of the first character that it takes. */
static void flush(hs__transform *t)
{
    if (!t->any)
        return;
    if (t->change <= 0)
        pass(t);
    t->failed |= !hs__aligned_text_put(t->text, t->code_point, t->before);
    for (; t->change < 0; t->change++)
        pass(t);
}

void hs__transform_put(hs__transform *t, uint32_t code_point, long change)
{
    flush(t);
    t->code_point = code_point;
    t->change = change;
    t->any = true;
}

void hs__transform_amend(hs__transform *t, long change)
{
    t->change += change;
}

bool hs__transform_finish(hs__transform *t)
{
    flush(t);
    return !t->failed;
}
