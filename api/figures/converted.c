/* converted.c - writes a drawing as PDF or PNG: librsvg's program rsvg-convert makes them from its SVG.
 *
 * The libraries that draw and shape text end their process when memory is refused to them, so they run in a
 * process of their own. It reads and writes files in memory: neither process waits for a pipe. */
#include "api/figures/picture.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "rsvg-convert"

enum { SECONDS_MAX = 120 }; /* of processor time */
enum { LOOK_MS = 50 };      /* between two looks at the program and at the request */

/* The points of a page of PDF along a side, and the pixels that the program draws along one. */
#define PAGE_MAX 14400.0
#define SIDE_MAX 32767.0

enum { INPUT, OUTPUT, ERRORS, FILES };

static bool all_written(int file, const char *bytes, size_t n)
{
    for (ssize_t done; n > 0; bytes += done, n -= (size_t)done)
        if ((done = write(file, bytes, n)) < 0)
            return false;
    return lseek(file, 0, SEEK_SET) == 0;
}

/* Opens the files, of which the first holds the SVG. */
static hs_status files_open(const hs_buffer *svg, int ret_files[FILES], hs_error *err)
{
    bool opened = true;
    for (int i = 0; i < FILES; i++)
        opened &= (ret_files[i] = memfd_create("figure", MFD_CLOEXEC)) >= 0;
    if (opened && all_written(ret_files[INPUT], svg->data, svg->size))
        return HS_OK;
    return hs_fail(err, errno == EMFILE || errno == ENFILE ? HS_IO : HS_NO_MEMORY,
                   "cannot make a file in memory for the figure: %s", strerror(errno));
}

/* Returns the environment, and a date that makes all files of a figure the same. NULL if memory is short. The
 * caller frees the list. */
static char **environment_make(void)
{
    static char date[] = "SOURCE_DATE_EPOCH=0";
    size_t n = 0;
    while (environ[n])
        n++;
    char **list = calloc(n + 2, sizeof *list);
    if (list) {
        list[0] = date; /* the first of a name counts */
        memcpy(list + 1, environ, n * sizeof *list);
    }
    return list;
}

/* Starts the program. Returns 0, or why it cannot be started. */
static int program_start(char *const *arguments, const int files[FILES], pid_t *ret_process)
{
    char **environment = environment_make();
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    if (!environment || posix_spawn_file_actions_init(&actions)) {
        free(environment);
        return ENOMEM;
    }
    int failed = posix_spawnattr_init(&attributes); /* cannot fail in glibc */
    for (int i = 0; i < FILES && !failed; i++)
        failed = posix_spawn_file_actions_adddup2(&actions, files[i], i);
    if (!failed) {
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
        failed = posix_spawnp(ret_process, PROGRAM, &actions, &attributes, arguments, environment);
    }
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    free(environment);
    return failed;
}

/* Waits for the program, and ends it if the request is cancelled. */
static hs_status program_wait(pid_t process, const atomic_int *cancelled, int *ret_status, hs_error *err)
{
    const int ended = pidfd_open(process, 0); /* -1: the program's end is found at the next look */
    bool stopped = false;
    pid_t found;
    while ((found = waitpid(process, ret_status, WNOHANG)) == 0) {
        if (!stopped && cancelled && atomic_load(cancelled))
            stopped = kill(process, SIGKILL) == 0;
        poll(&(struct pollfd){.fd = ended, .events = POLLIN}, 1, LOOK_MS);
    }
    const int why = errno;
    if (ended >= 0)
        close(ended);
    if (stopped)
        return hs_fail(err, HS_CANCELLED, "cancelled");
    return found > 0 ? HS_OK : hs_fail(err, HS_IO, "cannot wait for " PROGRAM ": %s", strerror(why));
}

static hs_status program_run(char *const *arguments, const int files[FILES], const atomic_int *cancelled,
                             hs_error *err)
{
    pid_t process;
    int status;
    const int failed = program_start(arguments, files, &process);
    if (failed == ENOENT)
        return hs_fail(err, HS_UNSUPPORTED,
                       "PDF and PNG are made by " PROGRAM
                       ", which is not installed here: install Debian's packages librsvg2-bin and "
                       "fonts-dejavu-core, or take svg");
    if (failed)
        return hs_fail(err, failed == ENOMEM || failed == EAGAIN ? HS_NO_MEMORY : HS_IO,
                       "cannot start " PROGRAM ": %s", strerror(failed));
    prlimit(process, RLIMIT_CPU, &(struct rlimit){SECONDS_MAX, SECONDS_MAX}, NULL);
    prlimit(process, RLIMIT_FSIZE, &(struct rlimit){HS__IMAGES_BYTES_MAX, HS__IMAGES_BYTES_MAX}, NULL);
    const hs_status st = program_wait(process, cancelled, &status, err);
    if (st)
        return st;
    if (lseek(files[OUTPUT], 0, SEEK_END) >= (off_t)HS__IMAGES_BYTES_MAX)
        return hs_fail(
            err, HS_TOO_LARGE,
            "the figure has more than %zu MB as PDF or PNG: choose fewer pixels per inch (dpi), svg, "
            "or a smaller figure",
            HS__IMAGES_BYTES_MAX / 1000000);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return HS_OK;
    char why[160] = "";
    if (pread(files[ERRORS], why, sizeof why - 1, 0) > 0)
        why[strcspn(why, "\n")] = '\0';
    return WIFSIGNALED(status)
               ? hs_fail(err, HS_NO_MEMORY,
                         PROGRAM
                         " was ended by signal %d: memory, space or time may be short; choose svg, or "
                         "a smaller figure",
                         WTERMSIG(status))
               : hs_fail(err, HS_IO, PROGRAM " cannot write the figure (%s): choose svg", why);
}

/* Appends what the program has written. */
static hs_status output_read(int file, hs_buffer *b, hs_error *err)
{
    const off_t size = lseek(file, 0, SEEK_END);
    char *to = size > 0 ? hs_buffer_reserve(b, (size_t)size) : NULL;
    for (off_t at = 0, n; to && at < size; at += n)
        if ((n = pread(file, to + at, (size_t)(size - at), at)) <= 0)
            return hs_fail(err, HS_IO, "cannot read the figure of " PROGRAM ": %s", strerror(errno));
    b->size += to ? (size_t)size : 0;
    return to ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for the figure");
}

static hs_status convert(const hs_picture *d, char *const *arguments, const atomic_int *cancelled,
                         hs_buffer *b, hs_error *err)
{
    hs_buffer svg = {0};
    int files[FILES] = {-1, -1, -1};
    hs_status st = hs_picture_svg(d, &svg, err);
    if (!st)
        st = files_open(&svg, files, err);
    hs_buffer_finish(&svg);
    if (!st)
        st = program_run(arguments, files, cancelled, err);
    if (!st)
        st = output_read(files[OUTPUT], b, err);
    for (int i = 0; i < FILES; i++)
        if (files[i] >= 0)
            close(files[i]);
    return st;
}

hs_status hs_picture_pdf(const hs_picture *d, const atomic_int *cancelled, hs_buffer *b, hs_error *err)
{
    static char *const arguments[] = {PROGRAM, "--unlimited", "--format=pdf", NULL};
    if (d->width > PAGE_MAX || d->height > PAGE_MAX)
        return hs_fail(
            err, HS_TOO_LARGE,
            "the figure is %.0f points wide and %.0f tall; a page of PDF is at most %.0f wide and tall. "
            "Choose svg, or a smaller figure: fewer tokens, panels or columns",
            d->width, d->height, PAGE_MAX);
    return convert(d, arguments, cancelled, b, err);
}

hs_status hs_picture_png(const hs_picture *d, double dpi, const atomic_int *cancelled, hs_buffer *b,
                         hs_error *err)
{
    const double width = ceil(d->width / 72 * dpi), height = ceil(d->height / 72 * dpi);
    char across[40], down[40];
    if (width > SIDE_MAX || height > SIDE_MAX || width * height > (double)HS__PNG_PIXELS_MAX)
        return hs_fail(err, HS_TOO_LARGE,
                       "the PNG would have %.0f × %.0f pixels; at most %zu million are drawn, and %.0f along "
                       "a side: choose fewer pixels per inch (dpi), svg, or a smaller figure",
                       width, height, HS__PNG_PIXELS_MAX / 1000000, SIDE_MAX);
    snprintf(across, sizeof across, "--dpi-x=%g", dpi);
    snprintf(down, sizeof down, "--dpi-y=%g", dpi);
    char *const arguments[] = {PROGRAM, "--unlimited", "--format=png", across, down, NULL};
    return convert(d, arguments, cancelled, b, err);
}
