/* viewer_files.h - the web viewer's files, which static/embed.mjs links into the program. */
#pragma once

#include <stddef.h>

typedef struct hs_viewer_file {
    const char *path; /* "/index.html", "/assets/index-abc123.js" */
    const char *content_type;
    const char *etag; /* with quotes */
    const unsigned char *data;
    size_t size;
    const unsigned char *gzip;
    size_t gzip_size;
} hs_viewer_file;

extern const hs_viewer_file hs_viewer_files[];
extern const size_t hs_n_viewer_files;

/* Returns the file at a URL's path ("/" is the index, "/docs" the page of the interface), or NULL. */
const hs_viewer_file *hs__viewer_find(const char *path);
