"""Following the value function: what it likes best among candidates near the best point is queried next."""

import torch
from torch import Tensor

from metricopt.core.ranks import rank_correlation
from metricopt.gaussian_process import Hyperparameters
from metricopt.search.archive import Archive
from metricopt.search.geometry import Geometry, euclidean
from metricopt.search.outlook import Outlook, measured
from metricopt.search.proposals import sparse_steps, steps_in_span, within
from metricopt.search.recipe import Recipe
from metricopt.search.view_gp import ViewGP, likeliest, squared_distances, view_gp
from metricopt.task.oracle import Oracle
from metricopt.task.views import RAW, View

_LEAST = 6  # answers a value function is fitted to
_MEASURE = 40  # queries after which the change of predictions with phi is measured anew
_REFIT = 25  # queries after which hyper-parameters are chosen anew
_SAME = 0.05  # of the candidates' usual squared distance to the nearest point answered: below it they are alike
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

    def __init__(self, oracle: Oracle, recipe: Recipe, *, landmarks: Tensor, generator: torch.Generator) -> None:
        self._oracle = oracle
        self._probe = oracle.probe
        self._recipe = recipe
        self._generator = generator
        self._landmarks = landmarks
        self._radius, self._won, self._lost = recipe.radius, 0, 0
        self._geometry = euclidean(oracle.dim)
        self._outlook: Outlook | None = None
        self._guide: tuple[Tensor, Tensor] | None = None
        self._seen: dict[str, Tensor] = {}
        self._like: Hyperparameters | None = None
        self._measured = self._fitted = -(10**9)
        self.view: View = self._views[0]
        self.value: ViewGP | None = None

    def pull(self, archive: Archive) -> None:
        """Fit the value function to all answers and query what its samples like best near the best point."""
        outlook = self._look(archive)
        if len(archive.known()[1]) < _LEAST:
            chosen = self._candidates(archive.best)[: self._recipe.batch]
        else:
            self.value = self._fit(archive)
            chosen = self._choose(archive.best, outlook, self.value)
        before, start = archive.best_cost, len(archive.costs)
        archive.observe(archive.best + self._geometry.plain(chosen), stage="value")
        if self.value is not None:
            self._note(self.value, outlook, chosen, archive.costs[start:])
        self._adjust(improved=archive.best_cost < before - 1e-4 * abs(before))

    def level(self, archive: Archive) -> float:
        """The lowest cost."""
        return archive.best_cost

    @property
    def _views(self) -> tuple[View, ...]:
        return self._probe.views if self._recipe.views else (RAW,)

    def _look(self, archive: Archive) -> Outlook:
        """What is shown around the best point; how it changes with phi is measured anew once in a while."""
        outlook, best, rows = self._outlook, archive.best, self._recipe.rows
        if outlook is None or len(archive.costs) - self._measured > _MEASURE:
            outlook, geometry = measured(self._probe, best, rows=rows)
            self._geometry = geometry if self._recipe.whiten else euclidean(self._probe.dim)
            self._measured = len(archive.costs)
        elif not torch.equal(outlook.centre, best):
            outlook = outlook.around(self._probe, best, rows=rows)
        if not self._recipe.views:  # the value is a function of phi then, in whitened coordinates
            outlook = Outlook(best.clone(), self._geometry.whitened(best[None]), self._geometry.to_whitened.T[:, None])
        self._outlook = outlook
        return outlook

    def _fit(self, archive: Archive) -> ViewGP:
        points, costs = archive.known()
        if len(costs) - self._fitted >= min(_REFIT, len(costs) // 4):
            views = self._views
            self.view = views[likeliest([self._features(v, points) for v in views], costs) if len(views) > 1 else 0]
            self._like, self._fitted = None, len(costs)
        value = view_gp(self._features(self.view, points), costs, like=self._like)
        self._like = value.hyperparameters
        return value

    def _features(self, view: View, points: Tensor) -> Tensor:
        """What is seen of the points answered so far, (n, features); what was seen before is remembered."""
        if not self._recipe.views:
            return self._geometry.whitened(points)
        known = self._seen.get(view.name, torch.zeros(0))
        if len(points) > len(known):
            fresh = points[len(known) :].split(32)
            parts = [view.features(self._probe.shown(some, rows=self._recipe.rows)) for some in fresh]
            self._seen[view.name] = torch.cat([known, *parts] if len(known) else parts)
        return self._seen[view.name]

    def _choose(self, best: Tensor, outlook: Outlook, value: ViewGP) -> Tensor:
        """As many whitened steps as are queried next: each the best of all candidates for one sample of the value."""
        recipe, steps = self._recipe, self._candidates(best)
        # From the mean itself to a fair draw: what is known is used, and what is not known is explored.
        heat = torch.linspace(0, 1, recipe.batch, dtype=torch.float64) if recipe.batch > 1 else torch.ones(1)
        if recipe.descent:
            here = outlook.features(self.view, torch.zeros(1, len(best)))[0]
            slopes = value.slopes(here, heat, self._generator)
            bound = 1.5 * self._radius
            ways = outlook.descend(self.view, slopes, self._geometry, bound=bound, iterations=recipe.descent)
            steps = torch.cat([*ways, steps])
        seen = outlook.features(self.view, self._geometry.plain(steps))
        fresh = _fresh(seen, value.features)
        steps, beliefs = steps[fresh], value.samples(seen[fresh], heat, self._generator)
        chosen: list[int] = []
        for belief in beliefs[: len(steps)]:
            belief[chosen] = torch.inf
            chosen.append(int(belief.argmin()))
        return steps[chosen]

    def _note(self, value: ViewGP, outlook: Outlook, chosen: Tensor, costs: Tensor) -> None:
        asked = outlook.features(self.view, self._geometry.plain(chosen[: len(costs)]))
        forecast = {"predicted": value(asked).tolist(), "true": costs.tolist(), "std": value.std(asked).tolist()}
        ledger = self._oracle.ledger
        ledger.note("forecast", {"first": len(ledger.queries) - len(costs), **forecast})

    def held_out_correlation(self, archive: Archive, *, folds: int = 5) -> float:
        """Rank correlation of value functions fitted to four fifths of the queries with the other fifth's answers."""
        points, costs = archive.known()
        if len(points) < 4 * folds:
            return 0.0
        seen = self._features(self.view, points)
        fold = torch.randperm(len(points), generator=self._generator) % folds
        predicted = torch.zeros_like(costs)
        for k in range(folds):
            kept = fold != k
            predicted[~kept] = view_gp(seen[kept], costs[kept])(seen[~kept])
        return rank_correlation(predicted, costs)

    def _candidates(self, best: Tensor) -> Tensor:
        count, geometry, generator = self._recipe.candidates, self._geometry, self._generator
        families = [sparse_steps(count // 2, self._probe.dim, generator)]
        for vectors, share in self._subspaces(best, geometry):
            if len(vectors):
                families.append(steps_in_span(vectors, count // share, generator))
        steps = within(self._radius, torch.cat(families), generator)
        return steps[torch.randperm(len(steps), generator=generator)]

    def _subspaces(self, best: Tensor, geometry: Geometry) -> list[tuple[Tensor, int]]:
        none = torch.zeros(0, self._probe.dim)
        gradients = geometry.gradient(self._gradients(best)) if self._recipe.guided else none
        shifts = geometry.to_whitened[:, self._probe.shift_coordinates].T if self._recipe.shifts else none
        ways = geometry.whitened(self._landmarks - best)
        return [(gradients, 4), (shifts, 6), (ways[ways.norm(dim=1) > 1e-4], 8)]

    def _gradients(self, best: Tensor) -> Tensor:
        """Group-wise loss gradients at the best point, computed anew only when it has moved."""
        if self._guide is None or not torch.equal(self._guide[0], best):
            self._guide = (best.clone(), self._probe.directions(best))
        return self._guide[1]

    def _adjust(self, *, improved: bool) -> None:
        self._won, self._lost = (self._won + 1, 0) if improved else (0, self._lost + 1)
        if self._won == 2:
            self._radius, self._won = min(_GROWTH * self._radius, _LARGEST), 0
        if self._lost == 3:
            self._radius, self._lost = self._radius / _GROWTH, 0
        if self._radius < self._recipe.smallest:
            self._radius = self._recipe.radius


def _fresh(seen: Tensor, known: Tensor) -> Tensor:
    """Which of the candidates do not look like a point that was answered before, (n,); their cost is known."""
    apart = squared_distances(seen, known).amin(1)
    return apart > _SAME * apart.median() if bool(apart.any()) else torch.ones(len(seen), dtype=torch.bool)
