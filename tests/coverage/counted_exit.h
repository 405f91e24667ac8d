/* counted_exit.h - lets _exit write the counts of `make coverage`, whose compiler includes this file first.
 *
 * A server that stops in the middle of a corpus run ends with _exit. It would lose the counts of its whole
 * life. */
#pragma once

#ifndef __ASSEMBLER__
void __gcov_dump(void);
_Noreturn void uncounted_exit(int code) __asm__("_exit");

__attribute__((unused)) _Noreturn static inline void counted_exit(int code)
{
    __gcov_dump();
    uncounted_exit(code);
}

#define _exit counted_exit /* also where the header of the system declares it */
#endif
