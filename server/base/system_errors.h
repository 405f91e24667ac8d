/* system_errors.h - what an errno means: a status, and words that name the limit that was reached. */
#pragma once

#include "model/base/status.h"

/* Returns HS_NO_SPACE for a full disk, a quota or the largest size of a file, HS_NO_MEMORY for memory,
 * descriptors and threads, and else HS_IO. A caller that meets one of the first two may go on later. */
hs_status hs__errno_status(int why);

/* Returns the system's words, and behind them the limit of this process or of its control group that caused
 * the error, if there is one: "File too large (this process is limited to 65536 bytes: ulimit -f)". The text
 * is the thread's own and stays until the next call. */
const char *hs__errno_text(int why);
