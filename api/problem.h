/* problem.h - why a request is refused: RFC 9457 with pointer or position.
 *
 * Functions of api/ that judge a request return an int: 0, or the HTTP status of the refusal they wrote. */
#pragma once

#include "api/api.h"

typedef struct hs__problem {
    int status; /* HTTP; 0: none */
    bool has_pointer;
    char pointer[256];         /* JSON pointer; "" is the whole body */
    size_t line, column, byte; /* where the body stops being JSON; line 0: not told */
    char detail[1024];
    size_t request_line; /* hs_request.line */
} hs__problem;

/* Writes the refusal and returns status. pointer may be NULL. */
int hs__refuse(hs__problem *problem, int status, const char *pointer, const char *format, ...)
    HS_PRINTF(4, 5);

/* The HTTP status of one of ours. */
int hs__http_status(hs_status status);

/* Whole characters of text that fit into n_max bytes: for names of any length in messages. */
int hs__clip(const char *text, size_t n_bytes, size_t n_max);

/* The answer. request_id (may be NULL) is told in the body of server errors. */
void hs__problem_write(const hs__problem *problem, const char *request_id, hs_response *ret_response);
