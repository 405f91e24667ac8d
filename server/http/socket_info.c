/* socket_info.c - separate, because linux/tcp.h (with tcpi_bytes_acked) conflicts with netinet/tcp.h, which
 * libmicrohttpd's header includes. */
#include "server/http/socket_info.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

hs_socket_bytes hs__socket_bytes(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size);
    return (hs_socket_bytes){.sent = info.tcpi_bytes_sent, .taken = info.tcpi_bytes_acked};
}
