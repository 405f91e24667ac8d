/* place_name.h - the name of a model given by its folder alone. */
#pragma once

#include "api/api.h"

/* Writes the name of the folder at path[n]: its last component, cut to the size of ret_name. A folder called
 * model or checkpoint gets the name of its parent, and a snapshot in HuggingFace's cache that of its
 * repository. */
void hs__place_name(const char *path, size_t n, char ret_name[HS_MODEL_NAME_BYTES]);
