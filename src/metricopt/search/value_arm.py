"""Following the value function: what it likes best among candidates near the best point is queried next."""

import torch
from torch import Tensor

from metricopt.core.ranks import rank_correlation
from metricopt.gaussian_process import Hyperparameters
from metricopt.search.archive import Archive
from metricopt.search.choosing import by_improvement, by_samples
from metricopt.search.geometry import Geometry, euclidean
from metricopt.search.memory import Memory
from metricopt.search.outlook import Outlook, measured
from metricopt.search.proposals import sparse_steps, steps_in_span, within
from metricopt.search.recipe import Recipe
from metricopt.search.transfer.keepsake import Keepsake
from metricopt.search.transfer.settings import CarriedSettings, settings_at_end
from metricopt.search.transfer.warm import WarmStart
from metricopt.search.view_gp import ViewGP, likeliest, view_gp
from metricopt.task.oracle import Oracle
from metricopt.task.views import RAW, View

_LEAST = 6  # answers a value function is fitted to
# Queries after which the change of predictions with phi, and gradients of the loss, are measured anew, and the share
# of all queries so far: they take as many forward passes as a dozen queries, and a search moves ever less.
_MEASURE, _MEASURE_SHARE = 40, 0.1
_REFIT = 25  # queries after which hyper-parameters are chosen anew
_SAME = 0.05  # of the candidates' usual squared distance to the nearest point answered: below it they are alike
_HOPES = torch.tensor([0.0, 0.5, 1.0, 2.0])  # standard deviations by which a candidate may turn out better
_GROWTH, _LARGEST = 1.6, 2.0  # of the trust region's radius


class ValueArm:
    """A Gaussian process over what the metric sees, in a trust region around the best point, by Thompson sampling.

    Attributes:
        value: The last value function, over features of `view`; None before the first fit.
        view: How the metric looks at outputs, as its answers tell.
        spent: Never: the region starts over once it has become too small.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> oracle, draw = Oracle(QuadraticTask(dim=3)), torch.Generator().manual_seed(0)
        >>> archive = Archive(oracle, 50)
        >>> archive.observe(torch.zeros(1, 3), stage="start")
        >>> arm = ValueArm(oracle, Recipe(), landmarks=torch.zeros(1, 3), generator=draw)
        >>> for _ in range(8):
        ...     arm.pull(archive)
        >>> bool(archive.best_cost < 0.1), arm.held_out_correlation(archive) > 0.8
        (True, True)
    """

    spent = False

    def __init__(
        self,
        oracle: Oracle,
        recipe: Recipe,
        *,
        landmarks: Tensor,
        generator: torch.Generator,
        warm: WarmStart | None = None,
        settings: CarriedSettings | None = None,
        keepsake: Keepsake | None = None,
    ) -> None:
        self._oracle = oracle
        self._probe = oracle.probe
        self._recipe = recipe
        self._generator = generator
        self._landmarks = landmarks
        self._warm, self._settings, self._keepsake = warm, settings, keepsake
        self._radius, self._won, self._lost = recipe.radius, 0, 0
        if settings is not None:
            self._radius = settings.radius(recipe)
        self._geometry = euclidean(oracle.dim)
        self._outlook: Outlook | None = None
        self._guide: Tensor | None = None
        self._memory = Memory(self._views)
        self._like: Hyperparameters | None = None
        self._measured = self._fitted = -(10**9)
        self.view: View = self._views[0]
        self.value: ViewGP | None = None

    def pull(self, archive: Archive) -> None:
        """Fit the value function to the answers and query what its samples like best near the best point."""
        outlook = self._look(archive)
        self._remember(archive)
        own: ViewGP | None = None
        if len(self._memory.costs) < _LEAST:
            chosen = self._candidates(archive.best)[: self._recipe.batch]
        else:
            own = self.value = self._fit()
            if self._warm is not None and self._warm.holds:
                self.value = self._warm.informed(self._memory, self.view, own)
            chosen = self._choose(archive.best, outlook, self.value)
        before, start = archive.best_cost, len(archive.costs)
        archive.observe(archive.best + self._geometry.plain(chosen), stage="value")
        if self.value is not None and not archive.pending():  # workers have not answered yet
            self._note(self.value, outlook, chosen, archive.costs[start:])
        if own is not None and self._warm is not None and self._warm.holds:
            archive.wait()  # what was carried is judged by these answers, whoever gives them
            self._judge(own, archive, start, gained=archive.best_cost < before)
        self._adjust(improved=archive.best_cost < before - 1e-4 * abs(before))

    def begin(self, archive: Archive) -> None:
        """Try what another search has learnt, if anything was carried here."""
        if self._warm is None or not archive.left:
            return
        self._look(archive)
        self._warm.begin(archive, self._around, rows=self._recipe.rows, batch=self._recipe.batch)
        self._guide = None  # gradients where the carried value likes it are not those of the best point

    def _around(self, centre: Tensor) -> Tensor:
        return centre + self._geometry.plain(self._candidates(centre))

    def _judge(self, own: ViewGP, archive: Archive, start: int, *, gained: bool) -> None:
        """Whether forecasts of the last answers, by what was carried too, hold beside those without it."""
        points, costs = archive.points[start:], archive.costs[start:]
        if self._warm is None or self.value is None or not len(costs):
            return
        seen = self.view.features(self._probe.shown(points, rows=self._recipe.rows))
        self._warm.judge(own.forecast(seen), self.value.forecast(seen), costs, gained=gained)

    def level(self, archive: Archive) -> float:
        """The lowest cost."""
        return archive.best_cost

    def blocked(self, archive: Archive) -> bool:  # noqa: ARG002
        """Never: it goes on with the answers there are."""
        return False

    @property
    def _views(self) -> tuple[View, ...]:
        return self._probe.views if self._recipe.views else (RAW,)

    def _look(self, archive: Archive) -> Outlook:
        """What is shown around the best point; how it changes with phi is measured anew once in a while."""
        outlook, best, rows = self._outlook, archive.best, self._recipe.rows
        made = len(archive.costs)
        if outlook is None or made - self._measured > max(_MEASURE, _MEASURE_SHARE * self._measured):
            self._guide = None
            outlook, geometry = measured(self._probe, best, rows=rows)
            self._geometry = geometry if self._recipe.whiten else euclidean(self._probe.dim)
            self._measured = made
        elif not torch.equal(outlook.centre, best):
            outlook = outlook.around(self._probe, best, rows=rows)
        if not self._recipe.views:  # the value is a function of phi then, in whitened coordinates
            outlook = Outlook(best.clone(), self._geometry.whitened(best[None]), self._geometry.to_whitened.T[:, None])
        self._outlook = outlook
        return outlook

    def _remember(self, archive: Archive) -> None:
        """Take in what was answered since the last pull."""
        for points, outputs, costs in archive.fresh():
            self._memory.add(points, outputs if self._recipe.views else points[:, None], costs)
            if self._keepsake is not None:
                self._keepsake.add(points, outputs, costs)

    def _fit(self) -> ViewGP:
        memory = self._memory
        if memory.taken - self._fitted >= min(_REFIT, len(memory.costs) // 4):
            views = self._views
            seen = [(memory.features(view), memory.squares(view)) for view in views]
            self.view = views[likeliest(seen, memory.costs) if len(views) > 1 else 0]
            memory.forget(self.view)
            self._like, self._fitted = None, memory.taken
        if self._settings is not None and self._settings.serve(len(memory.costs)):
            self._like = self._settings.hyperparameters(memory.squares(self.view), memory.costs)
        value = self._fitted_to(slice(None), like=self._like)
        self._like = value.hyperparameters
        return value

    def _fitted_to(self, chosen: Tensor | slice, *, like: Hyperparameters | None = None) -> ViewGP:
        """The value function of some of the points remembered."""
        memory = self._memory
        # In whitened coordinates of phi distances change with every measurement of the geometry.
        squares = memory.squares(self.view)[chosen][:, chosen] if self._recipe.views else None
        return view_gp(self._seen(chosen), memory.costs[chosen], like=like, squares=squares)

    def _choose(self, best: Tensor, outlook: Outlook, value: ViewGP) -> Tensor:
        """As many whitened steps as are queried next, of the most promising ones, whose predictions were looked at."""
        recipe = self._recipe
        # From the mean itself to a fair draw: what is known is used, and what is not known is explored.
        heat = torch.linspace(0, 1, recipe.batch, dtype=torch.float64) if recipe.batch > 1 else torch.ones(1)
        steps = self._promising(best, outlook, value, heat)
        seen = self._looked_at(best, outlook, steps)
        apart, answered = value.apart(seen), len(self._memory.costs)  # what was carried comes after these
        fresh = _fresh(apart[:, :answered])
        steps, seen, apart = steps[fresh], seen[fresh], apart[fresh]
        if self._memory.taken < recipe.improvement:
            mean, covariance = value.joint(seen, apart=apart)
            lowest, noise = float(value(value.features[:answered]).min()), float(value.hyperparameters.noise_variance)
            return steps[by_improvement(mean, covariance, lowest=lowest, noise=noise, count=recipe.batch)]
        return steps[by_samples(value.samples(seen, heat, self._generator, apart=apart))]

    def _promising(self, best: Tensor, outlook: Outlook, value: ViewGP, heat: Tensor) -> Tensor:
        """Whitened steps that are lowest to first order, less none, some or all of the doubt about them."""
        recipe, steps = self._recipe, self._candidates(best)
        if recipe.descent:
            here = outlook.features(self.view, torch.zeros(1, len(best)))[0]
            slopes = value.slopes(here, heat, self._generator)
            bound = 1.5 * self._radius
            ways = outlook.descend(self.view, slopes, self._geometry, bound=bound, iterations=recipe.descent)
            steps = torch.cat([*ways, steps])
        mean, std = value.forecast(outlook.features(self.view, self._geometry.plain(steps)))
        hopes = mean - _HOPES[:, None].to(std) * std  # (hopes, n)
        return steps[hopes.argsort(1)[:, : max(recipe.batch, recipe.looks // len(_HOPES))].unique()]

    def _looked_at(self, best: Tensor, outlook: Outlook, steps: Tensor) -> Tensor:
        """What the metric would see after whitened steps: wide ones lead to where the first order says little."""
        if not self._recipe.views:
            return outlook.features(self.view, self._geometry.plain(steps))
        return self.view.features(self._probe.shown(best + self._geometry.plain(steps), rows=self._recipe.rows))

    def _note(self, value: ViewGP, outlook: Outlook, chosen: Tensor, costs: Tensor) -> None:
        asked = outlook.features(self.view, self._geometry.plain(chosen[: len(costs)]))
        mean, std = value.forecast(asked)
        forecast = {"predicted": mean.tolist(), "true": costs.tolist(), "std": std.tolist()}
        ledger = self._oracle.ledger
        ledger.note("forecast", {"first": len(ledger.queries) - len(costs), **forecast})

    def end(self, archive: Archive) -> None:
        """Leave what the next search can begin with."""
        self._remember(archive)
        if self._keepsake is not None and self.value is not None:
            usual = self._memory.squares(self.view)
            self._keepsake.settings = settings_at_end(self.value.hyperparameters, usual, self._radius)

    def held_out_correlation(self, archive: Archive, *, folds: int = 5) -> float:
        """Rank correlation of value functions fitted to four fifths of what is remembered with the other fifth."""
        self._remember(archive)
        memory = self._memory
        memory.forget(self.view)
        if len(memory.costs) < 4 * folds:
            return 0.0
        fold = torch.randperm(len(memory.costs), generator=self._generator) % folds
        predicted = torch.zeros_like(memory.costs)
        for k in range(folds):
            kept, left_out = (fold != k).nonzero()[:, 0], (fold == k).nonzero()[:, 0]
            value = self._fitted_to(kept)
            predicted[left_out] = value(self._seen(left_out))
        return rank_correlation(predicted, memory.costs)

    def _seen(self, chosen: Tensor | slice) -> Tensor:
        features = self._memory.features(self.view)[chosen]
        return features if self._recipe.views else self._geometry.whitened(features)

    def _candidates(self, best: Tensor) -> Tensor:
        count, geometry, generator = self._recipe.candidates, self._geometry, self._generator
        families = [sparse_steps(count // 2, self._probe.dim, generator)]
        for vectors, share in self._subspaces(best, geometry):
            if len(vectors):
                families.append(steps_in_span(vectors, count // share, generator))
        steps = torch.cat([within(self._radius, torch.cat(families), generator), self._plain_steps(count // 2)])
        return steps[torch.randperm(len(steps), generator=generator)]

    def _plain_steps(self, count: int) -> Tensor:
        """Steps in phi itself, whitened: directions that change predictions much, which whitening makes rare."""
        size = self._recipe.spread * self._radius / self._recipe.radius
        sizes = size * torch.rand(count, 1, generator=self._generator)
        return self._geometry.whitened(sizes * torch.randn(count, self._probe.dim, generator=self._generator))

    def _subspaces(self, best: Tensor, geometry: Geometry) -> list[tuple[Tensor, int]]:
        none = torch.zeros(0, self._probe.dim)
        gradients = geometry.gradient(self._gradients(best)) if self._recipe.guided else none
        shifts = geometry.to_whitened[:, self._probe.shift_coordinates].T if self._recipe.shifts else none
        ways = geometry.whitened(self._landmarks - best)
        return [(gradients, 4), (shifts, 6), (ways[ways.norm(dim=1) > 1e-4], 8)]

    def _gradients(self, best: Tensor) -> Tensor:
        """Group-wise loss gradients near the best point."""
        if self._guide is None:
            self._guide = self._probe.directions(best)
        return self._guide

    def _adjust(self, *, improved: bool) -> None:
        self._won, self._lost = (self._won + 1, 0) if improved else (0, self._lost + 1)
        if self._won == 2:
            self._radius, self._won = min(_GROWTH * self._radius, _LARGEST), 0
        if self._lost == 3:
            self._radius, self._lost = self._radius / _GROWTH, 0
        if self._radius < self._recipe.smallest:
            self._radius = self._recipe.radius


def _fresh(apart: Tensor) -> Tensor:
    """Which candidates, so far from each point remembered (n, points), do not look like any of them, (n,)."""
    nearest = apart.amin(1)
    return nearest > _SAME * nearest.median() if bool(nearest.any()) else torch.ones(len(nearest), dtype=torch.bool)
