/* version.c - the commit of a program that is no release. Only this file is compiled anew with each commit.
 */
#include "server/base/version.h"

#ifndef HEADSCOPE_COMMIT
#define HEADSCOPE_COMMIT ""
#endif

const char hs_version_commit[] = HEADSCOPE_COMMIT;
