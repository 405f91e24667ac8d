/* viewer_files.h - the web viewer's files, linked into the program by static/embed.mjs. */
#pragma once

#include <stddef.h>

typedef struct hs_viewer_file {
    const char *path; /* "/index.html", "/assets/index-abc123.js" */
    const char *content_type;
    const char *etag; /* with its quotes */
    const unsigned char *data;
    size_t size;
    const unsigned char *gzip;
    size_t gzip_size;
} hs_viewer_file;

extern const hs_viewer_file hs_viewer_files[];
extern const size_t hs_n_viewer_files;

/* Under a path of a URL, "/" for its index; NULL: there is none. */
const hs_viewer_file *hs__viewer_find(const char *path);
