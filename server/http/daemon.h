/* daemon.h - starts libmicrohttpd. */
#pragma once

#include "server/http/service.h"

/* Starts libmicrohttpd on a listening socket for at most connections_max connections. Returns NULL, with
 * errno, if it fails. hs__loop_start runs it then. */
struct MHD_Daemon *hs__daemon_start(hs_server *server, int fd, size_t connections_max);
