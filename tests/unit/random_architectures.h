/* random_architectures.h - architectures of random weights, one for every feature of architecture.h. Tests
 * run the engine on all of them. */
#pragma once

#include "tests/unit/architecture_reference.h"

enum { RANDOM_TOKENS_MAX = 300 }; /* positions of every shape */

/* Three layers each. */
extern const hs_shape random_small, random_large /* enough work for threads to share */,
    random_padded;                   /* rows that would be pages apart */
extern const hs_shape *random_shape; /* of the architectures below: random_small unless a test sets it */

typedef struct named_architecture {
    const char *name;
    hs_architecture (*make)(void); /* random_architecture_free frees what it made */
} named_architecture;

extern const named_architecture random_architectures[], random_decoders[];
extern const size_t n_random_architectures, n_random_decoders;

hs_architecture architecture_plain(void);
hs_architecture architecture_rotated(void);
hs_architecture architecture_norms_of_updates(void);
hs_architecture architecture_caps(void);
hs_architecture architecture_relative(void);
hs_architecture architecture_convolution(void);
hs_architecture architecture_mixed(void);
hs_architecture decoder_t5(void);
hs_architecture decoder_bart(void);
