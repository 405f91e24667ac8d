/* library.c - loads a shared library. */
#include "model/base/library.h"

#include <dlfcn.h>

const char *hs_library_load(const char *file, const hs_library_function *functions, size_t n_functions,
                            bool *ret_found)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    *ret_found = library != NULL;
    if (!library)
        return dlerror();
    for (size_t i = 0; i < n_functions; i++)
        if (!(*functions[i].function = dlsym(library, functions[i].name)))
            return functions[i].name;
    return NULL;
}
