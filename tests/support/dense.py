"""SAGE, GAT and GCN on dense adjacency matrices, written from the papers and the help of the flags, in float64.

Nothing is shared with ``gsplit.nn`` but the names of the weights. N vertices; A_NN[v, u] counts the edges from u to
v, W_NN[v, u] sums their weights.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


class Dense:
    """Exact levels of a trained model.

    Args:
        config: of the run, a :class:`gsplit.config.train.TrainConfig`.
        state: weights and running statistics by name.
        graph: in the store's order.
    """

    def __init__(self, config, state: dict[str, Tensor], graph) -> None:
        self.config = config
        self.state = {name: tensor.double() for name, tensor in state.items()}
        n = graph.num_vertices
        destinations = np.repeat(np.arange(n), np.diff(graph.indptr))
        ones = np.ones(graph.num_edges)
        self.A_NN, self.W_NN = torch.zeros(n, n).double(), torch.zeros(n, n).double()
        for matrix, weights in ((self.A_NN, ones), (self.W_NN, graph.edge_weight)):
            values = torch.tensor(np.asarray(ones if weights is None else weights, np.float64))
            matrix.index_put_(
                (torch.tensor(destinations), torch.tensor(np.array(graph.indices)).long()), values, accumulate=True
            )
        x = torch.tensor(np.array(graph.features))
        if config.feature_dtype != "stored":
            x = x.to(getattr(torch, config.feature_dtype))
        self.x_ND = x.double()
        if config.normalize_features:
            sums_N1 = self.x_ND.abs().sum(dim=1, keepdim=True)
            self.x_ND = torch.where(sums_N1 > 0, self.x_ND / sums_N1, 0.0)

    def levels(self) -> dict[int, np.ndarray]:
        """[N, width] of the levels 1 .. L; the last are the logits."""
        config, last = self.config, len(self.config.fan_out)
        convolve = {"sage": self._sage, "gat": self._gat, "gcn": self._gcn}[config.model]
        activate = self._elu if config.model == "gat" else self._relu
        h, levels = self.x_ND, {}
        if config.input_projection:
            h = activate(h @ self.state["projection.weight"].T + self.state["projection.bias"])
        for layer in range(1, last + 1):
            out = convolve(f"convs.{layer - 1}.", h, layer == last)
            if config.residual:
                skip = self.state.get(f"skips.{layer - 1}.weight")
                out = out + (h if skip is None else h @ skip.T)
            if layer < last:
                out = activate(self._normalised(f"norms.{layer - 1}.", out))
            h = out
            levels[layer] = h.numpy()
        return levels

    def _sage(self, conv: str, h: Tensor, last: bool) -> Tensor:
        """W_self h_v + b + W_neigh mean(h_u)"""
        mean = self.A_NN @ h / self.A_NN.sum(dim=1, keepdim=True).clamp(min=1)
        own = h @ self.state[conv + "lin_self.weight"].T + self.state[conv + "lin_self.bias"]
        return own + mean @ self.state[conv + "lin_neigh.weight"].T

    def _gat(self, conv: str, h: Tensor, last: bool) -> Tensor:
        """Each head's softmax over the neighbours of LeakyReLU(a_source . z_u + a_destination . z_v)."""
        heads = self.config.out_heads if last else self.config.heads
        edges_NN = self.A_NN + (torch.eye(len(h)) if self.config.self_loops else 0)
        z_NHD = (h @ self.state[conv + "lin.weight"].T).reshape(len(h), heads, -1)
        outputs = []
        for head in range(heads):
            z = z_NHD[:, head]
            score = (z @ self.state[conv + "att_destination"][head])[:, None]
            score = score + (z @ self.state[conv + "att_source"][head])[None, :]
            score = torch.where(score > 0, score, score * self.config.negative_slope)
            share = edges_NN * score.exp()
            total = share.sum(dim=1, keepdim=True)
            outputs.append(torch.where(total > 0, share / total, 0.0) @ z)
        out = sum(outputs) / heads if last else torch.cat(outputs, dim=1)
        return out + self.state[conv + "bias"]

    def _gcn(self, conv: str, h: Tensor, last: bool) -> Tensor:
        """Symmetric: D^-1/2 A D^-1/2 with the weighted in-degrees D; mean: D^-1 A. With loops A has ones added."""
        matrix = self.W_NN + (torch.eye(len(h)) if self.config.self_loops else 0)
        degree = matrix.sum(dim=1)
        if self.config.normalization == "mean":
            matrix = matrix * torch.where(degree > 0, 1 / degree, 0.0)[:, None]
        else:
            factor = torch.where(degree > 0, degree**-0.5, 0.0)
            matrix = factor[:, None] * matrix * factor[None, :]
        return matrix @ h @ self.state[conv + "lin.weight"].T + self.state[conv + "bias"]

    def _normalised(self, norm: str, h: Tensor) -> Tensor:
        if self.config.norm == "none":
            return h
        if self.config.norm == "layer":
            mean, variance = h.mean(dim=1, keepdim=True), h.var(dim=1, correction=0, keepdim=True)
        else:
            mean, variance = self.state[norm + "running_mean"], self.state[norm + "running_var"]
        return (h - mean) / (variance + 1e-5).sqrt() * self.state[norm + "weight"] + self.state[norm + "bias"]

    @staticmethod
    def _relu(h: Tensor) -> Tensor:
        return torch.where(h > 0, h, 0.0)

    @staticmethod
    def _elu(h: Tensor) -> Tensor:
        return torch.where(h > 0, h, h.exp() - 1)
