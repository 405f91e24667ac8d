/* libmicrohttpd_0_9_75.c - compiled for versions before 1.0 only.
 *
 * These versions have no strict mode, and no documented call gives the bytes of a request. Two faults of
 * theirs are dealt with here:
 * - They accept heads with two readings: see head_has_gap.
 * - They accept a bare LF in the lines around chunks, and folded trailers. Nothing that they call shows these
 *   lines, so a body in chunks is refused with 411, as RFC 9112, 6.3 allows. */
#include "server/http/libmicrohttpd_0_9_75.h"

#if HS_MHD_IS_LENIENT

#include <string.h>

bool hs__mhd_0_9_75_runs(void)
{
    return MHD_get_version()[0] == '0';
}

/* ---- heads with two readings ---- */

/* The library cuts a head into strings where it lies. It writes a NUL over each colon and over the CR and the
 * LF of each line. A head with one reading is therefore "method" NUL "target" ... "version" NUL NUL "name"
 * NUL blanks "value" NUL NUL ... NUL NUL without a gap. A folded line leaves a gap, because the library
 * appends it to a copy of the name. So does a bare LF, a NUL, or a blank before the target. A line without a
 * name leaves one too: it ends the head there. A version that did it otherwise would refuse every request,
 * which the tests would show. */
typedef struct head {
    const char *at, *end; /* where the next name must be; the end of the head */
    bool gap;
} head;

/* Moves over a string and the CR LF behind it. */
static void line_pass(head *h, const char *text)
{
    const char *nul = text + strlen(text);
    h->gap |= h->end - nul < 2 || nul[0] || nul[1];
    h->at = nul + 2;
}

static enum MHD_Result header_pass(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    head *h = cls;
    (void)kind;
    h->gap |= name != h->at || !value;
    if (h->gap)
        return MHD_NO;
    const char *behind = name + strlen(name) + 1;
    h->gap |= value < behind || value != behind + strspn(behind, " \t");
    if (!h->gap)
        line_pass(h, value);
    return MHD_YES;
}

static bool head_has_gap(struct MHD_Connection *connection, const char *method, const char *target,
                         const char *version)
{
    const union MHD_ConnectionInfo *size =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (!size || target != method + strlen(method) + 1)
        return true;
    head h = {.end = method + size->header_size};
    line_pass(&h, version);
    MHD_get_connection_values(connection, MHD_HEADER_KIND, header_pass, &h);
    return h.gap || h.end - h.at != 2 || h.at[0] || h.at[1];
}

bool hs__mhd_0_9_75_refuses(hs_exchange *x, const char *method, const char *target, const char *version)
{
    if (!hs__mhd_0_9_75_runs())
        return false;
    if (head_has_gap(x->mhd, method, target, version)) {
        hs__exchange_refuse(
            x, MHD_HTTP_BAD_REQUEST,
            "Malformed request: the request line must have single spaces, and each header must be a "
            "line of name, colon and value that ends with CR LF.");
    } else if (hs__header(x->mhd, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
        hs__exchange_refuse(x, MHD_HTTP_LENGTH_REQUIRED,
                            "This server runs with libmicrohttpd %s, which does not read bodies in chunks "
                            "safely. Send the body with Content-Length, or run the server with libmicrohttpd "
                            "1.0 or newer.",
                            MHD_get_version());
    }
    return x->answered;
}

#endif
