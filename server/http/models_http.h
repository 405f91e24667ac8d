/* models_http.h - the functions of the routes that change the served models. All run on the loop and answer
 * the exchange. */
#pragma once

#include "server/http/exchange.h"

/* POST /models and DELETE /models/{id}. */
void hs__models_answer_fetch(hs_exchange *exchange);
void hs__models_answer_remove(hs_exchange *exchange);

/* GET /pull and /pull/events, POST /pull/cancel: the download that runs, or ran last. */
void hs__models_answer_pull(hs_exchange *exchange);
void hs__models_answer_events(hs_exchange *exchange);
void hs__models_answer_cancel(hs_exchange *exchange);
