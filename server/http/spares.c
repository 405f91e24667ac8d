/* spares.c - takes and gives back what is kept for the moment when a limit is reached. */
#include "server/http/spares.h"

#include "server/base/log.h"
#include "server/base/system_errors.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#define SPARE_BYTES ((size_t)8 << 20)
#define PROBE_BYTES ((size_t)1 << 20) /* more than a request needs for its refusal */

static int descriptor_take(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void *memory_take(size_t n_bytes)
{
    return mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* Returns 0 if a descriptor and some memory can be had; else the reason. */
static int probe(void)
{
    const int fd = descriptor_take();
    int why = fd < 0 ? errno : 0;
    void *memory = memory_take(PROBE_BYTES);
    if (memory == MAP_FAILED)
        why = errno;
    else
        munmap(memory, PROBE_BYTES);
    if (fd >= 0)
        close(fd);
    return why;
}

void hs__spares_release(hs_spares *s)
{
    if (!s->kept)
        return;
    for (size_t k = 0; k < HS_SPARE_DESCRIPTORS; k++)
        if (s->descriptors[k] >= 0)
            close(s->descriptors[k]);
    if (s->memory != MAP_FAILED)
        munmap(s->memory, SPARE_BYTES);
    s->kept = false;
}

/* Takes all spares. Returns 0, or why one cannot be had. */
static int spares_take(hs_spares *s)
{
    int why = 0;
    for (size_t k = 0; k < HS_SPARE_DESCRIPTORS; k++) {
        s->descriptors[k] = descriptor_take();
        why = s->descriptors[k] < 0 ? errno : why;
    }
    s->memory = memory_take(SPARE_BYTES);
    why = s->memory == MAP_FAILED ? errno : why;
    s->kept = true;
    return why;
}

int hs__spares_check(hs_spares *s)
{
    const bool kept = s->kept;
    int why = kept ? 0 : spares_take(s);
    if (!why)
        why = probe();
    if (!why)
        return 0;
    hs__spares_release(s);
    if (kept)
        hs__log("warning",
                "a limit is reached: %s; idle connections and unused memory are given back, and some "
                "requests are refused",
                hs__errno_text(why));
    return why;
}
