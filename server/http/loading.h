/* loading.h - opens the models on a thread while the loop answers probes. */
#pragma once

#include "server/http/service.h"

/* Opens server->api and server->tasks, or sets server->loading.error, and then calls `loaded` on the
 * loop. After success the same thread computes the checksums of the models' files. */
void hs__loading_start(hs_server *server, void (*loaded)(hs_server *server));
