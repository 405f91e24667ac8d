/* serve.c - `headscope serve` and `headscope view`: options, and limits that follow the memory there is where
 * none were given. */
#include "model/base/files.h"
#include "server/base/log.h"
#include "server/base/machine.h"
#include "server/commands/commands.h"
#include "server/http/server.h"
#include "server/http/tasks.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static hs_status set_pull(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    hs_server_options *options = ret;
    (void)option, (void)value, (void)err;
    options->pull = true;
    return HS_OK;
}

/* Takes "/lab/headscope", or "/" for none. The path stands in answers, so it has no characters with a
 * meaning. */
static hs_status set_root_path(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
    hs_server_options *options = ret;
    const size_t n = strlen(value);
    (void)option;
    if (*value != '/' || n > HS_ROOT_PATH_MAX || strspn(value, plain) != n || strstr(value, "//") ||
        strstr(value, "/.") || (n > 1 && value[n - 1] == '/'))
        return hs_fail(
            err, HS_INVALID,
            "expected a path such as /lab/headscope: letters, digits and - . _ ~ between slashes, no dot "
            "behind a slash, no slash at the end, at most %d bytes",
            HS_ROOT_PATH_MAX);
    options->root_path = n > 1 ? value : NULL;
    return HS_OK;
}

#define BY_MEMORY SIZE_MAX
#define AT(field) offsetof(hs_server_options, field)
static const hs_option serve_options[] = {
    {.name = "listen",
     .argument = "HOST:PORT",
     .help = "where to listen (127.0.0.1:8080; port 0: any free one), or unix:PATH, a socket file",
     .set = hs__set_string,
     .offset = AT(listen)},
    {.name = "model",
     .argument = HS_MODEL_ARGUMENT,
     .help = "a folder, GGUF file or org/name of the hub, repeatable; first is the default "
             "(" HS_EMBEDDED_NAME ")",
     .set = hs__add_model,
     .offset = AT(catalog)},
    {.name = "tokenizer",
     .argument = "DIR",
     .help = HS_TOKENIZER_HELP,
     .set = hs__set_tokenizer,
     .offset = AT(catalog)},
    {.name = "untrained",
     .argument = "SEED",
     .help = HS_UNTRAINED_HELP,
     .set = hs__set_untrained,
     .offset = AT(catalog)},
    {.name = "workers",
     .argument = "N",
     .help = "requests computed at the same time (one per core)",
     .set = hs__set_count,
     .offset = AT(n_workers),
     .min = 1,
     .max = 1000},
    {.name = "queue",
     .argument = "N",
     .help = "requests that may wait for a worker (64)",
     .set = hs__set_count,
     .offset = AT(queue_max),
     .max = 1e6},
    {.name = "together",
     .argument = "N",
     .help = "short ones among them that a worker computes at once (8)",
     .set = hs__set_count,
     .offset = AT(batch_max),
     .min = 1,
     .max = HS_BATCH_MAX},
    {.name = "connections",
     .argument = "N",
     .help = "open connections (1024, or what the limit of file descriptors allows)",
     .set = hs__set_count,
     .offset = AT(connections_max),
     .min = 1,
     .max = 1e6},
    {.name = "connections-per-address",
     .argument = "N",
     .help = "from one address (half of all; for this machine's own no limit)",
     .set = hs__set_count,
     .offset = AT(address_connections_max),
     .min = 1,
     .max = 1e6},
    {.name = "running-per-address",
     .argument = "N",
     .help = "requests of one address that are computed at a time (no limit)",
     .set = hs__set_count,
     .offset = AT(address_running_max),
     .min = 1,
     .max = 1000},
    {.name = "max-held",
     .argument = "BYTES",
     .help = "bodies and unread answers in memory, half for one client (4G; 1/3 of free memory)",
     .set = hs__set_bytes,
     .offset = AT(client_memory_max),
     .min = 65536,
     .max = 1024.0 * (1 << 30)},
    {.name = "deadline",
     .argument = "SECONDS",
     .help = "until an answer must be ready (60)",
     .set = hs__set_seconds,
     .offset = AT(deadline_ms),
     .min = 0.001,
     .max = 86400},
    {.name = "header-timeout",
     .argument = "SECONDS",
     .help = "for a request's headers to arrive (10)",
     .set = hs__set_seconds,
     .offset = AT(header_ms),
     .min = 0.1,
     .max = 3600},
    {.name = "body-timeout",
     .argument = "SECONDS",
     .help = "for its body to arrive (30)",
     .set = hs__set_seconds,
     .offset = AT(body_ms),
     .min = 0.1,
     .max = 86400},
    {.name = "max-body",
     .argument = "BYTES",
     .help = "largest request body (1M)",
     .set = hs__set_bytes,
     .offset = AT(body_bytes_max),
     .min = 1,
     .max = 1 << 30},
    {.name = "state",
     .argument = "DIR",
     .help = "keep corpus runs here; without it there are none",
     .set = hs__set_string,
     .offset = AT(state_dir)},
    {.name = "max-corpus",
     .argument = "BYTES",
     .help = "largest corpus to be sent (1G)",
     .set = hs__set_bytes,
     .offset = AT(corpus_bytes_max),
     .min = 1,
     .max = 1024.0 * (1 << 30)},
    {.name = "max-state",
     .argument = "BYTES",
     .help = "space for all corpus runs (16G)",
     .set = hs__set_bytes,
     .offset = AT(state_bytes_max),
     .min = 1,
     .max = 1024.0 * 1024 * (1 << 30)},
    {.name = "max-answer",
     .argument = "BYTES",
     .help = "largest answer (1G; 1/6 of free memory)",
     .set = hs__set_bytes,
     .offset = AT(catalog.api.answer_bytes_max),
     .min = 1024,
     .max = 64.0 * (1 << 30)},
    {.name = "max-maps",
     .argument = "BYTES",
     .help = "maps in memory while one request is computed (1G; 1/3 of free memory)",
     .set = hs__set_bytes,
     .offset = AT(catalog.api.capture_bytes_max),
     .min = 1 << 20,
     .max = 1024.0 * (1 << 30)},
    {.name = "cache",
     .argument = "BYTES",
     .help = "attention maps kept for follow-up requests (256M; 1/16 of free memory); 0: none",
     .set = hs__set_bytes,
     .offset = AT(catalog.api.cache_bytes_max),
     .max = 1024.0 * (1 << 30)},
    {.name = "token-file",
     .argument = "FILE",
     .help = "requests need 'Authorization: Bearer <token>' with a token of this file",
     .set = hs__set_string,
     .offset = AT(token_file)},
    {.name = "allow-host",
     .argument = "NAMES",
     .help = "on a loopback address: answer under these names too, with commas between",
     .set = hs__set_string,
     .offset = AT(allow_hosts)},
    {.name = "root-path",
     .argument = "PATH",
     .help = "where a proxy shows this server, /lab/headscope; paths without it work, too",
     .set = set_root_path,
     .offset = AT(root_path)},
    {.name = "cors",
     .argument = "ORIGIN",
     .help = "web pages of this origin may ask; * for all",
     .set = hs__set_string,
     .offset = AT(cors_origin)},
    {.name = "backend",
     .argument = "NAME",
     .help = "matrix products: native, or cblas, which loads OpenBLAS (native)",
     .set = hs__set_choice,
     .offset = AT(catalog.backend),
     .choices = HS_BACKEND_NAMES},
    {.name = "precision",
     .argument = "NAME",
     .help = "of matrix products: fp32, or int24, bf16 or int8 where the CPU has it (fp32)",
     .set = hs__set_choice,
     .offset = AT(catalog.precision),
     .choices = HS_PRECISION_NAMES},
    {.name = "pull",
     .help = "fetch models that are named and not there from the hub, at the start and on request",
     .set = set_pull},
    {.name = "log",
     .argument = "FORMAT",
     .help = "text or json (text)",
     .set = hs__set_choice,
     .offset = AT(log),
     .choices = "text|json"},
};

static size_t connections_by_descriptors(const hs_server_options *options)
{
    const size_t ordinary = 1024, possible = hs__connections_possible(options);
    return ordinary < possible ? ordinary : possible;
}

/* The options as they were given, and as they are used. */
typedef struct serve_limits {
    hs_server_options given, used;
    hs_catalog_memory memory;
} serve_limits;

static size_t least_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Lowers a limit that was given to what there is, and says so. */
static size_t lower(const char *option, size_t given, size_t most)
{
    if (given > most)
        hs__log("warning", "%s is %.1f MB; the models leave memory for %.1f MB, which is used in its place",
                option, (double)given / 1e6, (double)most / 1e6);
    return least_of(given, most);
}

/* Shares n_bytes: a third each for answers and for maps, a sixteenth each for the cache and for freed blocks.
 * The rest, a fifth, stays for all else, such as connections and parsed bodies. Limits that were given may
 * take more, at the cost of the others. */
static void bytes_share(const hs_server_options *given, size_t n_bytes, hs_server_options *ret)
{
    const size_t ordinary = (size_t)256 << 20, n_workers = given->n_workers;
    const hs_api_options *requested = &given->catalog.api;
    hs_api_options *api = &ret->catalog.api;
    const size_t answer = requested->answer_bytes_max ? requested->answer_bytes_max : 4 * ordinary;
    size_t left = n_bytes / 24 * 19;
    api->cache_bytes_max = requested->cache_bytes_max == BY_MEMORY
                               ? least_of(ordinary, n_bytes / 16)
                               : lower("--cache", requested->cache_bytes_max, left / 2);
    left -= api->cache_bytes_max;
    const size_t answers = least_of((n_workers > 4 ? n_workers : 4) * answer, n_bytes / 3);
    ret->client_memory_max = given->client_memory_max
                                 ? lower("--max-held", given->client_memory_max, left / 2)
                                 : least_of(answers, left / 2);
    left -= ret->client_memory_max;
    /* An answer that can never fit is refused as too large, not as too much for the moment. */
    api->answer_bytes_max = least_of(answer, ret->client_memory_max / 2);
    const size_t kept = least_of(8 * ordinary, least_of(n_bytes / 16, left / 4));
    hs_runtime_keep(ret->catalog.runtime, kept);
    left -= kept;
    const size_t all = least_of(n_bytes / 3, left), one = n_workers > 1 ? all - all / 8 : all;
    api->capture_bytes_max = requested->capture_bytes_max
                                 ? lower("--max-maps", requested->capture_bytes_max, left)
                                 : least_of(4 * ordinary, one);
    api->captures_bytes_max = api->capture_bytes_max > all ? api->capture_bytes_max : all;
}

/* Sets the limits of requests by the memory that the models leave, of the machine or of the container if that
 * has less. With --pull half of it stays for later models. */
static hs_status memory_share(void *data, uint64_t n_scratch, hs_error *err)
{
    enum { LEFT_MIN = 48 << 20 };
    serve_limits *l = data;
    const uint64_t unused = hs__memory_unused(), left = unused > n_scratch ? unused - n_scratch : 0;
    if (left < LEFT_MIN)
        return hs_fail(
            err, HS_TOO_LARGE,
            "the models leave %.1f MB of memory for requests, which need %.1f MB at least: name fewer "
            "models, or lower --workers, whose scratch memory takes %.1f MB, or give the "
            "container more memory",
            (double)left / 1e6, LEFT_MIN / 1e6, (double)n_scratch / 1e6);
    bytes_share(&l->given, (size_t)(l->given.pull ? left / 2 : left), &l->used);
    l->memory.more_max = l->given.pull ? (int64_t)(left / 8 * 3) : 0;
    return HS_OK;
}

/* glibc gives each thread a heap of its own and keeps freed memory there. The program has several times as
 * many threads as allocate at a time, so the number of heaps is limited. Keeps large answers out of the
 * heaps. By default glibc raises its mmap threshold to the largest freed block, up to 32 MiB, and the heaps
 * then fragment over an hour. */
static void heaps_limit(size_t n_workers)
{
#ifdef M_ARENA_MAX
    (void)mallopt(M_ARENA_MAX, (int)n_workers + 1);
    (void)mallopt(M_MMAP_THRESHOLD, 4 << 20);
#else
    (void)n_workers;
#endif
}

static hs_server_options options_ordinary(void)
{
    return (hs_server_options){
        .listen = "127.0.0.1:8080",
        .n_workers = hs__cores_usable(),
        .queue_max = 64,
        .body_bytes_max = 1 << 20,
        .corpus_bytes_max = 1 << 30,
        .state_bytes_max = (size_t)16 << 30,
        .deadline_ms = 60000,
        .header_ms = 10000,
        .body_ms = 30000,
        .log = "text",
        .catalog.n_threads = hs__cores_usable(),
        .catalog.api.cache_bytes_max = BY_MEMORY,
    };
}

/* Serves with options that were parsed. Returns the exit code. */
static int serve(const hs_command *command, hs_server_options *options)
{
    hs_error err = {0};
    heaps_limit(options->n_workers);
    if (hs_runtime_create(options->catalog.n_threads, &options->catalog.runtime, &err))
        return hs__command_failed(command, &err);
    options->catalog.api.n_workers = options->n_workers;
    if (!options->connections_max)
        options->connections_max = connections_by_descriptors(options);
    serve_limits limits = {.given = *options, .used = *options};
    if (!options->client_memory_max)
        limits.used.client_memory_max = (size_t)hs__memory_limit() / 16; /* until the models are open */
    limits.used.catalog.limit = memory_share;
    limits.used.catalog.limit_data = &limits;
    limits.used.catalog.memory = &limits.memory;
    const int exit_code = hs__server_run(&limits.used, &err);
    hs_runtime_destroy(options->catalog.runtime);
    if (!err.status)
        return exit_code;
    if (strcmp(options->log, "json") != 0)
        return hs__command_failed(command, &err);
    hs__log("error", "%s", *err.text ? err.text : hs_status_text(err.status));
    return HS_EXIT_FAILED;
}

static int serve_main(const hs_command *command, int argc, char **argv)
{
    hs_server_options options = options_ordinary();
    int operand, exit_code;
    if (!hs__options_parse(command, argc, argv, &options, &operand, &exit_code))
        return exit_code;
    if (operand < argc)
        return hs__usage_error(command, "there is nothing to do with '%s'", argv[operand]);
    return serve(command, &options);
}

const hs_command hs__command_serve = {
    .name = "serve",
    .operands = "",
    .summary = "Answers over HTTP, with the web viewer",
    .details = "SIGTERM or ^C finishes what was begun and stops; a second one stops at once.",
    .options = serve_options,
    .n_options = sizeof serve_options / sizeof *serve_options,
    .main = serve_main,
};

/* ---- view ----
 *
 * `headscope view FILE`: the viewer shows the file. The page reads its arrays; here they are only bytes. */

enum { VIEWED_BYTES_MAX = 1 << 30 }; /* the page takes no more */

/* Returns true if the file can be one of arrays: a ZIP archive, or safetensors, whose header is JSON. */
static bool holds_arrays(const hs_bytes *bytes)
{
    const char *data = (const char *)bytes->data;
    return bytes->size > 8 && (memcmp(data, "PK", 2) == 0 || data[8] == '{');
}

static hs_status arrays_read(const char *path, hs_bytes *ret_bytes, hs_error *err)
{
    struct stat about;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return hs_fail(
            err, HS_INVALID,
            "%s is a folder; name one file of arrays, .npz or .safetensors. A corpus run's folder has "
            "report.html, which any browser opens; headscope serve --model DIR opens a model's",
            path);
    const hs_status st = hs_path_read(path, path, VIEWED_BYTES_MAX, ret_bytes, err);
    if (st == HS_TOO_LARGE) {
        *err = (hs_error){0};
        return hs_fail(err, st, "%s: larger than 1 GiB; save fewer layers, or the maps as float16", path);
    }
    if (!st && !holds_arrays(ret_bytes))
        return hs_fail(err, HS_INVALID,
                       "%s: neither .npz nor .safetensors; save named arrays with numpy.savez", path);
    return st;
}

static int view_main(const hs_command *command, int argc, char **argv)
{
    hs_server_options options = options_ordinary();
    int operand, exit_code;
    hs_error err = {0};
    if (!hs__options_parse(command, argc, argv, &options, &operand, &exit_code))
        return exit_code;
    if (operand + 1 != argc)
        return hs__usage_error(command, "%s",
                               operand < argc ? "one FILE at a time" : "name the FILE to show");
    if (strncmp(options.listen, "unix:", 5) == 0)
        return hs__usage_error(command, "no browser opens a socket file: --listen needs HOST:PORT here");
    const char *path = argv[operand], *slash = strrchr(path, '/');
    options.opened_name = slash ? slash + 1 : path;
    exit_code = arrays_read(path, &options.opened, &err) ? hs__command_failed(command, &err)
                                                         : serve(command, &options);
    free((void *)options.opened.data);
    return exit_code;
}

const hs_command hs__command_view = {
    .name = "view",
    .operands = "FILE",
    .operand_words = "file|open|arrays",
    .operand_help = "name the FILE without an option",
    .summary = "Shows attention arrays of another program in the viewer",
    .details =
        "FILE is .npz or .safetensors with attentions [layers][heads][T][T], tokens and, for similarities,\n"
        "head_outputs. Prints the address of the page that shows it. All options are those of serve.",
    .options = serve_options,
    .n_options = sizeof serve_options / sizeof *serve_options,
    .main = view_main,
};
