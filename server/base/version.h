/* version.h - the version of the program, as told by --version, /health and reports. */
#pragma once

#define HS_VERSION "0.1.0"
