"""Loops as most people write them: what only logs or sums up is proved to be movable, in one file and in two."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.support.moves import SURROUNDINGS, Case, asked, one_file, two_files

METER = """
class AverageMeter:
    def __init__(self, name="loss"):
        self.name = name
        self.reset()

    def reset(self):
        self.sum, self.count = 0.0, 0

    @property
    def avg(self):
        return self.sum / max(self.count, 1)

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    def __str__(self):
        return f"{self.name} {self.avg:.3f}"


class Progress:
    def __init__(self, batches, meters):
        self.batches, self.meters = batches, meters

    def display(self, batch):
        print(f"[{batch}/{self.batches}]", *[str(meter) for meter in self.meters])
"""
PROVED: Mapping[str, Case] = {
    "a running sum": Case(before="running = 0.0", body="STEP\nrunning += loss.item()  # later", after="print(running)"),
    "values of a model on several devices, in one text": Case(
        code=(
            "class Split(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.main = nn.Sequential(nn.Linear(4, 2), nn.ReLU())\n    def forward(self, x):\n"
            "        return nn.parallel.data_parallel(self.main, x, range(2))\n"
        ),
        before="model = Split()",
        body=(
            "opt.zero_grad()\noutput = model(x)\nloss = F.cross_entropy(output, y)\nloss.backward()\n"
            "mean = output.mean().item()  # later\nopt.step()\n"
            "print('[%d] %.4f %.4f' % (i, loss.item(), mean))  # later"
        ),
    ),
    "a guarded print": Case(body="STEP\nif i % 10 == 0:  # later\n    print(i, loss.item())"),
    "a list": Case(before="losses = []", body="STEP\nlosses.append(loss.item())  # later", after="print(sum(losses))"),
    "a dict of sums": Case(
        before="sums = {'loss': 0.0, 'batches': 0}",
        body="STEP\nsums['batches'] += 1\nsums['loss'] += loss.item()  # later",
    ),
    "a meter of the project": Case(
        code=METER, before="meter = AverageMeter()", body="STEP\nmeter.update(loss.item(), x.size(0))  # later"
    ),
    "two meters, one of which stays": Case(
        code=METER,
        before="losses, sizes = AverageMeter('loss'), AverageMeter('size')",
        body="STEP\nsizes.update(x.size(0))\nlosses.update(loss.item())  # later",
    ),
    "meters with their display": Case(
        code=METER,
        before="losses = AverageMeter()\nprogress = Progress(100, [losses])",
        body="STEP\nlosses.update(loss.item())  # later\nif i % 10 == 0:  # later\n    progress.display(i)",
    ),
    "a tensorboard writer": Case(
        before="from torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter()",
        body="STEP\nwriter.add_scalar('loss', loss.item(), i)  # later",
    ),
    "a progress bar that the loop only runs over": Case(
        before="losses = []", over="tqdm(DataLoader(Data()))", body="STEP\nlosses.append(loss.item())  # later"
    ),
    "a logger": Case(
        before="import logging\nlogger = logging.getLogger(__name__)",
        body="STEP\nlogger.info('%d %f', i, loss.item())  # later",
    ),
    "wandb": Case(before="import wandb", body="STEP\nwandb.log({'loss': loss.item()})  # later"),
    "scheduler and scaler": Case(
        before="""
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 10)
        scaler = torch.cuda.amp.GradScaler()
        """,
        body="""
        with torch.autocast("cuda"):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        scheduler.step()
        print(i, loss.item(), scheduler.get_last_lr()[0])  # later
        """,
    ),
    "a checkpoint now and then": Case(
        body="STEP\nprint(loss.item())  # later\nif i % 100 == 0:\n    torch.save(model.state_dict(), 'model.pt')"
    ),
}


@pytest.mark.parametrize("files", [one_file, two_files])
@pytest.mark.parametrize("around", SURROUNDINGS)
@pytest.mark.parametrize("loop", PROVED)
def test_is_proved(loop: str, around: str, files: Callable[..., dict[str, str]]) -> None:
    answer = asked(files(PROVED[loop], SURROUNDINGS[around]))
    assert answer.tier == "safe", answer


@pytest.mark.parametrize("text", ["bar.set_postfix(loss=loss.item())", "bar.set_description(f'{loss.item():.3f}')"])
def test_the_text_of_a_bar_that_the_loop_runs_over_may_lag_behind_and_a_trial_tells_whether_somebody_minds(
    text: str,
) -> None:
    case = Case(before="bar = tqdm(DataLoader(Data()))", over="bar", body=f"STEP\n{text}  # later")
    answer = asked(one_file(case, SURROUNDINGS["function"]))
    assert answer.tier == "checked", answer
    assert [one.text for one in answer.reasons] == [
        "the bar is drawn between two batches, and shows the text of a batch before until then"
    ]


MOVES = "it moves a progress bar, which then goes on several batches at a time"


@pytest.mark.parametrize("line", ["logging.info(f'{i}')", "print(i, file=sys.stderr)", "helper(i)"])
@pytest.mark.parametrize(("moved", "more"), [("bar.update(1)", [MOVES]), ("bar.set_postfix(loss=loss.item())", [])])
def test_a_bar_around_the_loop_stays_on_screen_as_it_was_where_a_line_is_written_below_it(
    moved: str, more: list[str], line: str
) -> None:
    case = Case(
        code="import logging, sys\ndef helper(i):\n    logging.info(str(i))\n",
        before="bar = tqdm(total=23)",
        body=f"STEP\n{moved}  # later\nif i % 4 == 0:\n    {line}",
    )
    answer = asked(one_file(case, SURROUNDINGS["function"]))
    assert answer.tier == "checked", answer
    assert sorted(one.text for one in answer.reasons) == sorted([f"`{line}` writes lines of its own", *more])


@pytest.mark.parametrize("surroundings", SURROUNDINGS)
@pytest.mark.parametrize("moved", ["bar.update(1)", "bar.reset()", "bar()"])
def test_a_bar_that_moves_with_what_waits_is_not_proved(moved: str, surroundings: str) -> None:
    body = f"STEP\n{moved}  # later\nbar.set_postfix(loss=loss.item())  # later"
    case = Case(before="bar = tqdm(total=23)", body=body)
    answer = asked(one_file(case, SURROUNDINGS[surroundings]))
    assert answer.tier == "checked", answer
    assert {one.text for one in answer.reasons} == {MOVES}


def test_the_text_of_a_bar_may_lag_behind_its_moves() -> None:
    case = Case(before="bar = tqdm(total=23)", body="STEP\nbar.update(1)\nbar.set_postfix(loss=loss.item())  # later")
    answer = asked(one_file(case, SURROUNDINGS["function"]))
    assert answer.tier == "checked", answer
    assert [one.text for one in answer.reasons] == [
        "the bar is drawn when it moves, and shows the text of a batch before until then"
    ]


def test_a_bar_that_does_not_move_in_the_loop_may_get_its_texts_later() -> None:
    case = Case(before="bar = tqdm(total=23)", body="STEP\nbar.set_postfix(loss=loss.item())  # later")
    assert asked(one_file(case, SURROUNDINGS["function"])).tier == "safe"


def test_a_line_above_a_bar_may_wait_while_the_bar_moves() -> None:
    case = Case(before="bar = tqdm(total=23)", body="STEP\nbar.update(1)\nbar.write(f'{loss.item()}')  # later")
    assert asked(one_file(case, SURROUNDINGS["function"])).tier == "safe"


@pytest.mark.parametrize("stays", ["if bar.n > 3:\n    opt.step()", "print(bar)", "print(bar.format_dict)"])
def test_who_looks_how_far_a_bar_is_that_moves_later_is_an_obstacle(stays: str) -> None:
    case = Case(before="bar = tqdm(total=23)", body=f"STEP\nbar.update(loss.item())  # later\n{stays}")
    answer = asked(one_file(case, SURROUNDINGS["function"]))
    assert answer.tier == "refused", answer


@pytest.mark.parametrize("later", ["show(bar, loss.item())", "bar.write(f'{loss.item()}')"])
def test_what_shows_how_far_a_bar_is_stays_where_the_loop_runs_over_it(later: str) -> None:
    code = "def show(bar, loss):\n    bar.set_postfix(loss=loss, n=bar.n)\n"
    case = Case(code=code, before="bar = tqdm(DataLoader(Data()))", over="bar", body=f"STEP\n{later}  # later")
    answer = asked(one_file(case, SURROUNDINGS["function"]))
    assert answer.tier == "refused", answer


def test_a_text_of_how_far_a_bar_is_may_not_wait_while_it_moves() -> None:
    body = "STEP\nbar.update(1)\nbar.set_postfix(loss=loss.item(), n=bar.n)  # later"
    answer = asked(one_file(Case(before="bar = tqdm(total=23)", body=body), SURROUNDINGS["function"]))
    assert answer.tier == "refused", answer


@pytest.mark.parametrize(
    "stays",
    ["print(bar)", "if bar.desc:\n    break", "if bar.postfix:\n    opt.step()", "bar.set_description('x')"],
)
def test_who_looks_at_the_text_of_a_bar_or_sets_it_too_is_an_obstacle(stays: str) -> None:
    case = Case(
        before="bar = tqdm(DataLoader(Data()))",
        over="bar",
        body=f"STEP\n{stays}\nbar.set_postfix(loss=loss.item())  # later",
    )
    answer = asked(one_file(case, SURROUNDINGS["function"]))
    assert answer.tier == "refused", answer
