/* other_library.c - preloaded into headscope: libmicrohttpd as a version could be that the program does not
 * know.
 *
 * OTHER_LIBRARY=head: it tells no size of a head. OTHER_LIBRARY=version: it calls itself 9.9.9, which has a
 * strict mode. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

static int is_other(const char *way)
{
    const char *chosen = getenv("OTHER_LIBRARY");
    return chosen && strcmp(chosen, way) == 0;
}

const union MHD_ConnectionInfo *MHD_get_connection_info(struct MHD_Connection *connection,
                                                        enum MHD_ConnectionInfoType type, ...)
{
    const union MHD_ConnectionInfo *(*real)(struct MHD_Connection *, enum MHD_ConnectionInfoType, ...) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "MHD_get_connection_info");
    return is_other("head") && type == MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE ? NULL
                                                                               : real(connection, type);
}

const char *MHD_get_version(void)
{
    const char *(*real)(void) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "MHD_get_version");
    return is_other("version") ? "9.9.9" : real();
}
