"""The options by which `run` and `record-stage` name the same model. Knows no PyTorch."""
import argparse


def add_model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", choices=("block", "sleep", "llama"), default="block",
                        help="block: transformer blocks in float64; sleep: stages that only take time; llama: a small Llama of transformers")
    parser.add_argument("--layers", type=_integers, default=(1,), metavar="N,N,...",
                        help="blocks of stage 0, 1, ...; repeated when there are more stages")
    parser.add_argument("--seconds", type=_durations, action="append", metavar="F,I,W",
                        help="what a stage sleeps; once for all stages or once per stage")
    parser.add_argument("--width", type=int, default=16, help="features of a token")
    parser.add_argument("--sequence", type=int, default=4, help="tokens of a sample")
    parser.add_argument("--microbatch-size", type=int, default=2, help="samples of a micro-batch")
    parser.add_argument("--heads", type=int, default=2, help="attention heads of llama")
    parser.add_argument("--vocabulary", type=int, default=64, help="tokens that llama knows")
    parser.add_argument("--optimizer", choices=("none", "sgd", "adamw"), default="none",
                        help="stepped with a learning rate of 0, for its memory")


def model_of(options: argparse.Namespace) -> dict:
    """As in Job.model."""
    names = ("layers", "width", "sequence", "microbatch_size", "heads", "vocabulary")
    model = {"kind": options.model, **{name: getattr(options, name) for name in names}}
    if min(options.width, options.sequence, options.microbatch_size, options.heads, options.vocabulary) < 1:
        raise ValueError("sizes of the model are positive")
    return model | ({"seconds": options.seconds} if options.seconds else {})


def _integers(text: str) -> tuple[int, ...]:
    values = tuple(int(part) for part in text.split(","))
    if not values or min(values) < 1:
        raise argparse.ArgumentTypeError("positive integers, separated by commas")
    return values


def _durations(text: str) -> tuple[float, ...]:
    values = tuple(float(part) for part in text.split(","))
    if len(values) != 3 or min(values) < 0:
        raise argparse.ArgumentTypeError("three durations in seconds: F,I,W")
    return values
