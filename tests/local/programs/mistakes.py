"""What newcomers do wrong with the SDK in a script of one worker: ``mistakes.py NAME``, one function each."""

import os
import sys

import scalecurve_worker as scalecurve

BATCH = 4


class Tensor:
    """As much of an array as the SDK looks at."""

    def __init__(self, *shape: int, dtype: str = "float32") -> None:
        self.shape, self.dtype = shape, dtype


def forgets_attach() -> None:
    print("epoch 1, loss 0.3")


def forgets_finish() -> None:
    for _ in scalecurve.attach().steps([[0] * BATCH]):
        pass


def leaves_the_loop() -> None:
    bench = scalecurve.attach()
    for number, _ in enumerate(bench.steps([[0] * BATCH])):
        if number == 8:
            break
    bench.finish()


def finishes_in_the_loop() -> None:
    bench = scalecurve.attach()
    while bench.step():
        bench.finish()


def attaches_in_every_epoch() -> None:
    for _ in range(3):
        bench = scalecurve.attach()
        for _ in bench.steps([[0] * BATCH]):
            pass
        bench.finish()


def has_another_batch() -> None:
    train(Tensor(2 * BATCH, 3))


def has_a_small_last_batch() -> None:
    train(Tensor(BATCH, 3), Tensor(1, 3))


def puts_the_sequence_first() -> None:
    train(Tensor(35, BATCH))


def nests_its_batches() -> None:
    train([[Tensor(3, 8, 8)], [{"boxes": Tensor(2, 4)}]])


def loads_by_a_generator() -> None:
    bench = scalecurve.attach()
    for _ in bench.steps([0] * BATCH for _ in range(3)):
        pass


def loads_nothing() -> None:
    train()


def steps_twice() -> None:
    bench = scalecurve.attach()
    for _ in bench.steps([[0] * BATCH]):
        bench.step()


def reports_a_loss_of_many_elements() -> None:
    bench = scalecurve.attach()
    while bench.step():
        bench.loss([0.1, 0.2])


def reports_no_number() -> None:
    bench = scalecurve.attach()
    while bench.step():
        bench.loss(float("nan"))
    bench.finish()


def counts_tokens_without_the_unit() -> None:
    bench = scalecurve.attach()
    while bench.step():
        bench.tokens(100)


def misspells_the_unit() -> None:
    scalecurve.attach(unit="token")  # type: ignore[arg-type]  # as scripts without type checks do


def counts_no_tokens() -> None:
    bench = scalecurve.attach(unit="tokens")
    for _ in bench.steps([Tensor(BATCH, 3)]):
        pass


def opens_a_relative_path() -> None:
    scalecurve.attach()
    open("data/train.bin").close()


def imports_what_is_not_installed() -> None:
    import no_such_module  # type: ignore[import-not-found]  # noqa: F401  # that is the mistake


def crashes_in_evaluation() -> None:
    with scalecurve.attach() as bench:
        while bench.step():
            pass
        raise ValueError("no checkpoint to evaluate")


def crashes_after_finish() -> None:
    train([0] * BATCH)
    raise ValueError("no such column: accuracy")


def exits_with_an_error() -> None:
    scalecurve.attach()
    sys.exit("train.py: error: --data is required")


def exits_in_the_loop() -> None:
    bench = scalecurve.attach()
    for number, _ in enumerate(bench.steps([[0] * BATCH])):
        if number == 8:
            sys.exit()


def exits_the_process() -> None:
    for _ in scalecurve.attach().steps([[0] * BATCH]):
        pass
    os._exit(0)


def prints_nothing() -> None:
    os._exit(3)


def runs_out_of_memory() -> None:
    scalecurve.attach()
    bytearray(1 << 60)


def wants_a_variable() -> None:
    scalecurve.attach()
    print(os.environ["DATA_ROOT"])


def train(*batches: object) -> None:
    bench = scalecurve.attach()
    for _ in bench.steps(list(batches)):
        pass
    bench.finish()


if __name__ == "__main__":
    globals()[sys.argv[1].replace("-", "_")]()
