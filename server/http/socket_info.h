/* socket_info.h - how much a socket has sent. */
#pragma once

#include <stdint.h>

typedef struct hs_socket_bytes {
    uint64_t sent, taken; /* taken: the other side has acknowledged them */
} hs_socket_bytes;

hs_socket_bytes hs__socket_bytes(int fd);
