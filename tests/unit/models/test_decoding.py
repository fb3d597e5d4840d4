"""Decoders by name, and decoders of the user's: what cannot be split is refused in one line."""

from __future__ import annotations

import pytest
import torch
from support.messages import line_with
from torch import nn

from gsplit.errors import InputError
from gsplit.models.custom import parse_arguments
from gsplit.models.decoding import decoder_of
from gsplit.nn.decoders import MLP, Cosine, Decoder, DistMult, Dot


class Form(nn.Module):
    """A decoder that can be split: of a width, and with dropout, which is off in the trial."""

    def __init__(self, in_channels, extra=1, dropout=0.5):
        super().__init__()
        self.form, self.extra, self.dropout = nn.Bilinear(in_channels, in_channels, 1), extra, nn.Dropout(dropout)

    def forward(self, source, destination):
        return self.form(self.dropout(source), destination).squeeze(1) * self.extra


class ZeroAtFirst(Form):
    def __init__(self, width):
        super().__init__(width)
        nn.init.zeros_(self.form.weight)


class Column(Form):
    def forward(self, source, destination):
        return self.form(source, destination)


class Squeezed(Form):
    """[] in place of [1] for one pair."""

    def forward(self, source, destination):
        return self.form(source, destination).squeeze()


class Pair(Form):
    def forward(self, source, destination):
        return super().forward(source, destination), source


class Normed(Form):
    def __init__(self, width):
        super().__init__(width)
        self.inner = nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width))


class Centred(Form):
    def forward(self, source, destination):
        return super().forward(source - source.mean(0), destination)


class CentredAtZero(ZeroAtFirst):
    """Centred, hidden by weights that begin at 0."""

    def forward(self, source, destination):
        return super().forward(source - source.mean(0), destination)


class Share(Form):
    def forward(self, source, destination):
        return super().forward(source, destination) / len(source)


class Chance(Form):
    def forward(self, source, destination):
        return super().forward(source, destination) + torch.rand(len(source))


class Constant(Form):
    def forward(self, source, destination):
        return torch.ones(len(source))


class Infinite(Form):
    def forward(self, source, destination):
        return super().forward(source, destination) / 0


class Failing(Form):
    def forward(self, source, destination):
        raise KeyError("no such\nkey")


class Turned(Form):
    """A matrix with candidates first."""

    def matrix(self, source, candidates):
        return (source @ candidates.T).T


class Summed(Decoder):
    """A decoder with its own way for candidates of each source, that looks at all of them."""

    def __init__(self, width):
        super().__init__()

    def forward(self, source, destination):
        return (source * destination).sum(dim=1)

    def groups(self, source, candidates):
        return super().groups(source, candidates).softmax(dim=1)


class Flipped(Summed):
    def groups(self, source, candidates):
        return super(Summed, self).groups(source, candidates)

    def groups_of_sources(self, destination, candidates):
        return self.groups(destination, candidates).flip(1)


class Unfit(Form):
    def __init__(self, width, relations):
        super().__init__(width)


@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [("dot", "", Dot), ("cosine", "", Cosine), ("distmult", "", DistMult), ("mlp", "hidden=3,layers=4", MLP)],
)
def test_a_name_is_a_decoder(name, arguments, kind):
    made = decoder_of(name, 6, parse_arguments(arguments, "--score-args"))
    assert type(made) is kind
    assert made(torch.randn(5, 6), torch.randn(5, 6)).shape == (5,)
    if name == "mlp":
        assert [tuple(weight.shape) for weight in made.parameters() if weight.ndim == 2] == [
            *((3, 12), (3, 3), (3, 3), (1, 3))
        ]


@pytest.mark.parametrize("name", ["Form", "ZeroAtFirst"])
def test_a_decoder_of_the_users_that_can_be_split_is_taken_as_it_is(name):
    torch.manual_seed(3)
    made = decoder_of(f"{__name__}:{name}", 6, {"extra": 2} if name == "Form" else {})
    assert isinstance(made, Decoder)
    assert made.training
    assert made.module.dropout.p == 0.5
    assert made.module.extra == (2 if name == "Form" else 1)
    torch.manual_seed(3)
    assert torch.equal(made.module.form.weight, globals()[name](6).form.weight)
    after = torch.rand(1)
    torch.manual_seed(3)
    globals()[name](6)
    assert torch.equal(after, torch.rand(1))


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("Column", "Column, [6, 1], [6, 5], [6]"),
        ("Squeezed", "Squeezed, [], [1, 5], [1]"),
        ("Pair", "Pair, tuple"),
        ("Normed", "Normed, batch normalisation, inner.1, nn.LayerNorm"),
        ("Centred", "Centred, cannot be split, alone"),
        ("CentredAtZero", "CentredAtZero, cannot be split, alone"),
        ("Share", "Share, cannot be split, alone"),
        ("Chance", "Chance, other scores each time"),
        ("Constant", "Constant, do not depend"),
        ("Infinite", "Infinite, not finite"),
        ("Failing", "Failing, [6, 5], KeyError, 'no such\\nkey'"),
        ("Turned", "Turned, matrix, forward"),
        ("Summed", "groups, Summed, forward, [sources, candidates]"),
        ("Flipped", "groups_of_sources, Flipped, forward, [destinations, candidates]"),
        ("Unfit", "Unfit, 'relations', --score-args relations=VALUE"),
        ("Missing", "--score, Missing, torch.nn.Module"),
        ("parse_arguments", "--score, parse_arguments, torch.nn.Module"),
    ],
)
def test_a_decoder_that_cannot_be_split_is_refused(name, parts):
    with pytest.raises(InputError, match=line_with(parts)):
        decoder_of(f"{__name__}:{name}", 5, {})


@pytest.mark.parametrize(
    ("name", "arguments", "parts"),
    [
        ("dots", {}, "--score, 'dots', distmult, package.module:Class"),
        ("dot", {"hidden": 3}, "--score-args hidden, dot, no arguments"),
        ("mlp", {"width": 3}, "--score-args width, mlp, hidden and layers"),
        ("mlp", {"layers": 0}, "MLP*, layers=0, at least 1"),
        ("no.such.module:Decoder", {}, "--score, module 'no'"),
    ],
)
def test_a_wrong_name_or_argument_is_refused(name, arguments, parts):
    with pytest.raises(InputError, match=line_with(parts)):
        decoder_of(name, 5, arguments)


def test_arguments_are_what_json_can_hold():
    with pytest.raises(InputError, match=line_with("--score-args, hidden={3}, set")):
        parse_arguments("hidden={3}", "--score-args")
