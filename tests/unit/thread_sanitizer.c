/* thread_sanitizer.c - what the thread sanitizer, which asks this function by its name, need not tell of any
 * test: oneDNN is not instrumented, so its accesses to the heap are seen but not its locks. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:libdnnl.so";
}
