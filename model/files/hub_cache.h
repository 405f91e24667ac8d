/* hub_cache.h - HuggingFace's cache of downloaded checkpoints: what lies where.
 *
 * The layout is huggingface_hub's, so that Python and headscope see the same files:
 *
 *     <cache>/models--org--name/refs/<revision>                text: a commit
 *                              /snapshots/<commit>/<file>      a link to ../../blobs/<etag>
 *                              /blobs/<etag>
 *     <cache>/.locks/models--org--name/<etag>.lock
 *
 * The cache is $HF_HUB_CACHE, else $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else that of ~/.cache.
 */
#pragma once

#include "model/status.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define HS_HUB_REVISION "main"

/* A model by name: "org/name", "org/name@revision", either after "hf://"; after that also "name" alone. */
typedef struct hs_hub_name {
    char repository[200]; /* "org/name" */
    char revision[200];   /* a branch, a tag or a commit; HS_HUB_REVISION unless told */
} hs_hub_name;

/* False when the text is no such name. Of a folder's path it can only be said to look like one: see first
 * whether there is such a folder. */
bool hs_hub_name_parse(const char *text, size_t n_bytes, hs_hub_name *ret_name);

/* A path in the repository's folder of the cache, of "refs", name->revision, say; middle and last may be
 * NULL. */
HS_MUST_USE hs_status hs_hub_cache_path(const hs_hub_name *name, const char *first, const char *middle,
                                        const char *last, char ret_path[PATH_MAX], hs_error *err);
/* The same under .locks. */
HS_MUST_USE hs_status hs_hub_cache_lock_path(const hs_hub_name *name, const char *file,
                                             char ret_path[PATH_MAX], hs_error *err);

/* A folder of HF_HOME: "token" is where `hf auth login` leaves one. */
HS_MUST_USE hs_status hs_hub_home_path(const char *file, char ret_path[PATH_MAX], hs_error *err);

/* The folder of the name's snapshot. HS_NOT_FOUND says what is missing and the command that gets it. */
HS_MUST_USE hs_status hs_hub_cache_find(const hs_hub_name *name, char ret_dir[PATH_MAX], hs_error *err);

/* Whether a blob is what its name, the etag, says: 64 hex digits are the SHA-256 of the bytes, 40 git's SHA-1
 * of them; other etags say nothing, and pass. Reads all of fd from its start. HS_IO when it is not, or cannot
 * be read. */
HS_MUST_USE hs_status hs_hub_blob_check(int fd, size_t n_bytes, const char *etag, hs_error *err);
