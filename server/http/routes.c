/* routes.c - who answers what, and where: on the loop what is at hand, as disk calls what lies on a disk, on
 * the workers what is computed. docs/tour.md walks the first row from socket to reply. */
#include "server/http/routes.h"

#include "server/http/corpora_http.h"
#include "server/http/probes.h"
#include "server/http/viewer.h"

static const hs_route rows[] = {
    {"POST", "/analyze", HS_ON_WORKER, false, "attention, similarity and pairs of one text", NULL, NULL, NULL,
     NULL, HS_ANALYZE},
    {"POST", "/tokenize", HS_ON_WORKER, false, "its tokens", NULL, NULL, NULL, NULL, HS_TOKENIZE},
    {"GET", "/models", HS_ON_WORKER, false, "the models served", NULL, NULL, NULL, NULL, HS_MODELS},
    {"GET", "/openapi.json", HS_ON_WORKER, true, "this surface in full", NULL, NULL, NULL, NULL, HS_OPENAPI},
    {"GET", "/health", HS_ON_LOOP, true, "alive; never waits for a busy worker", hs__probe_answer_health,
     NULL, NULL, NULL, 0},
    {"GET", "/ready", HS_ON_LOOP, true, "503 while loading or draining", hs__probe_answer_ready, NULL, NULL,
     NULL, 0},
    {"GET", "/metrics", HS_ON_LOOP, false, "counters for Prometheus", hs__probe_answer_metrics, NULL, NULL,
     NULL, 0},
    {"POST", "/corpora", HS_ON_DISK, false, "starts a corpus run", hs__corpora_queue, hs__corpora_begin,
     hs__corpora_receive, NULL, 0},
    {"GET", "/corpora", HS_ON_DISK, false, "all corpus runs", hs__corpora_answer_list, NULL, NULL, NULL, 0},
    {"GET", "/corpora/{id}", HS_ON_DISK, false, "how far one is", hs__corpora_answer_run, NULL, NULL, NULL,
     0},
    {"DELETE", "/corpora/{id}", HS_ON_DISK, false, "removes it with its files", hs__corpora_answer_delete,
     NULL, NULL, NULL, 0},
    {"GET", "/corpora/{id}/events", HS_ON_DISK, false, "how far it is, as it happens",
     hs__corpora_answer_events, NULL, NULL, NULL, 0},
    {"GET", "/corpora/{id}/report", HS_ON_DISK, false, "what it found", hs__corpora_answer_report, NULL, NULL,
     NULL, 0},
    {"POST", "/corpora/{id}/cancel", HS_ON_DISK, false, "ends it", hs__corpora_answer_cancel, NULL, NULL,
     NULL, 0},
    {"GET", "/*", HS_ON_LOOP, true, "the web viewer's files", hs__viewer_answer, NULL, NULL, hs__viewer_has,
     0},
};

const hs_routes hs__routes = {rows, sizeof rows / sizeof *rows};
