/* The default model, linked in: model/mini as it lies in the tree. See hs_model_open_embedded. */
    .section .note.GNU-stack, "", %progbits
    .section .rodata

    .macro embed name, file
    .balign 64
    .global hs__mini_\name
    .global hs__mini_\name\()_end
hs__mini_\name:
    .incbin "\file"
hs__mini_\name\()_end:
    .byte 0
    .endm

    embed config, "model/mini/config.json"
    embed safetensors, "model/mini/model.safetensors"
    embed vocab, "model/mini/vocab.txt"
    embed tokenizer_config, "model/mini/tokenizer_config.json"
