/* loading.h - the models open on a thread while the loop answers probes. */
#pragma once

#include "server/http/service.h"

/* Makes server->catalog and server->tasks, both the loop's alone from `loaded` on, or server->loading.error.
 * Then, where that went well, their files are hashed on the same thread. */
void hs__loading_start(hs_server *server, void (*loaded)(hs_server *server));
