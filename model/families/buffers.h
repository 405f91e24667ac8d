/* buffers.h - recognises buffers: tensors that follow from a model's config and that some library versions
 * saved. */
#pragma once

#include "model/architecture.h"
#include "model/files/safetensors.h"

/* Returns true if the last component of a tensor's name is that of a known buffer and the tensor is no larger
 * than such a buffer of this shape. A larger one could be a weight under a buffer's name. */
bool hs__is_buffer(const char *name, const hs__entry *entry, const hs_shape *shape);
