/* csv.c - the automaton of csv.h, and the bytes of a field. */
#include "server/corpus/input/csv.h"

/* Returns the state after a byte that follows a quoted field. */
static hs__csv_state after_quoted(hs__csv_dialect dialect, char c)
{
    return c == dialect.delimiter ? HS__CSV_FIELD
           : c == '\n'            ? HS__CSV_END
           : c == '\r'            ? HS__CSV_RETURN
                                  : HS__CSV_BROKEN;
}

hs__csv_state hs__csv_step(hs__csv_state state, hs__csv_dialect dialect, char c)
{
    const bool is_quote = dialect.quote && c == dialect.quote;
    switch (state) {
    case HS__CSV_QUOTED:
        return is_quote ? HS__CSV_QUOTE : HS__CSV_QUOTED;
    case HS__CSV_QUOTE:
        return is_quote ? HS__CSV_QUOTED : after_quoted(dialect, c);
    case HS__CSV_RETURN:
    case HS__CSV_BROKEN:
        return c == '\n' ? HS__CSV_END : HS__CSV_BROKEN;
    default:
        return state != HS__CSV_PLAIN && is_quote ? HS__CSV_QUOTED
               : c == dialect.delimiter           ? HS__CSV_FIELD
               : c == '\n'                        ? HS__CSV_END
                                                  : HS__CSV_PLAIN;
    }
}

bool hs__csv_next_field(hs__csv_row *row, char *ret, size_t *ret_n)
{
    hs__csv_state state = HS__CSV_FIELD;
    *ret_n = 0;
    while (row->at < row->n_bytes) {
        const hs__csv_state before = state;
        const char c = row->bytes[row->at++];
        state = hs__csv_step(before, row->dialect, c);
        if (state == HS__CSV_FIELD)
            return true;
        if (state == HS__CSV_BROKEN || state == HS__CSV_END)
            return false;
        if (state == HS__CSV_PLAIN || (state == HS__CSV_QUOTED && before != HS__CSV_FIELD))
            ret[(*ret_n)++] = c;
    }
    row->at = row->n_bytes + 1;
    return state != HS__CSV_QUOTED && state != HS__CSV_RETURN;
}
