/* socket_info.c - apart, for the system's own tcp_info (with tcpi_bytes_acked) cannot stand beside the C
 * library's, which libmicrohttpd's header brings. */
#include "server/http/socket_info.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

uint64_t hs__socket_taken(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size);
    return info.tcpi_bytes_acked;
}

bool hs__socket_waiting(int fd)
{
    int n = 0;
    return ioctl(fd, SIOCOUTQ, &n) == 0 && n > 0;
}

int hs__socket_unread(int fd)
{
    int n = 0;
    return ioctl(fd, FIONREAD, &n) == 0 ? n : 0;
}
