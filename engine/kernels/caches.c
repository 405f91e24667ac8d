/* caches.c - Linux lists each core's caches in /sys; where that is hidden, the C library asks the CPU. */
#include "engine/kernels/caches.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEVELS = 3, INDEXES = 8 };

/* Of each level: what is assumed where nothing is known, and what is believed. A machine whose second level
 * is small gains little from a third. */
static const size_t assumed[LEVELS] = {32 << 10, 512 << 10, 0};
static const size_t least[LEVELS] = {8 << 10, 128 << 10, 0};
static const size_t most[LEVELS] = {1 << 20, 64 << 20, (size_t)4 << 30};

/* "1024K" or "1M"; *ret_end is what follows. */
static size_t size_read(const char *text, char **ret_end)
{
    const unsigned long long n = strtoull(text, ret_end, 10);
    const char unit = **ret_end;
    const int shift = unit == 'K' ? 10 : unit == 'M' ? 20 : 0;
    *ret_end += shift > 0;
    return n <= most[LEVELS - 1] >> shift ? (size_t)n << shift : 0;
}

/* The first word of a file of a cache; false where there is none. */
static bool word_read(int index, const char *name, char ret_word[32])
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
    FILE *file = fopen(path, "re");
    const bool read = file && fscanf(file, "%31s", ret_word) == 1;
    if (file)
        fclose(file);
    return read;
}

static void system_read(size_t sizes[LEVELS])
{
    char level[32], type[32], size[32], *end;
    for (int index = 0; index < INDEXES; index++) {
        if (!word_read(index, "level", level) || !word_read(index, "type", type) ||
            !word_read(index, "size", size) || strcmp(type, "Instruction") == 0)
            continue;
        const long n = strtol(level, &end, 10);
        if (n >= 1 && n <= LEVELS)
            sizes[n - 1] = size_read(size, &end);
    }
}

static void library_read(size_t sizes[LEVELS])
{
    const int names[LEVELS] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
    for (int l = 0; l < LEVELS; l++) {
        const long n = sizes[l] > 0 ? 0 : sysconf(names[l]);
        sizes[l] = n > 0 ? (size_t)n : sizes[l];
    }
}

static void environment_read(size_t sizes[LEVELS])
{
    const char *text = getenv(HS_CACHES_VARIABLE);
    for (int l = 0; text && *text && l < LEVELS; l++) {
        char *end;
        sizes[l] = size_read(text, &end);
        text = *end == ',' ? end + 1 : end;
    }
}

hs_caches hs__caches_read(void)
{
    size_t sizes[LEVELS] = {0};
    system_read(sizes);
    library_read(sizes);
    environment_read(sizes);
    for (int l = 0; l < LEVELS; l++) {
        sizes[l] = sizes[l] > 0 ? sizes[l] : assumed[l];
        sizes[l] = sizes[l] < least[l] ? least[l] : sizes[l] > most[l] ? most[l] : sizes[l];
    }
    return (hs_caches){sizes[0], sizes[1], sizes[2]};
}
