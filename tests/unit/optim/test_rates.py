"""Rates are those of PyTorch's schedulers, and depend on nothing but where the run stands."""

from __future__ import annotations

import pytest
import torch
from torch.optim import lr_scheduler

from gsplit.config.optimisation import OptimisationConfig
from gsplit.optim.rates import Rates

EPOCHS, STEPS, LR = 6, 7, 0.05


def rates_of(config, steps=STEPS, scores=()):
    """The rate of every step; a score after each epoch, where there are scores."""
    rates, found = Rates(config, steps), []
    for epoch in range(config.epochs):
        found += [rates.at(epoch, step) for step in range(steps)]
        if scores:
            rates.judge(scores[epoch])
    return found


def theirs(make, epochs=EPOCHS, steps=STEPS, scores=()):
    """The rates of PyTorch's scheduler that ``make`` makes for an optimizer: a step of it for each, or each epoch."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=LR)
    scheduler, found = make(optimizer), []
    for epoch in range(epochs):
        for _ in range(steps):
            found.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            if not scores:
                scheduler.step()
        if scores:
            scheduler.step(scores[epoch])
    return found


def after_warmup(optimizer, steps, then):
    """A linear warm-up of so many steps, then another scheduler."""
    rise = lr_scheduler.LinearLR(optimizer, start_factor=1 / steps, end_factor=1.0, total_iters=steps - 1)
    return lr_scheduler.SequentialLR(optimizer, [rise, then], milestones=[steps])


def test_a_constant_rate_is_that_of_the_flag():
    assert rates_of(OptimisationConfig(epochs=2, lr=LR)) == [LR] * 14


@pytest.mark.parametrize("warmup", [0, 1.5, 2])
@pytest.mark.parametrize("schedule", ["constant", "cosine", "step"])
def test_rates_are_those_of_pytorchs_schedulers(schedule, warmup):
    rise = round(warmup * STEPS)

    def make(optimizer):
        then = {
            "constant": lambda: lr_scheduler.ConstantLR(optimizer, factor=1.0),
            "cosine": lambda: lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS * STEPS - rise),
            "step": lambda: lr_scheduler.StepLR(optimizer, step_size=2 * STEPS, gamma=0.3),
        }[schedule]()
        return after_warmup(optimizer, rise, then) if rise else then

    config = OptimisationConfig(
        epochs=EPOCHS, lr=LR, lr_schedule=schedule, warmup=warmup, lr_step_size=2, lr_gamma=0.3
    )
    found = rates_of(config)
    assert found == pytest.approx(theirs(make), rel=1e-12)
    assert max(found) == LR
    assert (min(found) < LR) == (schedule != "constant" or warmup > 0)


SCORES = [0.5, 0.6, 0.6, 0.55, 0.6, 0.7]


def test_a_plateau_is_that_of_pytorch():
    config = OptimisationConfig(epochs=6, lr=LR, lr_schedule="plateau", lr_patience=1, lr_gamma=0.5)
    found = rates_of(config, scores=SCORES)
    wanted = theirs(
        lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", factor=0.5, patience=1), scores=SCORES
    )
    assert found == pytest.approx(wanted, rel=1e-12)
    assert found[-1] == LR / 2


def test_a_rate_falls_no_further_than_pytorchs_does():
    scores = [0.5] * 12
    config = OptimisationConfig(epochs=12, lr=LR, lr_schedule="plateau", lr_patience=0, lr_gamma=0.1)
    found = rates_of(config, scores=scores)
    wanted = theirs(
        lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", factor=0.1, patience=0),
        epochs=12,
        scores=scores,
    )
    assert found == pytest.approx(wanted, rel=1e-9)
    assert found[-1] > LR * 1e-9


def test_a_plateau_goes_on_from_its_state():
    config = OptimisationConfig(epochs=6, lr=LR, lr_schedule="plateau", lr_patience=1, lr_gamma=0.5)
    whole = Rates(config, STEPS)
    for cut in range(len(SCORES)):
        resumed = Rates(config, STEPS)
        resumed.restore(whole.state())
        for rates in (whole, resumed):
            rates.judge(SCORES[cut])
        assert whole.at(cut + 1, 0) == resumed.at(cut + 1, 0)
        assert whole.state() == resumed.state()


def test_a_schedule_that_went_on_with_more_epochs_is_that_of_a_run_that_began_with_them():
    longer = OptimisationConfig(epochs=12, lr=LR, lr_schedule="cosine")
    resumed = Rates(longer, STEPS)
    resumed.restore(Rates(OptimisationConfig(epochs=6, lr=LR, lr_schedule="cosine"), STEPS).state())
    assert resumed.at(6, 3) == Rates(longer, STEPS).at(6, 3) == rates_of(longer)[6 * STEPS + 3]


@pytest.mark.parametrize("lower_is_better", [False, True])
def test_no_score_is_never_the_better_one(lower_is_better):
    config = OptimisationConfig(epochs=6, lr=LR, lr_schedule="plateau", lr_patience=0, lr_gamma=0.5)
    rates = Rates(config, 1, lower_is_better=lower_is_better)
    sign = -1 if lower_is_better else 1
    seen = []
    for epoch, score in enumerate((2.0, None, 3.0, None, 3.0 + 1e-9 * sign, 9.0)):
        rates.judge(score if score is None else 10 * (not sign > 0) + sign * score)
        seen.append(rates.at(epoch + 1, 0) / LR)
    assert seen == [1, 0.5, 0.5, 0.25, 0.125, 0.125]
