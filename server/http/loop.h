/* loop.h - runs libmicrohttpd on the libuv loop.
 *
 * libmicrohttpd needs to run when its epoll descriptor is readable, and after a change from outside (a
 * resumed connection, a closed socket). Both only schedule a run; an idle handle runs it once in each turn of
 * the loop. So timers, signals and finished work get their turn under any load. Loop thread only. */
#pragma once

#include "server/http/service.h"

/* Call start after server->daemon was started, and stop before it is stopped. */
void hs__loop_start(hs_server *server);
void hs__loop_stop(hs_server *server);

/* Schedules a run of libmicrohttpd in the next turn. For callbacks of libuv and of libmicrohttpd. */
void hs__loop_wake(hs_server *server);

/* Schedules one more run than libmicrohttpd asks for; for its callbacks. After accept failed for lack of
 * descriptors, version 0.9.75 listens again only in the first run after a connection ended. */
void hs__loop_turn_again(hs_server *server);
