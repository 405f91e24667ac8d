/* hub_cache.h - the layout of HuggingFace's cache of downloaded checkpoints.
 *
 * The layout is huggingface_hub's, so Python and headscope share the files:
 *
 *     <cache>/models--org--name/refs/<revision>                text: a commit
 *                              /snapshots/<commit>/<file>      a link to ../../blobs/<etag>
 *                              /blobs/<etag>
 *     <cache>/.locks/models--org--name/<etag>.lock
 *
 * The cache is the first that is set of $HF_HUB_CACHE, $HF_HOME/hub and $XDG_CACHE_HOME/huggingface/hub, else
 * ~/.cache/huggingface/hub. */
#pragma once

#include "model/base/status.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define HS_HUB_REVISION "main"

/* The name of a model on the hub: "org/name" or "org/name@revision", optionally after "hf://". With "hf://"
 * also "name" alone. */
typedef struct hs_hub_name {
    char repository[200]; /* "org/name" */
    char revision[200];   /* a branch, a tag or a commit; default HS_HUB_REVISION */
} hs_hub_name;

/* Parses a name. Returns false if the text is not one. A folder's path may look like a name, so check first
 * whether the folder exists. */
bool hs_hub_name_parse(const char *text, size_t n_bytes, hs_hub_name *ret_name);

/* Builds a path in the repository's folder of the cache, for example of "refs", name->revision. middle and
 * last may be NULL. Fails with HS_INVALID if the path is too long or no cache is known. */
HS_MUST_USE hs_status hs_hub_cache_path(const hs_hub_name *name, const char *first, const char *middle,
                                        const char *last, char ret_path[PATH_MAX], hs_error *err);
/* Like hs_hub_cache_path, under .locks. */
HS_MUST_USE hs_status hs_hub_cache_lock_path(const hs_hub_name *name, const char *file,
                                             char ret_path[PATH_MAX], hs_error *err);

/* Builds the path of a file in HF_HOME. `hf auth login` stores its token in "token". */
HS_MUST_USE hs_status hs_hub_home_path(const char *file, char ret_path[PATH_MAX], hs_error *err);

/* Finds the folder of the name's snapshot. Fails with HS_NOT_FOUND and a message that gives the command to
 * download it. */
HS_MUST_USE hs_status hs_hub_cache_find(const hs_hub_name *name, char ret_dir[PATH_MAX], hs_error *err);

/* Checks a downloaded blob against its etag: 64 hex digits are the SHA-256 of its bytes, 40 are git's SHA-1.
 * Other etags always pass. Reads all of fd from its start. Fails with HS_IO if the checksum differs or fd
 * cannot be read. */
HS_MUST_USE hs_status hs_hub_blob_check(int fd, size_t n_bytes, const char *etag, hs_error *err);
