/* pull.c - `headscope pull`: server/hub/hub_pull.h with a bar of progress. */
#include "server/hub/hub_pull.h"

#include "model/base/clock.h"
#include "server/base/printable.h"
#include "server/commands/commands.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A bar on standard error. */
typedef struct bar {
    bool on_terminal;
    bool open; /* it stands on the current line */
    double began_ms, drawn_ms;
} bar;

static void bar_draw(void *data, const char *file, uint64_t n_bytes, uint64_t n_bytes_all,
                     uint64_t n_received)
{
    enum { WIDTH = 30 };
    bar *b = data;
    const double now = hs_clock_ms();
    const bool whole = n_bytes >= n_bytes_all;
    if (!b->open)
        b->began_ms = now;
    if (!b->on_terminal || (!whole && b->open && now - b->drawn_ms < 100))
        return;
    b->drawn_ms = now;
    b->open = !whole;
    const double seconds = (now - b->began_ms) / 1e3;
    const int full = n_bytes_all ? (int)((double)n_bytes / (double)n_bytes_all * WIDTH) : WIDTH;
    char name[256];
    hs__printable(file, name, sizeof name);
    fprintf(stderr, "\r\033[K%-32.32s [%-*.*s] %.1f of %.1f MB, %.1f MB/s%s", name, WIDTH,
            full < WIDTH ? full : WIDTH, "==============================", (double)n_bytes / 1e6,
            (double)n_bytes_all / 1e6, seconds > 0.2 ? (double)n_received / 1e6 / seconds : 0.0,
            whole ? "\n" : "");
}

static void bar_file_done(void *data, const char *file, uint64_t n_bytes)
{
    const bar *b = data;
    if (!b->on_terminal)
        hs__print(stdout, "%s (%llu bytes)\n", file, (unsigned long long)n_bytes);
}

static void bar_waiting(void *data, const char *file)
{
    (void)data;
    hs__print(stderr, "%s: another download of it is under way, waiting\n", file);
}

/* Parses a name. One without an organisation is what the hub means by it. Writes how other commands name it.
 */
static bool name_read(const char *text, hs_hub_name *ret_name, char *ret_shown, size_t n_shown)
{
    const bool alone = !strchr(text, '/');
    snprintf(ret_shown, n_shown, "%s%s", alone ? "hf://" : "", text);
    return *text && hs_hub_name_parse(ret_shown, strlen(ret_shown), ret_name);
}

static int pull_main(const hs_command *command, int argc, char **argv)
{
    int operand, exit_code;
    char unused, dir[PATH_MAX], shown_name[512];
    hs_error err = {0};
    hs_hub_name name;
    bar shown = {.on_terminal = isatty(STDERR_FILENO)};
    const hs__pull_watch watch = {
        .progress = bar_draw, .file_done = bar_file_done, .waiting = bar_waiting, .data = &shown};
    if (!hs__options_parse(command, argc, argv, &unused, &operand, &exit_code))
        return exit_code;
    if (argc - operand != 1)
        return hs__usage_error(command, "name one model, as in google-bert/bert-base-uncased");
    if (!name_read(argv[operand], &name, shown_name, sizeof shown_name))
        return hs__usage_error(
            command, "'%s' is no name of a model; expected ORG/NAME or ORG/NAME@REVISION, or NAME as gpt2",
            argv[operand]);
    const hs_status st = hs__hub_pull(&name, &watch, dir, &err);
    if (st && shown.open)
        fputc('\n', stderr);
    if (st)
        return hs__command_failed(command, &err);
    hs__print(stdout, "%s is in %s\n", argv[operand], dir);
    hs__print(stdout, "To look at it: headscope serve --model %s\n", shown_name);
    return HS_EXIT_DONE;
}

const hs_command hs__command_pull = {
    .name = "pull",
    .operands = "ORG/NAME[@REVISION]",
    .operand_words = "model|name|repo|repository|revision",
    .operand_help = "name ORG/NAME or ORG/NAME@REVISION without an option",
    .summary = "Downloads a model from the HuggingFace hub",
    .details =
        "It goes where Python's huggingface_hub keeps its own: HF_HUB_CACHE, HF_HOME or XDG_CACHE_HOME say\n"
        "where, else ~/.cache/huggingface. HF_ENDPOINT names a mirror, HF_TOKEN a token for gated and "
        "private\n"
        "models. Interrupted, the same command goes on where it ended.",
    .options = NULL,
    .n_options = 0,
    .main = pull_main,
};
