/* hub_pull.c - decides which files of a repository are fetched, and stores them in the cache's layout. */
#include "server/hub/hub_pull.h"

#include "model/base/bytes.h"
#include "model/model.h"
#include "server/base/atomic_files.h"
#include "server/base/system_errors.h"
#include "server/hub/hub_transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WEIGHTS       "model.safetensors"
#define WEIGHTS_INDEX "model.safetensors.index.json"
#define MODULES       "modules.json"
#define PROMPTS       "config_sentence_transformers.json"

typedef struct pull {
    hs__hub *hub;
    hs_hub_name name;
    char commit[HS__HUB_COMMIT_MAX];
    json_t *list;    /* what the hub said of the revision */
    char folder[72]; /* of the model's files, with a slash, as "0_Transformer/"; or empty */
    const hs__pull_watch *watch;
    const hs__hub_file *file; /* the file under way */
} pull;

/* ---- folders ---- */

static hs_status fail_path(const char *what, const char *path, hs_error *err)
{
    return hs_fail(err, hs__errno_status(errno), "cannot %s %s: %s", what, path, hs__errno_text(errno));
}

static void progress_tell(void *context, uint64_t n_bytes, uint64_t n_received)
{
    const pull *p = context;
    const hs__pull_watch *watch = p->watch;
    if (watch->progress)
        watch->progress(watch->data, p->file->name, n_bytes, p->file->n_bytes, n_received);
}

/* Waits for another process's download of the file. */
static hs_status lock_wait(pull *p, int fd, hs_error *err)
{
    const struct timespec pause = {.tv_nsec = 200 * 1000000};
    if (!flock(fd, LOCK_EX | LOCK_NB))
        return HS_OK;
    if (p->watch->waiting)
        p->watch->waiting(p->watch->data, p->file->name);
    while (flock(fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return fail_path("lock", p->file->name, err);
        progress_tell(p, 0, 0);
        if (p->watch->stop && p->watch->stop(p->watch->data))
            return hs_fail(err, HS_CANCELLED, "the download was cancelled");
        nanosleep(&pause, NULL);
    }
    return HS_OK;
}

/* Takes the lock that huggingface_hub takes too. It is held until the descriptor is closed. */
static hs_status lock_take(pull *p, int *ret_fd, hs_error *err)
{
    char path[PATH_MAX];
    hs_status st = hs_hub_cache_lock_path(&p->name, p->file->etag, path, err);
    if (!st)
        st = hs__folder_make_above(path, err);
    if (st)
        return st;
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail_path("open", path, err);
    st = lock_wait(p, fd, err);
    if (st)
        close(fd);
    else
        *ret_fd = fd;
    return st;
}

static hs_status space_check(const char *path, uint64_t n_bytes, const char *file, hs_error *err)
{
    const uint64_t left = hs__disk_free(path);
    return left >= n_bytes ? HS_OK
                           : hs_fail(err, HS_IO, "%s needs %.1f MB, and the disk of %s has %.1f MB left",
                                     file, (double)n_bytes / 1e6, path, (double)left / 1e6);
}

/* ---- one file ---- */

/* From where an earlier download ended. */
static hs_status bytes_fetch(pull *p, int out, const char *path, hs_error *err)
{
    uint64_t n_bytes = (uint64_t)lseek(out, 0, SEEK_END);
    if (n_bytes > p->file->n_bytes) {
        if (ftruncate(out, 0) || lseek(out, 0, SEEK_SET))
            return fail_path("empty", path, err);
        n_bytes = 0;
    }
    return hs__hub_fetch(p->hub, p->file, out, &n_bytes, progress_tell, p, err);
}

static hs_status blob_fill(pull *p, const char *incomplete, const char *blob, hs_error *err)
{
    const int out = open(incomplete, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (out < 0)
        return fail_path("write", incomplete, err);
    hs_error wrong = {0};
    hs_status st = bytes_fetch(p, out, incomplete, err);
    if (!st && hs_hub_blob_check(out, (size_t)p->file->n_bytes, p->file->etag, &wrong)) {
        unlink(incomplete);
        st = hs_fail(err, HS_IO, "%s was damaged on its way (%s) and is thrown away: try again",
                     p->file->name, wrong.text);
    }
    if (!st && fsync(out))
        st = fail_path("write", incomplete, err);
    close(out);
    if (!st && !hs__file_publish(incomplete, blob))
        st = fail_path("rename", incomplete, err);
    return st;
}

/* The blob of p->file is there afterwards. */
static hs_status blob_get(pull *p, hs_error *err)
{
    char blob[PATH_MAX], incomplete[PATH_MAX];
    char partial[HS__HUB_ETAG_MAX + 16];
    struct stat info;
    int lock = -1;
    snprintf(partial, sizeof partial, "%.*s.incomplete", HS__HUB_ETAG_MAX, p->file->etag);
    hs_status st = hs_hub_cache_path(&p->name, "blobs", p->file->etag, NULL, blob, err);
    if (!st)
        st = hs_hub_cache_path(&p->name, "blobs", partial, NULL, incomplete, err);
    if (!st)
        st = hs__folder_make_above(blob, err);
    if (st)
        return st;
    if (stat(blob, &info) == 0 && (uint64_t)info.st_size == p->file->n_bytes)
        return HS_OK;
    st = lock_take(p, &lock, err);
    if (st)
        return st;
    if (stat(blob, &info) ||
        (uint64_t)info.st_size != p->file->n_bytes) { /* else another process was faster */
        char *slash = strrchr(blob, '/');
        *slash = '\0';
        const uint64_t had = stat(incomplete, &info) == 0 ? (uint64_t)info.st_size : 0;
        st = space_check(blob, p->file->n_bytes - (had < p->file->n_bytes ? had : 0), p->file->name, err);
        *slash = '/';
        if (!st)
            st = blob_fill(p, incomplete, blob, err);
    }
    close(lock);
    return st;
}

/* snapshots/<commit>/<name> -> ../../blobs/<etag>, replaced whole. A file in a folder has one more "../". */
static hs_status snapshot_link(const pull *p, hs_error *err)
{
    char path[PATH_MAX], temporary[PATH_MAX], target[HS__HUB_ETAG_MAX + 16];
    snprintf(target, sizeof target, "%s../../blobs/%s", strchr(p->file->name, '/') ? "../" : "",
             p->file->etag);
    hs_status st = hs_hub_cache_path(&p->name, "snapshots", p->commit, p->file->name, path, err);
    if (!st && snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid()) >= PATH_MAX)
        st = hs_fail(err, HS_INVALID, "the path of the HuggingFace cache is too long");
    if (!st)
        st = hs__folder_make_above(path, err);
    if (st)
        return st;
    unlink(temporary);
    if (symlink(target, temporary) || !hs__file_publish(temporary, path)) {
        st = fail_path("link", path, err);
        unlink(temporary);
    }
    return st;
}

static hs_status file_pull(pull *p, const char *name, hs_error *err)
{
    hs__hub_file file = {0};
    hs_status st = hs__hub_file_find(p->hub, &p->name, p->commit, name, &file, err);
    p->file = &file;
    if (!st)
        st = blob_get(p, err);
    if (!st)
        st = snapshot_link(p, err);
    if (!st && p->watch->file_done)
        p->watch->file_done(p->watch->data, name, file.n_bytes);
    p->file = NULL;
    return st;
}

/* ---- which files ---- */

/* Returns the name of a file of the list; NULL if the entry has none. */
static const char *name_at(const pull *p, size_t i)
{
    const json_t *siblings = json_object_get(p->list, "siblings");
    return json_string_value(json_object_get(json_array_get(siblings, i), "rfilename"));
}

static size_t n_names(const pull *p)
{
    return json_array_size(json_object_get(p->list, "siblings"));
}

static bool is_listed(const pull *p, const char *name)
{
    for (size_t i = 0; i < n_names(p); i++)
        if (name_at(p, i) && strcmp(name_at(p, i), name) == 0)
            return true;
    return false;
}

/* Joins the folder of the model's files and the name of one. Returns ret. */
static const char *path_in_folder(const pull *p, const char *name, char ret[256])
{
    snprintf(ret, 256, "%s%s", p->folder, name);
    return ret;
}

/* Returns true if the list has a file of the model. */
static bool is_listed_of_model(const pull *p, const char *name)
{
    char path[256];
    return is_listed(p, path_in_folder(p, name, path));
}

static hs_status model_file_pull(pull *p, const char *name, hs_error *err)
{
    char path[256];
    return file_pull(p, path_in_folder(p, name, path), err);
}

/* Returns true if a file of the list is in the folder of the model's files, or below it. */
static bool is_in_folder(const pull *p, const char *path)
{
    return strncmp(path, p->folder, strlen(p->folder)) == 0;
}

/* "model-00001-of-00003.safetensors": what an index may name. */
static bool is_shard(const char *name)
{
    const size_t n = strlen(name);
    return strncmp(name, "model-", 6) == 0 && hs_ends_with(name, ".safetensors") &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == n && n < 128;
}

static hs_status weights_check(const pull *p, hs_error *err)
{
    if (is_listed_of_model(p, WEIGHTS) || is_listed_of_model(p, WEIGHTS_INDEX))
        return HS_OK;
    const bool has_pickle = is_listed_of_model(p, "pytorch_model.bin"), is_inside = has_pickle && *p->folder;
    return hs_fail(err, HS_BAD_MODEL, "%s has no %s" WEIGHTS "%s%s%s", p->name.repository, p->folder,
                   has_pickle ? ", only pytorch_model.bin. Download it with huggingface_hub and convert it: "
                                "python3 -m headscope.convert DIR"
                              : "",
                   is_inside ? "/" : "", is_inside ? p->folder : "");
}

static hs_status weights_pull(pull *p, hs_error *err)
{
    hs_status st = HS_OK;
    if (is_listed_of_model(p, WEIGHTS))
        return model_file_pull(p, WEIGHTS, err);
    for (size_t i = 0; !st && i < n_names(p); i++) {
        const char *path = name_at(p, i);
        if (path && is_in_folder(p, path) && is_shard(path + strlen(p->folder)))
            st = file_pull(p, path, err);
    }
    return st ? st : model_file_pull(p, WEIGHTS_INDEX, err);
}

/* "1_Pooling/config.json", "2_Dense/model.safetensors": the files of a sentence encoder's modules. */
static bool is_module_file(const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const size_t n_number = strspn(name, "0123456789");
    const char *word = name + n_number + 1, *slash = strchr(name, '/');
    return n_number > 0 && word[-1] == '_' && slash > word && slash - name < 64 &&
           word + strspn(word, letters) == slash &&
           (strcmp(slash + 1, "config.json") == 0 || strcmp(slash + 1, WEIGHTS) == 0);
}

static hs_status modules_pull(pull *p, hs_error *err)
{
    hs_status st = HS_OK;
    if (!is_listed(p, MODULES))
        return HS_OK;
    for (size_t i = 0; !st && i < n_names(p); i++)
        if (name_at(p, i) && is_module_file(name_at(p, i)) && !(*p->folder && is_in_folder(p, name_at(p, i))))
            st = file_pull(p, name_at(p, i), err);
    return st;
}

/* Finds the folder of the model's files, and pulls the files that say so: a sentence encoder of older
 * versions of sentence-transformers has its Transformer in 0_Transformer. */
static hs_status folder_find(pull *p, hs_error *err)
{
    char dir[PATH_MAX], found[PATH_MAX];
    hs_error why = {0};
    hs_status st = is_listed(p, "config.json") ? file_pull(p, "config.json", err) : HS_OK;
    if (st || !is_listed(p, MODULES))
        return st;
    st = file_pull(p, MODULES, err);
    if (!st)
        st = hs_hub_cache_path(&p->name, "snapshots", p->commit, NULL, dir, err);
    if (st)
        return st;
    st = hs_model_folder(dir, found, &why);
    if (st)
        return hs_fail(err, st, "%s: %s", p->name.repository, why.text);
    if (strlen(found) > strlen(dir))
        snprintf(p->folder, sizeof p->folder, "%s/", found + strlen(dir) + 1);
    return HS_OK;
}

/* Refuses a repository without config.json, and says what it is. */
static hs_status config_missing(const pull *p, hs_error *err)
{
    if (*p->folder)
        return hs_fail(err, HS_BAD_MODEL, "%s has no %sconfig.json, though its " MODULES " names that folder",
                       p->name.repository, p->folder);
    return hs_fail(err, HS_BAD_MODEL, "%s has no config.json: it is %s", p->name.repository,
                   is_listed(p, "adapter_config.json") ? "an adapter (PEFT), which pull does not fetch. "
                                                         "Download it with huggingface_hub, and name its "
                                                         "folder with --model"
                                                       : "no checkpoint in HuggingFace's layout");
}

/* Downloads config.json, and refuses a model that could not be opened. */
static hs_status config_pull(pull *p, hs_error *err)
{
    char dir[PATH_MAX];
    hs_error why = {0};
    hs_status st = folder_find(p, err);
    if (!st && !is_listed_of_model(p, "config.json"))
        return config_missing(p, err);
    if (!st && *p->folder)
        st = model_file_pull(p, "config.json", err);
    if (!st)
        st = hs_hub_cache_path(&p->name, "snapshots", p->commit, *p->folder ? p->folder : NULL, dir, err);
    if (st)
        return st;
    st = hs_model_config_check(dir, &why);
    return st ? hs_fail(err, st, "%s: %s", p->name.repository, why.text) : HS_OK;
}

/* Downloads those files of a list that the model has. NULL ends the list. */
static hs_status files_pull(pull *p, const char *const *names, hs_error *err)
{
    hs_status st = HS_OK;
    for (; !st && *names; names++)
        if (is_listed_of_model(p, *names))
            st = model_file_pull(p, *names, err);
    return st;
}

/* Downloads the other configs, and all files that a tokenizer of any family may have. */
static hs_status small_files_pull(pull *p, hs_error *err)
{
    static const char *const names[] = {
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.txt",
        "vocab.json",
        "merges.txt",
        "spm.model",
        "source.spm",
        "target.spm",
        "spiece.model",
        "sentencepiece.bpe.model",
        "tokenizer.model",
        NULL,
    };
    hs_status st = is_listed(p, PROMPTS) ? file_pull(p, PROMPTS, err) : HS_OK;
    if (!st)
        st = files_pull(p, hs_model_length_files(), err);
    return st ? st : files_pull(p, names, err);
}

/* ---- the whole ---- */

static hs_status revision_read(pull *p, hs_error *err)
{
    const hs_status st = hs__hub_list(p->hub, &p->name, &p->list, err);
    if (st)
        return st;
    snprintf(p->commit, sizeof p->commit, "%s", json_string_value(json_object_get(p->list, "sha")));
    return HS_OK;
}

static hs_status ref_fill(FILE *file, void *data, hs_error *err)
{
    const pull *p = data;
    return fputs(p->commit, file) >= 0 ? HS_OK : hs_fail(err, HS_IO, "cannot write the ref");
}

/* A commit requested by its hash has no ref. */
static hs_status ref_write(pull *p, hs_error *err)
{
    char path[PATH_MAX];
    if (strcmp(p->commit, p->name.revision) == 0)
        return HS_OK;
    hs_status st = hs_hub_cache_path(&p->name, "refs", p->name.revision, NULL, path, err);
    if (!st)
        st = hs__folder_make_above(path, err);
    return st ? st : hs__path_write(path, ref_fill, p, err);
}

static hs_status pull_run(pull *p, char ret_dir[PATH_MAX], hs_error *err)
{
    hs_status st = hs__hub_open(p->watch->stop, p->watch->data, &p->hub, err);
    if (!st)
        st = revision_read(p, err);
    if (!st)
        st = config_pull(p, err);
    if (!st)
        st = weights_check(p, err);
    if (!st)
        st = small_files_pull(p, err);
    if (!st)
        st = modules_pull(p, err);
    if (!st)
        st = weights_pull(p, err);
    if (!st)
        st = ref_write(p, err);
    if (!st)
        st = hs_hub_cache_find(&p->name, ret_dir, err);
    json_decref(p->list);
    hs__hub_close(p->hub);
    return st;
}

static bool is_offline(void)
{
    const char *value = getenv("HF_HUB_OFFLINE");
    return value && *value && strcmp(value, "0") != 0 && strcasecmp(value, "false") != 0 &&
           strcasecmp(value, "no") != 0 && strcasecmp(value, "off") != 0;
}

hs_status hs__hub_pull(const hs_hub_name *name, const hs__pull_watch *watch, char ret_dir[PATH_MAX],
                       hs_error *err)
{
    pull p = {.name = *name, .watch = watch};
    if (is_offline())
        return hs_fail(err, HS_IO, "HF_HUB_OFFLINE is set, so nothing is downloaded: unset it");
    return pull_run(&p, ret_dir, err);
}
