/* identifier.h - identifiers for requests and runs that cannot be guessed. */
#pragma once

enum { HS_IDENTIFIER_BYTES = 17 }; /* 16 hexadecimal digits and a NUL */

void hs__identifier_make(char ret_identifier[HS_IDENTIFIER_BYTES]);
