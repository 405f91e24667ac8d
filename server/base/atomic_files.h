/* atomic_files.h - writes files atomically.
 *
 * A write goes to a temporary file in the same folder. The file is synced to disk and renamed to its target,
 * and the folder is synced. A reader sees the old content or the new, even if the process is killed.
 *
 * The temporary file is locked while it is written. A file without a lock is a leftover of a killed process:
 * the next write to the same path removes it, and so does hs__leftovers_remove. */
#pragma once

#include "model/base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Writes the content to file, which is seekable. The caller checks for failed writes. */
typedef hs_status (*hs__file_write)(FILE *file, void *data, hs_error *err);

/* Writes dir/name. Returns HS_NO_SPACE if the disk, a quota or a limit is full, else HS_IO, with the system's
 * reason; HS_CANCELLED once *stop is not zero (stop may be NULL). On failure the old file stays. */
HS_MUST_USE hs_status hs__file_replace(const char *dir, const char *name, const atomic_int *stop,
                                       hs__file_write write, void *data, hs_error *err);

/* Writes a path that a user typed, after removing its leftovers. Follows a link and keeps the mode of its
 * target. Writes directly into devices, pipes and files without a name. NULL: standard output. */
HS_MUST_USE hs_status hs__path_write(const char *path, hs__file_write write, void *data, hs_error *err);

/* A file that is written over a longer time. */
typedef struct hs__new_file hs__new_file;

/* Begins to replace a path as hs__path_write does. by_path: for writers that need a path; there is no stream,
 * and HS_INVALID says that path exists and is not a regular file. The caller publishes or discards *ret_file.
 */
HS_MUST_USE hs_status hs__new_file_create(const char *path, bool by_path, hs__new_file **ret_file,
                                          hs_error *err);
/* Returns the stream to write to; the caller checks for failed writes. */
FILE *hs__new_file_stream(const hs__new_file *file);
/* Returns the path to write to, of an empty file that is locked by flock. */
const char *hs__new_file_path(const hs__new_file *file);
/* Returns the status and the system's reason of the first write to the stream that failed, or HS_OK. */
hs_status hs__new_file_check(const hs__new_file *file, hs_error *err);
/* Completes the file and gives it its name. Frees file, also after a failure. */
HS_MUST_USE hs_status hs__new_file_publish(hs__new_file *file, hs_error *err);
/* Removes the file, and frees it; NULL is fine. */
void hs__new_file_discard(hs__new_file *file);

/* Returns true if hs__path_write(path) would replace the file `other`: both name one file, or one name in the
 * same folder. "-" as `other` is standard input. */
bool hs__path_replaces(const char *path, const char *other);

/* Removes leftovers of killed processes from a folder. */
void hs__leftovers_remove(const char *dir);

/* Renames a file that is on disk already, and syncs the folder of `to`. Returns false with errno on failure.
 */
bool hs__file_publish(const char *from, const char *to);

/* Syncs the names of new files and folders in dir, so that they survive a loss of power. Returns false with
 * errno on failure. */
bool hs__folder_sync(const char *dir);

/* Makes the folder and those above it, and syncs their names. HS_INVALID for a name that is too long,
 * HS_NO_SPACE, HS_IO. */
HS_MUST_USE hs_status hs__folder_make(const char *dir, hs_error *err);
/* Makes the folders above a path in the same way. */
HS_MUST_USE hs_status hs__folder_make_above(const char *path, hs_error *err);
/* Opens a regular file for reading and measures it. A link, pipe, device or folder of that name is refused,
 * so nothing outside the folder is read and nobody waits. HS_NOT_FOUND, HS_IO. The caller closes *ret_fd,
 * which is below 0 after an error. */
HS_MUST_USE hs_status hs__file_open(const char *path, int *ret_fd, uint64_t *ret_bytes, hs_error *err);

/* Returns the size of the files directly in the folder; 0 if it cannot be read. */
uint64_t hs__folder_bytes(const char *dir);
/* Returns the free bytes on the disk of a path, or of the folder that it would be in, for users other than
 * root. UINT64_MAX if unknown. */
uint64_t hs__disk_free(const char *path);
