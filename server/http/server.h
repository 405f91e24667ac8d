/* server.h - `headscope serve`: one libuv loop drives libmicrohttpd and passes requests to workers. */
#pragma once

#include "model/base/bytes.h"
#include "server/base/catalog.h"

enum { HS_ROOT_PATH_MAX = 200 };

typedef struct hs_server_options {
    const char *listen; /* "127.0.0.1:8080", "[::1]:0", ":8080" */
    hs_catalog_options catalog;
    size_t n_workers, queue_max, connections_max;
    size_t address_connections_max; /* from one address; 0: half of all for other machines, no limit for this
                                       one */
    size_t address_running_max;     /* tasks of one address that run at a time; 0: no limit */
    size_t client_memory_max;       /* for bodies and answers; catalog.limit may set it */
    size_t batch_max;               /* see hs_tasks_options.batch_max; 0: HS_BATCH_MAX */
    size_t body_bytes_max;
    const char *state_dir;                    /* of corpus runs; NULL: no runs */
    size_t corpus_bytes_max, state_bytes_max; /* for one upload; for all files */
    uint64_t deadline_ms;                     /* from the complete request to its answer */
    uint64_t header_ms;                       /* for a request's headers */
    uint64_t body_ms;                         /* for its body */
    const char *token_file, *cors_origin;     /* or NULL */
    const char *allow_hosts;                  /* separated by commas, or NULL */
    const char *root_path;                    /* "/lab/headscope", before every path; NULL: none */
    const char *log;                          /* "text" or "json" */
    bool pull;                                /* models may be fetched from the hub */
    const char *opened_name;                  /* of the file that `headscope view` shows, or NULL */
    hs_bytes opened;
} hs_server_options;

/* Returns the largest connections_max for which this process may open enough file descriptors, at least 1. */
size_t hs__connections_possible(const hs_server_options *options);
/* Serves until a signal and returns the program's exit code. Prints the address on standard output when it is
 * ready. If it cannot start, err says why. */
int hs__server_run(const hs_server_options *options, hs_error *err);
