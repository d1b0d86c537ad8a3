"""For both kinds of tests: `pytest` on tests/ and `pytest --nbval-lax notebooks`."""

import os
import tempfile
from datetime import date
from pathlib import Path

import pytest

ROOT = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Notebooks find params/ from any folder; their dossiers go to a folder of this test run."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ["NEURONFIT_PRICES"] = "shipped"  # what this user has refreshed changes no test
    if "NEURONFIT_REPORTS" not in os.environ:
        config._neuronfit_reports = tempfile.TemporaryDirectory(prefix="neuronfit-reports-")
        os.environ["NEURONFIT_REPORTS"] = config._neuronfit_reports.name


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = getattr(config, "_neuronfit_reports", None)
    if folder is not None:
        os.environ.pop("NEURONFIT_REPORTS", None)
        folder.cleanup()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The summary is read first and run last: its notebook needs the records of the other eight."""
    items.sort(key=lambda item: item.path.name == "00_summary.ipynb")


@pytest.fixture(autouse=True)
def the_shipped_prices_are_young(monkeypatch: pytest.MonkeyPatch) -> None:
    """Age turns a price into a finding; a test must not turn red for it half a year later."""
    from neuronfit import cost

    monkeypatch.setattr(cost, "today", lambda: date(2026, 11, 30))
