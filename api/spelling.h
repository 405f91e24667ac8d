/* spelling.h - the name that a misspelled word most likely means. */
#pragma once

/* Returns the word of the list, which ends with NULL, that is spelled almost like `word`, else one that
 * begins with it. Returns NULL if there is none. */
const char *hs_spelled_like(const char *word, const char *const *words);
