"""The settings of the default search, each one an ablation of docs/recipe.md."""

from dataclasses import dataclass

RECIPE_VERSION = 6
"""Version of what the library's searches find: the default one and the paper's stages.

To be bumped by hand with any change of their results, were it in the last bit; `tests/replay` sees to that. Records of
experiments name the version they were made by. 6 descends in 8 steps instead of 30, takes group gradients of a quarter
of the rows, and has the surest stage of a search judged beside its end. 5 looks at candidates' predictions before it
asks, has some candidates in phi itself, leaves shifts of several outputs to the value function, and lets a
distribution evolve beside it. 4
remembers the 500 answers near the best one, asks by expected improvement up to fifty and has a start from inputs; 3
remembered 400 and went on up to a hundred. 2 is release 0.1.0, whose searches gave the same bits. 1 is the paper's
stages before their paths were observed at steps that all have in common.
"""


@dataclass(frozen=True)
class Recipe:
    """How the default search spends its queries.

    Attributes:
        starts: Query the ends of loss finetuning (plain and class-balanced, on the training data, and on the metric's
            own labels where these are visible) and go on from the best of them.
        start_steps: Steps of that loss finetuning.
        start_lr: Adam's first rate in it; the same as the rivals that finetune on a loss have.
        inputs: Query a phi that predicts as if BatchNorms had the statistics of the metric's inputs.
        shifts: The threshold of a single output is tuned first, and shifts of several outputs are among the candidates.
        whiten: Measure distances in phi by how much predictions change, instead of by coordinates.
        guided: A share of the candidates lies in the span of group-wise loss gradients (Eq. 3's idea).
        batch: Queries between two refits of the value function.
        candidates: Points the value function ranks for each batch, to first order.
        looks: About how many of these are predicted with, to be ranked again.
        spread: Deviation of candidates in phi itself while the trust region has its first radius.
        views: Whether the value is a function of what the metric sees of the predictions, or else of phi.
        descent: Steps down slopes of the value function's samples that propose candidates; 0 for random ones alone.
        improvement: Answers up to which candidates are chosen by expected improvement, and by Thompson samples after.
        evolution: Answers after which draws around a moving mean are an arm of their own.
        radius: First radius of the trust region, in units of whitened distance.
        smallest: Radius below which the region starts over.
        least: Share of the better arm's queries that the other arm gets at least.
        caution: Standard errors by which a point must beat the one returned so far to take its place; none, as what is
            returned is judged against luck and against the best start or threshold in the end.
        rows: Rows of the metric's inputs on which predictions, and their change with phi, are looked at.

    Example:
        >>> Recipe(whiten=False).batch
        5
        >>> Recipe(batch=0)
        Traceback (most recent call last):
        ...
        ValueError: batch is 0; expected at least 1: choose a larger one
    """

    starts: bool = True
    start_steps: int = 500
    start_lr: float = 0.5
    inputs: bool = True
    shifts: bool = True
    whiten: bool = True
    guided: bool = True
    batch: int = 5
    candidates: int = 200
    looks: int = 40
    spread: float = 0.6
    views: bool = True
    descent: int = 8
    improvement: int = 50
    evolution: int = 50
    radius: float = 0.25
    smallest: float = 0.02
    least: float = 0.25
    caution: float = 0.0
    rows: int = 1000

    def __post_init__(self) -> None:
        least = {
            "start_steps": 1,
            "batch": 1,
            "candidates": 2 * self.batch,
            "descent": 0,
            "rows": 1,
            "caution": 0,
            "looks": self.batch,
        }
        for name, bound in least.items():
            if not getattr(self, name) >= bound:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least {bound}: choose a larger one")
        if not self.start_lr > 0:
            raise ValueError(f"start_lr is {self.start_lr}; expected a positive rate: choose a larger one")
        if not 0 < self.smallest <= self.radius:
            raise ValueError(
                f"smallest is {self.smallest} and radius {self.radius}; expected positive radii, the smallest not "
                f"above the first: change either"
            )
        if not 0 < self.least <= 1:
            raise ValueError(f"least is {self.least}; expected a share above 0 and up to 1: choose another one")
