/* listen.c - splits "HOST:PORT" at its last colon and binds the first address that works. */
#include "server/http/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

static bool port_valid(const char *port)
{
    const size_t n = strspn(port, "0123456789");
    return n && n <= 5 && !port[n] && strtoul(port, NULL, 10) <= 65535;
}

static hs_status address_split(const char *where, char *ret_host, size_t host_size, const char **ret_port,
                               hs_error *err)
{
    const char *colon = strrchr(where, ':');
    size_t n_host = colon ? (size_t)(colon - where) : 0;
    const char *host = where;
    const bool bracketed = n_host >= 2 && *host == '[' && host[n_host - 1] == ']';
    if (bracketed) {
        host++;
        n_host -= 2;
    }
    if (!colon || !port_valid(colon + 1) || n_host >= host_size || (!bracketed && memchr(host, ':', n_host)))
        return hs_fail(err, HS_INVALID,
                       "--listen '%s': expected HOST:PORT, as in 127.0.0.1:8080 or [::1]:8080", where);
    memcpy(ret_host, host, n_host);
    ret_host[n_host] = '\0';
    *ret_port = colon + 1;
    return HS_OK;
}

/* Returns a listening socket for one address, or -1 with errno. */
static int socket_listen(const struct addrinfo *address)
{
    const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1, off = 0;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, address->ai_addr, address->ai_addrlen) || listen(fd, BACKLOG)) {
        const int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

static bool loopback(const struct sockaddr_storage *address)
{
    struct sockaddr_in v4 = {0};
    if (address->ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
    memcpy(&v4, address, sizeof v4);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
}

static void url_format(int fd, char *ret_url, size_t url_size, bool *ret_public)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    char host[64] = "?", port[16] = "?";
    getsockname(fd, (struct sockaddr *)&address, &size);
    getnameinfo((struct sockaddr *)&address, size, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(ret_url, url_size, strchr(host, ':') ? "http://[%s]:%s" : "http://%s:%s", host, port);
    *ret_public = !loopback(&address);
}

hs_status hs__listen(const char *where, int *ret_fd, char *ret_url, size_t url_size, bool *ret_public,
                     hs_error *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *addresses = NULL;
    const char *port = NULL;
    char host[256] = "";
    int fd = -1;
    hs_status st = address_split(where, host, sizeof host, &port, err);
    if (st)
        return st;
    const int why = getaddrinfo(*host ? host : NULL, port, &hints, &addresses);
    if (why)
        return hs_fail(err, HS_IO, "--listen '%s': %s", where, gai_strerror(why));
    for (const struct addrinfo *a = addresses; fd < 0 && a; a = a->ai_next)
        fd = socket_listen(a);
    freeaddrinfo(addresses);
    if (fd < 0)
        return hs_fail(err, HS_IO, "cannot listen on '%s': %s%s", where, strerror(errno),
                       errno == EADDRINUSE ? "; choose another port, or 0 for any free one" : "");
    url_format(fd, ret_url, url_size, ret_public);
    *ret_fd = fd;
    return HS_OK;
}
