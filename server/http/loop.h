/* loop.h - libmicrohttpd on the libuv loop.
 *
 * libmicrohttpd works only when told to: when its epoll descriptor is readable, and when it was given
 * something to do from outside (a resumed connection, a closed socket). Both only mark the turn; it runs once
 * a turn of the loop, from an idle handle, so that timers, signals and finished work always get theirs,
 * however much comes in. Loop thread only. */
#pragma once

#include "server/http/service.h"

/* After server->daemon was started, and before it is stopped. */
void hs__loop_start(hs_server *server);
void hs__loop_stop(hs_server *server);

/* Lets libmicrohttpd work in the next turn; from any of libuv's callbacks and of its own. */
void hs__loop_wake(hs_server *server);

/* Lets it work once more than it asks for, from its callbacks: after accept failed for want of descriptors it
 * listens again (0.9.75) only in the first turn after a connection ended. */
void hs__loop_turn_again(hs_server *server);

/* libmicrohttpd called back: what it does leads somewhere. */
void hs__loop_progress(hs_server *server);
