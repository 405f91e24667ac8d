/* tile_table.h - compiles `tile` for each number of rows and of vectors, which are constants in it, and lists
 * the functions. Includers define tile_work, tile(rows, vecs, work), TILE_ROWS, TILE_VECS and TILE_HEIGHTS.
 */
typedef void (*tile_function)(const tile_work *work);

#define DEFINE_TILE(rows, vecs)                                                                              \
    static void tile_##rows##x##vecs(const tile_work *work)                                                  \
    {                                                                                                        \
        tile(rows, vecs, work);                                                                              \
    }
#if TILE_VECS == 3
#define DEFINE_TILES(rows) DEFINE_TILE(rows, 1) DEFINE_TILE(rows, 2) DEFINE_TILE(rows, 3)
#define NAME_TILES(rows)   {tile_##rows##x1, tile_##rows##x2, tile_##rows##x3},
#else
#define DEFINE_TILES(rows) DEFINE_TILE(rows, 1) DEFINE_TILE(rows, 2)
#define NAME_TILES(rows)   {tile_##rows##x1, tile_##rows##x2},
#endif
TILE_HEIGHTS(DEFINE_TILES)

/* By rows and vectors, each less one. */
static const tile_function tiles[TILE_ROWS][TILE_VECS] = {TILE_HEIGHTS(NAME_TILES)};
