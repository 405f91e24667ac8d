/* answer_models.h - the models that are served, as JSON. */
#pragma once

#include "api/formats/buffer.h"
#include "api/internal.h"

void hs__models_write(hs__buffer *buffer, hs_api *api);
