/* lazy_curl.h - libcurl, loaded when something is downloaded and not before. It brings twenty libraries with
 * it, which would cost every server that never downloads 4 MB and half of its start. Wheels and tarballs do
 * not bundle it: TLS needs the system's certificates and security fixes.
 *
 *     if (!(st = hs__curl_load(err)))
 *         CURL *curl = hs__curl.easy_init();         each function under its name without curl_ */
#pragma once

#include "model/base/status.h"

#define CURL_DISABLE_DEPRECATION /* for CURLOPT_PROTOCOLS, which libcurl before 7.85 needs */
#include <curl/curl.h>

/* The functions of libcurl that are used. The two variadic ones are called through their plain type, so no
 * check of arguments by macros takes place. */
#define HS__CURL_FUNCTIONS(X)                                                                                \
    X(global_init)                                                                                           \
    X(global_cleanup)                                                                                        \
    X(easy_init)                                                                                             \
    X(easy_cleanup)                                                                                          \
    X(easy_reset)                                                                                            \
    X(easy_setopt)                                                                                           \
    X(easy_getinfo)                                                                                          \
    X(easy_perform)                                                                                          \
    X(easy_strerror)                                                                                         \
    X(easy_escape)                                                                                           \
    X(free)                                                                                                  \
    X(slist_append)                                                                                          \
    X(slist_free_all)

#undef curl_easy_setopt
#undef curl_easy_getinfo
typedef struct hs__curl_functions {
#define X(name) __typeof__(curl_##name) *name;
    HS__CURL_FUNCTIONS(X)
#undef X
} hs__curl_functions;

extern hs__curl_functions hs__curl;

/* Fills hs__curl; once is enough. HS_UNSUPPORTED says what to install. */
HS_MUST_USE hs_status hs__curl_load(hs_error *err);
