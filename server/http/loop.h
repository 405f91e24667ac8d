/* loop.h - the event loop's part in libmicrohttpd, which runs once in each turn as long as there is work. */
#pragma once

#include "server/http/service.h"

/* Call start after server->daemon was started, and stop before it is stopped. */
void hs__loop_start(hs_server *server);

void hs__loop_stop(hs_server *server);

/* Schedules a run of libmicrohttpd, and one more than it asks for. For callbacks of libuv and of
 * libmicrohttpd. After accept failed for lack of descriptors, version 0.9.75 listens again only in the first
 * run after a connection ended. */
void hs__loop_turn_again(hs_server *server);

/* Schedules a run of libmicrohttpd in the next turn. */
void hs__loop_wake(hs_server *server);
