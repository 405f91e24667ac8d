/* socket_info.c - separate, because linux/tcp.h (with tcpi_bytes_acked) conflicts with netinet/tcp.h, which
 * libmicrohttpd's header includes. */
#include "server/http/socket_info.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { UNSENT_BYTES = 128 << 10 };

static struct tcp_info info_of(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size);
    return info;
}

uint64_t hs__socket_taken(int fd)
{
    return info_of(fd).tcpi_bytes_acked;
}

bool hs__socket_sent(int fd)
{
    return info_of(fd).tcpi_bytes_sent > 0;
}

size_t hs__socket_queued(int fd)
{
    int n = 0;
    return ioctl(fd, SIOCOUTQ, &n) == 0 && n > 0 ? (size_t)n : 0;
}

void hs__socket_limit_unsent(int fd)
{
    const int n = UNSENT_BYTES;
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &n,
               sizeof n); /* without this option the system queues more */
}

void hs__socket_drop_unsent(int fd)
{
    const struct linger drop = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &drop, sizeof drop);
}

int hs__socket_unread(int fd)
{
    int n = 0;
    return ioctl(fd, FIONREAD, &n) == 0 ? n : 0;
}
