"""Mutation testing of what makes sensitivities, noise scales and compositions.

    python benchmarks/mutation/run.py [--modules relation queries ...] [--again]

Every mutant is a module with one small change (`mutants.py`). A process that has loaded privfit and what it
depends on is forked for each, loads the module anew with the change, and all that imports it, and runs the
tests of the module until one fails. A mutant that no quick test kills faces the slow ones too. One that takes
several times as long as the tests without a change, or too much memory, counts as killed.

Writes ``results/<module>.json`` with all outcomes, so that a run can be broken off and taken up, and
``results/summary.csv``. Mutants are known again by what they change, and are not run again; after changes to
tests, ``--again`` runs those survivors anew that stand without a reason. A survivor has to stand in
``survivors.csv`` with the reason why it is no defect; otherwise the run exits with 1.
"""

import argparse
import csv
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import os
import resource
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType
from typing import TypeAlias

from importers import all_modules, importers
from mutants import Mutant, mutants, mutated

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RESULTS = HERE / "results"
REASONS = HERE / "survivors.csv"

PRELOADED = (
    "dp_accounting.pld.privacy_loss_distribution", "hypothesis", "narwhals", "numba", "numpy.testing",
    "opendp.measurements", "pandas", "pytest", "scipy.integrate", "scipy.optimize", "scipy.special",
    "scipy.stats", "scipy.spatial.distance", "scipy.fft", "sklearn.base",
)  # fmt: skip

OPTIONS = ("-x", "-q", "--no-header", "-p", "no:cacheprovider")

MEMORY = 8 * 2**30
"""Address space of a mutant, in bytes."""

PATIENCE = 4.0
"""How much longer than its processor time a mutant may take: one may wait for ever for what never comes."""


@dataclass(frozen=True)
class Suite:
    """The tests that a module is held to.

    Parameters
    ----------
    quick : tuple of str
        Arguments of pytest, those first that kill most.
    slow : tuple of str
        For what the quick ones leave alive.
    free : tuple of str
        Functions that may return anything, and are not changed: where a search begins whose result is
        verified, how fine a grid is and where it ends when errors and what lies beyond are added.
    """

    quick: tuple[str, ...]
    slow: tuple[str, ...] = ()
    free: tuple[str, ...] = ()

    def mutants(self, source: str) -> list[Mutant]:
        """Return the changes of a module's source."""
        return [mutant for mutant in mutants(source) if mutant.function.split(".")[0] not in self.free]


def _tests(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/{name}.py" for name in names)


_DRAWS = _tests(
    "privacy/test_noise", "privacy/test_radial", "privacy/test_mechanisms", "privacy/test_repeated"
)
_PURE_DRAWS = _tests("privacy/test_radial", "privacy/test_laplace")
_SELECTION = "tests/privacy/test_selection.py"
_SLOW_DRAWS = (
    "have_their_law or the_law_is_that or neighbouring_answers or gamma_norm or cube_keeps or norm_is_gamma "
    "or planned_scale or smaller_off"
)
_LEDGER = _tests("privacy/test_ledger_chain", "privacy/test_ledger")
_SLOW_LEDGER = "processes or crash or remains_can or disk"
_COMPOSED = _tests("privacy/test_composition", "privacy/test_budget", "privacy/test_curves")
_SLOW_COMPOSED = "upper_bound_and_tight or beats_basic or exceeds_delta_over"
_SAMPLED = _tests("privacy/test_sampling")
_FEW_LOSSES = "(concomitant and encoded) or attain or rounding"
_SLOW_SAMPLED = "far_out or extreme_ratios or agree_with_dp or monotone or other_releases"


def _suite(files: tuple[str, ...], slow: str, free: tuple[str, ...] = ()) -> Suite:
    return Suite((*files, "-k", f"not ({slow})"), (*files, "-k", slow), free)


_STEPS = (
    (*_SAMPLED, "-k", f"not ({_SLOW_SAMPLED} or calibration)"),
    (*_SAMPLED, "-k", f"{_SLOW_SAMPLED} or delta_is_too_small"),
)
_GRID = (
    (
        *_SAMPLED,
        "-k",
        "one_step_is_an_upper_bound_and_tight or several or beside or reference or without_sampling",
    ),
    (*_SAMPLED, "-k", "any_window or is_a_probability or far_out or extreme_ratios or agree_with_dp"),
)

_DRAWN = (
    *_tests("procedures/test_exponential"),
    "-k",
    "within_epsilon or room_for or worst_neighbours or private_median or saturates",
)
SUITES = {
    "privacy.relation": Suite(_tests("privacy/test_relation")),
    "problem.queries": Suite(
        _tests("problem/test_queries"),
        (*_tests("problem/test_turned_sums", "problem/test_neighbours"), "-k", _FEW_LOSSES),
    ),
    "problem.objective": Suite(
        _tests("problem/test_objective", "problem/test_queries"),
        (
            *_tests("problem/test_neighbours", "problem/test_classes", "problem/test_turned_sums"),
            "-k",
            _FEW_LOSSES,
        ),
    ),
    "problem.oracle": Suite(
        _tests("problem/test_oracle", "problem/test_procedure", "problem/test_matrices_together"),
        _tests("problem/test_units"),
    ),
    "problem.perturb": Suite(_tests("problem/test_oracle", "problem/test_procedure")),
    "problem.query_kernels": Suite(
        _tests("problem/test_matrices_together", "problem/test_kernels", "problem/test_classes"),
        _tests(
            "problem/test_coded_rows", "problem/test_oracle", "solvers/test_counts", "solvers/test_widths"
        ),
    ),
    "problem.totals": Suite(_tests("problem/test_units", "problem/test_matrices_together")),
    "problem.schedule": Suite(_tests("problem/test_plan", "problem/test_oracle")),
    "problem.turning": Suite(_tests("problem/test_turned_sums")),
    "problem.steep": Suite(
        (*_tests("solvers/test_steep_rows"), "-k", "not (intervals or solved or others or counts or budget)"),
        (*_tests("problem/test_neighbours", "problem/test_units"), "-k", "slopes_are_held or steep_rows"),
    ),
    "problem.kept": Suite(_tests("problem/test_kept")),
    "privacy.steps": _suite((*_tests("privacy/test_steps"), *_DRAWS), _SLOW_DRAWS),
    "privacy.mechanisms": _suite((_DRAWS[2], _DRAWS[3], _DRAWS[0]), _SLOW_DRAWS),
    "privacy.pure_mechanisms": _suite((*_PURE_DRAWS, _SELECTION), _SLOW_DRAWS),
    "privacy.samplers": _suite((*_DRAWS, *_PURE_DRAWS[1:], _SELECTION), _SLOW_DRAWS),
    "privacy.noise": _suite((*_DRAWS, *_PURE_DRAWS[1:], _SELECTION), _SLOW_DRAWS),
    "privacy.repeated": _suite(_DRAWS[-1:], _SLOW_DRAWS),
    "privacy.budget": _suite(_COMPOSED[1:], _SLOW_COMPOSED),
    "privacy.curves": _suite(_COMPOSED[::-1], _SLOW_COMPOSED),
    "privacy.composition": Suite(
        (*_COMPOSED, *_tests("privacy/test_filters"), "-k", f"not ({_SLOW_COMPOSED})"),
        (*_COMPOSED, *_SAMPLED, "-k", f"{_SLOW_COMPOSED} or test_sampling"),
    ),
    "privacy.filters": Suite(_tests("privacy/test_filters")),
    "privacy.allowance": Suite(_tests("privacy/test_allowance", "problem/test_oracle")),
    "privacy.calibrate": Suite((*_SAMPLED, "-k", "calibration"), free=("_first_guess", "_crossing")),
    "privacy.sampling": Suite(*_STEPS, free=("clt_mu", "_edge", "_interval", "_outline")),
    "privacy.loss_grid": Suite(*_GRID, free=("tilt_towards", "_thinned")),
    "privacy.entries": _suite(_LEDGER, _SLOW_LEDGER),
    "privacy.chain": _suite(_LEDGER, _SLOW_LEDGER),
    "privacy.ledger_file": _suite(_LEDGER, _SLOW_LEDGER),
    "privacy.ledger": _suite(_LEDGER[::-1], _SLOW_LEDGER),
    "privacy.spends": _suite(_LEDGER[::-1], _SLOW_LEDGER),
    "losses.means": Suite(_tests("losses/test_means")),
    "losses.typical": Suite(_tests("losses/test_typical")),
    "inference.controls": _suite(
        _tests("inference/test_controls"), "given_up or shows_they or hides_nothing"
    ),
    "inference.cut_levels": _suite(_tests("inference/test_cut_levels"), "wrong_interval or keep_their"),
    "inference.cut_numbers": Suite(
        (
            *_tests("inference/test_cut_numbers", "inference/test_cut_numbers_by_hand"),
            "-k",
            "not (wrong_interval or keep_their)",
        )
    ),
    "inference.cut_counts": _suite(_tests("inference/test_cut_counts"), "vary_more"),
    "inference.density_slope": Suite(_tests("inference/test_density_slope")),
    "inference.sandwich": Suite(_tests("inference/test_sandwich")),
    "inference.found": Suite(_tests("inference/test_sandwich")),
    "inference.ends": _suite(_tests("inference/test_ends"), "without_events or has_not"),
    "inference.recoded": _suite(_tests("inference/test_recoded"), "cover_and or every_class"),
    "procedures.clipped_gradient": Suite(_tests("procedures/test_clipped_gradient")),
    "problem.place_kernels": _suite(
        _tests("procedures/test_column_places"), "neither_too_small", free=("_middle", "_near")
    ),
    "procedures.column_places": _suite(_tests("procedures/test_column_places"), "neither_too_small"),
    "solvers.count_tail": Suite(_tests("solvers/test_count_tail")),
    "solvers.hidden_tail": Suite(_tests("solvers/test_hidden_tail")),
    "solvers.raised_counts": _suite(_tests("solvers/test_raised_counts"), "intervals_of"),
    "solvers.tails": Suite(_tests("solvers/test_tails")),
    "solvers.histogram": Suite(
        (*_tests("solvers/test_histogram", "solvers/test_counting"), "-k", "not twenty_thousand"),
        _tests("solvers/test_norms", "solvers/test_sizes"),
    ),
    "solvers.far_levels": _suite(_tests("solvers/test_far_levels"), "intervals_of"),
    "solvers.column_ranges": _suite(
        _tests("solvers/test_column_ranges", "solvers/test_column_reach", "solvers/test_column_look"),
        "noise_alone",
    ),
    "solvers.column_look": Suite(_tests("solvers/test_column_look")),
    "solvers.looks": Suite(_tests("solvers/test_residual_bounds")),
    "estimators.scales": Suite(_tests("formula/test_formula_scales", "estimators/test_scales")),
    "estimators.reserved": Suite(
        _tests("estimators/test_reservation"), _tests("formula/test_formula_scales", "estimators/test_scales")
    ),
    "procedures.moments": Suite(_tests("procedures/test_moments"), _tests("solvers/test_comparators")),
    "procedures.tree": Suite(_tests("procedures/test_tree")),
    "procedures.differences": Suite(_tests("procedures/test_differences")),
    "procedures.online_to_batch": Suite(
        (
            *_tests("procedures/test_online_to_batch"),
            "-k",
            "by_hand or public_facts or rounding_of or rounds_are",
        ),
        (*_tests("procedures/test_online_to_batch"), "-k", "replacing or flag_a7 or the_ridge or flag_a4"),
    ),
    "procedures.noisy_sgd": Suite(
        _tests("procedures/test_walks"), _tests("solvers/test_sampled", "solvers/test_constants")
    ),
    "procedures.random_round": Suite(
        _tests("procedures/test_walks"), _tests("solvers/test_sampled", "solvers/test_constants")
    ),
    "procedures.minimise": Suite(
        _tests(
            "procedures/test_minimise_bounds",
            "procedures/test_certified_minimiser",
            "procedures/test_minimise",
        ),
        _tests("procedures/test_objective_perturbation", "solvers/test_perturbation"),
    ),
    "procedures.output_perturbation": Suite(
        _tests("procedures/test_minimise"), _tests("solvers/test_perturbation")
    ),
    "procedures.objective_perturbation": Suite(
        _tests("procedures/test_objective_perturbation"), _tests("solvers/test_perturbation")
    ),
    "problem.coded_moments": Suite(
        (*_tests("problem/test_matrices_together"), "-k", "both_sums"),
        (*_tests("problem/test_coded_rows"), "-k", "within_the_bound_on_rounding or several_classes"),
    ),
    "procedures.score": Suite(_tests("procedures/test_score"), _DRAWN),
    "procedures.exponential_candidates": Suite(
        _tests("procedures/test_score"),
        (*_tests("procedures/test_exponential"), "-k", "selected_with or (selection and epsilon)"),
    ),
    "procedures.exponential_draw": Suite(_tests("procedures/test_score"), _DRAWN),
    "inference.combine": Suite(
        _tests("inference/test_combine"),
        (
            *_tests("inference/test_noise_covariance", "inference/test_agreement"),
            "-k",
            "iterate or names_the",
        ),
    ),
    "inference.agreement": Suite(
        (
            *_tests("inference/test_limits_of_agreement", "inference/test_agreement"),
            "-k",
            "not (meat or norm or quantile or strong)",
        ),
    ),
    "inference.arrival": Suite(
        (
            *_tests(
                "inference/test_limits_of_arrival",
                "inference/test_arrival",
                "inference/test_noise_covariance",
            ),
            "-k",
            "limits or far_off or a_way or the_way_that or of_the_way or hangs_on or along_a_level",
        ),
    ),
    "problem.slopes": Suite(_tests("problem/test_slopes")),
    "problem.clipped_kernels": _suite(_tests("procedures/test_clipped_gradient"), "noise_is_neither"),
    "problem.groups": Suite(
        (*_tests("data/test_lanes"), "-k", "dot_products"),
        (*_tests("problem/test_kernels"), "-k", "gradient_matches or gradient_loses or gradients_of_wide"),
    ),
    "problem.products": Suite(_tests("problem/test_products")),
    "solvers.clipped": Suite(
        _tests("solvers/test_clipped"),
        (*_tests("solvers/test_comparators"), "-k", "clipping_that or arguments"),
    ),
    "solvers.geometry": Suite(_tests("solvers/test_released_geometry"), _tests("solvers/test_geometry")),
    "solvers.norms": _suite(_tests("solvers/test_norms"), "in_a_simulation or hardly_ever"),
    "solvers.residual_bounds": Suite(_tests("solvers/test_looks_by_hand", "solvers/test_pure_looks")),
    "solvers.choice": _suite(_tests("solvers/test_choice"), "a_result or a_plan or a_ledger or learned"),
    "solvers.counts": _suite(_tests("solvers/test_counts"), "generous or whatever or nearly_all"),
    "solvers.slack": Suite(_tests("solvers/test_slack")),
    "solvers.widths": Suite(_tests("solvers/test_looks_by_hand", "solvers/test_pure_looks")),
    "solvers.exposures": Suite(_tests("solvers/test_exposures")),
    "data.declared": Suite(_tests("data/test_declared"), _tests("data/test_columns", "data/test_check")),
    "data.exposure": Suite(_tests("data/test_exposure")),
    "inference.points_apart": Suite(_tests("inference/test_points_apart")),
    "inference.curved_rows": _suite(_tests("inference/test_curved_rows"), "of_a_fit"),
    "solvers.pure_looks": Suite(_tests("solvers/test_pure_looks")),
    "solvers.whitened_perturbation": _suite(
        _tests("solvers/test_whitened_by_hand", "solvers/test_whitened_perturbation"),
        "cover or rare_events or errors_from_noise or few_positives or linear_term",
    ),
    "solvers.perturbation_rows": Suite(_tests("solvers/test_perturbation_rows")),
    "solvers.sizes": _suite(_tests("solvers/test_sizes"), "in_a_simulation"),
    "solvers.damping": Suite(
        (
            *_tests("solvers/test_newton"),
            "-k",
            "damp or self_concordant_step or two_step_solves or (backtracking and not converge) or arguments",
        )
    ),
    "solvers.matrix_shares": Suite(_tests("solvers/test_matrix_shares")),
    "solvers.self_concordance": Suite(
        _tests("solvers/test_self_concordance"), (*_tests("solvers/test_newton"), "-k", "conversions")
    ),
    "solvers.spacing": Suite(_tests("solvers/test_spacing")),
    "solvers.newton": Suite(
        (
            *_tests("solvers/test_newton_steps", "solvers/test_newton", "solvers/test_row_bound"),
            "-k",
            "newton_steps or arguments or budgeting or source_at or nearly_all or unspent or many_releases",
        )
    ),
    "solvers.drawn": Suite(
        _tests("solvers/test_drawn_matrices"),
        (
            *_tests("inference/test_drawn", "solvers/test_geometry"),
            "-k",
            "nearer or equal_eigenvalues or closer_to",
        ),
    ),
    "solvers.row_bound": Suite(
        (
            *_tests("solvers/test_row_bound", "solvers/test_matrix_shares", "solvers/test_solvers"),
            "-k",
            "(bound and not intervals_of and not a_fit_asks) or weighted_down or in_full or small_bread",
        ),
    ),
    "data.encode": Suite(
        _tests("data/test_encode"), _tests("data/test_rows", "data/test_design", "data/test_covariates")
    ),
    "procedures.landscape": Suite(
        _tests("procedures/test_landscape"),
        _tests("procedures/test_minimise_bounds", "procedures/test_certified_minimiser"),
    ),
    "procedures.tangent_boxes": Suite(
        _tests("procedures/test_boxes"), _tests("procedures/test_tangent_boxes")
    ),
    "procedures.regularised_draw": Suite(
        _tests("procedures/test_regularised_draw"),
        (
            *_tests("procedures/test_draw_rounding", "procedures/test_exponential"),
            "-k",
            "refused or leaves_room or equality_for",
        ),
    ),
    "problem.plan": Suite(_tests("problem/test_plan"), _tests("problem/test_procedure")),
    "problem.rows": Suite(_tests("problem/test_rows", "problem/test_procedure")),
    "estimators.counting": Suite(_tests("estimators/test_counting")),
    "auditing.scores": Suite(_tests("auditing/test_scores", "auditing/test_bounds")),
    "auditing.compare": Suite(_tests("auditing/test_scores", "auditing/test_bounds")),
    "data.clamp": Suite(
        _tests("data/test_clamp"),
        (*_tests("losses/test_schweppe", "data/test_source"), "-k", "not definition and not close"),
    ),
    "data.caps": Suite(_tests("data/test_caps")),
    "data.basis_norms": Suite(
        _tests("data/test_basis_norms"),
        (*_tests("data/test_caps", "data/test_coded"), "-k", "bound or norms or coordinates"),
    ),
    "data.shares": Suite(
        _tests("data/test_shares", "data/test_kept_units"),
        (*_tests("data/test_columns"), "-k", "identifiers"),
    ),
    "data.identifiers": Suite(
        _tests("data/test_shares", "data/test_kept_units"),
        (*_tests("data/test_columns"), "-k", "identifiers"),
    ),
    "data.gathering": Suite(_tests("data/test_kept_units")),
    "data.shuffle": Suite(_tests("data/test_kept_units")),
    "data.reduction": Suite(
        _tests("data/test_reduction"), (*_tests("data/test_source"), "-k", "summation_error or sum")
    ),
    "problem.share_kernels": Suite(
        (*_tests("problem/test_kernels"), "-k", "counted or adds_its_share"),
        (
            *_tests("solvers/test_norms", "solvers/test_sizes", "solvers/test_counts", "solvers/test_widths"),
            *_tests("problem/test_queries"),
            "-k",
            "shares_are or bounds_of",
        ),
    ),
}
"""Modules and their tests, the most important first."""


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads one module with its change."""

    def __init__(self, name: str, path: str, number: int | None) -> None:
        super().__init__(name, path)
        self._number = number

    def get_code(self, fullname: str) -> CodeType | None:
        source = Path(self.path).read_text(encoding="utf-8")
        if self._number is None:
            return super().get_code(fullname)
        return compile(mutated(source, self._number), self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, module: str, number: int | None) -> None:
        self._module, self._number = module, number

    def find_spec(self, fullname, path=None, target=None):  # noqa: ARG002 -- the protocol's signature
        if fullname != self._module:
            return None
        place = str(path_of(fullname))
        loader = _Loader(fullname, place, self._number)
        return importlib.util.spec_from_file_location(fullname, place, loader=loader)


def path_of(module: str) -> Path:
    return ROOT / "src" / Path(*module.split(".")).with_suffix(".py")


def run_tests(module: str, number: int | None, arguments: tuple[str, ...], seconds: float) -> bool:
    """Return whether the tests pass, in a fork of this process with so much processor time."""
    child = os.fork()
    if child == 0:
        _in_child(module, number, arguments, seconds)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def _in_child(module: str, number: int | None, arguments: tuple[str, ...], seconds: float) -> None:
    code = 3
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.setitimer(signal.ITIMER_REAL, PATIENCE * seconds)
        os.chdir(ROOT)
        os.environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT / "src")}
        _forget(module)
        sys.meta_path.insert(0, _Finder(module, number))
        if number is not None:
            sys.stdout = sys.stderr = io.StringIO()
            _compile_anew(module)
        import pytest

        code = int(pytest.main([*OPTIONS, *arguments]))
    except BaseException as error:
        print(repr(error), file=sys.__stderr__)
    finally:
        sys.stdout.flush()
        os._exit(code)


def _forget(module: str) -> None:
    """Have a module loaded anew, and all that imports it."""
    for name in importers(ROOT / "src", module):
        del sys.modules[name]
        package, _, last = name.rpartition(".")
        if package in sys.modules:
            delattr(sys.modules[package], last)


def _compile_anew(module: str) -> None:
    """Have loops over stored rows compiled with a module's change, not taken from Numba's cache.

    They are the module's own, or others' in which functions of it are inlined.
    """
    source = path_of(module).read_text(encoding="utf-8")
    if "row_types import" in source or 'inline="always"' in source:
        importlib.import_module("privfit.data.row_types")._OPTIONS["cache"] = False


def judge(module: str, suite: Suite, mutant: Mutant, limits: tuple[float, float]) -> str:
    """Return "killed" or "survived"."""
    for arguments, seconds in zip((suite.quick, suite.slow), limits, strict=True):
        if arguments and not run_tests(module, mutant.number, arguments, seconds):
            return "killed"
    return "survived"


Key: TypeAlias = tuple[str, str, str, str]


def identified(found: list[Mutant], source: list[str]) -> list[tuple[Mutant, Key]]:
    """Return mutants with what they are known by when lines have moved.

    Where a line has the same expression twice, the second one's change is known by a number.
    """
    seen: Counter[Key] = Counter()
    keys = []
    for mutant in found:
        key = mutant.function, " ".join(source[mutant.line - 1].split()), mutant.before, mutant.after
        seen[key] += 1
        keys.append(key if seen[key] == 1 else (*key[:3], f"{key[3]} [{seen[key]}]"))
    return list(zip(found, keys, strict=True))


def limits_of(module: str, suite: Suite) -> tuple[float, float]:
    """Return processor times allowed to mutants, from the tests without a change, which have to pass."""
    allowed = []
    for arguments in (suite.quick, suite.slow):
        begun = resource.getrusage(resource.RUSAGE_CHILDREN)
        if arguments and not run_tests(module, None, arguments, 600.0):
            sys.exit(f"{module}: the tests fail without a change")
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        allowed.append(5.0 + 4.0 * (ended.ru_utime + ended.ru_stime - begun.ru_utime - begun.ru_stime))
    return allowed[0], allowed[1]


def run_module(name: str, suite: Suite, options: argparse.Namespace) -> None:
    module = f"privfit.{name}"
    path = RESULTS / f"{name}.json"
    source = path_of(module).read_text(encoding="utf-8")
    lines = source.splitlines()
    known = {}
    if path.exists():
        known = {tuple(one["identity"]): one["outcome"] for one in json.loads(path.read_text())}
    if options.quick:
        suite = replace(suite, slow=())
    told = reasons()
    limits: tuple[float, float] | None = None
    todo = identified(suite.mutants(source), lines)
    outcomes = {key: (mutant.line, known[key]) for mutant, key in todo if key in known}
    begun = time.monotonic()
    for mutant, key in todo:
        fresh = key not in outcomes and mutant.number % options.every == 0
        bare = known.get(key) == "survived" and (name, *key) not in told
        if fresh or (options.again and bare):
            limits = limits or limits_of(module, suite)
            outcomes[key] = mutant.line, judge(module, suite, mutant, limits)
            write(path, outcomes)
    write(path, outcomes)
    counts = Counter(outcome for _, outcome in outcomes.values())
    print(name, dict(counts), f"{time.monotonic() - begun:.0f} s", flush=True)


def write(path: Path, outcomes: dict[tuple[str, ...], tuple[int, str]]) -> None:
    shown = [{"identity": key, "line": line, "outcome": outcome} for key, (line, outcome) in outcomes.items()]
    path.write_text("[\n" + ",\n".join(map(json.dumps, shown)) + "\n]\n", encoding="utf-8")


def reasons() -> dict[tuple[str, ...], str]:
    if not REASONS.exists():
        return {}
    with REASONS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        tuple(row[k] for k in ("module", "function", "line", "before", "after")): row["reason"]
        for row in rows
    }


def summarise() -> list[tuple[str, ...]]:
    """Write the summary and return the survivors without a reason."""
    told, bare, table = reasons(), [], []
    for name, suite in SUITES.items():
        path = RESULTS / f"{name}.json"
        if not path.exists():
            continue
        outcomes = json.loads(path.read_text(encoding="utf-8"))
        alive = [(name, *one["identity"]) for one in outcomes if one["outcome"] == "survived"]
        bare += [key for key in alive if key not in told]
        found = suite.mutants(path_of(f"privfit.{name}").read_text(encoding="utf-8"))
        table.append([name, len(found), len(outcomes), len(alive)])
    with (RESULTS / "summary.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["module", "mutants", "run", "survived"])
        writer.writerows(table)
    return bare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--modules", nargs="*", default=list(SUITES), help="as privacy.relation")
    parser.add_argument("--again", action="store_true", help="run survivors without a reason again")
    parser.add_argument("--every", type=int, default=1, help="run one mutant of so many")
    parser.add_argument("--quick", action="store_true", help="leave the slow tests out")
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    sys.dont_write_bytecode = False
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    for package in (*PRELOADED, *all_modules(ROOT / "src")):
        importlib.import_module(package)
    for name in options.modules:
        run_module(name, SUITES[name], options)
    bare = summarise()
    for key in bare:
        print("survived without a reason:", *key, sep=" | ")
    sys.exit(bool(bare))


if __name__ == "__main__":
    main()
