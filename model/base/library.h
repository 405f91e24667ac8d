/* library.h - loads a shared library when it is used: one that most uses of the program do without. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct hs_library_function {
    const char *name;
    void **function; /* the pointer to fill */
} hs_library_function;

/* Loads a library, which stays until the program ends, and finds its functions. Returns NULL, or what is
 * missing: dlerror's text if it is the library, else the name of a function. *ret_found tells them apart. */
const char *hs_library_load(const char *file, const hs_library_function *functions, size_t n_functions,
                            bool *ret_found);
