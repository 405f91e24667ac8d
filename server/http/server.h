/* server.h - `headscope serve`: one libuv loop drives libmicrohttpd and hands requests to workers. */
#pragma once

#include "server/base/catalog.h"

typedef struct hs_server_options {
    const char *listen; /* "127.0.0.1:8080", "[::1]:0", ":8080" */
    hs_catalog_options catalog;
    size_t n_workers, queue_max, connections_max;
    size_t address_connections_max; /* of one address; 0: half of all, for other machines' */
    size_t held_bytes_max;          /* of bodies and answers in memory; 0: by the memory there is */
    size_t together_max;            /* see hs_tasks_options.batch_max; 0: HS_BATCH_MAX */
    size_t body_bytes_max;
    const char *state_dir;                    /* of corpus runs, or NULL: there are none */
    size_t corpus_bytes_max, state_bytes_max; /* of one's upload; of all their files */
    uint64_t deadline_ms;                 /* of an answer, from the request being read to it being ready */
    uint64_t header_ms;                   /* of a request's headers, from the first moment they could come */
    uint64_t body_ms;                     /* of its body */
    const char *token_file, *cors_origin; /* or NULL */
    const char *allow_hosts;              /* names with commas between them, or NULL */
    const char *log;                      /* "text" or "json" */
} hs_server_options;

/* The largest connections_max for which this process may open enough file descriptors; 1 at least. */
size_t hs__connections_possible(void);
/* Serves until told to stop; returns the program's exit code. Prints the address on standard output when it
 * answers. On failure to start, err says why. */
int hs__server_run(const hs_server_options *options, hs_error *err);
