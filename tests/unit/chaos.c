#include "tests/unit/chaos.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The names that the linker gives to what it wraps. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **ret_block, size_t alignment, size_t size);
void __real_free(void *block);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t n_bytes);
void *__real_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *address, size_t size);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **ret_block, size_t alignment, size_t size);
void __wrap_free(void *block);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t n_bytes);
void *__wrap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *address, size_t size);

#define NEVER     SIZE_MAX
#define SLOTS     ((size_t)1 << 20) /* live blocks in a test stay far below */
#define TOMBSTONE ((void *)1)

/* All under the lock. Blocks are remembered one by one, for much that is freed here was allocated inside
 * libc. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t countdown = NEVER; /* allocations until the one to refuse */
static bool refused;
static void *slots[SLOTS]; /* open addressing */
static size_t n_live;
/* Bytes of blocks, without mappings: now, at chaos_peak_begin, and the most since. */
static size_t live_bytes, bytes_begun, bytes_most;

static size_t first_slot(const void *block)
{
    return ((uintptr_t)block >> 4) * 0x9E3779B97F4A7C15U >> 44;
}

static bool refuse_this(void)
{
    pthread_mutex_lock(&lock);
    bool now = countdown == 0;
    if (countdown != NEVER)
        countdown = now ? NEVER : countdown - 1;
    refused |= now;
    pthread_mutex_unlock(&lock);
    if (now)
        errno = ENOMEM;
    return now;
}

static void *remember(void *block)
{
    if (!block)
        return NULL;
    pthread_mutex_lock(&lock);
    size_t slot = first_slot(block);
    while (slots[slot] && slots[slot] != TOMBSTONE)
        slot = (slot + 1) % SLOTS;
    slots[slot] = block;
    n_live++;
    assert(n_live < SLOTS / 2);
    pthread_mutex_unlock(&lock);
    return block;
}

/* Remembers a block that has a size of its own, unlike a mapping. */
static void *remember_bytes(void *block)
{
    if (!remember(block))
        return NULL;
    pthread_mutex_lock(&lock);
    live_bytes += malloc_usable_size(block);
    bytes_most = live_bytes > bytes_most ? live_bytes : bytes_most;
    pthread_mutex_unlock(&lock);
    return block;
}

/* has_bytes: remember_bytes was called. */
static void forget(void *block, bool has_bytes)
{
    if (!block)
        return;
    pthread_mutex_lock(&lock);
    size_t slot = first_slot(block);
    for (size_t n = 0; slots[slot] && slots[slot] != block && n < SLOTS; n++)
        slot = (slot + 1) % SLOTS;
    if (slots[slot] == block) {
        slots[slot] = TOMBSTONE;
        n_live--;
        live_bytes -= has_bytes ? malloc_usable_size(block) : 0;
    }
    pthread_mutex_unlock(&lock);
}

void *__wrap_malloc(size_t size)
{
    return refuse_this() ? NULL : remember_bytes(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return refuse_this() ? NULL : remember_bytes(__real_calloc(n, size));
}

void *__wrap_realloc(void *block, size_t size)
{
    if (refuse_this())
        return NULL;
    forget(block, true);
    void *moved = __real_realloc(block, size);
    remember_bytes(moved ? moved : block);
    return moved;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return refuse_this() ? NULL : remember_bytes(__real_aligned_alloc(alignment, size));
}

int __wrap_posix_memalign(void **ret_block, size_t alignment, size_t size)
{
    if (refuse_this())
        return ENOMEM;
    int error = __real_posix_memalign(ret_block, alignment, size);
    if (!error)
        remember_bytes(*ret_block);
    return error;
}

void __wrap_free(void *block)
{
    forget(block, true);
    __real_free(block);
}

char *__wrap_strdup(const char *text)
{
    return refuse_this() ? NULL : remember_bytes(__real_strdup(text));
}

char *__wrap_strndup(const char *text, size_t n_bytes)
{
    return refuse_this() ? NULL : remember_bytes(__real_strndup(text, n_bytes));
}

void *__wrap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (refuse_this())
        return MAP_FAILED;
    void *block = __real_mmap(address, size, protection, flags, fd, offset);
    if (block != MAP_FAILED)
        remember(block);
    return block;
}

int __wrap_munmap(void *address, size_t size)
{
    forget(address, false);
    return __real_munmap(address, size);
}

/* ---- SQLite's allocations ---- */

static void *sqlite_malloc(int size)
{
    return malloc((size_t)size);
}

static void *sqlite_realloc(void *block, int size)
{
    return realloc(block, (size_t)size);
}

static int sqlite_size(void *block)
{
    return (int)malloc_usable_size(block);
}

static int sqlite_round_up(int size)
{
    return (size + 7) & ~7;
}

static int sqlite_begin(void *data)
{
    (void)data;
    return SQLITE_OK;
}

static void sqlite_end(void *data)
{
    (void)data;
}

void chaos_sqlite(void)
{
    static const sqlite3_mem_methods methods = {sqlite_malloc,   free,         sqlite_realloc, sqlite_size,
                                                sqlite_round_up, sqlite_begin, sqlite_end,     NULL};
    const int code = sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
    assert(code == SQLITE_OK);
    (void)code;
}

/* ---- what the tests call ---- */

static size_t open_descriptors(void)
{
    size_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

void chaos_refuse(size_t nth)
{
    pthread_mutex_lock(&lock);
    countdown = nth;
    refused = false;
    pthread_mutex_unlock(&lock);
}

bool chaos_stop(void)
{
    pthread_mutex_lock(&lock);
    countdown = NEVER;
    bool result = refused;
    pthread_mutex_unlock(&lock);
    return result;
}

size_t chaos_live(void)
{
    pthread_mutex_lock(&lock);
    size_t n = n_live;
    pthread_mutex_unlock(&lock);
    return n + open_descriptors();
}

void chaos_peak_begin(void)
{
    pthread_mutex_lock(&lock);
    bytes_most = bytes_begun = live_bytes;
    pthread_mutex_unlock(&lock);
}

size_t chaos_peak(void)
{
    pthread_mutex_lock(&lock);
    const size_t n = bytes_most - bytes_begun;
    pthread_mutex_unlock(&lock);
    return n;
}
