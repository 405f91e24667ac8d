/* listen.c - opens the socket that takes connections: "HOST:PORT" or "unix:PATH". */
#include "server/http/listen.h"

#include "model/base/read_number.h"
#include "server/base/system_errors.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

static const char unix_prefix[] = "unix:";

/* ---- addresses ---- */

static bool port_valid(const char *port)
{
    int64_t number;
    return *port != '-' && !hs_integer_read(port, NULL, 0, 65535, &number);
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
                       "--listen '%s': expected HOST:PORT, as in 127.0.0.1:8080 or [::1]:8080, or unix:PATH",
                       where);
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

static void url_format(hs_listener *listener)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    char host[64] = "?", port[16] = "?";
    getsockname(listener->fd, (struct sockaddr *)&address, &size);
    getnameinfo((struct sockaddr *)&address, size, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(listener->url, sizeof listener->url, strchr(host, ':') ? "http://[%s]:%s" : "http://%s:%s", host,
             port);
    listener->is_local = loopback(&address);
}

/* ---- socket files ---- */

/* Locks the folder of a path until the descriptor is closed. Between bind and listen, a socket file refuses
 * connections as one that was left behind does, so no two servers may open theirs at once. Returns -1 if the
 * folder cannot be read; some file systems have no locks. */
static int folder_lock(const struct sockaddr_un *address)
{
    char path[sizeof address->sun_path];
    memcpy(path, address->sun_path, sizeof path);
    const int fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && flock(fd, LOCK_EX) && errno == EINTR)
        ;
    return fd;
}

/* Deletes a socket file that an earlier server has left behind. Returns false with errno if the path is
 * taken: by a server that runs, or by a file that is no socket. */
static bool path_free(const struct sockaddr_un *address)
{
    struct stat file;
    if (lstat(address->sun_path, &file))
        return errno == ENOENT;
    if (!S_ISSOCK(file.st_mode)) {
        errno = EEXIST;
        return false;
    }
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const bool runs =
        fd >= 0 && (!connect(fd, (const struct sockaddr *)address, sizeof *address) || errno != ECONNREFUSED);
    if (fd >= 0)
        close(fd);
    if (fd < 0 || runs) {
        errno = fd < 0 ? errno : EADDRINUSE;
        return false;
    }
    return !unlink(address->sun_path);
}

/* Returns a socket that listens at a path, with a file that only this user may open (mode 0600). Returns -1
 * with errno and leaves no file if that fails. */
static int file_listen(const struct sockaddr_un *address, struct stat *ret_file)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const mode_t before = umask(S_IXUSR | S_IRWXG | S_IRWXO);
    const bool bound = fd >= 0 && !bind(fd, (const struct sockaddr *)address, sizeof *address);
    const bool listens = bound && !listen(fd, BACKLOG) && !lstat(address->sun_path, ret_file);
    const int why = errno;
    umask(before);
    if (bound && !listens)
        (void)unlink(address->sun_path);
    if (fd >= 0 && !listens)
        close(fd);
    errno = why;
    return listens ? fd : -1;
}

static hs_status path_listen(const char *path, hs_listener *ret_listener, hs_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat file = {0};
    const size_t n = strlen(path);
    if (n == 0 || n >= sizeof address.sun_path)
        return hs_fail(err, HS_INVALID, "--listen unix:PATH: a path has 1 to %zu bytes, not %zu",
                       sizeof address.sun_path - 1, n);
    memcpy(address.sun_path, path, n + 1);
    const int lock = folder_lock(&address);
    const int fd = path_free(&address) ? file_listen(&address, &file) : -1;
    const int why = errno;
    if (lock >= 0)
        close(lock);
    if (fd < 0)
        return hs_fail(err, HS_IO, "cannot listen on 'unix:%s': %s%s", path, hs__errno_text(why),
                       why == EADDRINUSE ? "; another server listens there: choose another path"
                       : why == EEXIST   ? "; a file that is no socket is there: choose another path"
                                         : "");
    *ret_listener =
        (hs_listener){.fd = fd, .is_local = true, .path = path, .device = file.st_dev, .inode = file.st_ino};
    snprintf(ret_listener->url, sizeof ret_listener->url, "unix:%s", path);
    return HS_OK;
}

/* ---- both ---- */

hs_status hs__listen(const char *where, hs_listener *ret_listener, hs_error *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *addresses = NULL;
    const char *port = NULL;
    char host[256] = "";
    int fd = -1;
    if (strncmp(where, unix_prefix, sizeof unix_prefix - 1) == 0)
        return path_listen(where + sizeof unix_prefix - 1, ret_listener, err);
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
        return hs_fail(err, HS_IO, "cannot listen on '%s': %s%s", where, hs__errno_text(errno),
                       errno == EADDRINUSE ? "; choose another port, or 0 for any free one" : "");
    *ret_listener = (hs_listener){.fd = fd};
    url_format(ret_listener);
    return HS_OK;
}

void hs__listen_end(const hs_listener *listener)
{
    struct stat file;
    if (listener->path && !lstat(listener->path, &file) && file.st_dev == listener->device &&
        file.st_ino == listener->inode)
        (void)unlink(listener->path);
    close(listener->fd);
}
