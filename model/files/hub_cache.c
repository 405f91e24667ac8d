/* hub_cache.c - builds paths in the HuggingFace cache as huggingface_hub does, and looks up a snapshot
 * there. */
#include "model/files/hub_cache.h"

#include <errno.h>
#include <nettle/base16.h>
#include <nettle/sha1.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_word_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

/* Returns true for a valid part of a repository's name. The hub allows neither "--" nor "..", which could
 * leave the folder. */
static bool part_is_sound(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!is_word_character(text[i]) ||
            (i && text[i] == text[i - 1] && (text[i] == '.' || text[i] == '-')))
            return false;
    return n > 0 && text[0] != '.' && text[0] != '-' && n <= 96;
}

/* Returns true for a valid revision. Slashes are allowed (refs/pr/1); each part between them must be
 * valid. */
static bool revision_is_sound(const char *text, size_t n)
{
    for (size_t start = 0; start <= n;) {
        size_t end = start;
        while (end < n && text[end] != '/')
            end++;
        if (!part_is_sound(text + start, end - start))
            return false;
        start = end + 1;
    }
    return true;
}

bool hs_hub_name_parse(const char *text, size_t n_bytes, hs_hub_name *ret_name)
{
    static const char scheme[] = "hf://";
    const bool explicit = n_bytes > strlen(scheme) && memcmp(text, scheme, strlen(scheme)) == 0;
    if (explicit) {
        text += strlen(scheme);
        n_bytes -= strlen(scheme);
    }
    const char *at = memchr(text, '@', n_bytes);
    const size_t n = at ? (size_t)(at - text) : n_bytes, n_revision = at ? n_bytes - n - 1 : 0;
    const char *slash = memchr(text, '/', n);
    const size_t n_first = slash ? (size_t)(slash - text) : n;
    if ((!slash && !explicit) || !part_is_sound(text, n_first) ||
        (slash && !part_is_sound(slash + 1, n - n_first - 1)) ||
        (at && (n_revision >= sizeof ret_name->revision || !revision_is_sound(at + 1, n_revision))))
        return false;
    snprintf(ret_name->repository, sizeof ret_name->repository, "%.*s", (int)n, text);
    snprintf(ret_name->revision, sizeof ret_name->revision, "%.*s",
             at ? (int)n_revision : (int)strlen(HS_HUB_REVISION), at ? at + 1 : HS_HUB_REVISION);
    return true;
}

static hs_status fits(int n, hs_error *err)
{
    return n > 0 && n < PATH_MAX ? HS_OK
                                 : hs_fail(err, HS_INVALID, "the path of the HuggingFace cache is too long");
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

hs_status hs_hub_home_path(const char *file, char ret_path[PATH_MAX], hs_error *err)
{
    const char *hub = variable("HF_HOME"), *xdg = variable("XDG_CACHE_HOME"), *home = variable("HOME");
    if (hub)
        return fits(snprintf(ret_path, PATH_MAX, "%s/%s", hub, file), err);
    if (xdg)
        return fits(snprintf(ret_path, PATH_MAX, "%s/huggingface/%s", xdg, file), err);
    if (!home)
        return hs_fail(err, HS_INVALID, "no HuggingFace cache: set HF_HOME, or HOME, to a folder");
    return fits(snprintf(ret_path, PATH_MAX, "%s/.cache/huggingface/%s", home, file), err);
}

static hs_status cache_root(char ret_path[PATH_MAX], hs_error *err)
{
    const char *cache =
        variable("HF_HUB_CACHE") ? variable("HF_HUB_CACHE") : variable("HUGGINGFACE_HUB_CACHE");
    return cache ? fits(snprintf(ret_path, PATH_MAX, "%s", cache), err)
                 : hs_hub_home_path("hub", ret_path, err);
}

/* "models--org--name" */
static void repository_folder(const hs_hub_name *name, char ret_folder[256])
{
    const char *slash = strchr(name->repository, '/');
    if (slash)
        snprintf(ret_folder, 256, "models--%.*s--%s", (int)(slash - name->repository), name->repository,
                 slash + 1);
    else
        snprintf(ret_folder, 256, "models--%s", name->repository);
}

hs_status hs_hub_cache_path(const hs_hub_name *name, const char *first, const char *middle, const char *last,
                            char ret_path[PATH_MAX], hs_error *err)
{
    char root[PATH_MAX], folder[256];
    hs_status st = cache_root(root, err);
    if (st)
        return st;
    repository_folder(name, folder);
    return fits(snprintf(ret_path, PATH_MAX, "%s/%s/%s%s%s%s%s", root, folder, first, middle ? "/" : "",
                         middle ? middle : "", last ? "/" : "", last ? last : ""),
                err);
}

hs_status hs_hub_cache_lock_path(const hs_hub_name *name, const char *file, char ret_path[PATH_MAX],
                                 hs_error *err)
{
    char root[PATH_MAX], folder[256];
    hs_status st = cache_root(root, err);
    if (st)
        return st;
    repository_folder(name, folder);
    return fits(snprintf(ret_path, PATH_MAX, "%s/.locks/%s/%s.lock", root, folder, file), err);
}

/* Reads the commit of a revision from its ref. Without a ref the revision itself is the commit. */
static hs_status commit_read(const hs_hub_name *name, char ret_commit[sizeof name->revision], hs_error *err)
{
    char path[PATH_MAX];
    hs_status st = hs_hub_cache_path(name, "refs", name->revision, NULL, path, err);
    if (st)
        return st;
    snprintf(ret_commit, sizeof name->revision, "%s", name->revision);
    FILE *file = fopen(path, "re");
    if (!file)
        return HS_OK;
    char line[sizeof name->revision];
    if (fgets(line, sizeof line, file)) {
        line[strcspn(line, " \r\n")] = '\0';
        if (part_is_sound(line, strlen(line)))
            snprintf(ret_commit, sizeof name->revision, "%s", line);
    }
    fclose(file);
    return HS_OK;
}

hs_status hs_hub_cache_find(const hs_hub_name *name, char ret_dir[PATH_MAX], hs_error *err)
{
    static const char *const configs[] = {"config.json", "adapter_config.json", "modules.json"};
    char commit[sizeof name->revision], config[PATH_MAX];
    hs_status st = commit_read(name, commit, err);
    if (!st)
        st = hs_hub_cache_path(name, "snapshots", commit, NULL, ret_dir, err);
    for (size_t i = 0; !st && i < sizeof configs / sizeof *configs; i++) {
        st = hs_hub_cache_path(name, "snapshots", commit, configs[i], config, err);
        if (!st && access(config, R_OK) == 0)
            return HS_OK;
    }
    if (st)
        return st;
    const bool is_default = strcmp(name->revision, HS_HUB_REVISION) == 0;
    return hs_fail(
        err, HS_NOT_FOUND,
        "%s%s%s is neither a folder here nor in the HuggingFace cache; to download it: headscope pull %s%s%s",
        name->repository, is_default ? "" : "@", is_default ? "" : name->revision, name->repository,
        is_default ? "" : "@", is_default ? "" : name->revision);
}

/* Computes SHA-256 and git's SHA-1 in one pass, because reading takes longer than either. Git hashes "blob
 * <size>" and a NUL before the bytes. */
static hs_status blob_sums(int fd, size_t n_bytes, struct sha256_ctx *sha256, struct sha1_ctx *sha1,
                           hs_error *err)
{
    char header[32];
    unsigned char buffer[1 << 16];
    const int n_header = snprintf(header, sizeof header, "blob %zu", n_bytes) + 1;
    sha256_init(sha256);
    sha1_init(sha1);
    sha1_update(sha1, (size_t)n_header, (const unsigned char *)header);
    for (size_t done = 0;;) {
        const ssize_t n = pread(fd, buffer, sizeof buffer, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hs_fail(err, HS_IO, "cannot read the downloaded file: %s", strerror(errno));
        if (n == 0)
            return HS_OK;
        sha256_update(sha256, (size_t)n, buffer);
        sha1_update(sha1, (size_t)n, buffer);
        done += (size_t)n;
    }
}

hs_status hs_hub_blob_check(int fd, size_t n_bytes, const char *etag, hs_error *err)
{
    struct sha256_ctx sha256;
    struct sha1_ctx sha1;
    unsigned char sum[SHA256_DIGEST_SIZE];
    char hex[2 * SHA256_DIGEST_SIZE + 1] = "";
    const size_t n = strlen(etag);
    if ((n != 40 && n != 64) || strspn(etag, "0123456789abcdefABCDEF") != n)
        return HS_OK;
    hs_status st = blob_sums(fd, n_bytes, &sha256, &sha1, err);
    if (st)
        return st;
    if (n == 64)
        sha256_digest(&sha256, SHA256_DIGEST_SIZE, sum);
    else
        sha1_digest(&sha1, SHA1_DIGEST_SIZE, sum);
    base16_encode_update(hex, n / 2, sum);
    return strcasecmp(hex, etag) == 0
               ? HS_OK
               : hs_fail(err, HS_IO, "the checksum is %s, but the hub lists %s; download the file again", hex,
                         etag);
}
