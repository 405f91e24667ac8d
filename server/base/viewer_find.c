/* viewer_find.c - finds a file of the viewer by linear search; there are only a few. */
#include "server/base/viewer_files.h"

#include <string.h>

const hs_viewer_file *hs__viewer_find(const char *path)
{
    if (strcmp(path, "/") == 0)
        path = "/index.html";
    else if (strcmp(path, "/docs") == 0)
        path = "/docs.html";
    for (size_t i = 0; i < hs_n_viewer_files; i++)
        if (strcmp(hs_viewer_files[i].path, path) == 0)
            return &hs_viewer_files[i];
    return NULL;
}
