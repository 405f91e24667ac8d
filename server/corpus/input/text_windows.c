/* text_windows.c - cuts a long text into windows of max_tokens. */
#include "server/corpus/input/text_windows.h"

/* Returns the number of tokens before the text, or before the second text of a pair. */
static size_t before_count(const hs_encoding *whole)
{
    const bool is_pair = whole->n_tokens && whole->texts[whole->n_tokens - 1];
    size_t n = 0;
    while (n < whole->n_tokens && (whole->special[n] || (is_pair && !whole->texts[n])))
        n++;
    return n;
}

static size_t after_count(const hs_encoding *whole, size_t n_before)
{
    size_t n = 0;
    while (n < whole->n_tokens - n_before && whole->special[whole->n_tokens - 1 - n])
        n++;
    return n;
}

hs_status hs__windows_plan(const hs_encoding *whole, size_t tokens_max, size_t stride, hs__windows *ret,
                           hs_error *err)
{
    const size_t n_before = before_count(whole), n_after = after_count(whole, n_before);
    const size_t n_text = whole->n_tokens - n_before - n_after;
    *ret = (hs__windows){.n_before = n_before, .n_after = n_after, .end = n_before + n_text, .n = 1};
    if (whole->truncated)
        return hs_fail(err, HS_INVALID, "more than %zu tokens: cut it into several records",
                       HS__WINDOWS_TOKENS_MAX);
    if (whole->n_tokens <= tokens_max) {
        ret->size = ret->step = n_text;
        return HS_OK;
    }
    if (tokens_max <= n_before + n_after + stride)
        return hs_fail(
            err, HS_INVALID,
            "%zu of max_tokens %zu go to what is in each window, which leaves too few for a stride "
            "of %zu",
            n_before + n_after, tokens_max, stride);
    ret->size = tokens_max - n_before - n_after;
    ret->step = ret->size - stride;
    if (n_text > ret->size)
        ret->n += (n_text - ret->size + ret->step - 1) / ret->step;
    return HS_OK;
}

hs_status hs__window_make(const hs__windows *windows, const hs_encoding *whole, size_t w, hs_encoding *ret,
                          hs_error *err)
{
    const size_t first = windows->n_before + w * windows->step;
    const size_t end = windows->end - first < windows->size ? windows->end : first + windows->size;
    return hs_encoding_window(whole, windows->n_before, first, end, windows->n_after, ret, err);
}
