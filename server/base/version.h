/* version.h - the version of the program, for --version, /health and reports. */
#pragma once

/* The version of the last release. Scripts read this line. */
#define HS_VERSION "1.1.0"

/* The commit, if the program was built from a clone that is no release; else "". */
extern const char hs_version_commit[];
