/* link_store.h - texts kept in a folder under short names, for links to views.
 *
 * A text's name is the beginning of its SHA-256, so equal texts share a file. At most HS_LINKS_MAX texts with
 * HS_LINKS_BYTES_MAX bytes are kept; the ones that were added longest ago are removed for new ones. Files are
 * written atomically. Any thread may call the functions, which wait for the disk. */
#pragma once

#include "model/base/status.h"

#include <stddef.h>

enum {
    HS_LINK_ID_CHARS = 16, /* hexadecimal digits */
    HS_LINK_BYTES_MAX = 256 << 10,
    HS_LINKS_MAX = 10000,
    HS_LINKS_BYTES_MAX = 64 << 20
};

typedef struct hs_links hs_links;

/* Opens dir/links, and makes it if it is missing. Returns HS_INVALID for a name that is too long, HS_IO,
 * HS_NO_SPACE or HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__links_open(const char *dir, hs_links **ret_links, hs_error *err);
void hs__links_close(hs_links *links); /* NULL is allowed */

/* Keeps a text of 1 to HS_LINK_BYTES_MAX bytes and returns its name. A text that is kept already becomes the
 * newest. Returns HS_NO_SPACE if the disk is full, HS_BUSY if another text has this name, HS_IO or
 * HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__links_add(hs_links *links, const char *text, size_t n_bytes,
                                    char ret_id[HS_LINK_ID_CHARS + 1], hs_error *err);

/* Reads a text. *ret_text is the caller's to free and ends with a NUL. Returns HS_NOT_FOUND for an unknown
 * name, HS_IO or HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__links_read(hs_links *links, const char *id, char **ret_text, size_t *ret_bytes,
                                     hs_error *err);
