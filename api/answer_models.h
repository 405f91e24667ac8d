/* answer_models.h - writes the answer of GET /models. */
#pragma once

#include "api/formats/json_text.h"
#include "api/internal.h"

void hs__models_write(hs_buffer *buffer, hs_api *api);
