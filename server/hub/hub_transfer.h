/* hub_transfer.h - talking to the HuggingFace hub, or to what HF_ENDPOINT names instead.
 *
 * The hub answers for a file with what it is (commit, etag, size) and, for large ones, with a redirect to
 * where the bytes are. Redirects are followed here and not by libcurl, so that it is plain to see that the
 * token goes to the endpoint and to nobody else. */
#pragma once

#include "model/files/hub_cache.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct hs__hub hs__hub;

/* Returns true once the caller wants to stop. Called about once a second, also while nothing comes. */
typedef bool hs__hub_stop(void *context);

/* Reads HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH. Every function of the hub ends with HS_CANCELLED once `stop`,
 * which may be NULL, returns true. */
HS_MUST_USE hs_status hs__hub_open(hs__hub_stop *stop, void *context, hs__hub **ret_hub, hs_error *err);

void hs__hub_close(hs__hub *hub); /* NULL is fine */

enum { HS__HUB_COMMIT_MAX = 64, HS__HUB_ETAG_MAX = 128, HS__HUB_URL_MAX = 8192 };

/* Returns the hub's list of a revision's files, of at most 16 MiB: `sha` is its commit in hexadecimal digits,
 * shorter than HS__HUB_COMMIT_MAX, and `siblings` an array. Release it with json_decref. */
HS_MUST_USE hs_status hs__hub_list(hs__hub *hub, const hs_hub_name *name, json_t **ret_list, hs_error *err);

typedef struct hs__hub_file {
    char name[256];
    char etag[HS__HUB_ETAG_MAX]; /* 64 hex digits: SHA-256 of the bytes; 40: git's SHA-1 of them */
    uint64_t n_bytes;
    char url[HS__HUB_URL_MAX]; /* where the bytes are */
    bool elsewhere;            /* not at the endpoint: no token */
} hs__hub_file;

/* Asks about a file of a commit. The name must be sound for a path: a plain file name, or one in a plain
 * folder. */
HS_MUST_USE hs_status hs__hub_file_find(hs__hub *hub, const hs_hub_name *name, const char *commit,
                                        const char *file, hs__hub_file *ret_file, hs_error *err);

/* Is called now and then with the bytes in the file and those that came in this transfer. After a server
 * began again the second number is the larger one. */
typedef void hs__hub_progress(void *context, uint64_t n_bytes, uint64_t n_received);

/* Appends the file's bytes from *n_bytes on to out and counts them there, also when it fails half-way. When a
 * server cannot resume and begins again, and when it sends more than file->n_bytes (HS_IO), *n_bytes and the
 * file go back to 0. */
HS_MUST_USE hs_status hs__hub_fetch(hs__hub *hub, const hs__hub_file *file, int out, uint64_t *n_bytes,
                                    hs__hub_progress *progress, void *context, hs_error *err);
