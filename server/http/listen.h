/* listen.h - the socket that takes connections. */
#pragma once

#include "model/base/status.h"

#include <stdbool.h>
#include <sys/types.h>

typedef struct hs_listener {
    int fd; /* non-blocking */
    char url[128];
    bool is_local;    /* no other machine can reach it */
    const char *path; /* of a socket file, which only this user may open; borrowed. NULL: it is a port */
    dev_t device;     /* of the socket file, with its inode: another file may take the path */
    ino_t inode;
} hs_listener;

/* Listens on "127.0.0.1:8080", "[::1]:0", "localhost:8080", ":8080" (all addresses) or "unix:PATH", which
 * must stay valid. A socket file that an earlier server has left behind is replaced. Fails with HS_INVALID
 * and HS_IO. The caller ends *ret_listener. */
HS_MUST_USE hs_status hs__listen(const char *where, hs_listener *ret_listener, hs_error *err);

/* Closes the socket, and deletes its file unless another one has taken its place. */
void hs__listen_end(const hs_listener *listener);
