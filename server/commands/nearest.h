/* nearest.h - the option or command that an unknown word most likely means. */
#pragma once

/* Returns the word of the list, which ends with NULL, that means the same as `word` in other programs. For a
 * word that they do not use, returns one spelled almost alike, else one that begins with `word`. Returns NULL
 * if there is none of these. */
const char *hs__nearest(const char *word, const char *const *words);
