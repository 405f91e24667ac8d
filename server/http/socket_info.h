/* socket_info.h - what the system knows of a socket's two directions. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

uint64_t hs__socket_taken(int fd); /* bytes ever sent that the other side's system has confirmed */
bool hs__socket_waiting(int fd);   /* something that was sent is not confirmed yet */
int hs__socket_unread(int fd);     /* bytes received that nobody read yet */
