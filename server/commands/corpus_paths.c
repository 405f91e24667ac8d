/* corpus_paths.c - compares outputs with inputs by device and inode. */
#include "server/commands/corpus_paths.h"

#include "server/base/atomic_files.h"
#include "server/corpus/report/report.h"
#include "server/corpus/run/run_checkpoint.h"

#include <dirent.h>
#include <stdio.h>

static hs_status refuse(const char *output, const char *what, const char *other, hs_error *err)
{
    return hs_fail(err, HS_INVALID, "'%.150s' would replace %s '%.150s': choose another output", output, what,
                   other);
}

static hs_status inputs_check(const hs__corpus_job *job, const char *output, hs_error *err)
{
    for (size_t i = 0; i < job->n_inputs; i++)
        if (hs__path_replaces(output, job->inputs[i]))
            return refuse(output, "the input", job->inputs[i], err);
    return HS_OK;
}

static hs_status model_check(const hs_model_place *model, const char *output, hs_error *err)
{
    char dir[PATH_MAX], path[PATH_MAX + 256];
    hs_error why = {0};
    DIR *folder = model->n_dir && !hs__model_place_dir(model, dir, &why) ? opendir(dir) : NULL;
    hs_status st = HS_OK;
    if (!folder)
        return HS_OK; /* the model is linked in, or its opening fails with a better message */
    for (const struct dirent *entry; !st && (entry = readdir(folder));) {
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (hs__path_replaces(output, path))
            st = refuse(output, "the model's file", path, err);
    }
    closedir(folder);
    return st;
}

hs_status hs__corpus_paths_check(const hs__corpus_job *job, const hs_model_place *model,
                                 const char *interventions, hs_error *err)
{
    static const char *const names[] = {HS__RUN_CHECKPOINT_FILE, HS__REPORT_JSON, HS__REPORT_NPZ,
                                        HS__REPORT_HTML};
    char path[PATH_MAX];
    hs_status st = HS_OK;
    for (size_t i = 0; !st && i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", job->dir, names[i]);
        st = inputs_check(job, path, err);
        if (!st && job->pairs && hs__path_replaces(job->pairs, path))
            st = refuse(job->pairs, "the run's own file", path, err);
    }
    if (st || !job->pairs)
        return st;
    if (interventions && hs__path_replaces(job->pairs, interventions))
        return refuse(job->pairs, "the interventions", interventions, err);
    st = inputs_check(job, job->pairs, err);
    return st ? st : model_check(model, job->pairs, err);
}
