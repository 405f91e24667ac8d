/* roles.c - finds roles by the template and by the token's own text, so that a sentence ends at the same
 * place whether a vocabulary writes ".", "\u0120." or "\u2581.". */
#include "model/tokenizer/roles.h"

#include <stdlib.h>

#define FINAL   ".!?"
#define CLOSING "\"')]}"

/* Skips the mark of a space before a word. */
static const char *without_space(const char *text)
{
    static const char *const marks[] = {" ", "\u0120", "\u2581"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strncmp(text, marks[i], strlen(marks[i])) == 0)
            return text + strlen(marks[i]);
    return text;
}

static hs_role role_of(const char *text)
{
    text = without_space(text);
    if (strcmp(text, ",") == 0)
        return HS_ROLE_COMMA;
    const bool is_end = strpbrk(text, FINAL) && text[strspn(text, FINAL CLOSING)] == '\0';
    return is_end ? HS_ROLE_SENTENCE_END : HS_ROLE_OTHER;
}

hs_status hs__roles_find(const hs__vocabulary *vocabulary, const hs__template *template, uint8_t **ret_roles,
                         hs_error *err)
{
    uint8_t *roles = malloc(vocabulary->size);
    if (!roles)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    for (size_t id = 0; id < vocabulary->size; id++) {
        const uint32_t at = vocabulary->text_at[id];
        roles[id] = (uint8_t)(at == UINT32_MAX ? HS_ROLE_OTHER : role_of(vocabulary->texts + at));
    }
    if (template->separator >= 0)
        roles[template->separator] = HS_ROLE_SEPARATOR;
    if (template->first >= 0)
        roles[template->first] = HS_ROLE_FIRST;
    *ret_roles = roles;
    return HS_OK;
}
