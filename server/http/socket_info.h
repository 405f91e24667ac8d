/* socket_info.h - the state of a socket's send and receive queues. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t hs__socket_taken(int fd); /* bytes that the other side has acknowledged */
bool hs__socket_sent(int fd);      /* true if any byte was sent */
size_t hs__socket_queued(int fd);  /* bytes written but not acknowledged */
int hs__socket_unread(int fd);     /* bytes received but not read */

/* Bounds how many bytes the system accepts before it can send them. The rest stays in the server, where it is
 * counted and freed with the connection. Throughput is not affected. */
void hs__socket_limit_unsent(int fd);
/* Makes close() drop unacknowledged bytes. By default the system keeps them for minutes. */
void hs__socket_drop_unsent(int fd);
