/* little_memory.c - preloaded into headscope: it reads the file that MEMINFO names as /proc/meminfo. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

FILE *fopen(const char *restrict path, const char *restrict mode)
{
    static FILE *(*real)(const char *, const char *);
    const char *other = getenv("MEMINFO");
    if (!real)
        real = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    return real(other && strcmp(path, "/proc/meminfo") == 0 ? other : path, mode);
}
