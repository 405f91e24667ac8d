/* identifier.c - 64 random bits from the system as hexadecimal digits. */
#include "server/base/identifier.h"

#include <stdio.h>
#include <sys/random.h>
#include <time.h>

void hs__identifier_make(char ret_identifier[HS_IDENTIFIER_BYTES])
{
    unsigned long long number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        number = (unsigned long long)now.tv_sec * 1000000000ULL + (unsigned long long)now.tv_nsec;
    }
    snprintf(ret_identifier, HS_IDENTIFIER_BYTES, "%016llx", number);
}
