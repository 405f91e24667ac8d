/* status.h - how every function of headscope reports failure.
 *
 * A function that can fail returns an hs_status and takes an hs_error as its last argument. HS_OK is 0, so
 * `if (st)` reads "if it failed". The caller owns the hs_error and may pass NULL. The first writer wins: the
 * deepest and most precise message survives while the callers above only pass the status on.
 *
 *     hs_error err = {0};
 *     if (hs_model_open(dir, &model, &err))
 *         fprintf(stderr, "headscope: %s\n", err.text);
 *
 * Library code never logs and never exits. Assertions check the program's own invariants; bad bytes from a
 * socket or a file return a status. */
#pragma once

/* Name and description. Only api/ maps them to HTTP statuses. */
#define HS_STATUS_LIST(X)                                                                                    \
    X(OK, "ok")                                                                                              \
    X(BAD_REQUEST, "the request is malformed")                                                               \
    X(INVALID, "a value is not allowed")                                                                     \
    X(NOT_FOUND, "not found")                                                                                \
    X(TOO_LARGE, "too large")                                                                                \
    X(BUSY, "in use")                                                                                        \
    X(NO_SPACE, "no space left")                                                                             \
    X(BAD_MODEL, "the model cannot be used")                                                                 \
    X(UNSUPPORTED, "not supported on this machine or in this build")                                         \
    X(NO_MEMORY, "out of memory")                                                                            \
    X(CANCELLED, "cancelled")                                                                                \
    X(IO, "input or output failed")

typedef enum hs_status {
#define X(name, text) HS_##name,
    HS_STATUS_LIST(X)
#undef X
        HS_STATUS_COUNT
} hs_status;

typedef struct hs_error {
    hs_status status; /* HS_OK while nothing was written */
    char text[1024];  /* one sentence: what is wrong, where, and what to do next */
} hs_error;

#define HS_MUST_USE     __attribute__((warn_unused_result))
#define HS_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Records the message in err (unless err is NULL or already holds one) and returns status. */
hs_status hs_fail(hs_error *err, hs_status status, const char *format, ...) HS_PRINTF(3, 4);

/* Returns "out of memory" for HS_NO_MEMORY. Never NULL. */
const char *hs_status_text(hs_status status);
