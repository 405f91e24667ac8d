/* replay.c - runs a fuzz target over every file of a folder, under any compiler, as an ordinary test.
 *     fuzz_config tests/fuzz/corpus/config */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* Each input gets a heap block of its exact size, so that the sanitizers see what reads past it. */
static int replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = NULL;
    long size = -1;
    if (file && !fseek(file, 0, SEEK_END))
        size = ftell(file);
    if (size >= 0 && !fseek(file, 0, SEEK_SET))
        data = malloc(size ? (size_t)size : 1);
    int failed = !data || fread(data, 1, (size_t)size, file) != (size_t)size;
    if (failed)
        perror(path);
    else
        LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    if (file)
        fclose(file);
    return failed;
}

int main(int argc, char **argv)
{
    struct dirent **entries = NULL;
    int n_entries = argc == 2 ? scandir(argv[1], &entries, NULL, alphasort) : -1;
    if (n_entries < 0) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    int n_inputs = 0, n_failures = 0;
    for (int i = 0; i < n_entries; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') {
            n_inputs++;
            n_failures += replay(path);
        }
        free(entries[i]);
    }
    free(entries);
    const char *slash = strrchr(argv[1], '/');
    printf("fuzz %s: %d inputs, %d failures\n", slash ? slash + 1 : argv[1], n_inputs, n_failures);
    return n_inputs == 0 || n_failures > 0; /* an input that crashes or breaks a promise never gets here */
}
