"""Causal types of transformers 5.23.0 that no family of data/families reads, each with its reason. The next release shows what is new."""
_DECODER = "the decoder of an encoder-decoder: layers attend to what an encoder made"
_SHARED = "blocks that several layers share, with an adapter for each"
_STREAMS = "streams that are mixed in a way of its own"
REFUSED = {
    "axk2": "norms with a gate of low rank, queries and gates of one latent",
    "bart": _DECODER, "bigbird_pegasus": _DECODER, "blenderbot": _DECODER, "blenderbot-small": _DECODER, "marian": _DECODER, "mbart": _DECODER,
    "mvp": _DECODER, "pegasus": _DECODER, "plbart": _DECODER, "prophetnet": _DECODER, "trocr": _DECODER, "whisper": _DECODER,
    "beam": "layers of its own", "flint": "layers of its own", "kolibri1": "layers of its own",
    "big_bird": "sparse blocks of random keys", "reformer": "hashed attention, reversible layers",
    "blt": "bytes in patches: three models in one", "moshi": "audio codes beside words", "musicgen": _DECODER, "musicgen_melody": _DECODER,
    "cohere_compass_text": "its default config contradicts itself", "cpmant": "segments and position biases in tables",
    "diffllama": "two softmaxes for values twice as wide", "dots1": "the class has no number of experts by default; with one it is read",
    "dots3_note": "latent attention of other shapes by layer, with norms of the rotated part", "dots3_note_text": "as dots3_note",
    "electra": "embeddings and head of another width with biases", "rembert": "embeddings and head of three widths",
    "git": "an image's tokens before every text", "hrm_text": "two stacks that run several times",
    "hy_v4": _STREAMS, "qwen4_exp": _STREAMS, "qwen4_exp_text": _STREAMS,
    "inkling_text": "relative positions of low rank, convolutions in four places", "inkling2_text": "as inkling_text",
    "jetmoe": "experts of attention heads", "longcat_flash": "two attentions and three feed-forwards in a layer, experts that do nothing",
    "mllama": "layers that attend to images", "modernbert-decoder": "a first layer without its norm",
    "phi4_multimodal": "adapters for images and speech in every layer", "recurrent_gemma": "gated linear recurrences (RG-LRU)",
    "roc_bert": "embeddings of sound and shape", "rwkv": "time mixing", "xlstm": "matrix memories", "zaya": "compressed convolutional attention",
    "xlm": "a head over parts of the vocabulary", "xlnet": "permuted factorisation, relative positions",
    "zamba": _SHARED, "zamba2": _SHARED,
}
