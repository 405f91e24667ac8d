/* daemon.c - starts libmicrohttpd. */
#include "server/http/daemon.h"

#include "server/http/leniency.h"
#include "server/http/steps.h"

enum { HEADER_BYTES_MAX = 65536 }; /* request line, headers, and a record of each argument and header */

struct MHD_Daemon *hs__daemon_start(hs_server *server, int fd, size_t connections_max)
{
    struct MHD_OptionItem leniency[HS_LENIENCY_OPTIONS];
    hs__leniency_options(server, leniency);
    const struct MHD_OptionItem items[] = {
        {MHD_OPTION_LISTEN_SOCKET, fd, NULL},
        {MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)connections_max, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEADER_BYTES_MAX, NULL},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)hs__on_request_line, server},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)hs__on_completed, server},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)hs__on_connection, server},
        {MHD_OPTION_END, 0, NULL},
    };
    return MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
                            hs__on_step, server, MHD_OPTION_ARRAY, leniency, MHD_OPTION_ARRAY, items,
                            MHD_OPTION_END);
}
