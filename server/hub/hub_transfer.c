/* hub_transfer.c - transfers of one file from a hub, by libcurl, which is loaded when it is used. */
#include "server/hub/hub_transfer.h"

#include "model/base/library.h"
#include "model/base/read_number.h"
#include "model/base/status.h"
#include "model/files/json.h"
#include "server/base/system_errors.h"
#include "server/base/version.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define CURL_DISABLE_DEPRECATION /* for CURLOPT_PROTOCOLS, which libcurl before 7.85 needs */
#include <curl/curl.h>

/* ---- libcurl ----
 *
 * It is loaded when something is downloaded and not before, and stays until the program ends. It brings
 * twenty libraries with it, which would cost every server that never downloads 4 MB and half of its start.
 * Wheels and tarballs do not bundle it: TLS needs the system's certificates and security fixes.
 *
 *     if (!(st = curl_load(err)))
 *         CURL *curl = curl_functions.easy_init();         each function under its name without curl_ */

/* The functions of libcurl that are used. The two variadic ones are called through their plain type, so no
 * check of arguments by macros takes place. */
#define CURL_FUNCTIONS(X)                                                                                    \
    X(global_init)                                                                                           \
    X(global_cleanup)                                                                                        \
    X(easy_init)                                                                                             \
    X(easy_cleanup)                                                                                          \
    X(easy_reset)                                                                                            \
    X(easy_setopt)                                                                                           \
    X(easy_getinfo)                                                                                          \
    X(easy_perform)                                                                                          \
    X(easy_strerror)                                                                                         \
    X(easy_escape)                                                                                           \
    X(free)                                                                                                  \
    X(slist_append)                                                                                          \
    X(slist_free_all)

#undef curl_easy_setopt
#undef curl_easy_getinfo

typedef struct library_functions {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declared name takes none */
#define X(name) __typeof__(curl_##name) *name;
    CURL_FUNCTIONS(X)
#undef X
} library_functions;

static library_functions curl_functions;

/* Fills curl_functions; once is enough. HS_UNSUPPORTED says what to install. */
static hs_status curl_load(hs_error *err)
{
    const hs_library_function list[] = {
#define X(name) {"curl_" #name, (void **)&curl_functions.name},
        CURL_FUNCTIONS(X)
#undef X
    };
    bool found = false;
    const char *missing = hs_library_load("libcurl.so.4", list, sizeof list / sizeof *list, &found);
    if (missing && found)
        return hs_fail(err, HS_UNSUPPORTED, "this libcurl has no %s: install a newer one", missing);
    if (missing)
        return hs_fail(
            err, HS_UNSUPPORTED,
            "downloading needs libcurl (%s): install Debian's package libcurl4 or Fedora's libcurl; "
            "or download with Python's huggingface_hub, whose files headscope finds",
            missing);
    return HS_OK;
}

/* ---- hub transfer ----
 *
 * The hub's three questions over libcurl: what is there, what is this file, its bytes. */

#define LIST_BYTES_MAX ((size_t)16 << 20)

enum { REDIRECTS_MAX = 5, TRIES = 5, CONNECT_SECONDS = 30 };

/* A transfer is too slow if it has less than this speed for so long. */
enum { SLOW_SECONDS = 30, SLOW_BYTES_PER_S = 1024 };

struct hs__hub {
    CURL *curl;
    char endpoint[1024];
    char authorization[1024]; /* a header, or "" */
    char curl_error[CURL_ERROR_SIZE];
    hs__hub_stop *stop;
    void *context; /* of stop */
};

/* One exchange: what its headers said, and where its body goes. */
typedef struct answer {
    long status;
    char error_code[64]; /* X-Error-Code of the hub */
    char location[4096], etag[HS__HUB_ETAG_MAX], linked_etag[HS__HUB_ETAG_MAX];
    uint64_t n_bytes, linked_bytes;
    /* body: into memory */
    char *body;
    size_t body_bytes;
    bool no_memory; /* for the body */
    /* or into a file */
    int out;
    uint64_t *written, *received; /* bytes in the file; bytes of this transfer */
    uint64_t n_expected;          /* the file's size */
    int write_error;
    bool resumed;  /* the request has a range */
    bool too_long; /* more came than n_expected, or than LIST_BYTES_MAX into memory */
    const hs__hub *hub;
    hs__hub_progress *progress;
    void *context;
} answer;

/* ---- opening ---- */
static hs_status token_read(char *ret_header, size_t size, hs_error *err)
{
    char token[512] = "", path[PATH_MAX];
    const char *given = getenv("HF_TOKEN"), *file = getenv("HF_TOKEN_PATH");
    if (given && *given) {
        snprintf(token, sizeof token, "%s", given);
    } else if (!(file && *file) && hs_hub_home_path("token", path, NULL)) {
        return HS_OK; /* no home, no token */
    } else {
        FILE *in = fopen(file && *file ? file : path, "re");
        if (!in || !fgets(token, sizeof token, in))
            *token = '\0';
        if (in)
            fclose(in);
    }
    token[strcspn(token, "\r\n")] = '\0';
    if (strpbrk(token, " \t\r\n"))
        return hs_fail(err, HS_INVALID, "the hub's token has spaces in it: look at HF_TOKEN");
    if (*token)
        snprintf(ret_header, size, "Authorization: Bearer %s", token);
    return HS_OK;
}

hs_status hs__hub_open(hs__hub_stop *stop, void *context, hs__hub **ret_hub, hs_error *err)
{
    const char *endpoint = getenv("HF_ENDPOINT");
    hs_status st = curl_load(err);
    if (st)
        return st;
    hs__hub *hub = calloc(1, sizeof *hub);
    if (!hub || curl_functions.global_init(CURL_GLOBAL_DEFAULT) ||
        !(hub->curl = curl_functions.easy_init())) {
        free(hub);
        return hs_fail(err, HS_NO_MEMORY, "no memory to reach the hub");
    }
    hub->stop = stop;
    hub->context = context;
    endpoint = endpoint && *endpoint ? endpoint : "https://huggingface.co";
    snprintf(hub->endpoint, sizeof hub->endpoint, "%s", endpoint);
    for (size_t n = strlen(hub->endpoint); n && hub->endpoint[n - 1] == '/'; n--)
        hub->endpoint[n - 1] = '\0';
    st = token_read(hub->authorization, sizeof hub->authorization, err);
    if (!st && strncmp(hub->endpoint, "http://", 7) != 0 && strncmp(hub->endpoint, "https://", 8) != 0)
        st = hs_fail(err, HS_INVALID, "HF_ENDPOINT is '%s'; expected an address that begins with https://",
                     hub->endpoint);
    if (st)
        hs__hub_close(hub);
    else
        *ret_hub = hub;
    return st;
}

void hs__hub_close(hs__hub *hub)
{
    if (!hub)
        return;
    curl_functions.easy_cleanup(hub->curl);
    curl_functions.global_cleanup();
    free(hub);
}

/* ---- one exchange ---- */

/* Copies a header's value when it is the one of this name: without white space, W/ and quotes. */
static bool header_take(const char *line, size_t n_bytes, const char *name, char *ret, size_t size)
{
    const size_t n = strlen(name);
    if (n_bytes <= n || strncasecmp(line, name, n) != 0 || line[n] != ':')
        return false;
    const char *start = line + n + 1, *end = line + n_bytes;
    while (start < end && (*start == ' ' || *start == '\t'))
        start++;
    while (end > start && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' '))
        end--;
    if (end - start > 2 && start[0] == 'W' && start[1] == '/')
        start += 2;
    if (end - start >= 2 && *start == '"' && end[-1] == '"') {
        start++;
        end--;
    }
    if ((size_t)(end - start) < size)
        snprintf(ret, size, "%.*s", (int)(end - start), start);
    return true;
}

/* Returns the number of a header; 0 if it has none. */
static uint64_t size_read(const char *number)
{
    int64_t n_bytes = 0;
    (void)hs_integer_read(number, NULL, 0, INT64_MAX, &n_bytes);
    return (uint64_t)n_bytes;
}

static size_t on_header(char *line, size_t one, size_t n_bytes, void *context)
{
    (void)one;
    answer *a = context;
    char number[32];
    if (n_bytes > 5 && memcmp(line, "HTTP/", 5) == 0) /* a new answer: after "100 Continue", say */
        *a->location = *a->etag = *a->linked_etag = *a->error_code = '\0';
    else if (header_take(line, n_bytes, "Content-Length", number, sizeof number))
        a->n_bytes = size_read(number);
    else if (header_take(line, n_bytes, "X-Linked-Size", number, sizeof number))
        a->linked_bytes = size_read(number);
    else if (!header_take(line, n_bytes, "Location", a->location, sizeof a->location) &&
             !header_take(line, n_bytes, "ETag", a->etag, sizeof a->etag) &&
             !header_take(line, n_bytes, "X-Linked-ETag", a->linked_etag, sizeof a->linked_etag))
        header_take(line, n_bytes, "X-Error-Code", a->error_code, sizeof a->error_code);
    return n_bytes;
}

static size_t on_body(char *data, size_t one, size_t n_bytes, void *context)
{
    (void)one;
    answer *a = context;
    a->too_long = n_bytes > LIST_BYTES_MAX - a->body_bytes;
    if (a->too_long)
        return 0;
    char *body = realloc(a->body, a->body_bytes + n_bytes + 1);
    a->no_memory = !body;
    if (!body)
        return 0;
    memcpy(body + a->body_bytes, data, n_bytes);
    a->body = body;
    a->body_bytes += n_bytes;
    body[a->body_bytes] = '\0';
    return n_bytes;
}

/* False when these bytes do not go on where ours end. A server that ignores the range sends everything with a
 * 200: then what was there is thrown away. */
static bool bytes_follow(answer *a)
{
    long status = 0;
    curl_functions.easy_getinfo(a->hub->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status == 200 && a->resumed) {
        if (lseek(a->out, 0, SEEK_SET) < 0 || ftruncate(a->out, 0)) {
            a->write_error = errno;
            return false;
        }
        *a->written = 0;
        a->resumed = false;
    }
    return status == 200 || (status == 206 && a->resumed);
}

static size_t on_bytes(char *data, size_t one, size_t n_bytes, void *context)
{
    (void)one;
    answer *a = context;
    if (!bytes_follow(a))
        return 0;
    a->too_long = n_bytes > a->n_expected - *a->written;
    if (a->too_long)
        return 0;
    for (size_t done = 0; done < n_bytes;) {
        const ssize_t n = write(a->out, data + done, n_bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            a->write_error = n < 0 ? errno : EIO;
            return 0;
        }
        done += (size_t)n;
        *a->written += (uint64_t)n;
        *a->received += (uint64_t)n;
    }
    if (a->progress)
        a->progress(a->context, *a->written, *a->received);
    return n_bytes;
}

static bool stopped(const hs__hub *hub)
{
    return hub->stop && hub->stop(hub->context);
}

/* libcurl calls it about once a second, also while it connects or waits. Nonzero ends the transfer. */
static int on_progress(void *context, curl_off_t n_down_all, curl_off_t n_down, curl_off_t n_up_all,
                       curl_off_t n_up)
{
    (void)n_down_all, (void)n_down, (void)n_up_all, (void)n_up;
    return stopped(context);
}

static hs_status fail_stopped(hs_error *err)
{
    return hs_fail(err, HS_CANCELLED, "stopped; the same command goes on from there");
}

/* One request without following redirects. A failure of the transport is a CURLcode; HTTP's are the caller's.
 */
static CURLcode exchange(hs__hub *hub, const char *url, bool with_token, bool head, answer *a)
{
    CURL *curl = hub->curl;
    struct curl_slist *headers = NULL;
    curl_functions.easy_reset(curl);
    *hub->curl_error = '\0';
    a->hub = hub;
    if (with_token && *hub->authorization &&
        !(headers = curl_functions.slist_append(NULL, hub->authorization)))
        return CURLE_OUT_OF_MEMORY;
    curl_functions.easy_setopt(curl, CURLOPT_URL, url);
    /* libcurl before 7.85 knows only the older option. */
    if (curl_functions.easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https"))
        curl_functions.easy_setopt(curl, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    curl_functions.easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_functions.easy_setopt(curl, CURLOPT_USERAGENT, "headscope/" HS_VERSION);
    curl_functions.easy_setopt(curl, CURLOPT_ERRORBUFFER, hub->curl_error);
    curl_functions.easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
    curl_functions.easy_setopt(curl, CURLOPT_QUICK_EXIT,
                               1L); /* a cancelled transfer waits for no name server */
#endif
    curl_functions.easy_setopt(curl, CURLOPT_NOBODY, head ? 1L : 0L);
    curl_functions.easy_setopt(curl, CURLOPT_FOLLOWLOCATION, with_token ? 0L : 1L);
    curl_functions.easy_setopt(curl, CURLOPT_MAXREDIRS, (long)REDIRECTS_MAX);
    curl_functions.easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_functions.easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, (long)SLOW_BYTES_PER_S);
    curl_functions.easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)SLOW_SECONDS);
    curl_functions.easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_functions.easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_functions.easy_setopt(curl, CURLOPT_XFERINFODATA, hub);
    curl_functions.easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_functions.easy_setopt(curl, CURLOPT_HEADERDATA, a);
    curl_functions.easy_setopt(curl, CURLOPT_WRITEFUNCTION, a->written ? on_bytes : on_body);
    curl_functions.easy_setopt(curl, CURLOPT_WRITEDATA, a);
    a->resumed = a->written && *a->written;
    if (a->resumed) {
        /* Not RESUME_FROM: with it libcurl itself refuses servers that begin again. */
        char range[32];
        snprintf(range, sizeof range, "%llu-", (unsigned long long)*a->written);
        curl_functions.easy_setopt(curl, CURLOPT_RANGE, range);
    }
    const CURLcode code = curl_functions.easy_perform(curl);
    curl_functions.easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &a->status);
    curl_functions.slist_free_all(headers);
    return a->no_memory ? CURLE_OUT_OF_MEMORY : code;
}

static hs_status fail_transport(const hs__hub *hub, CURLcode code, hs_error *err)
{
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return fail_stopped(err);
    if (code == CURLE_OUT_OF_MEMORY)
        return hs_fail(err, HS_NO_MEMORY, "no memory to reach the hub");
    return hs_fail(err, HS_IO, "%s cannot be reached: %s; try again, or set HF_ENDPOINT to a mirror",
                   hub->endpoint, *hub->curl_error ? hub->curl_error : curl_functions.easy_strerror(code));
}

/* Reports an answer other than 2xx and 3xx in terms of the name that the user gave. */
static hs_status fail_status(const hs__hub *hub, const hs_hub_name *name, const char *file, const answer *a,
                             hs_error *err)
{
    const bool token = *hub->authorization;
    if (a->status == 403 || strcmp(a->error_code, "GatedRepo") == 0)
        return hs_fail(err, HS_NOT_FOUND, "%s is gated: accept its conditions at %s/%s, then %s",
                       name->repository, hub->endpoint, name->repository,
                       token ? "try again with a token of that account" : "set HF_TOKEN to your token");
    if (strcmp(a->error_code, "RevisionNotFound") == 0)
        return hs_fail(err, HS_NOT_FOUND, "%s has no revision '%s'", name->repository, name->revision);
    if (strcmp(a->error_code, "EntryNotFound") == 0)
        return hs_fail(err, HS_NOT_FOUND, "%s has no file %s", name->repository, file);
    if (a->status == 401 || a->status == 404)
        return hs_fail(err, HS_NOT_FOUND, "%s does not exist at %s, or is private%s", name->repository,
                       hub->endpoint, token ? "" : ": set HF_TOKEN to a token that may read it");
    return hs_fail(err, HS_IO, "%s answered %ld for %s; try again later", hub->endpoint, a->status,
                   name->repository);
}

/* ---- the three questions ---- */

/* Asks for what is at url; redirects to paths of the endpoint itself are followed: a repository that was
 * renamed. */
static hs_status resource_get(hs__hub *hub, char url[HS__HUB_URL_MAX], bool head, answer *ret_answer,
                              hs_error *err)
{
    for (int redirects = 0;; redirects++) {
        answer a = {0};
        const CURLcode code = exchange(hub, url, true, head, &a);
        *ret_answer = a;
        if (a.too_long)
            return hs_fail(err, HS_IO, "%s answers with more than 16 MiB: is it a HuggingFace hub?", url);
        if (code)
            return fail_transport(hub, code, err);
        if (a.status / 100 != 3 || *a.location != '/')
            return HS_OK;
        free(a.body);
        *ret_answer = (answer){0};
        const int n = snprintf(url, HS__HUB_URL_MAX, "%s%s", hub->endpoint, a.location);
        if (redirects == REDIRECTS_MAX || n >= HS__HUB_URL_MAX)
            return fail_transport(hub, CURLE_TOO_MANY_REDIRECTS, err);
    }
}

/* Returns true if the JSON is a list of a revision's files, as hs__hub_list returns it. */
static bool list_is_sound(const json_t *list)
{
    const char *commit = json_string_value(json_object_get(list, "sha"));
    return commit && *commit && strlen(commit) < HS__HUB_COMMIT_MAX &&
           strspn(commit, "0123456789abcdef") == strlen(commit) &&
           json_is_array(json_object_get(list, "siblings"));
}

hs_status hs__hub_list(hs__hub *hub, const hs_hub_name *name, json_t **ret_list, hs_error *err)
{
    char url[HS__HUB_URL_MAX];
    char *revision = curl_functions.easy_escape(hub->curl, name->revision, 0);
    if (!revision)
        return hs_fail(err, HS_NO_MEMORY, "no memory to reach the hub");
    snprintf(url, sizeof url, "%s/api/models/%s/revision/%s", hub->endpoint, name->repository, revision);
    curl_functions.free(revision);
    answer a = {0};
    hs_status st = resource_get(hub, url, false, &a, err);
    if (!st && (a.status != 200 || !a.body))
        st = fail_status(hub, name, "", &a, err);
    json_t *list = NULL;
    if (!st && hs_json_load(a.body, a.body_bytes, 0, &list, NULL) == HS_NO_MEMORY)
        st = hs_fail(err, HS_NO_MEMORY, "no memory for the hub's answer");
    free(a.body);
    if (!st && !list_is_sound(list))
        st = hs_fail(err, HS_IO, "%s does not answer as a HuggingFace hub does", hub->endpoint);
    if (st)
        json_decref(list);
    else
        *ret_list = list;
    return st;
}

/* ETags become file names. */
static bool etag_is_sound(const char *etag)
{
    const size_t n = strlen(etag);
    return n > 0 && strspn(etag, "0123456789abcdefABCDEF-_") == n;
}

hs_status hs__hub_file_find(hs__hub *hub, const hs_hub_name *name, const char *commit, const char *file,
                            hs__hub_file *ret_file, hs_error *err)
{
    answer a = {0};
    snprintf(ret_file->url, sizeof ret_file->url, "%s/%s/resolve/%s/%s", hub->endpoint, name->repository,
             commit, file);
    hs_status st = resource_get(hub, ret_file->url, true, &a, err);
    if (st)
        return st;
    if (a.status / 100 != 2 && a.status / 100 != 3)
        return fail_status(hub, name, file, &a, err);
    const char *etag = *a.linked_etag ? a.linked_etag : a.etag;
    if (!etag_is_sound(etag))
        return hs_fail(err, HS_IO, "%s does not say what %s is (no ETag): is it a HuggingFace hub?",
                       hub->endpoint, file);
    const size_t n_host = strlen(hub->endpoint);
    ret_file->elsewhere =
        *a.location && (strncmp(a.location, hub->endpoint, n_host) != 0 || a.location[n_host] != '/');
    if (*a.location)
        snprintf(ret_file->url, sizeof ret_file->url, "%s", a.location);
    snprintf(ret_file->name, sizeof ret_file->name, "%s", file);
    snprintf(ret_file->etag, sizeof ret_file->etag, "%s", etag);
    ret_file->n_bytes = *a.linked_etag && a.linked_bytes ? a.linked_bytes : a.n_bytes;
    return HS_OK;
}

/* Returns true if a retry can help: the connection broke, or the server was busy. */
static bool is_passing(CURLcode code, long status)
{
    return (code && code != CURLE_WRITE_ERROR && code != CURLE_OUT_OF_MEMORY &&
            code != CURLE_ABORTED_BY_CALLBACK) ||
           status / 100 == 5 || status == 429;
}

/* Empties the file, so that the next try begins anew: what came before the surplus is not to be trusted. */
static hs_status fail_too_long(const hs__hub_file *file, int out, uint64_t *n_bytes, hs_error *err)
{
    if (lseek(out, 0, SEEK_SET) < 0 || ftruncate(out, 0))
        return hs_fail(err, HS_IO, "cannot empty the download of %s: %s", file->name, hs__errno_text(errno));
    *n_bytes = 0;
    return hs_fail(err, HS_IO,
                   "the server of %s sends more than the %llu bytes that the hub announced: try again",
                   file->name, (unsigned long long)file->n_bytes);
}

hs_status hs__hub_fetch(hs__hub *hub, const hs__hub_file *file, int out, uint64_t *n_bytes,
                        hs__hub_progress *progress, void *context, hs_error *err)
{
    uint64_t received = 0, reached = *n_bytes;
    for (int tries = 1; *n_bytes < file->n_bytes || (file->n_bytes == 0 && tries == 1); tries++) {
        answer a = {.out = out,
                    .written = n_bytes,
                    .received = &received,
                    .n_expected = file->n_bytes,
                    .progress = progress,
                    .context = context};
        const CURLcode code = exchange(hub, file->url, !file->elsewhere, false, &a);
        if (stopped(hub))
            return fail_stopped(err);
        if (a.write_error)
            return hs_fail(err, hs__errno_status(a.write_error),
                           "cannot write %s: %s; the same command goes on from there", file->name,
                           hs__errno_text(a.write_error));
        if (a.too_long)
            return fail_too_long(file, out, n_bytes, err);
        if (!code && a.status / 100 == 2 && *n_bytes >= file->n_bytes)
            break;
        /* A try counts if it brought nothing new, or less than a transfer may have that is too slow. */
        tries = *n_bytes > reached + SLOW_SECONDS * SLOW_BYTES_PER_S ? 1 : tries;
        reached = *n_bytes > reached ? *n_bytes : reached;
        if (tries < TRIES && (is_passing(code, a.status) || (!code && a.status / 100 == 2)))
            continue;
        if (code && code != CURLE_WRITE_ERROR)
            return fail_transport(hub, code, err);
        return hs_fail(err, HS_IO, "the server of %s answered %ld; the same command goes on from there",
                       file->name, a.status);
    }
    return HS_OK;
}
