/* whole_files.h - files that appear whole or not at all.
 *
 * What is written goes into a file of its own beside the target, reaches the disk, and takes the target's
 * name; then the folder's entry reaches the disk too. A reader sees the old content or the new, whatever is
 * killed when. What a kill leaves is a file that nobody holds a lock on, and hs__leftovers_remove finds it by
 * that; the next write to the same path does too. */
#pragma once

#include "model/status.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

/* Fills the file, which may be sought; what fails to be written need not be looked at here. */
typedef hs_status (*hs__file_write)(FILE *file, void *data, hs_error *err);

/* Writes dir/name. HS_IO, or HS_TOO_LARGE when the disk, a quota or a limit is full, with the system's
 * reason; HS_CANCELLED once *stop (stop may be NULL) is not zero. The old file stays then. */
HS_MUST_USE hs_status hs__file_replace(const char *dir, const char *name, const atomic_int *stop,
                                       hs__file_write write, void *data, hs_error *err);

/* The same for a path that somebody typed, after leftovers of earlier writes to it are removed: a link's
 * target is replaced and keeps its permissions, and what is no regular file (a device, a pipe), or one
 * without a name, is written to as it is. NULL: standard output. */
HS_MUST_USE hs_status hs__path_write(const char *path, hs__file_write write, void *data, hs_error *err);

/* Those of writes that were killed, in this folder. */
void hs__leftovers_remove(const char *dir);

/* The folder and those above it. */
HS_MUST_USE hs_status hs__folder_make(const char *dir, hs_error *err);
/* Of the files in it, not of folders in it; 0 when it cannot be read. */
uint64_t hs__folder_bytes(const char *dir);
