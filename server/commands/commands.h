/* commands.h - the subcommands of the program. */
#pragma once

#include "server/commands/options.h"

extern const hs_command hs__command_serve, hs__command_view, hs__command_analyze, hs__command_plot,
    hs__command_corpus, hs__command_study, hs__command_merge, hs__command_report, hs__command_pull,
    hs__command_models, hs__command_scores, hs__command_search, hs__command_bench;
