/* fuzz_index.c - model.safetensors.index.json is refused, or names files of its own folder only, each once,
 * and the shard of every tensor is among them. */
#include "model/files/shards.h"
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bool is_listed(const char *name, const char *const *names, size_t n_names)
{
    for (size_t i = 0; i < n_names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *index = NULL;
    const char **names = NULL;
    size_t n_names = 0;
    hs_error err = {0};
    hs_status st = hs__index_parse(&(hs_bytes){data, size}, &index, &names, &n_names, &err);
    require(st == err.status);
    if (st) {
        require(err.text[0] != '\0' && !index && !names);
        return 0;
    }
    require(n_names >= 1 && n_names <= HS__SHARDS_MAX);
    for (size_t i = 0; i < n_names; i++) {
        require(names[i][0] != '.' && !strchr(names[i], '/'));
        require(i == 0 || strcmp(names[i - 1], names[i]) < 0);
    }
    const char *tensor;
    json_t *value;
    json_object_foreach(json_object_get(index, "weight_map"), tensor, value)
    {
        require(is_listed(json_string_value(value), names, n_names));
    }
    free(names);
    json_decref(index);
    return 0;
}
