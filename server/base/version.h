/* version.h - the version of the program, for --version, /health and reports. */
#pragma once

#define HS_VERSION "1.0.0"
