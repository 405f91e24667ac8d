/* checkpoint.h - writes small checkpoints to disk, in every layout and with every known fault. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Zeroed, it is a sound BERT in one F32 file, names without prefix. */
typedef struct checkpoint {
    bool distilbert;
    const char *prefix; /* NULL: none */
    bool gamma_beta;
    const char *dtype;  /* NULL: F32; or F16, BF16 */
    size_t n_shards;    /* 0: one file, no index */
    size_t pad_header;  /* spaces behind the header: any alignment of the data */
    const char *drop;   /* a tensor to leave out, without prefix */
    const char *misfit; /* a tensor to give one more row */
    const char *as_i64; /* a tensor to store as I64 */
    const char *more;   /* a vector to add */
    size_t n_more;      /* its length; 0: CHECKPOINT_HIDDEN */
    const char *with;   /* a tensor whose last value is `unsound` */
    float unsound;      /* a NaN or an infinity */
} checkpoint;

#define CHECKPOINT_LAYERS    2
#define CHECKPOINT_HEADS     2
#define CHECKPOINT_HIDDEN    6
#define CHECKPOINT_FFN       10
#define CHECKPOINT_POSITIONS 8
#define CHECKPOINT_TYPES     2
#define CHECKPOINT_VOCAB     9

/* The files of one tensor list. names[i] is without prefix, gamma and beta already applied. */
typedef struct checkpoint_tensor {
    char name[96];
    size_t n_rows, n_columns; /* n_rows 0: a vector */
} checkpoint_tensor;

#define CHECKPOINT_TENSORS_MAX 64
size_t checkpoint_list(const checkpoint *options, checkpoint_tensor ret_tensors[CHECKPOINT_TENSORS_MAX]);

/* The value at index i of the tensor of this name (without prefix); exact in every dtype. */
float checkpoint_value(const char *name, size_t i);

/* A fresh folder under TMPDIR or /tmp; aborts when it cannot be made. folder_remove takes it and its files
 * away. */
void folder_create(char ret_dir[64]);
void folder_remove(const char *dir);
void folder_write(const char *dir, const char *name, const void *data, size_t n_bytes);

/* config.json, vocab.txt and the weight files. */
void checkpoint_write(const checkpoint *options, const char *dir);
