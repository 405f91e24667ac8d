/* embedded.S - the default model, linked in: model/mini as it lies in the tree. See hs_model_open_embedded. */
    .section .note.GNU-stack, "", %progbits
    .section .rodata

    .macro embed name, file
    .balign 64
    .global hs__mini_\name
    .global hs__mini_\name\()_bytes
hs__mini_\name:
    .incbin "\file"
0:
    .balign 8
hs__mini_\name\()_bytes:
    .quad 0b - hs__mini_\name
    .endm

    embed config, "model/mini/config.json"
    embed safetensors, "model/mini/model.safetensors"
    embed vocab, "model/mini/vocab.txt"
    embed tokenizer_config, "model/mini/tokenizer_config.json"
