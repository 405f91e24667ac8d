/* caches.c - reads the sizes of the CPU's caches from /sys, else from the C library. */
#include "engine/kernels/caches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEVELS = 3, INDEXES = 8 };

/* Sizes assumed if nothing is known, and the range of sizes that is believed. A machine with a small
 * second level gains little from a third. */
static const size_t assumed[LEVELS] = {32 << 10, 512 << 10, 0};
static const size_t least[LEVELS] = {8 << 10, 128 << 10, 0};
static const size_t most[LEVELS] = {1 << 20, 64 << 20, (size_t)4 << 30};

/* Reads "1024K" or "1M", limited to the largest believed size. *ret_end is the rest of the text, or the
 * text itself if there is no number. */
static size_t size_read(const char *text, const char **ret_end)
{
    const size_t size_max = most[LEVELS - 1];
    size_t n = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        n = n < size_max ? 10 * n + (size_t)(*text - '0') : n;
    const int shift = *text == 'K' ? 10 : *text == 'M' ? 20 : 0;
    *ret_end = text + (shift > 0);
    return n < size_max >> shift ? n << shift : size_max;
}

/* Reads the first word of a cache's file. Returns false if there is none. */
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
    char level[32], type[32], size[32];
    const char *end;
    for (int index = 0; index < INDEXES; index++) {
        if (!word_read(index, "level", level) || !word_read(index, "type", type) ||
            !word_read(index, "size", size) || strcmp(type, "Instruction") == 0)
            continue;
        const size_t n = size_read(level, &end);
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

/* Returns false if the text is not of the form that caches.h gives. */
static bool environment_read(size_t sizes[LEVELS])
{
    const char *text = getenv(HS_CACHES_VARIABLE);
    if (!text || !*text)
        return true;
    for (int l = 0; l < LEVELS; l++) {
        const char *end, behind = l + 1 < LEVELS ? ',' : '\0';
        if (*text < '0' || *text > '9')
            return false;
        sizes[l] = size_read(text, &end);
        if (*end != behind)
            return false;
        text = end + 1;
    }
    return true;
}

bool hs__caches_read(hs_caches *ret_caches)
{
    size_t sizes[LEVELS] = {0};
    system_read(sizes);
    library_read(sizes);
    if (!environment_read(sizes))
        return false;
    for (int l = 0; l < LEVELS; l++) {
        sizes[l] = sizes[l] > 0 ? sizes[l] : assumed[l];
        sizes[l] = sizes[l] < least[l] ? least[l] : sizes[l] > most[l] ? most[l] : sizes[l];
    }
    *ret_caches = (hs_caches){sizes[0], sizes[1], sizes[2]};
    return true;
}
