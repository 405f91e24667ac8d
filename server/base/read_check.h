/* read_check.h - lets the caller of a long read stop it, or refuse the memory for its answer. */
#pragma once

#include "model/base/status.h"

#include <stddef.h>

typedef struct hs__read_check {
    /* Called before each step with the bytes that the step adds to the answer. A failure ends the read. */
    hs_status (*allow)(void *data, size_t n_bytes, hs_error *err);
    void *data;
} hs__read_check;

/* Returns HS_OK if the read may go on; without a check (NULL) it always may. */
static inline hs_status hs__read_allow(const hs__read_check *check, size_t n_bytes, hs_error *err)
{
    return check ? check->allow(check->data, n_bytes, err) : HS_OK;
}
