"""What the scikit-learn estimators share: from arguments and tables to a fit, and predictions."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from privfit._checks import FloatArray, optional, positive, sized, true_or_false
from privfit._progress import running
from privfit._sealed import sealed
from privfit.data.columns import unmasked
from privfit.data.covariates import NO_VALUE, open_covariates
from privfit.data.declarations import Level
from privfit.data.elsewhere import as_store, is_dask
from privfit.data.encode import AbstractEncoder, SchemaEncoder
from privfit.data.number_types import places_of_truths, refuse_text
from privfit.data.response import OF_NUMBERS
from privfit.data.schema import Schema, SchemaLike
from privfit.data.stores import AbstractRowStore
from privfit.data.stream import RowStream
from privfit.data.tables import (
    Table,
    in_order,
    names_of_array,
    open_table,
    single_column,
)
from privfit.data.unit_scale import UnitScaleEncoder
from privfit.errors import InvalidArgument, SchemaError
from privfit.estimators.budget import choose_budget
from privfit.estimators.fit import fit
from privfit.estimators.labels import need_response
from privfit.estimators.models import Model
from privfit.estimators.options import FitOptions
from privfit.estimators.response import (
    UNEQUAL,
    cells_of,
    none_of,
    one_dimensional,
    refuse_absent,
    undeclared,
    with_declared,
    with_response,
)
from privfit.estimators.scales import (
    PRIVATE,
    OpenBounds,
    bought_scales,
    bought_schema,
    bought_share,
    declared,
)
from privfit.estimators.shares import Beside, share_rule, with_roles
from privfit.estimators.without_schema import numbers_of, refuse_complex, refuse_declared, refuse_names
from privfit.inference.infer import BudgetSplit
from privfit.privacy.budget import Budget
from privfit.privacy.ledger import LedgerOrPath
from privfit.results import FitResult


class AbstractPrivateRegressor(BaseEstimator, ABC):
    """Arguments, fitting and the linear predictor of every estimator. Subclasses are final."""

    epsilon: float
    delta: float
    budget: Budget | None
    schema: SchemaLike | None
    solver: object
    fit_intercept: bool
    l2: float
    relation: str
    inference: bool | BudgetSplit
    norm_bound: float | None
    scale: object
    scale_share: float
    n_rows: int | None
    unit: str | None
    rows_per_unit: int
    weights: str | None
    weight_bound: float | None
    ledger: LedgerOrPath | None
    dataset: str | None
    random_state: object

    result_: FitResult
    coef_: FloatArray
    intercept_: FloatArray | float
    n_features_in_: int

    @abstractmethod
    def _model(self) -> Model:
        """Return the model that the arguments describe."""

    def _declared_classes(self, X: Any, y: Any) -> Sequence[Level] | None:
        """Return the labels of a response without a schema; None where it has no classes."""
        del X, y
        return None

    def _count_bound(self) -> float:
        """Return the public bound of a count response without a schema."""
        given = getattr(self, "count_bound", None)
        if given is None:
            raise InvalidArgument(
                "count_bound is needed without a schema: the largest count that is taken as it is"
            )
        return positive(count_bound=given)

    def _exposure(self) -> str | None:
        """Return the name of the column of exposures, for models that take one."""
        return None

    def __sklearn_tags__(self) -> Any:
        """Return the tags: rows with NaN contribute nothing to a fit, but there is no prediction for them."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.schema is None
        return tags

    @sealed
    @running("fitting")
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n, k), frame, path, RowStream, RowCache, or Dask array or DataFrame
            Rows. With a schema: a frame, a mapping of columns, a CSV or Parquet file, or an array of the
            predictors in the order of the schema. Where a frame has them in another, ``predict`` takes no
            array. A stream holds the response, too. Without a schema columns of true and false are
            indicators.
        y : array-like of shape (n,) or str, optional
            Response: numbers, counts or labels. With a schema it may be the name of a column of ``X``, or be
            left out where the schema marks the target; where it marks none, a series is the column whose name
            it has. Labels of which the schema says nothing are as without one: those that need no
            declaration, or ``classes``.
        sample_weight : array-like of shape (n,), optional
            Survey weights; ``weight_bound`` is then needed.
        groups : array-like of shape (n,), optional
            Identifiers of the persons that rows belong to: the privacy unit.

        Returns
        -------
        the estimator

        Raises
        ------
        PrivfitError
            A named subclass, in one line, before any budget is spent.
        """
        if self.schema is None:
            refuse_names(X, y)
            need_response(X, y)
        beside, share = Beside(groups, sample_weight), self._share_for_scales
        bounds = None
        if share is not None and self.schema is not None:
            bounds = OpenBounds.of(
                self.schema, share, unit=self.unit, weights=self.weights, exposure=self._exposure()
            )
        options = self._options(beside, bounds, y)
        model = self._model()
        y = cells_of(y) if isinstance(y, list | tuple) else unmasked(y)
        refuse_complex("y", y)
        classes = self._declared_classes(X, y) if undeclared(options.schema, y) else None
        store = as_store(X, None if isinstance(y, str) else y)
        if isinstance(X, RowStream):
            encoder, table = self._open_stream(X, y, model, options.schema, classes), X
        elif store is not None:
            beside.refuse_store()
            encoder, table = self._open_store(store, y, model, options.schema, classes), store
        elif options.schema is not None:
            encoder = self._schema_encoder(options.schema, y, model, classes)
            table = beside.join(self._open_with_schema(X, y, encoder, options, beside))
        else:
            encoder, opened = self._open_arrays(X, y, model, classes, self._fewest_rows(options))
            table = beside.join(opened)
        if bounds is not None:
            encoder_of = partial(self._schema_encoder, y=y, model=model, classes=classes)
            encoder, options = bought_schema(model, encoder_of, table, options, bounds)
        elif share is not None and isinstance(encoder, UnitScaleEncoder):
            encoder, options = bought_scales(model, encoder, table, options, share)
        options = replace(options, ordered=in_order(X, encoder.needed[:-1]))
        result, theta = fit(model, encoder, table, options)
        self._encoder, self._theta, self._ordered = encoder, theta, options.ordered
        self.result_ = result
        self._set_coefficients(result.estimate)
        return self

    @property
    def _share_for_scales(self) -> float | None:
        """The part of the budget by which bounds that are not declared are learned; None where none are."""
        share = bought_share(self.scale if self._residual_scale() is None else None, self.scale_share)
        if share is not None and self.norm_bound is not None:
            raise InvalidArgument(
                f"norm_bound: with scale={PRIVATE!r} columns are brought to [-1, 1]; leave it out"
            )
        return share

    def _residual_scale(self) -> float | None:
        """Return the public scale of residuals, for models that have one."""
        return None

    def _set_coefficients(self, reported: FloatArray) -> None:
        """Set ``coef_`` and ``intercept_`` from the reported coefficients."""
        self.intercept_ = float(reported[0]) if self.fit_intercept else 0.0
        self.coef_ = reported[1:] if self.fit_intercept else reported

    def _options(self, beside: Beside, bounds: OpenBounds | None, y: object) -> FitOptions:
        """Return the options of a fit; its schema has the widest bounds in place of those that are bought."""
        budget = choose_budget(self.epsilon, self.delta, self.budget)
        true_or_false(fit_intercept=self.fit_intercept)
        outline = None if self.schema is None else declared(self.schema, bounds)
        if outline is not None:
            refuse_declared(self, labels=not undeclared(outline, y))
        schema = with_roles(
            outline, unit=self.unit, weights=self.weights, exposure=self._exposure(), beside=beside
        )
        return FitOptions(
            budget=budget,
            solver=self.solver,
            relation=self.relation,
            l2=self.l2,
            inference=self.inference,
            n_rows=self.n_rows,
            ledger=self.ledger,
            dataset=self.dataset,
            schema=schema,
            random_state=self.random_state,
            shares=share_rule(schema, self.rows_per_unit, self.weight_bound, beside),
        )

    def _open_arrays(
        self, X: Any, y: Any, model: Model, classes: Sequence[Level] | None, fewest: int
    ) -> tuple[AbstractEncoder, Table]:
        """Return the encoder and the rows, of which there must be the ``fewest``."""
        numbers, truths = numbers_of(self, X, fewest=fewest), places_of_truths(X)
        response = one_dimensional(y)
        if len(response) != len(numbers):
            raise SchemaError(UNEQUAL)
        if model.target_kind in OF_NUMBERS:
            refuse_text(single_column("y", y))
        names = list(getattr(self, "feature_names_in_", [f"x{k}" for k in range(self.n_features_in_)]))
        encoder = self._unit_encoder(names, model, classes, [names[place] for place in truths])
        columns = [*((name, numbers[:, k]) for k, name in enumerate(names)), (encoder.needed[-1], response)]
        return encoder, Table(columns)

    def _fewest_rows(self, options: FitOptions) -> int:
        """Return how many rows scikit-learn asks for: none where their number is private."""
        return 2 if self.relation == "replace" and options.shares.unit is None else 0

    def _open_stream(
        self,
        stream: RowStream,
        y: object,
        model: Model,
        schema: Schema | None,
        classes: Sequence[Level] | None,
    ) -> AbstractEncoder:
        """Return the encoder of a stream, which holds the response, too."""
        if y is not None and (schema is None or not isinstance(y, str)):
            raise InvalidArgument(
                "y must be left out with a stream, whose batches hold it; with a schema it may be a name"
            )
        if schema is None:
            encoder = self._unit_encoder(stream.columns, model, classes)
        else:
            encoder = self._schema_encoder(schema, y, model, classes)
        self._set_features(encoder, named=schema is not None)
        return encoder

    def _open_store(
        self,
        store: AbstractRowStore,
        y: object,
        model: Model,
        schema: Schema | None,
        classes: Sequence[Level] | None,
    ) -> AbstractEncoder:
        """Return the encoder of rows that are encoded where they lie."""
        if schema is not None:
            encoder = self._schema_encoder(schema, y, model, classes)
        elif store.names is None:
            raise InvalidArgument("schema is needed to fit a file: it says what the columns are")
        else:
            if model.target_kind in OF_NUMBERS:
                refuse_text(none_of(y))
            encoder = self._unit_encoder(store.names, model, classes, store.truths)
        self._set_features(encoder, named=schema is not None or store.named)
        return encoder

    def _set_features(self, encoder: AbstractEncoder, *, named: bool) -> None:
        """Set the number of predictors and their names; without any, those of an earlier fit go."""
        names = encoder.needed[:-1]
        self.n_features_in_ = len(names)
        if named:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _unit_encoder(
        self,
        names: Sequence[str],
        model: Model,
        classes: Sequence[Level] | None,
        truths: Sequence[str] = (),
    ) -> UnitScaleEncoder:
        return UnitScaleEncoder(
            names,
            norm_bound=optional(sized, norm_bound=self.norm_bound),
            intercept=self.fit_intercept,
            target_kind=model.target_kind,
            classes=classes,
            target="y" if "y" not in names else "response",
            count_bound=self._count_bound() if model.target_kind == "count" else None,
            truths=truths,
        )

    def _schema_encoder(
        self, schema: Schema, y: object, model: Model, classes: Sequence[Level] | None
    ) -> SchemaEncoder:
        schema, target = with_declared(schema, y, classes)
        return SchemaEncoder(
            schema, target=target, intercept=self.fit_intercept, target_kind=model.target_kind
        )

    def _open_with_schema(
        self, X: Any, y: Any, encoder: SchemaEncoder, options: FitOptions, beside: Beside
    ) -> Table:
        given = {name for name, _ in beside.columns}
        counting = tuple(name for name in options.shares.columns if name not in given)
        counting += encoder.design.target.beside
        names = encoder.needed[:-1]
        if y is None or isinstance(y, str):
            table = open_table(X, needed=(*counting, *encoder.needed))
        else:
            if undeclared(options.schema, y):
                refuse_absent(X, names)
            opened = open_table(X, needed=(*counting, *names), columns=names_of_array("X", X, names))
            table = with_response(opened, encoder, y)
        self._set_features(encoder, named=True)
        return table

    def _linear_predictor(self, X: Any) -> FloatArray:
        """Return ``x'coefficients`` in the encoded response's unit, shape (n,)."""
        return self._encoded(X) @ self._theta

    def _responses(self, X: Any, y: Any) -> FloatArray:
        """Return numeric responses or counts as a fit reads them, on the scale of predictions; shape (n,).

        As in a fit they are a column of ``X`` where ``y`` is its name or None.
        """
        check_is_fitted(self, "result_")
        name = self._encoder.needed[-1]
        if isinstance(self._encoder, UnitScaleEncoder):
            need_response(None, y)
            refuse_names(None, y)
        elif y is None or isinstance(y, str):
            if y not in (None, name):
                raise SchemaError(f"y: the response of the fit is {name!r}, got {y!r}")
            return self._read(open_table(X, needed=(name,)))
        return self._read(Table([(name, single_column("y", y))]))

    def _read(self, table: Table) -> FloatArray:
        """Return the responses of a table, shape (n,); refuse missing ones, with which nothing compares."""
        target = self._encoder.design.target
        encoded = self._encoder.encode_target(table)
        if np.isnan(encoded).any():
            raise SchemaError(f"y holds a missing {'label' if target.labels else 'response'}; drop such rows")
        return target.center + target.half_width * encoded

    def _labels(self, X: Any, y: Any) -> NDArray[Any]:
        """Return the declared label that each cell matches in a fit, shape (n,)."""
        codes = self._responses(X, y)
        return np.array(self._encoder.design.target.labels)[codes.astype(np.int64)]

    def _encoded(self, X: Any) -> FloatArray:
        """Return the encoded rows, shape (n, p); refuse cells for which there is no prediction.

        As they were in the fit: arguments may have been set to others since.
        """
        check_is_fitted(self, "result_")
        if not isinstance(self._encoder, UnitScaleEncoder):
            if is_dask(X):
                raise SchemaError(
                    "a Dask collection is predicted where its rows lie: "
                    "X.map_partitions(model.predict, meta=...)"
                )
            table = open_covariates(X, self._encoder, "X", ordered=self._ordered)
            return self._encoder.encode_predictors(table)
        X = numbers_of(self, X, reset=False)
        if not np.isfinite(X).all():
            raise SchemaError(f"X holds a cell that is NaN or infinite, {NO_VALUE}")
        return self._encoder.encode_numbers(X)
