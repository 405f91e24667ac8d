/* problem.h - refusals as RFC 9457 problems with a JSON pointer or a position.
 *
 * Functions of api/ that check a request return 0, or the HTTP status of the refusal that they wrote. */
#pragma once

#include "api/api.h"

typedef struct hs__problem {
    int status; /* HTTP; 0: none */
    bool has_pointer;
    char pointer[256];         /* JSON pointer; "" is the whole body */
    size_t line, column, byte; /* position of a JSON error; line 0: none */
    char detail[1024];
    size_t request_line; /* hs_request.line */
} hs__problem;

/* Writes the refusal and returns status. pointer may be NULL. */
int hs__refuse(hs__problem *problem, int status, const char *pointer, const char *format, ...)
    HS_PRINTF(4, 5);

/* Returns the HTTP status for an error of the program. */
int hs__http_status(hs_status status);

/* Returns the length of the longest prefix of at most 64 bytes that cuts no UTF-8 character. For names in
 * messages. */
int hs__clip(const char *text, size_t n_bytes);

/* Writes the response. Bodies of server errors contain request_id, which may be NULL. */
void hs__problem_write(const hs__problem *problem, const char *request_id, hs_response *ret_response);
