/* text_windows.h - cuts a long text into windows of max_tokens.
 *
 * Each window has the tokens around the text: special tokens, and of a pair the first text, so that it is
 * what the model knows. Neighbours share `stride` tokens, as in HuggingFace's tokenizers. */
#pragma once

#include "model/tokenizer/tokenizer.h"

/* Limit on the tokens of a text that is cut into windows. */
#define HS__WINDOWS_TOKENS_MAX ((size_t)1 << 18)

/* Upper bound of the bytes of such a text while it is encoded and cut: its pieces, whose list doubles, and
 * its tokens. */
#define HS__WINDOWS_BYTES (HS__WINDOWS_TOKENS_MAX * 96)

typedef struct hs__windows {
    size_t n_before, n_after; /* tokens around each window */
    size_t end;               /* where the text ends in the whole encoding */
    size_t size, step;        /* tokens of the text in a window, and from one to the next */
    size_t n;                 /* windows, 1 or more */
} hs__windows;

/* Plans the windows of an encoding. HS_INVALID: the text is cut off, or its windows have no capacity for more
 * than stride tokens of it. */
HS_MUST_USE hs_status hs__windows_plan(const hs_encoding *whole, size_t tokens_max, size_t stride,
                                       hs__windows *ret_windows, hs_error *err);

/* Makes window w. HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__window_make(const hs__windows *windows, const hs_encoding *whole, size_t w,
                                      hs_encoding *ret_window, hs_error *err);
