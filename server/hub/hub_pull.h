/* hub_pull.h - downloads a checkpoint from the HuggingFace hub into HuggingFace's own cache.
 *
 * Only the files that headscope reads are fetched. config.json comes first: if the model could not be opened,
 * nothing more is fetched. A file arrives under the name of its etag with
 * ".incomplete" behind, is checked and renamed. The snapshot's folder has a link to it, and the ref is
 * written last. So the cache holds whole files only, and a second call resumes where the first one ended. */
#pragma once

#include "model/files/hub_cache.h"

#include <stdbool.h>
#include <stdint.h>

/* Receives the progress of a download. Each function may be NULL and gets `data`. */
typedef struct hs__pull_watch {
    /* Called now and then with the bytes of the file that are here, all its bytes, and those that came in
     * this transfer. */
    void (*progress)(void *data, const char *file, uint64_t n_bytes, uint64_t n_bytes_all,
                     uint64_t n_received);
    void (*file_done)(void *data, const char *file, uint64_t n_bytes);
    void (*waiting)(void *data, const char *file); /* another process downloads the file */
    bool (*stop)(void *data); /* true: the download ends with HS_CANCELLED, within about a second */
    void *data;
} hs__pull_watch;

/* Downloads what is missing of the name's revision and finds its folder. Fails with HS_IO if HF_HUB_OFFLINE
 * is set, with HS_BAD_MODEL if the repository holds no checkpoint that headscope reads, and with HS_IO or
 * HS_NOT_FOUND as the hub answers. */
HS_MUST_USE hs_status hs__hub_pull(const hs_hub_name *name, const hs__pull_watch *watch,
                                   char ret_dir[PATH_MAX], hs_error *err);
